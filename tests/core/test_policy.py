"""The rules of a run: limits, repeated calls, and what counts as an answer."""

import pytest

from surecall.core.loop import heard, next_move
from surecall.core.repetition import streak
from surecall.core.state import Ask, Done, Fail, Move, Run
from surecall.settings.presets import raw
from surecall.values.errors import ErrorCode
from surecall.values.types import (
    JSON,
    Problem,
    Reply,
    ToolCall,
    User,
)
from tests.support.hand_driven import (
    CALL,
    after,
    asking,
    begun,
    code_of,
    numbered,
)


@pytest.mark.parametrize(
    ("settings", "turns", "code"),
    [
        ({"max_turns": 2}, numbered(2), ErrorCode.MAX_TURNS_EXCEEDED),
        ({"max_turns": 3}, numbered(2), None),
        ({"max_total_tool_calls": 2}, numbered(3), ErrorCode.MAX_TOOL_CALLS_EXCEEDED),
        ({"max_total_tool_calls": 3}, numbered(3), None),
        ({"repeat_stop_at": 3}, [asking(CALL)] * 3, ErrorCode.LOOP_DETECTED),
        ({"repeat_stop_at": 4}, [asking(CALL)] * 3, None),
        ({}, [asking(ToolCall("p", "poll"))] * 9, None),
        ({"tool_use_mode": "enforced"}, [Reply("so")], ErrorCode.NO_TOOL_CALLS),
        ({"tool_use_mode": "relaxed"}, [Reply(" ")], None),
        ({"tool_use_mode": "relaxed"}, [Reply(" ")] * 2, ErrorCode.EMPTY_FINAL),
        ({"fix_empty_final": False}, [Reply(" ")], None),
    ],
)
def test_a_limit_ends_a_run_exactly_where_it_says(
    settings: JSON, turns: list[Reply], code: ErrorCode | None
) -> None:
    assert code_of(next_move(after(begun(**settings), *turns))) is code


def test_unknown_tools_end_the_run_at_one_more_than_allowed() -> None:
    unknown = Problem(ErrorCode.TOOL_NOT_ALLOWED, "There is no such tool.")
    slips = [asking(ToolCall(f"c{n}", f"no{n}", problem=unknown)) for n in range(4)]
    assert isinstance(next_move(after(begun(), *slips[:3])), Ask)
    assert code_of(next_move(after(begun(), *slips))) is ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED


def test_enforced_without_tools_never_asks() -> None:
    run = Run("r", "m", raw(tool_use_mode="enforced"), (User("x"),))
    assert code_of(next_move(run)) is ErrorCode.NO_TOOL_CALLS


def test_a_streak_counts_turns_and_ends_with_any_other_turn() -> None:
    other = ToolCall("o", "add", {"a": 2})
    run = after(begun(), asking(CALL), asking(CALL, other), asking(CALL))
    assert (streak(run, CALL), streak(run, other)) == (3, 0)
    assert streak(run, ToolCall("o", "sub", CALL.arguments, arguments_bytes=7)) == 0
    assert streak(after(run, asking(other)), CALL) == 0


def test_a_note_is_added_to_the_warnings_that_a_call_has() -> None:
    warned = ToolCall("c2", "add", {"a": 1}, warnings=("old",))
    run = heard(after(begun(), asking(CALL)), asking(warned))
    (said,) = run.said[-1].calls
    assert said.problem is None
    assert said.warnings == ("old", "You have made this exact call 2 times in a row.")


@pytest.mark.parametrize(
    ("reply", "move"),
    [
        (Reply("a", finish_reason="stop"), Done("a", "final")),
        (Reply("a"), Done("a", "final")),
        (Reply("a", finish_reason="length"), Done("a", "length")),
        (Reply("a", finish_reason="content_filter"), Done("a", "content_filter")),
        (Reply("a", finish_reason="MAX_TOKENS"), Done("a", "length")),
        (Reply("a", finish_reason="guardrail_intervened"), Done("a", "content_filter")),
        (Reply("a", finish_reason="end_turn"), Done("a", "final")),
        (Reply("", finish_reason="stop"), Fail(ErrorCode.EMPTY_FINAL, "the final answer is empty")),
    ],
)
def test_the_verdict_on_a_final_answer(reply: Reply, move: Move) -> None:
    assert next_move(heard(begun(max_turns=1), reply)) == move
