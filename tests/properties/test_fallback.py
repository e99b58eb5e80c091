"""Chains: wherever models fail, no effect is repeated, and what is sent stays legal."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surecall import (
    Fallback,
    OpenAICompatible,
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolLoopRunner,
    presets,
    replay,
    run_of,
    tool,
)
from surecall.runtime.replay import sent_requests
from surecall.simulator import Simulator
from surecall.testing import Item, ScriptedModel, calls, calls_many, failure, hangs_up, says
from surecall.values.errors import SurecallError
from surecall.values.events import ToolCallStartEvent
from surecall.values.trace import Trace
from tests.support.scripted_runs import assert_legal
from tests.support.simulator import LEARNED, STRICT

# These demand of every turn what only their own turns have: their ids, their seals.
JEALOUS = {"sim/strict-kimi", "sim/strict-sealed"}
OPEN = [persona for persona in STRICT if persona.id not in JEALOUS]
ONCE = RetryPolicy(attempts=1)
DOWN = failure(503)


def thinking(reply: Any, thought: str) -> Any:
    """Put opaque state into a copy of a reply."""
    reply = deepcopy(reply)
    message = reply["choices"][0]["message"]
    message["reasoning_content"] = thought
    for call in message.get("tool_calls", ()):
        call["extra_content"] = {"signature": thought}
    return reply


IDS = st.sampled_from(["call_1", "call_2", "x" * 70])
PAYMENTS = st.builds(lambda n, given: calls("pay", call_id=given, n=n), st.integers(0, 2), IDS)
REPLIES = st.one_of(
    PAYMENTS,
    st.builds(
        lambda one, other: calls_many(
            calls("pay", call_id=one, n=1), calls("pay", call_id=other, n=2)
        ),
        *(IDS, IDS),
    ),
    st.sampled_from([says("Done."), says(""), calls("nope"), calls("pay", n="?")]),
)
FAULTS = st.sampled_from([DOWN, failure(401), failure(400), failure(429), hangs_up()])
CHAINS = st.lists(st.lists(REPLIES | FAULTS, max_size=4), min_size=1, max_size=3)


class World:
    """What was paid, and the models that were asked."""

    def __init__(self, scripts: list[list[Item]]) -> None:
        self.paid: Counter[int] = Counter()
        self.models = [
            ScriptedModel(*(_of(place, item) for item in script), *[DOWN] * 20)
            for place, script in enumerate(scripts)
        ]

    def pay(self, n: int) -> str:
        """Pay."""
        self.paid[n] += 1
        return f"paid {n}"

    def runner(self, model: Any = None) -> ToolLoopRunner:
        links = [Fallback(f"m{at}", client=it) for at, it in enumerate(self.models)]
        return ToolLoopRunner(
            client=self.models[0],
            model=links if model is None else model,
            tools=[tool(self.pay)],
            retry=ONCE,
        )


def _of(place: int, item: Any) -> Any:
    return thinking(item, f"thought of {place}") if isinstance(item, dict) else item


def ended(runner: ToolLoopRunner, *resumed: Any) -> RunResult:
    try:
        return asyncio.run(runner.resume(*resumed) if resumed else runner.run("Pay."))
    except RunFailed as failed:
        return failed.result


@given(CHAINS)
@settings(max_examples=150)
def test_whatever_fails_no_effect_is_repeated_and_every_request_is_legal(
    scripts: list[list[Item]],
) -> None:
    world = World(scripts)
    result = ended(world.runner())

    assert all(times == 1 for times in world.paid.values())
    for place, model in enumerate(world.models):
        for request in model.requests:
            assert_legal(request)
            thoughts = {f"thought of {other}" for other in range(3) if other != place}
            assert not any(thought in str(request) for thought in thoughts)
    again = replay(result.trace)
    assert (again.run, again.models) == (result.run, result.models)
    assert all(request.exact for request in sent_requests(result.trace))


@given(st.lists(REPLIES, max_size=4))
@settings(max_examples=60)
def test_a_chain_whose_first_model_never_fails_is_that_model(script: list[Item]) -> None:
    whole = [*script, *[says("The end.")] * 12]
    alone, chained = World([whole]), World([whole, [says("Never.")]])
    one, other = ended(alone.runner("m0")), ended(chained.runner())

    assert alone.models[0].requests == chained.models[0].requests
    assert not chained.models[1].requests
    assert one.trace.digest == other.trace.digest
    assert (one.assistant_text, one.models) == (other.assistant_text, other.models)


@given(CHAINS)
@settings(max_examples=25)
def test_a_chain_that_is_cut_anywhere_goes_on_without_a_second_effect(
    scripts: list[list[Item]],
) -> None:
    world = World(scripts)
    events = list(ended(world.runner()).trace)
    for cut in range(1, len(events), 2):
        run = run_of(Trace(tuple(events[:cut])))
        fresh = World([[says("Done.")] for _ in scripts])
        fresh.paid = Counter(set(_paid_in(events[:cut])))
        result = ended(fresh.runner(), run)

        assert all(times == 1 for times in fresh.paid.values())
        assert {run.model} >= set(result.models)


def _paid_in(events: list[Any]) -> Iterator[int]:
    """Go through what may have been paid: what had begun, and could be run."""
    started = (event.call for event in events if isinstance(event, ToolCallStartEvent))
    yield from (call.arguments["n"] for call in started if call.is_runnable)


@pytest.fixture(name="simulator", scope="module")
def simulator_fixture() -> Iterator[Simulator]:
    with Simulator(seed=11) as running:
        yield running


@pytest.mark.parametrize("persona", OPEN, ids=lambda persona: persona.id)
def test_a_strict_provider_takes_over_what_another_one_began(
    simulator: Simulator, persona: Any
) -> None:
    began = thinking(calls("state_get", call_id="odd id: 1", workspace_id="ws_1"), "thought of a")
    config = presets.resolve(provider=persona.provider, model=persona.imitates or persona.id)
    link = Fallback(persona.id, client=OpenAICompatible(simulator.url), config=config)
    ran: list[str] = []

    def state_get(workspace_id: str) -> dict[str, int]:
        """Read the state."""
        ran.append(f"get {workspace_id}")
        return {"version": 1}

    def state_patch(workspace_id: str, request_id: str) -> dict[str, int]:
        """Change the state."""
        ran.append(f"patch {workspace_id} {request_id}")
        return {"version": 2}

    simulator.violations.clear()
    runner = ToolLoopRunner(
        client=ScriptedModel(began, DOWN),
        model=["a", link],
        tools=[state_get, state_patch],
        retry=ONCE,
    )
    result = asyncio.run(runner.run("Please change the state. workspace_id=ws_1"))

    assert result.assistant_text == "Done."
    assert result.models == ("a", persona.id)
    assert ran == ["get ws_1", "patch ws_1 r1"]
    refused = [seen.rule for seen in simulator.violations]
    assert refused == LEARNED.get((persona.id, "production"), [])


def test_a_key_reaches_no_address_but_its_own() -> None:
    one = OpenAICompatible("https://a.example", "sk-one")
    with pytest.raises(SurecallError, match="would go to"):
        ToolLoopRunner(
            client=OpenAICompatible("https://api.openai.com", "sk-two"),
            model=["a", Fallback("b", provider="mistral")],
        )
    runner = ToolLoopRunner(client=one, model=["a", Fallback("b", client="http://127.0.0.1:9")])

    assert "sk-one" not in repr(runner.__dict__)
