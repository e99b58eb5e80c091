"""What bounds a run: calls per turn and in all, unknown names, repetition, time."""

import asyncio
from typing import Any

import pytest

from surecall.core.outcome import LimitExceeded, RequestFailed, RunResult
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.connection import RetryPolicy
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, calls, calls_many, hangs, says
from surecall.tools.registry import ToolRegistry, tool
from surecall.values.errors import ErrorCode
from surecall.values.events import RequestRefusedEvent, ToolCallEndEvent
from surecall.values.types import JSON
from tests.support.spec import proves

THREE = calls_many(calls("count", n=1), calls("count", n=2), calls("count", n=3))
POLLS = [calls("poll", f"p{turn}") for turn in range(8)]


class Counter:
    """Tools that count, and one that may be called again and again."""

    def __init__(self) -> None:
        self.ran: list[Any] = []
        self.registry = ToolRegistry(
            [
                tool(read_only=True)(self.count),
                self.book,
                self.fail,
                self.slow,
                tool(repeatable=True)(self.poll),
            ]
        )

    def count(self, n: int) -> int:
        """Count."""
        self.ran.append(n)
        return n

    def book(self, room: int) -> str:
        """Book a room."""
        self.ran.append(f"book {room}")
        return f"booking {len(self.ran)}"

    def fail(self, why: str = "") -> None:
        """Fail."""
        self.ran.append(why)
        raise RuntimeError(why)

    async def slow(self, seconds: float = 9.0) -> str:
        """Take a while."""
        await asyncio.sleep(seconds)
        return "slept"

    def poll(self) -> str:
        """Ask whether it is ready."""
        self.ran.append("poll")
        return "not yet"

    def run(self, model: ScriptedModel, **settings: Any) -> RunResult:
        config = raw(**settings)
        runner = ToolLoopRunner(client=model, model="m", registry=self.registry, config=config)
        return asyncio.run(runner.run("hi"))


def stopped(counter: Counter, *script: Item, **settings: Any) -> LimitExceeded:
    with pytest.raises(LimitExceeded) as limit:
        counter.run(ScriptedModel(*script), **settings)
    return limit.value


def codes(result: RunResult) -> list[tuple[str, ...]]:
    return [item.error_codes for item in result.run.results]


def tool_messages(request: JSON) -> list[JSON]:
    return [message for message in request["messages"] if message["role"] == "tool"]


@proves("C70", "I9")
def test_without_parallel_calls_the_second_is_traced_and_answered_but_does_not_run() -> None:
    counter = Counter()
    both = calls_many(calls("count", "a", n=1), calls("fail", "b"))
    model = ScriptedModel(both, says("1"))
    result = counter.run(model, request_overrides={"parallel_tool_calls": False})
    assert counter.ran == [1]
    turn = result.trace.turns[0]
    assert [call.name for call in turn.tool_calls] == ["count"]
    assert turn.ignored_tool_calls_count == 1
    assert [(call.id, call.name) for call in turn.ignored_tool_calls] == [("b", "fail")]
    assert [message["tool_call_id"] for message in tool_messages(model.requests[1])] == ["a", "b"]
    assert codes(result) == [(), ("TOOL_CALL_NOT_EXECUTED",)]
    assert "again" in result.run.results[1].envelope["errors"][0]["message"]


@proves("C71", "C72", "C73")
@pytest.mark.parametrize(
    ("parallel", "limit", "ran"),
    [
        pytest.param(None, 2, [1, 2], id="explicit"),
        pytest.param(True, None, [1, 2, 3], id="parallel"),
        pytest.param(None, None, [1, 2, 3], id="no-limit"),
        pytest.param(False, 2, [1, 2], id="explicit-beats-implied"),
        pytest.param(False, None, [1], id="implied"),
    ],
)
def test_so_many_calls_of_a_turn_run(
    *, parallel: bool | None, limit: int | None, ran: list[int]
) -> None:
    counter = Counter()
    options = {} if parallel is None else {"parallel_tool_calls": parallel}
    settings = {"request_overrides": options, "max_tool_calls_per_turn": limit}
    result = counter.run(ScriptedModel(THREE, says("done")), **settings)
    # Calls that run at the same time may do so in any order.
    assert sorted(counter.ran) == ran
    assert result.trace.turns[0].ignored_tool_calls_count == 3 - len(ran)


def test_an_ignored_call_may_be_made_again_and_is_no_repetition() -> None:
    counter = Counter()
    both = calls_many(calls("poll"), calls("count", n=1))
    script = [both, both, both, calls("count", n=1), says("1")]
    result = counter.run(ScriptedModel(*script), max_tool_calls_per_turn=1)
    assert counter.ran == ["poll", "poll", "poll", 1]
    assert result.run.results[-1].envelope["warnings"] == []


