"""`surecall compare`: two runs on the same conversations, and what is noise."""

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from surecall.cli.common import FAILED, NOTHING, WRONG_USAGE, complain, note, say
from surecall.cli.listing import count, rate_words, say_columns, say_document
from surecall.cli.options import settled, with_settings
from surecall.cli.stored import changed_prompts, opened
from surecall.eval.analysis.gain import change_sentence
from surecall.eval.analysis.outcomes import Outcomes
from surecall.eval.analysis.paired import Comparison, Comparisons, compare_runs
from surecall.eval.report.files import results_in
from surecall.eval.report.page.compare import VERDICTS, Side, render_comparison, verdict_of
from surecall.eval.storage.identity import differences
from surecall.eval.storage.run_directories import typed_errors, write_file
from surecall.eval.storage.trial import Cell
from surecall.values.types import JSON

_HEADS: Final = ("profile", "strategy", "difference", "A", "B", "fixed", "broken", "p (Holm)")


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@with_settings("output_dir")
@click.option(
    "--fail-on-regression", "gate", is_flag=True, help="Exit 1 when B is significantly worse."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--html", "page", metavar="FILE", help="Also write a page of the comparison to FILE.")
def command(
    *, first: str, second: str, gate: bool, as_json: bool, page: str | None, **flags: Any
) -> int:
    """Compare two runs on the conversations that both have, and tell change from noise.

    A and B are names, parts of names, paths, or latest. Fixed are trials that pass only in B,
    broken ones only in A. Rates are of the trials that both have; those over all cells are of one
    strategy each.
    """
    base = settled(flags).settings.output_dir
    before, after = _side(base, first), _side(base, second)
    if Path(before.directory).resolve() == Path(after.directory).resolve():
        return complain(_same(first, second, before.name), WRONG_USAGE)
    found = compare_runs(
        Outcomes(before.trials),
        Outcomes(after.trials),
        (before.name, after.name),
        (*before.cells, *after.cells),
    )
    if as_json:
        say_document(_document(before, after, found))
    else:
        _print(before, after, found)
    for remark in _remarks(before, after, found):
        note(remark)
    if page is not None:
        _write_page(Path(page), before, after, found)
    if not any(row.pairs for row in found.overall):
        return complain("the two runs have no trial in common that was judged in both", NOTHING)
    worse = [row for row in (*found.rows, *found.overall) if row.verdict() == "worse"]
    if gate and worse:
        return complain(f"significantly worse: {'; '.join(row.where for row in worse)}", FAILED)
    return 0


def _same(first: str, second: str, run: str) -> str:
    given = first if first == second else f"{first} and {second}"
    return (
        f"A and B are the same run, {run} (given as {given}), which has nothing to compare. Name "
        "two runs; `surecall ls runs` lists them."
    )


def _side(base: str, name: str) -> Side:
    with opened(base, name) as store:
        results = results_in(store)
        return Side(
            store.directory.name,
            str(store.directory),
            store.meta.identity,
            results.simulated,
            tuple(results.entries),
            tuple(store.trials()),
        )


def _print(before: Side, after: Side, found: Comparisons) -> None:
    for letter, side in (("A", before), ("B", after)):
        simulated = ", simulated" if side.simulated else ""
        note(f"{letter} = {side.name} ({count(len(side.trials), 'trial')}{simulated})")
    paired = [row for row in found.rows if row.pairs]
    overall = [row for row in found.overall if row.pairs]
    for row in overall:
        say(change_sentence(msgspec.structs.replace(row, first="A", second="B")))
    if overall:
        say("")
    model = "simulated model" if before.simulated or after.simulated else "model"
    say_columns(("verdict", model, *_HEADS), map(_row, [*paired, *overall]))


def _row(row: Comparison) -> tuple[str, ...]:
    first, second = row.rates
    sign, words, _ = VERDICTS[verdict_of(row)]
    return (
        f"{sign} {words}",
        row.model or "over all",
        row.profile,
        row.strategy,
        f"{row.difference or 0.0:+.1%} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]",
        rate_words(first.k, first.n, first.interval),
        rate_words(second.k, second.n, second.interval),
        str(row.fixed),
        str(row.broken),
        f"{row.p_adjusted:.3g}",
    )


def _write_page(path: Path, before: Side, after: Side, found: Comparisons) -> None:
    text = render_comparison(
        before,
        after,
        found,
        settings=tuple(differences(before.identity, after.identity)),
        notices=tuple(_unfair(before, after)),
    )
    with typed_errors(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
    note(f"the page is {path}")


def _remarks(before: Side, after: Side, found: Comparisons) -> Iterator[str]:
    """Say what keeps the comparison from being about everything, or from being fair."""
    for letter, side, other in (("A", before, after), ("B", after, before)):
        for cell in _missing(side.cells, other.cells):
            yield f"only in {letter}: {cell.model} {cell.profile} {cell.strategy}"
    yield from _left_out(found.overall)
    for difference in differences(before.identity, after.identity):
        yield f"made with different settings: {difference}"
    yield from _unfair(before, after)


def _unfair(before: Side, after: Side) -> Iterator[str]:
    """Say what makes the two runs hard to compare at all."""
    for name in changed_prompts(before.trials, after.trials):
        yield f"the scenario {name} is not the same in both runs"
    if before.simulated != after.simulated:
        yield "one run is simulated, the other is not: this says nothing about a model"


def _left_out(rows: Sequence[Comparison]) -> Iterator[str]:
    reasons = (
        (sum(row.unpaired for row in rows), "only one of the runs has {them}"),
        (sum(row.infra for row in rows), "the infrastructure spoiled {them} in one run or both"),
        (sum(row.skipped for row in rows), "{they} cannot apply"),
    )
    for number, reason in reasons:
        if number:
            they, them = ("it", "it") if number == 1 else ("they", "them")
            why = reason.format(they=they, them=them)
            yield f"left out of every rate: {count(number, 'trial')}, because {why}"


def _document(before: Side, after: Side, found: Comparisons) -> JSON:
    return {
        "first": _described(before),
        "second": _described(after),
        "rows": [_plain(row) for row in found.rows],
        "overall": [_plain(row) for row in found.overall],
        "only_in_first": _missing(before.cells, after.cells),
        "only_in_second": _missing(after.cells, before.cells),
        "different_settings": differences(before.identity, after.identity),
        "changed_scenarios": changed_prompts(before.trials, after.trials),
    }


def _missing(cells: Iterable[Cell], others: tuple[Cell, ...]) -> list[Cell]:
    return [cell for cell in cells if cell not in others]


def _described(side: Side) -> JSON:
    return {
        "run": side.name,
        "directory": side.directory,
        "trials": len(side.trials),
        "simulated": side.simulated,
    }


def _plain(row: Comparison) -> JSON:
    first, second = row.rates
    return {
        **msgspec.structs.asdict(row),
        "pairs": row.pairs,
        "first_rate": {"k": first.k, "n": first.n, "interval": first.interval},
        "second_rate": {"k": second.k, "n": second.n, "interval": second.interval},
        "verdict": VERDICTS[verdict_of(row)][1],
    }
