"""Calls that wait for a person: the state of a run says which, and what was decided."""

from typing import Any

import pytest

from surecall import Decision, Run, ToolRegistry, tool
from surecall.core.approvals import (
    has_same_waiting_calls,
    hold_calls,
    record_decisions,
    replace_call,
    restore_holds,
    with_arguments,
)
from surecall.core.loop import next_move, record_results
from surecall.core.reply_parsing import resolve_given_call
from surecall.core.state import AskModel, AwaitApproval, RunTools
from surecall.settings.presets import raw
from surecall.values.decisions import WaitingCall, approval_id
from surecall.values.types import Assistant, ToolCall, ToolResult, User

ONE, TWO = ToolCall("1", "pay", {"euros": 1}), ToolCall("2", "pay", {"euros": 2})


def due(*calls: ToolCall) -> Run:
    said = Assistant("", calls)
    return Run("r", "m", raw(), (User("Pay."), said))


def done(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, ok=True, content="{}", executed=True)


def test_a_run_stops_for_a_call_that_waits_and_tells_what_it_is_about() -> None:
    run = hold_calls(due(ONE, TWO), {"1": Decision.confirm("money")})

    name = approval_id("r", ONE)
    assert run.waiting == (WaitingCall(name, "pay", {"euros": 1}, "money", "1"),)
    assert next_move(run) == AwaitApproval(run.waiting)


def test_what_is_shown_of_a_call_that_waits_can_be_changed_without_changing_the_call() -> None:
    call = ToolCall("1", "pay", {"euros": 1, "to": {"name": "Kim"}})
    run = hold_calls(due(call), {"1": Decision.confirm()})
    shown = run.waiting[0].arguments
    shown["to"]["name"] = "K."
    del shown["euros"]

    assert run.pending_calls[0].arguments == {"euros": 1, "to": {"name": "Kim"}}


@pytest.mark.parametrize(("asked", "given"), [(True, 1), (0, False), (1, 1.0)])
def test_a_person_may_change_the_type_of_a_value_that_python_calls_equal(
    asked: object, given: object
) -> None:
    call = with_arguments(ToolCall("1", "pay", {"x": asked}), {"x": given})

    assert type(call.arguments["x"]) is type(given)
    assert with_arguments(call, {"x": given}) is call


def test_calls_before_one_that_waits_are_answered_first() -> None:
    run = hold_calls(due(ONE, TWO), {"2": Decision.confirm()})

    assert next_move(run) == RunTools((ONE, TWO))
    assert isinstance(next_move(record_results(run, [done(ONE)])), AwaitApproval)


def test_nothing_waits_once_it_is_decided_and_nothing_is_left_once_it_is_answered() -> None:
    run = record_decisions(
        hold_calls(due(ONE), {"1": Decision.confirm()}), {"1": Decision.approve()}
    )

    assert run.waiting == ()
    assert next_move(run) == RunTools((ONE,))
    assert record_results(run, [done(ONE)]).decisions == {}
    assert isinstance(next_move(record_results(run, [done(ONE)])), AskModel)


def test_other_arguments_stand_in_the_transcript_and_the_model_is_told() -> None:
    run = record_results(hold_calls(due(ONE, TWO), {"2": Decision.confirm()}), [done(ONE)])
    run = record_decisions(run, {"2": Decision.replace({"euros": 3})})
    (call,) = run.pending_calls

    assert call.arguments == {"euros": 3}
    assert "were changed" in call.warnings[0]
    assert run.replies[-1].calls == (ONE, call)
    assert run.results == (done(ONE),)


def test_the_same_arguments_are_no_change() -> None:
    assert with_arguments(ONE, {"euros": 1}) is ONE
    assert replace_call(due(ONE, TWO), ONE) == due(ONE, TWO)


def test_what_was_told_when_a_run_stopped_is_enough_to_hold_its_calls_again() -> None:
    run = hold_calls(due(ONE, TWO), {"1": Decision.confirm("a"), "2": Decision.confirm("b")})

    assert restore_holds(due(ONE, TWO), run.waiting) == run
    assert hold_calls(run, {}) is run


def test_so_is_what_an_earlier_version_told_which_had_no_approval_ids() -> None:
    run = hold_calls(due(ONE, TWO), {"1": Decision.confirm("a")})
    earlier = (WaitingCall("1", "pay", {"euros": 1}, "a"),)

    assert restore_holds(due(ONE, TWO), earlier) == run
    assert has_same_waiting_calls(run.waiting, earlier)
    assert not has_same_waiting_calls(run.waiting, (WaitingCall("2", "pay", {"euros": 1}, "a"),))
    assert not has_same_waiting_calls(run.waiting, ())


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [({"euros": 1}, True), ({"euros": "1"}, False), ({}, False), ({"euros": 1, "x": 2}, False)],
)
def test_given_arguments_are_judged_as_they_are(arguments: Any, *, fits: bool) -> None:
    @tool
    def pay(euros: int) -> None:
        """Pay."""

    config = raw(coerce_arguments=True)
    call = resolve_given_call("pay", arguments, config, ToolRegistry([pay]))

    assert call.is_runnable is fits
    assert call.arguments == arguments


@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
def test_a_number_that_no_json_holds_is_not_given_as_something_else(number: float) -> None:
    @tool
    def note(data: dict[str, Any]) -> None:
        """Write down anything."""

    given = {"data": {"list": [1.5, number]}}
    call = resolve_given_call("note", given, raw(), ToolRegistry([note]))

    assert call.problem is not None
    assert "NaN" in call.problem.message
