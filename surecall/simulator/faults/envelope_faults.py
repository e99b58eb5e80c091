"""Faults around the message: response envelope, content, and finish reason."""

from typing import Any

from surecall.simulator.faults.shape_fault import (
    Sample,
    decode_arguments,
    on_body,
    on_choice,
    on_message,
    shape_fault,
)
from surecall.values.types import JSON
from surecall.wire.text_edges import trim_edges

_PARTS_REPAIR = "assistant_content_parts_to_text"
_CALL_FIELDS = frozenset({"tool_calls", "function_call"})
_MALFORMED_REASONS = (
    "MALFORMED_FUNCTION_CALL",
    "malformed_function_call",
    "function_call_filter: MALFORMED_FUNCTION_CALL",
)


@shape_fault(on_body, "envelope", "D06", repairs=("response_body_unwrapped",))
def wrapped_in_data(body: JSON, _sample: Sample) -> JSON:
    """The completion is wrapped in `data`, next to a `success` flag."""
    return {"data": body, "success": True} if "choices" in body else body


@shape_fault(on_body, "envelope", "D06", outcome="DECODE_ERROR")
def foreign_envelope(body: JSON, _sample: Sample) -> JSON:
    """The response has the shape of another API and contains no choices."""
    return {"output": {"text": "…"}, "request_id": str(body.get("id", ""))}


@shape_fault(on_body, "envelope", "D07", outcome="retried")
def choices_missing(body: JSON, sample: Sample) -> JSON:
    """HTTP 200 without choices: they are missing, empty, or null."""
    rest: JSON = {key: body[key] for key in body if key != "choices"}
    nothing: JSON = dict.fromkeys(body)
    bodies: tuple[JSON, ...] = ({}, rest | {"choices": []}, rest | {"choices": None}, nothing)
    return dict(sample.pick(bodies))


@shape_fault(on_body, "envelope", "D08", outcome="retried")
def error_in_body(_body: JSON, sample: Sample) -> JSON:
    """HTTP 200 with a temporary error in the body, such as a rate limit or overload."""
    errors: tuple[Any, ...] = (
        {"error": {"code": 429, "message": "Rate limit exceeded"}},
        {"error": {"code": 503, "metadata": {"error_type": "provider_overloaded"}}},
        [{"error": {"code": 500, "message": "Internal error", "status": "INTERNAL"}}],
        {"error": {"code": 502, "metadata": {"raw": '{"error":{"message":"busy"}}'}}},
        {"error": {"error_type": "timeout", "availability": {"retryable": True}}},
    )
    return sample.pick(errors)  # type: ignore[no-any-return]  # one is a list


@shape_fault(on_choice, "envelope", "D08", outcome="retried")
def error_in_choice(choice: JSON, _sample: Sample) -> JSON:
    """The generation was aborted: the choice has an error next to a partial message."""
    error = {"code": 502, "message": "Upstream closed", "metadata": {"error_type": "server"}}
    return choice | {"finish_reason": "error", "error": error}


@shape_fault(on_body, "envelope", "D08", outcome="PAYMENT_REQUIRED")
def error_out_of_credit(_body: JSON, _sample: Sample) -> JSON:
    """HTTP 200 with a permanent error in the body: no credit left."""
    return {"error": {"code": 402, "message": "Insufficient credits"}, "user_id": "user_1"}


@shape_fault(on_body, "envelope", "D08", outcome="CONTENT_POLICY")
def error_moderation(_body: JSON, _sample: Sample) -> JSON:
    """HTTP 200 with an error in the body: moderation rejected the prompt."""
    metadata = {"reasons": ["violence"], "flagged_input": "…", "provider_name": "Acme"}
    return {"error": {"code": 403, "message": "Flagged", "metadata": metadata}}


@shape_fault(on_choice, "envelope", "D12", outcome="retried")
def malformed_function_call(_choice: JSON, _sample: Sample) -> JSON:
    """The provider could not parse its model's call and sends an empty message."""
    return {
        "index": 0,
        "finish_reason": "error",
        "native_finish_reason": "MALFORMED_FUNCTION_CALL",
        "message": {"role": "assistant", "content": None},
    }


