"""Parses calls that begin with a name, and messages in the harmony format."""

from typing import Any

import msgspec

from surecall.values.types import ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.call_values import CallValue, convert_scalars, parse_value
from surecall.wire.dialects.text_source import (
    CallSection,
    NotACall,
    RecoveredCall,
    TextSource,
    has_counter,
    is_name,
    strip_namespace,
    tool_shape,
    unknown_tool,
)

# Grammars B and D: a name, then its arguments as an object or as a Python call.
#
# In grammar B, marks may separate the name and the object, and closers are optional. Python calls
# are never evaluated: their arguments are literals.

_PRINT = "print("


def skip_fence(source: TextSource, at: int, *, labeled: bool = True) -> int:
    """Skip a code fence, or the label left of one, before or after an object."""
    fence = source.mark_at(spelling.FENCES, source.skip_blanks(at))
    at = source.skip_blanks(at) + len(fence) if fence else at
    label = source.skip_blanks(at)
    return label + len("json") if labeled and source.starts_with("json", label) else at


def _skip_content_type(source: TextSource, at: int) -> int:
    """Skip the content type of a harmony message, such as `code`."""
    end = source.skip_blanks(at + len(source.name_at(at)))
    return end if source.starts_with(spelling.MESSAGE_MARK, end) else at


class CallHeader:
    """The pieces between an opener and the object, by the mark before each."""

    def __init__(self, source: TextSource, at: int) -> None:
        self.pieces: dict[str, str] = {}
        self.is_fenced = False
        mark: str | None = None
        while mark != "":
            mark, at = mark or "", source.skip_blanks(at)
            # What follows these marks is not part of the header.
            name = (
                ""
                if mark in (spelling.MESSAGE_MARK, spelling.ARGUMENTS_MARK)
                else source.name_at(at)
            )
            self.pieces.setdefault(mark, name)
            at += len(name)
            self.is_fenced = self.is_fenced or source.starts_with(
                spelling.FENCES, source.skip_blanks(at)
            )
            at = _skip_content_type(source, source.skip_blanks(skip_fence(source, at)))
            mark = source.mark_at(spelling.SEPARATORS, at)
            at += len(mark)
        self.end = at
        first = self.pieces[""]
        names = (self.pieces.get(mark) for mark in spelling.NAME_MARKS)
        self.tool_name = next((name for name in names if name), first)
        # Ids are not normalized.
        has_id = spelling.NAME_MARKS[0] in self.pieces or has_counter(first)
        self.id = self.pieces.get(spelling.ID_MARK) or (first if has_id and first else None)
        # Older DeepSeek models write the word `function` before the name.
        self.has_type_word = first == "function" and self.tool_name != first


def parse_named_call(source: TextSource, at: int, row: str) -> tuple[RecoveredCall, CallHeader]:
    """Parse the header at `at` and its object."""
    header = CallHeader(source, at)
    value = _parse_arguments(source, header, row)
    asked, arguments = header.tool_name.removeprefix("call:"), value.arguments
    spec = source.tools.find(asked)
    inside = value.value.get("name") if isinstance(value.value, dict) else None
    if spec is None and isinstance(inside, str) and inside in source.tools.specs:
        if asked and not any(map(str.isalnum, asked)):
            raise unknown_tool(asked, header.end)
        spec = source.tools.specs[inside]
        arguments = {key: item for key, item in value.value.items() if key != "name"}
    elif spec is None and asked.isdigit():
        spec = source.tools.find_by_keys(value.value)
    name = spec.name if spec else strip_namespace(asked)
    if not is_name(name) or (spec is None and row not in spelling.STRONG_ROWS):
        raise unknown_tool(name, header.end)
    if row in spelling.BARE_ROWS and spec:
        arguments = convert_scalars(arguments, tool_shape(spec))
    end = skip_fence(source, value.end, labeled=False) if header.is_fenced else value.end
    found = RecoveredCall(
        name,
        arguments,
        at,
        end,
        header.id,
        value.is_truncated,
        was_repaired=value.was_repaired,
        value_ends=value.value_ends,
    )
    return found, header


def _parse_arguments(source: TextSource, header: CallHeader, row: str) -> CallValue:
    """Parse the arguments; after an unambiguous header, malformed ones are returned as text."""
    text, at, bare = source.text, header.end, row in spelling.BARE_ROWS
    messaged = spelling.MESSAGE_MARK in header.pieces
    announced = spelling.ARGUMENTS_MARK in header.pieces
    ends = (
        spelling.MESSAGE_ENDS
        if messaged
        else spelling.HEADER_ENDS
        if row in spelling.STRONG_ROWS
        else ()
    )
    stop = source.find_first(ends, at)
    stop = len(text) if (messaged or announced) and stop < 0 else stop
    if source.starts_with("(", at):
        return _bracket_arguments(parse_value(source, at, bare=bare))
    if source.starts_with("{", at):
        try:
            return parse_value(source, at, bare=bare)
        except NotACall:
            if stop < 0:
                raise
    elif at >= len(text) or source.starts_with(spelling.CLOSERS, at):
        # Mistral omits an empty object together with the mark before it.
        return CallValue({}, at, is_truncated=at >= len(text) and (row != "A7" or announced))
    elif row == "A7" and not announced and _is_bare_name(source, header):
        return CallValue({}, at)
    elif not messaged and not announced:
        raise NotACall("neither arguments nor a closing tag follow the name", at)
    return CallValue(text[at:stop].strip(), stop)


