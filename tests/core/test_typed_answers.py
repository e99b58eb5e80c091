"""Typed answers, by the transcript alone: who asks for the form, what counts, when it ends."""

from typing import Any

import msgspec
import pytest

from surecall import ErrorCode
from surecall.core.exposed_tools import next_plan
from surecall.core.lessons import RESPONSE_FORMAT, TOOLS, apply_lessons, lesson_from
from surecall.core.loop import next_move, record_objection, record_reply
from surecall.core.request_building import preflight
from surecall.core.state import OUTPUT, AskModel, Fail, Finish, Run
from surecall.core.typed_answers import MAX_CORRECTIONS, typed_answer
from surecall.parsing.arguments import ParsedValue
from surecall.settings.contract import Contract
from surecall.values.errors import Fault
from surecall.values.types import JSON, AnswerFormat, Plan, Reply, System, User
from tests.support.transcripts import begun, called, said

SCHEMA: JSON = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ASKED = (
    "Give the final answer as JSON of this schema, with nothing before or after it: "
    '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
)
FORMAT: JSON = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
PUT = Contract(all_of=("put",))
GOOD = '{"n": 1}'


def typed(*, bound: bool = False, tools: bool = True, **settings: Any) -> Run:
    run = msgspec.structs.replace(begun(**settings), output=AnswerFormat(SCHEMA, bound))
    return run if tools else msgspec.structs.replace(run, tools=())


def system_of(found: Plan) -> str:
    first = found.messages[0]
    return first.text if isinstance(first, System) else ""


def words(run: Run) -> str:
    assert isinstance(run.last_message, User)
    return str(run.last_message.content)


# Who asks for it


def test_beside_tools_the_instructions_ask_for_the_form_in_every_turn() -> None:
    run = msgspec.structs.replace(typed(bound=True), system=System("Be brief."))
    first, second = next_plan(run), next_plan(called(run, "get"))

    assert system_of(first) == f"Be brief.\n\n{ASKED}"
    assert second.messages[0] is first.messages[0]
    assert (first.response_format, second.response_format) == (None, None)


def test_without_tools_an_endpoint_that_binds_replies_is_asked_to() -> None:
    found = next_plan(typed(bound=True, tools=False))

    assert (system_of(found), found.response_format) == ("", FORMAT)


def test_an_endpoint_that_did_not_bind_the_answer_gets_words_as_well() -> None:
    found = next_plan(said(typed(bound=True, tools=False), "No."))

    assert (system_of(found), found.response_format) == (ASKED, FORMAT)
    assert apply_lessons(found, [RESPONSE_FORMAT]).messages == found.messages


def test_without_tools_any_other_endpoint_gets_words() -> None:
    found = next_plan(typed(tools=False))

    assert (system_of(found), found.response_format) == (ASKED, None)


def test_when_a_contract_is_met_the_answer_is_bound_and_the_words_stay() -> None:
    run = called(typed(bound=True, contract=PUT), "put")
    found = next_plan(run)

    assert found.tools == ()
    assert (system_of(found), found.response_format) == (ASKED, FORMAT)


def test_tools_that_are_forbidden_instead_of_left_out_leave_no_room_for_a_form() -> None:
    settings: Any = {"contract": PUT, "tools_off_style": "tool_choice_none"}
    found = next_plan(called(typed(bound=True, **settings), "put"))

    assert found.tool_choice == "none"
    assert found.response_format is None
    preflight(found, None)


@pytest.mark.parametrize("protocol", ["guided", "prompted"])
def test_a_protocol_in_words_asks_in_its_own(protocol: str) -> None:
    found = next_plan(typed(bound=True, call_protocol=protocol))

    assert (system_of(found), found.response_format) == ("", None)
    assert found.output == SCHEMA


def test_that_holds_when_a_contract_is_met_too() -> None:
    found = next_plan(called(typed(bound=True, contract=PUT, call_protocol="guided"), "put"))

    assert (found.tools, system_of(found), found.response_format) == ((), "", None)


@pytest.mark.parametrize("protocol", ["guided", "prompted"])
def test_a_protocol_in_words_has_nothing_to_say_without_tools(protocol: str) -> None:
    found = next_plan(typed(bound=True, tools=False, call_protocol=protocol))

    assert (system_of(found), found.response_format) == ("", FORMAT)


def test_without_a_type_nothing_is_asked_for() -> None:
    found = next_plan(begun())

    assert (found.messages, found.response_format, found.output) == ((User("hi"),), None, None)


def test_an_endpoint_that_refuses_the_form_gets_words_instead_and_only_once() -> None:
    bound = next_plan(typed(bound=True, tools=False))
    taught = apply_lessons(bound, [RESPONSE_FORMAT])

    assert (system_of(taught), taught.response_format) == (ASKED, None)
    assert apply_lessons(taught, [RESPONSE_FORMAT]) == taught
    brief = msgspec.structs.replace(bound, messages=(System("Be brief."),))
    own = apply_lessons(brief, [RESPONSE_FORMAT])
    assert own.messages == (System(f"Be brief.\n\n{ASKED}"),)


