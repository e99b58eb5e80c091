"""A proxy under load: each answer is judged by what was planned for it."""

import asyncio
from typing import Any

import msgspec
import pytest

from proof.proxy_process import State, proxy_process
from proof.proxy_soak import SETTINGS, Done, Load, gathered_stream, leaks, problem_with, waits
from proof.soak_upstream import Plan, message_of, pieces_of, plan_of, upstream_process

PLAN = Plan(7, streams=False, fault="", aborts=False, kind="call")
ERROR = {"error": {"message": "m"}}


def planned(**changes: Any) -> Plan:
    return msgspec.structs.replace(PLAN, **changes)


def whole(message: Any) -> Any:
    return {"choices": [{"message": message}]}


@pytest.mark.parametrize("kind", ["text", "call"])
@pytest.mark.parametrize("streams", [False, True])
def test_a_right_answer_is_right_plain_and_streamed(kind: str, *, streams: bool) -> None:
    plan = planned(kind=kind, streams=streams)
    data = b"".join(pieces_of(plan))
    body = gathered_stream(data) if streams else msgspec.json.decode(data)
    assert problem_with(plan, 200, body) == ""


@pytest.mark.parametrize(
    ("plan", "status", "body"),
    [
        (PLAN, 502, ERROR),
        (PLAN, 200, whole(message_of(planned(number=8)))),
        (PLAN, 200, whole({"content": "City 7"})),
        (PLAN, 200, whole({"tool_calls": message_of(PLAN)["tool_calls"] * 2})),
        (planned(kind="bent"), 200, whole(message_of(planned(kind="bent")))),
        (planned(kind="text"), 200, whole(message_of(planned(kind="text", number=8)))),
        (planned(fault="cut"), 200, whole(message_of(PLAN))),
        (planned(fault="cut"), 200, ERROR),
    ],
)
def test_a_wrong_answer_is_told(plan: Plan, status: int, body: Any) -> None:
    assert problem_with(plan, status, body) != ""


def test_a_fault_has_to_be_told_to_the_client() -> None:
    assert problem_with(planned(fault="reset"), 502, ERROR) == ""
    assert problem_with(planned(fault="cut", streams=True), 200, ERROR) == ""


def test_a_stream_without_its_end_is_no_answer() -> None:
    data = b"".join(pieces_of(planned(streams=True)))
    assert "cut" in gathered_stream(data.replace(b"data: [DONE]", b""))
    assert gathered_stream(b'data: {"error":{"message":"m"}}\n\n') == ERROR


def test_what_grows_or_stays_is_told() -> None:
    base = State(50, 50, 10, 2, 0.0)
    assert list(leaks(base, State(55, 60, 14, 2, 0.0), base)) == []
    assert list(leaks(base, State(55.5, 60, 15, 3, 0.0), base)) == [
        "memory grew by 5.5 MiB after the first quarter",
        "1 tasks are left",
        "5 descriptors are left",
    ]


def test_what_is_added_is_the_difference_to_the_upstream_itself() -> None:
    done = [Done(PLAN, direct, 10.0 if direct else 13.0) for direct in (True, False) * 5]
    assert waits(done) == {"median": 3.0, "p99": 3.0}
    assert waits(done[:1]) == {}


def test_the_plan_has_its_shares() -> None:
    plans = [plan_of(1, number) for number in range(4000)]
    assert plans[7] == plan_of(1, 7)
    assert 0.45 < sum(plan.streams for plan in plans) / 4000 < 0.55
    assert 0.08 < sum(bool(plan.fault) for plan in plans) / 4000 < 0.12
    assert 0.03 < sum(plan.aborts for plan in plans) / 4000 < 0.07
    assert {plan.fault for plan in plans} == {"", "busy", "reset", "cut", "garbage", "silent"}


@pytest.mark.processes
def test_a_few_requests_hold() -> None:
    with upstream_process(1) as upstream, proxy_process(upstream, **SETTINGS) as proxy:
        load = Load(1, proxy, upstream)
        asyncio.run(load.run(range(120), 200))
    assert [one.problem for one in load.done if one.problem] == []
    assert len(load.done) == 120
    assert any(one.direct for one in load.done)