@proves("G1")
def test_calls_beyond_the_total_do_not_run_and_end_the_run() -> None:
    counter = Counter()
    limit = stopped(counter, calls("count", n=0), THREE, max_total_tool_calls=3)
    assert counter.ran == [0, 1, 2]
    assert limit.code is ErrorCode.MAX_TOOL_CALLS_EXCEEDED
    assert codes(limit.result) == [(), (), (), ("TOOL_CALL_LIMIT",)]


def test_exactly_the_total_is_fine() -> None:
    result = Counter().run(ScriptedModel(THREE, says("6")), max_total_tool_calls=3)
    assert result.assistant_text == "6"


def test_calls_that_could_not_run_do_not_use_up_the_total() -> None:
    counter = Counter()
    script = (calls_many(calls("nope"), calls("count", n=1)), says("1"))
    counter.run(ScriptedModel(*script), max_total_tool_calls=1)
    assert counter.ran == [1]


@proves("G2")
def test_unknown_tools_are_bounded_over_the_whole_run() -> None:
    counter = Counter()
    script = [
        *(calls("nope", n=1), calls("count", n=1), calls("no", n=2)),
        *(calls("count", n=2), calls("nay")),
    ]
    limit = stopped(counter, *script, says("never"), max_unknown_tool_calls=2)
    assert limit.code is ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED
    assert len(limit.result.trace.turns) == 5
    assert counter.ran == [1, 2]
    assert counter.run(ScriptedModel(*script, says("ok"))).assistant_text == "ok"


def test_many_unknown_tools_in_one_turn_are_one_mistake() -> None:
    counter = Counter()
    many = calls_many(*(calls("nope", f"c{n}", n=n) for n in range(9)))
    script = (many, calls("count", n=1), says("ok"))

    assert counter.run(ScriptedModel(*script)).assistant_text == "ok"
    limit = stopped(counter, *script, max_unknown_tool_calls=0)
    assert limit.code is ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED
    assert len(limit.result.trace.turns) == 1


@proves("I18")
def test_the_same_call_again_and_again_is_noted_then_blocked_then_ends_the_run() -> None:
    counter = Counter()
    limit = stopped(counter, *[calls("fail", f"c{turn}", why="so") for turn in range(9)])
    assert counter.ran == ["so", "so"]
    assert limit.code is ErrorCode.LOOP_DETECTED
    assert limit.details == {"tool_name": "fail"}
    assert codes(limit.result) == [("INTERNAL_ERROR",)] * 2 + [("REPEATED_CALL",)] * 2
    first, second, third = (item.envelope for item in limit.result.run.results[:3])
    assert first["warnings"] == []
    assert "2 times" in second["warnings"][0]
    assert "3 times" in third["errors"][0]["message"]


def test_a_call_that_succeeds_again_and_again_is_blocked_more_patiently() -> None:
    counter = Counter()
    limit = stopped(counter, *[calls("count", f"c{turn}", n=1) for turn in range(9)])
    assert counter.ran == [1, 1]
    assert limit.code is ErrorCode.LOOP_DETECTED
    assert codes(limit.result) == [()] * 2 + [("REPEATED_CALL",)] * 4


def test_another_call_in_between_starts_the_count_anew() -> None:
    counter = Counter()
    script = [calls("count", n=n) for n in (0, 1, 0, 2, 0, 3, 0)]
    result = counter.run(ScriptedModel(*script, says("done")))
    assert counter.ran == [0, 1, 0, 2, 0, 3, 0]
    assert all(item.envelope["warnings"] == [] for item in result.run.results)


@pytest.mark.parametrize(("period", "noted", "ran"), [(2, 1, 4), (3, 1, 6), (4, 1, 8)])
def test_a_circle_of_any_period_is_a_loop(period: int, noted: int, ran: int) -> None:
    counter = Counter()
    script = [calls("count", n=turn % period) for turn in range(60)]
    limit = stopped(counter, *script, max_turns=50)

    assert limit.code is ErrorCode.LOOP_DETECTED
    assert counter.ran == [turn % period for turn in range(ran)], "the third round does not run"
    assert limit.result.run.turn_count == 3 * period
    notes = [item for item in limit.result.run.results if item.envelope["warnings"]]
    assert len(notes) == noted, "the call that closes the second round is told"
    assert f"in a cycle of {period} steps" in notes[0].content
    assert codes(limit.result)[ran:] == [("REPEATED_CALL",)] * period


def test_a_circle_with_a_call_that_is_meant_to_be_repeated_is_none() -> None:
    counter = Counter()
    script = [calls("count", n=1), calls("poll")] * 6
    counter.run(ScriptedModel(*script, says("ready")), max_turns=20)
    assert counter.ran == [1, "poll"] * 6


def test_talk_in_between_breaks_a_circle() -> None:
    counter = Counter()
    script = [calls("count", n=1), says("")] * 4
    counter.run(ScriptedModel(*script, says("done")), fix_empty_final_disable_tools=False)
    assert counter.ran == [1] * 4


def test_a_repeatable_tool_may_be_polled() -> None:
    counter = Counter()
    result = counter.run(ScriptedModel(*POLLS, says("ready")))
    assert counter.ran == ["poll"] * 8
    assert all(item.envelope["warnings"] == [] for item in result.run.results)


