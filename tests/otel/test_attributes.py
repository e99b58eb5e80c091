"""Tests of `surecall.otel.attributes`."""

import json
from typing import Any

import pytest

from surecall.otel.attributes import (
    MAX_INT,
    MAX_TEXT,
    OTHER,
    UNWRITABLE,
    double,
    embeddable_json,
    encode_answer,
    encode_definitions,
    encode_message,
    encode_output,
    encode_value,
    endpoint_attributes,
    integer,
    nanoseconds,
    request_attributes,
    response_attributes,
    result_attributes,
    simple_attributes,
    text,
    texts,
)
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import LlmRequestEndEvent, ToolCallEndEvent
from surecall.values.types import (
    Assistant,
    Message,
    Refusal,
    Reply,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    User,
)

# Attributes: the names and types of the conventions, whatever the values are


STAMP: dict[str, Any] = {"run_id": "r", "turn": 0, "at": 1.0}


def ended(reply: Reply, *, streamed: bool = False) -> LlmRequestEndEvent:
    sizes: Any = {"request_hash": "", "attempt": 1, "elapsed_ms": 0, "response_bytes": 0}
    return LlmRequestEndEvent(**STAMP, **sizes, reply=reply, body=None, streamed=streamed)


def answered(*codes: Any, ok: bool = False) -> ToolCallEndEvent:
    result = ToolResult("c", "t", ok=ok, content="{}", executed=True)
    sizes: Any = {"elapsed_ms": 0, "output_bytes": 0, "output_replaced": False}
    return ToolCallEndEvent(**STAMP, **sizes, result=result, ok=ok, error_codes=codes)


def test_a_text_is_short_and_can_be_sent() -> None:
    assert text("plain") == "plain"
    assert text("né") == "né"
    assert text("half \ud800") == "half \ufffd"
    assert text("x" * 1000) == "x" * MAX_TEXT
    assert text(None) == text(5) == text(["x"]) == ""


def test_a_number_fits_what_carries_it() -> None:
    assert integer(5) == 5
    assert [integer(value) for value in (2**63, -(2**63), True, 1.0, "1", None)] == [None] * 6
    assert double(MAX_INT) == float(MAX_INT)
    assert double(0.5) == 0.5
    assert [double(value) for value in (True, "1", 2**64, None)] == [None] * 4


def test_a_list_of_texts_has_only_those_and_at_least_one() -> None:
    assert texts("stop") == ("stop",)
    assert texts(["a", None, 5, "b"]) == ("a", "b")
    assert texts([]) is texts([None]) is texts({"a": 1}) is texts(None) is None


def test_a_time_is_one_that_a_span_can_have() -> None:
    assert nanoseconds(1.5) == 1_500_000_000
    odd = (float("nan"), float("inf"), -1.0, 1e30, "now", None)
    assert [nanoseconds(value) for value in odd] == [None] * 6


def test_options_go_by_the_names_of_the_conventions() -> None:
    options = {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 40,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "max_tokens": 100,
        "seed": 7,
        "n": 3,
        "stop": "END",
        "response_format": {"type": "json_schema", "json_schema": {}},
        "user": "somebody",
    }
    assert request_attributes(options) == {
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.top_p": 0.5,
        "gen_ai.request.top_k": 40.0,
        "gen_ai.request.frequency_penalty": 0.1,
        "gen_ai.request.presence_penalty": 0.2,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.seed": 7,
        "gen_ai.request.choice.count": 3,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.output.type": "json",
    }


def test_options_that_say_nothing_or_nonsense_are_left_out() -> None:
    assert request_attributes({"max_tokens": 1, "max_completion_tokens": 2}) == {
        "gen_ai.request.max_tokens": 2
    }
    assert request_attributes({"response_format": {"type": "text"}}) == {
        "gen_ai.output.type": "text"
    }
    odd = {"temperature": "hot", "n": 1, "stop": {}, "seed": 2**80, "response_format": "json"}
    assert request_attributes(odd) == {}


@pytest.mark.parametrize(
    ("address", "provider", "server", "port"),
    [
        ("https://api.openai.com/v1", "openai", "api.openai.com", 443),
        ("https://openrouter.ai/api/v1", "openrouter", "openrouter.ai", 443),
        ("https://api.mistral.ai/v1", "mistral_ai", "api.mistral.ai", 443),
        ("https://api.x.ai:8443/v1", "x_ai", "api.x.ai", 8443),
        (
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "gcp.gemini",
            "generativelanguage.googleapis.com",
            443,
        ),
        (
            "https://us-central1-aiplatform.googleapis.com/v1",
            "gcp.vertex_ai",
            "us-central1-aiplatform.googleapis.com",
            443,
        ),
        ("http://127.0.0.1:11434/v1", "ollama", "127.0.0.1", 11434),
        ("http://user:secret@box/v1", "openai_compatible", "box", 80),
    ],
)
def test_an_address_tells_the_provider_and_the_server(
    address: str, provider: str, server: str, port: int
) -> None:
    assert endpoint_attributes(address) == {
        "gen_ai.provider.name": provider,
        "server.address": server,
        "server.port": port,
    }


@pytest.mark.parametrize("address", ["", None, 5, "http://[", "http://x:99999999"])
def test_without_an_address_there_is_only_a_provider(address: object) -> None:
    assert endpoint_attributes(address) == {"gen_ai.provider.name": "openai_compatible"}
    assert endpoint_attributes(address, "vllm") == {"gen_ai.provider.name": "vllm"}


