"""Parse guided replies, complete ones and those still streaming.

    {"tool": "state_get", "arguments": {…}}     one call
    {"calls": [{"tool": …}, {"tool": …}]}       several calls, in order
    {"answer": "Done."}  {"cannot": "…"}        the answer

`guided.protocol` requests this format. A call that was cut off or is ambiguous never runs.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from surecall.core.guided.protocol import (
    ABOUT,
    ANSWER,
    ARGUMENTS,
    BEFORE_A_STEP,
    CALLS,
    CANNOT,
    GIVES,
    NO,
    THOUGHT,
    TOOL,
)
from surecall.parsing.arguments import parse_arguments
from surecall.values.types import JSON, ToolSpec, is_blank
from surecall.wire.chat_format import encode, raw_calls
from surecall.wire.content_parts import text_of
from surecall.wire.dialects import extract_reasoning, recover
from surecall.wire.provider_state import GUIDED_REASONING

# Streaming readers for the first field of a JSON object: `{"answer": "text so f`.
#
# For `{"thought": "…", "answer": "text so f`, a wrapper skips the first field. Readers return each
# character once it is complete and never take one back.

_BLANKS: Final = " \t\r\n"
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNICODE_ESCAPE_CHARS: Final = len("\\u0000")
_HIGH, _LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)
_REPLACEMENT: Final = "\ufffd"


class TextReader(Protocol):
    """Reads a growing text."""

    def feed(self, piece: str) -> str:
        """Add text and return what is complete."""


class FieldReader:
    """Reads the text of a field as it arrives, if it is the first of an object.

    With `within`, that object is the first item of a list, which is the first field of the whole.
    """

    def __init__(self, name: str, within: str = "") -> None:
        around = ("{", f'"{within}"', ":", "[") if within else ()
        self._expected_tokens: tuple[str, ...] = (*around, "{", f'"{name}"', ":", '"')
        self._pending = ""
        self._is_over = False
        self.is_complete = False

    @property
    def may_continue(self) -> bool:
        """Whether more text may still belong to the field."""
        return not self._is_over

    @property
    def rest(self) -> str:
        """The text after the field, once it is complete."""
        return self._pending[1:] if self.is_complete else ""

    def feed(self, piece: str) -> str:
        """Add text of the object and return what it adds to the field."""
        if self._is_over:
            return ""
        self._pending += piece
        self._skip()
        return "" if self._expected_tokens or self._is_over else self._read_text()

    def _skip(self) -> None:
        """Skip the tokens before the field's text."""
        while self._expected_tokens:
            self._pending = self._pending.lstrip(_BLANKS)
            token = self._expected_tokens[0]
            if not self._pending.startswith(token):
                self._is_over = not token.startswith(self._pending)
                return
            self._pending = self._pending[len(token) :]
            self._expected_tokens = self._expected_tokens[1:]

    def _read_text(self) -> str:
        text, at, given = self._pending, 0, []
        quote = text.find('"')
        while at < len(text):
            if -1 < quote < at:
                quote = text.find('"', at)
            slash = text.find("\\", at, quote if quote >= 0 else len(text))
            stop = slash if slash >= 0 else quote if quote >= 0 else len(text)
            given.append(text[at:stop])
            at = stop
            if at == quote:
                self.is_complete = self._is_over = True
                break
            character, length = _read_escape(text, at)
            if not length:
                break
            given.append(character)
            at += length
        self._pending = text[at:]
        return "".join(given)


class SkipFieldReader:
    """Removes the first field of an object, if it has a given name, before another reader."""

    def __init__(self, before: str, reader: TextReader) -> None:
        self._before = FieldReader(before)
        self._reader = reader
        self._held = ""
        self._has_begun = False

    def feed(self, piece: str) -> str:
        """Add text of the object and return what the inner reader returns."""
        return self._reader.feed(piece if self._has_begun else self._skip_field(piece))

    def _skip_field(self, piece: str) -> str:
        """Return the object without the skipped field, once it is known whether it has one."""
        self._held += piece
        if not self._before.is_complete:
            self._before.feed(piece)
            if self._before.may_continue:
                return ""
            if self._before.is_complete:
                self._held = self._before.rest
        if self._before.is_complete:
            rest = self._held.lstrip(_BLANKS)
            if not rest:
                return ""
            self._held = "{" + rest.removeprefix(",")
        self._has_begun = True
        return self._held


