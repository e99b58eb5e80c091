"""Tests of `surecall.runtime.session`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from surecall import (
    ConfigError,
    Decision,
    ErrorCode,
    LimitExceeded,
    RunFailed,
    RunResult,
    ToolLoopRunner,
    ToolUseError,
    replay,
    run_of,
    tool,
)
from surecall.core.loop import next_move
from surecall.core.outcome import RequestFailed
from surecall.core.state import Run, RunTools
from surecall.runtime.hooks import AcceptFinal
from surecall.settings.config import REMIND, REQUIRE
from surecall.settings.contract import Contract
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, calls, failure, says
from surecall.values.events import (
    FinalObjectedEvent,
    ForcedContinuationEvent,
    RequestRefusedEvent,
    ToolCallEndEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import JSON, ToolCall
from tests.support.scripted_runs import PARALLEL, call_ids, many_calls, parallel_runner
from tests.support.timing import never

# A run that is cut short, cancelled or played again: what was done stays done


@pytest.mark.usefixtures("virtual")
def test_a_policy_that_breaks_ends_the_run_before_any_of_its_calls_begins() -> None:
    class Policy:
        def visible(self, *_: object) -> bool:
            return True

        async def authorize(self, call: ToolCall, _context: object) -> Decision:
            if call.arguments["number"] == 0:
                raise LookupError
            return Decision("allow")

    finished: list[int] = []

    @tool
    async def work(number: int) -> int:
        """Work."""
        await asyncio.sleep(0.01)
        finished.append(number)
        return number

    runner = ToolLoopRunner(
        client=ScriptedModel(many_calls("work", 3)),
        model="m",
        registry=[work],
        config=PARALLEL | {"policy_error_mode": "raise"},
        tool_policy=Policy(),
    )
    with pytest.raises(RunFailed) as failed:
        runner.run_sync("Go.")

    assert failed.value.code is ErrorCode.POLICY_ERROR
    assert finished == []
    assert call_ids(failed.value.result) == []
    assert replay(failed.value.result.trace).run == failed.value.result.run


@pytest.mark.usefixtures("virtual")
def test_a_parallel_run_is_replayed_whatever_was_first() -> None:
    @tool
    async def work(number: int) -> int:
        """Work, the later the shorter."""
        await asyncio.sleep(0.01 * (3 - number))
        return number

    result = parallel_runner(ScriptedModel(many_calls("work", 3), says("Done.")), work).run_sync(
        "Go."
    )
    ended = [event.result.call_id for event in result.trace if isinstance(event, ToolCallEndEvent)]

    assert ended == ["call_3", "call_2", "call_1"]
    assert call_ids(result) == ["call_1", "call_2", "call_3"]
    assert replay(result.trace).run == result.run


@pytest.mark.usefixtures("virtual")
def test_calls_that_were_answered_before_a_crash_do_not_run_again() -> None:
    ran: list[int] = []

    @tool(idempotent=True)
    async def work(number: int) -> int:
        """Work."""
        await asyncio.sleep(0.01 * (2 - number))
        ran.append(number)
        return number

    result = parallel_runner(ScriptedModel(many_calls("work", 2), says("Done.")), work).run_sync(
        "Go."
    )
    events = list(result.trace)
    first = next(at for at, event in enumerate(events) if isinstance(event, ToolCallEndEvent))
    crashed = run_of(Trace(tuple(events[: first + 1])))
    ran.clear()
    resumed = parallel_runner(ScriptedModel(says("Done.")), work).resume_sync(crashed)

    assert ran == [0]
    assert call_ids(resumed) == ["call_1", "call_2"]


@pytest.mark.usefixtures("virtual")
def test_cancelling_reaches_every_call_and_keeps_what_is_done() -> None:
    async def cancel() -> tuple[list[str], Any]:
        seen: list[str] = []
        started = asyncio.Event()

        @tool
        async def work(number: int) -> int:
            """Work."""
            if number == 0:
                return number
            try:
                if number == 2:
                    started.set()
                await never()
            except asyncio.CancelledError:
                seen.append(f"cancelled {number}")
                raise
            return number

        stream = parallel_runner(ScriptedModel(many_calls("work", 3)), work).stream("Go.")

        async def watch() -> None:
            async for _ in stream:
                pass

        task = asyncio.create_task(watch())
        await started.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return sorted(seen), stream.run

    seen, run = asyncio.run(cancel())

    assert seen == ["cancelled 1", "cancelled 2"]
    assert [item.call_id for item in run.results] == ["call_1"]
    move = next_move(run)
    assert isinstance(move, RunTools)
    assert [call.id for call in move.calls] == ["call_2", "call_3"]


# An application's say over the answer: objections, mistakes of the hook, and time


LADDER = {"final_ladder": (REMIND, REQUIRE)}


def get(key: str = "a") -> str:
    """Read."""
    return key


def wants(words: str) -> Callable[[RunResult], str | None]:
    """Object to every answer that does not say so."""
    return lambda result: None if words in result.assistant_text else f"It must say {words}."


async def objects_later(result: RunResult) -> str | None:
    await asyncio.sleep(0)
    return wants("three")(result)


def runner_of(model: ScriptedModel, hook: AcceptFinal | Any, **settings: Any) -> ToolLoopRunner:
    given: JSON = LADDER | settings
    return ToolLoopRunner(
        client=model,
        model="m",
        registry=[get],
        config=raw(**given),
        accept_final=hook,
    )


def ran(hook: AcceptFinal | Any, *script: Item, **settings: Any) -> tuple[RunResult, ScriptedModel]:
    model = ScriptedModel(*script)
    return asyncio.run(runner_of(model, hook, **settings).run("1 + 2?")), model


def fails(hook: AcceptFinal | Any, *script: Item, **settings: Any) -> RunFailed:
    with pytest.raises(RunFailed) as failed:
        ran(hook, *script, **settings)
    result = failed.value.result
    assert replay(result.trace).run == result.run
    return failed.value


def objections(trace: Trace) -> list[str]:
    return [event.reason for event in trace if isinstance(event, FinalObjectedEvent)]


@pytest.mark.parametrize("hook", [wants("three"), objects_later])
def test_an_objection_is_told_to_the_model_and_the_next_answer_may_count(hook: AcceptFinal) -> None:
    result, model = ran(hook, says("3"), says("three"))

    assert (result.assistant_text, result.stop_reason) == ("three", "final")
    assert model.requests[1]["messages"][-1] == {
        "role": "user",
        "content": "This answer cannot be accepted: It must say three. Correct it.",
    }
    assert objections(result.trace) == ["It must say three."]
    assert "answer not accepted: It must say three." in str(result.trace)


def test_an_answer_that_is_accepted_costs_nothing() -> None:
    result, model = ran(wants("3"), says("3"))

    assert len(model.requests) == 1
    assert objections(result.trace) == []


def test_the_hook_sees_what_the_run_has_come_to() -> None:
    seen: list[RunResult] = []

    def look(result: RunResult) -> None:
        seen.append(result)

    result, _ = ran(look, calls("get"), says("3"))
    assert [one.run for one in seen] == [result.run]
    assert seen[0].usage == result.usage
    assert (seen[0].assistant_text, seen[0].stop_reason) == ("3", "final")


def test_tools_can_be_called_after_an_objection() -> None:
    script = (says("3"), calls("get"), says("three"))
    result, _ = ran(wants("three"), *script, contract=None)

    assert [item.name for item in result.run.results] == ["get"]


def test_tools_come_back_after_an_objection_even_when_the_contract_is_met() -> None:
    script = (calls("get"), says("3"), calls("get", key="b"), says("three"))
    result, model = ran(wants("three"), *script, contract=Contract(all_of=("get",)))

    assert ["tools" in request for request in model.requests] == [True, False, True, True]
    assert result.assistant_text == "three"


def test_who_never_accepts_ends_the_run() -> None:
    failed = fails(wants("four"), *[says("3")] * 3)

    assert isinstance(failed, ToolUseError)
    assert not isinstance(failed, RequestFailed)
    assert failed.code is ErrorCode.CONTRACT_UNMET
    assert "the answer was not accepted: It must say four." in str(failed)
    assert failed.result.assistant_text == "3"
    assert len(objections(failed.result.trace)) == 3


def test_without_a_ladder_the_first_objection_is_the_last() -> None:
    failed = fails(wants("four"), says("3"), final_ladder=())

    assert failed.code is ErrorCode.CONTRACT_UNMET
    assert len(failed.result.trace.turns) == 1


def test_the_limit_of_turns_holds_for_objections() -> None:
    failed = fails(wants("four"), says("3"), max_turns=1)

    assert failed.code is ErrorCode.MAX_TURNS_EXCEEDED


def test_what_is_owed_comes_before_the_hook() -> None:
    asked: list[str] = []

    def note(result: RunResult) -> None:
        asked.append(result.assistant_text)

    script = (says("early"), calls("get"), says("late"))
    result, _ = ran(note, *script, contract=Contract(all_of=("get",)))

    assert asked == ["late"]
    assert [event.rung for event in result.trace if isinstance(event, ForcedContinuationEvent)] == [
        "remind"
    ]
    assert result.false_finals == 1


def test_an_objection_is_no_false_final() -> None:
    result, _ = ran(wants("three"), says("3"), says("three"))

    assert result.false_finals == 0


def raises(_: RunResult) -> None:
    raise LookupError("no such order")


async def raises_later(_: RunResult) -> None:
    raise LookupError("no such order")


@pytest.mark.parametrize("hook", [raises, raises_later])
def test_a_hook_that_raises_fails_the_run_and_no_work_is_lost(hook: AcceptFinal) -> None:
    failed = fails(hook, calls("get"), says("3"))

    assert isinstance(failed, ToolUseError)
    assert failed.code is ErrorCode.POLICY_ERROR
    assert "accept_final raised LookupError: no such order" in str(failed)
    assert failed.result.assistant_text == "3"
    assert [item.ok for item in failed.result.run.results] == [True]
    assert isinstance(failed.result.trace[-2], RequestRefusedEvent)


@pytest.mark.parametrize("returned", [True, False, "", "  ", 3, ["no"], b"no"])
def test_a_hook_that_returns_neither_nothing_nor_a_reason_is_a_mistake(returned: Any) -> None:
    failed = fails(lambda _: returned, says("3"))

    assert failed.code is ErrorCode.POLICY_ERROR
    assert f"it returned {returned!r}" in str(failed)


@pytest.mark.usefixtures("virtual")
def test_a_hook_that_takes_too_long_meets_the_deadline() -> None:
    async def waits(_: RunResult) -> None:
        await never()

    failed = fails(waits, says("3"), run_deadline_s=0.05)

    assert isinstance(failed, LimitExceeded)
    assert failed.code is ErrorCode.DEADLINE_EXCEEDED
    assert failed.result.assistant_text == "3"


def test_a_timeout_of_the_hook_s_own_is_not_the_run_s_deadline() -> None:
    async def times_out(_: RunResult) -> None:
        raise TimeoutError("the database did not answer")

    assert fails(times_out, says("3")).code is ErrorCode.POLICY_ERROR


async def _run(runner: ToolLoopRunner) -> RunResult:
    return await runner.run("1 + 2?")


async def _stream(runner: ToolLoopRunner) -> RunResult:
    stream = runner.stream("1 + 2?")
    seen = [event async for event in stream]
    assert any(isinstance(event, FinalObjectedEvent) for event in seen)
    return stream.result


async def _run_sync(runner: ToolLoopRunner) -> RunResult:
    return runner.run_sync("1 + 2?")


async def _stream_sync(runner: ToolLoopRunner) -> RunResult:
    stream = runner.stream_sync("1 + 2?")
    seen = list(stream)
    assert any(isinstance(event, FinalObjectedEvent) for event in seen)
    return stream.result


@pytest.mark.parametrize("hook", [wants("three"), objects_later])
@pytest.mark.parametrize("way", [_run, _stream, _run_sync, _stream_sync])
def test_every_way_to_run_asks_the_hook(
    way: Callable[[ToolLoopRunner], Awaitable[RunResult]], hook: AcceptFinal
) -> None:
    async def go() -> RunResult:
        return await way(runner_of(ScriptedModel(says("3"), says("three")), hook))

    result = asyncio.run(go())
    assert result.assistant_text == "three"
    assert objections(result.trace) == ["It must say three."]


def test_a_run_that_was_broken_off_after_an_objection_is_resumed() -> None:
    broken = fails(wants("three"), says("3"), failure(401))
    run = Run.from_json(broken.result.run.to_json())
    runner = runner_of(ScriptedModel(says("three")), wants("three"))

    assert runner.resume_sync(run).assistant_text == "three"


def test_a_run_that_was_never_accepted_can_be_resumed_with_another_mind() -> None:
    failed = fails(wants("four"), *[says("3")] * 3)

    resumed = runner_of(ScriptedModel(), wants("3")).resume_sync(failed.result.run)
    assert (resumed.assistant_text, resumed.stop_reason) == ("3", "final")
    with pytest.raises(ToolUseError, match="not accepted"):
        runner_of(ScriptedModel(), wants("four")).resume_sync(failed.result.run)


def test_a_hook_that_raised_is_not_passed_over_by_resuming() -> None:
    failed = fails(raises, says("3"))

    with pytest.raises(ToolUseError, match="accept_final raised"):
        runner_of(ScriptedModel(), None).resume_sync(failed.result.run)


def test_a_recording_that_ends_with_an_objection_goes_on_from_there() -> None:
    result, _ = ran(wants("three"), says("3"), says("three"))
    kinds = [type(event) for event in result.trace]
    cut = Trace(result.trace.events[: kinds.index(FinalObjectedEvent) + 1])
    runner = runner_of(ScriptedModel(says("It is three.")), wants("three"))

    assert runner.resume_sync(run_of(cut)).assistant_text == "It is three."


def test_a_hook_that_is_no_function_is_an_error_before_the_first_request() -> None:
    with pytest.raises(ConfigError, match="accept_final must be a function"):
        ToolLoopRunner(client=ScriptedModel(), model="m", accept_final="yes")  # type: ignore[arg-type]  # on purpose
