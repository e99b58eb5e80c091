"""Parameters that are tags of their own, `<city>Paris</city>`, nested as the schema says.

MiniMax M3 puts a namespace token before every tag. With it tags cannot be mistaken, so values
may hold any other markup; without it a tag is nested only where the schema wants a container.
"""

from typing import Any

from surecall.dialects.found import NotACall
from surecall.dialects.source import Source
from surecall.dialects.spelling import LEAD
from surecall.dialects.values import resolved, typed
from surecall.lenient import MAX_DEPTH
from surecall.types import JSON, ToolSpec

_ITEM = "item"


def after_lead(source: Source, at: int) -> int:
    """Pass over blanks, and over the namespace token if it stands here."""
    at = source.blanks(at)
    return source.blanks(at + len(LEAD)) if source.text.startswith(LEAD, at) else at


def named_tag(source: Source, at: int) -> tuple[str, int, str] | None:
    """Read `<name>`: the name, where its content begins, and the token that led it."""
    at = source.blanks(at)
    lead = LEAD if source.text.startswith(LEAD, at) else ""
    at = after_lead(source, at)
    name = source.name(at + 1) if source.text.startswith("<", at) else ""
    end = at + 1 + len(name)
    ends = source.text.startswith(">", end)
    return (name, end + 1, lead) if name and name[0] != "/" and ends else None


def read_children(
    source: Source, at: int, lead: str, spec: ToolSpec | None
) -> tuple[JSON, int, bool]:
    """Read all parameters in a row: values, end, and whether the text ended first."""
    root = spec.parameters if spec else {}
    value, end, cut = _Reader(source, lead, root).children(at, root, 0)
    if not isinstance(value, dict) or not value:
        raise NotACall("no parameters follow", end)
    return value, end, cut


class _Reader:
    """What stays the same from tag to tag."""

    def __init__(self, source: Source, lead: str, root: JSON) -> None:
        self._source = source
        self._lead = lead
        self._root = root

    def children(self, at: int, schema: object, depth: int) -> tuple[Any, int, bool]:
        """Read `<key>value</key>` as often as it comes."""
        if depth > MAX_DEPTH:
            raise NotACall("the tags are nested too deeply", at)
        shape = resolved(schema, self._root)
        pairs: list[tuple[str, Any]] = []
        while tag := named_tag(self._source, at):
            key, start, _ = tag
            value, at, cut = self._child(key, start, _inner(shape, key), depth)
            pairs.append((key, value))
            if cut:
                return _gathered(pairs, shape), at, True
        return _gathered(pairs, shape), at, False

    def _child(self, key: str, start: int, schema: object, depth: int) -> tuple[Any, int, bool]:
        source, closing = self._source, f"</{key}>"
        kind = resolved(schema, self._root).get("type")
        tag = named_tag(source, start)
        nested = tag and (tag[2] == LEAD if self._lead else kind in ("object", "array"))
        if nested:
            value, end, cut = self.children(start, schema, depth + 1)
            end = after_lead(source, end)
            if cut or not source.text.startswith(closing, end):
                raise NotACall(f"{key[:40]!r} is closed by another tag", end)
            return value, end + len(closing), False
        stop, end = self._extent(start, closing)
        raw = source.text[start:stop]
        if kind in ("object", "array") and not raw.strip():
            return ({} if kind == "object" else []), end, stop == end
        return typed(raw, schema, self._root), end, stop == end

    def _extent(self, start: int, closing: str) -> tuple[int, int]:
        """Find the closing tag after which another tag follows, or nothing."""
        source, at = self._source, start
        while (stop := source.find(f"{self._lead}{closing}", at)) >= 0:
            at = stop + len(self._lead) + len(closing)
            after = source.blanks(at)
            if after >= len(source.text) or source.text.startswith((self._lead or "<"), after):
                return stop, at
        return len(source.text), len(source.text)


def _inner(shape: JSON, key: str) -> object:
    properties = shape.get("properties")
    if shape.get("type") == "array":
        return shape.get("items")
    return properties.get(key) if isinstance(properties, dict) else None


def _gathered(pairs: list[tuple[str, Any]], shape: JSON) -> Any:
    """Make a list of items, and an object of anything else; a repeated key is a list too."""
    if shape.get("type") == "array" or (pairs and {key for key, _ in pairs} == {_ITEM}):
        return [value for _, value in pairs]
    found: JSON = {}
    for key, value in pairs:
        if key in found:
            raise NotACall(f"the parameter {key[:40]!r} comes twice", 0)
        found[key] = value
    return found
