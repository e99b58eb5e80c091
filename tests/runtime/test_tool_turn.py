"""Tests of `surecall.runtime.tool_turn`."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replaced

from surecall import (
    AskFirst,
    Decision,
    ErrorCode,
    OpenAICompatible,
    ReplayDiverged,
    Run,
    RunResult,
    ToolLoopRunner,
    load_trace,
    replay,
    run_of,
    tool,
)
from surecall.core.outcome import RunFailed
from surecall.runtime.recording import JsonlSink
from surecall.runtime.tool_turn import Deadline, DeadlinePassed
from surecall.testing import (
    ScriptedModel,
    ScriptedPerson,
    ScriptedProvider,
    calls,
    calls_many,
    says,
)
from surecall.values.events import CallChangedEvent, PolicyErrorEvent, RunPausedEvent
from surecall.values.trace import Trace
from surecall.values.types import JSON, ToolCall, ToolSpec
from tests.support.conversations import ALL_THREE, ThreeTools
from tests.support.scripted_runs import SLEEP, by_approval_id, many_calls, parallel_runner
from tests.support.timing import PATIENCE_S, never

# Runs that stop for a person: the policy has the last word, and a call is paid once at most


class Strict:
    """Asks at first; later it says what it is told to say."""

    def __init__(self, later: Decision) -> None:
        self._said = [later, Decision.confirm()]

    def visible(self, _tool: ToolSpec, _context: Mapping[str, Any]) -> bool:
        return True

    def authorize(self, _call: ToolCall, _context: Mapping[str, Any]) -> Decision:
        return self._said.pop() if len(self._said) > 1 else self._said[0]


@pytest.mark.parametrize("decision", [Decision.approve(), Decision.replace({"euros": 1})])
def test_a_policy_can_still_deny_what_a_person_allowed(decision: Decision) -> None:
    till = ThreeTools()
    policy = Strict(Decision.deny("The account is closed."))
    runner = till.runner(calls("pay", euros=5), says("Done."), policy=policy)
    run = runner.run_sync("Go.").run
    result = runner.resume_sync(run, decisions=by_approval_id(run, {"call_1": decision}))

    assert till.did == []
    assert "The account is closed." in result.run.results[0].content


def test_a_policy_may_change_the_arguments_of_a_call_itself() -> None:
    till = ThreeTools()
    policy = Strict(Decision.approve())
    policy._said = [Decision.replace({"euros": 3})]
    result = till.runner(calls("pay", euros=5), says("Done."), policy=policy).run_sync("Go.")

    assert till.did == ["pay 3"]
    assert result.run.replies[0].calls[0].arguments == {"euros": 3}
    assert "were changed" in result.run.results[0].content
    assert any(isinstance(event, CallChangedEvent) for event in result.trace)
    assert "arguments changed: pay" in str(result.trace)
    assert replay(result.trace).run == result.run


class Careful(Strict):
    """Takes an amount down to its limit, and wants a person to see it all the same."""

    def authorize(self, call: ToolCall, _context: Mapping[str, Any]) -> Decision:
        if call.arguments["euros"] > 3:
            return Decision.replace({"euros": 3})
        return Decision.confirm("Money leaves the house.")


@pytest.mark.parametrize("options", [{}, {"request_overrides": {"parallel_tool_calls": True}}])
def test_a_call_that_the_policy_changed_waits_if_the_policy_asks_about_it_then(
    options: dict[str, Any],
) -> None:
    till = ThreeTools()
    both = calls_many(calls("pay", euros=5), calls("pay", euros=2))
    script = (both, says("Done."))
    runner = till.runner(*script, policy=Careful(Decision.approve()), **options)
    result = runner.run_sync("Go.")
    seen = []
    while result.waiting:
        assert replay(result.trace).run == result.run
        seen += [f"pay {call.arguments['euros']}" for call in result.waiting]
        made = {call.id: Decision.approve() for call in result.waiting}
        result = runner.resume_sync(Run.from_json(result.run.to_json()), decisions=made)

    assert sorted(till.did) == sorted(seen) == ["pay 2", "pay 3"]


@pytest.mark.parametrize("arguments", [{"euros": "3"}, {}, object(), None])
def test_arguments_of_a_policy_that_do_not_fit_are_its_own_error(arguments: Any) -> None:
    till = ThreeTools()
    policy = Strict(Decision.approve())
    policy._said = [Decision.replace(arguments)]
    result = till.runner(calls("pay", euros=5), says("Done."), policy=policy).run_sync("Go.")

    assert till.did == []
    assert result.run.results[0].error_codes == ("TOOL_POLICY_ERROR",)
    assert any(isinstance(event, PolicyErrorEvent) for event in result.trace)


def test_one_person_pays_once_though_the_call_was_changed_into_one_that_was_made() -> None:
    till = ThreeTools()
    both = calls_many(calls("pay", euros=5), calls("pay", euros=6))
    runner = till.runner(both, says("Done."), request_overrides={"parallel_tool_calls": True})
    run = runner.run_sync("Go.").run
    made = {"call_1": Decision.replace({"euros": 6}), "call_2": Decision.approve()}
    runner.resume_sync(run, decisions=by_approval_id(run, made))

    assert till.did == ["pay 6"]


def test_nobody_is_asked_twice_about_two_equal_calls_of_one_turn() -> None:
    till = ThreeTools()
    both = calls_many(calls("pay", euros=5), calls("pay", euros=5))
    runner = till.runner(both, says("Done."))
    result = runner.run_sync("Go.")
    assert [call.call_id for call in result.waiting] == ["call_1"]
    made = by_approval_id(result.run, {"call_1": Decision.approve()})
    result = runner.resume_sync(result.run, decisions=made)

    assert not result.waiting
    assert till.did == ["pay 5"]


def test_but_about_the_second_if_the_first_was_denied() -> None:
    till = ThreeTools()
    both = calls_many(calls("pay", euros=5), calls("pay", euros=5))
    runner = till.runner(both, says("Done."))
    run = runner.run_sync("Go.").run
    result = runner.resume_sync(run, decisions=by_approval_id(run, {"call_1": Decision.deny()}))

    assert [call.call_id for call in result.waiting] == ["call_2"]
    assert till.did == []


def test_a_script_decides_in_the_order_of_the_calls_and_says_when_it_is_too_short() -> None:
    till = ThreeTools()
    both = calls_many(calls("pay", euros=5), calls("pay", euros=6))
    runner = till.runner(both, calls("pay", euros=7), says("Done."))
    person = ScriptedPerson(Decision.deny(), Decision.replace({"euros": 1}))
    result = runner.run_sync("Go.")
    result = runner.resume_sync(result.run, decisions=person.decide(result))

    assert till.did == ["pay 1"]
    with pytest.raises(
        AssertionError, match="The script has 2 decisions, but pay needs another one"
    ):
        person.decide(result)
    assert [call.arguments["euros"] for call in person.asked] == [5, 6, 7]


def test_a_run_that_was_cut_after_it_stopped_is_read_from_its_journal(tmp_path: Path) -> None:
    till = ThreeTools()
    runner = till.runner(ALL_THREE, says("Done."))
    journal = tmp_path / "run.jsonl"
    stopped = runner.run_sync("Go.", on_event=JsonlSink(journal))
    run = run_of(load_trace(journal))
    assert run == stopped.run

    made = by_approval_id(run, {"call_2": Decision.approve()})
    result = runner.resume_sync(run, decisions=made, on_event=JsonlSink(journal))
    assert till.did == ["look", "pay 5", "note a"]
    assert replay(load_trace(journal)).run == result.run


def test_a_recording_that_stops_for_another_call_diverges() -> None:
    till = ThreeTools()
    trace = till.runner(ALL_THREE).run_sync("Go.").trace
    *before, paused = trace
    assert isinstance(paused, RunPausedEvent)
    (call,) = paused.waiting
    for waiting in ((), (replaced(call, call_id="call_3"),), (replaced(call, arguments={}),)):
        told = Trace((*before, replaced(paused, waiting=waiting)))
        with pytest.raises(ReplayDiverged, match="other calls need human approval"):
            replay(told)


def test_a_recording_of_an_earlier_version_without_approval_ids_replays() -> None:
    till = ThreeTools()
    result = till.runner(ALL_THREE).run_sync("Go.")
    *before, paused = result.trace
    assert isinstance(paused, RunPausedEvent)
    (call,) = paused.waiting
    earlier = replaced(paused, waiting=(replaced(call, id=call.call_id, call_id=""),))

    assert replay(Trace((*before, earlier))).run == result.run
    assert run_of(Trace((*before, earlier))).waiting == (call,)


def test_a_contract_is_met_by_the_call_that_a_person_approved() -> None:
    till = ThreeTools()
    script = (calls("pay", euros=5), says("Done."))
    runner = till.runner(*script, contract={"all_of": ["pay"]})
    person = ScriptedPerson(Decision.approve())
    result = runner.run_sync("Go.")
    assert runner.resume_sync(result.run, decisions=person.decide(result)).assistant_text == "Done."


def test_a_contract_is_not_met_by_one_that_was_denied() -> None:
    till = ThreeTools()
    script = (calls("pay", euros=5), says("I may not."), says("I may not."), says("I may not."))
    runner = till.runner(*script, contract={"all_of": ["pay"]})
    run = runner.run_sync("Go.").run
    with pytest.raises(RunFailed):
        runner.resume_sync(run, decisions=by_approval_id(run, {"call_1": Decision.deny("No.")}))
    assert till.did == []


BEGIN = """
    import sys
    from surecall import AskFirst, OpenAICompatible, ToolLoopRunner, tool

    @tool(destructive=True)
    def pay(euros: int) -> str:
        "Pay."
        raise AssertionError("it was not approved")

    runner = ToolLoopRunner(
        client=OpenAICompatible(sys.argv[1]), model="m", tools=pay, tool_policy=AskFirst()
    )
    sys.stdout.buffer.write(runner.run_sync("Pay.").run.to_json())
