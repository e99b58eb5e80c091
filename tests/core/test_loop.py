"""The pure loop, driven by hand: replies in, moves out, no client, no tools, no clock."""

import pytest

from surecall.core.approvals import decided, held
from surecall.core.loop import heard, next_move, ran
from surecall.core.offer import offers_tools
from surecall.core.state import Ask, Call, Done, Fail, Run, Wait
from surecall.settings.config import FINAL_ANSWER_REQUEST
from surecall.settings.presets import raw
from surecall.values.decisions import Decision
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import (
    JSON,
    Assistant,
    Plan,
    Reply,
    System,
    User,
)
from tests.support.hand_driven import (
    CALL,
    DOWN,
    NO_TOOLS,
    TOOLS,
    after,
    answer,
    asking,
    begun,
    code_of,
    plan_of,
)


def test_a_run_goes_from_ask_to_call_to_ask_to_done() -> None:
    run = begun()
    assert next_move(run) == Ask(Plan("m", run.messages, TOOLS, "auto", known_tools=TOOLS))
    run = heard(run, asking(CALL))
    assert next_move(run) == Call((CALL,))
    run = ran(run, [answer(CALL)])
    assert plan_of(run).messages == run.messages
    assert next_move(heard(run, Reply("2"))) == Done("2", "final")


def test_a_run_waits_for_a_person_and_goes_on_when_they_have_decided() -> None:
    run = held(heard(begun(), asking(CALL)), {CALL.id: Decision.confirm()})
    assert next_move(run) == Wait(run.waiting)
    assert next_move(decided(run, {CALL.id: Decision.approve()})) == Call((CALL,))


def test_the_system_text_is_planned_but_is_no_part_of_the_transcript() -> None:
    run = Run("r", "m", raw(), (User("hi"),), system=System("be brief"))
    assert plan_of(run).messages == (System("be brief"), User("hi"))
    assert run.messages == (User("hi"),)


def test_without_tools_the_plan_has_no_choice_and_no_parallel_calls() -> None:
    options = {"parallel_tool_calls": False, "temperature": 0}
    for style in ("omit", "tool_choice_none"):
        off = plan_of(begun(options, tool_use_mode="disabled", tools_off_style=style))
        assert (off.tools, off.tool_choice, off.options) == ((), None, {"temperature": 0})
    assert plan_of(begun(options)).options == options
    assert options == {"parallel_tool_calls": False, "temperature": 0}


def test_calls_without_an_offer_are_dropped() -> None:
    run = heard(begun(tool_use_mode="disabled"), Reply("so", (CALL,), "tool_calls"))
    assert run.last == Assistant("so", (), (CALL,), "tool_calls")
    assert isinstance(run.last, Assistant)
    assert run.last.ignored == (CALL,)
    assert next_move(run) == Done("so", "final")


def test_an_empty_final_answer_is_asked_for_once() -> None:
    run = after(begun(), asking(CALL), Reply(" "))
    assert run.last == User(FINAL_ANSWER_REQUEST, nudge=True)
    assert not offers_tools(run)
    assert plan_of(run).tools == ()
    run = heard(run, Reply(""))
    assert code_of(next_move(run)) is ErrorCode.EMPTY_FINAL


def test_the_request_for_an_answer_can_forbid_the_tools_instead() -> None:
    run = after(begun(tools_off_style="tool_choice_none"), asking(CALL), Reply(""))
    assert (plan_of(run).tools, plan_of(run).tool_choice) == (TOOLS, "none")


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
    blank = Reply("", finish_reason="stop")
    run = after(begun(fallback_retry_count=1), NO_TOOLS, blank, blank)
    assert code_of(next_move(run)) is ErrorCode.EMPTY_FINAL
    run = after(begun(fallback_retry_count=1), asking(CALL), NO_TOOLS)
    assert plan_of(run).tools == ()
