"""Tests of `surecall.wire.apis.responses_items`."""

import base64
from typing import Any

import pytest

from surecall.parsing.names import is_legal_name
from surecall.values.types import JSON
from surecall.wire.apis.adapter import (
    STATE_PREFIX,
    InvalidRequest,
    ProviderState,
    decode_state,
    encode_state,
)
from surecall.wire.apis.responses_items import (
    chat_name,
    exposed_tools,
    id_suffix,
    output_items,
    parse_completion,
    render_tools,
    turn_state,
)
from tests.support.responses_api import ADD, CRATE, PATCH, call, completion

# Tools become functions, and calls of them find back to the tool that the client knows


BUILT_IN = ("web_search", "file_search", "mcp", "code_interpreter", "local_shell", "tool_search")


def sent(*tools: Any, **fields: Any) -> JSON:
    given = {"tools": list(tools)} | fields
    return render_tools(given, exposed_tools(given))


def names(body: JSON) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


def test_a_flat_function_becomes_a_nested_one() -> None:
    tool = {**ADD, "description": "Adds.", "strict": False, "defer_loading": True}

    assert sent(tool) == {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Adds.",
                    "parameters": {"type": "object"},
                    "strict": False,
                },
            }
        ]
    }


def test_what_a_function_does_not_say_is_not_said() -> None:
    tool = {"type": "function", "name": "add", "parameters": None, "strict": None}

    assert sent(tool)["tools"] == [{"type": "function", "function": {"name": "add"}}]


def test_a_custom_tool_becomes_a_function_of_one_text() -> None:
    (tool,) = sent(PATCH)["tools"]

    assert tool["function"]["description"] == "Patch files."
    assert list(tool["function"]["parameters"]["properties"]) == ["input"]


def test_the_grammar_of_a_custom_tool_is_told() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
    (tool,) = sent(PATCH | {"format": form})["tools"]

    told = tool["function"]["parameters"]["properties"]["input"]["description"]
    assert told.endswith("lark grammar:\nstart: WORD")


def test_the_functions_of_a_namespace_are_named_after_it() -> None:
    assert names(sent(ADD, CRATE)) == ["add", "mcp__crate__add"]
    assert exposed_tools({"tools": [CRATE]})["mcp__crate__add"].namespace == "mcp__crate"


@pytest.mark.parametrize(
    ("name", "namespace", "seen"),
    [
        ("add", None, "add"),
        ("add", "", "add"),
        ("add", "add", "add"),
        ("add", "mcp__crate__", "mcp__crate__add"),
        ("a.b", None, "a.b"),
        ("a.b", "n", "n__a_b"),
    ],
)
def test_a_name_is_seen_by_the_model(name: str, namespace: Any, seen: str) -> None:
    assert chat_name(name, namespace) == seen


def test_long_names_that_begin_alike_stay_apart_and_legal() -> None:
    seen = {chat_name(f"{'long_' * 20}{end}", "namespace") for end in "ab"}

    assert len(seen) == 2
    assert all(map(is_legal_name, seen))


@pytest.mark.parametrize("kind", BUILT_IN)
def test_what_only_a_service_can_run_is_left_out(kind: str) -> None:
    assert names(sent({"type": kind}, ADD)) == ["add"]
    assert sent({"type": kind}, tool_choice="auto", parallel_tool_calls=True) == {}


def test_of_two_tools_with_one_name_the_first_is_offered() -> None:
    assert not exposed_tools({"tools": [ADD, PATCH | {"name": "add"}]})["add"].is_custom


def test_items_of_the_input_bring_tools() -> None:
    items = [{"role": "user", "content": "a"}, {"type": "additional_tools", "tools": [ADD]}, "?"]

    assert names(sent(PATCH, input=items)) == ["apply_patch", "add"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tools": {}}, "must be a list"),
        ({"tools": [{"type": "function"}]}, "needs a `name`"),
        ({"tools": [{"name": "add"}]}, "needs a `type`"),
        ({"tools": [None]}, "needs a `type`"),
        ({"tools": [CRATE | {"tools": [1]}]}, "needs a `type`"),
    ],
)
def test_a_tool_without_a_form_is_refused(given: JSON, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        exposed_tools(given)


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ("none", "none"),
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "function", "name": "add"}, "add"),
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "function", "name": "add", "namespace": "mcp__crate"}, "mcp__crate__add"),
    ],
)
def test_a_choice_is_made_among_functions(given: Any, choice: str) -> None:
    found = sent(ADD, PATCH, CRATE, tool_choice=given, parallel_tool_calls=False)

    assert found["tool_choice"] in (choice, {"type": "function", "function": {"name": choice}})
    assert found["parallel_tool_calls"] is False


