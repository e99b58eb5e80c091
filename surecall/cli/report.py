"""`surecall report`: the page of a run, written again from its results."""

from pathlib import Path

import click

from surecall.cli.common import say
from surecall.cli.options import settled
from surecall.eval.report.page.files import write_report_at
from surecall.eval.storage.run_directories import LATEST, find_run, typed_errors


@click.command()
@click.argument("run", default=LATEST)
@click.option("-o", "--output", metavar="FILE", help="File to write.  [report.html of the run]")
@click.option("--runs", metavar="DIR", help="Where runs are kept, if not in the usual place.")
def command(*, run: str, output: str | None, runs: str | None) -> int:
    """Write the report of a run again, from its results.

    RUN is a name, a part of one, a path, or latest.
    """
    target = None if output is None else Path(output)
    say(str(write_report_at(run_directory(runs, run), target=target)))
    return 0


def run_directory(runs: str | None, name: str) -> Path:
    """Return the directory of a run, by any name that `find_run` accepts."""
    base = Path(settled({"output_dir": runs}).settings.output_dir)
    with typed_errors(Path(name)):
        return find_run(base, name)
