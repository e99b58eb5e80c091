"""Tests of `surecall.simulator.personas.persona_catalog`."""

import pytest

from surecall.settings.catalog import ModelCatalog
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.behaviors import CONVERSATION_BEHAVIORS
from surecall.simulator.personas.persona import (
    REPAIRED,
    REPLY_BEHAVIORS,
    fault_outcome,
)
from surecall.simulator.personas.persona_catalog import (
    CHAT_ONLY,
    IMITATIONS,
    PERSONAS,
    SHOWCASES,
    find_persona,
    required_preset,
    unknown_persona,
)
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from tests.support.simulator import CLEAN

# The catalogue of personas: one for everything that can go wrong


def test_there_is_a_persona_for_every_fault_behaviour_and_provider() -> None:
    wanted = [
        *SHAPE_FAULTS,
        *TRANSPORT_FAULTS,
        *REPLY_BEHAVIORS,
        *CONVERSATION_BEHAVIORS,
        *(f"strict-{name}" for name in PROVIDER_RULES),
    ]
    wanted.append("premature-no-required")
    assert {f"sim/{name}" for name in wanted} | {"sim/clean"} == {
        name for name, persona in PERSONAS.items() if persona.outcome != "mixed"
    } - {CHAT_ONLY.id}
    assert all(
        fault_outcome(name)
        for name in (*SHAPE_FAULTS, *TRANSPORT_FAULTS, *REPLY_BEHAVIORS, *CONVERSATION_BEHAVIORS)
    )
    with pytest.raises(KeyError):
        fault_outcome("unheard-of")


def test_a_persona_is_found_with_and_without_its_prefix_and_a_typo_is_answered() -> None:
    assert find_persona("clean") is find_persona("sim/clean") is CLEAN
    assert find_persona("gpt-9") is None
    assert unknown_persona("cleanx").startswith(
        'unknown persona "sim/cleanx"; did you mean "sim/clean"'
    )
    assert required_preset(PERSONAS["sim/tags"]) is None
    assert required_preset(PERSONAS["sim/dialect-a17"]) == "content_tag_tool_call_fallback"
    assert (CLEAN.outcome, required_preset(CLEAN)) == (REPAIRED, None)


# Personas with several faults at once


def test_those_shown_first_are_named_by_what_they_do_and_not_by_a_maker() -> None:
    makers = {entry.provider for entry in ModelCatalog.builtin().models}

    for persona in SHOWCASES:
        words = set(persona.id.removeprefix("sim/").split("-"))
        assert len(words) > 1
        assert not words & makers
        assert not persona.imitates
        assert persona.faults
        assert all(fault_outcome(fault) for fault, _ in persona.faults)
    assert len({persona.summary for persona in SHOWCASES}) == len(SHOWCASES)


def test_likenesses_say_that_they_are_simulations() -> None:
    assert len(IMITATIONS) >= 12
    assert all("simulation" in persona.summary and persona.faults for persona in IMITATIONS)


def test_every_mix_leaves_room_for_clean_replies() -> None:
    for persona in (*SHOWCASES, *IMITATIONS):
        # Manners are drawn for themselves; all other faults share one draw.
        shared = (rate for fault, rate in persona.faults if fault not in CONVERSATION_BEHAVIORS)
        assert sum(shared) < 1
