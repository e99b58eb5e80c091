"""What the report says about early answers, builds, and further strategies."""

import re

from surecall.eval.analysis.classification import MEANINGS
from surecall.eval.report.page.data import (
    Origin,
    PrematureAnswerRow,
    Report,
    ReportContext,
    build_report,
)
from surecall.eval.report.page.html import render_page
from surecall.eval.report.run_results import Sheet, SheetColumn
from surecall.eval.storage.trial import Cell, FalseFinals, Trial
from tests.support.hostile_texts import PAYLOADS
from tests.support.reports import BUILD, PREMATURE_TRIALS, RAW_CELL, Page
from tests.support.trials import CELL, GUIDED_HELPS, trial


def page_of(trials: list[Trial], origin: Origin | None = None) -> tuple[Report, str]:
    report = build_report(trials, ReportContext(origin=origin or Origin()))
    return report, " ".join(Page(render_page(report)).text.split())


def test_the_figures_are_those_of_the_summary() -> None:
    report, _ = page_of(PREMATURE_TRIALS)

    assert report.premature_answers == {
        "production": FalseFinals(5, 2, 1),
        "raw": FalseFinals(1, 1, 0),
    }
    assert report.premature_rows == (
        PrematureAnswerRow("happy_path", "production", FalseFinals(5, 2, 1)),
        PrematureAnswerRow("other", "raw", FalseFinals(1, 1, 0)),
    )
    assert {view.cell: view.totals.false_finals.answers for view in report.cells} == {
        CELL: 5,
        RAW_CELL: 1,
    }
    assert report.builds == (BUILD,)


def test_the_page_shows_them_beside_each_cell_and_by_scenario() -> None:
    _, text = page_of(PREMATURE_TRIALS)

    assert "Premature answers Final answers given" in text
    assert "5 in 2 runs" in text


def test_strategies_stand_beside_each_other_and_are_never_added_up() -> None:
    _, text = page_of([*PREMATURE_TRIALS, trial(cell=Cell("m", strategy="guided"))])

    assert (
        "was met: under guided none; under production 5 answers in 2 runs, 1 of which passed in "
        "the end; under raw 1 answer in 1 run, 0 of which passed in the end. Without" in text
    )
    assert "Premature answers, under production 5 in 2 runs" in text
    assert "Premature answers, under guided 0" in text
    assert "6 answers" not in text
    one = page_of([each for each in PREMATURE_TRIALS if each.key.cell == CELL])[1]
    assert "was met: 5 answers in 2 runs, 1 of which passed in the end. Without" in one
    assert "Premature answers 5 in 2 runs" in one


def test_a_report_without_any_does_not_mention_them() -> None:
    _, text = page_of([trial(), trial("failed", 2)])

    assert "Premature answers Final answers given" not in text
    assert not re.search("[0-9] premature answer", text)
    assert "Served by" not in text


def test_the_page_names_the_server_and_the_builds_that_answered() -> None:
    served = [
        trial(number=at, requests=[{"turn": 0, "latency_ms": 1, "attempt": 1, "build": name}])
        for at, name in enumerate([BUILD, "fp_a", "fp_b", "fp_c", "fp_d"], 1)
    ]
    _, text = page_of(served, Origin(served_by="llama.cpp b7710"))

    assert "Served by llama.cpp b7710" in text
    assert f"Builds {BUILD}, fp_a, fp_b and 2 more" in text
    assert f"Build {BUILD}" in page_of(served[:1])[1]


def test_what_a_server_says_of_itself_cannot_act() -> None:
    hostile = [
        trial(number=at, requests=[{"turn": 0, "latency_ms": 1, "attempt": 1, "build": text}])
        for at, text in enumerate(PAYLOADS[:3], 1)
    ]
    report = build_report(hostile, ReportContext(origin=Origin(served_by=PAYLOADS[0])))
    plain = build_report([trial()], ReportContext())

    tags = [[name for name, _ in Page(render_page(each)).tags] for each in (report, plain)]
    assert [each.count("script") for each in tags] == [tags[1].count("script")] * 2
    assert tags[0].count("img") == tags[1].count("img")


def test_the_meaning_of_an_unmet_contract_is_told_in_plain_words() -> None:
    assert MEANINGS["CONTRACT_UNMET"] == (
        "The model reported success, but required work was not done."
    )
    _, text = page_of([trial("failed", category="CONTRACT_UNMET")])
    assert MEANINGS["CONTRACT_UNMET"] in text


def test_advice_names_the_strategy_that_is_better_than_the_reports_own() -> None:
    columns = tuple(
        SheetColumn(Cell("m", strategy=name)) for name in ("production", "guided_contract")
    )
    report = build_report(GUIDED_HELPS, ReportContext(sheet=Sheet(columns)))
    text = " ".join(Page(render_page(report)).text.split())

    assert (report.strategy, report.headline.tool.k) == ("production", 0)
    assert [each.decided_strategy for each in report.advice] == ["guided_contract"]
    assert "m with guided_contract 95.0%" in text
    assert 'strategy="guided_contract"' in text
    assert "38 of 40 runs passed instead of 0 of 40" in text
