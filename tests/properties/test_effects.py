"""Attempts to make something happen twice, or to make it happen unseen."""

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from surecall import JsonlSink, ToolLoopRunner, load_trace, run_of, tool
from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, calls_many, says, streams
from surecall.tools.registry import ToolDefinition
from surecall.values.decisions import Decision
from surecall.values.errors import ConfigError, ErrorCode, ReplayDiverged
from surecall.values.events import Event, LlmRequestEndEvent, ToolCallEndEvent, ToolCallStartEvent
from surecall.values.types import ToolCall, ToolSpec
from tests.support.timing import never, until, until_soon

PARALLEL = {"parallel_tool_calls": True}


class Till:
    """A tool that pays, and counts how often."""

    def __init__(self, **hints: Any) -> None:
        self.paid: list[int] = []
        self.tool = ToolDefinition("pay", "Pay.", parameters=SCHEMA, handler=self.pay, **hints)

    async def pay(self, amount: int) -> str:
        self.paid.append(amount)
        await asyncio.sleep(0)
        return f"paid {amount}"


SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}}


def runner_of(tools: Any, *script: Any, **settings: Any) -> ToolLoopRunner:
    return ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        tools=tools,
        config=raw(),
        llm_options_defaults=PARALLEL,
        **settings,
    )


def one_and_the_same(times: int) -> Any:
    return calls_many(*[calls("pay", call_id="x", amount=5)] * times)


def test_the_same_call_three_times_in_one_reply_runs_once() -> None:
    till = Till()
    result = runner_of(till.tool, one_and_the_same(3), says("Done.")).run_sync("Pay.")

    assert till.paid == [5]
    assert [answer.envelope["data"]["value"] for answer in result.run.results] == ["paid 5"] * 3
    assert [answer.executed for answer in result.run.results] == [True, False, False]


def test_the_same_call_in_a_later_reply_runs_once() -> None:
    till = Till()
    again = calls("pay", call_id="x", amount=5)
    runner_of(till.tool, again, again, says("Done.")).run_sync("Pay.")

    assert till.paid == [5]


def test_the_same_id_with_other_arguments_is_another_call() -> None:
    till = Till()
    script = (calls("pay", call_id="x", amount=5), calls("pay", call_id="x", amount=6))
    runner_of(till.tool, calls_many(*script), says("Done.")).run_sync("Pay.")

    assert sorted(till.paid) == [5, 6]


@pytest.mark.parametrize("hint", ["read_only", "idempotent", "repeatable"])
def test_a_call_that_may_be_repeated_is_made_again(hint: str) -> None:
    till = Till(**{hint: True})
    runner_of(till.tool, one_and_the_same(2), says("Done.")).run_sync("Pay.")

    assert till.paid == [5, 5]


def test_a_repetition_that_did_not_run_does_not_meet_a_contract_twice() -> None:
    till = Till()
    runner = ToolLoopRunner(
        client=ScriptedModel(one_and_the_same(2), says("Done.")),
        model="m",
        tools=till.tool,
        config={"contract": {"in_order": ["pay", "pay"]}, "final_ladder": ()},
    )
    with pytest.raises(Exception, match="CONTRACT_UNMET"):
        runner.run_sync("Pay.")


def test_a_stream_that_is_left_in_the_middle_of_a_tool_does_not_pay_twice() -> None:
    began: list[int] = []

    @tool
    async def pay(amount: int) -> str:
        """Pay, and then take ages."""
        began.append(amount)
        return str(await never())

    async def scenario() -> Any:
        runner = runner_of(pay, calls("pay", amount=5), says("Never said."))
        async with runner.stream("Pay.") as stream:
            async for event in stream:
                if isinstance(event, ToolCallStartEvent):
                    await until_soon(lambda: began)
                    break
        return stream.run

    run = asyncio.run(scenario())
    assert run.begun == ("call_1",)
    resumed = runner_of(pay, says("I do not know.")).resume_sync(type(run).from_json(run.to_json()))

    assert began == [5]
    assert resumed.run.results[0].error_codes == (ErrorCode.CALL_OUTCOME_UNKNOWN,)