@pytest.mark.parametrize("spaced", ['{"n": 1}', '{ "n":1 }', '```json\n{"n": 1}\n```'])
def test_the_same_arguments_in_another_spelling_are_the_same_call(spaced: str) -> None:
    counter = Counter()
    respelt = calls("count")
    respelt["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = spaced
    script = (calls("count", n=1), respelt, calls("count", n=1), says("1"))
    result = counter.run(ScriptedModel(*script))
    assert counter.ran == [1, 1]
    assert codes(result)[2] == ("REPEATED_CALL",)


def test_unreadable_arguments_of_another_length_are_another_attempt() -> None:
    broken = [calls("count", f"c{turn}") for turn in range(7)]
    for turn, reply in enumerate(broken):
        function = reply["choices"][0]["message"]["tool_calls"][0]["function"]
        function["arguments"] = "{" + "x" * turn
    result = Counter().run(ScriptedModel(*broken, says("sorry")))
    assert result.assistant_text == "sorry"


def test_a_call_without_arguments_can_be_repeated_too() -> None:
    result = Counter().run(ScriptedModel(*[calls("fail")] * 3, says("sorry")))
    assert codes(result)[1:] == [("INTERNAL_ERROR",), ("REPEATED_CALL",)]


def test_a_call_that_never_can_run_is_a_loop_too() -> None:
    limit = stopped(Counter(), *[calls("count", f"c{turn}", n="one") for turn in range(9)])
    assert limit.code is ErrorCode.LOOP_DETECTED
    assert codes(limit.result) == [("ARGUMENT_ERROR",)] * 6


def test_a_repeated_call_is_the_models_slip_not_a_failed_tool() -> None:
    script = [calls("count", f"c{turn}", n=1) for turn in range(3)]
    result = Counter().run(ScriptedModel(*script, says("1")), tool_use_mode="enforced")
    assert codes(result)[2] == ("REPEATED_CALL",)


@proves("I16")
@pytest.mark.usefixtures("virtual")
def test_a_slow_tool_is_told_to_the_model_and_the_run_goes_on() -> None:
    model = ScriptedModel(calls("slow"), says("too slow"))
    result = Counter().run(model, tool_timeout_s=0.02)
    assert result.assistant_text == "too slow"
    assert codes(result) == [("TOOL_TIMEOUT",)]
    assert "0.02 s" in tool_messages(model.requests[1])[0]["content"]


@proves("I16")
@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param((hangs(9),), id="slow-model"),
        pytest.param((calls("slow"), says("never")), id="slow-tool"),
    ],
)
def test_a_slow_run_is_stopped_at_its_deadline(script: tuple[Item, ...]) -> None:
    counter = Counter()
    limit = stopped(counter, *script, run_deadline_s=0.05)
    assert limit.code is ErrorCode.DEADLINE_EXCEEDED
    assert counter.ran == []
    (refused,) = [event for event in limit.result.trace if isinstance(event, RequestRefusedEvent)]
    assert refused.fault.code is ErrorCode.DEADLINE_EXCEEDED


@pytest.mark.usefixtures("virtual")
def test_no_tool_is_started_after_the_deadline() -> None:
    late = calls_many(calls("slow"), calls("count", n=1), calls("nope"))
    limit = stopped(Counter(), late, run_deadline_s=1.0)
    slow, count, nope = limit.result.run.results
    assert (slow.executed, slow.error_codes) == (True, ("TOOL_TIMEOUT",))
    assert (count.executed, count.error_codes) == (False, ("TOOL_TIMEOUT",))
    assert "did not run" in count.content
    assert nope.error_codes == ("TOOL_NOT_ALLOWED",)


@pytest.mark.usefixtures("virtual")
def test_no_request_leaves_after_the_deadline() -> None:
    model = ScriptedModel(calls("slow"), says("never"))
    with pytest.raises(LimitExceeded) as limit:
        Counter().run(model, run_deadline_s=1.0)
    assert len(model.requests) == 1
    assert limit.value.result.stop_reason == "DEADLINE_EXCEEDED"


@pytest.mark.usefixtures("virtual")
def test_a_tool_that_slept_well_within_its_time_is_fine() -> None:
    result = Counter().run(ScriptedModel(calls("slow", seconds=0.01), says("ok")))
    (ended,) = [event for event in result.trace if isinstance(event, ToolCallEndEvent)]
    assert ended.ok
    assert ended.elapsed_ms == 10


def test_a_clients_own_timeout_is_not_taken_for_the_deadline() -> None:
    runner = ToolLoopRunner(
        client=ScriptedModel(TimeoutError("mine")), model="m", retry=RetryPolicy(attempts=1)
    )
    with pytest.raises(RequestFailed) as failed:
        asyncio.run(runner.run("hi"))
    assert failed.value.code is ErrorCode.CONNECTION_ERROR
    assert "TimeoutError" in str(failed.value)
