"""The wire: OpenAI's chat messages, written from our values and read into them.

Writers emit only the documented form. Readers are tolerant: they take what is usable and never
raise on shape. `render_message` and `parse_message` are a pair; so are `encode` and `decode`.
"""

import json
import string
from typing import Any

import msgspec

from surecall.parsing.arguments import read_arguments
from surecall.parsing.budget import MAX_VALUES, TooManyValues, holds_too_many
from surecall.parsing.names import legal
from surecall.values.digests import sha256
from surecall.values.errors import ConfigError
from surecall.values.nesting import check_depth, decode_json, encode_json
from surecall.values.types import (
    JSON,
    UNMATCHED_RESULT,
    Assistant,
    Message,
    Refusal,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    User,
    is_blank,
)
from surecall.wire.content_parts import is_opaque, text_of, with_text
from surecall.wire.opaque_state import CONTENT, FUNCTION, call_extra, echoed, message_extra
from surecall.wire.plain_json import finite

RESERVED_OPTIONS = frozenset(
    {"model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options"}
)
# Ids of calls that were parsed from text begin so where a conversation leaves surecall. When it
# comes back, the model is not taken for one that makes native calls.
FROM_TEXT = "text_"
# How user messages begin that hold no words of a user: results and items that have no other place.
UNMATCHED_LABEL = "This tool result matches no open call"
ITEM_LABEL = "Item of type "
BLOCK_LABEL = "Block of type "
_LABELS = (UNMATCHED_LABEL, ITEM_LABEL, BLOCK_LABEL)
_NO_LIMIT = 1 << 62
_DIGITS = string.digits + string.ascii_letters
_DECODER = msgspec.json.Decoder(Message)
_PLAIN = frozenset(_DIGITS + "_-")
SHORT_ID = 9
# The longest id that every endpoint takes, and the length of those that are made of others.
LONGEST_PLAIN = 40
PLAIN_LENGTH = 29
# In dollars. No answer costs more: a larger number, like a negative one, is not a price.
MOST_COST = 1_000_000.0


class WireStyle(msgspec.Struct, frozen=True):
    """What an endpoint wants to see of an assistant's earlier turns.

    `origin` names the endpoint and the model: opaque state that came from another is not sent.
    """

    keep_text_beside_calls: bool = False
    echo_fields: tuple[str, ...] | None = ()
    echo_call_fields: bool = True
    short_call_ids: bool = False
    name_tool_messages: bool = False
    withheld_fields: tuple[str, ...] = ()
    origin: str = ""


def encode(value: Any) -> bytes:
    """Write JSON. Lone surrogates, which no strict server accepts, become U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(scrub(value))


def decode(data: bytes, most_values: int = MAX_VALUES) -> Any:
    """Read JSON as servers really send it: a BOM, NaN, bad UTF-8 and lone surrogates pass.

    What comes out can be written and read again: see `finite` and `scrub`. A ValueError means that
    it is not JSON, however kindly one looks at it, nested too deeply, or holds so many values or
    more.
    """
    if holds_too_many(data, most_values):
        raise TooManyValues("JSON of too many values")
    check_depth(data)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return scrub(finite(json.loads(text, strict=False)))


def encodable(value: Any) -> Any:
    """Return a caller's value as it is after it was written and read; nearly always the same."""
    try:
        data = encode_json(value, encode)
        if isinstance(value, str):
            return value if value.isascii() else msgspec.json.decode(data)
        read = msgspec.json.decode(data)
        # Bytes, tuples and dates have become something else, and NaN would be null.
        return value if read == value else decode(encode(finite(msgspec.to_builtins(value))))
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"this is not JSON: {error}") from None


