"""Two strategies or two runs, pair by pair: what may be concluded, and what is only noise."""

import random
from collections import Counter

import pytest

from surecall.eval.analysis.outcomes import Outcomes
from surecall.eval.analysis.paired import compare_runs, compare_strategies, in_order
from surecall.eval.analysis.stats import Rate, holm, mcnemar, newcombe
from surecall.eval.analysis.summary import summarise
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from tests.support.trials import rich_trials, series, trial


def strategies(model: str, baseline: str, production: str) -> list[Trial]:
    cells = (Cell(model, strategy="baseline"), Cell(model, strategy="production"))
    return [*series(baseline, cell=cells[0]), *series(production, cell=cells[1])]


def test_strategies_are_compared_pair_by_pair() -> None:
    trials = [*strategies("m", "..xxxxxi.s.", "....xx.x..x")]

    (row,) = summarise(trials).comparisons.rows

    assert (row.model, row.profile, row.strategy) == ("m", "default", "")
    assert (row.first, row.second) == ("baseline", "production")
    assert (row.both, row.fixed, row.broken, row.neither) == (3, 3, 1, 2)
    assert (row.infra, row.skipped, row.unpaired) == (1, 1, 0)
    assert row.rates == (Rate(4, 9), Rate(6, 9))
    assert row.difference == pytest.approx(2 / 9)
    assert (row.low, row.high) == newcombe(3, 3, 1, 2)
    assert row.p == mcnemar(3, 1)


def test_a_family_of_comparisons_is_corrected_as_a_whole() -> None:
    trials = [
        *strategies("a", "x" * 8, "." * 8),
        *strategies("b", "x" * 6, "." * 6),
        *strategies("c", "......", "......"),
        *series("..", cell=Cell("d", strategy="production")),
    ]

    found = summarise(trials, cells=[Cell("b", strategy="production")]).comparisons
    tested = [row for row in found.rows if row.pairs]

    assert [row.model for row in found.rows] == ["b", "a", "c", "d"]
    assert [row.p_adjusted for row in tested] == list(holm([row.p for row in tested]))
    assert (found.rows[3].unpaired, found.rows[3].difference) == (2, None)
    assert [row.verdict() for row in found.rows] == ["no evidence", "better"] + ["no evidence"] * 2
    (overall,) = found.overall
    assert (overall.model, overall.fixed, overall.unpaired) == ("", 14, 2)
    assert overall.p_adjusted == overall.p == mcnemar(14, 0)


def test_three_strategies_make_three_comparisons() -> None:
    trials = [
        each
        for name in ("production", "raw", "baseline", "own")
        for each in series("..", cell=Cell("m", strategy=name))
    ]

    found = compare_strategies(Outcomes(trials))

    assert [(row.first, row.second) for row in found.overall] == [
        ("raw", "baseline"),
        ("raw", "production"),
        ("raw", "own"),
        ("baseline", "production"),
        ("baseline", "own"),
        ("production", "own"),
    ]


def test_one_strategy_alone_is_compared_with_nothing() -> None:
    assert summarise(series("..")).comparisons.rows == ()


def test_what_has_no_tools_is_no_part_of_a_comparison() -> None:
    chats = [trial(number=number, scenario="mine", tools=False) for number in (1, 2)]

    assert Outcomes([*series("..", CONTROL), *chats]).cells == ()
    assert summarise([*chats, *strategies("m", "..", "xx")]).comparisons.overall[0].unpaired == 0


def test_two_runs_are_compared_on_what_both_have() -> None:
    before = [*series("......", cell=Cell("a")), *series(".", cell=Cell("gone"))]
    after = [*series("xxxxxx.", cell=Cell("a")), *series(".", cell=Cell("a", strategy="raw"))]

    found = compare_runs(Outcomes(before), Outcomes(after), ("old", "new"))

    assert [(row.model, row.strategy, row.unpaired) for row in found.rows] == [
        ("a", "production", 1),
        ("a", "raw", 1),
        ("gone", "production", 1),
    ]
    assert (found.rows[0].first, found.rows[0].second) == ("old", "new")
    assert [(row.where, row.broken, row.unpaired) for row in found.overall] == [
        ("over all raw", 0, 1),
        ("over all production", 6, 2),
    ]
    assert found.rows[0].broken == 6
    assert found.rows[0].where == "a default production"
    assert found.rows[0].verdict() == "worse"
    assert found.rows[0].verdict(alpha=0.01) == "no evidence"


def test_the_cells_of_two_runs_keep_the_order_asked_for() -> None:
    trials = [*series(".", cell=Cell("a")), *series(".", cell=Cell("b"))]
    found = compare_runs(Outcomes(trials), Outcomes(trials), cells=[Cell("b"), Cell("c")])

    assert [row.model for row in found.rows] == ["b", "a"]


def test_comparing_a_run_with_itself_finds_nothing() -> None:
    found = Outcomes(rich_trials())

    overall = compare_runs(found, found).overall

    assert [row.strategy for row in overall] == ["baseline", "production"]
    for row in overall:
        assert (row.fixed, row.broken, row.difference) == (0, 0, 0.0)
        assert row.low < 0 < row.high
        assert row.verdict() == "no evidence"


def test_names_follow_a_known_order_then_the_alphabet() -> None:
    assert in_order({"c", "a", "b"}, ("b", "x")) == ("b", "a", "c")


def test_a_p_exactly_at_the_level_is_no_evidence() -> None:
    (row,) = compare_runs(Outcomes(series(".....")), Outcomes(series("xxxxx"))).rows

    assert row.p_adjusted == 0.0625
    assert row.verdict(alpha=0.0625) == "no evidence"
    assert row.verdict(alpha=0.07) == "worse"


def test_verdict_and_interval_of_every_row_agree_also_after_the_correction() -> None:
    draw = random.Random(3)  # noqa: S311 - any numbers will do
    seen: Counter[str] = Counter()
    for _ in range(60):
        size = draw.randrange(3, 25)
        found = Outcomes(
            trial("passed" if draw.random() < chance else "failed", number=number, cell=cell)
            for model in ("m1", "m2")
            for strategy, chance in (("raw", 0.1), ("baseline", 0.5), ("production", 0.9))
            for cell in [Cell(model, "default", strategy)]
            for number in range(size)
        )
        compared = compare_strategies(found)
        for row in (*compared.rows, *compared.overall):
            seen[row.verdict()] += 1
            assert (row.low > 0 or row.high < 0) == (row.verdict() != "no evidence")

    assert seen["better"] > 20
    assert seen["no evidence"] > 20
