"""The pure loop, driven by hand: replies in, moves out, no client, no tools, no clock."""

from typing import Any

import pytest

from surecall.core.loop import heard, next_move, ran, refused
from surecall.core.obligations import failures
from surecall.core.offer import offers_tools
from surecall.core.outcome import (
    LimitExceeded,
    RequestFailed,
    RunFailed,
    RunResult,
    ToolUseError,
    failure,
    last_text,
    usage_of,
)
from surecall.core.policy import streak
from surecall.core.state import Ask, Call, Done, Fail, Move, Run
from surecall.settings.config import FINAL_ANSWER_REQUEST, ToolCallingConfig
from surecall.values.errors import ErrorCode, Fault
from surecall.values.trace import Trace
from surecall.values.types import (
    JSON,
    Assistant,
    Plan,
    Problem,
    Refusal,
    Reply,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    User,
)

TOOLS = (ToolSpec("add", "Add.", {}), ToolSpec("poll", "Poll.", {}, repeatable=True))
CALL = ToolCall("c1", "add", {"a": 1}, arguments_bytes=7)
NO_TOOLS = Fault(ErrorCode.NO_TOOL_USE_ENDPOINT, "no tools here", 404)
DOWN = Fault(ErrorCode.UPSTREAM_5XX, "down", 500)
CODES = {True: (), False: (ErrorCode.INTERNAL_ERROR,)}


def begun(options: JSON | None = None, **settings: Any) -> Run:
    config = ToolCallingConfig.from_mapping(settings)
    return Run("r", "m", config, (User("hi"),), tools=TOOLS, options=options or {})


def answer(call: ToolCall, *, ok: bool = True) -> ToolResult:
    if call.problem is None:
        return ToolResult(call.id, call.name, ok, "{}", executed=True, error_codes=CODES[ok])
    codes = (call.problem.code,)
    return ToolResult(call.id, call.name, ok=False, content="{}", error_codes=codes)


def after(run: Run, *turns: Reply | Fault, ok: bool = True) -> Run:
    """Drive a run by hand through some replies, answering every call."""
    for turn in turns:
        run = refused(run, turn) if isinstance(turn, Fault) else heard(run, turn)
        if isinstance(move := next_move(run), Call):
            run = ran(run, [answer(call, ok=ok) for call in move.calls])
    return run


def asking(*calls: ToolCall) -> Reply:
    return Reply("", calls, "tool_calls")


def plan_of(run: Run) -> Plan:
    move = next_move(run)
    assert isinstance(move, Ask)
    return move.plan


def code_of(move: Move) -> ErrorCode | None:
    return move.code if isinstance(move, Fail) else None


def numbered(count: int, name: str = "add") -> list[Reply]:
    return [asking(ToolCall(f"c{n}", name, {"a": n})) for n in range(count)]


def test_a_run_goes_from_ask_to_call_to_ask_to_done() -> None:
    run = begun()
    assert next_move(run) == Ask(Plan("m", run.messages, TOOLS, "auto", known_tools=TOOLS))
    run = heard(run, asking(CALL))
    assert next_move(run) == Call((CALL,))
    run = ran(run, [answer(CALL)])
    assert plan_of(run).messages == run.messages
    assert next_move(heard(run, Reply("2"))) == Done("2", "final")


def test_a_run_survives_being_written_down_after_every_move() -> None:
    run = begun({"temperature": 0.5}, max_turns=4, tool_denylist=["x"])
    refusal = Problem(ErrorCode.TOOL_NOT_ALLOWED, "no", {"near": ["add"]})
    calls = (CALL, ToolCall("c2", "ad", problem=refusal))
    asked = heard(run, asking(*calls))
    answered = ran(asked, [answer(call) for call in calls])
    for state in (run, asked, answered, refused(answered, DOWN)):
        again = Run.from_json(state.to_json())
        assert again == state
        assert next_move(again) == next_move(state)


