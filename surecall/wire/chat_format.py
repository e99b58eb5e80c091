"""Encodes and parses messages, tools, and usage in OpenAI's chat format, and handles its JSON.

Encoders emit only the documented form. Parsers are tolerant: they accept what is usable and never
raise on shape. `render_message` and `parse_message` are inverses, as are `encode` and `decode`.
"""

import json
import math
import string
from typing import Any, Final

import msgspec

from surecall.parsing.arguments import parse_arguments
from surecall.parsing.budget import MAX_VALUES, TooManyValues, has_too_many_values
from surecall.parsing.names import legalized_name
from surecall.values.errors import ConfigError
from surecall.values.nesting import check_depth, decode_json, encode_json
from surecall.values.text import join_surrogates
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
    sha256,
)
from surecall.wire.content_parts import is_provider_state, parts_with_text, text_of
from surecall.wire.provider_state import (
    CONTENT,
    FUNCTION,
    call_extra,
    fields_to_echo,
    message_extra,
)

# The keys for call arguments, in OpenAI's format and in others that are accepted.
ARGUMENT_KEYS: Final = frozenset({"arguments", "parameters", "args", "input", "tool_input"})


def replace_non_finite(value: Any) -> Any:
    """Replace NaN and infinities, which JSON does not allow, with text.

    Arguments that contain one become text as a whole, so the arguments parser rejects them.
    """
    match value:
        case float() if not math.isfinite(value):
            return json.dumps(value)
        case list() | tuple():
            return [replace_non_finite(item) for item in value]
        case dict():
            return {key: _replace_in_member(key, item) for key, item in value.items()}
        case _:
            return value


def _replace_in_member(key: Any, value: Any) -> Any:
    """Replace non-finite numbers in the value of a key; arguments with one become text."""
    if key in ARGUMENT_KEYS and isinstance(value, dict | list):
        return value if is_finite(value) else json.dumps(value, ensure_ascii=False)
    return replace_non_finite(value)


def is_finite(value: Any) -> bool:
    """Whether a value contains neither NaN nor infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    items = value.values() if isinstance(value, dict) else value
    return not isinstance(value, dict | list | tuple) or all(map(is_finite, items))


RESERVED_OPTIONS = frozenset(
    {"model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options"}
)
# Prefix of the ids of text calls in exported conversations. When the conversation returns, the
# model is not assumed to make native calls.
TEXT_CALL_ID_PREFIX = "text_"
# First words of user messages that carry tool results or items instead of user text.
UNMATCHED_LABEL = "This tool result matches no open call"
ITEM_LABEL = "Item of type "
BLOCK_LABEL = "Block of type "
_LABELS = (UNMATCHED_LABEL, ITEM_LABEL, BLOCK_LABEL)
_NO_LIMIT = 1 << 62
_DIGITS = string.digits + string.ascii_letters
_DECODER = msgspec.json.Decoder(Message)
_PLAIN_CHARS = frozenset(_DIGITS + "_-")
SHORT_ID_LENGTH = 9
# The longest id that every endpoint accepts, and the length of generated ids.
MAX_PLAIN_ID = 40
PLAIN_ID_LENGTH = 29
# Costs above this many dollars are treated as invalid, like negative ones.
MAX_COST_USD = 1_000_000.0


class WireStyle(msgspec.Struct, frozen=True):
    """How an endpoint expects earlier assistant turns.

    `origin` names the endpoint and the model; provider state from another origin is not sent.
    """

    keep_text_beside_calls: bool = False
    echo_fields: tuple[str, ...] | None = ()
    echo_call_fields: bool = True
    short_call_ids: bool = False
    name_tool_messages: bool = False
    withheld_fields: tuple[str, ...] = ()
    origin: str = ""


def encode(value: Any) -> bytes:
    """Encode JSON, replacing lone surrogates, which strict servers reject, with U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(replace_surrogates(value))


def decode(data: bytes, max_values: int = MAX_VALUES) -> Any:
    """Decode JSON as servers send it, tolerating a BOM, NaN, bad UTF-8, and lone surrogates.

    The result can be encoded again. Raises ValueError if the data is not JSON, is nested too
    deeply, or has `max_values` values or more.
    """
    if has_too_many_values(data, max_values):
        raise TooManyValues("JSON of too many values")
    check_depth(data)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    return replace_surrogates(replace_non_finite(json.loads(text, strict=False)))


def roundtrip_json(value: Any) -> Any:
    """Return a caller's value as it would be after encoding and decoding."""
    try:
        data = encode_json(value, encode)
        if isinstance(value, str):
            return value if value.isascii() else msgspec.json.decode(data)
        read = msgspec.json.decode(data)
        # Bytes, tuples, and dates change type, and NaN would become null.
        return (
            value
            if read == value
            else decode(encode(replace_non_finite(msgspec.to_builtins(value))))
        )
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"the value cannot be encoded as JSON: {error}") from None