def test_two_equal_calls_of_a_reply_that_was_left_in_the_first_do_not_pay_twice() -> None:
    began: list[int] = []

    @tool
    async def pay(amount: int) -> str:
        """Pay, and then take ages."""
        began.append(amount)
        return str(await never())

    async def scenario() -> Run:
        both = calls_many(calls("pay", amount=5), calls("pay", amount=5))
        async with runner_of(pay, streams(both)).stream("Pay.") as stream:
            async for event in stream:
                if isinstance(event, ToolCallStartEvent):
                    await until_soon(lambda: began)
                    break
        return stream.run

    run = Run.from_json(asyncio.run(scenario()).to_json())
    resumed = runner_of(pay, says("I do not know.")).resume_sync(run)

    assert began == [5]
    unknown = (ErrorCode.CALL_OUTCOME_UNKNOWN,)
    assert [result.error_codes for result in resumed.run.results] == [unknown, unknown]


def test_a_blocking_tool_of_a_stream_that_was_left_is_not_started_beside_itself() -> None:
    gate, began = threading.Event(), list[int]()

    @tool
    def pay(amount: int) -> str:
        """Pay, slowly."""
        began.append(amount)
        gate.wait()
        return "paid"

    again = calls("pay", call_id="another", amount=5)
    script = (streams(calls("pay", amount=5)), again, says("Done."))
    runner = runner_of(pay, *script)
    with runner.stream_sync("Pay.") as stream:
        for event in stream:
            if isinstance(event, ToolCallStartEvent):
                until(lambda: began)
                break
    threading.Timer(0.01, gate.set).start()
    resumed = runner.resume_sync(stream.run)
    runner.close()

    assert [answer.envelope["data"]["value"] for answer in resumed.run.results] == ["paid"] * 2
    assert began == [5]


class FullDisk(JsonlSink):
    """A journal that can write so many lines, and no more."""

    def __init__(self, path: Path, lines: int) -> None:
        super().__init__(path)
        self._left = lines

    def __call__(self, event: Event) -> None:
        self._left -= 1
        if self._left < 0:
            raise OSError(28, "No space left on device")
        super().__call__(event)


def test_what_cannot_be_written_down_does_not_begin(tmp_path: Path) -> None:
    for lines in range(20):
        path = tmp_path / f"{lines}.jsonl"
        path.touch()
        first, second = Till(), Till()
        script = (calls("pay", amount=1), calls("pay", amount=2))
        observers = [FullDisk(path, lines)]
        runner_of(first.tool, *script, says("Done."), observers=observers).run_sync("Pay.")
        if not path.read_bytes():
            assert first.paid == []
            continue
        run = run_of(load_trace(path))
        runner_of(second.tool, *script[run.turn_count :], says("Done.")).resume_sync(run)
        paid = first.paid + second.paid

        assert len(paid) == len(set(paid))


def test_a_tool_that_may_be_repeated_needs_no_journal(tmp_path: Path) -> None:
    till = Till(read_only=True)
    script = (calls("pay", amount=1), says("Done."))
    runner_of(till.tool, *script, observers=[FullDisk(tmp_path / "t", 0)]).run_sync("Pay.")

    assert till.paid == [1]


def test_another_observer_that_breaks_stops_no_call() -> None:
    till = Till()

    def broken(_event: Event) -> None:
        raise SystemExit(3)

    script = (calls("pay", amount=1), says("Done."))
    result = runner_of(till.tool, *script, observers=[broken]).run_sync("Pay.")

    assert till.paid == [1]
    assert "raised SystemExit" in str(result.trace)


def test_the_end_of_a_call_that_was_answered_from_the_record_is_in_the_trace() -> None:
    result = runner_of(Till().tool, one_and_the_same(2), says("Done.")).run_sync("Pay.")
    ends = [event.result for event in result.trace if isinstance(event, ToolCallEndEvent)]

    assert [end.call_id for end in ends] == ["x", "x__2"]
    assert str(ends[1].detail).startswith("the result of call x")


