"""Tests of `surecall.eval.report.report_files`."""

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from surecall.eval.report.page.page_files import load_report
from surecall.eval.report.report_files import (
    PARTIAL_REASON,
    junit_lines,
    load_results,
    missing_runs_notice,
    partial_notice,
    write_reports,
    write_trials,
)
from surecall.eval.report.run_results import SHEET_KEY, Sheet, SheetColumn, collect_results
from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import Invocation, RunStore, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, Trial
from tests.support.reports import invocation
from tests.support.spec import proves
from tests.support.trials import (
    CELL,
    CELLS,
    EVENTS,
    HOSTILE,
    SAME,
    lines,
    many,
    report_trial,
    series,
    sheet,
)

# The reports: equal to a recomputation, in the order of the plan, and safe against any text


@pytest.fixture
def filled(tmp_path: Path) -> RunStore:
    about = Invocation(config={SHEET_KEY: msgspec.to_builtins(sheet(*CELLS))})
    with open_or_resume(tmp_path / "base", {}, about) as opened:
        opened.add(report_trial(Cell(HOSTILE.replace("\ud800", ""))), lines(*EVENTS))
        for one in many():
            opened.add(one)
    return opened


@proves("C136")
def test_reports_can_be_made_again_from_the_store_alone(filled: RunStore) -> None:
    with open_for_reading(filled.directory) as store:
        written = write_reports(
            filled.directory, load_results(store), store.meta, has_trial_files=True
        )
        first = {path.name: path.read_bytes() for path in written}
        for path in written:
            path.unlink()
        write_reports(filled.directory, load_results(store), store.meta, has_trial_files=True)
        count = write_trials(filled.directory, load_results(store), store.trials(), store.trace)

    assert {path.name: path.read_bytes() for path in written} == first
    assert sorted(first) == [
        "junit.xml",
        "report.md",
        "summary.json",
        "summary_by_scenario.json",
        "summary_by_scenario_and_strategy.json",
    ]
    head = msgspec.json.decode(first["summary.json"])
    files = [
        msgspec.json.decode(path.read_bytes()) for path in (filled.directory / "trials").iterdir()
    ]
    assert count == len(files) == len(many()) + 1
    listed = [one for item in head["models"] for one in item["run_results"]]
    for one in listed:
        kept = msgspec.json.decode((filled.directory / one["report_path"]).read_bytes())
        same = ("model", "model_base", "scenario", "trial", "ok", "elapsed_ms", "error_category")
        assert {key: kept[key] for key in same} == {key: one[key] for key in same}
    assert sum(one["ok"] for one in files) == sum(item["ok"] for item in head["models"])
    assert sum(one["trace"] is not None for one in files) == 1
    assert sorted(path.name for path in filled.directory.parent.iterdir()) == [
        filled.directory.name
    ]


