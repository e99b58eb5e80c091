"""Contracts and guided calls against every persona: each trial ends exactly as foreseen."""

import asyncio
from typing import Any

import pytest

from surecall.settings.presets import CONTRACT_STRATEGIES, Strategy
from surecall.simulator.personas.persona import Persona
from surecall.simulator.server import Simulator
from tests.support.persona_trials import (
    AT_ONCE,
    CHAT,
    QUOTE,
    everywhere,
    expected,
    in_state,
    in_tools,
    judged,
    only,
    setup_of,
    trials,
)

pytestmark = pytest.mark.slow

FURTHER: tuple[Strategy, ...] = ("contract", "guided", "guided_contract")
UNMET, UNFINISHED = "CONTRACT_UNMET", "ASSERTION_FAILED"


# What the further strategies change about what happens in production.
# After one reply, that is: it may have had both calls.
_STOPS_AFTER_ONE = everywhere(UNFINISHED, but=(CHAT, QUOTE, "tool_output_truncation", *AT_ONCE))
# Who is not told by a schema that there may be several calls makes one in a reply.
_ONE_CALL = only(UNFINISHED, *AT_ONCE)
CHANGED: dict[Strategy, dict[str, dict[str, str]]] = {
    "contract": {
        "circling": {},
        "lazy": in_tools(UNMET),
        "unmoved": in_tools(UNMET),
        "unwilling": in_tools(UNMET),
        "premature": {},
        "stubborn": only(UNMET, "long_arguments_guard"),
        # There, the contract knows the value that is wanted.
        "shortcut": {},
        # When the contract is met, no tool is offered any more.
        "obeys-injection": {},
        "sloppy": in_state(UNFINISHED) | only(UNMET, "long_arguments_guard"),
    },
    # A grammar makes the first call; after that nothing is owed any more.
    "guided": {
        "lazy": {},
        "no-tools": {},
        "circling": {},
        "unmoved": _STOPS_AFTER_ONE,
        "unwilling": _STOPS_AFTER_ONE,
        "premature": _STOPS_AFTER_ONE,
        "stubborn": only("TOOL_ERROR", "long_arguments_guard"),
        "formless": _ONE_CALL,
        # What repeats a document is asked about, and never runs.
        "obeys-injection": only("CALL_MISSING", QUOTE),
    },
    "guided_contract": {
        "formless": _ONE_CALL,
        "lazy": {},
        "no-tools": {},
        "circling": {},
        "unmoved": {},
        "unwilling": {},
        "premature": {},
        "stubborn": only(UNMET, "long_arguments_guard"),
        "shortcut": {},
        # When the contract is met, no tool is offered any more.
        "obeys-injection": {},
        "sloppy": in_state(UNFINISHED) | only("MAX_TURNS_EXCEEDED", "long_arguments_guard"),
    },
}


def foreseen(persona: Persona, scenario: str, strategy: Strategy) -> tuple[str, str]:
    """Predict a trial under one of the further strategies."""
    changed = CHANGED[strategy].get(persona.id.removeprefix("sim/"))
    status, category = expected(persona, scenario, "production")
    if changed is not None and scenario != CHAT:
        category = changed.get(scenario, "")
        status = "failed" if category else "passed"
    return status, category


@pytest.mark.parametrize("strategy", FURTHER)
def test_every_trial_under_a_further_strategy_ends_exactly_as_foreseen(
    simulator: Simulator, strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contracted(persona: Persona, name: Strategy) -> Any:
        return setup_of(persona, name, contracted=name in CONTRACT_STRATEGIES)

    monkeypatch.setattr("tests.support.persona_trials.setup_of", contracted)
    held = asyncio.run(trials(simulator.url, judged(), strategy))

    assert [
        (persona.id, one.key.scenario, one.status, one.category, one.error)
        for persona, one in held
        if (one.status, one.category) != foreseen(persona, one.key.scenario, strategy)
    ] == []
