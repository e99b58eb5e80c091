"""Runs that stop for a person: the policy has the last word, and a call is paid once at most."""

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replaced

from surecall import (
    AskFirst,
    Decision,
    OpenAICompatible,
    ReplayDiverged,
    Run,
    RunResult,
    ToolLoopRunner,
    load_trace,
    replay,
    run_of,
)
from surecall.core.outcome import RunFailed
from surecall.runtime.trace import JsonlSink
from surecall.testing import (
    ScriptedPerson,
    ScriptedProvider,
    calls,
    calls_many,
    says,
)
from surecall.values.events import CallChangedEvent, PolicyErrorEvent, RunPausedEvent
from surecall.values.trace import Trace
from surecall.values.types import ToolCall, ToolSpec
from tests.runtime.test_decision_checks import ALL_THREE, Till


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
    till = Till()
    policy = Strict(Decision.deny("The account is closed."))
    runner = till.runner(calls("pay", euros=5), says("Done."), policy=policy)
    run = runner.run_sync("Go.").run
    result = runner.resume_sync(run, decisions={"call_1": decision})

    assert till.did == []
    assert "The account is closed." in result.run.results[0].content


def test_a_policy_may_change_the_arguments_of_a_call_itself() -> None:
    till = Till()
    policy = Strict(Decision.approve())
    policy._said = [Decision.replace({"euros": 3})]
    result = till.runner(calls("pay", euros=5), says("Done."), policy=policy).run_sync("Go.")

    assert till.did == ["pay 3"]
    assert result.run.said[0].calls[0].arguments == {"euros": 3}
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
    till = Till()
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
    till = Till()
    policy = Strict(Decision.approve())
    policy._said = [Decision.replace(arguments)]
    result = till.runner(calls("pay", euros=5), says("Done."), policy=policy).run_sync("Go.")

    assert till.did == []
    assert result.run.results[0].error_codes == ("TOOL_POLICY_ERROR",)
    assert any(isinstance(event, PolicyErrorEvent) for event in result.trace)


def test_one_person_pays_once_though_the_call_was_changed_into_one_that_was_made() -> None:
    till = Till()
    both = calls_many(calls("pay", euros=5), calls("pay", euros=6))
    runner = till.runner(both, says("Done."), request_overrides={"parallel_tool_calls": True})
    run = runner.run_sync("Go.").run
    made = {"call_1": Decision.replace({"euros": 6}), "call_2": Decision.approve()}
    runner.resume_sync(run, decisions=made)

    assert till.did == ["pay 6"]


def test_nobody_is_asked_twice_about_two_equal_calls_of_one_turn() -> None:
    till = Till()
    both = calls_many(calls("pay", euros=5), calls("pay", euros=5))
    runner = till.runner(both, says("Done."))
    result = runner.run_sync("Go.")
    assert [call.id for call in result.waiting] == ["call_1"]
    result = runner.resume_sync(result.run, decisions={"call_1": Decision.approve()})

    assert not result.waiting
    assert till.did == ["pay 5"]


def test_but_about_the_second_if_the_first_was_denied() -> None:
    till = Till()
    both = calls_many(calls("pay", euros=5), calls("pay", euros=5))
    runner = till.runner(both, says("Done."))
    run = runner.run_sync("Go.").run
    result = runner.resume_sync(run, decisions={"call_1": Decision.deny()})

    assert [call.id for call in result.waiting] == ["call_2"]
    assert till.did == []


def test_a_script_decides_in_the_order_of_the_calls_and_says_when_it_is_too_short() -> None:
    till = Till()
    both = calls_many(calls("pay", euros=5), calls("pay", euros=6))
    runner = till.runner(both, calls("pay", euros=7), says("Done."))
    person = ScriptedPerson(Decision.deny(), Decision.replace({"euros": 1}))
    result = runner.run_sync("Go.")
    result = runner.resume_sync(result.run, decisions=person.decide(result))

    assert till.did == ["pay 1"]
    with pytest.raises(AssertionError, match="The script has 2 decisions; pay waits, too"):
        person.decide(result)
    assert [call.arguments["euros"] for call in person.asked] == [5, 6, 7]


def test_a_run_that_was_cut_after_it_stopped_is_read_from_its_journal(tmp_path: Path) -> None:
    till = Till()
    runner = till.runner(ALL_THREE, says("Done."))
    journal = tmp_path / "run.jsonl"
    stopped = runner.run_sync("Go.", on_event=JsonlSink(journal))
    run = run_of(load_trace(journal))
    assert run == stopped.run

    result = runner.resume_sync(
        run, decisions={"call_2": Decision.approve()}, on_event=JsonlSink(journal)
    )
    assert till.did == ["look", "pay 5", "note a"]
    assert replay(load_trace(journal)).run == result.run


def test_a_recording_that_stops_for_another_call_diverges() -> None:
    till = Till()
    trace = till.runner(ALL_THREE).run_sync("Go.").trace
    *before, paused = trace
    assert isinstance(paused, RunPausedEvent)
    (call,) = paused.waiting
    for waiting in ((), (replaced(call, id="call_3"),), (replaced(call, arguments={}),)):
        told = Trace((*before, replaced(paused, waiting=waiting)))
        with pytest.raises(ReplayDiverged, match="stops for"):
            replay(told)


def test_a_contract_is_met_by_the_call_that_a_person_approved() -> None:
    till = Till()
    script = (calls("pay", euros=5), says("Done."))
    runner = till.runner(*script, contract={"all_of": ["pay"]})
    person = ScriptedPerson(Decision.approve())
    result = runner.run_sync("Go.")
    assert runner.resume_sync(result.run, decisions=person.decide(result)).assistant_text == "Done."


def test_a_contract_is_not_met_by_one_that_was_denied() -> None:
    till = Till()
    script = (calls("pay", euros=5), says("I may not."), says("I may not."), says("I may not."))
    runner = till.runner(*script, contract={"all_of": ["pay"]})
    waiting = runner.run_sync("Go.").run
    with pytest.raises(RunFailed):
        runner.resume_sync(waiting, decisions={"call_1": Decision.deny("No.")})
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
    till = Till()
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
            stream = runner.stream_resumed(run, decisions={"call_1": Decision.approve()})
            async for _ in stream:
                pass
            return stream.result

        assert asyncio.run(go_on()).assistant_text == "Done."
    assert till.did == ["pay 5"]
