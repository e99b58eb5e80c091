"""Attributes: the names and types of the conventions, whatever the values are."""

from typing import Any

import pytest

from surecall.otel.attributes import (
    MAX_INT,
    MAX_TEXT,
    OTHER,
    double,
    integer,
    nanoseconds,
    of_endpoint,
    of_options,
    of_reply,
    of_result,
    plain,
    text,
    texts,
)
from surecall.values.events import LlmRequestEndEvent, ToolCallEndEvent
from surecall.values.types import Reply, ToolResult, Usage

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
    assert of_options(options) == {
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
    assert of_options({"max_tokens": 1, "max_completion_tokens": 2}) == {
        "gen_ai.request.max_tokens": 2
    }
    assert of_options({"response_format": {"type": "text"}}) == {"gen_ai.output.type": "text"}
    odd = {"temperature": "hot", "n": 1, "stop": {}, "seed": 2**80, "response_format": "json"}
    assert of_options(odd) == {}


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
    assert of_endpoint(address) == {
        "gen_ai.provider.name": provider,
        "server.address": server,
        "server.port": port,
    }


@pytest.mark.parametrize("address", ["", None, 5, "http://[", "http://x:99999999"])
def test_without_an_address_there_is_only_a_provider(address: object) -> None:
    assert of_endpoint(address) == {"gen_ai.provider.name": "openai_compatible"}
    assert of_endpoint(address, "vllm") == {"gen_ai.provider.name": "vllm"}


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
    assert of_reply(ended(reply, streamed=True)) == {
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
    assert of_reply(ended(Reply("hi"))) == {}
    assert of_reply(ended(Reply("hi", usage=Usage()))) == {
        "gen_ai.usage.input_tokens": 0,
        "gen_ai.usage.output_tokens": 0,
    }


def test_a_result_tells_its_first_code() -> None:
    assert of_result(answered(ok=True)) == {"surecall.tool.executed": True}
    assert of_result(answered("TOOL_TIMEOUT", "OTHER"))["error.type"] == "TOOL_TIMEOUT"
    assert of_result(answered())["error.type"] == of_result(answered(None))["error.type"] == OTHER


def test_facts_that_are_none_are_left_out() -> None:
    facts = {"a": True, "b": "x", "c": 2, "d": None, "e": "", "f": [], "g": 0.0}
    assert plain(facts) == {"a": True, "b": "x", "c": 2.0, "g": 0.0}