"""


@pytest.mark.processes
def test_a_run_stops_in_one_process_and_goes_on_in_another_streamed() -> None:
    till = ThreeTools()
    with ScriptedProvider(calls("pay", euros=5), says("Done.")) as provider:
        command = [sys.executable, "-c", textwrap.dedent(BEGIN), provider.url]
        written = subprocess.run(command, check=True, capture_output=True).stdout
        runner = ToolLoopRunner(
            client=OpenAICompatible(provider.url),
            model="m",
            tools=till.tools,
            tool_policy=AskFirst(),
        )
        run = Run.from_json(written)

        async def go_on() -> RunResult:
            made = by_approval_id(run, {"call_1": Decision.approve()})
            stream = runner.stream_resumed(run, decisions=made)
            async for _ in stream:
                pass
            return stream.result

        assert asyncio.run(go_on()).assistant_text == "Done."
    assert till.did == ["pay 5"]


# Parallel calls: at once and bounded, answered in order, and none brings down another


class Gauge:
    """Counts how many are inside at the same time."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


def answers(result: RunResult) -> list[Any]:
    return [item.envelope["data"]["value"] for item in result.run.results]


def test_ten_calls_of_one_turn_run_at_the_same_time() -> None:
    gauge = Gauge()
    together = asyncio.Barrier(10)

    @tool
    async def wait(number: int) -> int:
        """Wait for all the others."""
        with gauge:
            await together.wait()
        return number

    model = ScriptedModel(many_calls("wait", 10), says("Done."))
    result = parallel_runner(model, wait, max_concurrent_tools=10).run_sync("Go.")

    assert gauge.most == 10
    assert answers(result) == list(range(10))


