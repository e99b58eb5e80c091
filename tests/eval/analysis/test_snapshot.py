"""The figures on record: they add up, and the rules agree with the verdicts written by hand."""

from collections import Counter
from typing import Any

import pytest

from surecall.eval.analysis.recommendations import (
    ProfileCandidate,
    interval_decision,
    observed_verdict,
)
from surecall.eval.analysis.stats import Rate
from surecall.eval.report.page.snapshot import HandVerdict, load_snapshot
from surecall.eval.storage.trial import CONTROL
from surecall.settings.catalog import ModelCatalog
from tests.support.reports import ADVICE, SNAPSHOT

# Chosen by hand against the figures.
HAND_PICKED = {"x-ai/grok-4.1-fast", "z-ai/glm-4.7-flash:nitro"}


def test_the_record_holds_every_cell_and_adds_up() -> None:
    assert len(SNAPSHOT.cells) == 29
    assert len({cell.model for cell in SNAPSHOT.cells}) == 17
    assert SNAPSHOT.tool == Rate(1002, 1160)
    assert SNAPSHOT.control == Rate(196, 290)
    assert load_snapshot() is SNAPSHOT


def test_the_record_by_scenario_adds_up_to_the_record_by_cell() -> None:
    tool = [each for each in SNAPSHOT.scenarios if each.id != CONTROL]
    (control,) = [each for each in SNAPSHOT.scenarios if each.id == CONTROL]

    assert sum(each.k for each in tool) == SNAPSHOT.tool.k
    assert sum(each.n for each in tool) == SNAPSHOT.tool.n
    assert Rate(control.k, control.n) == SNAPSHOT.control
    assert sum(each.k for each in SNAPSHOT.scenarios) == 1198


@pytest.mark.parametrize("scenario", SNAPSHOT.scenarios[:-1], ids=lambda each: each.id)
def test_the_misses_listed_for_cells_fit_the_record_by_scenario(scenario: Any) -> None:
    missed = scenario.n - scenario.k
    listed = sum(cell.misses.get(scenario.id, 0) for cell in SNAPSHOT.cells)
    unlisted = sum(
        cell.tool.n - cell.tool.k - sum(cell.misses.values())
        for cell in SNAPSHOT.cells
        if scenario.id not in cell.misses
    )

    assert listed <= missed <= listed + unlisted


@pytest.mark.parametrize("cell", SNAPSHOT.cells, ids=lambda cell: f"{cell.model} {cell.profile}")
def test_no_cell_lists_more_misses_than_it_has(cell: ProfileCandidate) -> None:
    missed = cell.tool.n - cell.tool.k

    assert sum(cell.misses.values()) <= missed
    assert sum(cell.causes.values()) <= missed
    assert bool(cell.misses) == bool(cell.causes) == bool(missed)


@pytest.mark.parametrize("hand", SNAPSHOT.verdicts, ids=lambda hand: hand.model)
def test_the_observed_rule_gives_the_verdict_written_by_hand(hand: HandVerdict) -> None:
    advice = ADVICE[hand.model]

    assert advice.verdict == hand.verdict
    assert advice.label == hand.label


def test_the_observed_rule_gives_fifteen_of_the_seventeen_profiles_chosen_by_hand() -> None:
    differing = {
        each.model for each in SNAPSHOT.verdicts if ADVICE[each.model].profile != each.profile
    }

    assert len(SNAPSHOT.verdicts) == 17
    assert differing == HAND_PICKED
    assert {each.model for each in SNAPSHOT.verdicts if each.remark} == HAND_PICKED


def test_the_two_other_choices_are_not_supported_by_the_figures() -> None:
    by_place = {(cell.model, cell.profile): cell for cell in SNAPSHOT.cells}
    grok = by_place["x-ai/grok-4.1-fast", "grok_default"]
    flash = by_place["z-ai/glm-4.7-flash:nitro", "glm_4_7_flash_tool_calling"]

    assert observed_verdict(grok) == "No"
    assert flash.tool == by_place[flash.model, "default"].tool
    assert flash.p95_ms > by_place[flash.model, "default"].p95_ms


def test_the_record_agrees_with_the_catalog() -> None:
    builtin = ModelCatalog.builtin()
    for hand in SNAPSHOT.verdicts:
        entry = builtin.find(hand.model)
        assert entry is not None
        assert entry.recommended == hand.verdict.casefold()
        assert entry.profiles == (hand.profile,)
        assert ADVICE[hand.model].workarounds == entry.workarounds


def test_ten_cells_of_the_record_leave_the_interval_rule_undecided() -> None:
    decisions = Counter(map(interval_decision, SNAPSHOT.cells))

    assert decisions == {"use": 12, "avoid": 7, "more trials": 8, "too close": 2}
