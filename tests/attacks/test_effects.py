"""Attempts to make something happen twice, or to make it happen unseen."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from surecall import JsonlSink, ToolLoopRunner, load_trace, run_of, tool
from surecall.settings.config import ToolCallingConfig
from surecall.testing import ScriptedModel, calls, calls_many, says, streams
from surecall.tools.registry import ToolDefinition
from surecall.values.errors import ErrorCode
from surecall.values.events import Event, ToolCallEndEvent, ToolCallStartEvent
from tests.support.patience import never, until, until_soon

PARALLEL = {"parallel_tool_calls": True}


class Till:
    """A tool that pays, and counts how often."""

    def __init__(self, **hints: bool) -> None:
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
        config=ToolCallingConfig(),
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
        config={"contract": {"in_order": ["pay", "pay"]}},
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
    resumed = runner.resume_sync(stream.run)
    gate.set()
    runner.close()

    codes = [answer.error_codes for answer in resumed.run.results]
    assert codes == [(ErrorCode.CALL_OUTCOME_UNKNOWN,), (ErrorCode.TOOL_STILL_RUNNING,)]
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
        runner_of(second.tool, *script[run.turn :], says("Done.")).resume_sync(run)
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