def _read_escape(text: str, at: int) -> tuple[str, int]:
    """Return the character and length of an escape; length 0 if it is incomplete."""
    mark = text[at + 1 : at + 2]
    if mark != "u":
        return _ESCAPES.get(mark, mark), 2 if mark else 0
    code = _read_code_unit(text, at)
    if code is None:
        return _REPLACEMENT, _UNICODE_ESCAPE_CHARS if len(text) >= at + _UNICODE_ESCAPE_CHARS else 0
    if code not in _HIGH:
        return _REPLACEMENT if code in _LOW else chr(code), _UNICODE_ESCAPE_CHARS
    if len(text) < at + 2 * _UNICODE_ESCAPE_CHARS:
        return "", 0
    low = _read_code_unit(text, at + _UNICODE_ESCAPE_CHARS)
    if low is None or low not in _LOW:
        return _REPLACEMENT, _UNICODE_ESCAPE_CHARS
    return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), 2 * _UNICODE_ESCAPE_CHARS


def _read_code_unit(text: str, at: int) -> int | None:
    """Return the UTF-16 code unit of a `u` escape; None if it is incomplete or invalid."""
    digits = text[at + 2 : at + _UNICODE_ESCAPE_CHARS]
    if not text.startswith("\\u", at) or len(digits) < _UNICODE_ESCAPE_CHARS - 2:
        return None
    return int(digits, 16) if all(digit in "0123456789abcdefABCDEF" for digit in digits) else None


# Unparsable arguments for a call that was cut off: it must not run even if it looks complete.
_UNREADABLE: Final = "{"
_NO_LIMIT: Final = 1 << 62
_STEPS: Final = frozenset({CALLS, TOOL, ANSWER, CANNOT})


def decode_guided(
    message: JSON,
    tools: Sequence[ToolSpec] = (),
    known: Sequence[ToolSpec] = (),
    *,
    typed: bool = False,
) -> JSON:
    """Return a raw message with the calls, or the answer, of its JSON object extracted.

    Any other text stays unchanged: it may match a dialect, or be a plain answer. A `typed` answer
    stays JSON, and only counts if it is complete and the only field.
    """
    if raw_calls(message):
        return message
    text = text_of(message.get("content"))
    value = parse_arguments(text, _NO_LIMIT).value
    if value is None:
        return _decode_after_thoughts(message, text, tools, known, typed=typed)
    if before := _preamble(value):
        message = message | {GUIDED_REASONING: _join_preamble(before)}
        value = {key: item for key, item in value.items() if key not in before}
    if calls := _extract_calls(value, text, tools, known, fits=before.get(GIVES) != NO):
        return message | calls
    match value:
        case {"answer": answer, **rest} if typed:
            return message if rest else message | {"content": encode(answer).decode()}
        case {"answer": answer} | {"cannot": answer}:
            return message | {"content": _answer_text(answer)}
        case _:
            return message


def _preamble(value: JSON) -> dict[str, str]:
    """Return the fields written before a step; without a step they have no special meaning."""
    is_step = bool(_STEPS & value.keys())
    return {key: value[key] for key in BEFORE_A_STEP if is_step and isinstance(value.get(key), str)}


def _join_preamble(preamble: dict[str, str]) -> str:
    """Return the fields before a step as one text."""
    only_thought = preamble.get(THOUGHT) if len(preamble) == 1 else None
    return "; ".join(map(": ".join, preamble.items())) if only_thought is None else only_thought


def _extract_calls(
    value: JSON, text: str, tools: Sequence[ToolSpec], known: Sequence[ToolSpec], *, fits: bool
) -> JSON:
    """Return the calls of an object in native form, if it has any."""
    listed = _call_items(value)
    calls = [one for one in listed if _is_call(one)]
    # A call after "no tool fits", or beside invalid items, gets unparsable arguments.
    if not fits or len(calls) < len(listed):
        return _with_calls(*(_raw_call(one[TOOL], [one]) for one in calls))
    if calls == [value] and _lacks_arguments(value) and recover(text, tools, weak=True).calls:
        return {}
    return _with_calls(*(_as_native_call(one, known) for one in calls))


