"""What the report says about early answers, builds, and further strategies."""

import re

from surecall.eval.report.common import Column, Sheet
from surecall.eval.report.page.data import Context, EarlyRow, Origin, Report, report_of
from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.words import MEANINGS
from surecall.eval.storage.trial import Cell, FalseFinals, Trial
from tests.eval.report.page.test_html import Page
from tests.eval.report.test_early_answers import BUILD, RAW, TRIALS
from tests.eval.running.test_matrix_strategies import GUIDED_HELPS
from tests.support.hostile import PAYLOADS
from tests.support.trials import CELL, trial


def page_of(trials: list[Trial], origin: Origin | None = None) -> tuple[Report, str]:
    report = report_of(trials, Context(origin=origin or Origin()))
    return report, " ".join(Page(render_page(report)).text.split())


def test_the_figures_are_those_of_the_summary() -> None:
    report, _ = page_of(TRIALS)

    assert report.early_answers == {
        "production": FalseFinals(5, 2, 1),
        "raw": FalseFinals(1, 1, 0),
    }
    assert report.early == (
        EarlyRow("happy_path", "production", FalseFinals(5, 2, 1)),
        EarlyRow("other", "raw", FalseFinals(1, 1, 0)),
    )
    assert {view.cell: view.false_finals.answers for view in report.cells} == {CELL: 5, RAW: 1}
    assert report.builds == (BUILD,)


def test_the_page_shows_them_beside_each_cell_and_by_scenario() -> None:
    _, text = page_of(TRIALS)

    assert "Early answers “Done.”" in text
    assert "5 in 2 runs" in text


def test_strategies_stand_beside_each_other_and_are_never_added_up() -> None:
    _, text = page_of([*TRIALS, trial(cell=Cell("m", strategy="guided"))])

    assert (
        "was met: under guided none; under production 5 answers in 2 runs, 1 of which passed in "
        "the end; under raw 1 answer in 1 run, 0 of which passed in the end. Without" in text
    )
    assert "Early answers, under production 5 in 2 runs" in text
    assert "Early answers, under guided 0" in text
    assert "6 answers" not in text
    one = page_of([each for each in TRIALS if each.key.cell == CELL])[1]
    assert "was met: 5 answers in 2 runs, 1 of which passed in the end. Without" in one
    assert "Early answers 5 in 2 runs" in one


def test_a_report_without_any_does_not_mention_them() -> None:
    _, text = page_of([trial(), trial("failed", 2)])

    assert "Early answers “Done.”" not in text
    assert not re.search("[0-9] early answer", text)
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
    report = report_of(hostile, Context(origin=Origin(served_by=PAYLOADS[0])))
    plain = report_of([trial()], Context())

    tags = [[name for name, _ in Page(render_page(each)).tags] for each in (report, plain)]
    assert [each.count("script") for each in tags] == [tags[1].count("script")] * 2
    assert tags[0].count("img") == tags[1].count("img")


def test_the_meaning_of_an_unmet_contract_is_told_in_plain_words() -> None:
    assert MEANINGS["CONTRACT_UNMET"] == (
        "The model said that it was done, but what had to be done was not."
    )
    _, text = page_of([trial("failed", category="CONTRACT_UNMET")])
    assert MEANINGS["CONTRACT_UNMET"] in text


def test_advice_names_the_strategy_that_is_better_than_the_reports_own() -> None:
    columns = tuple(Column(Cell("m", strategy=name)) for name in ("production", "guided_contract"))
    report = report_of(GUIDED_HELPS, Context(sheet=Sheet(columns)))
    text = " ".join(Page(render_page(report)).text.split())

    assert (report.strategy, report.tool.k) == ("production", 0)
    assert [each.decided_strategy for each in report.advice] == ["guided_contract"]
    assert "m with guided_contract 95.0%" in text
    assert 'strategy="guided_contract"' in text
    assert "38 of 40 instead of 0 of 40" in text
