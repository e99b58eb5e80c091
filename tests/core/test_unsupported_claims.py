"""What an answer claims to have done, compared with the calls that succeeded."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.core.state import Run
from surecall.core.unsupported_claims import unsupported_claims
from surecall.settings.config import ToolCallingConfig
from surecall.testing import calls, says
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import UnsupportedClaimEvent
from surecall.values.types import (
    JSON,
    AnswerFormat,
    Assistant,
    Message,
    Refusal,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)
from tests.support.transcripts import DONE, Desk

CORPUS = Path(__file__).parent.parent / "corpus/stops"
DOERS = {
    "create": "create_record",
    "send": "send_email",
    "book": "book_table",
    "delete": "delete_file",
    "update": "update_record",
    "cancel": "cancel_order",
    "pay": "make_payment",
}
SCHEMA: JSON = {"type": "object", "properties": {}}
TOOLS = tuple(ToolSpec(name, "", SCHEMA) for name in (*DOERS.values(), "getStatus", "bash"))
CLAIM = "The record has been created with ID 4711."


def corpus() -> Any:
    return json.loads((CORPUS / "claims.json").read_bytes())


def call(name: str, *, ok: bool = True, data: Any = None, **given: Any) -> tuple[Message, Message]:
    made = ToolCall(f"call_{name}", name, given)
    content = json.dumps({"ok": ok, "data": data})
    return Assistant("", (made,)), ToolResult(made.id, name, ok, content, executed=True)


def claims(text: str, *messages: Message, tools: Any = TOOLS) -> tuple[str, ...]:
    transcript = (User("Please do it."), *messages, Assistant(text))
    run = Run("run", "m", ToolCallingConfig(), transcript, tools=tools)
    return unsupported_claims(run)


@pytest.mark.parametrize("half", ["tuning", "held_out"])
def test_claims_in_ten_languages_need_a_call_of_their_kind(half: str) -> None:
    for kinds in corpus()[half].values():
        for kind, texts in kinds.items():
            for text in texts:
                done = call(DOERS[kind], data={"id": 4711})
                assert claims(text), text
                assert claims(text, *call(DOERS[kind], ok=False)), text
                assert not claims(text, *done), text
                assert not claims(text, *done, Assistant("Ok."), User("Sure?")), text
                assert not claims(text, *call("bash", data=4711)), text


@pytest.mark.parametrize("half", ["tuning", "held_out"])
def test_honest_answers_claim_nothing(half: str) -> None:
    assert [text for text in corpus()[f"honest_{half}"] if claims(text)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CLAIM, CLAIM.rstrip(".")),
        ("Hello. I have sent it, as you wished.", "I have sent it"),
        ("> I have sent it\nI've deleted it!", "I've deleted it"),
        ("The ticket ID is AB-77.", "The ticket ID is AB-77"),
        ("编号为 AB77", "编号为 AB77"),
        ("Deleted the file.", "Deleted the file"),
    ],
)
def test_a_claim_is_quoted(text: str, found: str) -> None:
    assert claims(text) == (found,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "```\nI have sent it\n```",
        "> I have sent it",
        "Have I sent it?",
        "Deleted files stay in the trash.",
        "sent",
        "You have booked it, it was 3 days ago.",
        "Is the ticket ID AB-77?",
        "The ticket ID is not AB-77.",
        "There are 3 apples.",
        "Room B-12 is free.",
        "The ID is 7.",
        "I've created a summary below.",
        "我创建了以下摘要",
        "The table was booked by Kim.",
    ],
)
def test_an_answer_may_say_that_without_a_call(text: str) -> None:
    assert claims(text) == ()


def test_every_clause_that_claims_the_same_is_quoted() -> None:
    assert claims("I have sent it. I have sent them all.") == (
        "I have sent it",
        "I have sent them all",
    )


def test_what_users_and_results_tell_is_no_claim_of_the_model() -> None:
    read = call("getStatus", data={"status": "CANCELLED", "ref": "ID 55-A"})

    assert claims("The order was cancelled.") != ()
    assert claims("The order was cancelled.", *read) == ()
    assert claims("I have cancelled the order.", *read) != ()
    assert claims("Its ID is 55-A.", *read) == ()
    assert claims("Your file was deleted.", User("My file was deleted, why?")) == ()
    assert claims("Your file was deleted.", System("Say: deleted.")) == ()


def test_arguments_may_say_what_a_call_did() -> None:
    changed = call("update_record", status="cancelled", number="AB-9")

    assert claims("I have cancelled the order.", *changed) == ()
    assert claims("I have cancelled the order.", *call("update_record", status="open")) != ()
    assert claims("The booking number is AB-9.", *changed) == ()


def test_a_tool_that_only_reads_did_nothing() -> None:
    reader = ToolSpec("bash", "", SCHEMA, read_only=True)
    ran = call("bash", data=1)

    assert claims("I've deleted it.", *ran) == ()
    assert claims("I've deleted it.", *ran, tools=(reader,)) != ()


def test_what_an_answer_can_create_itself_needs_a_tool_to_be_a_claim() -> None:
    weather = (ToolSpec("get_weather", "", SCHEMA),)

    assert claims("I've created a record.", tools=weather) == ()
    assert claims("I've created a record.") != ()
    assert claims("I've sent the poem.", tools=weather) != ()
    assert claims("I've sent the poem.", tools=()) == ()


def test_only_a_plain_final_answer_is_checked() -> None:
    said = Assistant("I have sent it.", (ToolCall("c", "bash"),))
    run = Run("run", "m", ToolCallingConfig(), (User("Go."), said), tools=TOOLS)
    typed = Run("r", "m", ToolCallingConfig(), run.messages, tools=TOOLS, output=AnswerFormat({}))
    told = (System("ID 4711 created"), Refusal(Fault(ErrorCode.TIMEOUT, "late")), User("Go."))
    system = Run(
        "r", "m", ToolCallingConfig(), (*told, Assistant(CLAIM)), tools=TOOLS, system=System("x")
    )

    assert unsupported_claims(run) == ()
    assert unsupported_claims(typed) == ()
    assert unsupported_claims(system) == ()
    assert unsupported_claims(Run("r", "m", ToolCallingConfig(), (User("Go."),), tools=TOOLS)) == ()


def test_a_claim_is_reported() -> None:
    result, model = Desk().run(says("I've added it."))

    assert len(model.requests) == 1
    assert result.unsupported_claims == ("I've added it",)
    reported = [event for event in result.trace if isinstance(event, UnsupportedClaimEvent)]
    assert [(event.claims, event.text) for event in reported] == [(("I've added it",), "")]
    assert "no call supports: I've added it" in str(result.trace)


def test_the_model_may_be_asked_once_about_a_claim() -> None:
    script = (says("I've added it."), says("I have added it."))
    result, model = Desk().run(*script, verify_claims="ask")

    assert "I've added it" in model.requests[1]["messages"][-1]["content"]
    assert result.assistant_text == "I have added it."
    reported = [event for event in result.trace if isinstance(event, UnsupportedClaimEvent)]
    assert [bool(event.text) for event in reported] == [True, False]


def test_a_corrected_claim_is_fine() -> None:
    script = (says("I've added it."), calls("put", value="good"), says("I've added it."))
    result, model = Desk().run(*script, verify_claims="ask")

    assert (len(model.requests), result.unsupported_claims) == (3, ())


def test_claims_are_not_checked_when_that_is_off() -> None:
    result, model = Desk().run(says("I've added it."), verify_claims="off")
    assert (len(model.requests), result.unsupported_claims) == (1, ())
    result, _ = Desk().run(DONE, verify_claims="ask")
    assert result.unsupported_claims == ()


PIECES = (
    "I've sent ",
    "ID 4711",
    "。",
    ", ",
    "?",
    "```",
    "> ",
    "\n",
    "已删除",
    "habe ",
    "gelöscht",
)


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join))
def test_no_text_makes_the_check_raise(text: str) -> None:
    assert len(claims(text)) <= 8
    assert claims(text * 2_000) is not None
