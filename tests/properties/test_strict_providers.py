"""Every strict provider of the simulator, with the preset for it and nothing added by hand."""

import asyncio
from collections.abc import Iterator

import pytest

from surecall import (
    OpenAICompatible,
    RequestFailed,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    presets,
    tool,
)
from surecall.settings.presets import Strategy
from surecall.simulator import Simulator
from surecall.simulator.personas.persona import Persona
from tests.support.simulator import LEARNED, STRICT

# Every strategy that promises to adapt to a provider; `raw` promises nothing.
STRATEGIES: tuple[Strategy, ...] = ("baseline", "production", "guided")


@pytest.fixture(name="simulator", scope="module")
def simulator_fixture() -> Iterator[Simulator]:
    with Simulator(seed=11) as running:
        yield running


async def talked(url: str, model: str, config: ToolCallingConfig) -> tuple[RunResult, list[str]]:
    """Hold one conversation of three turns; return it with the tools that ran."""
    ran: list[str] = []

    @tool
    def state_get(workspace_id: str) -> dict[str, int]:
        """Read the state."""
        ran.append(f"state_get {workspace_id}")
        return {"version": 1}

    @tool
    def state_patch(workspace_id: str, request_id: str) -> dict[str, int]:
        """Change the state."""
        ran.append(f"state_patch {workspace_id} {request_id}")
        return {"version": 2}

    async with OpenAICompatible(url) as client:
        runner = ToolLoopRunner(
            client=client, model=model, registry=[state_get, state_patch], config=config
        )
        first = await runner.run("Please change the state. workspace_id=ws_1")
        second = await runner.run("And again. workspace_id=ws_2", history=first.history)
    return second, ran


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("persona", STRICT, ids=lambda persona: persona.id)
def test_a_preset_for_a_strict_provider_needs_nothing_added(
    simulator: Simulator, persona: Persona, strategy: Strategy
) -> None:
    config = presets.resolve(
        provider=persona.provider, model=persona.imitates or persona.id, strategy=strategy
    )
    simulator.violations.clear()
    result, ran = asyncio.run(talked(simulator.url, persona.id, config))

    assert result.assistant_text == "Done."
    assert ran == [
        "state_get ws_1",
        "state_patch ws_1 r1",
        "state_get ws_2",
        "state_patch ws_2 r1",
    ]
    refused = [seen.rule for seen in simulator.violations]
    assert refused == LEARNED.get((persona.id, strategy), [])


# Its refusal of a blank text beside calls does not say what it refuses.
MUTE = "sim/strict-zai"


@pytest.mark.parametrize(
    "persona",
    [persona for persona in STRICT if persona.id != MUTE],
    ids=lambda persona: persona.id,
)
def test_an_endpoint_that_nobody_knows_teaches_its_rules_by_refusing_once(
    simulator: Simulator, persona: Persona
) -> None:
    simulator.violations.clear()
    result, ran = asyncio.run(talked(simulator.url, persona.id, presets.resolve()))

    assert result.assistant_text == "Done."
    assert [call.split()[0] for call in ran] == ["state_get", "state_patch"] * 2
    refused = [seen.rule for seen in simulator.violations]
    assert len(refused) == len(set(refused)), "a rule is learned from one refusal"


def test_a_refusal_that_names_nothing_stays_an_error(simulator: Simulator) -> None:
    with pytest.raises(RequestFailed, match="not received normally"):
        asyncio.run(talked(simulator.url, MUTE, presets.resolve()))


def test_every_persona_that_names_a_provider_names_one_that_presets_know() -> None:
    for persona in STRICT:
        if persona.provider == persona.rules:
            adapted = presets.resolve(provider=persona.provider)
            assert adapted != presets.resolve(provider="an endpoint of my own"), persona.id
