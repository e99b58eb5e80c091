"""The plan of the faults is a function of the seed, and a drift really changes an answer."""

import msgspec
import pytest

from proof.chaos_server import Plan, place_of, spoilt
from scripts.soak import ASKED, GET, PATCH
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.personas.persona import say
from surecall.simulator.stream_events import without_streaming
from surecall.values.types import JSON


def _request(*, streams: bool) -> JSON:
    named = (("state_get", GET), ("state_patch", PATCH))
    tools = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name, schema in named
    ]
    asked = {"role": "user", "content": ASKED.format("ws_7")}
    return {"model": "sim/clean", "messages": [asked], "tools": tools, "stream": streams}


def _clean(request: JSON) -> JSON:
    body: JSON = say(PERSONAS["sim/clean"], without_streaming(request), 1).body
    return body


def test_a_request_names_its_run_and_how_far_it_has_come() -> None:
    assert place_of(_request(streams=False)) == ("ws_7", 1)


@pytest.mark.parametrize("streams", [False, True])
def test_the_same_seed_spoils_the_same_answers_in_the_same_way(*, streams: bool) -> None:
    plan, request = Plan(3, transport=0.5, drift=0.5), _request(streams=streams)
    clean = _clean(request)

    def told() -> list[bytes]:
        drawn = (plan.chance("ws_7", 1, attempt) for attempt in range(50))
        return [msgspec.json.encode(spoilt(plan, dice, clean, request)) for dice in drawn]

    assert told() == told()
    assert len(set(told())) > 20


def test_a_drift_changes_the_body_or_its_stream() -> None:
    plan, request = Plan(3, transport=0.0, drift=1.0), _request(streams=False)
    clean = _clean(request)
    for attempt in range(100):
        said, kind = spoilt(plan, plan.chance("ws_7", 1, attempt), clean, request)
        assert kind == "drift"
        assert said.body != clean


def test_without_a_share_nothing_is_spoilt() -> None:
    plan, request = Plan(3, transport=0.0, drift=0.0), _request(streams=True)
    clean = _clean(request)
    said, kind = spoilt(plan, plan.chance("ws_7", 1, 1), clean, request)
    assert (said.body, said.fault, kind) == (clean, "", "")
