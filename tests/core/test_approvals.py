"""Calls that wait for a person: the state of a run says which, and what was decided."""

from typing import Any

import pytest

from surecall import Decision, Run, ToolRegistry, tool
from surecall.core.approvals import changed, decided, held, held_again, with_arguments
from surecall.core.inbound import judge_given
from surecall.core.loop import next_move, ran
from surecall.core.state import Ask, Call, Wait
from surecall.settings.presets import raw
from surecall.values.decisions import WaitingCall
from surecall.values.types import Assistant, ToolCall, ToolResult, User

ONE, TWO = ToolCall("1", "pay", {"euros": 1}), ToolCall("2", "pay", {"euros": 2})


def due(*calls: ToolCall) -> Run:
    said = Assistant("", calls)
    return Run("r", "m", raw(), (User("Pay."), said))


def done(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, ok=True, content="{}", executed=True)


def test_a_run_stops_for_a_call_that_waits_and_tells_what_it_is_about() -> None:
    run = held(due(ONE, TWO), {"1": Decision.confirm("money")})

    assert run.waiting == (WaitingCall("1", "pay", {"euros": 1}, "money"),)
    assert next_move(run) == Wait(run.waiting)


def test_what_is_shown_of_a_call_that_waits_can_be_changed_without_changing_the_call() -> None:
    call = ToolCall("1", "pay", {"euros": 1, "to": {"name": "Kim"}})
    run = held(due(call), {"1": Decision.confirm()})
    shown = run.waiting[0].arguments
    shown["to"]["name"] = "K."
    del shown["euros"]

    assert run.due[0].arguments == {"euros": 1, "to": {"name": "Kim"}}


def test_calls_before_one_that_waits_are_answered_first() -> None:
    run = held(due(ONE, TWO), {"2": Decision.confirm()})

    assert next_move(run) == Call((ONE, TWO))
    assert isinstance(next_move(ran(run, [done(ONE)])), Wait)


def test_nothing_waits_once_it_is_decided_and_nothing_is_left_once_it_is_answered() -> None:
    run = decided(held(due(ONE), {"1": Decision.confirm()}), {"1": Decision.approve()})

    assert run.waiting == ()
    assert next_move(run) == Call((ONE,))
    assert ran(run, [done(ONE)]).decisions == {}
    assert isinstance(next_move(ran(run, [done(ONE)])), Ask)


def test_other_arguments_stand_in_the_transcript_and_the_model_is_told() -> None:
    run = ran(held(due(ONE, TWO), {"2": Decision.confirm()}), [done(ONE)])
    run = decided(run, {"2": Decision.replace({"euros": 3})})
    (call,) = run.due

    assert call.arguments == {"euros": 3}
    assert "were changed" in call.warnings[0]
    assert run.said[-1].calls == (ONE, call)
    assert run.results == (done(ONE),)


def test_the_same_arguments_are_no_change() -> None:
    assert with_arguments(ONE, {"euros": 1}) is ONE
    assert changed(due(ONE, TWO), ONE) == due(ONE, TWO)


def test_what_was_told_when_a_run_stopped_is_enough_to_hold_its_calls_again() -> None:
    run = held(due(ONE, TWO), {"1": Decision.confirm("a"), "2": Decision.confirm("b")})

    assert held_again(due(ONE, TWO), run.waiting) == run
    assert held(run, {}) is run


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [({"euros": 1}, True), ({"euros": "1"}, False), ({}, False), ({"euros": 1, "x": 2}, False)],
)
def test_given_arguments_are_judged_as_they_are(arguments: Any, *, fits: bool) -> None:
    @tool
    def pay(euros: int) -> None:
        """Pay."""

    config = raw(coerce_arguments=True)
    call = judge_given("pay", arguments, config, ToolRegistry([pay]))

    assert call.may_run is fits
    assert call.arguments == arguments


@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
def test_a_number_that_no_json_holds_is_not_given_as_something_else(number: float) -> None:
    @tool
    def note(data: dict[str, Any]) -> None:
        """Write down anything."""

    given = {"data": {"list": [1.5, number]}}
    call = judge_given("note", given, raw(), ToolRegistry([note]))

    assert call.problem is not None
    assert "NaN" in call.problem.message
