"""`surecall merge`: merge runs, such as the shards of one evaluation."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from surecall.cli.console import ExitCode, print_note, print_text
from surecall.cli.options import load_settings, settings_options
from surecall.cli.target import changed_prompts, open_stored_run, write_run_reports
from surecall.eval.report.report_files import load_results
from surecall.eval.report.run_results import SHEET_KEY, merge_sheets
from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import (
    Invocation,
    RunStore,
    merge,
    merge_identities,
    open_or_resume,
    setting_differences,
)
from surecall.values.text import quantity


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--into", required=True, metavar="DIR", help="Directory for the merged run.")
@settings_options("output_dir")
def command(*, runs: tuple[str, ...], into: str, **flags: Any) -> ExitCode:
    """Merge several runs, such as the shards of one evaluation.

    All runs must have the same settings. DIR is a directory for runs, like --runs of eval. If it
    has a run with the same matrix, trials are added to that run; otherwise a new run is created.
    """
    base = load_settings(flags).settings.output_dir
    with ExitStack() as closing:
        sources = [closing.enter_context(open_stored_run(base, name)) for name in runs]
        _check_same_settings(sources)
        together = merge_identities(store.meta.identity for store in sources)
        target = closing.enter_context(
            open_or_resume(Path(into), together, _merge_invocation(sources))
        )
        here = target.directory.resolve()
        added = merge([one for one in sources if one.directory.resolve() != here], target)
        write_run_reports(target, load_results(target), target.directory)
        print_text(str(target.directory))
        print_note(f"added {quantity(added, 'trial')}, {len(target)} in total")
    return 0


def _check_same_settings(sources: Sequence[RunStore]) -> None:
    """Raise if the runs cannot be merged, before anything is written."""
    first, *others = sources
    for other in others:
        if found := setting_differences(first.meta.identity, other.meta.identity):
            raise StoreError(
                f"{first.directory.name} and {other.directory.name} have different settings and "
                f"cannot be merged: {'; '.join(found)}"
            )
    if changed := changed_prompts(*(store.trials() for store in sources)):
        raise StoreError(f"scenarios differ between the runs: {', '.join(changed)}")
    codes = dict.fromkeys(store.meta.latest.code for store in sources)
    if len(codes) > 1:
        print_note(
            f"warning: the runs were made with different versions of surecall: {', '.join(codes)}"
        )


def _merge_invocation(sources: Sequence[RunStore]) -> Invocation:
    commands = sorted(
        (each for store in sources for each in store.meta.invocations),
        key=lambda each: each.started,
    )
    sheet = merge_sheets(each.config for each in commands)
    return Invocation(
        command=("surecall", *sys.argv[1:]),
        code=commands[-1].code,
        config={SHEET_KEY: msgspec.to_builtins(sheet)},
    )
