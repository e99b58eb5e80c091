"""Tests of `surecall.core.policy`."""

from typing import Any, Final

import msgspec
import pytest

from surecall.core.giving_up import call_streak
from surecall.core.loop import next_move, record_reply, record_results
from surecall.core.policy import build_turn, judge_answer, stop_failure
from surecall.core.state import AskModel, Fail, Finish, Move, Run
from surecall.settings.config import ToolUseMode
from surecall.settings.contract import Contract
from surecall.settings.presets import raw
from surecall.testing import calls
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Problem, Reply, ToolCall, ToolResult, User
from tests.support.transcripts import (
    CALL,
    DONE,
    DOWN,
    NO_TOOLS,
    PLAIN_TOOLS,
    Desk,
    after,
    begun_plain,
    code_of,
    numbered,
    reply_with,
)

# The rules of a run: limits, repeated calls, and what counts as an answer


@pytest.mark.parametrize(
    ("settings", "turns", "code"),
    [
        ({"max_turns": 2}, numbered(2), ErrorCode.MAX_TURNS_EXCEEDED),
        ({"max_turns": 3}, numbered(2), None),
        ({"max_total_tool_calls": 2}, numbered(3), ErrorCode.MAX_TOOL_CALLS_EXCEEDED),
        ({"max_total_tool_calls": 3}, numbered(3), None),
        ({"repeat_stop_at": 3}, [reply_with(CALL)] * 3, ErrorCode.LOOP_DETECTED),
        ({"repeat_stop_at": 4}, [reply_with(CALL)] * 3, None),
        ({}, [reply_with(ToolCall("p", "poll"))] * 9, None),
        ({"tool_use_mode": "enforced"}, [Reply("so")], ErrorCode.NO_TOOL_CALLS),
        ({"tool_use_mode": "relaxed"}, [Reply(" ")], None),
        ({"tool_use_mode": "relaxed"}, [Reply(" ")] * 2, ErrorCode.EMPTY_FINAL),
        ({"fix_empty_final": False}, [Reply(" ")], None),
    ],
)
def test_a_limit_ends_a_run_exactly_where_it_says(
    settings: JSON, turns: list[Reply], code: ErrorCode | None
) -> None:
    assert code_of(next_move(after(begun_plain(**settings), *turns))) is code


def test_unknown_tools_end_the_run_at_one_more_than_allowed() -> None:
    unknown = Problem(ErrorCode.TOOL_NOT_ALLOWED, "There is no such tool.")
    slips = [reply_with(ToolCall(f"c{n}", f"no{n}", problem=unknown)) for n in range(4)]
    assert isinstance(next_move(after(begun_plain(), *slips[:3])), AskModel)
    assert code_of(next_move(after(begun_plain(), *slips))) is ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED


def test_enforced_without_tools_never_asks() -> None:
    run = Run("r", "m", raw(tool_use_mode="enforced"), (User("x"),))
    assert code_of(next_move(run)) is ErrorCode.NO_TOOL_CALLS


def test_a_streak_counts_turns_and_ends_with_any_other_turn() -> None:
    other = ToolCall("o", "add", {"a": 2})
    run = after(begun_plain(), reply_with(CALL), reply_with(CALL, other), reply_with(CALL))
    assert (call_streak(run, CALL), call_streak(run, other)) == (3, 0)
    assert call_streak(run, ToolCall("o", "sub", CALL.arguments, arguments_bytes=7)) == 0
    assert call_streak(after(run, reply_with(other)), CALL) == 0


def test_a_note_is_added_to_the_warnings_that_a_call_has() -> None:
    warned = ToolCall("c2", "add", {"a": 1}, warnings=("old",))
    run = record_reply(after(begun_plain(), reply_with(CALL)), reply_with(warned))
    (said,) = run.replies[-1].calls
    assert said.problem is None
    assert said.warnings == ("old", "You have made this exact call 2 times in a row.")


@pytest.mark.parametrize(
    ("reply", "move"),
    [
        (Reply("a", finish_reason="stop"), Finish("a", "final")),
        (Reply("a"), Finish("a", "final")),
        (Reply("a", finish_reason="length"), Finish("a", "length")),
        (Reply("a", finish_reason="content_filter"), Finish("a", "content_filter")),
        (Reply("a", finish_reason="MAX_TOKENS"), Finish("a", "length")),
        (Reply("a", finish_reason="guardrail_intervened"), Finish("a", "content_filter")),
        (Reply("a", finish_reason="end_turn"), Finish("a", "final")),
        (Reply("", finish_reason="stop"), Fail(ErrorCode.EMPTY_FINAL, "the final answer is empty")),
    ],
)
def test_the_verdict_on_a_final_answer(reply: Reply, move: Move) -> None:
    assert next_move(record_reply(begun_plain(max_turns=1), reply)) == move


# The rules one by one: what is signed, what is barred, what ends a run, and the verdict


OTHER: Final = ToolCall("o", "add", {"a": 2})
SIGNED: Final = ToolCall("s", "add", {"a": 1}, extra={"signature": "x"})