def test_history_before_the_start_counts_for_nothing() -> None:
    earlier = (User("go"), Assistant("", (CALL,)), answer(CALL, ok=False), User("", nudge=True))
    run = Run("r", "m", ToolCallingConfig(max_turns=1), earlier, start=4, tools=TOOLS)
    assert (run.turn, run.called, run.nudged, run.last, run.results) == (0, False, False, None, [])
    assert offers_tools(run)
    assert streak(run, CALL) == 0
    assert plan_of(run).messages == earlier


def test_the_system_text_is_planned_but_is_no_part_of_the_transcript() -> None:
    run = Run("r", "m", ToolCallingConfig(), (User("hi"),), system=System("be brief"))
    assert plan_of(run).messages == (System("be brief"), User("hi"))
    assert run.messages == (User("hi"),)


def test_without_tools_the_plan_has_no_choice_and_no_parallel_calls() -> None:
    options = {"parallel_tool_calls": False, "temperature": 0}
    for style in ("omit", "tool_choice_none"):
        off = plan_of(begun(options, tool_use_mode="disabled", tools_off_style=style))
        assert (off.tools, off.tool_choice, off.options) == ((), None, {"temperature": 0})
    assert plan_of(begun(options)).options == options
    assert options == {"parallel_tool_calls": False, "temperature": 0}


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
    assert begun(options, max_tool_calls_per_turn=limit).calls_per_turn == expected


def test_calls_without_an_offer_are_dropped() -> None:
    run = heard(begun(tool_use_mode="disabled"), Reply("so", (CALL,), "tool_calls"))
    assert run.last == Assistant("so", (), (CALL,), "tool_calls")
    assert isinstance(run.last, Assistant)
    assert run.last.ignored == (CALL,)
    assert next_move(run) == Done("so", "final")


def test_an_empty_final_answer_is_asked_for_once_per_run() -> None:
    run = after(begun(), asking(CALL), Reply(" "))
    assert run.last == User(FINAL_ANSWER_REQUEST, nudge=True)
    assert not offers_tools(run)
    assert plan_of(run).tools == ()
    run = heard(run, Reply(""))
    assert code_of(next_move(run)) is ErrorCode.EMPTY_FINAL


def test_the_request_for_an_answer_can_forbid_the_tools_instead() -> None:
    run = after(begun(tools_off_style="tool_choice_none"), asking(CALL), Reply(""))
    assert (plan_of(run).tools, plan_of(run).tool_choice) == (TOOLS, "none")


def test_what_came_since_the_model_spoke_is_the_tail() -> None:
    run = after(begun(), asking(CALL))
    assert run.tail == (answer(CALL),)
    assert begun().tail == (User("hi"),)


@pytest.mark.parametrize(
    ("settings", "faults", "asks"),
    [
        pytest.param({}, [NO_TOOLS], False, id="no-budget"),
        pytest.param({"fallback_retry_count": 1}, [NO_TOOLS], True, id="budget"),
        pytest.param({"fallback_retry_count": 1}, [NO_TOOLS] * 2, False, id="spent"),
        pytest.param({"fallback_retry_count": 2}, [NO_TOOLS] * 2, True, id="larger"),
        pytest.param({"fallback_retry_count": 1}, [DOWN], False, id="another-fault"),
        pytest.param({"fallback_retry_count": 1}, [NO_TOOLS, DOWN], False, id="then-another"),
        pytest.param(
            {"fallback_retry_count": 1, "tool_use_mode": "enforced"}, [NO_TOOLS], False, id="mode"
        ),
    ],
)
def test_refused_tools_may_be_left_out(settings: JSON, faults: list[Fault], *, asks: bool) -> None:
    run = after(begun(**settings), *faults)
    move = next_move(run)
    if asks:
        assert plan_of(run).tools == ()
    else:
        assert move == Fail(faults[-1].code, faults[-1].message, fault=faults[-1])


