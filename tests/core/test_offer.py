"""What a request offers: all tools, the few that may come next, or none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.core.loop import heard, next_move, objected, ran, refused
from surecall.core.obligations import unmet
from surecall.core.offer import finalising, offers_tools
from surecall.core.state import Ask, Fail, Run
from surecall.core.ways_out import is_hopeless
from surecall.settings.contract import Contract, Need
from surecall.settings.presets import raw
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Reply, System, ToolCall, ToolResult, User
from surecall.wire.messages import chosen_name, named_choice
from tests.support.transcripts import (
    NAMES,
    SETTINGS,
    TOOLS,
    TURNS,
    asking,
    begun,
    called,
    offer,
    said,
    step,
)

NO_TOOLS = Fault(ErrorCode.NO_TOOL_USE_ENDPOINT, "no tools here", 404)


EVERYTHING = (["get", "put", "send"], "auto")


def test_a_run_that_owes_nothing_offers_everything_and_may_answer() -> None:
    assert offer(begun()) == EVERYTHING
    assert asking(begun()).may_answer
    assert asking(begun()).known_tools == TOOLS


def test_a_reminder_offers_everything_and_no_answer_would_count() -> None:
    run = said(begun(contract=Contract(all_of=("put",))), "Done.")

    assert offer(run) == EVERYTHING
    assert not asking(run).may_answer


def test_a_demand_names_the_only_tool_that_is_missing() -> None:
    run = said(begun(contract=Contract(in_order=("put", "send"))), "Done.", "Done.")

    assert offer(run) == (["put"], named_choice("put"))
    assert asking(run).known_tools == TOOLS


def test_who_goes_round_in_circles_is_reminded_of_what_is_missing() -> None:
    run = begun(contract=Contract(all_of=(Need("put", {"a": 1}), "send")), repeat_block_at=2)

    assert asking(run).reminder == ""
    assert asking(called(run, "get")).reminder == ""
    wanted = 'Not finished yet. Still missing: a successful call of put with {"a":1}, send.'
    assert asking(called(run, "put", a=2)).reminder == wanted
    again = heard(called(run, "get"), Reply("", (ToolCall("c9", "get"),)))
    barred = ToolResult("c9", "get", ok=False, content="{}", error_codes=(ErrorCode.REPEATED_CALL,))
    assert asking(ran(again, [barred])).reminder == wanted


def test_who_owes_nothing_is_not_reminded() -> None:
    assert asking(called(begun(), "put")).reminder == ""


def test_a_demand_need_not_name_the_tool() -> None:
    settings: JSON = {"contract": Contract(all_of=("put",)), "demand_by_name": False}

    assert offer(said(begun(**settings), "Done.", "Done.")) == (["put"], "required")


def test_a_demand_leaves_the_choice_where_several_are_missing() -> None:
    run = said(begun(contract=Contract(any_of=("put", "send"))), "Done.", "Done.")

    assert offer(run) == (["put", "send"], "required")


def test_a_demand_for_any_call_offers_everything() -> None:
    run = said(begun(tool_use_mode="enforced"), "Done.", "Done.")

    assert offer(run) == (["get", "put", "send"], "required")


def test_a_demand_for_a_repair_names_the_tool_that_failed() -> None:
    run = called(begun(tool_use_mode="enforced"), "put", ok=False)

    assert offer(said(run, "Done.", "Done.")) == (["put"], named_choice("put"))


def test_a_demand_is_over_when_the_model_has_called() -> None:
    run = said(begun(contract=Contract(all_of=("put", "send"))), "Done.", "Done.")

    assert offer(called(run, "put")) == EVERYTHING


def test_a_tool_that_failed_and_is_gone_is_not_demanded() -> None:
    run = called(begun(tool_use_mode="enforced"), "gone", ok=False)

    assert asking(run).may_answer
    assert isinstance(next_move(said(run, "Done.")), Fail)


def test_a_model_whose_calls_all_fail_may_say_so_and_is_asked_only_a_few_times_more() -> None:
    run = begun(contract=Contract(all_of=("put",)))
    for name in ("put", "get", "send"):
        assert not asking(run).may_answer
        run = called(run, name, ok=False)

    assert asking(run).may_answer
    assert asking(run).way_out == ()
    run = said(run, "I cannot.", "I cannot.")
    assert offer(run) == (["put"], named_choice("put"))
    assert not asking(run).may_answer
    assert isinstance(next_move(said(run, "I cannot.")), Fail)


def test_a_contract_that_is_met_wants_nothing_but_the_answer() -> None:
    run = called(begun(contract=Contract(all_of=("put",))), "put")

    assert finalising(run)
    assert not offers_tools(run)
    assert offer(run) == ([], None)
    assert asking(run).may_answer
    assert asking(run).known_tools == TOOLS


def test_who_objects_may_want_more_to_be_done() -> None:
    run = called(begun(contract=Contract(all_of=("put",))), "put")
    run = objected(said(run, "Done."), "It is too short.")

    assert not finalising(run)
    assert offer(run) == EVERYTHING


@pytest.mark.parametrize(
    "settings", [{}, {"contract": Contract(all_of=("put",), then_finalise=False)}]
)
def test_without_a_contract_that_says_so_nothing_is_final(settings: JSON) -> None:
    run = called(begun(**settings), "put")

    assert not finalising(run)
    assert offer(run) == EVERYTHING


def test_tools_can_be_forbidden_where_they_cannot_be_left_out() -> None:
    style: JSON = {"tools_off_style": "tool_choice_none"}
    run = called(begun(contract=Contract(all_of=("put",)), **style), "put")

    assert offer(run) == (["get", "put", "send"], "none")


def test_a_route_that_refused_the_tools_is_not_sent_them_again() -> None:
    style: JSON = {"tools_off_style": "tool_choice_none", "fallback_retry_count": 1}
    run = refused(called(begun(**style), "put"), NO_TOOLS)

    assert offer(run) == ([], None)


def test_disabled_tools_are_not_known_at_all() -> None:
    asked = asking(begun(tool_use_mode="disabled"))

    assert (asked.tools, asked.known_tools, asked.tool_choice) == ((), (), None)


def test_an_option_that_needs_tools_leaves_with_them() -> None:
    options = {"parallel_tool_calls": False, "seed": 1}
    run = called(begun(options, contract=Contract(all_of=("put",))), "put")

    assert asking(begun(options)).options == options
    assert asking(run).options == {"seed": 1}


def test_the_system_text_stands_first() -> None:
    run = Run("r", "m", raw(), (User("hi"),), system=System("Be brief."))

    assert asking(run).messages == (System("Be brief."), User("hi"))


@given(SETTINGS, TURNS, st.sets(st.sampled_from(NAMES), max_size=2))
def test_a_narrowed_offer_is_never_empty_and_never_names_a_tool_that_is_denied(
    settings: JSON, turns: list[Any], denied: set[str]
) -> None:
    run = begun(**settings)
    shown = tuple(spec for spec in TOOLS if spec.name not in denied)
    run = Run("r", "m", run.config, run.messages, tools=shown)
    for turn in turns:
        if not isinstance(move := next_move(run), Ask):
            break
        asked = move.plan
        names = {spec.name for spec in asked.tools}
        assert not names & denied
        assert names <= {spec.name for spec in asked.known_tools}
        need = unmet(run)
        welcome = need is None or not need.demandable or is_hopeless(run)
        assert asked.may_answer == (welcome and asked.tool_choice in ("auto", "none", None))
        if asked.tool_choice == "required" or chosen_name(asked.tool_choice):
            assert asked.tools
            assert chosen_name(asked.tool_choice) in {None, *names}
            assert not asked.may_answer
        run = step(run, turn)


def barred(run: Run, name: str) -> Run:
    codes = (ErrorCode.REPEATED_CALL,)
    run = heard(run, Reply("", (ToolCall(f"c{run.turn}", name, {}),)))
    result = ToolResult(f"c{run.turn - 1}", name, ok=False, content="{}", error_codes=codes)
    return ran(run, [result])


def test_what_a_model_only_repeats_is_not_offered_where_something_else_is_missing() -> None:
    run = barred(called(begun(contract=Contract(all_of=("put",))), "get"), "get")

    assert offer(run) == (["put"], "auto")
    assert offer(called(run, "put", ok=False)) == EVERYTHING


def test_what_is_missing_stays_on_offer_though_it_was_repeated() -> None:
    assert offer(barred(begun(contract=Contract(all_of=("put",))), "put")) == EVERYTHING
    assert offer(barred(begun(), "get")) == EVERYTHING
    gone = barred(begun(tool_use_mode="enforced"), "get")
    assert offer(gone) == EVERYTHING
