"""D17: every row of the quirk tables is a named scenario with a source, and ends as it says.

The tables are `docs/drift.md`, which is written from the code, and the sources in
`tests/corpus/known_sources.json`, which were collected before.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

from proof.chaos import Held, hold
from proof.claims import Claim, Outcome, gathered
from scripts.soak import LIMITS, config_for
from surecall import OpenAICompatible
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.faults.stream_fault import STREAM_FAULTS
from surecall.simulator.personas.persona import REPAIRED, RETRIED, Persona
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.simulator.server import Simulator
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.errors import Fault
from surecall.values.types import JSON, ToolSpec
from surecall.wire.dialects import WRITERS, recover
from tests.support import corpus
from tests.support.project_files import CORPUS, TESTS
from tests.support.replies import RECORDED, assembled, events_of, recorded

KINDS = 5
TOGETHER = 8


def attempt(size: int, seed: int) -> Outcome:
    """Look at every row, and hold `size` runs with each persona that has one quirk."""
    replies, known = corpus.load(), _json("known_sources.json")
    dialects = _json("dialects/rows.json")
    shapes = _json("dialects/shapes.json")["tools"]
    tools = [ToolSpec(tool["name"], "", tool["parameters"]) for tool in shapes]
    problems = [
        *_tried(replies, lambda name: corpus.check_case(replies[name], name)),
        *_tried(RECORDED, check_stream),
        *_tried(range(len(dialects)), lambda number: check_dialect(dialects[number], tools)),
        *table_failures(replies.values(), known, dialects),
        *conversation_failures(_json("conversations.json"), known),
    ]
    quirky = [one for one in PERSONAS.values() if one.kind == "drift" or is_bent_stream(one)]
    problems += asyncio.run(_runs(quirky, size, seed))
    rows = len(SHAPE_FAULTS) + len(STREAM_FAULTS) + len(WRITERS) + len(known["conversations"])
    cases = len(replies) + len(RECORDED) + len(dialects)
    return Outcome(
        f"{rows} rows: each with a persona or a test, and a source; {cases} recorded bodies, "
        f"streams and texts read as expected; {size} run(s) over HTTP with each of {len(quirky)} "
        "personas",
        rows + cases + size * len(quirky),
        gathered(problems),
        every=True,
        figures="each dialect of text calls has five texts instead of a source",
    )


def _json(name: str) -> Any:
    return json.loads((CORPUS / name).read_text("utf-8"))


def _tried(names: Iterable[Any], check: Callable[[Any], None]) -> list[str]:
    failures = []
    for name in names:
        try:
            check(name)
        except AssertionError as problem:
            failures.append(f"{name}: {str(problem) or 'it is read otherwise'}"[:300])
    return failures


def check_stream(name: str) -> None:
    """Check that a recorded stream has a source, and is read as expected."""
    stream, expected = recorded(name)
    first = stream.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    assert first.startswith(b": source: "), "it does not say where it is from"
    outcome, _ = assembled(events_of([stream]), **expected.get("given", {}))
    if "fault" in expected:
        assert isinstance(outcome, Fault), "it is read, and should not be"
        assert outcome.code == expected["fault"]["code"]
    else:
        assert not isinstance(outcome, Fault), outcome
        assert outcome["choices"] == [expected["choice"]]


def check_dialect(case: JSON, tools: list[ToolSpec]) -> None:
    """Check that calls in a dialect are read as they were written."""
    found = recover(case["text"], tools, weak=case["weak"])
    calls = [{"name": call.name, "arguments": call.arguments} for call in found.calls]
    assert calls == case["calls"], f"{case['row']}, {case['kind']}: read {calls}"


def table_failures(replies: Iterable[JSON], known: JSON, dialects: list[JSON]) -> list[str]:
    """Say which row has no scenario, no source or no recorded case."""
    seen = {case["source"] for case in replies}
    rows = {f"sim/{fault.id}": fault.sources for fault in SHAPE_FAULTS.values()}
    streamed = [fault for fault in TRANSPORT_FAULTS.values() if fault.stream_fault]
    rows |= {f"sim/{fault.id}": fault.sources for fault in streamed}
    rows |= {f"sim/dialect-{row.lower()}": ("a writer",) for row in WRITERS}
    failures = [f"{name} is no persona" for name in rows if name not in PERSONAS]
    failures += [f"{name} has no source" for name, sources in rows.items() if not sources]
    failures += [f"{source} has no case" for source in known["replies"] if source not in seen]
    for fault in SHAPE_FAULTS.values():
        failures += [f"{fault.id}: no case of {one}" for one in fault.sources if one not in seen]
    for row in WRITERS:
        if len([case for case in dialects if case["row"] == row]) != KINDS:
            failures.append(f"dialect {row} has not {KINDS} texts")
    return failures


def conversation_failures(conversations: list[JSON], known: JSON) -> list[str]:
    """Say which quirk of a whole run no test proves."""
    rows = {row["source"]: row["tests"] for row in conversations}
    failures = [f"{source} is not told" for source in known["conversations"] if source not in rows]
    for source, tests in rows.items():
        for name in tests or ["a test::that_is_missing"]:
            file, _, function = name.partition("::")
            path = TESTS / file
            if not path.exists() or f"def {function}(" not in path.read_text("utf-8"):
                failures.append(f"{source}: there is no {name}")
    return failures


def is_bent_stream(persona: Persona) -> bool:
    """Whether a persona bends its streams."""
    fault = TRANSPORT_FAULTS.get(persona.faults[0][0]) if persona.faults else None
    return persona.kind == "stream" and fault is not None and bool(fault.stream_fault)


async def _runs(personas: list[Persona], size: int, seed: int) -> list[str]:
    """Hold runs with each persona; what is repaired or retried ends well, nothing ends wrong."""
    gate = asyncio.Semaphore(TOGETHER)
    with Simulator(seed=seed) as simulator:
        async with OpenAICompatible(simulator.url, limits=LIMITS) as client:

            async def one(persona: Persona, number: int) -> list[str]:
                async with gate:
                    return await _run(client, persona, number)

            todo = [one(persona, number) for persona in personas for number in range(size)]
            return [failure for found in await asyncio.gather(*todo) for failure in found]


async def _run(client: OpenAICompatible, persona: Persona, number: int) -> list[str]:
    config = config_for(persona)
    streams = persona.kind == "stream"
    workspace = f"ws_{number}"
    held = await hold(client, workspace, config, streams=streams, model=persona.id)
    return judged(persona, held)


def judged(persona: Persona, held: Held) -> list[str]:
    """Say what a run did that its persona does not call for."""
    if held.trial.wrong or held.trial.silent:
        return [f"{persona.id}: ran {held.trial.ran}, ended with {held.trial.code or 'success'}"]
    if persona.outcome in {REPAIRED, RETRIED} and not held.trial.right:
        return [f"{persona.id} is {persona.outcome}, but the run ended with {held.trial.code}"]
    return []


CLAIM = Claim(
    "D17",
    "Every known quirk is a named scenario that ends as expected.",
    attempt,
    (1, 10, 50),
)
