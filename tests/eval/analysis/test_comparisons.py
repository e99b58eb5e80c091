"""Tests of `surecall.eval.analysis.comparisons`."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.comparisons import (
    Comparisons,
    ToolOutcomes,
    change_sentence,
    compare_runs,
    compare_strategies,
    count_pairs,
    format_points,
    overall_gains,
    sort_names,
)
from surecall.eval.analysis.stats import Rate, holm_adjust, mcnemar_p, newcombe_interval
from surecall.eval.analysis.summary import summarize
from surecall.eval.storage.trial import CONTROL, Cell, Key, Status, Trial
from tests.support.trials import rich_trials, series, trial

# Two strategies or two runs, pair by pair: what may be concluded, and what is only noise


def strategies(model: str, baseline: str, production: str) -> list[Trial]:
    cells = (Cell(model, strategy="baseline"), Cell(model, strategy="production"))
    return [*series(baseline, cell=cells[0]), *series(production, cell=cells[1])]


def test_strategies_are_compared_pair_by_pair() -> None:
    trials = [*strategies("m", "..xxxxxi.s.", "....xx.x..x")]

    (row,) = summarize(trials).comparisons.rows

    assert (row.model, row.profile, row.strategy) == ("m", "default", "")
    assert (row.first, row.second) == ("baseline", "production")
    assert (row.both, row.fixed, row.broken, row.neither) == (3, 3, 1, 2)
    assert (row.infra, row.skipped, row.unpaired) == (1, 1, 0)
    assert row.rates == (Rate(4, 9), Rate(6, 9))
    assert row.difference == pytest.approx(2 / 9)
    assert (row.low, row.high) == newcombe_interval(3, 3, 1, 2)
    assert row.p == mcnemar_p(3, 1)


def test_a_family_of_comparisons_is_corrected_as_a_whole() -> None:
    trials = [
        *strategies("a", "x" * 8, "." * 8),
        *strategies("b", "x" * 6, "." * 6),
        *strategies("c", "......", "......"),
        *series("..", cell=Cell("d", strategy="production")),
    ]

    found = summarize(trials, cells=[Cell("b", strategy="production")]).comparisons
    tested = [row for row in found.rows if row.pairs]

    assert [row.model for row in found.rows] == ["b", "a", "c", "d"]
    assert [row.p_adjusted for row in tested] == list(holm_adjust([row.p for row in tested]))
    assert (found.rows[3].unpaired, found.rows[3].difference) == (2, None)
    assert [row.verdict() for row in found.rows] == ["no evidence", "better"] + ["no evidence"] * 2
    (overall,) = found.overall
    assert (overall.model, overall.fixed, overall.unpaired) == ("", 14, 2)
    assert overall.p_adjusted == overall.p == mcnemar_p(14, 0)


def test_three_strategies_make_three_comparisons() -> None:
    trials = [
        each
        for name in ("production", "raw", "baseline", "own")
        for each in series("..", cell=Cell("m", strategy=name))
    ]

    found = compare_strategies(ToolOutcomes(trials))

    assert [(row.first, row.second) for row in found.overall] == [
        ("raw", "baseline"),
        ("raw", "production"),
        ("raw", "own"),
        ("baseline", "production"),
        ("baseline", "own"),
        ("production", "own"),
    ]


def test_one_strategy_alone_is_compared_with_nothing() -> None:
    assert summarize(series("..")).comparisons.rows == ()


def test_what_has_no_tools_is_no_part_of_a_comparison() -> None:
    chats = [trial(number=number, scenario="mine", tools=False) for number in (1, 2)]

    assert ToolOutcomes([*series("..", CONTROL), *chats]).cells == ()
    assert summarize([*chats, *strategies("m", "..", "xx")]).comparisons.overall[0].unpaired == 0


def test_two_runs_are_compared_on_what_both_have() -> None:
    before = [*series("......", cell=Cell("a")), *series(".", cell=Cell("gone"))]
    after = [*series("xxxxxx.", cell=Cell("a")), *series(".", cell=Cell("a", strategy="raw"))]

    found = compare_runs(ToolOutcomes(before), ToolOutcomes(after), ("old", "new"))

    assert [(row.model, row.strategy, row.unpaired) for row in found.rows] == [
        ("a", "production", 1),
        ("a", "raw", 1),
        ("gone", "production", 1),
    ]
    assert (found.rows[0].first, found.rows[0].second) == ("old", "new")
    assert [(row.scope, row.broken, row.unpaired) for row in found.overall] == [
        ("over all raw", 0, 1),
        ("over all production", 6, 2),
    ]
    assert found.rows[0].broken == 6
    assert found.rows[0].scope == "a default production"
    assert found.rows[0].verdict() == "worse"
    assert found.rows[0].verdict(alpha=0.01) == "no evidence"


def test_the_cells_of_two_runs_keep_the_order_asked_for() -> None:
    trials = [*series(".", cell=Cell("a")), *series(".", cell=Cell("b"))]
    found = compare_runs(ToolOutcomes(trials), ToolOutcomes(trials), cells=[Cell("b"), Cell("c")])

    assert [row.model for row in found.rows] == ["b", "a"]


def test_comparing_a_run_with_itself_finds_nothing() -> None:
    found = ToolOutcomes(rich_trials())

    overall = compare_runs(found, found).overall

    assert [row.strategy for row in overall] == ["baseline", "production"]
    for row in overall:
        assert (row.fixed, row.broken, row.difference) == (0, 0, 0.0)
        assert row.low < 0 < row.high
        assert row.verdict() == "no evidence"


def test_names_follow_a_known_order_then_the_alphabet() -> None:
    assert sort_names({"c", "a", "b"}, ("b", "x")) == ("b", "a", "c")


def test_a_p_exactly_at_the_level_is_no_evidence() -> None:
    (row,) = compare_runs(ToolOutcomes(series(".....")), ToolOutcomes(series("xxxxx"))).rows

    assert row.p_adjusted == 0.0625
    assert row.verdict(alpha=0.0625) == "no evidence"
    assert row.verdict(alpha=0.07) == "worse"


def test_verdict_and_interval_of_every_row_agree_also_after_the_correction() -> None:
    draw = random.Random(3)  # noqa: S311 - any numbers will do
    seen: Counter[str] = Counter()
    for _ in range(60):
        size = draw.randrange(3, 25)
        found = ToolOutcomes(
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


# What changed between two columns of the same conversations


RAW, PRODUCTION, GUIDED = (Cell("m", "default", each) for each in ("raw", "production", "guided"))


def compared(*trials: list[Trial]) -> Comparisons:
    return compare_strategies(ToolOutcomes(each for some in trials for each in some))


def test_the_first_is_compared_with_the_last() -> None:
    found = compared(
        series("x" * 12, cell=RAW),
        series("x" * 6 + "." * 6, cell=PRODUCTION),
        series("." * 12, cell=GUIDED),
    )
    gained = overall_gains(found)["m", "default"]

    assert (gained.first, gained.second, gained.fixed) == ("raw", "guided", 12)
    assert change_sentence(gained) == (
        "From raw to guided: 0 of 12 runs passed, then 12; +100 points (12 fixed, 0 broken); "
        "statistically significant."
    )


def test_what_may_be_chance_is_called_so() -> None:
    found = compared(series("x..", cell=RAW), series("..x", cell=PRODUCTION))

    said = change_sentence(overall_gains(found)["m", "default"])
    assert said.endswith("+0 points (1 fixed, 1 broken); not significant after correction.")


def test_where_every_conversation_ended_the_same_there_is_no_difference() -> None:
    found = compared(series("x..", cell=RAW), series("x..", cell=PRODUCTION))

    assert change_sentence(overall_gains(found)["m", "default"]) == (
        "From raw to production: 2 of 3 runs passed, then 2; no difference."
    )


def test_one_strategy_gains_nothing() -> None:
    assert overall_gains(compared(series("..", cell=RAW))) == {}


def test_two_runs_are_named_with_the_strategy() -> None:
    (row,) = compare_runs(
        ToolOutcomes(series("." * 8, cell=RAW)), ToolOutcomes(series("x" * 8, cell=RAW)), ("A", "B")
    ).overall

    assert format_points(row) == "-100 points"
    assert change_sentence(row).startswith("From A to B with raw: 8 of 8 runs passed, then 0; ")


# How trials ended, as ranges of their numbers: counted as if one by one


STATUSES: tuple[Status, ...] = ("passed", "failed", "infra", "skipped")
ENDS = st.dictionaries(st.integers(1, 12), st.sampled_from(STATUSES))
CELL = Cell("m")


def outcomes(ends: dict[int, Status], cell: Cell = CELL) -> ToolOutcomes:
    return ToolOutcomes(trial(status, number, cell=cell) for number, status in ends.items())


@given(ENDS, ENDS)
def test_trials_are_paired_by_their_number(
    first: dict[int, Status], second: dict[int, Status]
) -> None:
    name = trial().key.scenario
    wanted = Counter((first.get(at), second.get(at)) for at in first.keys() | second.keys())
    sides = [outcomes(each).by_scenario(CELL).get(name, {}) for each in (first, second)]

    assert +count_pairs(*sides) == wanted


@given(ENDS, ENDS)
def test_what_another_lacks_is_counted_by_cell_and_scenario(
    first: dict[int, Status], second: dict[int, Status]
) -> None:
    name = trial().key.scenario
    lacking = len(first.keys() - second.keys())

    assert outcomes(first).missing_from(outcomes(second)) == Counter({(CELL, name): lacking})
    assert outcomes(first, Cell("o")).missing_from(outcomes(second)).total() == len(first)


def test_only_scenarios_with_tools_count() -> None:
    found = ToolOutcomes([trial(), trial(number=2, scenario="mine", tools=False)])

    assert found.cells == (trial().key.cell,)
    assert list(found.by_scenario(trial().key.cell)) == [trial().key.scenario]
    found.add(Key(Cell("other"), "x", 1), "passed")
    assert len(found.cells) == 2