def replace_surrogates(value: Any) -> Any:
    """Return a copy of a JSON value with lone surrogates replaced by U+FFFD."""
    match value:
        case str():
            return join_surrogates(str(value))  # also converts string enums
        case list() | tuple():
            return [replace_surrogates(item) for item in value]
        case dict():
            return {
                replace_surrogates(key): replace_surrogates(item) for key, item in value.items()
            }
        case _:
            return value


def render_tool(spec: ToolSpec) -> JSON:
    """Encode a tool definition."""
    function = {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }
    return {"type": "function", "function": function}


def tool_choice_for(name: str) -> JSON:
    """Return the `tool_choice` that requires a call of one tool."""
    return {"type": "function", "function": {"name": name}}


def chosen_tool_name(choice: str | JSON | None) -> str | None:
    """Return the tool that a `tool_choice` requires, if it names one."""
    match choice:
        case {"function": {"name": str(name)}}:
            return name
        case _:
            return None


def render_message(message: Message, style: WireStyle) -> JSON | None:
    """Encode a message; None for messages never sent (refusals, blank assistant turns)."""
    match message:
        case System():
            return {"role": "system", "content": message.text}
        case User():
            return {"role": "user", "content": message.content}
        case Assistant():
            return _render_assistant(message, style)
        case ToolResult():
            return _render_result(message, style)
        case Refusal():  # pragma: no branch  # a closed union, checked by mypy
            return None


def _render_result(message: ToolResult, style: WireStyle) -> JSON:
    call_id = short_id(message.call_id) if style.short_call_ids else message.call_id
    rendered: JSON = {"role": "tool", "tool_call_id": call_id, "content": message.content}
    return (
        rendered | {"name": legalized_name(message.name)} if style.name_tool_messages else rendered
    )


def _render_assistant(message: Assistant, style: WireStyle) -> JSON | None:
    if not message.calls and is_blank(message.text):
        return None
    # Text beside calls confuses weaker models, so it is not sent by default.
    text = message.text if style.keep_text_beside_calls or not message.calls else ""
    rendered: JSON = {"role": "assistant", "content": text}
    is_home = _is_same_origin(message, style)
    if message.calls:
        rendered["tool_calls"] = [_render_call(call, style, is_home) for call in message.calls]
    return (
        rendered | _echoed_state(message.extra, text, style)
        if is_home and message.extra
        else rendered
    )


def _is_same_origin(message: Assistant, style: WireStyle) -> bool:
    """Whether a turn goes to its own origin, or one of the two origins is unknown."""
    return not (message.origin and style.origin) or message.origin == style.origin


def _echoed_state(extra: JSON, text: str, style: WireStyle) -> JSON:
    """Return the fields with the provider state that is sent back with a turn."""
    fields = fields_to_echo(extra, style.echo_fields, style.withheld_fields)
    parts = [
        part for part in extra.get(CONTENT, ()) if _part_type(part) not in style.withheld_fields
    ]
    return (
        fields | {CONTENT: parts_with_text(parts, text)}
        if any(map(is_provider_state, parts))
        else fields
    )


def _part_type(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _render_call(call: ToolCall, style: WireStyle, same_origin: bool) -> JSON:  # noqa: FBT001
    function = {"name": legalized_name(call.name), "arguments": encode(call.arguments).decode()}
    call_id = short_id(call.id) if style.short_call_ids else call.id
    rendered: JSON = {"id": call_id, "type": "function", "function": function}
    if not (call.extra and style.echo_call_fields and same_origin):
        return rendered
    extra = {key: call.extra[key] for key in call.extra if key not in style.withheld_fields}
    inner = extra.get(FUNCTION, {})
    kept = {key: inner[key] for key in inner if key not in style.withheld_fields}
    return extra | rendered | {FUNCTION: kept | function}


def short_id(call_id: str) -> str:
    """Return an id of nine letters and digits; such an id is unchanged."""
    if len(call_id) == SHORT_ID_LENGTH and call_id.isascii() and call_id.isalnum():
        return call_id
    return _digest(call_id, SHORT_ID_LENGTH)


def plain_id(call_id: str, prefix: str = "") -> str:
    """Return an id of letters, digits, `_`, and `-` with `prefix`; such an id is unchanged."""
    if is_plain_id(call_id) and call_id.startswith(prefix):
        return call_id
    start = prefix or "call_"
    return start + _digest(call_id, PLAIN_ID_LENGTH - len(start))


def is_plain_id(call_id: str) -> bool:
    """Whether every endpoint that requires plain ids accepts this one."""
    return 0 < len(call_id) <= MAX_PLAIN_ID and _PLAIN_CHARS.issuperset(call_id)


def _digest(call_id: str, length: int) -> str:
    """Return letters and digits derived from an id."""
    number = int.from_bytes(sha256(call_id.encode("utf-8", "replace")))
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(digits)


def parse_message(item: Any) -> Message:
    """Parse a history item: a surecall message or an OpenAI message."""
    match item:
        case System() | User() | Assistant() | ToolResult() | Refusal():
            return _normalize_message(item)
        case str():
            return User(roundtrip_json(item))
        case dict():
            return parse_message_fields(roundtrip_json(item))
        case _:
            raise ConfigError(
                f"a history item must be a message or a mapping, not {type(item).__name__}"
            )


def _normalize_message(message: Message) -> Message:
    """Return a message as it would be after encoding and decoding."""
    try:
        if _survives_roundtrip(message):
            return message
        # The depth is checked before `to_builtins`, which recurses.
        encode_json(message, _encode_builtins)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"the message cannot be encoded as JSON: {error}") from None
    built: Message = msgspec.convert(roundtrip_json(msgspec.to_builtins(message)), Message)
    return built