def _is_bare_name(source: TextSource, header: CallHeader) -> bool:
    """Whether a known tool name without arguments is followed by a mark, not by a sentence."""
    return (
        source.starts_with(("[", "<"), header.end)
        and source.tools.find(header.tool_name) is not None
    )


def _bracket_arguments(value: CallValue) -> CallValue:
    """Return `({...})` or `(key: value)` as one object."""
    named, unnamed = value.value
    if len(unnamed) == 1 and not named and isinstance(unnamed[0], dict):
        (named,) = unnamed
    elif unnamed:
        raise NotACall("an argument has no name", value.end)
    return msgspec.structs.replace(value, value=named)


def is_python_call(source: TextSource, at: int) -> bool:
    """Whether `name(` begins at `at`."""
    name = source.name_at(at)
    return name != "" and source.starts_with("(", at + len(name))


def parse_python_calls(source: TextSource, at: int) -> tuple[list[RecoveredCall], int]:
    """Parse Python calls in a list or in sequence, beginning at `at`."""
    calls: list[RecoveredCall] = []
    listed = source.starts_with("[", at)
    at = source.skip_blanks(at + listed)
    while is_python_call(source, at):
        try:
            calls.append(_parse_python_call(source, at))
        except NotACall:
            if not calls:
                raise
            break
        at = source.skip_chars(",", calls[-1].end)
    return calls, at + 1 if listed and source.starts_with("]", at) else calls[-1].end


def _parse_python_call(source: TextSource, start: int) -> RecoveredCall:
    printed = source.starts_with(_PRINT, start)
    at = source.skip_blanks(start + len(_PRINT)) if printed else start
    asked = source.name_at(at)
    spec = source.tools.find(asked)
    if spec is None:
        raise unknown_tool(asked, at)
    if not source.starts_with("(", at + len(asked)):
        raise NotACall("no brackets follow the name", at)
    value = parse_value(source, at + len(asked))
    arguments = (
        asked + value.ambiguous_text if value.ambiguous_text else _assign_positional(spec, value)
    )
    end = source.skip_blanks(value.end) + 1 if printed else value.end
    end = min(end, len(source.text))
    return RecoveredCall(
        spec.name,
        arguments,
        start,
        end,
        None,
        value.is_truncated,
        was_repaired=value.was_repaired,
        value_ends=value.value_ends,
    )


def _assign_positional(spec: ToolSpec, value: CallValue) -> Any:
    """Assign positional arguments to the schema's parameters in order."""
    named, unnamed = value.value
    keys = tool_shape(spec).properties.keys()
    match unnamed:
        case [dict() as whole] if not named and whole.keys() <= keys:
            return whole
    free = [name for name in keys if name not in named]
    if len(unnamed) > len(free):
        raise NotACall("more arguments than the tool has", value.end)
    return dict(zip(free, unnamed, strict=False)) | named


# Harmony messages: recipient and channel, with or without special tokens.

_MAX_HEADER = 400
_RECIPIENT = "to="
_MAX_PARTIAL_HEADER = 100
_HEADER_WORDS = (_RECIPIENT, "final", "analysis", "commentary", "code", "json", "assistant")


class HarmonyHeader(msgspec.Struct, frozen=True):
    """The header of a harmony message, its recipient, and where its body begins."""

    header: str
    recipient: str
    body_start: int

    @property
    def is_reasoning(self) -> bool:
        """Whether the message is reasoning."""
        return "analysis" in self.header or self.recipient == "self"

    @property
    def is_answer(self) -> bool:
        """Whether the message is for the user."""
        return bool(self.recipient) or "final" in self.header


def harmony_header_at(source: TextSource, place: int) -> HarmonyHeader | None:
    """Return the header that begins at `place`, if there is one."""
    stop = source.text.find(spelling.MESSAGE_MARK, place, place + _MAX_HEADER)
    if stop < 0:
        return None
    to = source.text.find(_RECIPIENT, place, stop)
    recipient = source.name_at(to + len(_RECIPIENT)) if to >= 0 else ""
    return HarmonyHeader(
        source.text[place:stop].lower(), recipient, stop + len(spelling.MESSAGE_MARK)
    )


def is_addressed_to_tool(source: TextSource, frame: HarmonyHeader) -> bool:
    """Whether the recipient is a tool, known or not."""
    known = source.tools.find(frame.recipient) is not None
    return known or frame.recipient.partition(".")[0] not in ("", *spelling.BUILT_IN_RECIPIENTS)


def partial_header_at(source: TextSource, at: int) -> tuple[int, str]:
    """Return where a text begins, and the recipient if it begins inside a header."""
    begin = source.skip_blanks(at)
    to = source.skip_blanks(begin + len(source.mark_at(spelling.STRIPPED_LEADS, begin)))
    return begin, source.name_at(to + len(_RECIPIENT)) if source.starts_with(_RECIPIENT, to) else ""


def starts_mid_header(source: TextSource, at: int) -> bool:
    """Whether a text begins inside a header that ends before its message."""
    stop = source.text.find(spelling.MESSAGE_MARK, at, at + _MAX_PARTIAL_HEADER)
    header = source.text[at : max(at, stop)]
    return stop > at and not header.startswith("<") and all(map(_is_header_word, header.split()))


def _is_header_word(word: str) -> bool:
    return word.startswith(_HEADER_WORDS) or "<|" in word


def parse_harmony_call(source: TextSource, place: int) -> CallSection:
    """Parse `to=f … {...}`, with or without the special tokens of a message."""
    call, header = parse_named_call(source, source.find(_RECIPIENT, place) + len(_RECIPIENT), "B5")
    call = msgspec.structs.replace(call, start=place)
    return CallSection([call], "B5", place, header.end, call.end)