class Moody:
    """A policy that answers in turn."""

    def __init__(self, *outcomes: str) -> None:
        self._outcomes = list(outcomes)

    def visible(self, _tool: ToolSpec, _context: Mapping[str, Any]) -> bool:
        return True

    def authorize(self, _call: ToolCall, _context: Mapping[str, Any]) -> Decision:
        return Decision(self._outcomes.pop(0) if self._outcomes else "allow")  # type: ignore[arg-type]  # a word


def test_a_twin_that_was_refused_does_not_hide_the_one_that_ran() -> None:
    till = Till()
    script = (one_and_the_same(4), one_and_the_same(1), says("Done."))
    runner_of(till.tool, *script, tool_policy=Moody("deny")).run_sync("Pay.")

    assert till.paid == [5]


def test_a_call_that_was_one_too_many_does_not_hide_it_either() -> None:
    till = Till()
    runner = ToolLoopRunner(
        client=ScriptedModel(one_and_the_same(2), one_and_the_same(1), says("Done.")),
        model="m",
        tools=till.tool,
        config={"max_tool_calls_per_turn": 1},
    )
    runner.run_sync("Pay.")

    assert till.paid == [5]


class Asking(Moody):
    """A policy that asks a person, who takes their time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def authorize(self, _call: ToolCall, _context: Mapping[str, Any]) -> Decision:  # type: ignore[override]  # both are allowed
        self.asked.set()
        return Decision(await never())


def test_a_call_that_waits_for_a_person_has_not_begun() -> None:
    async def scenario() -> Run:
        policy = Asking()
        runner = runner_of(Till().tool, calls("pay", amount=5), tool_policy=policy)
        async with runner.stream("Pay.") as stream:
            async for event in stream:
                if isinstance(event, LlmRequestEndEvent):
                    await policy.asked.wait()
                    break
        return stream.run

    run = asyncio.run(scenario())
    till = Till()
    runner_of(till.tool, says("Done.")).resume_sync(run)

    assert run.begun == ()
    assert till.paid == [5]


class Stubborn(Moody):
    """A policy that takes no notice of being cancelled, and allows."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def authorize(self, _call: ToolCall, _context: Mapping[str, Any]) -> Decision:  # type: ignore[override]  # both are allowed
        self.asked.set()
        with suppress(asyncio.CancelledError):
            await never()
        return Decision("allow")


def test_nothing_begins_after_its_run_was_cancelled() -> None:
    till, policy = Till(), Stubborn()

    async def scenario() -> None:
        runner = runner_of(till.tool, calls("pay", amount=5), says("Done."), tool_policy=policy)
        task = asyncio.create_task(runner.run("Pay."))
        await policy.asked.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(scenario())

    assert till.paid == []


def test_a_hook_that_takes_no_notice_of_a_cancellation_does_not_undo_it() -> None:
    till = Till()

    async def scenario() -> None:
        asked = asyncio.Event()

        async def hook(_result: RunResult) -> str:
            asked.set()
            with suppress(asyncio.CancelledError):
                await never()
            return "Pay more."

        script = (says("Done."), calls("pay", amount=6), says("Done."))
        runner = runner_of(till.tool, *script, accept_final=hook)
        task = asyncio.create_task(runner.run("Pay."))
        await asked.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(scenario())

    assert till.paid == []


def test_half_a_line_of_another_run_swallows_no_start(tmp_path: Path) -> None:
    path = tmp_path / "shared.jsonl"
    script = (calls("pay", amount=5), says("Done."))

    def tear(event: Event) -> None:
        if isinstance(event, LlmRequestEndEvent):
            with path.open("ab") as file:
                file.write(b'{"type":"tool_call_st')

    sink = JsonlSink(path)
    runner_of(Till().tool, *script, observers=[sink, tear]).run_sync("Pay.")

    lines = path.read_bytes().split(b"\n")
    assert b'{"type":"tool_call_st' in lines
    with pytest.raises(ConfigError, match="not an event"):
        load_trace(path)