def _survives_roundtrip(message: Message) -> bool:
    try:
        data = encode_json(message, msgspec.json.encode)
    except UnicodeEncodeError:
        return False
    return not isinstance(message, User | Assistant) or _DECODER.decode(data) == message


def _encode_builtins(message: Message) -> bytes:
    return encode(msgspec.to_builtins(message))


def parse_message_fields(item: JSON) -> Message:
    """Parse an OpenAI message that is already JSON."""
    role = str(item.get("role") or "user")
    content = item.get("content")
    match role:
        case "system" | "developer":
            return System(content_as_text(content))
        case "user":
            return _parse_user(content if isinstance(content, list) else content_as_text(content))
        case "assistant":
            return _parse_assistant(item)
        case "tool":
            text = content_as_text(content)
            name = str(item.get("name") or "")
            call_id = normalize_id(item.get("tool_call_id"))
            return ToolResult(call_id, name, _is_ok_result(text), text, executed=True)
        case _:
            raise ConfigError(f"unknown role {role!r} in the history")


def content_as_text(content: Any) -> str:
    """Return content as text: text parts joined, other parts as JSON."""
    parts = content if isinstance(content, list) else [content]
    return "".join(map(_part_as_text, parts))


def _part_as_text(part: Any) -> str:
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
    """Parse a user message; one that begins with a label is not user text."""
    first = content if isinstance(content, str) else text_of(content[:1])
    if first.startswith(_LABELS):
        return User(content, nudge=True, rung=UNMATCHED_RESULT)
    return User(content)


def _parse_assistant(item: JSON) -> Assistant:
    calls = tuple(_parse_call(call) for call in raw_calls(item))
    return Assistant(text_of(item.get("content")), calls, extra=message_extra(item, item))


def _parse_call(call: JSON) -> ToolCall:
    name, arguments = name_and_arguments(call)
    value = parse_arguments(arguments, _NO_LIMIT).value
    call_id = raw_call_id(call)
    from_text = call_id.startswith(TEXT_CALL_ID_PREFIX)
    return ToolCall(call_id, name, value or {}, extra=call_extra(call), from_text=from_text)


def _is_ok_result(text: str) -> bool:
    """Whether a result in a history does not report a failure."""
    # A third-party history has no result envelopes; only an explicit `ok: false` is a failure.
    try:
        envelope = decode_json(text)
    except ValueError:
        return True
    return not (isinstance(envelope, dict) and envelope.get("ok") is False)


def raw_calls(message: JSON) -> list[JSON]:
    """Return the call mappings of a raw assistant message; a single one may lack its list."""
    calls = message.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def raw_call_id(call: JSON) -> str:
    """Return the id of a raw call, or an empty string."""
    return normalize_id(call.get("id"))


def normalize_id(raw_id: Any) -> str:
    """Return an id as text; empty if it is neither text nor a number."""
    # Ids that differ only in lone surrogates would be equal after encoding.
    return join_surrogates(str(raw_id)).strip() if isinstance(raw_id, str | int) else ""


def name_and_arguments(call: JSON) -> tuple[str, Any]:
    """Return the name and the unparsed arguments of a raw call."""
    function = call.get("function")
    if not isinstance(function, dict):
        function = {}
    name = function.get("name")
    return (name.strip() if isinstance(name, str) else ""), function.get("arguments")


def parse_usage(usage: Any) -> Usage | None:
    """Parse token counts and cost; None if the provider sent none."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = (
        _token_count(usage, "prompt_tokens"),
        _token_count(usage, "completion_tokens"),
    )
    return Usage(
        prompt,
        completion,
        _token_count(usage, "total_tokens") or prompt + completion,
        _token_count(usage.get("prompt_tokens_details"), "cached_tokens"),
        _token_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        _cost(usage.get("cost")),
    )


def _token_count(mapping: Any, key: str) -> int:
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return value if type(value) is int else 0  # excludes booleans


def _cost(value: Any) -> float | None:
    """Return a plausible cost in dollars; None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= MAX_COST_USD else None
