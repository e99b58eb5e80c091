"""`surecall merge`: the shards of one evaluation, put together into one run."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import msgspec

from surecall.cli.common import note, say
from surecall.cli.listing import count
from surecall.cli.options import settled, with_settings
from surecall.cli.stored import changed_prompts, opened, write_stored
from surecall.eval.report.common import SHEET, sheet_in
from surecall.eval.report.files import results_in
from surecall.eval.storage.identity import differences, united
from surecall.eval.storage.store import Invocation, Store, StoreError, merge, open_or_resume


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--into", required=True, metavar="DIR", help="Where the merged run is kept.")
@with_settings("output_dir")
def command(*, runs: tuple[str, ...], into: str, **flags: Any) -> int:
    """Put the trials of several runs together, such as the shards of one evaluation.

    All must have been made with the same settings. DIR is a directory for runs, as eval's -o: the
    merged run in it is new, unless DIR has one of the same matrix already, which then grows.
    """
    base = settled(flags).settings.output_dir
    with ExitStack() as closing:
        sources = [closing.enter_context(opened(base, name)) for name in runs]
        _check_alike(sources)
        together = united(store.meta.identity for store in sources)
        target = closing.enter_context(open_or_resume(Path(into), together, _invocation(sources)))
        here = target.directory.resolve()
        added = merge([one for one in sources if one.directory.resolve() != here], target)
        write_stored(target, results_in(target), target.directory)
        say(str(target.directory))
        note(f"{count(added, 'trial')} added, {len(target)} in all")
    return 0


def _check_alike(sources: Sequence[Store]) -> None:
    """Refuse runs that do not fit together, before anything is written."""
    first, *others = sources
    for other in others:
        if found := differences(first.meta.identity, other.meta.identity):
            raise StoreError(
                f"{first.directory.name} and {other.directory.name} were made with different "
                f"settings, so they cannot be merged: {'; '.join(found)}"
            )
    if changed := changed_prompts(*(store.trials() for store in sources)):
        raise StoreError(f"not the same scenario in all runs: {', '.join(changed)}")
    codes = dict.fromkeys(store.meta.latest.code for store in sources)
    if len(codes) > 1:
        note(f"warning: the runs were made by different states of the program: {', '.join(codes)}")


def _invocation(sources: Sequence[Store]) -> Invocation:
    commands = sorted(
        (each for store in sources for each in store.meta.invocations),
        key=lambda each: each.started,
    )
    sheet = sheet_in(each.config for each in commands)
    return Invocation(
        command=("surecall", *sys.argv[1:]),
        code=commands[-1].code,
        config={SHEET: msgspec.to_builtins(sheet)},
    )
