"""Grammar C: a call with tagged parameters, whose values are raw text.

The spelling of every tag follows from how the call's own tag was written. A value may contain
its own closing tag: it ends at the first one after which a call can go on.
"""

import html
from collections.abc import Iterator

import msgspec

from surecall.dialects.children import after_lead, named_tag, read_children
from surecall.dialects.found import Draft, NotACall
from surecall.dialects.source import MAX_NAME, Source, is_name, properties
from surecall.dialects.spelling import ANTML, BARS, CLOSERS, DSML
from surecall.dialects.values import decoded, read_value, typed
from surecall.types import JSON, ToolSpec

_MAX_TAG = 400
# A tag inside a value costs as much time as searching this many characters.
_TAG_COST = 2_000
_SEP = "<|sep|>"
_WRAPPED = ("arguments", "input", "parameters", "properties")
_CDATA = ("<![CDATA[", "]]>")
_PREFIXES = ("", " ", ANTML, "atem:", "steptml:")
_PREFIX_ROWS = {"atem:": "C6", "steptml:": "C7"}
_HINTS = {"true": "string", "false": "object"}


class Style(msgspec.Struct, frozen=True):
    """How the tags of one call are spelled."""

    row: str
    parameter: tuple[str, ...]
    parameter_end: tuple[str, ...]
    call: tuple[str, ...]
    call_end: tuple[str, ...]
    tag_end: str = ">"
    # Whether the format puts a line break of its own before and after each value.
    lines: bool = False


class Head(msgspec.Struct, frozen=True):
    """A call's opening tag: whom it calls, how it is spelled, and where its body begins."""

    name: str
    style: Style
    end: int
    id: str | None = None
    empty: bool = False


KEYS = Style(
    "C9",
    parameter=("<arg_key",),
    parameter_end=("</arg_value",),
    call=("<tool_call",),
    call_end=("</tool_call",),
)
FUNCTION = Style(
    "C1",
    parameter=("<parameter=",),
    parameter_end=("</parameter",),
    call=("<function=", "<tool_call"),
    call_end=("</function",),
    lines=True,
)
_PARAM = Style(
    "C8",
    parameter=("<param",),
    parameter_end=("</param",),
    call=("<function",),
    call_end=("</function",),
)
_XTML = Style(
    "C11",
    parameter=("<|open|>argument",),
    parameter_end=("<|close|>argument",),
    call=("<|open|>call",),
    call_end=("<|close|>call",),
    tag_end=_SEP,
)


def head_at(source: Source, at: int) -> Head | None:
    """Read the opening tag of a call, if one stands here."""
    text = source.text
    if text.startswith("<function=", at):
        return _equals_head(source, at)
    for stem in ("<function name=", "<functionname="):
        if text.startswith(stem, at):
            return _head(source, at + len(stem) - len("name="), _PARAM)
    if text.startswith("<|open|>call", at):
        return _head(source, at + len("<|open|>call"), _XTML)
    prefix = invoke_prefix(source, at)
    if prefix is None:
        return None
    return _head(source, at + 1 + len(prefix) + len("invoke"), _invoke_style(prefix))


def invoke_prefix(source: Source, at: int) -> str | None:
    """Return what stands between `<` and `invoke`, None if this is no such tag."""
    for prefix in (*_PREFIXES, dsml_prefix(source.text, at)):
        if prefix is not None and source.text.startswith(f"<{prefix}invoke", at):
            return prefix
    return None


def dsml_prefix(text: str, at: int) -> str | None:
    """Return the DSML mark of a tag as it is spelled here, with its bars and blanks."""
    if not text.startswith("<", at):
        return None
    start = at + 1 + text.startswith("</", at)
    end = start
    while text[end : end + 1] in (*BARS, " ") and end < start + _SHORT:
        end += 1
    if end == start or not text.startswith(DSML, end):
        return None
    end += len(DSML)
    while text[end : end + 1] in (*BARS, " ") and end < start + 2 * _SHORT:
        end += 1
    return text[start:end]


_SHORT = 12


def _invoke_style(prefix: str) -> Style:
    marks = dict.fromkeys((prefix, prefix.strip(), ""))
    return Style(
        row="C5" if DSML in prefix else _PREFIX_ROWS.get(prefix, "C4"),
        parameter=tuple(f"<{mark}parameter" for mark in marks),
        parameter_end=tuple(f"</{mark}parameter" for mark in marks),
        call=tuple(f"<{mark}invoke" for mark in marks),
        call_end=tuple(f"</{mark}invoke" for mark in marks),
    )


