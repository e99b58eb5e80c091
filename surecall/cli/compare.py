"""`surecall compare`: compare two runs on the trials that both have."""

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from surecall.cli.console import (
    FAILED,
    NOTHING,
    WRONG_USAGE,
    ExitCode,
    print_columns,
    print_document,
    print_error,
    print_note,
    print_text,
    rate_with_interval,
)
from surecall.cli.options import load_settings, settings_options
from surecall.cli.tables import model_heading
from surecall.cli.target import changed_prompts, open_stored_run
from surecall.eval.analysis.comparisons import (
    Comparison,
    Comparisons,
    ToolOutcomes,
    change_sentence,
    compare_runs,
)
from surecall.eval.report.page.comparison_page import (
    VERDICT_STYLES,
    ComparedRun,
    render_comparison,
    row_verdict,
)
from surecall.eval.report.report_files import load_results
from surecall.eval.report.summary_json import comparison_json
from surecall.eval.storage.run_directories import translate_os_errors, write_file
from surecall.eval.storage.store import setting_differences
from surecall.eval.storage.trial import Cell
from surecall.values.text import quantity
from surecall.values.types import JSON


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@settings_options("output_dir")
@click.option(
    "--fail-on-regression", "gate", is_flag=True, help="Exit with 1 if B is significantly worse."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--html", "page", metavar="FILE", help="Also write the comparison to an HTML file.")
def command(
    *, first: str, second: str, gate: bool, as_json: bool, page: str | None, **flags: Any
) -> ExitCode:
    """Compare two runs and tell real changes from noise.

    A and B are names, parts of names, paths, or latest. Only trials in both runs count. Fixed
    trials pass only in B, broken trials only in A. Rates over all cells are per strategy.
    """
    base = load_settings(flags).settings.output_dir
    before, after = _load_compared_run(base, first), _load_compared_run(base, second)
    if Path(before.directory).resolve() == Path(after.directory).resolve():
        return print_error(_same_run_message(first, second, before.name), WRONG_USAGE)
    found = compare_runs(
        ToolOutcomes(before.trials),
        ToolOutcomes(after.trials),
        (before.name, after.name),
        (*before.cells, *after.cells),
    )
    if as_json:
        print_document(_json_document(before, after, found))
    else:
        _print_comparison(before, after, found)
    for remark in _remarks(before, after, found):
        print_note(remark)
    if page is not None:
        _write_page(Path(page), before, after, found)
    if not any(row.pairs for row in found.overall):
        return print_error("the runs have no scored trial in common", NOTHING)
    worse = [row for row in (*found.rows, *found.overall) if row.verdict() == "worse"]
    if gate and worse:
        return print_error(f"significantly worse: {'; '.join(row.scope for row in worse)}", FAILED)
    return 0


def _same_run_message(first: str, second: str, run_name: str) -> str:
    given = first if first == second else f"{first} and {second}"
    return (
        f"A and B are the same run, {run_name} (given as {given}). Name two runs; "
        "`surecall ls runs` lists them."
    )


def _load_compared_run(base: str, name: str) -> ComparedRun:
    with open_stored_run(base, name) as store:
        results = load_results(store)
        return ComparedRun(
            store.directory.name,
            str(store.directory),
            store.meta.identity,
            results.is_simulated,
            tuple(results.entries),
            tuple(store.trials()),
        )


def _print_comparison(before: ComparedRun, after: ComparedRun, comparisons: Comparisons) -> None:
    for letter, side in (("A", before), ("B", after)):
        simulated = ", simulated" if side.simulated else ""
        print_note(f"{letter} = {side.name} ({quantity(len(side.trials), 'trial')}{simulated})")
    paired = [row for row in comparisons.rows if row.pairs]
    overall = [row for row in comparisons.overall if row.pairs]
    for row in overall:
        print_text(change_sentence(msgspec.structs.replace(row, first="A", second="B")))
    if overall:
        print_text("")
    model = model_heading(simulated=before.simulated or after.simulated)
    heads = ("profile", "strategy", "difference", "A", "B", "fixed", "broken", "p (Holm)")
    print_columns(("verdict", model, *heads), map(_comparison_row, [*paired, *overall]))


def _comparison_row(row: Comparison) -> tuple[str, ...]:
    first, second = row.rates
    sign, words, _ = VERDICT_STYLES[row_verdict(row)]
    return (
        f"{sign} {words}",
        row.model or "overall",
        row.profile,
        row.strategy,
        f"{row.difference or 0.0:+.1%} [{100 * row.low:+.1f}, {100 * row.high:+.1f}]",
        rate_with_interval(first.k, first.n, first.interval),
        rate_with_interval(second.k, second.n, second.interval),
        str(row.fixed),
        str(row.broken),
        f"{row.p_adjusted:.3g}",
    )


def _write_page(
    path: Path, before: ComparedRun, after: ComparedRun, comparisons: Comparisons
) -> None:
    text = render_comparison(
        before,
        after,
        comparisons,
        settings=tuple(setting_differences(before.identity, after.identity)),
        notices=tuple(_unfairness_remarks(before, after)),
    )
    with translate_os_errors(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
    print_note(f"wrote {path}")


def _remarks(before: ComparedRun, after: ComparedRun, comparisons: Comparisons) -> Iterator[str]:
    """Yield what limits the comparison or makes it unfair."""
    for letter, side, other in (("A", before, after), ("B", after, before)):
        for cell in _cells_missing_from(side.cells, other.cells):
            yield f"only in {letter}: {cell.model} {cell.profile} {cell.strategy}"
    yield from _excluded_trials_remarks(comparisons.overall)
    for difference in setting_differences(before.identity, after.identity):
        yield f"the runs have different settings: {difference}"
    yield from _unfairness_remarks(before, after)


def _unfairness_remarks(before: ComparedRun, after: ComparedRun) -> Iterator[str]:
    """Yield what makes the comparison unfair."""
    for name in changed_prompts(before.trials, after.trials):
        yield f"scenario {name} differs between the runs"
    if before.simulated != after.simulated:
        yield "only one of the runs is simulated: this comparison says nothing about a model"


def _excluded_trials_remarks(rows: Sequence[Comparison]) -> Iterator[str]:
    """Yield how many trials are in no rate, for each reason."""
    reasons = (
        (sum(row.unpaired for row in rows), "only one of the runs has {them}"),
        (sum(row.infra for row in rows), "infrastructure errors made {them} invalid"),
        (sum(row.skipped for row in rows), "{they} cannot apply"),
    )
    for number, reason in reasons:
        if number:
            they, them = ("it", "it") if number == 1 else ("they", "them")
            why = reason.format(they=they, them=them)
            yield f"not in any rate: {quantity(number, 'trial')}, because {why}"


def _json_document(before: ComparedRun, after: ComparedRun, comparisons: Comparisons) -> JSON:
    return {
        "first": _compared_run_json(before),
        "second": _compared_run_json(after),
        "rows": _rows_json(comparisons.rows),
        "overall": _rows_json(comparisons.overall),
        "only_in_first": _cells_missing_from(before.cells, after.cells),
        "only_in_second": _cells_missing_from(after.cells, before.cells),
        "different_settings": setting_differences(before.identity, after.identity),
        "changed_scenarios": changed_prompts(before.trials, after.trials),
    }


def _cells_missing_from(cells: Iterable[Cell], others: tuple[Cell, ...]) -> list[Cell]:
    return [cell for cell in cells if cell not in others]


def _compared_run_json(run: ComparedRun) -> JSON:
    return {
        "run": run.name,
        "directory": run.directory,
        "trials": len(run.trials),
        "simulated": run.simulated,
    }


def _rows_json(rows: Iterable[Comparison]) -> list[JSON]:
    return [comparison_json(row) | {"verdict": VERDICT_STYLES[row_verdict(row)][1]} for row in rows]