def scrub(value: Any) -> Any:
    """Copy a JSON value with every lone surrogate replaced by U+FFFD."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list() | tuple():
            return [scrub(item) for item in value]
        case dict():
            return {scrub(key): scrub(item) for key, item in value.items()}
        case _:
            return value


def render_tool(spec: ToolSpec) -> JSON:
    """Write a tool definition."""
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }
    return {"type": "function", "function": function}


def named_choice(name: str) -> JSON:
    """Write the demand that one tool be called."""
    return {"type": "function", "function": {"name": name}}


def chosen_name(choice: str | JSON | None) -> str | None:
    """Read that demand; nothing if the choice names no tool."""
    match choice:
        case {"function": {"name": str(name)}}:
            return name
        case _:
            return None


def render_message(message: Message, style: WireStyle) -> JSON | None:
    """Write a message; None for what is never sent (refusals, blank assistant turns)."""
    match message:
        case System():
            return {"role": "system", "content": message.text}
        case User():
            return {"role": "user", "content": message.content}
        case Assistant():
            return _render_assistant(message, style)
        case ToolResult():
            return _render_result(message, style)
        case Refusal():  # pragma: no branch  # a closed union: mypy knows that there is no other
            return None


def _render_result(message: ToolResult, style: WireStyle) -> JSON:
    call_id = short_id(message.call_id) if style.short_call_ids else message.call_id
    rendered: JSON = {"role": "tool", "tool_call_id": call_id, "content": message.content}
    return rendered | {"name": legal(message.name)} if style.name_tool_messages else rendered


def _render_assistant(message: Assistant, style: WireStyle) -> JSON | None:
    if not message.calls and is_blank(message.text):
        return None
    # Text beside calls pollutes the history of weaker models, so it stays with us by default.
    text = message.text if style.keep_text_beside_calls or not message.calls else ""
    rendered: JSON = {"role": "assistant", "content": text}
    is_home = _is_home(message, style)
    if message.calls:
        rendered["tool_calls"] = [_render_call(call, style, is_home) for call in message.calls]
    return rendered | _opaque(message.extra, text, style) if is_home and message.extra else rendered


def _is_home(message: Assistant, style: WireStyle) -> bool:
    """Whether a turn goes where it came from, as far as anyone knows."""
    return not (message.origin and style.origin) or message.origin == style.origin


def _opaque(extra: JSON, text: str, style: WireStyle) -> JSON:
    fields = echoed(extra, style.echo_fields, style.withheld_fields)
    parts = [part for part in extra.get(CONTENT, ()) if _kind(part) not in style.withheld_fields]
    return fields | {CONTENT: with_text(parts, text)} if any(map(is_opaque, parts)) else fields


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _render_call(call: ToolCall, style: WireStyle, is_home: bool) -> JSON:  # noqa: FBT001
    function = {"name": legal(call.name), "arguments": encode(call.arguments).decode()}
    call_id = short_id(call.id) if style.short_call_ids else call.id
    rendered: JSON = {"id": call_id, "type": "function", "function": function}
    if not (call.extra and style.echo_call_fields and is_home):
        return rendered
    extra = {key: call.extra[key] for key in call.extra if key not in style.withheld_fields}
    inner = extra.get(FUNCTION, {})
    kept = {key: inner[key] for key in inner if key not in style.withheld_fields}
    return extra | rendered | {FUNCTION: kept | function}


def short_id(call_id: str) -> str:
    """Return an id of nine letters and digits; one that is so already stays as it is."""
    if len(call_id) == SHORT_ID and call_id.isascii() and call_id.isalnum():
        return call_id
    return _digest(call_id, SHORT_ID)


def plain_id(call_id: str, prefix: str = "") -> str:
    """Return an id of letters, digits, `_` and `-` that begins so; one that is so already stays."""
    if is_plain_id(call_id) and call_id.startswith(prefix):
        return call_id
    begun = prefix or "call_"
    return begun + _digest(call_id, PLAIN_LENGTH - len(begun))


def is_plain_id(call_id: str) -> bool:
    """Whether every endpoint that wants plain ids takes this one."""
    return 0 < len(call_id) <= LONGEST_PLAIN and _PLAIN.issuperset(call_id)


def _digest(call_id: str, length: int) -> str:
    number = int.from_bytes(sha256(call_id.encode("utf-8", "replace")))
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(digits)


def parse_message(item: Any) -> Message:
    """Read a message of a caller's history, in our form or in OpenAI's."""
    match item:
        case System() | User() | Assistant() | ToolResult() | Refusal():
            return _own(item)
        case str():
            return User(encodable(item))
        case dict():
            return parse_fields(encodable(item))
        case _:
            raise ConfigError(
                f"a history item must be a message or a mapping, not {type(item).__name__}"
            )


def _own(message: Message) -> Message:
    """Return one of our messages as it is after it was written and read."""
    try:
        if _is_read_back(message):
            return message
        # The depth is checked before `to_builtins`, which recurses.
        encode_json(message, _encode_built)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"this is not JSON: {error}") from None
    built: Message = msgspec.convert(encodable(msgspec.to_builtins(message)), Message)
    return built


def _is_read_back(message: Message) -> bool:
    try:
        data = encode_json(message, msgspec.json.encode)
    except UnicodeEncodeError:
        return False
    return not isinstance(message, User | Assistant) or _DECODER.decode(data) == message


def _encode_built(message: Message) -> bytes:
    return encode(msgspec.to_builtins(message))


def parse_fields(item: JSON) -> Message:
    """Read a message in OpenAI's form that is JSON already."""
    role = str(item.get("role") or "user")
    content = item.get("content")
    match role:
        case "system" | "developer":
            return System(whole_text(content))
        case "user":
            return _parse_user(content if isinstance(content, list) else whole_text(content))
        case "assistant":
            return _parse_assistant(item)
        case "tool":
            text = whole_text(content)
            name = str(item.get("name") or "")
            call_id = text_id(item.get("tool_call_id"))
            return ToolResult(call_id, name, _says_ok(text), text, executed=True)
        case _:
            raise ConfigError(f"unknown role {role!r} in the history")