def _equals_head(source: Source, at: int) -> Head | None:
    at += len("<function=")
    name = source.name(at)
    end = source.blanks(at + len(name))
    # The bracket is sometimes missing; the line break or the first parameter then ends the name.
    if source.text.startswith(">", end):
        end += 1
    elif not source.text.startswith(("<parameter=", "</function"), end):
        return None
    return Head(name, FUNCTION, end)


def _head(source: Source, at: int, style: Style) -> Head | None:
    tag = _tag(source, at, style.tag_end)
    if tag is None:
        return None
    attributes, end, empty = tag
    name = attributes.get("name") or attributes.get("tool") or ""
    return Head(name, style, end, attributes.get("id"), empty)


def _tag(source: Source, at: int, tag_end: str) -> tuple[dict[str, str], int, bool] | None:
    """Read the attributes of a tag: quoted in either way, or not at all."""
    text = source.text
    end = text.find(tag_end, at, at + _MAX_TAG)
    if end < 0:
        return None
    inside = text[at:end]
    empty = inside.endswith("/")
    found = dict(_attributes(inside.removesuffix("/")))
    if tag_end == _SEP:
        found = {key: html.unescape(value) for key, value in found.items()}
    return found, end + len(tag_end), empty


def _attributes(inside: str) -> Iterator[tuple[str, str]]:
    key, equals, rest = inside.partition("=")
    while equals:
        rest = rest.lstrip()
        quote = rest[:1] if rest[:1] in ('"', "'") else ""
        value, _, after = rest[len(quote) :].partition(quote or " ")
        yield key.strip(), value.strip()
        key, equals, rest = after.partition("=")


def read_tagged(source: Source, head: Head, start: int) -> tuple[Draft, str]:
    """Read the parameters of a call; also say what the body was made of."""
    if not is_name(head.name):
        raise NotACall(f"{head.name[:40]!r} is no name of a tool", head.end)
    spec = source.tools.find(head.name)
    name = spec.name if spec else head.name
    at = source.blanks(head.end)
    if head.empty:
        return Draft(name, {}, start, head.end, head.id), head.style.row
    if source.text.startswith("{", at):
        value = read_value(source, at)
        arguments = source.text[at : value.end] if value.twice else value.value
        end = _closed(source, value.end, head.style)
        return Draft(name, arguments, start, end, head.id, value.cut), "json"
    if not source.text.startswith((*head.style.parameter, *head.style.parameter_end), at):
        named = named_tag(source, at)
        if named:
            arguments, end, cut = read_children(source, at, named[2], spec)
            end = _closed(source, after_lead(source, end), head.style)
            return Draft(name, arguments, start, end, head.id, cut), "tags"
    arguments, end, cut = Body(source, head.style, spec).read(at)
    return Draft(name, arguments, start, end, head.id, cut), head.style.row


def _closed(source: Source, at: int, style: Style) -> int:
    after = source.blanks(at)
    return tag_after(source, after, style) if source.text.startswith(style.call_end, after) else at


def tag_after(source: Source, at: int, style: Style) -> int:
    """Return the end of a closing tag; one that never ends is passed over at its line's end."""
    end = source.text.find(style.tag_end, at, at + MAX_NAME)
    if end >= 0:
        return end + len(style.tag_end)
    line = source.text.find("\n", at, at + MAX_NAME)
    return line if line >= 0 else min(len(source.text), at + MAX_NAME)


