"""What holds of everything that is read, and of every request that is sent."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from surecall.parsing.names import is_legal_name
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Assistant, Reply, ToolCall
from surecall.wire.chat_format import WireStyle, render_message

_STYLE = WireStyle()


def reply_problems(
    read: object, names: Collection[str], earlier: Collection[str] = ()
) -> Iterator[str]:
    """Yield what is wrong with a reply, or with a fault, for tools of these names."""
    if isinstance(read, Fault):
        if read.code not in {*ErrorCode} or not read.message:
            yield f"a fault of no code or no message: {read!r:.80}"
    elif not isinstance(read, Reply):
        yield f"neither a reply nor a fault: {read!r:.80}"
        return
    else:
        yield from _ids(read.calls, earlier)
        for call in read.calls:
            yield from _call(call, names)
        yield from _rendered(read)
    try:
        msgspec.json.encode(read)
    except (ValueError, TypeError, RecursionError) as error:
        yield f"it cannot be written down: {error!r:.80}"


def _ids(calls: Sequence[ToolCall], earlier: Collection[str]) -> Iterator[str]:
    ids = [call.id for call in calls]
    if not all(each.strip() for each in ids):
        yield f"a blank id among {ids!r:.80}"
    if len({*ids, *earlier}) != len(ids) + len({*earlier}):
        yield f"ids that are not unique: {ids!r:.80}"


def _call(call: ToolCall, names: Collection[str]) -> Iterator[str]:
    if not isinstance(call.arguments, dict):
        yield f"arguments that are no object: {call.arguments!r:.80}"
    if call.problem is None and call.name not in names:
        yield f"a call without a problem of no known tool: {call.name!r:.80}"
    if call.problem is None and not is_finite(call.arguments):
        yield f"arguments that no JSON can hold: {call.arguments!r:.80}"


def is_finite(value: Any) -> bool:
    """Whether no number in a value is infinite or not a number."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _rendered(reply: Reply) -> Iterator[str]:
    sent = render_message(Assistant(reply.text, reply.calls), _STYLE)
    for call in (sent or {}).get("tool_calls", ()):
        yield from _sent_call(call)


def _sent_call(call: JSON) -> Iterator[str]:
    function = call["function"]
    if not is_legal_name(function["name"]):
        yield f"the history would have the name {function['name']!r:.80}"
    if not isinstance(json.loads(function["arguments"]), dict):
        yield f"the history would have the arguments {function['arguments']!r:.80}"


def request_problems(messages: Sequence[JSON]) -> Iterator[str]:
    """Yield what is wrong with the messages of a request: each call is answered exactly once."""
    seen: set[str] = set()
    due: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in due:
                yield f"an answer to no call: {message.get('tool_call_id')!r}"
                continue
            due.remove(message["tool_call_id"])
            continue
        if due:
            yield f"calls without an answer before {message['role']}: {due}"
            due = []
        for call in message.get("tool_calls") or ():
            yield from _sent_call(call)
            if call["id"] in seen or not call["id"]:
                yield f"an id that is blank or used before: {call['id']!r}"
            seen.add(call["id"])
            due.append(call["id"])
    if due:
        yield f"calls without an answer: {due}"
    yield from _multisets(messages)


def _multisets(messages: Sequence[JSON]) -> Iterator[str]:
    asked = Counter(call["id"] for each in messages for call in each.get("tool_calls") or ())
    told = Counter(each.get("tool_call_id") for each in messages if each["role"] == "tool")
    if asked != told:
        yield f"calls {dict(asked)} and answers {dict(told)} differ"
