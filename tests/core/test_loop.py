"""Tests of `surecall.core.loop`."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from surecall.core.approvals import hold_calls, record_decisions
from surecall.core.exposed_tools import exposes_tools
from surecall.core.loop import (
    TRANSITIONS,
    next_move,
    record_objection,
    record_refusal,
    record_reply,
    record_results,
)
from surecall.core.state import AskModel, AwaitApproval, Fail, Finish, Move, Run, RunTools
from surecall.settings.config import FINAL_ANSWER_REQUEST
from surecall.settings.presets import raw
from surecall.values.decisions import Decision
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Assistant, Plan, Reply, System, ToolCall, User
from tests.support.transcripts import (
    CALL,
    DOWN,
    NO_TOOLS,
    PLAIN_TOOLS,
    after,
    answer,
    begun_plain,
    code_of,
    plan_of,
    reply_with,
)
from tests.support.transcripts import begun_plain as begun

# The pure loop, driven by hand: replies in, moves out, no client, no tools, no clock


def test_a_run_goes_from_ask_to_call_to_ask_to_done() -> None:
    run = begun_plain()
    assert next_move(run) == AskModel(
        Plan("m", run.messages, PLAIN_TOOLS, "auto", known_tools=PLAIN_TOOLS)
    )
    run = record_reply(run, reply_with(CALL))
    assert next_move(run) == RunTools((CALL,))
    run = record_results(run, [answer(CALL)])
    assert plan_of(run).messages == run.messages
    assert next_move(record_reply(run, Reply("2"))) == Finish("2", "final")


def test_a_run_waits_for_a_person_and_goes_on_when_they_have_decided() -> None:
    run = hold_calls(record_reply(begun_plain(), reply_with(CALL)), {CALL.id: Decision.confirm()})
    assert next_move(run) == AwaitApproval(run.waiting)
    assert next_move(record_decisions(run, {CALL.id: Decision.approve()})) == RunTools((CALL,))


def test_the_system_text_is_planned_but_is_no_part_of_the_transcript() -> None:
    run = Run("r", "m", raw(), (User("hi"),), system=System("be brief"))
    assert plan_of(run).messages == (System("be brief"), User("hi"))
    assert run.messages == (User("hi"),)


def test_without_tools_the_plan_has_no_choice_and_no_parallel_calls() -> None:
    options = {"parallel_tool_calls": False, "temperature": 0}
    for style in ("omit", "tool_choice_none"):
        off = plan_of(begun_plain(options, tool_use_mode="disabled", tools_off_style=style))
        assert (off.tools, off.tool_choice, off.options) == ((), None, {"temperature": 0})
    assert plan_of(begun_plain(options)).options == options
    assert options == {"parallel_tool_calls": False, "temperature": 0}


def test_calls_without_an_offer_are_dropped() -> None:
    run = record_reply(begun_plain(tool_use_mode="disabled"), Reply("so", (CALL,), "tool_calls"))
    assert run.last_message == Assistant("so", (), (CALL,), "tool_calls")
    assert isinstance(run.last_message, Assistant)
    assert run.last_message.ignored_calls == (CALL,)
    assert next_move(run) == Finish("so", "final")


def test_an_empty_final_answer_is_asked_for_once() -> None:
    run = after(begun_plain(), reply_with(CALL), Reply(" "))
    assert run.last_message == User(FINAL_ANSWER_REQUEST, nudge=True)
    assert not exposes_tools(run)
    assert plan_of(run).tools == ()
    run = record_reply(run, Reply(""))
    assert code_of(next_move(run)) is ErrorCode.EMPTY_FINAL


def test_the_request_for_an_answer_can_forbid_the_tools_instead() -> None:
    run = after(begun_plain(tools_off_style="tool_choice_none"), reply_with(CALL), Reply(""))
    assert (plan_of(run).tools, plan_of(run).tool_choice) == (PLAIN_TOOLS, "none")


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
    run = after(begun_plain(**settings), *faults)
    move = next_move(run)
    if asks:
        assert plan_of(run).tools == ()
    else:
        assert move == Fail(faults[-1].code, faults[-1].message, fault=faults[-1])


def test_the_budget_for_refused_tools_is_one_of_each_turn() -> None:
    blank = Reply("", finish_reason="stop")
    run = after(begun_plain(fallback_retry_count=1), NO_TOOLS, blank, blank)
    assert code_of(next_move(run)) is ErrorCode.EMPTY_FINAL
    run = after(begun_plain(fallback_retry_count=1), reply_with(CALL), NO_TOOLS)
    assert plan_of(run).tools == ()


# The table of transitions is what the loop does: nothing else follows, and every row happens


RUNS, MOST_MOVES = 600, 14
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"tool_use_mode": "enforced", "final_ladder": ("remind", "require")},
    {"tool_use_mode": "disabled"},
    {"tool_use_mode": "relaxed", "fallback_retry_count": 1, "max_turns": 3},
    {"contract": {"all_of": ["add"]}, "max_total_tool_calls": 3},
)
Transition = tuple[type[Move], Callable[..., Any], type[Move]]


def step(draw: random.Random, run: Run, move: Move) -> tuple[Callable[..., Any], Run]:
    """Record something that a driver may record in this state."""
    match move:
        case AskModel():
            if draw.random() < 0.2:
                return record_refusal, record_refusal(run, draw.choice((DOWN, NO_TOOLS)))
            return record_reply, record_reply(run, reply(draw, len(run.messages)))
        case RunTools(calls):
            if draw.random() < 0.1:
                return record_refusal, record_refusal(run, DOWN)
            waiting = {call.id: Decision.confirm() for call in calls if draw.random() < 0.2}
            if waiting:
                return hold_calls, hold_calls(run, waiting)
            some = calls[: draw.randint(1, len(calls))]
            return record_results, record_results(
                run, [answer(call, ok=draw.random() < 0.7) for call in some]
            )
        case AwaitApproval(calls):
            made = {call.call_id: Decision.approve() for call in calls if draw.random() < 0.6}
            return record_decisions, record_decisions(run, made)
        case Finish() | Fail():
            return record_objection, record_objection(run, "Not like this.")


def reply(draw: random.Random, number: int) -> Reply:
    """Return an answer, an empty one, or a reply with one or two calls."""
    if draw.random() < 0.3:
        return Reply(draw.choice(("Done.", "")))
    names = draw.choices(("add", "poll"), k=draw.randint(1, 2))
    calls = [
        ToolCall(f"c{number}.{at}", name, {"a": draw.randint(1, 2)}, arguments_bytes=7)
        for at, name in enumerate(names)
    ]
    return Reply("", tuple(calls), "tool_calls")


def transitions(draw: random.Random) -> Iterator[Transition]:
    """Play a run at random."""
    options = {"parallel_tool_calls": draw.random() < 0.5}
    run = begun(options, **draw.choice(SETTINGS))
    move = next_move(run)
    for _ in range(MOST_MOVES):
        if isinstance(move, Fail):
            return
        event, run = step(draw, run, move)
        following = next_move(run)
        yield type(move), event, type(following)
        move = following


def test_the_table_lists_what_follows_and_nothing_else() -> None:
    draw = random.Random(1)  # noqa: S311 - seeded cases, no secrets
    seen = Counter(each for _ in range(RUNS) for each in transitions(draw))
    listed = {
        (state, event, following)
        for state, events in TRANSITIONS.items()
        for event, followers in events.items()
        for following in followers
    }

    assert seen.keys() - listed == set()
    assert listed - seen.keys() == set()