class Body:
    """The parameters of one call."""

    def __init__(self, source: Source, style: Style, spec: ToolSpec | None) -> None:
        self._source = source
        self._text = source.text
        self._style = style
        self._schemas = properties(spec)
        self._root: JSON = spec.parameters if spec else {}
        self._known = spec is not None
        self._values: JSON = {}

    def read(self, at: int) -> tuple[JSON, int, bool]:
        """Read parameters up to the end of the call: values, end, whether the text ended first."""
        source, style, text = self._source, self._style, self._text
        cut = False
        while True:
            after = after_lead(source, at)
            if text.startswith(style.parameter, after):
                at, cut = self._parameter(after)
            elif text.startswith(style.call_end, after):
                return self.result(), tag_after(source, after, style), cut
            elif text.startswith(style.parameter_end, after):
                at = tag_after(source, after, style)
            else:
                break
        if not self._values:
            if after < len(text):
                raise NotACall("neither parameters nor a closing tag follow", after)
            return {}, after, True
        return self.result(), at, cut

    def result(self) -> JSON:
        """Unwrap a sole parameter that is not declared and holds all the others."""
        if len(self._values) == 1:
            ((key, value),) = self._values.items()
            inner: JSON | str = decoded(value) if isinstance(value, str) else value
            wraps = key in _WRAPPED and key not in self._schemas
            if wraps and isinstance(inner, dict) and inner.keys() <= self._schemas.keys():
                return inner
        return self._values

    def _parameter(self, at: int) -> tuple[int, bool]:
        key, hint, start = self._key(at)
        stop, end, cut = self.extent(start)
        self.store(key, self._text[start:stop], hint)
        return end, cut

    def _key(self, at: int) -> tuple[str, str | None, int]:
        text, style = self._text, self._style
        stem = next(stem for stem in style.parameter if text.startswith(stem, at))
        if stem.endswith("="):
            end = text.find(">", at, at + _MAX_TAG)
            key = text[at + len(stem) : end]
            if end < 0 or "<" in key or "\n" in key.strip("\n"):
                raise NotACall("a parameter's tag does not end", at)
            return key.strip(), None, end + 1
        tag = _tag(self._source, at + len(stem), style.tag_end)
        attributes = tag[0] if tag else {}
        key = attributes.get("name") or attributes.get("key") or ""
        if tag is None or not key or "<" in key:
            raise NotACall("a parameter has no name", at)
        hint = attributes.get("type") or _HINTS.get(attributes.get("string", ""))
        return key, hint, tag[1]

    def extent(self, start: int) -> tuple[int, int, bool]:
        """Find where a value stops, where reading goes on, and whether the text ended first."""
        source, style, at = self._source, self._style, start
        last = -1
        while True:
            own = source.first(style.parameter_end, at)
            other = source.first((*style.parameter, *style.call_end), at)
            if own < 0 and other < 0:
                stop = last if last >= 0 else len(self._text)
                return stop, len(self._text), last < 0
            if own >= 0 and (other < 0 or own < other):
                at = tag_after(source, own, style)
                if self._goes_on(at):
                    return own, at, False
                last = own
                source.pay(_TAG_COST)
            elif self._is_missing_its_end(other):
                return (last if last >= 0 else other), other, False
            else:
                at = other + 1
                source.pay(_TAG_COST)

    def _goes_on(self, at: int) -> bool:
        """Whether a call can go on, or end, after a closing tag."""
        style, after = self._style, self._source.blanks(at)
        follows = (*style.parameter, *style.call_end, *style.call, *CLOSERS)
        if self._text.startswith(style.parameter_end, after):
            return False
        return after >= len(self._text) or self._text.startswith(follows, after)

    def _is_missing_its_end(self, at: int) -> bool:
        """Whether the tag found before the value's own closing tag belongs to the call."""
        source, style = self._source, self._style
        if self._text.startswith(style.call_end, at):
            own = source.first(style.parameter_end, at)
            call = source.first(style.call, at)
            after = tag_after(source, at, style)
            ends = self._text[after : after + 1] in ("", "\n", "<")
            return own < 0 or (0 <= call < own and ends)
        if style is KEYS:
            return self._text.find("<arg_value", at, at + _MAX_TAG) >= 0
        try:
            key = self._key(at)[0]
        except NotACall:
            return False
        declared = key in self._schemas if self._known else True
        at_start = self._text[at - 1] in "\n>"
        return declared and at_start and key not in self._values

    def store(self, key: str, raw: str, hint: str | None) -> None:
        """Keep a value under its key, with the type that is declared or hinted at."""
        if key in self._values:
            raise NotACall(f"the parameter {key[:40]!r} comes twice", 0)
        if raw.startswith(_CDATA[0]) and raw.endswith(_CDATA[1]):
            raw = raw[len(_CDATA[0]) : -len(_CDATA[1])]
        else:
            raw = self._trimmed(raw)
        if hint == "string" and self._schemas.get(key) is None:
            self._values[key] = raw
        elif hint and hint != "string":
            self._values[key] = typed(raw, None, self._root)
        else:
            self._values[key] = typed(raw, self._schemas.get(key), self._root)

    def _trimmed(self, raw: str) -> str:
        """Take off the line breaks of the format, and no blank more: indentation is data."""
        before, after = raw.startswith("\n"), raw.endswith("\n")
        if not self._style.lines:
            before = after = before and after and len(raw) > 1
        raw = raw[1:] if before else raw
        return raw[:-1] if after and raw else raw