def test_a_journal_from_which_a_secret_was_taken_is_not_resumed_from(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    sink = JsonlSink(path, secrets=("hunter2hun",))
    note = {"name": "note", "handler": lambda text: text}
    script = (calls("note", text="hunter2hun"), says("Done."))
    runner_of([note], *script, observers=[sink]).run_sync("Note.")

    with pytest.raises(ReplayDiverged, match="a secret was removed"):
        run_of(load_trace(path))


class Lost:
    """A tool that pays and does not come back in time, but for what it is told."""

    def __init__(self, *quick: int) -> None:
        self.paid: list[int] = []
        self._quick = quick

    async def __call__(self, amount: int) -> str:
        self.paid.append(amount)
        return f"paid {amount}" if len(self.paid) in self._quick else str(await never())

    def runner(self, *script: Any, **settings: Any) -> ToolLoopRunner:
        pay = ToolDefinition("pay", "Pay.", parameters=SCHEMA, handler=self, timeout_s=0.01)
        return runner_of(pay, *script, says("Done."), **settings)


def pay_again(at: int) -> Any:
    return calls("pay", call_id=f"fresh_{at}", amount=5)


@pytest.mark.usefixtures("virtual")
def test_a_call_that_timed_out_does_not_run_again_under_a_new_id() -> None:
    lost = Lost()
    runner = lost.runner(pay_again(0), pay_again(1))
    first, second = asyncio.run(runner.run("Pay.")).run.results

    assert lost.paid == [5]
    assert first.error_codes == (ErrorCode.TOOL_TIMEOUT,)
    assert second.error_codes == (ErrorCode.CALL_OUTCOME_UNKNOWN,)
    assert "Find out what happened with another tool" in second.content


@pytest.mark.usefixtures("virtual")
def test_nor_in_the_next_run_of_a_conversation() -> None:
    lost = Lost()
    first = asyncio.run(lost.runner(pay_again(0)).run("Pay."))
    for history in (first, first.messages):
        again = asyncio.run(lost.runner(pay_again(1)).run("Pay.", history=history))
        assert again.run.results[0].error_codes == (ErrorCode.CALL_OUTCOME_UNKNOWN,)

    assert lost.paid == [5]


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("approves", [True, False])
def test_with_a_policy_a_person_is_asked_whether_it_may(*, approves: bool) -> None:
    lost = Lost(2)
    runner = lost.runner(pay_again(0), pay_again(1), tool_policy=Moody())
    paused = asyncio.run(runner.run("Pay."))
    (waiting,) = paused.waiting
    assert "it is unknown whether it took effect" in waiting.reason
    made = Decision.approve() if approves else Decision.deny("No.")
    result = asyncio.run(runner.resume(paused, decisions={waiting.id: made}))

    assert lost.paid == [5] * (1 + approves)
    assert result.run.results[1].ok is approves
    assert result.text == "Done."


@pytest.mark.usefixtures("virtual")
def test_nobody_can_approve_the_like_of_a_call_in_the_same_reply() -> None:
    lost = Lost()
    both = calls_many(pay_again(0), pay_again(1))
    result = asyncio.run(lost.runner(both, tool_policy=Moody()).run("Pay."))

    assert lost.paid == [5]
    assert result.run.results[1].error_codes == (ErrorCode.CALL_OUTCOME_UNKNOWN,)


@pytest.mark.usefixtures("virtual")
def test_a_call_that_was_approved_and_left_open_again_is_unknown_again() -> None:
    lost = Lost()
    script = (pay_again(0), pay_again(1), calls("pay", call_id="other", amount=6), pay_again(2))
    runner = lost.runner(*script, tool_policy=Moody())
    paused = asyncio.run(runner.run("Pay."))
    decisions = {call.id: Decision.approve() for call in paused.waiting}
    again = asyncio.run(runner.resume(paused, decisions=decisions))

    assert [call.call_id for call in again.waiting] == ["fresh_2"]
    assert lost.paid == [5, 5, 6]


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("hint", ["read_only", "idempotent", "repeatable"])
def test_a_tool_that_may_run_again_does_so_after_a_timeout(hint: str) -> None:
    lost = Lost()
    hints: dict[str, Any] = {"timeout_s": 0.01, hint: True}
    pay = ToolDefinition("pay", "Pay.", parameters=SCHEMA, handler=lost, **hints)
    asyncio.run(runner_of(pay, pay_again(0), pay_again(1), says("Done.")).run("Pay."))

    assert lost.paid == [5, 5]
