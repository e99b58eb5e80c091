"""Faults of the envelope and of the answer as a whole: what surrounds a message, and its end."""

from typing import Any

from surecall.simulator.faults.shape_fault import (
    Sample,
    decoded,
    on_choice,
    on_message,
    shape_fault,
)
from surecall.values.types import JSON
from surecall.wire.text_edges import trimmed

_PARTS = "assistant_content_parts_to_text"
_CALLS = frozenset({"tool_calls", "function_call"})
_MALFORMED = (
    "MALFORMED_FUNCTION_CALL",
    "malformed_function_call",
    "function_call_filter: MALFORMED_FUNCTION_CALL",
)


@shape_fault("envelope", "D06", cures=("response_body_unwrapped",))
def wrapped_in_data(body: JSON, _sample: Sample) -> JSON:
    """The whole completion is under `data`, beside a `success` flag."""
    return {"data": body, "success": True} if "choices" in body else body


@shape_fault("envelope", "D06", outcome="DECODE_ERROR")
def foreign_envelope(body: JSON, _sample: Sample) -> JSON:
    """The answer has another API's shape, with nothing that could be a choice."""
    return {"output": {"text": "…"}, "request_id": str(body.get("id", ""))}


@shape_fault("envelope", "D07", outcome="retried")
def choices_missing(body: JSON, sample: Sample) -> JSON:
    """HTTP 200 without any choice: absent, empty, null, or everything null."""
    rest: JSON = {key: body[key] for key in body if key != "choices"}
    nothing: JSON = dict.fromkeys(body)
    bodies: tuple[JSON, ...] = ({}, rest | {"choices": []}, rest | {"choices": None}, nothing)
    return dict(sample.pick(bodies))


@shape_fault("envelope", "D08", outcome="retried")
def error_in_body(_body: JSON, sample: Sample) -> JSON:
    """HTTP 200 with an error body: rate limit, overload, in a list, or in upstream's words."""
    errors: tuple[Any, ...] = (
        {"error": {"code": 429, "message": "Rate limit exceeded"}},
        {"error": {"code": 503, "metadata": {"error_type": "provider_overloaded"}}},
        [{"error": {"code": 500, "message": "Internal error", "status": "INTERNAL"}}],
        {"error": {"code": 502, "metadata": {"raw": '{"error":{"message":"busy"}}'}}},
        {"error": {"error_type": "timeout", "availability": {"retryable": True}}},
    )
    return sample.pick(errors)  # type: ignore[no-any-return]  # one of them is a list, as in the wild


@shape_fault("envelope", "D08", outcome="retried")
@on_choice
def error_in_choice(choice: JSON, _sample: Sample) -> JSON:
    """The generation broke off: an error beside half a message."""
    error = {"code": 502, "message": "Upstream closed", "metadata": {"error_type": "server"}}
    return choice | {"finish_reason": "error", "error": error}


@shape_fault("envelope", "D08", outcome="PAYMENT_REQUIRED")
def error_out_of_credit(_body: JSON, _sample: Sample) -> JSON:
    """HTTP 200 with an error body that no retry can mend: no credit left."""
    return {"error": {"code": 402, "message": "Insufficient credits"}, "user_id": "user_1"}


@shape_fault("envelope", "D08", outcome="CONTENT_POLICY")
def error_moderation(_body: JSON, _sample: Sample) -> JSON:
    """HTTP 200 with an error body: moderation refused the prompt."""
    metadata = {"reasons": ["violence"], "flagged_input": "…", "provider_name": "Acme"}
    return {"error": {"code": 403, "message": "Flagged", "metadata": metadata}}


@shape_fault("envelope", "D12", outcome="retried")
@on_choice
def malformed_function_call(_choice: JSON, _sample: Sample) -> JSON:
    """The provider could not read its own model's call and sends an empty message instead."""
    return {
        "index": 0,
        "finish_reason": "error",
        "native_finish_reason": "MALFORMED_FUNCTION_CALL",
        "message": {"role": "assistant", "content": None},
    }


