"""Grammar C: a call with tagged parameters, whose values are raw text.

The spelling of every tag follows from how the call's own tag was written. A value may contain
its own closing tag: it ends at the first one after which a call can go on.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from surecall.parsing.entities import without_entities
from surecall.values.types import JSON, ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.children import after_lead, named_tag, read_children
from surecall.wire.dialects.found import Found, NotACall, no_tool
from surecall.wire.dialects.source import MAX_NAME, Source, declared, is_name, shape_of
from surecall.wire.dialects.values import decoded, read_value, typed

_MAX_TAG = 400
_MAX_PREFIX = 28
# A tag inside a value costs as much time as searching this many characters.
_TAG_COST = 2_000
_WRAPPERS = ("arguments", "input", "parameters", "properties")
_CDATA = ("<![CDATA[", "]]>")
_CDATA_SPLIT = "]]]]><![CDATA[>"


class Tag(msgspec.Struct, frozen=True):
    """An opening tag: what it names, where it ends, what else it says, if it closes itself."""

    name: str
    end: int
    attributes: dict[str, str] = {}
    empty: bool = False


def head_at(source: Source, at: int) -> tuple[spelling.Style, Tag] | None:
    """Read the opening tag of a call, if one is here."""
    if source.at(spelling.FUNCTION.head, at):
        tag = _function_tag(source, at + len(spelling.FUNCTION.head[0]))
        return (spelling.FUNCTION, tag) if tag else None
    for style in (*spelling.STYLES, *_invoke_styles(source, at)):
        stem = source.mark(style.head, at)
        tag = _tag(source, at + len(stem), style.tag_end) if stem else None
        if tag:
            return style, tag
    return None


def _function_tag(source: Source, at: int) -> Tag | None:
    name = source.name(at)
    end = source.blanks(at + len(name))
    if source.at(">", end):
        return Tag(name, end + 1)
    # Without its bracket the name is ended by a parameter, or is one that the object confirms.
    known = source.at("{", end) and source.tools.find(name) is not None
    ended = known or source.at((*spelling.FUNCTION.parameter, *spelling.FUNCTION.call_end), end)
    return Tag(name, end) if ended else None


def _invoke_styles(source: Source, at: int) -> Iterator[spelling.Style]:
    """Spell the tags of `<invoke>` as they begin here, with whatever is before the word."""
    if not source.at("<", at):
        return
    for prefix, row in (spelling.PREFIXES | {dsml_prefix(source.text, at): "C5"}).items():
        if source.at(f"<{prefix}invoke", at):
            marks = dict.fromkeys((prefix, prefix.strip(), ""))
            call = tuple(f"<{mark}invoke" for mark in marks)
            call_end = tuple(f"</{mark}invoke" for mark in marks)
            parameter = tuple(f"<{mark}parameter" for mark in marks)
            parameter_end = tuple(f"</{mark}parameter" for mark in marks)
            yield spelling.Style(row, call, call, call_end, parameter, parameter_end)


def dsml_prefix(text: str, at: int) -> str:
    """Return the spelling.DSML mark of a tag as it is spelled here, with its bars and blanks."""
    inside = text[at + 1 : at + _MAX_PREFIX].removeprefix("/")
    bare = inside.lstrip(f"{spelling.BARS} ")
    if len(bare) == len(inside) or not bare.startswith(spelling.DSML):
        return spelling.DSML
    return inside[: len(inside) - len(bare.removeprefix(spelling.DSML).lstrip(f"{spelling.BARS} "))]


def _tag(source: Source, at: int, tag_end: str) -> Tag | None:
    """Read the rest of a tag, from behind its stem."""
    end = source.text.find(tag_end, at, at + _MAX_TAG)
    inside = source.text[at : max(at, end)]
    if end < 0 or "<" in inside:
        return None
    pairs = dict(_attributes(inside.removesuffix("/")))
    if tag_end != ">":
        pairs = {key: without_entities(value) for key, value in pairs.items()}
    # A stem may end with the word `name`, or with a mere `=`.
    names = (pairs[key] for key in ("name", "tool", "key", "") if pairs.get(key))
    return Tag(next(names, ""), end + len(tag_end), pairs, inside.endswith("/"))


def _attributes(inside: str) -> Iterator[tuple[str, str]]:
    """List `key="value"`, quoted in either way or not at all."""
    key, equals, rest = inside.partition("=")
    while equals:
        rest = rest.lstrip()
        quote = rest[:1] if rest[:1] in ('"', "'") else ""
        value, _, after = rest[len(quote) :].partition(quote or " ")
        yield key.strip(), value.strip()
        key, equals, rest = after.partition("=")


def read_tagged(source: Source, style: spelling.Style, tag: Tag, start: int) -> tuple[Found, str]:
    """Read the parameters of a call; also say what the body was made of."""
    if not is_name(tag.name):
        raise no_tool(tag.name, tag.end)
    spec = source.tools.find(tag.name)
    arguments: JSON | str = {}
    at, end, cut, made_of = source.blanks(tag.end), tag.end, False, style.row
    mended = False
    child = named_tag(source, at)
    if tag.empty:
        pass
    elif source.at("{", at):
        value = read_value(source, at)
        if value.cut and source.text[tag.end - 1] != style.tag_end[-1]:
            raise NotACall("neither the tag nor the object ends", value.end)
        arguments, cut, mended, made_of = value.arguments, value.cut, value.mended, "json"
        end = _closed(source, value.end, style)
    elif child and not source.at((*style.parameter, *style.parameter_end), at):
        arguments, end, cut = read_children(source, at, child.lead, shape_of(spec))
        end, made_of = _closed(source, after_lead(source, end), style), "tags"
    else:
        arguments, end, cut = Body(source, style, spec).read(at)
    name = spec.name if spec else tag.name
    call_id = tag.attributes.get("id")
    return Found(name, arguments, start, end, call_id, cut, mended=mended), made_of


def _closed(source: Source, at: int, style: spelling.Style) -> int:
    after = source.blanks(at)
    return _tag_after(source, after, style) if source.at(style.call_end, after) else at


def _tag_after(source: Source, at: int, style: spelling.Style) -> int:
    """Return the end of a closing tag; one that never ends is passed over at its line's end."""
    end = source.text.find(style.tag_end, at, at + MAX_NAME)
    if end >= 0:
        return end + len(style.tag_end)
    line = source.text.find("\n", at, at + MAX_NAME)
    return line if line >= 0 else min(len(source.text), at + MAX_NAME)


