"""Faults of the envelope and of the answer as a whole: what surrounds a message, and its end."""

from typing import Any

from surecall.simulator.faults.shape_fault import Sample, on_choice, on_message, shape_fault
from surecall.values.types import JSON

_PARTS = "assistant_content_parts_to_text"


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


@shape_fault("loop", "D101")
@on_choice
def finish_without_calls(choice: JSON, _sample: Sample) -> JSON:
    """The finish reason promises calls, and the list of calls is empty."""
    message = choice.get("message")
    if not isinstance(message, dict) or message.get("tool_calls"):
        return choice
    return choice | {"finish_reason": "tool_calls", "message": message | {"tool_calls": []}}


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