def test_an_endpoint_that_refuses_this_very_schema_teaches_the_same() -> None:
    fault = Fault(ErrorCode.BAD_REQUEST, "Unknown name 'oneOf' at 'response_schema'", 400)

    assert lesson_from(fault, next_plan(typed(bound=True, tools=False))) == RESPONSE_FORMAT
    assert lesson_from(fault, next_plan(typed(tools=False))) is None


def test_where_the_words_are_there_the_form_is_only_left_out() -> None:
    bound = next_plan(called(typed(bound=True, contract=PUT), "put"))
    taught = apply_lessons(bound, [RESPONSE_FORMAT])

    assert (taught.messages, taught.response_format) == (bound.messages, None)


def test_an_endpoint_that_wants_its_tools_sent_gets_no_form_beside_them() -> None:
    bound = next_plan(called(typed(bound=True, contract=PUT), "put"))
    taught = apply_lessons(bound, [TOOLS])

    assert (taught.tool_choice, taught.response_format) == ("none", None)
    preflight(taught, None)


# What counts


def test_an_answer_that_fits_is_the_end() -> None:
    run = said(typed(), GOOD)

    assert next_move(run) == Finish(GOOD, "final")
    assert typed_answer(run) == ParsedValue({"n": 1})


def test_an_answer_that_does_not_fit_is_told_what_is_wrong() -> None:
    run = said(typed(), '{"n": "x"}')

    assert isinstance(next_move(run), AskModel)
    assert words(run) == (
        "This answer does not have the form that was asked for: "
        'n: "x" is not of type "integer". Correct it, and answer with JSON alone.'
    )


def test_tools_stay_on_offer_after_it() -> None:
    assert next_plan(said(typed(bound=True), "Let me look.")).tools


def test_it_is_told_three_times_and_then_the_run_fails() -> None:
    run = said(typed(), *["No."] * MAX_CORRECTIONS)
    assert isinstance(next_move(run), AskModel)

    move = next_move(said(run, "No."))
    assert isinstance(move, Fail)
    assert move.code is ErrorCode.OUTPUT_INVALID
    assert move.message == (
        "the answer does not match the requested schema: "
        "it is not one JSON value with nothing around it (near `No.`)"
    )


def test_calls_in_between_do_not_begin_the_count_again() -> None:
    run = typed()
    for _ in range(MAX_CORRECTIONS):
        run = called(said(run, "No."), "get")

    assert isinstance(next_move(said(run, "No.")), Fail)


def test_in_the_last_turn_there_is_nobody_left_to_tell() -> None:
    move = next_move(said(typed(max_turns=1), "No."))

    assert isinstance(move, Fail)
    assert move.code is ErrorCode.OUTPUT_INVALID


@pytest.mark.parametrize("reason", ["length", "content_filter", "max_tokens"])
def test_an_answer_that_was_cut_off_does_not_count_however_well_it_reads(reason: str) -> None:
    run = record_reply(typed(), Reply(GOOD, finish_reason=reason))

    assert "it was cut off before its end" in words(run)


def test_what_a_contract_misses_comes_first() -> None:
    run = said(typed(contract=PUT), "No.")

    assert "Still missing" in words(run)
    assert "form" in words(said(called(run, "put"), "No."))


def test_nothing_at_all_is_asked_for_once_more_in_the_form_and_not_as_plain_text() -> None:
    first = said(typed(), "")
    later = said(called(typed(), "get"), "")

    assert words(first) == (
        "Your reply was empty. Make the call that is needed now, or answer in the form that was "
        "asked for."
    )
    assert words(later) == "Please give your final answer now, in the form that was asked for."
    move = next_move(said(later, ""))
    assert isinstance(move, Fail)
    assert move.code is ErrorCode.EMPTY_FINAL


def test_a_call_that_did_not_come_is_asked_for_in_the_same_way() -> None:
    run = record_reply(typed(), Reply("Calling.", finish_reason="tool_calls"))

    assert words(run).endswith("if not, give your answer in the form that was asked for.")


def test_an_empty_answer_is_not_let_pass_where_others_are() -> None:
    run = said(typed(fix_empty_final=False), *[""] * (MAX_CORRECTIONS + 1))
    move = next_move(run)

    assert isinstance(move, Fail)
    assert move.code is ErrorCode.OUTPUT_INVALID


def test_values_are_fitted_where_arguments_are() -> None:
    text = '{"n": "1"}'

    assert typed_answer(said(typed(coerce_arguments=True), text)) == ParsedValue(
        {"n": 1}, repairs=("number_from_text",)
    )
    assert isinstance(next_move(said(typed(), text)), AskModel)


def test_a_run_that_has_said_nothing_has_no_answer_yet() -> None:
    assert typed_answer(typed()) is None


def test_what_the_type_objects_to_counts_like_what_the_schema_does() -> None:
    run = record_objection(said(typed(), GOOD), "it must be even", OUTPUT)
    assert words(run).startswith(
        "This answer does not have the form that was asked for: it must be even. Correct"
    )

    run = said(run, "No.", "No.", GOOD)
    move = next_move(record_objection(run, "it must be even", OUTPUT))
    assert isinstance(move, Fail)
    assert move.code is ErrorCode.OUTPUT_INVALID


def test_a_run_with_a_type_is_written_down_with_it() -> None:
    run = said(typed(bound=True), "No.")

    assert Run.from_json(run.to_json()) == run
