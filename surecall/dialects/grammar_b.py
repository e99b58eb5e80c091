"""Grammar B: a header with the name, then one object. No closer is ever needed."""

from typing import Any

from surecall.dialects.found import Draft, NotACall
from surecall.dialects.source import Source, Tools, is_name
from surecall.dialects.spelling import (
    BARE_ROWS,
    CLOSERS,
    HEADER_ENDS,
    ID_MARK,
    NAME_MARKS,
    SEPARATORS,
)
from surecall.dialects.values import Value, read_call_arguments, read_value, retyped
from surecall.types import ToolSpec

_FENCE = "```"
_LABEL = "json"
_CALL = "call:"
_TYPE = "function"
_PREFIX = "functions."


class Header:
    """The pieces between an opener and the object, each under the mark that stands before it."""

    def __init__(self, source: Source, at: int) -> None:
        self.start = at
        self.pieces: dict[str, str] = {}
        self.fenced = False
        mark: str | None = ""
        while mark is not None:
            at = source.blanks(at)
            name = source.name(at)
            self.pieces.setdefault(mark, name)
            at = self._fence(source, source.blanks(at + len(name)))
            mark = next((mark for mark in SEPARATORS if source.text.startswith(mark, at)), None)
            at += len(mark or "")
        self.end = at

    def _fence(self, source: Source, at: int) -> int:
        """Pass over a code fence, or the word that is left of one, before the object."""
        text = source.text
        if text.startswith(_FENCE, at):
            self.fenced = True
            at = source.blanks(at + len(_FENCE))
        labelled = text.startswith(_LABEL, at)
        return source.blanks(at + len(_LABEL)) if labelled else at

    @property
    def asked(self) -> str:
        """The name as it was written."""
        for mark in NAME_MARKS:
            if self.pieces.get(mark):
                return self.pieces[mark]
        return self.pieces[""]

    @property
    def id(self) -> str | None:
        """The id that the header holds, kept letter for letter."""
        first = self.pieces[""]
        if self.pieces.get(ID_MARK):
            return self.pieces[ID_MARK]
        if NAME_MARKS[0] in self.pieces and first:
            return first
        return first if _is_numbered(first) else None

    @property
    def by_type(self) -> bool:
        """Whether the name stands behind the word `function`, as in older DeepSeek models."""
        return self.pieces[""] == _TYPE and self.asked != _TYPE


def read_named(source: Source, at: int, row: str) -> tuple[Draft, Header]:
    """Read the header that begins here, and its object."""
    header = Header(source, at)
    asked = header.asked.removeprefix(_CALL)
    strong = row in _STRONG
    value = _arguments(source, header.end, row, strong=strong)
    name, arguments = _named(source.tools, asked, value.value)
    spec = source.tools.find(name)
    if not is_name(name) or (spec is None and not strong):
        raise NotACall(f"no tool is called {name[:40]!r}", header.end)
    if value.twice:
        arguments = source.text[header.end : value.end]
    if row in BARE_ROWS and spec and isinstance(arguments, dict):
        arguments = retyped(arguments, spec.parameters, spec.parameters)
    end = value.end
    if header.fenced and source.text.startswith(_FENCE, source.blanks(end)):
        end = source.blanks(end) + len(_FENCE)
    return Draft(name, arguments, at, end, header.id, value.cut), header


# The headers of these rows are made of tokens that nothing else uses.
_STRONG = frozenset({"A7", "A14", "A15", "B2", "B3", "B5", "B6", "B9", "B10"})


def _arguments(source: Source, at: int, row: str, *, strong: bool) -> Value:
    text = source.text
    if text.startswith("{", at):
        return _object(source, at, row, strong=strong)
    if text.startswith("(", at):
        return _in_brackets(source, at, bare=row in BARE_ROWS)
    ended = at >= len(text)
    if not ended and not text.startswith(CLOSERS, at) and not strong:
        raise NotACall("neither arguments nor a closing tag follow the name", at)
    if strong and row != "A7" and not ended and not text.startswith(CLOSERS, at):
        raise NotACall("no object follows the name", at)
    return Value({}, at, cut=ended and row != "A7")


def _object(source: Source, at: int, row: str, *, strong: bool) -> Value:
    try:
        return read_value(source, at, bare=row in BARE_ROWS)
    except NotACall as refusal:
        # The header leaves no doubt that this is a call, so the model is told about its JSON.
        end = source.first(HEADER_ENDS, at)
        if not strong or end < 0:
            raise refusal from None
        return Value(source.text[at:end].strip(), end)


def _in_brackets(source: Source, at: int, *, bare: bool) -> Value:
    """Read `({...})` or `(key: value)`."""
    value = read_call_arguments(source, at, bare=bare)
    named, unnamed = value.value
    if len(unnamed) == 1 and not named and isinstance(unnamed[0], dict):
        return Value(unnamed[0], value.end, value.cut, value.twice)
    if unnamed:
        raise NotACall("an argument has no name", value.end)
    return Value(named, value.end, value.cut, value.twice)


def _named(tools: Tools, asked: str, arguments: Any) -> tuple[str, Any]:
    """Find the name: as asked, without its counter, or told by the arguments themselves."""
    spec = known(tools, asked)
    if spec is not None or not isinstance(arguments, dict):
        return (spec.name if spec else plain_name(asked)), arguments
    inside = arguments.get("name")
    if isinstance(inside, str) and inside in tools.specs:
        return inside, {key: item for key, item in arguments.items() if key != "name"}
    inferred = tools.by_keys(arguments) if asked.isdigit() else None
    return (inferred.name if inferred else plain_name(asked)), arguments


def known(tools: Tools, asked: str) -> ToolSpec | None:
    """Return the tool that a header names, with or without namespace and counter."""
    plain = plain_name(asked)
    for name in (asked, plain, plain.removesuffix(_LABEL)):
        spec = tools.specs.get(name)
        if spec is not None:
            return spec
    return tools.find(plain)


def plain_name(asked: str) -> str:
    """Take off the namespace and the counter that belong to the dialect, not to the tool."""
    name = asked.removeprefix(_PREFIX)
    return name.rpartition(":")[0] if _is_numbered(name) else name


def _is_numbered(name: str) -> bool:
    head, colon, counter = name.rpartition(":")
    return bool(head and colon) and counter.isdigit()
