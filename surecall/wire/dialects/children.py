"""Parameters that are tags of their own, `<city>Paris</city>`, nested as the schema says.

MiniMax M3 puts a namespace token before every tag. With it tags cannot be mistaken, so values
may hold any other markup; without it a tag is nested only where the schema wants a container.
"""

from typing import Any, NamedTuple

from surecall.parsing.almost_json import MAX_DEPTH
from surecall.parsing.coercion import Shape
from surecall.values.types import JSON
from surecall.wire.dialects.found import NotACall
from surecall.wire.dialects.source import Source, declared
from surecall.wire.dialects.spelling import LEAD
from surecall.wire.dialects.values import typed

_ITEM = "item"
_CONTAINERS = frozenset({"array", "object"})


class Tag(NamedTuple):
    """`<name>`, where its content begins, and the token that led it."""

    name: str
    end: int
    lead: str


def after_lead(source: Source, at: int) -> int:
    """Pass over blanks, and over the namespace token if it is here."""
    at = source.blanks(at)
    return source.blanks(at + len(LEAD)) if source.at(LEAD, at) else at


def named_tag(source: Source, at: int) -> Tag | None:
    """Read the opening tag that is here, if it is a mere name."""
    at = source.blanks(at)
    lead = LEAD if source.at(LEAD, at) else ""
    at = after_lead(source, at)
    name = source.name(at + 1) if source.at("<", at) else ""
    end = at + 1 + len(name)
    return Tag(name, end + 1, lead) if name and name[0] != "/" and source.at(">", end) else None


def read_children(source: Source, at: int, lead: str, shape: Shape) -> tuple[JSON, int, bool]:
    """Read all parameters in a row: values, end, and whether the text ended first."""
    value, end, cut = _children(source, at, lead, shape, 0)
    if not isinstance(value, dict) or not value:
        raise NotACall("no parameters follow", end)
    return value, end, cut


def _children(
    source: Source, at: int, lead: str, shape: Shape | None, depth: int
) -> tuple[Any, int, bool]:
    """Read `<key>value</key>` as often as it comes."""
    if depth > MAX_DEPTH:
        raise NotACall("the tags are nested too deeply", at)
    pairs: list[tuple[str, Any]] = []
    cut = False
    while not cut and (tag := named_tag(source, at)):
        inner = declared(shape, tag.name)
        nested = named_tag(source, tag.end)
        if nested and (nested.lead == LEAD if lead else _wants(inner, _CONTAINERS)):
            value, at, cut = _children(source, tag.end, lead, inner, depth + 1)
            at = after_lead(source, at)
            if cut or not source.at(f"</{tag.name}>", at):
                raise NotACall(f"{tag.name[:40]!r} is closed by another tag", at)
            at += len(tag.name) + len("</>")
        else:
            stop, at = _extent(source, tag.end, f"{lead}</{tag.name}>", lead or "<")
            cut = stop == at
            value = _leaf(source.text[tag.end : stop], inner)
        pairs.append((tag.name, value))
    return _gathered(pairs, shape, at), at, cut


def _wants(shape: Shape | None, kinds: frozenset[str]) -> bool:
    return shape is not None and bool(shape.kinds) and shape.kinds - {"null"} <= kinds


def _leaf(raw: str, shape: Shape | None) -> Any:
    if not raw.strip() and _wants(shape, _CONTAINERS):
        return [] if _wants(shape, frozenset({"array"})) else {}
    return typed(raw, shape)


def _extent(source: Source, start: int, closing: str, tag: str) -> tuple[int, int]:
    """Find the closing tag after which another tag follows, or nothing."""
    at = start
    while (stop := source.find(closing, at)) >= 0:
        at = stop + len(closing)
        after = source.blanks(at)
        if after >= len(source.text) or source.at(tag, after):
            return stop, at
    return len(source.text), len(source.text)


def _gathered(pairs: list[tuple[str, Any]], shape: Shape | None, at: int) -> Any:
    """Make a list of items, and an object of anything else."""
    items = {key for key, _ in pairs} == {_ITEM} and not (shape and _ITEM in shape.properties)
    if items or _wants(shape, frozenset({"array"})):
        return [value for _, value in pairs]
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotACall("a parameter comes twice", at)
    return found