@shape_fault("envelope", "zeroclaw-2136", cures=("choices_of_one_turn_joined",))
def calls_in_second_choice(body: JSON, _sample: Sample) -> JSON:
    """One turn is split over two choices: the text is in the first, the calls in the second."""
    match body:
        case {"choices": [{"message": {"tool_calls": calls} as message} as choice]} if calls:
            words = {key: message[key] for key in message if key not in _CALLS}
            second = {key: message[key] for key in message if key in _CALLS}
            halves = ({"message": words}, {"message": second, "index": 1})
            return body | {"choices": [choice | half for half in halves]}
        case _:
            return body


@shape_fault("envelope", "zhipuai-40", cures=("choice_delta_to_message",))
@on_choice
def delta_for_message(choice: JSON, sample: Sample) -> JSON:
    """A plain answer has a `delta`, and no message or a null one."""
    message = choice.get("message")
    if not isinstance(message, dict) or not (message.get("content") or message.get("tool_calls")):
        return choice
    rest = {key: choice[key] for key in choice if key != "message"}
    absent: JSON = sample.pick([{}, {"message": None}])
    return rest | {"delta": message} | absent


@shape_fault("message", "langchainjs-11177", cures=("assistant_content_call_parts_to_tool_calls",))
@on_message
def call_parts(message: JSON, sample: Sample) -> JSON:
    """The calls are parts of the content, as in another vendor's format."""
    calls, text = message.get("tool_calls"), message.get("content")
    if not isinstance(calls, list) or not calls or not all(map(_is_whole, calls)):
        return message
    style = sample.pick([_tool_use, _tool_call, _function_call])
    words = text if isinstance(text, list) else [{"type": "text", "text": text}] if text else []
    rest = {key: message[key] for key in message if key != "tool_calls"}
    return rest | {"content": [*words, *map(style, calls)]}


def _is_whole(call: object) -> bool:
    match call:
        case {"id": str(), "function": {"name": str(), "arguments": str()}}:
            return True
        case _:
            return False


def _tool_use(call: JSON) -> JSON:
    function = call["function"]
    given = decoded(function["arguments"])
    arguments = function["arguments"] if given is None else given
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _tool_call(call: JSON) -> JSON:
    return {"type": "tool_call", "tool_call": call}


def _function_call(call: JSON) -> JSON:
    return {"type": "function_call", "call_id": call["id"], **call["function"]}


@shape_fault("message", "hermes-agent-116486", cures=("assistant_content_edges_trimmed",))
@on_message
def answer_with_end_token(message: JSON, sample: Sample) -> JSON:
    """The model's end token, or a character that nobody sees, is at an edge of the answer."""
    text = message.get("content")
    if not isinstance(text, str) or message.get("tool_calls") or not text.strip():
        return message
    if text != text.strip() or trimmed(text) is not text or "<s>" in text:
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


@shape_fault("message", "D16", cures=(_PARTS,))
@on_message
def content_parts(message: JSON, _sample: Sample) -> JSON:
    """Content as a list of parts instead of text."""
    text = message.get("content")
    if not isinstance(text, str) or not text:
        return message
    half = len(text) // 2
    parts = [{"type": "text", "text": piece} for piece in (text[:half], text[half:])]
    return message | {"content": parts}


@shape_fault("message", "D16", cures=(_PARTS,))
@on_message
def content_thinking(message: JSON, sample: Sample) -> JSON:
    """Content as parts, of which the first is what the model thought."""
    given = message.get("content")
    thoughts: tuple[Any, ...] = ("Hm.", [{"type": "text", "text": "Hm."}])
    thinking = {"type": "thinking", "thinking": sample.pick(thoughts)}
    if isinstance(given, list):
        return message | {"content": [thinking, *given]}
    text = [{"type": "text", "text": given}] if isinstance(given, str) else []
    return message | {"content": [thinking, *text, {"type": "reference", "reference_ids": [1]}]}


@shape_fault("message", "D05")
@on_message
def tool_calls_null(message: JSON, sample: Sample) -> JSON:
    """`tool_calls` is null, or empty text, where there are none."""
    return (
        message if message.get("tool_calls") else message | {"tool_calls": sample.pick([None, ""])}
    )