@shape_fault(on_body, "envelope", "zeroclaw-2136", repairs=("choices_of_one_turn_joined",))
def calls_in_second_choice(body: JSON, _sample: Sample) -> JSON:
    """One turn is split into two choices: text in the first, calls in the second."""
    match body:
        case {"choices": [{"message": {"tool_calls": calls} as message} as choice]} if calls:
            words = {key: message[key] for key in message if key not in _CALL_FIELDS}
            second = {key: message[key] for key in message if key in _CALL_FIELDS}
            halves = ({"message": words}, {"message": second, "index": 1})
            return body | {"choices": [choice | half for half in halves]}
        case _:
            return body


@shape_fault(on_choice, "envelope", "zhipuai-40", repairs=("choice_delta_to_message",))
def delta_for_message(choice: JSON, sample: Sample) -> JSON:
    """A non-streamed response has a `delta` instead of a message."""
    message = choice.get("message")
    if not isinstance(message, dict) or not (message.get("content") or message.get("tool_calls")):
        return choice
    rest = {key: choice[key] for key in choice if key != "message"}
    absent: JSON = sample.pick([{}, {"message": None}])
    return rest | {"delta": message} | absent


@shape_fault(
    on_message,
    "message",
    "langchainjs-11177",
    repairs=("assistant_content_call_parts_to_tool_calls",),
)
def call_parts(message: JSON, sample: Sample) -> JSON:
    """The calls are content parts, as in another vendor's format."""
    calls, text = message.get("tool_calls"), message.get("content")
    if not isinstance(calls, list) or not calls or not all(map(_is_complete_call, calls)):
        return message
    style = sample.pick([_tool_use_part, _tool_call_part, _function_call_part])
    words = text if isinstance(text, list) else [{"type": "text", "text": text}] if text else []
    rest = {key: message[key] for key in message if key != "tool_calls"}
    return rest | {"content": [*words, *map(style, calls)]}


def _is_complete_call(call: object) -> bool:
    match call:
        case {"id": str(), "function": {"name": str(), "arguments": str()}}:
            return True
        case _:
            return False


def _tool_use_part(call: JSON) -> JSON:
    function = call["function"]
    given = decode_arguments(function["arguments"])
    arguments = function["arguments"] if given is None else given
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _tool_call_part(call: JSON) -> JSON:
    return {"type": "tool_call", "tool_call": call}


def _function_call_part(call: JSON) -> JSON:
    return {"type": "function_call", "call_id": call["id"], **call["function"]}


@shape_fault(
    on_message, "message", "hermes-agent-116486", repairs=("assistant_content_edges_trimmed",)
)
def answer_with_end_token(message: JSON, sample: Sample) -> JSON:
    """The answer begins or ends with an end token or an invisible character."""
    text = message.get("content")
    if not isinstance(text, str) or message.get("tool_calls") or not text.strip():
        return message
    if text != text.strip() or trim_edges(text) is not text or "<s>" in text:
        return message
    edges = [
        ("", "<|eos|>"),
        ("", "<|im_end|>\n"),
        ("\u200b", ""),
        ("", "</s>"),
        ("\ufeff", "\u200b"),
    ]
    before, after = sample.pick(edges)
    return message | {"content": f"{before}{text}{after}"}


@shape_fault(on_message, "message", "D16", repairs=(_PARTS_REPAIR,))
def content_parts(message: JSON, _sample: Sample) -> JSON:
    """The content is a list of parts instead of a string."""
    text = message.get("content")
    if not isinstance(text, str) or not text:
        return message
    half = len(text) // 2
    parts = [{"type": "text", "text": piece} for piece in (text[:half], text[half:])]
    return message | {"content": parts}


@shape_fault(on_message, "message", "D16", repairs=(_PARTS_REPAIR,))
def content_thinking(message: JSON, sample: Sample) -> JSON:
    """The content is a list of parts that begins with reasoning."""
    given = message.get("content")
    thoughts: tuple[Any, ...] = ("Hm.", [{"type": "text", "text": "Hm."}])
    thinking = {"type": "thinking", "thinking": sample.pick(thoughts)}
    if isinstance(given, list):
        return message | {"content": [thinking, *given]}
    text = [{"type": "text", "text": given}] if isinstance(given, str) else []
    return message | {"content": [thinking, *text, {"type": "reference", "reference_ids": [1]}]}


@shape_fault(on_message, "message", "D05")
def tool_calls_null(message: JSON, sample: Sample) -> JSON:
    """`tool_calls` is null or an empty string when there are no calls."""
    return (
        message if message.get("tool_calls") else message | {"tool_calls": sample.pick([None, ""])}
    )


