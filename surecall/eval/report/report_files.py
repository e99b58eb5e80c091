"""Writes the report files of a run: JSON summaries, Markdown, JUnit XML, and single trials."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias
from xml.etree import ElementTree as ET

from surecall.eval.analysis.agreement import Agreement
from surecall.eval.analysis.recommendations import Recommendation, recommendation_row
from surecall.eval.analysis.summary import Totals
from surecall.eval.analysis.verdict_text import verdict_json, verdict_sentence
from surecall.eval.report.markdown import (
    AGREEMENT_FILE,
    agreement_json,
    agreement_section,
    markdown_report,
)
from surecall.eval.report.run_results import (
    RunResults,
    Sheet,
    TrialBrief,
    collect_results,
    merge_sheets,
    pretty_json,
)
from surecall.eval.report.summary_json import (
    TRIALS_FOLDER,
    summary_by_scenario,
    summary_by_scenario_and_strategy,
    summary_document,
    trial_json,
)
from surecall.eval.running.matrix import TRIALS_PER_ROUND
from surecall.eval.settings.value_parsers import AUTO
from surecall.eval.storage.run_directories import (
    make_private_folder,
    translate_os_errors,
    write_pieces,
)
from surecall.eval.storage.store import Invocation, RunMeta, RunStore
from surecall.eval.storage.trial import Cell, CellScenario, Key, Trial
from surecall.values.errors import ConfigError

CountsByScenario: TypeAlias = Mapping[CellScenario, int]
PARTIAL_REASON: Final = (
    "The evaluation was interrupted, ran out of budget, or is still running; repeat the command to "
    "continue it."
)


def partial_notice(missing: int, planned: int) -> str:
    """Return the notice that a run is incomplete; blank if it is complete."""
    if missing <= 0:
        return ""
    return f"Partial: {missing} of {planned} planned runs are not recorded."


def missing_runs_notice(
    invocations: Iterable[Invocation], recorded: CountsByScenario, skipped: CountsByScenario
) -> str:
    """Return the notice about missing runs, given the recorded counts.

    Among commands with the same cells and scenarios the last one counts. Skipped runs are recorded
    but are not part of the plan.
    """
    plans: dict[frozenset[CellScenario], int] = {}
    for invocation in invocations:
        places, trials = _planned_trials(invocation)
        plans[places] = trials
    wanted: dict[CellScenario, int] = {}
    for places, trials in plans.items():
        wanted |= {place: max(trials, wanted.get(place, 0)) for place in places}
    missing = sum(max(0, n - recorded.get(place, 0)) for place, n in wanted.items())
    left_out = sum(min(n, skipped.get(place, 0)) for place, n in wanted.items())
    return partial_notice(missing, sum(wanted.values()) - left_out)


def _planned_trials(invocation: Invocation) -> tuple[frozenset[CellScenario], int]:
    """Return the cells and scenarios of a command, and their trials; zero trials for a shard."""
    try:
        sheet = merge_sheets([invocation.config])
    except ConfigError:
        return frozenset(), 0
    trials = sheet.settings.get("trials")
    trials = TRIALS_PER_ROUND if trials == AUTO else trials
    places = frozenset((each.cell, name) for each in sheet.columns for name in sheet.scenarios)
    if not isinstance(trials, int) or sheet.settings.get("shard"):
        trials = 0
    return places, trials


# JUnit XML: a suite for each cell, a case for each trial. A failed trial is a failure; an
# infrastructure error is an error.

_INDENT: Final = "  "
_TAGS: Final = {"failed": "failure", "infra": "error", "skipped": "skipped"}
# XML allows only three control characters, even escaped, and no lone surrogates; it discourages
# the control characters from DEL on.
_INVALID_XML_CHARS: Final = dict.fromkeys(
    (
        *(set(range(0x20)) - {0x09, 0x0A, 0x0D}),
        *(set(range(0x7F, 0xA0)) - {0x85}),
        *range(0xD800, 0xE000),
        *(0xFFFE, 0xFFFF),
    )
)


def junit_lines(results: RunResults) -> Iterator[str]:
    """Yield the JUnit document of a run in pieces."""
    suites = (
        line
        for cell, entries in results.entries.items()
        for line in _suite_lines(results, cell, entries)
    )
    yield from _wrap_lines(
        ET.Element("testsuites", _suite_attributes(results.all_entries)), suites, 0
    )


def _suite_lines(results: RunResults, cell: Cell, entries: Sequence[TrialBrief]) -> Iterator[str]:
    """Yield the JUnit test suite of a cell."""
    label = xml_text(results.labels[cell])
    properties = ET.Element("properties")
    ET.SubElement(properties, "property", {"name": "simulated", "value": "true"})
    first = [properties] if results.columns[cell].simulated else []
    cases = (_case_element(label, entry) for entry in entries)
    suite = ET.Element("testsuite", {"name": label} | _suite_attributes(entries))
    yield from _wrap_lines(suite, (_element_text(each, 2) for each in chain(first, cases)), 1)


def _wrap_lines(element: ET.Element, inner: Iterator[str], level: int) -> Iterator[str]:
    """Yield an empty element around inner lines."""
    opening, _, closing = _element_text(element, level, short=False).rpartition("</")
    yield f"{opening}\n"
    yield from inner
    yield f"{_INDENT * level}</{closing}"


def _element_text(element: ET.Element, level: int, *, short: bool = True) -> str:
    """Return an XML element as indented text; `short` allows `<a />`."""
    ET.indent(element, level=level)
    text = ET.tostring(element, encoding="unicode", short_empty_elements=short)
    return f"{_INDENT * level}{text.rstrip()}\n"


def _suite_attributes(entries: Sequence[TrialBrief]) -> dict[str, str]:
    """Return the counts of a JUnit test suite, and its time."""
    found = {
        tag: sum(_TAGS.get(entry.status) == tag for entry in entries) for tag in _TAGS.values()
    }
    return {
        "tests": str(len(entries)),
        "failures": str(found["failure"]),
        "errors": str(found["error"]),
        "skipped": str(found["skipped"]),
        "time": _format_seconds(sum(entry.elapsed_ms for entry in entries)),
    }


def _case_element(label: str, entry: TrialBrief) -> ET.Element:
    name = xml_text(f"{entry.key.scenario} trial {entry.key.trial}")
    case = ET.Element(
        "testcase", {"classname": label, "name": name, "time": _format_seconds(entry.elapsed_ms)}
    )
    if not entry.ok:
        message = xml_text(entry.error or entry.category)
        found = ET.SubElement(case, _TAGS[entry.status], {"message": message})
        found.set("type", xml_text(entry.category))
        found.text = xml_text(entry.hint)
    return case


def _format_seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f}"


def xml_text(text: str) -> str:
    """Return the text without characters that XML does not allow."""
    return text.translate(_INVALID_XML_CHARS)


def load_results(store: RunStore) -> RunResults:
    """Return the results of a run."""
    return collect_results(load_sheet(store), store.trials())


def load_sheet(store: RunStore) -> Sheet:
    """Return the sheet of a run, combined from all its commands."""
    return merge_sheets([invocation.config for invocation in store.meta.invocations])


def write_reports(
    directory: Path,
    results: RunResults,
    meta: RunMeta,
    recommendations: Iterable[Recommendation] = (),
    *,
    has_trial_files: bool = False,
    agreements: Sequence[Agreement] = (),
) -> list[Path]:
    """Write the summaries, the Markdown report, and the JUnit file; return their paths.

    `has_trial_files` means that the trials are written there too, so the summary names their files.
    `agreements` compares endpoints with the reference, if there is one.
    """
    by_strategy = summary_by_scenario_and_strategy(results)
    # An endpoint comparison makes no recommendations: all endpoints serve the same model.
    advice = () if agreements else tuple(recommendations)
    whole = summary_document(
        results,
        ts=meta.created_at,
        output_dir=str(directory),
        has_trial_files=has_trial_files,
        verdict=verdict_json(advice) if advice else None,
    )
    notice = incomplete_notice(results.totals_by_cell, meta)
    rows, lead = map(recommendation_row, advice), agreement_section(agreements)
    text = markdown_report(results, rows, notice, lead, verdict_sentence(advice))
    files: dict[str, Iterable[bytes]] = {
        "summary.json": pretty_json(whole),
        "summary_by_scenario.json": pretty_json(summary_by_scenario(results)),
        "summary_by_scenario_and_strategy.json": pretty_json(by_strategy),
        "report.md": [text.encode("utf-8", "replace")],
        "junit.xml": (piece.encode() for piece in junit_lines(results)),
    }
    if agreements:
        files[AGREEMENT_FILE] = pretty_json(agreement_json(agreements, results.sheet.endpoints))
    with translate_os_errors(directory):
        for name, pieces in files.items():
            write_pieces(directory / name, pieces)
    return [directory / name for name in files]


def incomplete_notice(totals: Mapping[Cell, Totals], meta: RunMeta) -> str:
    """Return the notice about planned runs that are not recorded; blank if the run is complete."""
    counted = {
        (cell, each.scenario): each for cell, found in totals.items() for each in found.scenarios
    }
    found = {place: each.end_to_end.n + each.skipped for place, each in counted.items()}
    skipped = {place: each.skipped for place, each in counted.items()}
    notice = missing_runs_notice(meta.invocations, found, skipped)
    return f"{notice} {PARTIAL_REASON}" if notice else ""


def write_trials(
    directory: Path,
    results: RunResults,
    trials: Iterable[Trial],
    trace: Callable[[Key], bytes | None],
) -> int:
    """Write a file for each trial to the trials folder; return the number of files."""
    folder = directory / TRIALS_FOLDER
    count = 0
    with translate_os_errors(folder):
        make_private_folder(folder)
        for trial in trials:
            found = trial_json(results, trial, trace(trial.key))
            write_pieces(folder / results.file_name(trial.key), pretty_json(found))
            count += 1
    return count