@shape_fault(
    *("loop", "D101", "higress-3506", "openagents-6233", "vllm-44326"),
    outcome="retried",
)
@on_choice
def finish_without_calls(choice: JSON, sample: Sample) -> JSON:
    """The finish reason promises calls, and there are none."""
    message = choice.get("message")
    if not isinstance(message, dict) or message.get("tool_calls"):
        return choice
    reason = sample.pick(["tool_calls", "tool_use", "function_call", "TOOL_CALLS"])
    return choice | {"finish_reason": reason, "message": message | {"tool_calls": []}}


@shape_fault(
    *("loop", "litellm-16651", "ollama-17274", "trtllm-18084"),
    outcome="retried",
    only_first=True,
)
@on_choice
def turn_lost(choice: JSON, sample: Sample) -> JSON:
    """What the model wrote in its first turn is lost: the message is empty, or there is none."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice
    empty = sample.pick(["", None, " \n", []])
    said = sample.pick([{"role": "assistant", "content": empty}, None, {}])
    return choice | {"finish_reason": "stop", "message": said}


@shape_fault("loop", "langgraph-6574", outcome="retried")
@on_choice
def finish_malformed(choice: JSON, sample: Sample) -> JSON:
    """The finish reason is the upstream's word for a call that it could not read."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice
    said = {"role": "assistant", "content": ""}
    return choice | {"finish_reason": sample.pick(_MALFORMED), "message": said}


@shape_fault("loop", "hermes-agent-83886", outcome="ARGUMENTS_JSON_PARSE_ERROR")
@on_choice
def finish_malformed_with_calls(choice: JSON, sample: Sample) -> JSON:
    """The finish reason says that the call is malformed, beside one that can be read."""
    return _ended(choice, sample.pick(_MALFORMED))


@shape_fault("loop", "any-llm-1200", "pydantic-ai-7816", outcome="ARGUMENTS_TRUNCATED")
@on_choice
def finish_cut_off_with_calls(choice: JSON, sample: Sample) -> JSON:
    """A limit or a filter ended the reply, in a foreign word for it, behind calls that parse."""
    words = ("model_context_window_exceeded", "MAX_TOKENS", "max_tokens", "guardrail_intervened")
    return _ended(choice, sample.pick([*words, "SAFETY", "incomplete"]))


@shape_fault("loop", "pydantic-ai-7678", "pi-8499", outcome="retried")
@on_choice
def finish_broken(choice: JSON, sample: Sample) -> JSON:
    """The finish reason, or the upstream's own, says that the generation broke off."""
    if not isinstance(choice.get("message"), dict):
        return choice
    reason = sample.pick(["network_error", "abort", "ERROR", "insufficient_system_resource"])
    native = {"finish_reason": "stop", "native_finish_reason": reason}
    ended: JSON = sample.pick([{"finish_reason": reason}, native, {"finish_reason": reason}])
    return choice | ended


def _ended(choice: JSON, reason: str) -> JSON:
    """Put a finish reason behind calls, there or as the upstream's own."""
    match choice:
        case {"message": {"tool_calls": [_, *_]}}:
            return choice | {"finish_reason": reason}
        case _:
            return choice


@shape_fault("loop", "D102")
@on_choice
def finish_stop_with_calls(choice: JSON, sample: Sample) -> JSON:
    """The finish reason says stop, or nothing, beside calls."""
    message = choice.get("message")
    if not isinstance(message, dict) or not message.get("tool_calls"):
        return choice
    return choice | {"finish_reason": sample.pick(["stop", None, "function_call", "eos"])}


@shape_fault("loop", "D15", "D103", outcome="retried")
@on_message
def answer_blank(message: JSON, sample: Sample) -> JSON:
    """The answer is empty or blank."""
    if message.get("tool_calls") or not message.get("content"):
        return message
    return message | {"content": sample.pick(["", None, " \n", []])}


@shape_fault("loop", "D104", "D110", outcome="retried")
@on_choice
def answer_in_reasoning(choice: JSON, sample: Sample) -> JSON:
    """The answer is in the reasoning alone, whatever the finish reason promises."""
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(message, dict) or message.get("tool_calls") or not isinstance(text, str):
        return choice
    key = sample.pick(["reasoning", "reasoning_content"])
    finish = sample.pick(["stop", "tool_calls", "tool_calls", "stop"])
    return choice | {"finish_reason": finish, "message": message | {"content": "", key: text}}
