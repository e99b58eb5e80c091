"""The catalogue of personas: one for everything that can go wrong."""

import pytest

from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.behaviours import CONVERSATION_BEHAVIOURS
from surecall.simulator.personas.catalogue import PERSONAS, find, no_persona, preset_wanted
from surecall.simulator.personas.mixed import CHAT_ONLY
from surecall.simulator.personas.persona import (
    CURED,
    REPLY_BEHAVIOURS,
    outcome_of,
)
from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from tests.simulator.personas.test_persona import CLEAN


def test_there_is_a_persona_for_every_fault_behaviour_and_provider() -> None:
    wanted = [
        *SHAPE_FAULTS,
        *TRANSPORT_FAULTS,
        *REPLY_BEHAVIOURS,
        *CONVERSATION_BEHAVIOURS,
        *(f"strict-{name}" for name in PROVIDER_RULES),
    ]
    wanted.append("premature-no-required")
    assert {f"sim/{name}" for name in wanted} | {"sim/clean"} == {
        name for name, persona in PERSONAS.items() if persona.outcome != "mixed"
    } - {CHAT_ONLY.id}
    assert all(
        outcome_of(name)
        for name in (*SHAPE_FAULTS, *TRANSPORT_FAULTS, *REPLY_BEHAVIOURS, *CONVERSATION_BEHAVIOURS)
    )
    with pytest.raises(KeyError):
        outcome_of("unheard-of")


def test_a_persona_is_found_with_and_without_its_prefix_and_a_typo_is_answered() -> None:
    assert find("clean") is find("sim/clean") is CLEAN
    assert find("gpt-9") is None
    assert no_persona("cleanx").startswith('unknown persona "sim/cleanx"; did you mean "sim/clean"')
    assert preset_wanted(PERSONAS["sim/tags"]) is None
    assert preset_wanted(PERSONAS["sim/dialect-a17"]) == "content_tag_tool_call_fallback"
    assert (CLEAN.outcome, preset_wanted(CLEAN)) == (CURED, None)