def under(contract: Contract, **settings: Any) -> Run:
    config = raw(contract=contract, **settings)
    return Run("r", "m", config, (User("hi"),), tools=PLAIN_TOOLS)


def barred(run: Run, call: ToolCall) -> ErrorCode | None:
    """Return why the call would not run now."""
    (made,) = build_turn(run, reply_with(call)).calls
    return made.problem.code if made.problem is not None else None


# Where state comes from


@pytest.mark.parametrize(
    ("reply", "signed"),
    [
        (Reply("so"), False),
        (reply_with(CALL), False),
        (Reply("so", extra={"thought": "x"}), True),
        (reply_with(SIGNED), True),
        (reply_with(CALL, SIGNED), True),
    ],
)
@pytest.mark.parametrize("mode", ["relaxed", "disabled"])
def test_a_turn_says_where_it_comes_from_if_it_carries_state(
    reply: Reply, mode: str, *, signed: bool
) -> None:
    run = msgspec.structs.replace(begun_plain(tool_use_mode=mode), endpoint="here")
    said = build_turn(run, reply)

    # Calls that nobody asked for are dropped, and their state with them.
    kept = said.extra or said.calls
    assert said.origin == ("m@here" if signed and kept else "")
    assert said.text == reply.text
    assert len(said.calls or said.dropped) == len(reply.calls)


# Repetition


def reading(run: Run) -> Run:
    """Return a run whose tools only read; a write that was made is answered from the record."""
    tools = tuple(msgspec.structs.replace(spec, read_only=True) for spec in run.tools)
    return msgspec.structs.replace(run, tools=tools)


def test_a_read_that_just_succeeded_is_barred_where_the_config_says_so() -> None:
    run = begun_plain(block_repeated_success=True)

    assert barred(after(reading(run), reply_with(CALL)), CALL) is ErrorCode.REPEATED_CALL
    assert barred(after(run, reply_with(CALL)), CALL) is None
    assert barred(after(reading(begun_plain()), reply_with(CALL)), CALL) is None


def test_one_that_failed_or_was_another_or_may_be_repeated_is_not() -> None:
    run = begun_plain(block_repeated_success=True)
    poll = ToolCall("p", "poll")

    assert barred(run, CALL) is None
    assert barred(after(run, reply_with(CALL), ok=False), CALL) is None
    assert barred(after(run, reply_with(CALL), reply_with(OTHER)), CALL) is None
    assert barred(after(run, reply_with(poll)), poll) is None


def test_it_stays_barred_after_it_was_barred_and_after_words() -> None:
    run = after(reading(begun_plain(block_repeated_success=True)), reply_with(CALL))
    again = msgspec.structs.replace(CALL, id="c2")

    assert barred(after(run, reply_with(again)), CALL) is ErrorCode.REPEATED_CALL
    assert barred(record_reply(run, Reply("Well.")), CALL) is ErrorCode.REPEATED_CALL


def test_a_call_that_the_contract_wants_again_is_not_barred() -> None:
    contract = Contract(in_order=("add", "add"))
    run = after(under(contract, block_repeated_success=True), reply_with(CALL))

    assert barred(run, CALL) is None


def test_the_last_call_that_is_left_runs_and_the_next_one_does_not() -> None:
    first, second = build_turn(begun_plain(max_total_tool_calls=1), reply_with(CALL, OTHER)).calls

    assert first.problem is None
    assert second.problem is not None
    assert second.problem.code is ErrorCode.TOOL_CALL_LIMIT


def test_a_call_with_a_problem_keeps_it_and_takes_no_place() -> None:
    unknown = Problem(ErrorCode.TOOL_NOT_ALLOWED, "There is no such tool.")
    broken = ToolCall("b", "fly", problem=unknown)
    first, second = build_turn(begun_plain(max_total_tool_calls=1), reply_with(broken, OTHER)).calls

    assert first == broken
    assert second.problem is None


# What ends a run


def test_nothing_ends_a_run_that_has_just_begun() -> None:
    assert stop_failure(begun_plain()) is None
    assert stop_failure(begun_plain(tool_use_mode="enforced")) is None
    assert stop_failure(under(Contract(all_of=("add",)))) is None


def test_a_contract_that_no_tool_can_meet_ends_a_run_before_it_asks() -> None:
    fail = stop_failure(under(Contract(all_of=("add", "fly"))))

    assert isinstance(fail, Fail)
    assert fail.code is ErrorCode.CONTRACT_UNMET
    assert fail.details == {"missing": [["fly"]]}
    assert "fly" in fail.message


def test_so_does_a_contract_where_tools_are_disabled() -> None:
    fail = stop_failure(under(Contract(all_of=("add",)), tool_use_mode=ToolUseMode.DISABLED))

    assert isinstance(fail, Fail)
    assert fail.details == {"missing": [["add"]]}


