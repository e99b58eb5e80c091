"""Writing the reports of a run: each file whole or not at all, everything from the store."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from surecall.eval.analysis.agreement import Agreement
from surecall.eval.report.agreement import AGREEMENT, agreement_document, section
from surecall.eval.report.common import Results, Sheet, results_of, sheet_in
from surecall.eval.report.junit import junit
from surecall.eval.report.markdown import report
from surecall.eval.report.pretty import pretty
from surecall.eval.report.summary_json import (
    TRIALS_FOLDER,
    summary,
    summary_by_scenario,
    summary_by_scenario_and_strategy,
)
from surecall.eval.report.trial_json import trial_document
from surecall.eval.report.unfinished import WHY, unfinished
from surecall.eval.storage.run_directories import make_folder, typed_errors, write_pieces
from surecall.eval.storage.store import Meta, Store
from surecall.eval.storage.trial import Key, Trial

MARKDOWN: Final = "report.md"
JUNIT: Final = "junit.xml"


def results_in(store: Store) -> Results:
    """Read the results of a run."""
    return results_of(sheet_of(store), store.trials())


def sheet_of(store: Store) -> Sheet:
    """Read what was planned for a run, by all commands that made it."""
    return sheet_in([invocation.config for invocation in store.meta.invocations])


def write_reports(
    directory: Path,
    results: Results,
    meta: Meta,
    recommendations: Iterable[Sequence[str]] = (),
    *,
    filed: bool = False,
    agreed: Sequence[Agreement] = (),
) -> list[Path]:
    """Write the summaries, the Markdown report and the JUnit file; return where they are.

    `filed` says that the trials are written there as well, so the summary names their files.
    `agreed` is how endpoints compare with the reference, if there is one.
    """
    by_strategy = summary_by_scenario_and_strategy(results)
    whole = summary(results, ts=meta.created, output_dir=str(directory), filed=filed)
    # Which model to use is another question than whether it is served alike.
    rows = () if agreed else recommendations
    text = report(results, rows, _notice(results, meta), section(agreed))
    files: dict[str, Iterable[bytes]] = {
        "summary.json": pretty(whole),
        "summary_by_scenario.json": pretty(summary_by_scenario(results)),
        "summary_by_scenario_and_strategy.json": pretty(by_strategy),
        MARKDOWN: [text.encode("utf-8", "replace")],
        JUNIT: (piece.encode() for piece in junit(results)),
    }
    if agreed:
        files[AGREEMENT] = pretty(agreement_document(agreed, results.sheet.endpoints))
    with typed_errors(directory):
        for name, pieces in files.items():
            write_pieces(directory / name, pieces)
    return [directory / name for name in files]


def missing_from(results: Results, meta: Meta) -> str:
    """Say what of a run is planned but not recorded; blank when it is complete."""
    found = Counter((entry.key.cell, entry.key.scenario) for entry in results.all)
    off = (entry.key for entry in results.all if entry.status == "skipped")
    return unfinished(meta.invocations, found, Counter((key.cell, key.scenario) for key in off))


def _notice(results: Results, meta: Meta) -> str:
    said = missing_from(results, meta)
    return f"{said} {WHY}" if said else ""


def write_trials(
    directory: Path,
    results: Results,
    trials: Iterable[Trial],
    trace: Callable[[Key], bytes | None],
) -> int:
    """Write a file for each trial, in a folder of their own; return how many there are."""
    folder = directory / TRIALS_FOLDER
    count = 0
    with typed_errors(folder):
        make_folder(folder)
        for trial in trials:
            found = trial_document(results, trial, trace(trial.key))
            write_pieces(folder / results.file_name(trial.key), pretty(found))
            count += 1
    return count