@shape_fault(
    on_choice, "loop", "D101", "higress-3506", "openagents-6233", "vllm-44326", outcome="retried"
)
def finish_without_calls(choice: JSON, sample: Sample) -> JSON:
    """The finish reason announces calls, but there are none."""
    message = choice.get("message")
    if not isinstance(message, dict) or message.get("tool_calls"):
        return choice
    reason = sample.pick(["tool_calls", "tool_use", "function_call", "TOOL_CALLS"])
    return choice | {"finish_reason": reason, "message": message | {"tool_calls": []}}


@shape_fault(
    on_choice,
    "loop",
    "litellm-16651",
    "ollama-17274",
    "trtllm-18084",
    outcome="retried",
    only_first=True,
)
def turn_lost(choice: JSON, sample: Sample) -> JSON:
    """The first turn is lost: the message is empty, null, or missing."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice
    empty = sample.pick(["", None, " \n", []])
    said = sample.pick([{"role": "assistant", "content": empty}, None, {}])
    return choice | {"finish_reason": "stop", "message": said}


@shape_fault(on_choice, "loop", "langgraph-6574", outcome="retried")
def finish_malformed(choice: JSON, sample: Sample) -> JSON:
    """The finish reason reports a malformed call, and the message is empty."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice
    said = {"role": "assistant", "content": ""}
    return choice | {"finish_reason": sample.pick(_MALFORMED_REASONS), "message": said}


@shape_fault(on_choice, "loop", "hermes-agent-83886", outcome="ARGUMENTS_JSON_PARSE_ERROR")
def finish_malformed_with_calls(choice: JSON, sample: Sample) -> JSON:
    """The finish reason reports a malformed call next to one that parses."""
    return _set_finish_reason(choice, sample.pick(_MALFORMED_REASONS))


@shape_fault(on_choice, "loop", "any-llm-1200", "pydantic-ai-7816", outcome="ARGUMENTS_TRUNCATED")
def finish_cut_off_with_calls(choice: JSON, sample: Sample) -> JSON:
    """A nonstandard finish reason reports a limit or filter after calls that parse."""
    words = ("model_context_window_exceeded", "MAX_TOKENS", "max_tokens", "guardrail_intervened")
    return _set_finish_reason(choice, sample.pick([*words, "SAFETY", "incomplete"]))


@shape_fault(on_choice, "loop", "pydantic-ai-7678", "pi-8499", outcome="retried")
def finish_broken(choice: JSON, sample: Sample) -> JSON:
    """The finish reason, or the native one, reports an aborted generation."""
    if not isinstance(choice.get("message"), dict):
        return choice
    reason = sample.pick(["network_error", "abort", "ERROR", "insufficient_system_resource"])
    native = {"finish_reason": "stop", "native_finish_reason": reason}
    ended: JSON = sample.pick([{"finish_reason": reason}, native, {"finish_reason": reason}])
    return choice | ended


def _set_finish_reason(choice: JSON, reason: str) -> JSON:
    """Set the finish reason of a choice that has calls."""
    match choice:
        case {"message": {"tool_calls": [_, *_]}}:
            return choice | {"finish_reason": reason}
        case _:
            return choice


@shape_fault(on_choice, "loop", "D102")
def finish_stop_with_calls(choice: JSON, sample: Sample) -> JSON:
    """The finish reason of a reply with calls is not `tool_calls`."""
    message = choice.get("message")
    if not isinstance(message, dict) or not message.get("tool_calls"):
        return choice
    return choice | {"finish_reason": sample.pick(["stop", None, "function_call", "eos"])}


@shape_fault(on_message, "loop", "D15", "D103", outcome="retried")
def answer_blank(message: JSON, sample: Sample) -> JSON:
    """The answer is empty or blank."""
    if message.get("tool_calls") or not message.get("content"):
        return message
    return message | {"content": sample.pick(["", None, " \n", []])}


@shape_fault(on_choice, "loop", "D104", "D110", outcome="retried")
def answer_in_reasoning(choice: JSON, sample: Sample) -> JSON:
    """The answer is only in the reasoning, whatever the finish reason."""
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict) or message.get("tool_calls") or not isinstance(text, str):
        return choice
    key = sample.pick(["reasoning", "reasoning_content"])
    finish = sample.pick(["stop", "tool_calls", "tool_calls", "stop"])
    return choice | {"finish_reason": finish, "message": message | {"content": "", key: text}}