def test_a_reply_tells_who_answered_and_what_it_took() -> None:
    usage = Usage(10, 20, 30, cached_tokens=4, reasoning_tokens=5, cost=0.25)
    reply = Reply(
        "secret",
        finish_reason="stop",
        usage=usage,
        model="m-1",
        provider="Upstream",
        response_id="id",
        fired=("strip_thinking",),
    )
    assert response_attributes(ended(reply, streamed=True)) == {
        "gen_ai.response.model": "m-1",
        "gen_ai.response.id": "id",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.request.stream": True,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "surecall.usage.cost": 0.25,
        "surecall.response.provider": "Upstream",
        "surecall.fired": ("strip_thinking",),
    }


def test_a_reply_that_says_nothing_about_itself_is_told_so() -> None:
    assert response_attributes(ended(Reply("hi"))) == {}
    assert response_attributes(ended(Reply("hi", usage=Usage()))) == {
        "gen_ai.usage.input_tokens": 0,
        "gen_ai.usage.output_tokens": 0,
    }


def test_a_result_tells_its_first_code() -> None:
    assert result_attributes(answered(ok=True)) == {"surecall.tool.executed": True}
    assert result_attributes(answered("TOOL_TIMEOUT", "OTHER"))["error.type"] == "TOOL_TIMEOUT"
    assert (
        result_attributes(answered())["error.type"]
        == result_attributes(answered(None))["error.type"]
        == OTHER
    )


def test_facts_that_are_none_are_left_out() -> None:
    facts = {"a": True, "b": "x", "c": 2, "d": None, "e": "", "f": [], "g": 0.0}
    assert simple_attributes(facts) == {"a": True, "b": "x", "c": 2.0, "g": 0.0}


# Messages in the JSON of the conventions: roles, and parts of a few types


CALL = ToolCall("c1", "add", {"a": 1})
CALLED = {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}}


def parts(message: Message) -> list[dict[str, Any]]:
    read = json.loads(encode_message(message))
    found: list[dict[str, Any]] = read["parts"]
    return found


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


@pytest.mark.parametrize(
    ("message", "role", "said"),
    [
        (System("Be brief."), "system", [words("Be brief.")]),
        (User("hi"), "user", [words("hi")]),
        (Assistant("hm", (CALL,)), "assistant", [words("hm"), CALLED]),
        (Assistant("", (CALL,)), "assistant", [CALLED]),
        (
            ToolResult("c1", "add", ok=True, content='{"ok":true}'),
            "tool",
            [{"type": "tool_call_response", "id": "c1", "response": {"ok": True}}],
        ),
        (
            ToolResult("c1", "add", ok=True, content="not JSON"),
            "tool",
            [{"type": "tool_call_response", "id": "c1", "response": "not JSON"}],
        ),
    ],
)
def test_a_message_has_a_role_and_parts(
    message: Message, role: str, said: list[dict[str, Any]]
) -> None:
    assert json.loads(encode_message(message)) == {"role": role, "parts": said}


def test_what_was_never_sent_is_not_written() -> None:
    assert encode_message(Refusal(Fault(ErrorCode.AUTH, "no"))) == ""


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("hi", words("hi")),
        ({"type": "text", "text": "hi"}, words("hi")),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "uri", "modality": "image", "uri": "https://example.org/a.png"},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "blob", "modality": "audio", "content": "AAAA"},
        ),
        ({"type": "image_url"}, {"type": "unknown", "modality": "image"}),
        ({"type": "file", "file": {"file_id": "f"}}, {"type": "file", "file": {"file_id": "f"}}),
        (7, {"type": "unknown", "content": 7}),
    ],
)
def test_every_part_of_what_a_user_says_has_a_type(given: Any, part: dict[str, Any]) -> None:
    assert parts(User([given])) == [part]


def test_a_reply_is_a_message_and_with_its_end_an_output() -> None:
    reply = Reply("hm", (CALL,), "tool_calls")
    message = {"role": "assistant", "parts": [words("hm"), CALLED]}

    assert json.loads(encode_message(Assistant(reply.text, reply.calls))) == message
    assert json.loads(encode_output(reply)) == [message | {"finish_reason": "tool_calls"}]
    assert json.loads(encode_output(Reply("hm")))[0]["finish_reason"] == "error"


def test_what_the_loop_says_and_what_a_run_answers() -> None:
    assert json.loads(encode_message(User("again"))) == {"role": "user", "parts": [words("again")]}
    assert json.loads(encode_answer("3")) == [
        {"role": "assistant", "parts": [words("3")], "finish_reason": "stop"}
    ]


def test_tools_are_written_with_what_the_model_sees_of_them() -> None:
    spec = ToolSpec("add", "Add.", {"type": "object"}, destructive=True)

    assert json.loads(encode_definitions([spec])) == [
        {
            "type": "function",
            "name": "add",
            "description": "Add.",
            "parameters": {"type": "object"},
        }
    ]


def test_half_a_character_is_replaced_and_what_cannot_be_written_is_said_so() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    assert json.loads(encode_value("half \ud800")) == "half \ufffd"
    assert encode_value(deep) == encode_value(object()) == UNWRITABLE
    assert json.loads(encode_message(ToolResult("c", "t", ok=True, content='"\ud800"'))) != ""
    assert embeddable_json("[" * 100_000) == "[" * 100_000
