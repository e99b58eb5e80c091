"""Another model takes a run over: what stays, what changes, and what is taken back."""

from typing import Any

import msgspec
import pytest

from surecall import Contract, Run, ToolCallingConfig, ToolUseMode
from surecall.core.loop import next_move, record_refusal
from surecall.core.model_change import change_model, failure_fault
from surecall.core.state import AskModel, Fail, Finish
from surecall.settings.presets import raw
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import (
    Assistant,
    Message,
    Refusal,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)

FAULT = Fault(ErrorCode.RATE_LIMIT, "slow down", 429)
CALL = ToolCall("c1", "pay", {"n": 1}, extra={"signature": "s"})
PAID = ToolResult("c1", "pay", ok=True, content='{"ok":true}', executed=True)
PAY = ToolSpec("pay", "", {"type": "object", "properties": {}})
SAID = Assistant("", (CALL,), extra={"reasoning": "of a"}, origin="a@x")


def run_of(*messages: Message, config: ToolCallingConfig | None = None, **more: Any) -> Run:
    given = config or raw()
    return Run("r", "a", given, (User("Pay."), *messages), tools=(PAY,), endpoint="x", **more)


def over(run: Run, config: ToolCallingConfig | None = None) -> Run:
    after = change_model(run, "b", config or raw(), {"seed": 1}, "y")
    assert after is not None
    return after


def test_results_stay_and_the_failure_is_taken_back() -> None:
    after = over(record_refusal(run_of(SAID, PAID), FAULT))

    assert after.messages == (User("Pay."), SAID, PAID)
    assert (after.model, after.endpoint, after.options) == ("b", "y", {"seed": 1})
    assert isinstance(next_move(after), AskModel)


def test_every_refusal_of_the_turn_is_taken_back_so_that_tools_are_offered() -> None:
    after = over(run_of(Refusal(FAULT), Refusal(FAULT)))
    move = next_move(after)

    assert isinstance(move, AskModel)
    assert move.plan.tools == (PAY,)


def test_an_answer_that_is_of_no_use_is_taken_back() -> None:
    assert over(run_of(SAID, PAID, Assistant(""))).messages == (User("Pay."), SAID, PAID)


def test_it_is_no_change_where_calls_are_due() -> None:
    for run in (run_of(SAID), run_of(SAID, Refusal(FAULT))):
        assert change_model(run, "b", raw(), {}, "y") is None


def test_it_is_no_change_where_a_limit_ends_the_run() -> None:
    run = run_of(SAID, PAID, Refusal(FAULT), config=raw(max_turns=1))

    assert change_model(run, "b", raw(), {}, "y") is None


def test_what_a_run_promises_does_not_depend_on_who_answers() -> None:
    promised = raw(
        contract=Contract(all_of=["pay"]),
        max_turns=5,
        run_deadline_s=7.0,
        tool_use_mode=ToolUseMode.ENFORCED,
        tool_denylist=("drop",),
    )
    other = raw(short_call_ids=True, tool_use_mode=ToolUseMode.DISABLED)
    config = over(run_of(Refusal(FAULT), config=promised), other).config

    assert config == promised.replace(short_call_ids=True)


@pytest.mark.parametrize("mode", list(ToolUseMode))
def test_a_model_without_tools_goes_on_without_them_unless_they_are_demanded(
    mode: ToolUseMode,
) -> None:
    chats = raw(tool_use_mode=ToolUseMode.DISABLED)
    config = over(run_of(Refusal(FAULT), config=raw(tool_use_mode=mode)), chats).config

    wanted = ToolUseMode.DISABLED if mode is ToolUseMode.RELAXED else mode
    assert config.tool_use_mode is wanted


def test_state_of_unknown_origin_is_dropped_and_other_state_is_kept_for_its_own_model() -> None:
    unsigned = msgspec.structs.replace(SAID, origin="")
    plain = Assistant("", (msgspec.structs.replace(CALL, extra={}),))
    signed = over(run_of(SAID, PAID, Refusal(FAULT)))

    assert over(run_of(unsigned, PAID, Refusal(FAULT))).messages[1] == plain
    assert over(run_of(plain, PAID, Refusal(FAULT))).messages[1] is plain
    assert signed.messages[1] is SAID


def test_only_what_came_since_the_change_is_the_own_of_the_model() -> None:
    history = (User("Before."), Assistant("Yes."))
    run = run_of(SAID, PAID, Refusal(FAULT), system=System("Be brief."))
    run = msgspec.structs.replace(run, messages=(*history, *run.messages), start=2)
    move = next_move(over(run))

    assert isinstance(move, AskModel)
    assert move.plan.other_model_span == (3, 6)
    assert move.plan.messages[3:6] == (User("Pay."), SAID, PAID)


def test_the_reason_is_the_fault_or_why_an_answer_does_not_count() -> None:
    assert failure_fault(Finish("ok", "final")) is None
    assert failure_fault(Fail(FAULT.code, "slow down", fault=FAULT)) is FAULT
    empty = failure_fault(Fail(ErrorCode.EMPTY_FINAL, "the final answer is empty"))
    assert empty == Fault(ErrorCode.EMPTY_FINAL, "the final answer is empty")
