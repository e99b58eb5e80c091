"""Rewrites earlier messages and tools as an endpoint requires; each lesson is one rewrite.

    without:FIELD     omit this field from messages, calls, and functions, and such content parts
    ids:nine          ids of nine letters and digits
    ids:plain         ids of at most 40 letters, digits, `_`, and `-`
    ids:PREFIX        plain ids with this prefix
    content:null      null instead of blank text beside calls
    content:text      blank text instead of null
    content:absent    no content beside calls where it would be blank
    name:tool         the tool name in each result
    signature:skip    a placeholder for a missing signature in each call
    schema:KEYWORD    omit this keyword from tool schemas
    system:user       the system text at the start of the first user message

No rewrite loses information the endpoint can use: rejected fields mean nothing to it, and ids are
mapped in calls and results alike. Omitted schema keywords are still validated before a tool runs.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from surecall.parsing.coercion import rewrite_schema
from surecall.values.types import JSON, Message, System, User
from surecall.wire.chat_format import plain_id, short_id

WITHOUT_PREFIX: Final = "without:"
IDS_PREFIX: Final = "ids:"
CONTENT_PREFIX: Final = "content:"
SHORT_IDS: Final = f"{IDS_PREFIX}nine"
PLAIN_IDS: Final = f"{IDS_PREFIX}plain"
CONTENT_NULL: Final = f"{CONTENT_PREFIX}null"
CONTENT_TEXT: Final = f"{CONTENT_PREFIX}text"
CONTENT_ABSENT: Final = f"{CONTENT_PREFIX}absent"
SCHEMA_PREFIX: Final = "schema:"
TOOL_NAME: Final = "name:tool"
SIGNATURE_SKIP: Final = "signature:skip"
SYSTEM_IN_USER: Final = "system:user"
# Google's placeholder for a missing signature.
SKIP_SIGNATURE: Final = "skip_thought_signature_validator"
_FIXED_LESSONS: Final = frozenset({TOOL_NAME, SIGNATURE_SKIP, SYSTEM_IN_USER})


def is_history_lesson(lesson: str) -> bool:
    """Whether a lesson rewrites the history."""
    return (
        lesson.startswith((WITHOUT_PREFIX, IDS_PREFIX, CONTENT_PREFIX, SCHEMA_PREFIX))
        or lesson in _FIXED_LESSONS
    )


def rewrite_message(message: JSON, lessons: Iterable[str]) -> JSON:
    """Apply lessons to a message; return the same object if none changes it."""
    for lesson in lessons:
        if lesson.startswith(WITHOUT_PREFIX):
            message = _remove_field(message, lesson.removeprefix(WITHOUT_PREFIX))
        elif lesson.startswith(IDS_PREFIX):
            message = _rewrite_ids(message, id_codec(lesson))
        elif lesson.startswith(CONTENT_PREFIX):
            message = _rewrite_blank_content(message, lesson)
        elif lesson == SIGNATURE_SKIP:
            message = add_skip_signatures(message)
    return message


def rewrite_tool(tool: JSON, lessons: Iterable[str]) -> JSON:
    """Apply lessons to a tool definition."""
    function: JSON = tool["function"]
    for lesson in lessons:
        if lesson.startswith(SCHEMA_PREFIX):
            keyword = lesson.removeprefix(SCHEMA_PREFIX)
            leave_out = partial(_omit_field, field=keyword)
            schema = rewrite_schema(function["parameters"], leave_out)
            function = _omit_field(function, keyword) | {"parameters": schema}
    return tool if function is tool["function"] else tool | {"function": function}


def _remove_field(message: JSON, field: str) -> JSON:
    message = _omit_field(message, field)
    content = message.get("content")
    if message.get("role") == "assistant" and isinstance(content, list):
        kept = [part for part in content if not _is_kind(part, field)]
        message = message | {"content": kept or ""}
    return _map_calls(message, partial(_remove_call_field, field=field))


def _remove_call_field(call: JSON, field: str) -> JSON:
    return _omit_field(call, field) | {"function": _omit_field(call["function"], field)}


def _omit_field(mapping: JSON, field: str) -> JSON:
    # A `name` is optional only in tool results; elsewhere it is kept.
    if field not in mapping or (field == "name" and mapping.get("role") != "tool"):
        return mapping
    return {key: value for key, value in mapping.items() if key != field}


def _is_kind(part: Any, kind: str) -> bool:
    return isinstance(part, dict) and part.get("type") == kind


def _rewrite_ids(message: JSON, codec: Callable[[str], str]) -> JSON:
    if "tool_call_id" in message:
        return message | {"tool_call_id": codec(message["tool_call_id"])}
    return _map_calls(message, lambda call: call | {"id": codec(call["id"])})


def id_codec(lesson: str) -> Callable[[str], str]:
    """Return the function that maps call ids for a lesson."""
    if lesson == SHORT_IDS:
        return short_id
    prefix = "" if lesson == PLAIN_IDS else lesson.removeprefix(IDS_PREFIX)
    return partial(plain_id, prefix=prefix)


def add_skip_signatures(message: JSON) -> JSON:
    """Add the skip signature to unsigned calls; return the same object if there are none."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    marked = [_add_skip_signature(call) for call in calls]
    if all(after is before for after, before in zip(marked, calls, strict=True)):
        return message
    return message | {"tool_calls": marked}


def _add_skip_signature(call: object) -> object:
    if not isinstance(call, dict) or "signature" in call or "extra_content" in call:
        return call
    # Routers read `signature`; Google's own endpoint reads `extra_content`.
    google = {"google": {"thought_signature": SKIP_SIGNATURE}}
    return call | {"signature": SKIP_SIGNATURE, "extra_content": google}


def _rewrite_blank_content(message: JSON, lesson: str) -> JSON:
    content = message.get("content")
    if not message.get("tool_calls") or not (content is None or content == ""):
        return message
    forms: dict[str, JSON] = {CONTENT_NULL: {"content": None}, CONTENT_TEXT: {"content": ""}}
    return _omit_field(message, "content") | forms.get(lesson, {})


def merge_system_into_user(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Move the system text to the start of the first user message."""
    first, *rest = messages or (None,)
    if not isinstance(first, System):
        return tuple(messages)
    for place, message in enumerate(rest):
        if isinstance(message, User):
            return (*rest[:place], _prepend_text(message, first.text), *rest[place + 1 :])
    return (User(first.text), *rest)


def _prepend_text(user: User, text: str) -> User:
    original = user.content
    merged = f"{text}\n\n{original}" if isinstance(original, str) else [_text_part(text), *original]
    return msgspec.structs.replace(user, content=merged)


def _text_part(text: str) -> JSON:
    return {"type": "text", "text": text}


def _map_calls(message: JSON, change: Callable[[JSON], JSON]) -> JSON:
    calls = message.get("tool_calls")
    return message | {"tool_calls": [change(call) for call in calls]} if calls else message