def parameters_follow(source: Source, at: int) -> spelling.Style | None:
    """Return the style of the parameters that begin right here, without a tag for the call."""
    if source.at(
        (*spelling.KEYS.parameter, *spelling.KEYS.parameter_end, *spelling.KEYS.stray), at
    ) or _is_misplaced(source, at):
        return spelling.KEYS
    stray = source.blanks(at + len("</parameter>")) if source.at("</parameter>", at) else at
    return spelling.FUNCTION if source.at(spelling.FUNCTION.parameter, stray) else None


def _is_misplaced(source: Source, at: int) -> bool:
    """Whether `<tool_call>` is where `<arg_key>` belongs."""
    end = source.find("</arg_key", at) if source.at("<tool_call", at) else -1
    return 0 <= end - at < _MAX_TAG and "<" not in source.text[at + 1 : end]


class Body:
    """The parameters of one call."""

    def __init__(self, source: Source, style: spelling.Style, spec: ToolSpec | None) -> None:
        self._source = source
        self._text = source.text
        self._style = style
        self._shape = shape_of(spec)
        self._known = spec is not None
        self._values: JSON = {}

    def read(self, at: int) -> tuple[JSON, int, bool]:
        """Read parameters up to the end of the call: values, end, whether the text ended first."""
        source, style = self._source, self._style
        cut = empty = False
        while True:
            after = after_lead(source, at)
            misplaced = style is spelling.KEYS and not self._values and _is_misplaced(source, after)
            if source.at(style.parameter, after) or misplaced:
                at, cut = self._parameter(after)
            elif source.at((*style.parameter_end, *style.stray), after):
                at = _tag_after(source, after, style)
            else:
                break
            empty = cut and not self._values
        if source.at(style.call_end, after):
            at = _tag_after(source, after, style)
        elif not self._values and not empty:
            cut = after >= len(self._text)
            if not cut and not source.at(spelling.CLOSERS, after):
                raise NotACall("neither parameters nor a closing tag follow", after)
        return self._unwrapped(), at, cut

    def _unwrapped(self) -> JSON:
        """Unwrap a sole parameter that is not declared and holds all the others."""
        keys = self._shape.properties.keys()
        for key, value in self._values.items():
            inner: Any = decoded(value) if isinstance(value, str) else value
            sole = len(self._values) == 1 and key in _WRAPPERS and key not in keys
            if sole and isinstance(inner, dict) and inner.keys() <= keys:
                return inner
        return self._values

    def _parameter(self, at: int) -> tuple[int, bool]:
        key, hint, start = self._key(at)
        if not key:
            return len(self._text), True
        if key in self._values:
            raise NotACall(f"the parameter {key[:40]!r} comes twice", start)
        stop, end, cut = self._extent(start)
        self._values[key] = self._value(key, self._text[start:stop], hint)
        return end, cut

    def _key(self, at: int) -> tuple[str, str | None, int]:
        """Read a parameter's key, the hint at its type, and where the value begins."""
        if self._style is spelling.KEYS:
            return self._pair_key(at)
        stem = self._source.mark(self._style.parameter, at).removesuffix("=")
        tag = _tag(self._source, at + len(stem), self._style.tag_end)
        if tag is None or not tag.name:
            raise NotACall("a parameter has no name, or its tag does not end", at)
        hint = tag.attributes.get("type") or spelling.HINTS.get(tag.attributes.get("string", ""))
        return tag.name, hint, tag.end

    def _pair_key(self, at: int) -> tuple[str, str | None, int]:
        """Read a key in tags of its own, up to the tag of its value; no key if they are cut off."""
        source, text = self._source, self._text
        end = text.find("</arg_key", at, at + _MAX_TAG)
        if end < 0:
            return "", None, len(text)
        key = text[at:end].rpartition(">")[2].strip()
        after = end
        while source.at("</arg_key", after):
            after = source.blanks(_tag_after(source, after, spelling.KEYS))
        if after >= len(text):
            return "", None, after
        if not key or not source.at("<arg_value", after):
            raise NotACall("a key has no value", after)
        return key, None, _tag_after(source, after, spelling.KEYS)

    def _extent(self, start: int) -> tuple[int, int, bool]:
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
                at = _tag_after(source, own, style)
                if self._goes_on(at):
                    return own, at, False
                last = own
            elif self._is_missing_its_end(other):
                if last < 0 and not source.at(style.call_end, other) and own >= 0:
                    # A value may hold such a tag, too.
                    raise NotACall("a parameter does not end", other)
                return (last if last >= 0 else other), other, False
            else:
                at = other + 1
            source.pay(_TAG_COST)

    def _goes_on(self, at: int) -> bool:
        """Whether a call can go on, or end, after a closing tag."""
        source, style, after = self._source, self._style, self._source.blanks(at)
        follows = (*style.parameter, *style.call_end, *style.call, *spelling.CLOSERS)
        if source.at(style.parameter_end, after):
            return False
        return after >= len(self._text) or source.at(follows, after)

    def _is_missing_its_end(self, at: int) -> bool:
        """Whether the tag found before the value's own closing tag belongs to the call."""
        source, style = self._source, self._style
        if source.at(style.call_end, at):
            own = source.first(style.parameter_end, at)
            call = source.first(style.call, at)
            after = _tag_after(source, at, style)
            ends = self._text[after : after + 1] in ("", "\n", "<")
            return own < 0 or (0 <= call < own and ends)
        try:
            key = self._key(at)[0]
        except NotACall:
            return False
        if style is spelling.KEYS:
            whole = self._text.find("<", at + 1, source.find("</arg_key", at)) < 0
            return key != "" and whole and key not in self._values
        is_new = key not in self._values and (key in self._shape.properties or not self._known)
        return is_new and self._text[at - 1] in "\n>"

    def _value(self, key: str, raw: str, hint: str | None) -> Any:
        """Give a value the type that is declared or hinted at."""
        if raw.startswith(_CDATA[0]) and raw.endswith(_CDATA[1]):
            raw = raw[len(_CDATA[0]) : -len(_CDATA[1])].replace(_CDATA_SPLIT, _CDATA[1])
        else:
            raw = self._trimmed(raw)
        if hint == "string" and key not in self._shape.properties:
            return raw
        return typed(raw, declared(None if hint and hint != "string" else self._shape, key))

    def _trimmed(self, raw: str) -> str:
        """Take off the line breaks of the format, and no blank more: indentation is data."""
        before, after = raw.startswith("\n"), raw.endswith("\n")
        if not self._style.lines:
            before = after = before and after and len(raw) > 1
        raw = raw[1:] if before else raw
        return raw[:-1] if after and raw else raw
