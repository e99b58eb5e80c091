"""Grammars B and D: a name, then its arguments as an object or in the brackets of a Python call.

In grammar B marks may stand between the name and the object; no closer is ever needed. Nothing
of a Python call is evaluated: its arguments are literals.
"""

from typing import Any

from surecall.values.types import ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.found import Found, NotACall, no_tool
from surecall.wire.dialects.source import Source, is_name, is_numbered, plain_name, shape_of
from surecall.wire.dialects.values import Value, read_value, retyped

_PRINT = "print("


def after_fence(source: Source, at: int, *, labelled: bool = True) -> int:
    """Pass over a code fence, or the word that is left of one, before or after an object."""
    fence = source.mark(spelling.FENCES, source.blanks(at))
    at = source.blanks(at) + len(fence) if fence else at
    label = source.blanks(at)
    return label + len("json") if labelled and source.at("json", label) else at


def _past_content_type(source: Source, at: int) -> int:
    """Pass over the word that says of what kind a harmony message is, such as `code`."""
    end = source.blanks(at + len(source.name(at)))
    return end if source.at(spelling.MESSAGE, end) else at


class Header:
    """The pieces between an opener and the object, each under the mark before it."""

    def __init__(self, source: Source, at: int) -> None:
        self.pieces: dict[str, str] = {}
        self.fenced = False
        mark: str | None = None
        while mark != "":
            mark, at = mark or "", source.blanks(at)
            # What these marks announce is no part of the header.
            name = "" if mark in (spelling.MESSAGE, spelling.ARGUMENTS) else source.name(at)
            self.pieces.setdefault(mark, name)
            at += len(name)
            self.fenced = self.fenced or source.at(spelling.FENCES, source.blanks(at))
            at = _past_content_type(source, source.blanks(after_fence(source, at)))
            mark = source.mark(spelling.SEPARATORS, at)
            at += len(mark)
        self.end = at
        first = self.pieces[""]
        names = (self.pieces.get(mark) for mark in spelling.NAME_MARKS)
        self.asked = next((name for name in names if name), first)
        # An id is kept letter for letter.
        has_id = spelling.NAME_MARKS[0] in self.pieces or is_numbered(first)
        self.id = self.pieces.get(spelling.ID_MARK) or (first if has_id and first else None)
        # Older DeepSeek models put the word before the name.
        self.by_type = first == "function" and self.asked != first


def read_named(source: Source, at: int, row: str) -> tuple[Found, Header]:
    """Read the header that begins here, and its object."""
    header = Header(source, at)
    value = _arguments(source, header, row)
    asked, arguments = header.asked.removeprefix("call:"), value.arguments
    spec = source.tools.find(asked)
    inside = value.value.get("name") if isinstance(value.value, dict) else None
    if spec is None and isinstance(inside, str) and inside in source.tools.specs:
        if asked and not any(map(str.isalnum, asked)):
            raise no_tool(asked, header.end)
        spec = source.tools.specs[inside]
        arguments = {key: item for key, item in value.value.items() if key != "name"}
    elif spec is None and asked.isdigit():
        spec = source.tools.by_keys(value.value)
    name = spec.name if spec else plain_name(asked)
    if not is_name(name) or (spec is None and row not in spelling.STRONG_ROWS):
        raise no_tool(name, header.end)
    if row in spelling.BARE_ROWS and spec:
        arguments = retyped(arguments, shape_of(spec))
    end = after_fence(source, value.end, labelled=False) if header.fenced else value.end
    found = Found(name, arguments, at, end, header.id, value.cut, mended=value.mended)
    return found, header


def _arguments(source: Source, header: Header, row: str) -> Value:
    """Read an object; after a header that leaves no doubt, a bad one is handed on as it is."""
    text, at, bare = source.text, header.end, row in spelling.BARE_ROWS
    messaged = spelling.MESSAGE in header.pieces
    announced = spelling.ARGUMENTS in header.pieces
    ends = (
        spelling.MESSAGE_ENDS
        if messaged
        else spelling.HEADER_ENDS
        if row in spelling.STRONG_ROWS
        else ()
    )
    stop = source.first(ends, at)
    stop = len(text) if (messaged or announced) and stop < 0 else stop
    if source.at("(", at):
        return _in_brackets(read_value(source, at, bare=bare))
    if source.at("{", at):
        try:
            return read_value(source, at, bare=bare)
        except NotACall:
            if stop < 0:
                raise
    elif at >= len(text) or source.at(spelling.CLOSERS, at):
        # Mistral leaves out an empty object, but then also the mark that announces it.
        return Value({}, at, cut=at >= len(text) and (row != "A7" or announced))
    elif row == "A7" and not announced and _is_alone(source, header):
        return Value({}, at)
    elif not messaged and not announced:
        raise NotACall("neither arguments nor a closing tag follow the name", at)
    return Value(text[at:stop].strip(), stop)


def _is_alone(source: Source, header: Header) -> bool:
    """Whether a tool's name without arguments ends before another mark, not in a sentence."""
    return source.at(("[", "<"), header.end) and source.tools.find(header.asked) is not None


def _in_brackets(value: Value) -> Value:
    """Take `({...})` or `(key: value)` for one object."""
    named, unnamed = value.value
    if len(unnamed) == 1 and not named and isinstance(unnamed[0], dict):
        (named,) = unnamed
    elif unnamed:
        raise NotACall("an argument has no name", value.end)
    return Value(named, value.end, value.cut, value.mended, value.twice)


def is_call(source: Source, at: int) -> bool:
    """Whether `name(` is here."""
    name = source.name(at)
    return name != "" and source.at("(", at + len(name))


def read_calls(source: Source, at: int) -> tuple[list[Found], int]:
    """Read Python calls in a list, or one after another; the first one begins here."""
    calls: list[Found] = []
    listed = source.at("[", at)
    at = source.blanks(at + listed)
    while is_call(source, at):
        try:
            calls.append(_read_call(source, at))
        except NotACall:
            if not calls:
                raise
            break
        at = source.past(",", calls[-1].end)
    return calls, at + 1 if listed and source.at("]", at) else calls[-1].end


def _read_call(source: Source, start: int) -> Found:
    printed = source.at(_PRINT, start)
    at = source.blanks(start + len(_PRINT)) if printed else start
    asked = source.name(at)
    spec = source.tools.find(asked)
    if spec is None:
        raise no_tool(asked, at)
    if not source.at("(", at + len(asked)):
        raise NotACall("no brackets follow the name", at)
    value = read_value(source, at + len(asked))
    arguments = asked + value.twice if value.twice else _in_order(spec, value)
    end = source.blanks(value.end) + 1 if printed else value.end
    end = min(end, len(source.text))
    return Found(spec.name, arguments, start, end, None, value.cut, mended=value.mended)


def _in_order(spec: ToolSpec, value: Value) -> Any:
    """Give arguments without a name the names of the schema, in its order."""
    named, unnamed = value.value
    keys = shape_of(spec).properties.keys()
    match unnamed:
        case [dict() as whole] if not named and whole.keys() <= keys:
            return whole
    free = [name for name in keys if name not in named]
    if len(unnamed) > len(free):
        raise NotACall("more arguments than the tool has", value.end)
    return dict(zip(free, unnamed, strict=False)) | named
