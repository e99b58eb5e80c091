"""Items say what a chat completion said: thought, message, state, calls, in this order."""

from typing import Any

import pytest

from surecall.proxy.faces.responses.output_items import output_of, read
from surecall.proxy.faces.responses.state import State, unpack
from surecall.proxy.faces.responses.tools import offered
from surecall.values.types import JSON
from tests.support.responses import ADD, CRATE, PATCH, call, completion

OFFERS = offered({"tools": [ADD, PATCH, CRATE]})


def items(body: JSON) -> list[JSON]:
    return output_of(read(body, "7"), "7", OFFERS)


def text_part(text: str) -> JSON:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def test_a_text_is_a_message() -> None:
    assert items(completion("Hm.")) == [
        {
            "id": "msg_7",
            "type": "message",
            "role": "assistant",
            "content": [text_part("Hm.")],
            "status": "completed",
        }
    ]


def test_a_thought_comes_before_the_message_and_brings_its_state() -> None:
    thought, message = items(completion("Hm.", reasoning_content="r"))

    assert message["id"] == "msg_7"
    assert (thought["id"], thought["type"]) == ("rs_7", "reasoning")
    assert thought["summary"] == [{"type": "summary_text", "text": "r"}]
    assert unpack(thought["encrypted_content"]) == State(
        "7", opens=True, message={"reasoning_content": "r"}
    )


def test_what_a_thought_cannot_tell_is_told_between_message_and_calls() -> None:
    details = {"reasoning": "r", "reasoning_details": [{"signature": "s"}]}
    thought, message, state, called = items(completion("Hm.", call(), **details))

    assert [thought["id"], message["id"], state["id"], called["id"]] == [
        *("rs_7", "msg_7", "rs_7_state", "fc_7_0"),
    ]
    assert state["summary"] == []
    assert unpack(state["encrypted_content"]) == State("7", message=details)


def test_calls_are_items_by_the_names_that_the_client_knows() -> None:
    body = completion(
        None, call(), call("c2", "mcp__crate__add"), call("c3", "apply_patch", '{"input": "*"}')
    )

    assert items(body) == [
        {
            "id": "fc_7_0",
            "type": "function_call",
            "call_id": "c1",
            "name": "add",
            "status": "completed",
            "arguments": '{"a": 1}',
        },
        {
            "id": "fc_7_1",
            "type": "function_call",
            "call_id": "c2",
            "name": "add",
            "namespace": "mcp__crate",
            "status": "completed",
            "arguments": '{"a": 1}',
        },
        {
            "id": "ctc_7_2",
            "type": "custom_tool_call",
            "call_id": "c3",
            "name": "apply_patch",
            "status": "completed",
            "input": "*",
        },
    ]


@pytest.mark.parametrize("arguments", ["*** Begin", '"a"', '{"input": 1}', "[" * 100_000])
def test_a_custom_input_that_is_not_in_its_place_goes_out_as_it_is(arguments: str) -> None:
    (item,) = items(completion(None, call("c1", "apply_patch", arguments)))

    assert item["input"] == arguments


def test_a_call_of_a_tool_that_was_not_offered_keeps_its_name() -> None:
    (item,) = items(completion(None, call(name="other")))

    assert item["name"] == "other"


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_blank_text_is_a_message_only_where_nothing_else_answers(text: str | None) -> None:
    (message,) = items(completion(text))
    (called,) = items(completion(text, call()))

    assert message["content"] == [text_part(text or "")]
    assert called["type"] == "function_call"


def test_a_refusal_is_a_part() -> None:
    refusal = {"type": "refusal", "refusal": "No."}
    (alone,) = items(completion(None, refusal="No."))
    (after,) = items(completion("Hm.", refusal="No."))

    assert alone["content"] == [refusal]
    assert after["content"] == [text_part("Hm."), refusal]


def test_citations_and_probabilities_stand_beside_the_text() -> None:
    place = {"start_index": 0, "end_index": 1, "url": "u", "title": "t"}
    cited = [{"type": "url_citation", "url_citation": place}, {"type": "file"}]
    body = completion("Hm.", annotations=cited)
    body["choices"][0]["logprobs"] = {"content": [{"token": "Hm.", "logprob": -1}]}
    (message,) = items(body)

    assert message["content"][0]["annotations"] == [{"type": "url_citation"} | place]
    assert message["content"][0]["logprobs"] == [{"token": "Hm.", "logprob": -1}]


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_a_message_that_was_cut_says_so(finish: str, status: str, reason: Any) -> None:
    body = completion("Hm.", finish=finish)

    assert read(body, "7").cut == reason
    assert items(body)[0]["status"] == status