def test_blocking_tools_run_in_threads_of_their_own() -> None:
    together = threading.Barrier(5)

    @tool
    def wait(number: int) -> int:
        """Wait for all the others."""
        together.wait(PATIENCE_S)
        return number

    result = parallel_runner(ScriptedModel(many_calls("wait", 5), says("Done.")), wait).run_sync(
        "Go."
    )

    assert answers(result) == list(range(5))


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("bound", [1, 2, 3])
def test_no_more_run_at_once_than_the_config_says(bound: int) -> None:
    gauge = Gauge()

    @tool
    async def work(number: int) -> int:
        """Work for a moment."""
        with gauge:
            await asyncio.sleep(0.005)
        return number

    model = ScriptedModel(many_calls("work", 7), says("Done."))
    parallel_runner(model, work, max_concurrent_tools=bound).run_sync("Go.")

    assert gauge.most == bound


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("overrides", [{}, {"parallel_tool_calls": False}])
def test_without_the_wish_for_parallel_calls_they_run_one_after_the_other(overrides: JSON) -> None:
    gauge = Gauge()

    @tool
    async def work(number: int) -> int:
        """Work for a moment."""
        with gauge:
            await asyncio.sleep(0.001)
        return number

    model = ScriptedModel(many_calls("work", 4), says("Done."))
    config = {"request_overrides": overrides, "max_tool_calls_per_turn": 4}
    ToolLoopRunner(client=model, model="m", registry=[work], config=config).run_sync("Go.")

    assert gauge.most == 1


