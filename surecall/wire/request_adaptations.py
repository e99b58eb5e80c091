"""Adapts a chat request to what an endpoint rejects; each lesson is one adaptation.

    OPTION                    omit this option
    rename:OPTION:OTHER       send an option under another name
    at-most:OPTION:N          send at most N
    set:OPTION:VALUE          send this value
    without:FIELD             omit this field from messages, calls, and functions, and such parts
    ids:nine, plain, PREFIX   ids of nine characters, of plain characters, or with a prefix
    content:null, text, absent   the form of blank content beside calls
    content:filled            a placeholder for other empty content
    parts:text                text parts as one string
    images:user               images of tool results in a user message after the results
    images:omitted            a sentence in place of images of tool results
    results:text              a tool result with references as text inside an object
    name:tool                 the tool name in each result
    signature:skip            a placeholder for a missing signature in each call
    role:system               `system` in place of the role `developer`
    system:first              all system text at the start
    system:user               the system text at the start of the first user message
    roles:merged              adjacent messages of one role as one message
    bridge:user               a short assistant message between a tool result and a user message
    empty:tools, tool_calls   no empty list
    schema:FLAVOR             see `schema_flavors`

Nothing the endpoint can use is lost: rejected fields mean nothing to it, ids are mapped in calls
and results alike, and arguments are validated against the original schemas. Only `images:omitted`
leaves out content, and says so in its place.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from surecall.values.types import JSON, is_blank
from surecall.wire.chat_format import decode, encode, is_plain_id, plain_id, short_id
from surecall.wire.provider_state import DOCUMENTED_CALL_FIELDS, DOCUMENTED_FUNCTION_FIELDS
from surecall.wire.schema_flavors import COMPLETE, is_known_flavor, rewrite_parameters

WITHOUT_PREFIX: Final = "without:"
IDS_PREFIX: Final = "ids:"
CONTENT_PREFIX: Final = "content:"
SHORT_IDS: Final = f"{IDS_PREFIX}nine"
PLAIN_IDS: Final = f"{IDS_PREFIX}plain"
CONTENT_NULL: Final = f"{CONTENT_PREFIX}null"
CONTENT_TEXT: Final = f"{CONTENT_PREFIX}text"
CONTENT_ABSENT: Final = f"{CONTENT_PREFIX}absent"
CONTENT_FILLED: Final = f"{CONTENT_PREFIX}filled"
SCHEMA_PREFIX: Final = "schema:"
RENAME_PREFIX: Final = "rename:"
AT_MOST_PREFIX: Final = "at-most:"
SET_PREFIX: Final = "set:"
# Selects another API for the upstream; requests stay in the chat format.
API_PREFIX: Final = "api:"
MAX_TOOLS_PREFIX: Final = "max-tools:"  # limits the number of exposed tools
TOOL_NAME: Final = "name:tool"
SIGNATURE_SKIP: Final = "signature:skip"
SYSTEM_IN_USER: Final = "system:user"
SYSTEM_FIRST: Final = "system:first"
DEVELOPER_AS_SYSTEM: Final = "role:system"
PARTS_AS_TEXT: Final = "parts:text"
IMAGES_IN_USER: Final = "images:user"
IMAGES_OMITTED: Final = "images:omitted"
RESULTS_AS_TEXT: Final = "results:text"
ROLES_MERGED: Final = "roles:merged"
BRIDGE_USER: Final = "bridge:user"
NO_EMPTY_TOOLS: Final = "empty:tools"
NO_EMPTY_CALLS: Final = "empty:tool_calls"
SKIP_SIGNATURE: Final = "skip_thought_signature_validator"  # Google's placeholder
BRIDGE_TEXT: Final = "Understood."
_EMPTY_TEXT: Final = "(empty)"
_IMAGE_NOTE: Final = "[The tool returned an image, which this model cannot receive.]"
_IMAGES_FOLLOW: Final = "[The image follows in the next user message.]"
_IMAGES_OF: Final = "Images returned by the tool call {id}:"
_REFERENCE: Final = '"$ref"'
_DESCRIPTIONS: Final = {
    CONTENT_NULL: "sends null instead of blank content beside calls",
    CONTENT_TEXT: "sends blank text instead of null content",
    CONTENT_ABSENT: "omits blank content beside calls",
    CONTENT_FILLED: "fills empty content with a placeholder",
    PARTS_AS_TEXT: "joins text parts into one string",
    IMAGES_IN_USER: "moves images of tool results to a user message",
    IMAGES_OMITTED: "replaces images of tool results by a sentence",
    RESULTS_AS_TEXT: "wraps tool results that contain $ref",
    TOOL_NAME: "names each tool result",
    SIGNATURE_SKIP: "adds a placeholder for missing signatures",
    DEVELOPER_AS_SYSTEM: "sends the developer role as system",
    SYSTEM_FIRST: "moves system text to the start",
    SYSTEM_IN_USER: "moves system text to the first user message",
    ROLES_MERGED: "merges adjacent messages of one role",
    BRIDGE_USER: "adds a short assistant turn between a tool result and a user message",
    NO_EMPTY_TOOLS: "omits empty tools",
    NO_EMPTY_CALLS: "omits empty tool_calls",
    "stream": "requests plain replies instead of streams",
    "tool_choice": "sends tool_choice auto instead of requiring a call",
    "response_format": "describes the reply format in the prompt only",
    "json_object": "requests json_object with the schema beside it",
    "tools": "sends tools with tool_choice none",
    "relearned": "leaves out earlier adaptations",
}
_TEMPLATES: Final = {
    "rename": "renames {} to {}",
    "at-most": "limits {} to {}",
    "set": "sets {} to {}",
    "without": "omits {} from messages",
    "ids": "rewrites call ids ({})",
    "schema": "rewrites tool schemas ({})",
    "api": "uses the {} API",
    "max-tools": "sends at most {} tools",
}
_MAX_LESSON_CHARS: Final = 200
_TOKEN_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_ESSENTIAL: Final = frozenset(
    {"", "model", "messages", "tools", "role", "content", "tool_calls", "tool_call_id", "function"}
)
_IMAGE_TYPES: Final = frozenset({"image_url", "image", "input_image"})


def is_known_lesson(lesson: str) -> bool:
    """Whether a name is that of a lesson; stored lessons may come from elsewhere."""
    kind, _, rest = lesson.partition(":")
    if not lesson.isascii() or "," in lesson or len(lesson) > _MAX_LESSON_CHARS:
        return False
    match kind:
        case "at-most":
            option, _, most = rest.partition(":")
            return option in _TOKEN_LIMITS and most.isdigit()
        case "max-tools":
            return rest.isdigit()
        case "without":
            return rest not in _ESSENTIAL
        case "schema":
            return is_known_flavor(rest)
        case "ids":
            return is_plain_id(rest)
        case _:
            return lesson in _FIXED_LESSONS or (not rest and _is_option_name(lesson))


def _is_option_name(lesson: str) -> bool:
    return lesson.replace("_", "").isalnum() and lesson not in _ESSENTIAL


def describe_lesson(lesson: str) -> str:
    """Return what a lesson does to requests, in a few words."""
    kind, _, rest = lesson.partition(":")
    template = _TEMPLATES.get(kind, "omits {}")
    given = rest.split(":", 1) if rest else [lesson]
    return _DESCRIPTIONS.get(lesson) or template.format(*given)


def adapt_body(data: bytes, lessons: Sequence[str]) -> bytes:
    """Return an encoded request with lessons applied; the same object if nothing changes."""
    if not lessons:
        return data
    body = decode(data)
    adapted = adapt_request(body, lessons) if is_adaptable(body) else body
    return data if adapted == body else encode(adapted)


def is_adaptable(body: Any) -> bool:
    """Whether a request has the form of a chat request, as far as adaptations depend on it."""
    match body:
        case {"messages": list(messages)}:
            tools = body.get("tools") or []
            return isinstance(tools, list) and all(
                [*map(_is_regular_message, messages), *map(_is_regular_tool, tools)]
            )
        case _:
            return False


def _is_regular_message(message: Any) -> bool:
    match message:
        case {"role": str(), **rest}:
            calls = rest.get("tool_calls") or []
            content = rest.get("content")
            return (
                isinstance(rest.get("tool_call_id", ""), str)
                and (isinstance(content, str | None) or _is_list(content, _is_regular_part))
                and _is_list(calls, _is_regular_call)
            )
        case _:
            return False


def _is_list(value: Any, is_regular: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_regular, value))


def _is_regular_part(part: Any) -> bool:
    return not isinstance(part, dict) or isinstance(part.get("type", ""), str)


def _is_regular_call(call: Any) -> bool:
    match call:
        case {"id": str(), "function": {"name": str()}} | {"id": str(), "type": "custom"}:
            return isinstance(call.get("function", {}), dict)
        case _:
            return False


def _is_regular_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("function", {}), dict)


def adapt_request(body: JSON, lessons: Iterable[str]) -> JSON:
    """Return a chat request with lessons applied, in an order that does not depend on theirs."""
    for lesson in sorted(lessons, key=_application_order):
        body = _adapt(body, lesson)
    return body


def _application_order(lesson: str) -> int:
    """Return a sort key, by which lessons about the whole conversation come last."""
    # Whole conversations change last, when each message has its final form.
    return _CONVERSATION_ORDER.index(lesson) if lesson in _CONVERSATION_ORDER else -1


def _adapt(body: JSON, lesson: str) -> JSON:
    """Return a chat request with one lesson applied."""
    if (change := _CONVERSATION_CHANGES.get(lesson)) is not None:
        return body | {"messages": change(body["messages"])}
    if lesson == NO_EMPTY_TOOLS:
        return body if body.get("tools") != [] else _omit(body, ("tools", "tool_choice"))
    if lesson.startswith(SCHEMA_PREFIX):
        return _adapt_tools(body, lesson)
    if (change_option := _OPTION_CHANGES.get(lesson.partition(":")[0])) is not None:
        return change_option(body, lesson)
    if ":" not in lesson:
        return _omit(body, (lesson,)) if lesson in body else body
    return body | {"messages": [rewrite_message(each, (lesson,)) for each in body["messages"]]}


def _omit(mapping: JSON, names: Iterable[str]) -> JSON:
    return {key: value for key, value in mapping.items() if key not in names}


def _rename_option(body: JSON, lesson: str) -> JSON:
    """Send an option under the name that a lesson names."""
    _, old, new = lesson.split(":", 2)
    return {new if key == old and new not in body else key: value for key, value in body.items()}


def _cap_option(body: JSON, lesson: str) -> JSON:
    """Lower an option to the limit that a lesson names."""
    _, option, most = lesson.split(":", 2)
    given = body.get(option)
    return body | {option: int(most)} if isinstance(given, int) and given > int(most) else body


def _set_option(body: JSON, lesson: str) -> JSON:
    _, option, value = lesson.split(":", 2)
    if option == "enable_thinking":  # refused in plain replies only
        return body if body.get("stream") else body | {option: False}
    return body | {option: value}


_OPTION_CHANGES: Final[dict[str, Callable[[JSON, str], JSON]]] = {
    RENAME_PREFIX.rstrip(":"): _rename_option,
    AT_MOST_PREFIX.rstrip(":"): _cap_option,
    SET_PREFIX.rstrip(":"): _set_option,
    API_PREFIX.rstrip(":"): lambda body, _: body,
    MAX_TOOLS_PREFIX.rstrip(":"): lambda body, _: body,
}


def _adapt_tools(body: JSON, lesson: str) -> JSON:
    tools = body.get("tools")
    if not isinstance(tools, list):
        return body
    return body | {"tools": [rewrite_tool(tool, (lesson,)) for tool in tools]}


def rewrite_message(message: JSON, lessons: Iterable[str]) -> JSON:
    """Apply lessons to a message; return the same object if none changes it."""
    for lesson in lessons:
        if lesson.startswith(WITHOUT_PREFIX):
            message = _remove_field(message, lesson.removeprefix(WITHOUT_PREFIX))
        elif lesson.startswith(IDS_PREFIX):
            message = _rewrite_ids(message, id_codec(lesson))
        elif lesson.startswith(CONTENT_PREFIX):
            message = _rewrite_blank_content(message, lesson)
        elif (change := _MESSAGE_CHANGES.get(lesson)) is not None:
            message = change(message)
    return message


def rewrite_tool(tool: Any, lessons: Iterable[str]) -> Any:
    """Apply lessons to a tool definition; return the same object if none changes it."""
    for lesson in lessons:
        function = tool.get("function") if isinstance(tool, dict) else None
        if lesson.startswith(SCHEMA_PREFIX) and isinstance(function, dict):
            tool = _rewrite_function(tool, function, lesson.removeprefix(SCHEMA_PREFIX))
    return tool


def _rewrite_function(tool: JSON, function: JSON, flavor: str) -> JSON:
    kept = _omit_field(function, flavor)
    schema = function.get("parameters")
    if flavor == COMPLETE and schema is None:
        schema = {}
    if isinstance(schema, dict):
        changed = rewrite_parameters(schema, flavor)
        kept = kept if changed is schema else kept | {"parameters": changed}
    outer = _omit_field(tool, flavor)
    return tool if kept is function and outer is tool else outer | {"function": kept}


def _remove_field(message: JSON, field: str) -> JSON:
    """Remove a field from a message and its calls, and content parts of that type."""
    message = _omit_field(message, field)
    content = message.get("content")
    if message.get("role") == "assistant" and isinstance(content, list):
        kept = [part for part in content if not _is_kind(part, field)]
        message = message | {"content": kept or ""}
    return _map_calls(message, partial(_remove_call_field, field=field))


def _remove_call_field(call: JSON, field: str) -> JSON:
    function = call.get("function")  # a call of a custom tool has none
    if isinstance(function, dict) and field not in DOCUMENTED_FUNCTION_FIELDS:
        call = call | {"function": _omit_field(function, field)}
    return call if field in DOCUMENTED_CALL_FIELDS else _omit_field(call, field)


def _omit_field(mapping: JSON, field: str) -> JSON:
    # The `name` of a message is optional; that of a function is not.
    if field not in mapping or (field == "name" and "role" not in mapping):
        return mapping
    return {key: value for key, value in mapping.items() if key != field}


def _is_kind(part: Any, kind: str) -> bool:
    return isinstance(part, dict) and part.get("type") == kind


def _rewrite_ids(message: JSON, codec: Callable[[str], str]) -> JSON:
    """Map the call ids of a message by a function."""
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
    if lesson == CONTENT_FILLED:
        return _fill_content(message)
    if not message.get("tool_calls") or not (content is None or content == ""):
        return message
    forms: dict[str, JSON] = {CONTENT_NULL: {"content": None}, CONTENT_TEXT: {"content": ""}}
    return _omit_field(message, "content") | forms.get(lesson, {})


def _fill_content(message: JSON) -> JSON:
    """Put a placeholder where content is empty and no call stands beside it."""
    content = message.get("content")
    if message.get("tool_calls"):
        return message
    if content is None or content == [] or (isinstance(content, str) and is_blank(content)):
        return message | {"content": _EMPTY_TEXT}
    if isinstance(content, list):
        kept = [part for part in content if not _is_blank_text(part)]
        if len(kept) < len(content):
            return message | {"content": kept or _EMPTY_TEXT}
    return message


def _is_blank_text(part: Any) -> bool:
    return _is_kind(part, "text") and is_blank(str(part.get("text") or ""))


def _join_parts(message: JSON) -> JSON:
    match message.get("content"):
        case [_, *_] as parts if all(_is_kind(part, "text") for part in parts):
            return message | {"content": "".join(str(part.get("text") or "") for part in parts)}
        case _:
            return message


def _wrap_result(message: JSON) -> JSON:
    """Put a tool result that contains references, as text, into an object."""
    if message.get("role") != "tool":
        return message
    match message.get("content"):
        case str(text) if _REFERENCE in text:
            return message | {"content": _wrap_text(text)}
        case list(parts) if any(map(_has_reference, parts)):
            wrapped = [
                part | {"text": _wrap_text(part["text"])} if _has_reference(part) else part
                for part in parts
            ]
            return message | {"content": wrapped}
        case _:
            return message


def _has_reference(part: Any) -> bool:
    return _is_kind(part, "text") and _REFERENCE in str(part.get("text"))


def _wrap_text(text: str) -> str:
    # Escaped, because some endpoints search the text itself for references.
    return encode({"result": text}).decode().replace("$ref", "\\u0024ref")


def _omit_images(message: JSON) -> JSON:
    parts = _result_parts(message)
    if not any(map(_is_image, parts)):
        return message
    note = _text_part(_IMAGE_NOTE)
    return message | {"content": [note if _is_image(part) else part for part in parts]}


def _result_parts(message: JSON) -> list[Any]:
    """Return the content parts of a tool result; none for text or another message."""
    content = message.get("content")
    return content if message.get("role") == "tool" and isinstance(content, list) else []


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _IMAGE_TYPES


def _developer_as_system(message: JSON) -> JSON:
    """Return a developer message as a system message; any other one unchanged."""
    return message | {"role": "system"} if message.get("role") == "developer" else message


def _omit_empty_calls(message: JSON) -> JSON:
    return _omit(message, ("tool_calls",)) if message.get("tool_calls") == [] else message


_MESSAGE_CHANGES: Final[dict[str, Callable[[JSON], JSON]]] = {
    SIGNATURE_SKIP: add_skip_signatures,
    PARTS_AS_TEXT: _join_parts,
    RESULTS_AS_TEXT: _wrap_result,
    IMAGES_OMITTED: _omit_images,
    DEVELOPER_AS_SYSTEM: _developer_as_system,
    NO_EMPTY_CALLS: _omit_empty_calls,
}


# Lessons about the conversation.


def _name_results(messages: list[JSON]) -> list[JSON]:
    """Add the name of its tool to each tool result that has none."""
    names: dict[str, str] = {}
    named: list[JSON] = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            if "function" in call:
                names[call["id"]] = call["function"]["name"]
        known = names.get(str(message.get("tool_call_id")))
        missing = message.get("role") == "tool" and "name" not in message and known is not None
        named.append(message | {"name": known} if missing else message)
    return named


def _move_images(messages: list[JSON]) -> list[JSON]:
    """Move the images of tool results behind the results of the same turn."""
    moved: list[JSON] = []
    waiting: list[JSON] = []
    for message in messages:
        if waiting and message.get("role") != "tool":
            moved.append({"role": "user", "content": waiting})
            waiting = []
        parts = _result_parts(message)
        images = [part for part in parts if _is_image(part)]
        if images:
            about = _IMAGES_OF.format(id=message.get("tool_call_id"))
            waiting = [*waiting, _text_part(about), *images]
            text = [part for part in parts if not _is_image(part)]
            message = message | {"content": text or _IMAGES_FOLLOW}  # noqa: PLW2901
        moved.append(message)
    return [*moved, {"role": "user", "content": waiting}] if waiting else moved


def _system_first(messages: list[JSON]) -> list[JSON]:
    """Join all system messages into one at the start."""
    system = [each for each in messages if _is_system(each)]
    if not system or (len(system) == 1 and system[0] is messages[0]):
        return messages
    one = system[0] | {"content": join_contents([each.get("content") for each in system])}
    return [one, *(each for each in messages if not _is_system(each))]


def _system_in_user(messages: list[JSON]) -> list[JSON]:
    """Move all system text to the start of the first user message."""
    system = [each for each in messages if _is_system(each)]
    if not system:
        return messages
    given = [each.get("content") for each in system]
    rest = [each for each in messages if not _is_system(each)]
    for place, message in enumerate(rest):
        if message.get("role") == "user":
            content = join_contents([*given, message.get("content")])
            return [*rest[:place], message | {"content": content}, *rest[place + 1 :]]
    return [{"role": "user", "content": join_contents(given)}, *rest]


def _is_system(message: JSON) -> bool:
    return message.get("role") in {"system", "developer"}


def _merge_roles(messages: list[JSON]) -> list[JSON]:
    """Merge adjacent messages of one role, except tool results and messages with calls."""
    merged: list[JSON] = []
    for message in messages:
        before = merged[-1] if merged else {}
        if before.get("role") == message.get("role") and _can_merge(before) and _can_merge(message):
            joined = join_contents([before.get("content"), message.get("content")])
            merged[-1] = before | {"content": joined}
        else:
            merged.append(message)
    return merged


def _can_merge(message: JSON) -> bool:
    return message.get("role") != "tool" and not message.get("tool_calls")


def _bridge_users(messages: list[JSON]) -> list[JSON]:
    """Put an assistant message between a tool result and a user message."""
    bridged: list[JSON] = []
    for message in messages:
        if bridged and bridged[-1].get("role") == "tool" and message.get("role") == "user":
            bridged.append({"role": "assistant", "content": BRIDGE_TEXT})
        bridged.append(message)
    return bridged


def join_contents(contents: Sequence[Any]) -> str | list[Any]:
    """Return several contents as one: a string if all are strings, else a list of parts."""
    given = [content for content in contents if content]
    if all(isinstance(content, str) for content in given):
        return "\n\n".join(given)
    parts: list[Any] = []
    for content in given:
        parts += [_text_part(content)] if isinstance(content, str) else content
    return parts


_CONVERSATION_CHANGES: Final[dict[str, Callable[[list[JSON]], list[JSON]]]] = {
    TOOL_NAME: _name_results,
    IMAGES_IN_USER: _move_images,
    SYSTEM_FIRST: _system_first,
    SYSTEM_IN_USER: _system_in_user,
    ROLES_MERGED: _merge_roles,
    BRIDGE_USER: _bridge_users,
}
_CONVERSATION_ORDER: Final = tuple(_CONVERSATION_CHANGES)
_FIXED_LESSONS: Final = frozenset(
    {
        *_MESSAGE_CHANGES,
        *_CONVERSATION_CHANGES,
        *(CONTENT_NULL, CONTENT_TEXT, CONTENT_ABSENT, CONTENT_FILLED, NO_EMPTY_TOOLS),
        *(f"{API_PREFIX}responses", f"{API_PREFIX}messages"),
        *("rename:max_tokens:max_completion_tokens", "rename:max_completion_tokens:max_tokens"),
        *("set:reasoning_effort:none", "set:enable_thinking:false"),
    }
)


def _text_part(text: str) -> JSON:
    return {"type": "text", "text": text}


def _map_calls(message: JSON, change: Callable[[JSON], JSON]) -> JSON:
    """Apply a change to each call of a message."""
    calls = message.get("tool_calls")
    return message | {"tool_calls": [change(call) for call in calls]} if calls else message
