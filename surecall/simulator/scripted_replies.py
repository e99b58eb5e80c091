"""Replies for a script: chat completion bodies, as the API would send them."""

from typing import Any

import msgspec

from surecall.values.types import JSON

_OF_THE_BODY = frozenset({"created", "error", "id", "model", "object", "provider", "usage"})
_OF_THE_CHOICE = frozenset({"finish_reason", "index", "logprobs", "native_finish_reason"})


def says(text: str | None, **extra: Any) -> JSON:
    """Build a final answer.

    Extra fields land where the API keeps them: `usage`, `model`, `id` and `provider` in the body,
    `finish_reason` in the choice, anything else (`reasoning`, `refusal`, …) in the message.
    """
    return _completion({"role": "assistant", "content": text}, "stop", extra)


class _Numbered(dict[str, Any]):
    """A call whose id nobody chose. A model gives every call of a conversation one of its own."""


def calls(name: str, /, call_id: str | None = None, **arguments: Any) -> JSON:
    """Build a reply that calls one tool; the arguments are sent as JSON text.

    Without an id of your own it gets the next one that is free: `call_1`, `call_2`, …
    """
    function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
    call = {"id": "call_1", "type": "function", "function": function}
    return _calling([_Numbered(call) if call_id is None else call | {"id": call_id}])


def calls_many(*replies: JSON) -> JSON:
    """Merge several `calls(...)` into one reply.

    Ids you chose stay; the others become `call_1`, `call_2`, … by position.
    """
    merged = [call for reply in replies for call in reply["choices"][0]["message"]["tool_calls"]]
    taken = {call["id"] for call in merged if not isinstance(call, _Numbered)}
    return _calling(_numbered(merged, taken))


def continuing(reply: JSON, request: JSON) -> JSON:
    """Give the calls whose ids nobody chose ids that the conversation does not have yet."""
    made = _made(reply)
    if not any(isinstance(call, _Numbered) for call in made):
        return reply
    sent = [message.get("tool_calls") or () for message in request.get("messages", ())]
    taken = {call["id"] for calls_sent in sent for call in calls_sent}
    choice = reply["choices"][0]
    message = choice["message"] | {"tool_calls": _numbered(made, taken)}
    return reply | {"choices": [choice | {"message": message}]}


def _made(reply: JSON) -> list[JSON]:
    try:
        return list(reply["choices"][0]["message"]["tool_calls"])
    except (KeyError, IndexError, TypeError):  # not one of `calls`
        return []


def _numbered(made: list[JSON], taken: set[Any]) -> list[JSON]:
    numbered = list(made)
    for position, call in enumerate(made, start=1):
        if isinstance(call, _Numbered):
            free = _free_id(position, taken)
            taken.add(free)
            numbered[position - 1] = _Numbered(call | {"id": free})
    return numbered


def _completion(message: JSON, finish_reason: str, extra: JSON) -> JSON:
    """Wrap a message the way the API does, each extra field in its place."""
    of_body = {key: value for key, value in extra.items() if key in _OF_THE_BODY}
    of_choice = {key: value for key, value in extra.items() if key in _OF_THE_CHOICE}
    rest = {key: extra[key] for key in extra if key not in _OF_THE_BODY | _OF_THE_CHOICE}
    choice = {"index": 0, "message": message | rest, "finish_reason": finish_reason} | of_choice
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    } | of_body


def _calling(tool_calls: list[JSON]) -> JSON:
    message = {"role": "assistant", "content": None, "tool_calls": tool_calls}
    return _completion(message, "tool_calls", {})


def _free_id(position: int, taken: set[Any]) -> str:
    while f"call_{position}" in taken:
        position += 1
    return f"call_{position}"