def test_a_directory_that_cannot_be_written_is_one_sentence(
    filled: RunStore, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with open_for_reading(filled.directory) as store:
        results, meta = load_results(store), store.meta
    with pytest.raises(StoreError, match="cannot use "):
        write_reports(tmp_path / "file", results, meta)
    with pytest.raises(StoreError, match="cannot use "):
        write_trials(tmp_path / "file", results, (), lambda _: None)


# Whether all that was planned is recorded, in the same words everywhere


OTHER = Cell("other")


def notices(base: Path, kept: list[Trial], **settings: object) -> tuple[str, str]:
    with open_or_resume(base, SAME, invocation(CELL, OTHER, **settings)) as store:
        for each in kept:
            store.add(each)
        write_reports(base, load_results(store), store.meta)
        page = " ".join(load_report(store).notices)
    (said,) = [
        line.removeprefix("**Note.** ")
        for line in (base / "report.md").read_text("utf-8").splitlines()
        if line.startswith("**Note.** ")
    ] or [""]
    return page, said


@pytest.mark.parametrize(
    ("trials", "settings", "said"),
    [
        ([], {}, "Partial: 6 of 6 planned runs are not recorded."),
        ([*series(".x"), *series("...", cell=OTHER)], {}, "Partial: 1 of 6 planned"),
        ([*series("..i"), *series("...", cell=OTHER)], {}, ""),
        ([*series("."), *series("sss", cell=OTHER)], {}, "Partial: 2 of 3 planned"),
        (series("." * 10), {"trials": "auto"}, "Partial: 10 of 20 planned"),
        ([], {"shard": [1, 4]}, ""),
        ([], {"trials": "some"}, ""),
    ],
)
def test_page_and_markdown_say_the_same_of_what_is_missing(
    tmp_path: Path, trials: list[Trial], settings: dict[str, object], said: str
) -> None:
    page, markdown = notices(tmp_path, trials, **settings)

    assert page == markdown
    assert page.startswith(said)
    assert page.endswith(PARTIAL_REASON) if said else not page


def test_a_run_that_is_complete_or_cannot_be_understood_is_not_called_partial() -> None:
    unreadable = Invocation(command=(), code="", config={"sheet": {"columns": 1}})

    assert partial_notice(0, 7) == ""
    assert missing_runs_notice([Invocation(command=(), code="", config={})], {}, {}) == ""
    assert missing_runs_notice([unreadable], {}, {}) == ""


def test_every_matrix_of_a_run_counts_and_of_each_the_last_command() -> None:
    more, less = invocation(CELL, trials=3), invocation(CELL, trials=1)
    other = invocation(OTHER, trials=2)
    place, there = (CELL, "happy_path"), (OTHER, "happy_path")

    assert missing_runs_notice([more, other], {place: 1, there: 2}, {}).startswith(
        "Partial: 2 of 5 "
    )
    assert missing_runs_notice([more, less, other], {place: 1, there: 2}, {}) == ""


# JUnit: failures and errors are told apart, and any text survives


def test_junit_tells_failures_from_errors_and_survives_any_text() -> None:
    cell = Cell(HOSTILE)
    made = [
        report_trial(cell, HOSTILE, 1, elapsed_ms=1500),
        report_trial(cell, HOSTILE, 2, "failed", error=HOSTILE, hint=HOSTILE),
        report_trial(cell, HOSTILE, 3, "infra"),
        report_trial(cell, HOSTILE, 4, "skipped", error="tools are off"),
    ]
    results = collect_results(Sheet((SheetColumn(cell, simulated=True),)), made)
    root = ET.fromstring("".join(junit_lines(results)).encode())  # noqa: S314 - our own text

    (suite,) = root
    counts = {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.500"}
    assert {key: suite.attrib[key] for key in counts} == root.attrib == counts
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [
        [],
        ["failure"],
        ["error"],
        ["skipped"],
    ]
    failure, error = cases[1][0], cases[2][0]
    assert "<script>\n[a](b)]]>" in str(failure.get("message"))
    assert (error.get("type"), error.get("message")) == ("TIMEOUT", "TIMEOUT")
    assert suite.find("properties/property[@name='simulated']") is not None


def test_the_lines_are_indented_as_a_whole_document_is() -> None:
    cells = (Cell("a"), Cell("b"))
    made = [
        report_trial(cell, "one", at, "failed" if at == 2 else "passed")
        for cell in cells
        for at in (1, 2)
    ]
    results = collect_results(
        Sheet((SheetColumn(cells[0], simulated=True), SheetColumn(cells[1]))), made
    )
    text = "".join(junit_lines(results))

    root = ET.fromstring(text)  # noqa: S314 - our own text
    ET.indent(root)
    assert text == ET.tostring(root, encoding="unicode") + "\n"


def test_a_run_without_trials_is_a_document_without_suites() -> None:
    root = ET.fromstring("".join(junit_lines(collect_results(Sheet(), []))))  # noqa: S314 - our own text

    assert (root.tag, list(root), root.get("tests")) == ("testsuites", [], "0")
