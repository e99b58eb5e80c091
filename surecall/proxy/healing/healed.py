"""A healed answer: the upstream's chat completion, with what the model meant where it belongs.

Everything that was right stays as it came. What is in the way of a client is put right: the calls,
the text beside them, the reason why the answer ended, and the fields that every answer has.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from surecall.values.nesting import decode_json
from surecall.values.types import JSON, Assistant, ToolCall, Usage, is_blank
from surecall.wire.content_parts import text_of
from surecall.wire.finish_reasons import Ending, ending_of
from surecall.wire.messages import call_parts, encode, id_of, raw_calls
from surecall.wire.opaque_state import CONTENT, FUNCTION
from surecall.wire.response import read_choice

_REASONS: Final = {Ending.CUT_OFF: "length", Ending.FILTERED: "content_filter"}
_STANDARD: Final = frozenset({"stop", "length", "content_filter"})
_CALLS: Final = "tool_calls"


class Head(msgspec.Struct, frozen=True):
    """What an answer is called where the upstream does not say it."""

    id: str
    created: int
    model: str


def healed(
    body: Any, said: Assistant, head: Head, names: Mapping[str, str], usage: Usage | None = None
) -> JSON:
    """Return the chat completion for the client: the calls of a turn that may run, or its text.

    `names` are those of the client's tools that it knows by another name. `usage` is that of all
    requests, where there were several.
    """
    whole = body if isinstance(body, dict) else {}
    choice = read_choice(body)
    first = choice if isinstance(choice, dict) else {}
    calls = [call for call in said.calls if call.may_run]
    raw = first.get("message")
    message = _message(raw if isinstance(raw, dict) else {}, said, calls, names)
    reason = _CALLS if calls else _reason(first.get("finish_reason"), said)
    answered = {"index": 0} | first | {"message": message, "finish_reason": reason}
    answered.pop("delta", None)
    answer = _head(whole, head) | {"choices": [answered]}
    if usage is not None:
        answer["usage"] = summed(whole.get("usage"), usage)
    # In the order in which they came.
    return {key: answer[key] for key in (*whole, *answer) if key in answer}


def _head(whole: JSON, head: Head) -> JSON:
    fields = {key: whole[key] for key in whole if key not in {"choices", "error"}}
    if not isinstance(fields.get("id"), str) or not fields["id"]:
        fields["id"] = head.id
    if not isinstance(fields.get("created"), int):
        fields["created"] = head.created
    if not isinstance(fields.get("model"), str) or not fields["model"]:
        fields["model"] = head.model
    return fields | {"object": "chat.completion"}


def _message(
    raw: JSON, said: Assistant, calls: Sequence[ToolCall], names: Mapping[str, str]
) -> JSON:
    extra = {key: said.extra[key] for key in said.extra if key != CONTENT}
    kept = {key: raw[key] for key in raw if key not in {_CALLS, "function_call"}}
    message = kept | extra | {"role": "assistant", CONTENT: _content(raw.get(CONTENT), said, calls)}
    if calls:
        message[_CALLS] = _calls(raw, calls, names)
    elif raw.get(_CALLS, "") in (None, []):
        message[_CALLS] = raw[_CALLS]  # none, in the upstream's own way
    return {key: message[key] for key in (*raw, *message) if key in message}


def _content(raw: Any, said: Assistant, calls: Sequence[ToolCall]) -> Any:
    if (raw is None or isinstance(raw, str)) and text_of(raw) == said.text:
        return raw
    return None if calls and is_blank(said.text) else said.text


def _calls(raw: JSON, calls: Sequence[ToolCall], names: Mapping[str, str]) -> list[JSON]:
    """Write the calls; those that came right, as they came."""
    came = {id_of(call): call for call in raw_calls(raw)}
    return [_call(call, came.get(call.id), names.get(call.name, call.name)) for call in calls]


def _call(call: ToolCall, came: JSON | None, name: str) -> JSON:
    if came is not None and came.get("type") == "function" and _is_right(call, came, name):
        return came
    inner = call.extra.get(FUNCTION, {})
    function = {"name": name, "arguments": encode(call.arguments).decode()} | inner
    extra = {key: call.extra[key] for key in call.extra if key != FUNCTION}
    return {"id": call.id, "type": "function", FUNCTION: function} | extra


def _is_right(call: ToolCall, came: JSON, name: str) -> bool:
    """Whether a call needs no repair: its name is the tool's, its arguments are JSON as text.

    Arguments are compared as they are written: 3.0 and 3 are equal, but not the same to a client.
    """
    said, arguments = call_parts(came)
    if said != name or came[FUNCTION]["name"] != name or not isinstance(arguments, str):
        return False
    try:
        return encode(decode_json(arguments)) == encode(call.arguments)
    except ValueError:
        return False


def _reason(raw: Any, said: Assistant) -> str:
    """Return the reason in OpenAI's words, of an answer without calls."""
    if raw in _STANDARD:
        return str(raw)
    return _REASONS.get(ending_of(said.finish_reason), "stop")


def summed(last: Any, usage: Usage) -> JSON:
    """Return the usage of several requests in the form of the last one's."""
    fields: JSON = dict(last) if isinstance(last, dict) else {}
    fields |= {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    details = {
        "prompt_tokens_details": ("cached_tokens", usage.cached_tokens),
        "completion_tokens_details": ("reasoning_tokens", usage.reasoning_tokens),
    }
    for key, (name, count) in details.items():
        if count:
            given = fields.get(key)
            fields[key] = (given if isinstance(given, dict) else {}) | {name: count}
    return fields if usage.cost is None else fields | {"cost": usage.cost}