def whole_text(content: Any) -> str:
    """Return content as text: the text parts joined, and what is not text as JSON."""
    parts = content if isinstance(content, list) else [content]
    return "".join(map(_whole_part, parts))


def _whole_part(part: Any) -> str:
    match part:
        case None:
            return ""
        case str(text) | {"type": "text" | "output_text", "text": str(text)}:
            return text
        case {"text": str(text), **rest} | {"content": str(text), **rest} if not rest:
            return text
        case _:
            return encode(part).decode()


def _parse_user(content: str | list[Any]) -> User:
    """Read a user message; one with a label of ours holds no words of the user."""
    first = content if isinstance(content, str) else text_of(content[:1])
    if first.startswith(_LABELS):
        return User(content, nudge=True, rung=UNMATCHED_RESULT)
    return User(content)


def _parse_assistant(item: JSON) -> Assistant:
    calls = tuple(_parse_call(call) for call in raw_calls(item))
    return Assistant(text_of(item.get("content")), calls, extra=message_extra(item, item))


def _parse_call(call: JSON) -> ToolCall:
    name, arguments = call_parts(call)
    value = read_arguments(arguments, _NO_LIMIT).value
    call_id = id_of(call)
    from_text = call_id.startswith(FROM_TEXT)
    return ToolCall(call_id, name, value or {}, extra=call_extra(call), from_text=from_text)


def _says_ok(text: str) -> bool:
    # A foreign history has no envelopes; only one that plainly says `ok: false` failed.
    try:
        envelope = decode_json(text)
    except ValueError:
        return True
    return not (isinstance(envelope, dict) and envelope.get("ok") is False)


def raw_calls(message: JSON) -> list[JSON]:
    """Return the call objects of a raw assistant message: mappings only, a lone one wrapped."""
    calls = message.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def id_of(call: JSON) -> str:
    """Return a raw call's id, blank when there is none."""
    return text_id(call.get("id"))


def text_id(given: Any) -> str:
    """Return an id as text, blank when it is neither a text nor a number."""
    # Two ids that differ only in lone surrogates would be the same one on the wire.
    return str(scrub(str(given))).strip() if isinstance(given, str | int) else ""


def call_parts(call: JSON) -> tuple[str, Any]:
    """Return a raw call's name as the model wrote it, and its arguments, untouched."""
    function = call.get("function")
    if not isinstance(function, dict):
        function = {}
    name = function.get("name")
    return (name.strip() if isinstance(name, str) else ""), function.get("arguments")


def parse_usage(usage: Any) -> Usage | None:
    """Read token counts and cost; None when the provider sent none."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    return Usage(
        prompt,
        completion,
        _count(usage, "total_tokens") or prompt + completion,
        _count(usage.get("prompt_tokens_details"), "cached_tokens"),
        _count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        _money(usage.get("cost")),
    )


def _count(mapping: Any, key: str) -> int:
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return value if type(value) is int else 0  # true and false are no counts


def _money(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= MOST_COST else None
