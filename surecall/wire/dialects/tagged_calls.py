"""Parses calls with tagged parameters or child elements as arguments."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from surecall.parsing.coercion import SchemaShape
from surecall.parsing.lenient_lexer import MAX_DEPTH
from surecall.values.text import unescape_html
from surecall.values.types import JSON, ToolSpec
from surecall.wire.dialects import spelling
from surecall.wire.dialects.call_values import (
    QUOTES,
    convert_text,
    decode_arguments,
    has_loose_mark,
    parse_value,
)
from surecall.wire.dialects.spelling import LEAD
from surecall.wire.dialects.text_source import (
    MAX_NAME,
    NotACall,
    RecoveredCall,
    TextSource,
    declared_shape,
    is_name,
    tool_shape,
    unknown_tool,
)

# Parameters as tags named after them, `<city>Paris</city>`, nested as the schema declares.
#
# MiniMax M3 writes a namespace token before every tag, so values may contain any other markup.
# Without it, a tag is nested only where the schema declares a container.

_ITEM_TAG = "item"
_CONTAINERS = frozenset({"array", "object"})
# What ends a value in a tag named after its parameter.
CHILD_ENDS = ("</",)


class ChildTag(NamedTuple):
    """An opening tag `<name>`, where its content begins, and the token before it."""

    name: str
    content_start: int
    lead: str


def skip_lead(source: TextSource, at: int) -> int:
    """Skip blanks and the namespace token."""
    at = source.skip_blanks(at)
    return source.skip_blanks(at + len(LEAD)) if source.starts_with(LEAD, at) else at


def child_tag_at(source: TextSource, at: int) -> ChildTag | None:
    """Return the opening tag at `at` if it has no attributes."""
    at = source.skip_blanks(at)
    lead = LEAD if source.starts_with(LEAD, at) else ""
    at = skip_lead(source, at)
    name = source.name_at(at + 1) if source.starts_with("<", at) else ""
    end = at + 1 + len(name)
    return (
        ChildTag(name, end + 1, lead)
        if name and name[0] != "/" and source.starts_with(">", end)
        else None
    )


def parse_children(
    source: TextSource, at: int, lead: str, shape: SchemaShape
) -> tuple[JSON, int, bool]:
    """Parse all parameters; return values, end, and whether the text ended first."""
    value, end, cut = _parse_child_tags(source, at, lead, shape, 0)
    if not isinstance(value, dict) or not value:
        raise NotACall("no parameters follow", end)
    return value, end, cut


def _parse_child_tags(
    source: TextSource, at: int, lead: str, shape: SchemaShape | None, depth: int
) -> tuple[Any, int, bool]:
    """Parse a sequence of `<key>value</key>`; return values, end, and whether the text ended first.

    `lead` is the token before each tag, blank in dialects that have none.
    """
    if depth > MAX_DEPTH:
        raise NotACall("the tags are nested too deeply", at)
    pairs: list[tuple[str, Any]] = []
    cut = False
    while not cut and (tag := child_tag_at(source, at)):
        inner = declared_shape(shape, tag.name)
        nested = child_tag_at(source, tag.content_start)
        if nested and (nested.lead == LEAD if lead else _expects(inner, _CONTAINERS)):
            value, at, cut = _parse_child_tags(source, tag.content_start, lead, inner, depth + 1)
            at = skip_lead(source, at)
            if cut or not source.starts_with(f"</{tag.name}>", at):
                raise NotACall(f"{tag.name[:40]!r} is closed by another tag", at)
            at += len(tag.name) + len("</>")
        else:
            stop, at = _child_extent(source, tag.content_start, f"{lead}</{tag.name}>", lead or "<")
            cut = stop == at
            raw = source.text[tag.content_start : stop]
            if has_loose_mark(raw, CHILD_ENDS) or (lead and raw.endswith(lead)):
                raise NotACall("a value begins or ends with a mark", stop)
            value = _leaf_value(raw, inner)
        pairs.append((tag.name, value))
    return _combine_pairs(pairs, shape, at), at, cut


def _expects(shape: SchemaShape | None, kinds: frozenset[str]) -> bool:
    """Whether a shape allows only these kinds, apart from null."""
    return shape is not None and bool(shape.kinds) and shape.kinds - {"null"} <= kinds


def _leaf_value(raw: str, shape: SchemaShape | None) -> Any:
    """Return the value of the text in a tag that contains no tags."""
    if not raw.strip() and _expects(shape, _CONTAINERS):
        return [] if _expects(shape, frozenset({"array"})) else {}
    return convert_text(raw, shape)


def _child_extent(source: TextSource, start: int, closing: str, tag: str) -> tuple[int, int]:
    """Return start and end of the closing tag that a tag or the end of the text follows."""
    at = start
    while (stop := source.find(closing, at)) >= 0:
        at = stop + len(closing)
        after = source.skip_blanks(at)
        if after >= len(source.text) or source.starts_with(tag, after):
            return stop, at
    return len(source.text), len(source.text)


def _combine_pairs(pairs: list[tuple[str, Any]], shape: SchemaShape | None, at: int) -> Any:
    """Combine items to a list and other pairs to an object."""
    items = {key for key, _ in pairs} == {_ITEM_TAG} and not (
        shape and _ITEM_TAG in shape.properties
    )
    if items or _expects(shape, frozenset({"array"})):
        return [value for _, value in pairs]
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotACall("a parameter occurs twice", at)
    return found


# Grammar C: a call with tagged parameters, whose values are raw text.
#
# The call's tag determines the spelling of all its tags. A value may contain its own closing tag:
# it ends at the first one after which the call can continue.

_MAX_TAG = 400
_MAX_PREFIX = 28
# The fuel for a tag inside a value.
_TAG_COST = 2_000
_WRAPPER_KEYS = ("arguments", "input", "parameters", "properties")
_CALL_ATTRIBUTES = ("", "name", "tool", "id", "index", "type")
_CDATA = ("<![CDATA[", "]]>")
_CDATA_SPLIT = "]]]]><![CDATA[>"


class OpeningTag(msgspec.Struct, frozen=True):
    """An opening tag: its name attribute, end, all attributes, and whether it closes itself."""

    name: str
    end: int
    attributes: dict[str, str] = {}
    is_self_closing: bool = False


def call_tag_at(source: TextSource, at: int) -> tuple[spelling.TagStyle, OpeningTag] | None:
    """Return the style and the opening tag of the call at `at`, if there is one."""
    if source.starts_with(spelling.FUNCTION_STYLE.head, at):
        tag = _parse_function_tag(source, at + len(spelling.FUNCTION_STYLE.head[0]))
        return (spelling.FUNCTION_STYLE, tag) if tag else None
    for style in (*spelling.STYLES, *invoke_styles(source, at)):
        stem = source.mark_at(style.head, at)
        tag = _parse_tag(source, at + len(stem), style.tag_end) if stem else None
        if tag:
            return style, tag
    return None


def _parse_function_tag(source: TextSource, at: int) -> OpeningTag | None:
    """Parse the rest of `<function=f>`; None if it begins no call."""
    quote = source.mark_at(QUOTES, at)
    name = source.name_at(at + len(quote))
    end = source.skip_blanks(at + len(quote) + len(name))
    if quote:
        if not source.starts_with(quote, end):
            return None
        end = source.skip_blanks(end + 1)
    if source.starts_with(">", end):
        return OpeningTag(name, end + 1)
    # Without `>`, a parameter must follow, or an object after a known tool name.
    known = source.starts_with("{", end) and source.tools.find(name) is not None
    ended = known or source.starts_with(
        (*spelling.FUNCTION_STYLE.parameter, *spelling.FUNCTION_STYLE.call_end), end
    )
    return OpeningTag(name, end) if ended else None


def invoke_styles(source: TextSource, at: int, tag: str = "<invoke") -> Iterator[spelling.TagStyle]:
    """Yield the tag style of the `<invoke>` or another tag at `at`, with its prefix."""
    if not source.starts_with("<", at):
        return
    for prefix, row in (spelling.PREFIXES | {dsml_prefix(source.text, at): "C5"}).items():
        if source.starts_with(f"<{prefix}{tag[1:]}", at):
            marks = dict.fromkeys((prefix, prefix.strip(), ""))
            ends = marks if prefix.strip() else {**marks, **_dsml_closer_prefix(source, at)}
            call = tuple(f"<{mark}invoke" for mark in marks)
            call_end = tuple(f"</{mark}invoke" for mark in ends)
            parameter = tuple(f"<{mark}parameter" for mark in marks)
            parameter_end = tuple(f"</{mark}parameter" for mark in ends)
            yield spelling.TagStyle(row, call, call, call_end, parameter, parameter_end)


def _dsml_closer_prefix(source: TextSource, at: int) -> dict[str, None]:
    """Return the DSML mark of the next closing tag that has one: it may close a plain tag."""
    place = source.find(spelling.DSML, at)
    tag = source.text.rfind("</", max(at, place - _MAX_PREFIX), max(place, at))
    prefix = dsml_prefix(source.text, tag) if tag >= 0 else spelling.DSML
    return {} if prefix == spelling.DSML else {prefix: None}


def dsml_prefix(text: str, at: int) -> str:
    """Return the DSML mark of the tag at `at`, including its bars and blanks."""
    inside = text[at + 1 : at + _MAX_PREFIX].removeprefix("/")
    bare = inside.lstrip(f"{spelling.BARS} ")
    if len(bare) == len(inside) or not bare.startswith(spelling.DSML):
        return spelling.DSML
    return inside[: len(inside) - len(bare.removeprefix(spelling.DSML).lstrip(f"{spelling.BARS} "))]


def _parse_tag(source: TextSource, at: int, tag_end: str) -> OpeningTag | None:
    """Parse the rest of a tag after its stem."""
    end = source.text.find(tag_end, at, at + _MAX_TAG)
    inside = source.text[at : max(at, end)]
    if end < 0 or "<" in inside:
        return None
    if any(inside.count(quote) % 2 for quote in QUOTES):
        return None
    pairs = dict(_parse_attributes(inside.removesuffix("/").rstrip()))
    if "" in pairs.values():
        return None
    if tag_end != ">":
        pairs = {key: unescape_html(value) for key, value in pairs.items()}
    # A stem may include the word `name` or `=`.
    names = (pairs[key] for key in ("name", "tool", "key", "") if pairs.get(key))
    return OpeningTag(next(names, ""), end + len(tag_end), pairs, inside.endswith("/"))


def _parse_attributes(inside: str) -> Iterator[tuple[str, str]]:
    """Yield the attributes of a tag, with single, double, or no quotes."""
    key, equals, rest = inside.partition("=")
    while equals:
        rest = rest.lstrip()
        quote = rest[:1] if rest[:1] in ('"', "'") else ""
        value, _, after = rest[len(quote) :].partition(quote or " ")
        yield key.strip(), value.strip()
        key, equals, rest = after.partition("=")
    if key.strip():
        yield key.strip(), ""


def parse_tagged_call(
    source: TextSource, style: spelling.TagStyle, tag: OpeningTag, start: int
) -> tuple[RecoveredCall, str]:
    """Parse a tagged call; return it and the kind of its body."""
    if not is_name(tag.name):
        raise unknown_tool(tag.name, tag.end)
    spec = source.tools.find(tag.name)
    arguments: JSON | str = {}
    at, end, cut, made_of = source.skip_blanks(tag.end), tag.end, False, style.row
    repaired, ends = False, style.value_ends
    child = child_tag_at(source, at)
    if tag.is_self_closing:
        arguments = _attribute_arguments(tag, tool_shape(spec))
    elif source.starts_with("{", at):
        value = parse_value(source, at)
        if value.is_truncated and source.text[tag.end - 1] != style.tag_end[-1]:
            raise NotACall("neither the tag nor the object ends", value.end)
        arguments, cut, repaired, ends, made_of = (
            value.arguments,
            value.is_truncated,
            value.was_repaired,
            value.value_ends,
            "json",
        )
        end = _skip_call_end(source, value.end, style)
    elif child and not source.starts_with((*style.parameter, *style.parameter_end), at):
        arguments, end, cut = parse_children(source, at, child.lead, tool_shape(spec))
        end, made_of = _skip_call_end(source, skip_lead(source, end), style), "tags"
        ends = CHILD_ENDS
    else:
        arguments, end, cut = ParameterParser(source, style, spec).parse(at)
    name = spec.name if spec else tag.name
    call_id = tag.attributes.get("id")
    call = RecoveredCall(
        name, arguments, start, end, call_id, cut, was_repaired=repaired, value_ends=ends
    )
    return call, made_of


def _attribute_arguments(tag: OpeningTag, shape: SchemaShape) -> JSON:
    """Return the attributes of a tag that closes itself, other than those of every call."""
    given = {key: value for key, value in tag.attributes.items() if key not in _CALL_ATTRIBUTES}
    if not given.keys() <= shape.properties.keys():
        raise NotACall("an attribute is not declared", tag.end)
    return {key: convert_text(value, shape.properties[key]) for key, value in given.items()}


def _skip_call_end(source: TextSource, at: int, style: spelling.TagStyle) -> int:
    """Return the position after the closing tag of a call, if it follows."""
    # A quotation mark may be left of arguments that were written as text.
    after = source.skip_blanks(at + len(source.mark_at(QUOTES, at)))
    return _tag_end(source, after, style) if source.starts_with(style.call_end, after) else at


def _tag_end(source: TextSource, at: int, style: spelling.TagStyle) -> int:
    """Return the end of a closing tag; an unclosed one ends with its line."""
    end = source.text.find(style.tag_end, at, at + MAX_NAME)
    if end >= 0:
        return end + len(style.tag_end)
    line = source.text.find("\n", at, at + MAX_NAME)
    return line if line >= 0 else min(len(source.text), at + MAX_NAME)


def parameter_style_at(source: TextSource, at: int) -> spelling.TagStyle | None:
    """Return the style of the parameters at `at`, which have no tag for the call."""
    if source.starts_with(
        (
            *spelling.KEY_VALUE_STYLE.parameter,
            *spelling.KEY_VALUE_STYLE.parameter_end,
            *spelling.KEY_VALUE_STYLE.stray,
        ),
        at,
    ) or _is_misplaced_key(source, at):
        return spelling.KEY_VALUE_STYLE
    if source.starts_with("<parameter name=", at):
        return next(invoke_styles(source, at, "<parameter"))
    stray = (
        source.skip_blanks(at + len("</parameter>"))
        if source.starts_with("</parameter>", at)
        else at
    )
    return (
        spelling.FUNCTION_STYLE
        if source.starts_with(spelling.FUNCTION_STYLE.parameter, stray)
        else None
    )


def _is_misplaced_key(source: TextSource, at: int) -> bool:
    """Whether `<tool_call>` is used in place of `<arg_key>`."""
    end = source.find("</arg_key", at) if source.starts_with("<tool_call", at) else -1
    return 0 <= end - at < _MAX_TAG and "<" not in source.text[at + 1 : end]


class ParameterParser:
    """Parses the parameters of one call."""

    def __init__(self, source: TextSource, style: spelling.TagStyle, spec: ToolSpec | None) -> None:
        self._source = source
        self._text = source.text
        self._style = style
        self._shape = tool_shape(spec)
        self._is_known_tool = spec is not None
        self._values: JSON = {}

    def parse(self, at: int) -> tuple[JSON, int, bool]:
        """Parse all parameters; return values, end, and whether the text ended first."""
        source, style = self._source, self._style
        cut = empty = False
        while True:
            after = skip_lead(source, at)
            misplaced = (
                style is spelling.KEY_VALUE_STYLE
                and not self._values
                and _is_misplaced_key(source, after)
            )
            if source.starts_with(style.parameter, after) or misplaced or self._is_bare_key(after):
                at, cut = self._parse_parameter(after)
            elif source.starts_with((*style.parameter_end, *style.stray), after):
                at = _tag_end(source, after, style)
            else:
                break
            empty = cut and not self._values
        if source.starts_with(style.call_end, after):
            at = _tag_end(source, after, style)
        elif not self._values and not empty:
            cut = after >= len(self._text)
            if not cut and not source.starts_with(spelling.CLOSERS, after):
                raise NotACall("neither parameters nor a closing tag follow", after)
        return self._unwrap_values(), at, cut

    def _is_bare_key(self, at: int) -> bool:
        """Whether a declared key is here without its opening mark."""
        if self._style is not spelling.KEY_VALUE_STYLE:
            return False
        key = self._source.name_at(at)
        is_free = key in self._shape.properties and key not in self._values
        return is_free and self._source.starts_with("</arg_key", at + len(key))

    def _unwrap_values(self) -> JSON:
        """Unwrap a single undeclared parameter that contains the declared ones."""
        keys = self._shape.properties.keys()
        for key, value in self._values.items():
            inner: Any = decode_arguments(value) if isinstance(value, str) else value
            sole = len(self._values) == 1 and key in _WRAPPER_KEYS and key not in keys
            if sole and isinstance(inner, dict) and inner.keys() <= keys:
                return inner
        return self._values

    def _parse_parameter(self, at: int) -> tuple[int, bool]:
        """Parse one parameter; return its end, and whether the text ended first."""
        key, hint, start = self._parse_key(at)
        if not key:
            return len(self._text), True
        if key in self._values:
            raise NotACall(f"the parameter {key[:40]!r} occurs twice", start)
        stop, end, cut = self._named_extent(key, start) or self._value_extent(start)
        raw = self._text[start:stop]
        if not cut and has_loose_mark(raw, self._style.marks):
            raise NotACall("a value begins or ends with a mark", stop)
        self._values[key] = self._typed_value(key, raw, hint)
        return end, cut

    def _parse_key(self, at: int) -> tuple[str, str | None, int]:
        """Parse a key; return it, its type hint, and where the value begins."""
        if self._style is spelling.KEY_VALUE_STYLE:
            return self._parse_pair_key(at)
        stem = self._source.mark_at(self._style.parameter, at).removesuffix("=")
        tag = _parse_tag(self._source, at + len(stem), self._style.tag_end)
        if tag is None or not tag.name:
            raise NotACall("a parameter has no name, or its tag does not end", at)
        hint = tag.attributes.get("type") or spelling.TYPE_HINTS.get(
            tag.attributes.get("string", "")
        )
        return tag.name, hint, tag.end

    def _parse_pair_key(self, at: int) -> tuple[str, str | None, int]:
        """Parse a key in its own tags up to the value; return no key if they are truncated."""
        source, text = self._source, self._text
        end = text.find("</arg_key", at, at + _MAX_TAG)
        value = text.find("<arg_value", at, end if end >= 0 else at + _MAX_TAG)
        end = value if value >= 0 else end
        if end < 0:
            return "", None, len(text)
        key = text[at:end].rpartition(">")[2].strip()
        if value >= 0 and key not in self._shape.properties:
            raise NotACall("a key does not end", at)
        after = end
        while source.starts_with("</arg_key", after):
            after = source.skip_blanks(_tag_end(source, after, spelling.KEY_VALUE_STYLE))
        if after >= len(text):
            return "", None, after
        if key and self._starts_value(after):
            return key, None, after
        if not key or not source.starts_with("<arg_value", after):
            raise NotACall("a key has no value", after)
        return key, None, _tag_end(source, after, spelling.KEY_VALUE_STYLE)

    def _named_extent(self, key: str, start: int) -> tuple[int, int, bool] | None:
        """Return the extent of a value whose closing tag is named after its parameter."""
        source, closer = self._source, f"</{key}>"
        stop = source.find(closer, start)
        at = source.skip_blanks(stop + len(closer))
        style = self._style
        follows = source.starts_with((*style.parameter, *style.call_end), at)
        own = source.find_first(style.parameter_end, start)
        if stop < 0 or not follows or 0 <= own < at:
            return None
        if self._text.find(f"<{key}", start, stop) >= 0:
            raise NotACall("a closing tag may belong to the value", stop)
        return stop, stop + len(closer), False

    def _starts_value(self, at: int) -> bool:
        """Whether a value without its opening mark ends before any other mark."""
        close = self._source.find("</arg_value", at)
        return 0 <= close == self._text.find("<", at, close + 1) and self._text[at].isalnum()

    def _value_extent(self, start: int) -> tuple[int, int, bool]:
        """Return the end of a value, where to continue, and whether the text ended first."""
        source, style, at = self._source, self._style, start
        last = -1
        while True:
            own = source.find_first(style.parameter_end, at)
            other = source.find_first((*style.parameter, *style.call_end), at)
            if own < 0 and other < 0:
                stop = last if last >= 0 else len(self._text)
                return stop, len(self._text), last < 0
            if own >= 0 and (other < 0 or own < other):
                at = _tag_end(source, own, style)
                if self._may_continue(at):
                    return own, at, False
                last = own
            elif self._lacks_closing_tag(other):
                is_key = not source.starts_with(style.call_end, other)
                if last < 0 and is_key and own >= 0 and not self._is_required_key(other):
                    # The tag may be part of the value.
                    raise NotACall("a parameter does not end", other)
                return (last if last >= 0 else other), other, False
            else:
                at = other + 1
            source.spend_fuel(_TAG_COST)

    def _may_continue(self, at: int) -> bool:
        """Whether a call can continue or end after a closing tag."""
        source, style, after = self._source, self._style, self._source.skip_blanks(at)
        follows = (*style.parameter, *style.call_end, *style.call, *spelling.CLOSERS)
        if source.starts_with(style.parameter_end, after):
            return False
        if self._is_bare_key(after):
            return True
        return after >= len(self._text) or source.starts_with(follows, after)

    def _is_required_key(self, at: int) -> bool:
        """Whether the call would lack a required key if the tag at `at` were part of a value."""
        return self._parse_key(at)[0] in self._shape.required

    def _lacks_closing_tag(self, at: int) -> bool:
        """Whether a tag before the value's closing tag belongs to the call."""
        source, style = self._source, self._style
        if source.starts_with(style.call_end, at):
            own = source.find_first(style.parameter_end, at)
            call = source.find_first(style.call, at)
            after = _tag_end(source, at, style)
            ends = self._text[after : after + 1] in ("", "\n", "<")
            return own < 0 or (0 <= call < own and ends)
        try:
            key = self._parse_key(at)[0]
        except NotACall:
            return False
        if style is spelling.KEY_VALUE_STYLE:
            whole = self._text.find("<", at + 1, source.find("</arg_key", at)) < 0
            return key != "" and whole and key not in self._values
        is_new = key not in self._values and (
            key in self._shape.properties or not self._is_known_tool
        )
        return is_new and self._text[at - 1] in "\n>"

    def _typed_value(self, key: str, raw: str, hint: str | None) -> Any:
        """Convert a value to its declared or hinted type."""
        if raw.startswith(_CDATA[0]) and raw.endswith(_CDATA[1]):
            raw = raw[len(_CDATA[0]) : -len(_CDATA[1])].replace(_CDATA_SPLIT, _CDATA[1])
        else:
            raw = self._strip_format_breaks(raw)
        if hint == "string" and key not in self._shape.properties:
            return raw
        return convert_text(
            raw, declared_shape(None if hint and hint != "string" else self._shape, key)
        )

    def _strip_format_breaks(self, raw: str) -> str:
        """Strip the line breaks of the format but no blanks: indentation is data."""
        before, after = raw.startswith("\n"), raw.endswith("\n")
        if not self._style.has_line_breaks:
            before = after = before and after and len(raw) > 1
        raw = raw[1:] if before else raw
        return raw[:-1] if after and raw else raw
