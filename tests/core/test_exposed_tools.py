"""Tests of `surecall.core.exposed_tools`."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import ToolLoopRunner, replay, tool
from surecall.core.exposed_tools import (
    MAX_REQUEST_CHARS,
    MAX_WRITE_CHARS,
    MAX_WRITES,
    exposes_tools,
    is_finalizing,
    missing_call_reason,
    next_plan,
)
from surecall.core.giving_up import is_hopeless
from surecall.core.loop import (
    next_move,
    record_objection,
    record_refusal,
    record_reply,
    record_results,
)
from surecall.core.obligations import unmet_obligation
from surecall.core.state import CALL_MISSING, AskModel, Fail, Finish, Run
from surecall.settings.contract import Contract, Need
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import LlmRequestStartEvent
from surecall.values.types import (
    JSON,
    AmbiguousCall,
    Assistant,
    Reply,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)
from surecall.wire.chat_format import chosen_tool_name, tool_choice_for
from tests.support.prompted_runs import PROTOCOLS, body
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

# What a request offers: all tools, the few that may come next, or none


NO_TOOLS = Fault(ErrorCode.NO_TOOL_USE_ENDPOINT, "no tools here", 404)


EVERYTHING = (["get", "put", "send"], "auto")


def test_a_run_that_owes_nothing_offers_everything_and_may_answer() -> None:
    assert offer(begun()) == EVERYTHING
    assert asking(begun()).may_answer
    assert asking(begun()).known_tools == TOOLS


def test_a_run_that_forbids_calls_sends_its_tools_and_runs_none() -> None:
    run = begun(tool_choice="none")
    assert offer(run) == (["get", "put", "send"], "none")
    assert not exposes_tools(run)


def test_a_call_that_the_contract_demands_is_welcome_although_the_config_forbids_calls() -> None:
    run = begun(tool_choice="none", contract=Contract(in_order=("put", "send")))
    assert not exposes_tools(run)
    demanded = said(run, "Done.", "Done.")
    assert offer(demanded) == (["put"], tool_choice_for("put"))
    assert exposes_tools(demanded)


def test_a_reminder_offers_everything_and_no_answer_would_count() -> None:
    run = said(begun(contract=Contract(all_of=("put",))), "Done.")

    assert offer(run) == EVERYTHING
    assert not asking(run).may_answer


def test_a_demand_names_the_only_tool_that_is_missing() -> None:
    run = said(begun(contract=Contract(in_order=("put", "send"))), "Done.", "Done.")

    assert offer(run) == (["put"], tool_choice_for("put"))
    assert asking(run).known_tools == TOOLS


def test_who_goes_round_in_circles_is_reminded_of_what_is_missing() -> None:
    run = begun(contract=Contract(all_of=(Need("put", {"a": 1}), "send")), repeat_block_at=2)

    assert asking(run).reminder == ""
    assert asking(called(run, "get")).reminder == ""
    wanted = 'Not finished yet. Still missing: a successful call of put with {"a":1}, send.'
    assert asking(called(run, "put", a=2)).reminder == wanted
    again = record_reply(called(run, "get"), Reply("", (ToolCall("c9", "get"),)))
    barred = ToolResult("c9", "get", ok=False, content="{}", error_codes=(ErrorCode.REPEATED_CALL,))
    assert asking(record_results(again, [barred])).reminder == wanted


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

    assert offer(said(run, "Done.", "Done.")) == (["put"], tool_choice_for("put"))


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
    assert asking(run).give_up_reasons == ()
    run = said(run, "I cannot.", "I cannot.")
    assert offer(run) == (["put"], tool_choice_for("put"))
    assert not asking(run).may_answer
    assert isinstance(next_move(said(run, "I cannot.")), Fail)


def test_a_contract_that_is_met_wants_nothing_but_the_answer() -> None:
    run = called(begun(contract=Contract(all_of=("put",))), "put")

    assert is_finalizing(run)
    assert not exposes_tools(run)
    assert offer(run) == ([], None)
    assert asking(run).may_answer
    assert asking(run).known_tools == TOOLS


def test_who_objects_may_want_more_to_be_done() -> None:
    run = called(begun(contract=Contract(all_of=("put",))), "put")
    run = record_objection(said(run, "Done."), "It is too short.")

    assert not is_finalizing(run)
    assert offer(run) == EVERYTHING


@pytest.mark.parametrize(
    "settings", [{}, {"contract": Contract(all_of=("put",), then_finalise=False)}]
)
def test_without_a_contract_that_says_so_nothing_is_final(settings: JSON) -> None:
    run = called(begun(**settings), "put")

    assert not is_finalizing(run)
    assert offer(run) == EVERYTHING


def test_tools_can_be_forbidden_where_they_cannot_be_left_out() -> None:
    style: JSON = {"tools_off_style": "tool_choice_none"}
    run = called(begun(contract=Contract(all_of=("put",)), **style), "put")

    assert offer(run) == (["get", "put", "send"], "none")


def test_a_route_that_refused_the_tools_is_not_sent_them_again() -> None:
    style: JSON = {"tools_off_style": "tool_choice_none", "fallback_retry_count": 1}
    run = record_refusal(called(begun(**style), "put"), NO_TOOLS)

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
        if not isinstance(move := next_move(run), AskModel):
            break
        asked = move.plan
        names = {spec.name for spec in asked.tools}
        assert not names & denied
        assert names <= {spec.name for spec in asked.known_tools}
        need = unmet_obligation(run)
        welcome = need is None or not need.demandable or is_hopeless(run)
        assert asked.may_answer == (welcome and asked.tool_choice in ("auto", "none", None))
        if asked.tool_choice == "required" or chosen_tool_name(asked.tool_choice):
            assert asked.tools
            assert chosen_tool_name(asked.tool_choice) in {None, *names}
            assert not asked.may_answer
        run = step(run, turn)


def barred(run: Run, name: str) -> Run:
    codes = (ErrorCode.REPEATED_CALL,)
    run = record_reply(run, Reply("", (ToolCall(f"c{run.turn_count}", name, {}),)))
    result = ToolResult(f"c{run.turn_count - 1}", name, ok=False, content="{}", error_codes=codes)
    return record_results(run, [result])


def test_what_a_model_only_repeats_is_not_offered_where_something_else_is_missing() -> None:
    run = barred(called(begun(contract=Contract(all_of=("put",))), "get"), "get")

    assert offer(run) == (["put"], "auto")
    assert offer(called(run, "put", ok=False)) == EVERYTHING


def test_what_is_missing_stays_on_offer_though_it_was_repeated() -> None:
    assert offer(barred(begun(contract=Contract(all_of=("put",))), "put")) == EVERYTHING
    assert offer(barred(begun(), "get")) == EVERYTHING
    gone = barred(begun(tool_use_mode="enforced"), "get")
    assert offer(gone) == EVERYTHING


# A reply that promises a call and has none: it is asked about, bounded, and never an answer


PROMISES = ["tool_calls", "function_call", "tool_use", "TOOL_CALLS", "MALFORMED_FUNCTION_CALL"]


def until_the_end(run: Run, reply: Reply) -> tuple[Run, int]:
    """Give the same reply until the run ends; count the requests."""
    asked = 0
    while isinstance(next_move(run), AskModel):
        run, asked = record_reply(run, reply), asked + 1
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
    run = record_reply(called(begun(), "get"), Reply("", finish_reason="tool_calls"))

    assert isinstance(run.last_message, User)
    assert run.last_message.rung == CALL_MISSING
    assert isinstance(move := next_move(run), AskModel)
    assert move.plan.tools == run.tools


def test_between_two_results_it_is_asked_once_and_then_again() -> None:
    lost = Reply("", finish_reason="tool_calls")
    run = record_reply(begun(), lost)
    run = record_reply(called(run, "get"), lost)

    assert isinstance(next_move(run), AskModel)
    assert isinstance(next_move(record_reply(run, lost)), Fail)


def test_without_the_switch_the_run_fails_at_once() -> None:
    run = record_reply(begun(fix_empty_final=False), Reply("So.", finish_reason="tool_calls"))

    assert isinstance(move := next_move(run), Fail)
    assert move.code is ErrorCode.CALL_MISSING


def test_where_no_tools_are_offered_no_call_is_missing() -> None:
    run = record_reply(begun(tool_use_mode="disabled"), Reply("So.", finish_reason="tool_calls"))

    assert next_move(run) == Finish("So.", "final")


def test_a_request_that_failed_later_does_not_change_what_was_offered() -> None:
    run = record_reply(begun(fix_empty_final=False), Reply("So.", finish_reason="tool_calls"))
    said = run.replies[-1]
    run = record_refusal(run, Fault(ErrorCode.TIMEOUT, "late"))

    assert missing_call_reason(run, said)


def test_a_turn_with_calls_misses_none() -> None:
    said = Assistant("", (ToolCall("c1", "get"),), finish_reason="tool_calls")

    assert missing_call_reason(begun().with_messages(said), said) == ""


def test_a_call_as_text_alone_is_asked_about_twice_and_is_no_answer() -> None:
    alone = Reply("<tool_call>…</tool_call>", claims=(AmbiguousCall("", "whole", alone=True),))
    run, asked = until_the_end(begun(tool_use_mode="relaxed"), alone)

    assert isinstance(move := next_move(run), Fail)
    assert (move.code, asked) == (ErrorCode.CALL_MISSING, 3)
    assert "The tools are called: " in str(run.own_messages[-2])


def test_a_call_in_a_sentence_is_the_answer_after_the_questions() -> None:
    quoted = Reply("It says <tool_call>…", claims=(AmbiguousCall("get", "own_words"),))
    run, asked = until_the_end(begun(tool_use_mode="relaxed"), quoted)

    assert (next_move(run), asked) == (Finish(quoted.text, "final"), 3)


# Before the final answer, what was written and what was asked for are repeated, in short


CONTRACT = Contract(all_of=["book"])


@tool
def book(room: int, note: str = "") -> str:
    """Book a room."""
    return f"room {room} is yours {note}"


@tool(read_only=True)
def look(room: int) -> str:
    """Look at a room."""
    return f"room {room} is free"


def closing_ran(
    protocol: Any, *decisions: Any, text: str = "Book room 7.", **settings: Any
) -> list[str]:
    """Return the last words of each request."""
    model = ScriptedModel(*(body(protocol, one) for one in (*decisions, "Done.")))
    given: Any = {"contract": CONTRACT, "closing_reminder": True} | settings
    config = raw(call_protocol=protocol, **given)
    result = ToolLoopRunner(client=model, model="m", tools=[book, look], config=config).run_sync(
        text
    )
    assert replay(result.trace).run == result.run
    said = [event.reminder for event in result.trace if isinstance(event, LlmRequestStartEvent)]
    last = [json.dumps(request["messages"][-1]) for request in model.requests]
    for words, sent in zip(said, last, strict=True):
        assert json.dumps(words)[1:-1] in sent
    return said


@pytest.mark.parametrize("protocol", ["guided", "prompted"])
def test_the_writes_and_the_request_are_repeated_before_the_answer(protocol: str) -> None:
    first, second, last = closing_ran(protocol, ("look", {"room": 7}), ("book", {"room": 7}))

    assert (first, second) == ("", "")
    assert last == (
        'This was done:\n- book {"room":7}: "room 7 is yours "\n'
        'The request was: "Book room 7."\nWrite the answer. Tell what the request asks to be told; '
        "if it says which words to answer with, use exactly these."
    )


def test_it_is_bounded() -> None:
    rooms = [("book", {"room": number, "note": "x" * 500}) for number in range(9)]
    contract = Contract(in_order=["book"] * 9)
    *_, last = closing_ran("guided", *rooms, text="y" * 2000, contract=contract)

    assert last.count("- book") == MAX_WRITES
    assert len(last) < MAX_WRITES * 2 * (MAX_WRITE_CHARS + 20) + MAX_REQUEST_CHARS + 100


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        ("native", {}),
        ("guided", {"closing_reminder": False}),
        ("guided", {"contract": None}),
        ("guided", {"contract": Contract(all_of=["book"], then_finalise=False)}),
        ("guided", {"contract": Contract(all_of=["look"])}),
    ],
)
def test_where_it_is_not_wanted_or_nothing_was_written_nothing_is_said(
    protocol: str, settings: Any
) -> None:
    calls = [("look", {"room": 7})] if "look" in str(settings) else [("book", {"room": 7})]
    assert closing_ran(protocol, *calls, **settings)[-1] == ""


# Tools of a recording may have any schema: what is not one is passed over


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("properties", [[{}], ["a"], None, 7, "about a", {}])
def test_properties_that_are_none_are_passed_over(protocol: Any, properties: Any) -> None:
    spec = ToolSpec("odd", "Odd.", {"type": "object", "properties": properties})
    config = raw(call_protocol=protocol, choice_temperature=0.0)
    found = next_plan(Run("r", "m", config, (User("Go."),), tools=(spec,)))
    assert found.reminder == ""
    assert "temperature" not in found.options