@pytest.mark.parametrize(
    ("allowed", "left"),
    [
        ([{"type": "function", "name": "add"}], ["add"]),
        ([{"type": "custom", "name": "apply_patch"}, {"type": "web_search"}], ["apply_patch"]),
        ([{"type": "namespace", "name": "mcp__crate"}], ["mcp__crate__sum"]),
    ],
)
def test_tools_that_are_not_allowed_are_not_offered(allowed: list[JSON], left: list[str]) -> None:
    crate = CRATE | {"tools": [ADD | {"name": "sum"}]}
    choice = {"type": "allowed_tools", "mode": "required", "tools": allowed}
    found = sent(ADD, PATCH, crate, tool_choice=choice)

    assert (names(found), found["tool_choice"]) == (left, "required")


def test_no_tool_at_all_may_be_allowed() -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": []}

    assert sent(ADD, tool_choice=choice) == {}


@pytest.mark.parametrize(
    "choice",
    [
        *("any", 1, {}, {"type": "web_search_preview"}, {"type": "mcp", "server_label": "s"}),
        *({"type": "function", "name": "other"}, {"type": "function"}, {"type": "allowed_tools"}),
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]},
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(choice: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        sent(ADD, tool_choice=choice)
    assert refused.value.param == "tool_choice"


def test_a_call_cannot_be_demanded_without_tools() -> None:
    with pytest.raises(InvalidRequest):
        sent({"type": "web_search"}, tool_choice="required")


# Items say what a chat completion said: thought, message, state, calls, in this order


OFFERS = exposed_tools({"tools": [ADD, PATCH, CRATE]})


def items(body: JSON) -> list[JSON]:
    return output_items(parse_completion(body, "7"), "7", OFFERS)


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
    assert decode_state(thought["encrypted_content"]) == ProviderState(
        "7", opens=True, message={"reasoning_content": "r"}
    )


def test_what_a_thought_cannot_tell_is_told_between_message_and_calls() -> None:
    details = {"reasoning": "r", "reasoning_details": [{"signature": "s"}]}
    thought, message, state, called = items(completion("Hm.", call(), **details))

    assert [thought["id"], message["id"], state["id"], called["id"]] == [
        *("rs_7", "msg_7", "rs_7_state", "fc_7_0"),
    ]
    assert state["summary"] == []
    assert decode_state(state["encrypted_content"]) == ProviderState("7", message=details)


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

    assert parse_completion(body, "7").incomplete_reason == reason
    assert items(body)[0]["status"] == status


# Opaque state goes through a client and back as it came; garbage is passed over


def test_a_state_is_read_as_it_was_written() -> None:
    state = ProviderState(
        "7", opens=True, message={"reasoning": "é", "x": [1, None]}, calls={"c": {}}
    )

    assert decode_state(encode_state(state)) == state


def test_the_state_of_a_message_is_what_is_not_documented() -> None:
    message = {
        "role": "assistant",
        "content": "a",
        "refusal": None,
        "reasoning_details": [{"a": 1}],
    }
    signed = call(extra_content={"google": {"thought_signature": "s"}})

    state = turn_state("7", message, [signed, call("c2")])

    assert state.message == {"reasoning_details": [{"a": 1}]}
    assert state.calls == {"c1": {"extra_content": {"google": {"thought_signature": "s"}}}}


def test_what_is_told_otherwise_is_no_state() -> None:
    message = {"refusal": "No.", "annotations": [], "audio": {"id": "a"}}

    assert turn_state("7", message, []) == ProviderState("7")


def encoded(text: bytes) -> str:
    return STATE_PREFIX + base64.b64encode(text).decode()


@pytest.mark.parametrize(
    "text",
    [
        *(None, 1, "", "gAAAAAB", STATE_PREFIX + "!", STATE_PREFIX + "é", STATE_PREFIX + "AAA"),
        *(
            encoded(b"{"),
            encoded(b"[]"),
            encoded(b'{"message": []}'),
            encoded(b'{"calls": {"a": 1}}'),
        ),
        encoded(b'{"message": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_what_is_not_ours_is_passed_over(text: Any) -> None:
    assert decode_state(text) is None


@pytest.mark.parametrize("given", ["chatcmpl-1", "resp_1", "1"])
def test_the_id_of_a_response_has_one_prefix(given: str) -> None:
    assert id_suffix({"id": given}) == "1"