def test_serial_tools_never_meet_each_other_but_run_beside_the_rest() -> None:
    serial, together = Gauge(), asyncio.Barrier(2)
    order: list[int] = []

    async def change(number: int) -> int:
        with serial:
            order.append(number)
            if number == 0:
                await together.wait()
            await asyncio.sleep(0)
        return number

    @tool(serial=True)
    async def write(number: int) -> int:
        """Write."""
        return await change(number)

    @tool(serial=True)
    async def erase(number: int) -> int:
        """Erase."""
        return await change(number)

    @tool
    async def read(number: int) -> int:
        """Read."""
        await together.wait()
        return number

    reply = calls_many(
        calls("write", number=0),
        calls("read", number=9),
        calls("erase", number=1),
        calls("write", number=2),
    )
    model = ScriptedModel(reply, says("Done."))
    result = parallel_runner(model, write, erase, read).run_sync("Go.")

    assert serial.most == 1
    assert order == [0, 1, 2]
    assert answers(result) == [0, 9, 1, 2]


@pytest.mark.usefixtures("virtual")
def test_a_tool_that_fails_or_takes_too_long_leaves_the_others_alone() -> None:
    @tool
    async def work(number: int) -> int:
        """Work."""
        if number == 0:
            raise RuntimeError
        await asyncio.sleep(0.03)
        return number

    reply = calls_many(calls("sleep"), many_calls("work", 3))
    result = parallel_runner(ScriptedModel(reply, says("Done.")), work, SLEEP).run_sync("Go.")

    codes = [item.error_codes for item in result.run.results]
    assert codes == [(ErrorCode.TOOL_TIMEOUT,), (ErrorCode.INTERNAL_ERROR,), (), ()]


@pytest.mark.usefixtures("virtual")
def test_each_call_has_its_own_time() -> None:
    @tool(timeout_s=1.0)
    async def work(number: int) -> int:
        """Work."""
        await asyncio.sleep(0.4)
        return number

    model = ScriptedModel(many_calls("work", 6), says("Done."))
    result = parallel_runner(model, work, max_concurrent_tools=2).run_sync("Go.")

    assert all(item.ok for item in result.run.results)


# The deadline of a run: it interrupts what is within it, and nothing else


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    return run


async def after(seconds: float, value: str = "") -> str:
    return await asyncio.sleep(seconds, value)


@pytest.mark.usefixtures("virtual")
@in_a_loop
async def test_what_ends_in_time_is_returned() -> None:
    with Deadline(5) as deadline:
        assert await deadline.within(after(1, "done")) == "done"
        assert await deadline.within(after(1, "again")) == "again"
        assert 0 < deadline.remaining_s <= 3


@pytest.mark.usefixtures("virtual")
@in_a_loop
async def test_what_takes_longer_is_interrupted() -> None:
    with Deadline(5) as deadline:
        await deadline.within(after(3))
        with pytest.raises(DeadlinePassed):
            await deadline.within(never())
        assert deadline.remaining_s <= 0
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


@pytest.mark.usefixtures("virtual")
@in_a_loop
async def test_what_is_not_within_it_goes_on() -> None:
    with Deadline(5) as deadline:
        assert await after(9, "done") == "done"
        # It is the caller's to see that there is no time left.
        assert await deadline.within(after(1, "late")) == "late"


@pytest.mark.usefixtures("virtual")
@in_a_loop
async def test_a_task_that_is_cancelled_stays_so() -> None:
    async def waits() -> None:
        with Deadline(5) as deadline:
            await deadline.within(never())

    task = asyncio.create_task(waits())
    await after(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.usefixtures("virtual")
@in_a_loop
async def test_one_that_is_cancelled_when_the_time_ends_stays_so_too() -> None:
    async def waits() -> None:
        with Deadline(5) as deadline:
            await deadline.within(never())

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(5, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.usefixtures("virtual")
@in_a_loop
async def test_what_the_work_raises_is_its_own() -> None:
    async def fails() -> None:
        raise TimeoutError("the client's own")

    with Deadline(5) as deadline, pytest.raises(TimeoutError, match="the client's own"):
        await deadline.within(fails())


@pytest.mark.usefixtures("virtual")
@in_a_loop
async def test_a_block_that_is_left_leaves_no_timer() -> None:
    with Deadline(5) as deadline:
        pass
    assert await deadline.within(after(9, "done")) == "done"
