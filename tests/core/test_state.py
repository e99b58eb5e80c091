"""The state of a run: what is derived from a transcript, and that it can be written down."""

import msgspec
import pytest

from surecall.core.exposed_tools import exposes_tools
from surecall.core.giving_up import call_streak
from surecall.core.loop import next_move, record_refusal, record_reply, record_results
from surecall.core.state import Run, once_per_run
from surecall.settings.presets import raw
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Assistant, Problem, ToolCall, User
from tests.support.transcripts import (
    CALL,
    DOWN,
    PLAIN_TOOLS,
    after,
    answer,
    begun_plain,
    plan_of,
    reply_with,
)

ONE_TOO_MANY = Problem(ErrorCode.TOOL_CALL_NOT_EXECUTED, "Only the first runs.")


def test_a_run_survives_being_written_down_after_every_move() -> None:
    run = begun_plain({"temperature": 0.5}, max_turns=4, tool_denylist=["x"])
    refusal = Problem(ErrorCode.TOOL_NOT_ALLOWED, "no", {"near": ["add"]})
    calls = (CALL, ToolCall("c2", "ad", problem=refusal))
    asked = record_reply(run, reply_with(*calls))
    answered = record_results(asked, [answer(call) for call in calls])
    for state in (run, asked, answered, record_refusal(answered, DOWN)):
        again = Run.from_json(state.to_json())
        assert again == state
        assert next_move(again) == next_move(state)


def test_history_before_the_start_counts_for_nothing() -> None:
    earlier = (User("go"), Assistant("", (CALL,)), answer(CALL, ok=False), User("", nudge=True))
    run = Run("r", "m", raw(max_turns=1), earlier, start=4, tools=PLAIN_TOOLS)
    assert (
        run.turn_count,
        run.has_called_tools,
        run.was_reprompted,
        run.last_message,
        run.results,
    ) == (0, False, False, None, ())
    assert exposes_tools(run)
    assert call_streak(run, CALL) == 0
    assert plan_of(run).messages == earlier


@pytest.mark.parametrize(
    ("limit", "options", "expected"),
    [
        (None, {}, None),
        (None, {"parallel_tool_calls": True}, None),
        (None, {"parallel_tool_calls": False}, 1),
        (3, {"parallel_tool_calls": False}, 3),
    ],
)
def test_calls_per_turn(limit: int | None, options: JSON, expected: int | None) -> None:
    assert begun_plain(options, max_tool_calls_per_turn=limit).max_calls_per_turn == expected


def test_where_one_call_is_asked_for_a_model_that_was_told_so_is_taken_at_its_word() -> None:
    options = {"parallel_tool_calls": False}
    told = Assistant("", (CALL, msgspec.structs.replace(CALL, problem=ONE_TOO_MANY)))
    assert begun_plain(options).with_messages(Assistant("", (CALL,))).max_calls_per_turn == 1
    assert begun_plain(options).with_messages(told).max_calls_per_turn is None
    assert begun_plain(options, calls_in_order=True).max_calls_per_turn is None
    assert (
        begun_plain(options, max_tool_calls_per_turn=2, calls_in_order=True).max_calls_per_turn == 2
    )
    assert (
        begun_plain(options, max_tool_calls_per_turn=2).with_messages(told).max_calls_per_turn == 2
    )


def test_what_came_since_the_model_spoke_is_the_tail() -> None:
    run = after(begun_plain(), reply_with(CALL))
    assert run.tail == (answer(CALL),)
    assert begun_plain().tail == (User("hi"),)


def test_what_is_derived_from_a_run_is_derived_once_and_is_no_part_of_it() -> None:
    asked: list[Run] = []

    @once_per_run
    def turns(run: Run) -> int:
        asked.append(run)
        return run.turn_count

    run = begun_plain()
    later = run.with_messages(Assistant("hi"))

    assert [turns(run), turns(run), turns(later), turns(later)] == [0, 0, 1, 1]
    assert [each is state for each, state in zip(asked, (run, later), strict=True)] == [True, True]
    assert run == begun_plain()
    assert run.to_json() == begun_plain().to_json()
    assert run.with_messages() is run
