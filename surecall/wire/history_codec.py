"""Earlier turns and tools in the form that an endpoint was found to take; a lesson is a rewriting.

    without:FIELD     no such field in a message, a call or its function, and no such content part
    ids:nine          ids of nine letters and digits
    ids:plain         ids of letters, digits, `_` and `-`, at most 40 of them
    ids:PREFIX        plain ids that begin so
    content:null      null for a blank text beside calls
    content:text      a blank text for null
    content:absent    no content beside calls, where it would be blank
    name:tool         the name of the tool with each result
    signature:skip    a word in place of a missing signature beside each call
    schema:KEYWORD    no such keyword in the schemas of tools
    system:user       the system text at the head of the first user message

Each loses nothing that the endpoint can use: opaque fields that it refuses mean nothing to it, an
id is mapped in the call and in its result alike, and a blank text says nothing in any form. What
a schema no longer says is still checked before a tool runs.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from surecall.parsing.schema_walk import rewritten
from surecall.values.types import JSON, Message, System, User
from surecall.wire.messages import plain_id, short_id

WITHOUT: Final = "without:"
IDS: Final = "ids:"
CONTENT: Final = "content:"
NINE: Final = f"{IDS}nine"
PLAIN: Final = f"{IDS}plain"
NULL: Final = f"{CONTENT}null"
TEXT: Final = f"{CONTENT}text"
ABSENT: Final = f"{CONTENT}absent"
SCHEMA: Final = "schema:"
NAME: Final = "name:tool"
SIGNATURE: Final = "signature:skip"
SYSTEM_IN_USER: Final = "system:user"
# Google's own word for "there is none".
SKIP_SIGNATURE: Final = "skip_thought_signature_validator"
_WHOLE: Final = frozenset({NAME, SIGNATURE, SYSTEM_IN_USER})


def is_about_history(lesson: str) -> bool:
    """Whether a lesson is one of these."""
    return lesson.startswith((WITHOUT, IDS, CONTENT, SCHEMA)) or lesson in _WHOLE


def taught(message: JSON, lessons: Iterable[str]) -> JSON:
    """Return a message as an endpoint takes it that taught these; the same one if none matters."""
    for lesson in lessons:
        if lesson.startswith(WITHOUT):
            message = _without(message, lesson.removeprefix(WITHOUT))
        elif lesson.startswith(IDS):
            message = _with_ids(message, codec_of(lesson))
        elif lesson.startswith(CONTENT):
            message = _with_content(message, lesson)
        elif lesson == SIGNATURE:
            message = with_signatures(message)
    return message


def taught_tool(tool: JSON, lessons: Iterable[str]) -> JSON:
    """Do the same for the definition of a tool."""
    function: JSON = tool["function"]
    for lesson in lessons:
        if lesson.startswith(SCHEMA):
            keyword = lesson.removeprefix(SCHEMA)
            leave_out = partial(_left_out, field=keyword)
            schema = rewritten(function["parameters"], leave_out)
            function = _left_out(function, keyword) | {"parameters": schema}
    return tool if function is tool["function"] else tool | {"function": function}


def _without(message: JSON, field: str) -> JSON:
    message = _left_out(message, field)
    content = message.get("content")
    if message.get("role") == "assistant" and isinstance(content, list):
        kept = [part for part in content if not _is_kind(part, field)]
        message = message | {"content": kept or ""}
    return _each_call(message, partial(_call_without, field=field))


def _call_without(call: JSON, field: str) -> JSON:
    return _left_out(call, field) | {"function": _left_out(call["function"], field)}


def _left_out(mapping: JSON, field: str) -> JSON:
    # The documented ones are not ours to leave out, but for a name beside a tool's result.
    if field not in mapping or (field == "name" and mapping.get("role") != "tool"):
        return mapping
    return {key: value for key, value in mapping.items() if key != field}


def _is_kind(part: Any, kind: str) -> bool:
    return isinstance(part, dict) and part.get("type") == kind


def _with_ids(message: JSON, codec: Callable[[str], str]) -> JSON:
    if "tool_call_id" in message:
        return message | {"tool_call_id": codec(message["tool_call_id"])}
    return _each_call(message, lambda call: call | {"id": codec(call["id"])})


def codec_of(lesson: str) -> Callable[[str], str]:
    """Return how ids are mapped by a lesson about them."""
    if lesson == NINE:
        return short_id
    prefix = "" if lesson == PLAIN else lesson.removeprefix(IDS)
    return partial(plain_id, prefix=prefix)


def with_signatures(message: JSON) -> JSON:
    """Mark the calls of a message that carry no signature; the same one if there are none."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    marked = [_signed(call) for call in calls]
    if all(after is before for after, before in zip(marked, calls, strict=True)):
        return message
    return message | {"tool_calls": marked}


def _signed(call: object) -> object:
    if not isinstance(call, dict) or "signature" in call or "extra_content" in call:
        return call
    # Routers look at `signature`, Google's own endpoint at `extra_content`.
    google = {"google": {"thought_signature": SKIP_SIGNATURE}}
    return call | {"signature": SKIP_SIGNATURE, "extra_content": google}


def _with_content(message: JSON, lesson: str) -> JSON:
    content = message.get("content")
    if not message.get("tool_calls") or not (content is None or content == ""):
        return message
    forms: dict[str, JSON] = {NULL: {"content": None}, TEXT: {"content": ""}}
    return _left_out(message, "content") | forms.get(lesson, {})


def with_system_in_user(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Put the system text at the head of what the user says first."""
    first, *rest = messages or (None,)
    if not isinstance(first, System):
        return tuple(messages)
    for place, message in enumerate(rest):
        if isinstance(message, User):
            return (*rest[:place], _headed(message, first.text), *rest[place + 1 :])
    return (User(first.text), *rest)


def _headed(user: User, text: str) -> User:
    said = user.content
    whole = f"{text}\n\n{said}" if isinstance(said, str) else [_part(text), *said]
    return msgspec.structs.replace(user, content=whole)


def _part(text: str) -> JSON:
    return {"type": "text", "text": text}


def _each_call(message: JSON, change: Callable[[JSON], JSON]) -> JSON:
    calls = message.get("tool_calls")
    return message | {"tool_calls": [change(call) for call in calls]} if calls else message
