"""Tests of `surecall.runtime.session_factory`."""

import asyncio
import threading
from typing import Any

import pytest

from surecall import (
    AskFirst,
    ConfigError,
    Decision,
    Run,
    ToolLoopRunner,
    replay,
)
from surecall.testing import (
    ScriptedModel,
    calls,
    says,
)
from tests.support.conversations import ALL_THREE, ThreeTools
from tests.support.scripted_runs import by_approval_id
from tests.support.timing import until

# Runs that stop for a person: which calls wait, who may decide what, and how they go on


MISFIT = r"the new arguments of pay \(call_1\) are invalid: "


@pytest.mark.parametrize(
    ("about", "waiting", "did"),
    [
        ("destructive", ["pay"], ["look"]),
        ("writes", ["pay", "note"], ["look"]),
        ("everything", ["look", "pay", "note"], []),
    ],
)
def test_hints_say_which_calls_wait(about: Any, waiting: list[str], did: list[str]) -> None:
    till = ThreeTools()
    runner = till.runner(ALL_THREE, says("Done."), policy=AskFirst(about))
    result = runner.run_sync("Go.")

    assert [call.name for call in result.waiting] == waiting
    assert all(call.reason for call in result.waiting)
    assert till.did == did
    assert result.stop_reason == "waiting"
    assert "needs human approval: " in str(result.trace).splitlines()[-1]


def test_a_word_that_is_no_hint_is_refused() -> None:
    with pytest.raises(ConfigError, match="'dangerous' is not one of 'destructive', 'writes'"):
        AskFirst("dangerous")  # type: ignore[arg-type]


def test_a_run_goes_on_with_what_was_decided() -> None:
    till = ThreeTools()
    runner = till.runner(ALL_THREE, says("Done."))
    result = runner.run_sync("Go.")
    made = by_approval_id(result.run, {"call_2": Decision.approve()})
    result = runner.resume_sync(result.run, decisions=made)

    assert till.did == ["look", "pay 5", "note a"]
    assert result.assistant_text == "Done."
    assert result.run.decisions == {}


def test_where_calls_run_at_the_same_time_all_of_the_turn_wait() -> None:
    till = ThreeTools()
    script = (ALL_THREE, says("Done."))
    runner = till.runner(*script, request_overrides={"parallel_tool_calls": True})
    result = runner.run_sync("Go.")
    assert till.did == []
    made = by_approval_id(result.run, {"call_2": Decision.deny("No.")})
    result = runner.resume_sync(result.run, decisions=made)

    assert sorted(till.did) == ["look", "note a"]
    assert "This call is not permitted. No." in result.run.results[1].content


def test_without_a_decision_nothing_happens_and_nothing_is_sent() -> None:
    till = ThreeTools()
    runner = till.runner(calls("pay", euros=5))
    waiting = runner.run_sync("Go.")
    again = runner.resume_sync(waiting.run)

    assert again.run == waiting.run
    assert till.did == []
    assert replay(again.trace).run == again.run
    assert [type(event).__name__ for event in again.trace] == ["RunStartEvent", "RunPausedEvent"]


@pytest.mark.parametrize(
    ("decisions", "words"),
    [
        ({"call_9": Decision.approve()}, "no call with id 'call_9' needs"),
        ({"call_1": "yes"}, r"for pay \(call_1\) pass Decision.approve\(\)"),
        ({"call_1": Decision.confirm()}, r"pass Decision.approve\(\)"),
        ({"call_1": Decision("perhaps")}, r"pass Decision.approve\(\)"),  # type: ignore[arg-type]
        (
            {"call_1": Decision.replace({"euros": "5"})},
            MISFIT,
        ),
        (
            {"call_1": Decision.replace({"cents": 5})},
            MISFIT,
        ),
        ({"call_1": Decision.replace({"euros": float("nan")})}, MISFIT),
        ({"call_1": Decision.replace({"euros": object()})}, "cannot be encoded as JSON"),
        ({"call_1": Decision.replace([5])}, r"pass Decision.approve\(\)"),  # type: ignore[arg-type]
        ([Decision.approve()], "decisions must be a mapping"),
    ],
)
def test_a_decision_that_cannot_be_carried_out_is_refused_and_nothing_has_happened(
    decisions: Any, words: str
) -> None:
    till = ThreeTools()
    runner = till.runner(calls("pay", euros=5))
    run = runner.run_sync("Go.").run
    if isinstance(decisions, dict):
        decisions = by_approval_id(run, decisions)
    with pytest.raises(ConfigError, match=words):
        runner.resume_sync(run, decisions=decisions)
    with pytest.raises(ConfigError, match=words):
        asyncio.run(_watched(runner, run, decisions))

    assert till.did == []


async def _watched(runner: ToolLoopRunner, run: Run, decisions: Any) -> None:
    async for _ in runner.stream_resumed(run, decisions=decisions):
        pass


def test_a_call_that_waits_does_not_run_where_there_is_no_policy_either() -> None:
    till = ThreeTools()
    run = till.runner(calls("pay", euros=5)).run_sync("Go.").run
    lax = ToolLoopRunner(client=ScriptedModel(says("Done.")), model="m", tools=till.tools)

    assert lax.resume_sync(run).waiting
    assert till.did == []
    lax.resume_sync(run, decisions=by_approval_id(run, {"call_1": Decision.approve()}))
    assert till.did == ["pay 5"]


# What the runs of one runner share: the thread of blocking ones, and tools left running


def test_blocking_runs_share_one_thread_until_it_is_closed() -> None:
    sessions = ToolLoopRunner(client=ScriptedModel(), model="m")._sessions
    first = sessions.event_loop_thread()
    assert sessions.event_loop_thread() is first

    sessions.close()
    second = sessions.event_loop_thread()
    assert second is not first
    assert (first.is_alive, second.is_alive) == (False, True)
    sessions.close()


def test_a_tool_that_one_run_left_running_takes_a_place_in_the_next() -> None:
    gate, ended = threading.Event(), list[str]()

    def block(name: str) -> None:
        """Block until the gate opens."""
        gate.wait()
        ended.append(name)

    runner = ToolLoopRunner(
        client=ScriptedModel(
            calls("block", name="a"), says("one"), calls("block", name="b"), says("two")
        ),
        model="m",
        tools=[block],
        config={"tool_timeout_s": 0.001, "max_tools_left_running": 1},
    )
    codes = [asyncio.run(runner.run("Go.")).run.results[0].error_codes[0] for _ in range(2)]
    gate.set()
    until(lambda: ended)

    assert codes == ["TOOL_TIMEOUT", "TOO_MANY_LEFT_RUNNING"]
    assert ended == ["a"]