def _call_items(value: JSON) -> list[Any]:
    """Return the items of a reply that should be calls."""
    listed = value.get(CALLS)
    return [value] if TOOL in value else listed if isinstance(listed, list) else []


def _is_call(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get(TOOL), str) and bool(item[TOOL])


def _lacks_arguments(call: JSON) -> bool:
    """Whether a call has other fields instead of arguments; it may match a dialect."""
    return len(call) > 1 and ARGUMENTS not in call


def _as_native_call(call: JSON, known: Sequence[ToolSpec]) -> JSON:
    """Return a call in native form; with unparsable arguments if it is ambiguous."""
    name = call[TOOL]
    if _lacks_arguments(call):
        return _raw_call(name, [{key: call[key] for key in call if key != TOOL}])
    return _raw_call(name, _without_descriptions(call.get(ARGUMENTS), name, known))


def _without_descriptions(arguments: Any, name: str, known: Sequence[ToolSpec]) -> Any:
    """Return arguments without the descriptions written before values."""
    own = {
        key for tool in known if tool.name == name for key in tool.parameters.get("properties", {})
    }
    if not isinstance(arguments, dict):
        return arguments
    return {
        key: item
        for key, item in arguments.items()
        if key in own or not (key.startswith(ABOUT) and key.removeprefix(ABOUT) in own)
    }


def _answer_text(answer: Any) -> str:
    """Return an answer as text; a typed one as JSON."""
    match answer:
        case None:
            return ""
        case str():
            return answer
        case _:
            return encode(answer).decode()


def _decode_after_thoughts(
    message: JSON, text: str, tools: Sequence[ToolSpec], known: Sequence[ToolSpec], *, typed: bool
) -> JSON:
    """Parse the object after reasoning that precedes it."""
    found = extract_reasoning(text)
    if found.text == text or is_blank(found.text):
        return _decode_cut_off(message, text, typed=typed)
    bare = message | {"content": found.text}
    # Once only: reasoning nested in reasoning is not parsed.
    whole = parse_arguments(found.text, _NO_LIMIT).value is not None
    decoded = (
        decode_guided(bare, tools, known, typed=typed)
        if whole
        else _decode_cut_off(bare, found.text, typed=typed)
    )
    return message if decoded is bare else {"reasoning_content": found.reasoning} | decoded


def _decode_cut_off(message: JSON, text: str, *, typed: bool) -> JSON:
    """Parse an object that was cut off."""
    before = [FieldReader(name) for name in BEFORE_A_STEP]
    for reader in before:
        if reader.feed(text) and not reader.is_complete:
            return message | {"content": ""}
        if reader.is_complete:
            text = "{" + reader.rest.lstrip().removeprefix(",")
    tool, listed = FieldReader(TOOL), FieldReader(TOOL, within=CALLS)
    if (name := tool.feed(text)) and tool.is_complete:
        written = text.partition(f'"{ARGUMENTS}"')[2].lstrip(" :")
        is_whole = parse_arguments(written, _NO_LIMIT).problem is None
        return message | _with_calls(_raw_call(name, _UNREADABLE if is_whole else written))
    if (name := listed.feed(text)) and listed.is_complete:
        return message | _with_calls(_raw_call(name, _UNREADABLE))
    if typed:
        return message
    readers = FieldReader(ANSWER), FieldReader(CANNOT)
    words = "".join(reader.feed(text) for reader in readers)
    if words or any(reader.may_continue for reader in (*before, tool, listed, *readers)):
        return message | {"content": words}
    return message


def _raw_call(name: str, arguments: Any) -> JSON:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def _with_calls(*calls: JSON) -> JSON:
    """Return the message fields for calls; none without calls."""
    return {"content": "", "tool_calls": list(calls)} if calls else {}