@pytest.mark.parametrize(
    ("settings", "faults", "goes_on"),
    [
        ({"fallback_retry_count": 1}, [NO_TOOLS], True),
        ({"fallback_retry_count": 1}, [NO_TOOLS, NO_TOOLS], False),
        ({"fallback_retry_count": 2}, [NO_TOOLS, NO_TOOLS], True),
        ({"fallback_retry_count": 0}, [NO_TOOLS], False),
        ({"fallback_retry_count": 1}, [DOWN], False),
        ({"fallback_retry_count": 1, "tool_use_mode": "enforced"}, [NO_TOOLS], False),
        ({"fallback_retry_count": 1, "tool_use_mode": "disabled"}, [NO_TOOLS], False),
    ],
)
def test_a_refused_request_goes_out_again_without_tools_where_they_are_not_needed(
    settings: dict[str, Any], faults: list[Fault], *, goes_on: bool
) -> None:
    fail = stop_failure(after(begun_plain(**settings), *faults))

    assert (fail is None) is goes_on
    assert fail is None or (fail.code, fail.fault) == (faults[-1].code, faults[-1])


def test_a_contract_needs_its_tools_so_that_nothing_is_asked_without_them() -> None:
    run = under(Contract(all_of=("add",)), fallback_retry_count=1)
    fail = stop_failure(after(run, NO_TOOLS))

    assert fail is not None
    assert fail.code is ErrorCode.NO_TOOL_USE_ENDPOINT


def test_what_ends_a_run_is_said_in_words() -> None:
    long = stop_failure(after(begun_plain(max_turns=1), reply_with(CALL)))
    many = stop_failure(after(begun_plain(max_total_tool_calls=1), reply_with(CALL, OTHER)))
    loop = stop_failure(after(begun_plain(repeat_stop_at=3), *[reply_with(CALL)] * 3))

    assert long is not None
    assert long.message == "no final answer after 1 turns"
    assert many is not None
    assert many.message == "more than 1 tool calls in one run"
    assert loop is not None
    assert loop.details == {"tool_name": "add"}


@pytest.mark.parametrize("code", [ErrorCode.TOOL_CALL_LIMIT, ErrorCode.TOOL_NOT_ALLOWED])
def test_the_words_of_a_tool_that_ran_end_nothing(code: ErrorCode) -> None:
    run = record_reply(begun_plain(max_unknown_tool_calls=0), reply_with(CALL))
    result = ToolResult(CALL.id, CALL.name, ok=False, content="{}", error_codes=(code,))

    told = msgspec.structs.replace(result, executed=True)
    assert stop_failure(record_results(run, [told])) is None
    assert stop_failure(record_results(run, [result])) is not None


def test_any_call_of_the_newest_turn_may_be_the_one_that_loops() -> None:
    turns = [reply_with(ToolCall(f"n{n}", "add", {"b": n}), CALL) for n in range(3)]
    fail = stop_failure(after(begun_plain(repeat_stop_at=3), *turns))

    assert fail is not None
    assert fail.code is ErrorCode.LOOP_DETECTED


# The verdict


def judged(reply: Reply, **settings: Any) -> Finish | Fail:
    run = record_reply(begun_plain(**settings), reply)
    return judge_answer(run, run.replies[-1])


def test_a_reply_that_promised_a_call_is_no_answer() -> None:
    verdict_on_it = judged(Reply("I will look.", finish_reason="tool_calls"))

    assert isinstance(verdict_on_it, Fail)
    assert verdict_on_it.code is ErrorCode.CALL_MISSING
    assert "tool_calls" in verdict_on_it.message


def test_an_answer_counts_only_when_nothing_is_left_to_do() -> None:
    verdict_on_it = judged(Reply("Done."), tool_use_mode="enforced")

    assert isinstance(verdict_on_it, Fail)
    assert verdict_on_it.code is ErrorCode.NO_TOOL_CALLS


def test_an_empty_answer_is_accepted_or_refused_with_its_reason() -> None:
    cut_off = judged(Reply(" ", finish_reason="length"))

    assert judged(Reply(" "), fix_empty_final=False) == Finish(" ", "empty_final")
    assert isinstance(cut_off, Fail)
    assert cut_off.message == "the final answer is empty (it was cut off by the token limit)"
    assert judged(Reply(" ")) == Fail(ErrorCode.EMPTY_FINAL, "the final answer is empty")


# Look-ups that were made already: they are known until something is changed


BLOCKED: JSON = {"block_repeated_success": True}


def test_a_look_up_is_known_until_something_is_changed() -> None:
    desk = Desk()
    script = (calls("get"), calls("get", key="b"), calls("get"))
    _, model = desk.run(*script, calls("put", value="good"), calls("get"), DONE, **BLOCKED)
    assert desk.ran == ["get a", "get b", "put good", "get a"]
    assert "made this exact call already, and its result" in str(model.requests[3]["messages"])


def test_a_look_up_that_found_nothing_asks_for_another_one() -> None:
    desk = Desk()
    _, model = desk.run(calls("get", key=""), calls("get", key=""), DONE, **BLOCKED)
    assert desk.ran == ["get "]
    assert "there was nothing. Use other arguments." in str(model.requests[2]["messages"])