def test_the_budget_for_refused_tools_is_one_of_each_turn() -> None:
    run = after(begun(fallback_retry_count=1), NO_TOOLS, Reply("", finish_reason="stop"))
    assert code_of(next_move(run)) is ErrorCode.EMPTY_FINAL
    run = after(begun(fallback_retry_count=1), asking(CALL), NO_TOOLS)
    assert plan_of(run).tools == ()


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
        ({"tool_use_mode": "relaxed"}, [Reply(" ")], ErrorCode.EMPTY_FINAL),
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
    run = Run("r", "m", ToolCallingConfig.from_mapping({"tool_use_mode": "enforced"}), (User("x"),))
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
    assert said.warnings == ("old", "You have made this very call 2 times in a row.")


@pytest.mark.parametrize(
    ("reply", "move"),
    [
        (Reply("a", finish_reason="stop"), Done("a", "final")),
        (Reply("a"), Done("a", "final")),
        (Reply("a", finish_reason="length"), Done("a", "length")),
        (Reply("a", finish_reason="content_filter"), Done("a", "content_filter")),
        (Reply("", finish_reason="stop"), Fail(ErrorCode.EMPTY_FINAL, "the final answer is empty")),
    ],
)
def test_the_verdict_on_a_final_answer(reply: Reply, move: Move) -> None:
    assert next_move(heard(begun(), reply)) == move


def test_a_failure_is_made_up_for_by_the_same_tool_later_or_the_same_call_ever() -> None:
    first, other = CALL, ToolCall("c2", "add", {"a": 2})
    same = ToolCall("c3", "add", {"a": 1}, arguments_bytes=7)
    made = begun().plus(Assistant("", (first, other, same)), answer(first))
    run = made.plus(answer(other, ok=False), answer(same, ok=False))
    assert failures(run) == ([other], [same])
    assert failures(made.plus(answer(other, ok=False), answer(same))) == ([], [other])


def test_a_call_without_a_result_did_not_fail() -> None:
    assert failures(begun().plus(Assistant("", (CALL,)))) == ([], [])


@pytest.mark.parametrize(
    ("policy", "oks", "code"),
    [
        ("fatal", [True, True], None),
        ("fatal", [True, False], ErrorCode.TOOL_ERROR),
        ("tolerated", [True, False], None),
        ("tolerated", [False, False], ErrorCode.TOOL_ERROR),
    ],
)
def test_what_failed_tools_mean_for_an_enforced_run(
    policy: str, oks: list[bool], code: ErrorCode | None
) -> None:
    run = begun(tool_use_mode="enforced", tool_failure_policy=policy)
    for reply, ok in zip(numbered(2), oks, strict=True):
        run = after(run, reply, ok=ok)
    assert code_of(next_move(after(run, Reply("done")))) is code


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (Fail(ErrorCode.MAX_TURNS_EXCEEDED, "x"), LimitExceeded),
        (Fail(ErrorCode.DEADLINE_EXCEEDED, "x", fault=DOWN), LimitExceeded),
        (Fail(ErrorCode.UPSTREAM_5XX, "x", fault=DOWN), RequestFailed),
        (Fail(ErrorCode.POLICY_ERROR, "x", fault=DOWN), ToolUseError),
        (Fail(ErrorCode.EMPTY_FINAL, "x", {"a": 1}), ToolUseError),
    ],
)
def test_each_failure_has_its_error(fail: Fail, kind: type[RunFailed]) -> None:
    result = RunResult("", fail.code, Usage(), Trace(()), begun())
    error = failure(fail, result)
    assert type(error) is kind
    assert (error.code, error.details, error.result) == (fail.code, fail.details, result)


def test_the_last_words_are_those_of_this_run() -> None:
    run = Run("r", "m", ToolCallingConfig(), (Assistant("old"), User("hi")), start=1)
    assert last_text(run) == ""
    assert last_text(run.plus(Assistant("a"), Assistant("b"), Refusal(DOWN))) == "b"
    assert usage_of(Trace(())) == Usage()
