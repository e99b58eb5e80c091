"""Chat completion bodies for scripted models."""

from typing import Any

import msgspec

from surecall.values.types import JSON

_BODY_FIELDS = frozenset({"created", "error", "id", "model", "object", "provider", "usage"})
_CHOICE_FIELDS = frozenset({"finish_reason", "index", "logprobs", "native_finish_reason"})


def says(text: str | None, **extra: Any) -> JSON:
    """Build a final answer.

    Extra fields go where the API puts them: `usage`, `model`, `id`, and `provider` in the body,
    `finish_reason` in the choice, all others (`reasoning`, `refusal`, …) in the message.
    """
    return _completion({"role": "assistant", "content": text}, "stop", extra)


def error_body(message: str, code: str | None = None, kind: str = "invalid_request_error") -> JSON:
    """Build the error object that the API returns, by default for an invalid request."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class _AutoIdCall(dict[str, Any]):
    """A call without a chosen id; it gets one that is unique in the conversation."""


def calls(name: str, /, call_id: str | None = None, **arguments: Any) -> JSON:
    """Build a reply that calls one tool; the arguments are sent as a JSON string.

    Without a `call_id`, the call gets the next free one: `call_1`, `call_2`, …
    """
    function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
    call = {"id": "call_1", "type": "function", "function": function}
    return _completion_with_calls(
        [_AutoIdCall(call) if call_id is None else call | {"id": call_id}]
    )


def calls_many(*replies: JSON) -> JSON:
    """Merge several `calls(...)` into one reply.

    Ids that you passed are kept; the others become `call_1`, `call_2`, … by position.
    """
    merged = [call for reply in replies for call in reply["choices"][0]["message"]["tool_calls"]]
    taken = {call["id"] for call in merged if not isinstance(call, _AutoIdCall)}
    return _completion_with_calls(_with_free_ids(merged, taken))


def assign_call_ids(reply: JSON, request: JSON) -> JSON:
    """Give the calls without a chosen id ids that are new to the conversation."""
    made = _reply_calls(reply)
    if not any(isinstance(call, _AutoIdCall) for call in made):
        return reply
    sent = [message.get("tool_calls") or () for message in request.get("messages", ())]
    taken = {call["id"] for calls_sent in sent for call in calls_sent}
    choice = reply["choices"][0]
    message = choice["message"] | {"tool_calls": _with_free_ids(made, taken)}
    return reply | {"choices": [choice | {"message": message}]}


def _reply_calls(reply: JSON) -> list[JSON]:
    """Return the calls of a reply; none if it was not built by `calls`."""
    try:
        return list(reply["choices"][0]["message"]["tool_calls"])
    except (KeyError, IndexError, TypeError):  # not built by `calls`
        return []


def _with_free_ids(tool_calls: list[JSON], taken_ids: set[Any]) -> list[JSON]:
    numbered = list(tool_calls)
    for position, call in enumerate(tool_calls, start=1):
        if isinstance(call, _AutoIdCall):
            free = _free_id(position, taken_ids)
            taken_ids.add(free)
            numbered[position - 1] = _AutoIdCall(call | {"id": free})
    return numbered


def _completion(message: JSON, finish_reason: str, extra: JSON) -> JSON:
    """Wrap a message in a completion body, with each extra field in its place."""
    of_body = {key: value for key, value in extra.items() if key in _BODY_FIELDS}
    of_choice = {key: value for key, value in extra.items() if key in _CHOICE_FIELDS}
    rest = {key: extra[key] for key in extra if key not in _BODY_FIELDS | _CHOICE_FIELDS}
    choice = {"index": 0, "message": message | rest, "finish_reason": finish_reason} | of_choice
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    } | of_body


def _completion_with_calls(tool_calls: list[JSON]) -> JSON:
    message = {"role": "assistant", "content": None, "tool_calls": tool_calls}
    return _completion(message, "tool_calls", {})


def _free_id(position: int, taken_ids: set[Any]) -> str:
    while f"call_{position}" in taken_ids:
        position += 1
    return f"call_{position}"
