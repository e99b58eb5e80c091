"""A runner that is given no config heals: it is held against every persona catalogued as cured."""

import asyncio
from typing import NamedTuple

import pytest

from surecall import OpenAICompatible, RunFailed, ToolLoopRunner
from surecall.simulator import Simulator
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.personas.persona import CURED, Persona
from surecall.values.types import JSON

CURED_PERSONAS = [persona for persona in PERSONAS.values() if persona.outcome == CURED]
# Its refusal of a blank text beside calls does not say what it refuses, so nobody can learn from
# it. Only its address tells, and that is the simulator's here.
MUTE = {"sim/strict-zai"}
CONCURRENT = 8
MEANT = {"/draft/foo": "bar"}


class Ending(NamedTuple):
    """How one conversation ended, and what it has changed."""

    persona: str
    draft: JSON
    text: str
    code: str = ""

    @property
    def right(self) -> bool:
        return not self.code and self.draft == MEANT and self.text.startswith("Done.")

    @property
    def wrong_final(self) -> bool:
        return not self.code and not self.right

    def __str__(self) -> str:
        how = self.code or f"answered {self.text[:60]!r}"
        return f"{self.persona}: {how}, with {self.draft or 'nothing done'}"


async def conversation(client: OpenAICompatible, persona: Persona) -> Ending:
    """Have a draft changed; personas that are about streams are asked for one."""
    draft: JSON = {}

    async def state_get(workspace_id: str) -> JSON:
        """Read a workspace."""
        return {"workspace_id": workspace_id, "draft": draft}

    async def state_patch(workspace_id: str, request_id: str, ops: list[dict[str, str]]) -> str:
        """Change a workspace: each operation sets a path to a value."""
        draft.update({op["path"]: op["value"] for op in ops})
        return f"{request_id}: {workspace_id} has changed"

    runner = ToolLoopRunner(client=client, model=persona.id, tools=[state_get, state_patch])
    asked = "Please set the draft. workspace_id=ws_1"
    try:
        if persona.kind == "stream":
            stream = runner.stream(asked)
            _ = [event async for event in stream]
            result = stream.result
        else:
            result = await runner.run(asked)
    except RunFailed as failure:
        return Ending(persona.id, draft, failure.result.assistant_text, failure.code)
    return Ending(persona.id, draft, result.assistant_text)


async def all_of_them(url: str) -> list[Ending]:
    gate = asyncio.Semaphore(CONCURRENT)

    async def one(persona: Persona) -> Ending:
        async with gate:
            return await conversation(client, persona)

    async with OpenAICompatible(url) as client:
        return await asyncio.gather(*map(one, CURED_PERSONAS))


@pytest.mark.slow
def test_a_runner_without_a_config_gets_the_cured_personas_right() -> None:
    with Simulator(seed=1) as simulator:
        endings = asyncio.run(all_of_them(simulator.url))

    astray = "\n".join(str(ending) for ending in endings if not ending.right)
    assert [ending.persona for ending in endings if ending.wrong_final] == [], astray
    assert {ending.persona for ending in endings if not ending.right} == MUTE, astray
    assert len(endings) >= 154
