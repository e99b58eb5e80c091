"""A reply that promises a call and has none: it is asked about, bounded, and never an answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.core.loop import heard, next_move, refused
from surecall.core.promised_calls import missing_call
from surecall.core.state import CALL_MISSING, Ask, Done, Fail, Run
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import Assistant, Claim, Reply, ToolCall, User
from tests.support.transcripts import begun, called

PROMISES = ["tool_calls", "function_call", "tool_use", "TOOL_CALLS", "MALFORMED_FUNCTION_CALL"]


def until_the_end(run: Run, reply: Reply) -> tuple[Run, int]:
    """Give the same reply until the run ends; count the requests."""
    asked = 0
    while isinstance(next_move(run), Ask):
        run, asked = heard(run, reply), asked + 1
    return run, asked


@pytest.mark.parametrize("reason", PROMISES)
@given(text=st.sampled_from(["", " ", "I will read it.", "Done."]))
def test_no_reply_that_promises_a_call_ends_as_an_answer(reason: str, text: str) -> None:
    run, asked = until_the_end(begun(tool_use_mode="relaxed"), Reply(text, finish_reason=reason))

    move = next_move(run)
    assert isinstance(move, Fail)
    assert (move.code, asked) == (ErrorCode.CALL_MISSING, 2)
    assert reason in move.message


def test_after_a_tool_call_the_tools_stay_on_offer_for_the_promised_call() -> None:
    run = heard(called(begun(), "get"), Reply("", finish_reason="tool_calls"))

    assert isinstance(run.last, User)
    assert run.last.rung == CALL_MISSING
    assert isinstance(move := next_move(run), Ask)
    assert move.plan.tools == run.tools


def test_between_two_results_it_is_asked_once_and_then_again() -> None:
    lost = Reply("", finish_reason="tool_calls")
    run = heard(begun(), lost)
    run = heard(called(run, "get"), lost)

    assert isinstance(next_move(run), Ask)
    assert isinstance(next_move(heard(run, lost)), Fail)


def test_without_the_switch_the_run_fails_at_once() -> None:
    run = heard(begun(fix_empty_final=False), Reply("So.", finish_reason="tool_calls"))

    assert isinstance(move := next_move(run), Fail)
    assert move.code is ErrorCode.CALL_MISSING


def test_where_no_tools_are_offered_no_call_is_missing() -> None:
    run = heard(begun(tool_use_mode="disabled"), Reply("So.", finish_reason="tool_calls"))

    assert next_move(run) == Done("So.", "final")


def test_a_request_that_failed_later_does_not_change_what_was_offered() -> None:
    run = heard(begun(fix_empty_final=False), Reply("So.", finish_reason="tool_calls"))
    said = run.said[-1]
    run = refused(run, Fault(ErrorCode.TIMEOUT, "late"))

    assert missing_call(run, said)


def test_a_turn_with_calls_misses_none() -> None:
    said = Assistant("", (ToolCall("c1", "get"),), finish_reason="tool_calls")

    assert missing_call(begun().plus(said), said) == ""


def test_a_call_as_text_alone_is_asked_about_twice_and_is_no_answer() -> None:
    alone = Reply("<tool_call>…</tool_call>", claims=(Claim("", "whole", alone=True),))
    run, asked = until_the_end(begun(tool_use_mode="relaxed"), alone)

    assert isinstance(move := next_move(run), Fail)
    assert (move.code, asked) == (ErrorCode.CALL_MISSING, 3)
    assert "The tools are called: " in str(run.own[-2])


def test_a_call_in_a_sentence_is_the_answer_after_the_questions() -> None:
    quoted = Reply("It says <tool_call>…", claims=(Claim("get", "own_words"),))
    run, asked = until_the_end(begun(tool_use_mode="relaxed"), quoted)

    assert (next_move(run), asked) == (Done(quoted.text, "final"), 3)
