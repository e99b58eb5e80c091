"""Arguments fitted to the tool's schema: by declared type, without loss, each change named.

    unwrapped               {"arguments": {…}} around the arguments of a tool that has no such key
    number_from_text        "2"      boolean_from_text  "true"     } where that type is declared
    container_from_text     "[1]"    null_from_text     "null"     } and a string is not
    integer_from_float      3.0, where an integer is declared
    null_optional_dropped   null     } for an optional property
    empty_optional_dropped  ""       } whose own schema refuses it

Only what the schema surely rejects is touched, and 3.0, which is an integer to JSON Schema and none
to Python. A text has one reading as JSON, so types decide; what could be meant in two ways is left
for the model to say again. Keywords that are not understood allow everything.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from operator import is_
from typing import Any, Optional

import msgspec

from surecall.parsing.arguments import read_arguments
from surecall.values.nesting import decode_json
from surecall.values.types import JSON

_MAX_DEPTH = 64
_MAX_SCHEMA_NODES = 10_000
# Nested alternatives may ask for one value many times; who spends more than this changes nothing.
_MAX_VISITS = 300_000
_CHARS_PER_VISIT = 16
# From here on, a float does not tell which integer was written.
_INEXACT = 2**53

_WRAPPERS = {"args", "arguments", "input", "kwargs", "parameters", "params", "properties"}
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_KINDS: dict[type, str] = {bool: "boolean", dict: "object", int: "integer", list: "array"}
_KINDS |= {str: "string", type(None): "null"}
_ALL_KINDS = frozenset({*_KINDS.values(), "fraction"})
# 3.0 is an integer to JSON Schema, so numbers are told apart by value and not by spelling.
_TYPES = {kind: {kind} for kind in _KINDS.values()} | {"number": {"integer", "fraction"}}
_STEPS = {"array": "container", "fraction": "number", "integer": "number", "object": "container"}
# The empty text is none of these.
_FORMATS = {"date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname"}
_FORMATS |= {"ipv4", "ipv6", "iri", "time", "uri", "uuid"}
_REGEX_SYNTAX = set("^$|?*+(){}[]\\")
_GONE: Any = object()


class Coerced(msgspec.Struct, frozen=True):
    """The fitted value, and the names of the steps that changed something, each once."""

    value: JSON
    steps: tuple[str, ...] = ()


def coercer(schema: JSON) -> Callable[[JSON], Coerced]:
    """Prepare a schema once. The function returned never raises and never mutates."""
    shape = Shapes(schema).of([schema])

    def fit(value: JSON) -> Coerced:
        if shape is None:
            return Coerced(value)
        fitting, before, after = _Fitting(), None, value
        try:
            # Ends with a pass that changes nothing, as a second call would.
            while after is not before:
                before, after = after, fitting.unwrapped(shape, fitting.fit(shape, after, 0))
        except _TooCostly:
            return Coerced(value)
        return Coerced(after, tuple(dict.fromkeys(fitting.steps)))

    return fit


def coerce(value: JSON, schema: JSON) -> Coerced:
    """Fit one value to a schema; for several values, keep the schema's `coercer`."""
    return coercer(schema)(value)


# Shapes


class Shape(msgspec.Struct):
    """What one place demands: all that `$ref`, `allOf` and their siblings say of it, merged."""

    kinds: frozenset[str] = _ALL_KINDS
    texts: frozenset[str] | None = None  # the only texts that an `enum` or `const` allows
    refuses_empty: bool = False
    settled: frozenset[type] = frozenset()  # values of these types need no change
    properties: dict[str, Optional["Shape"]] = {}
    required: frozenset[str] = frozenset()
    rest: Optional["Shape"] = None  # of the properties that are not declared
    allowed: frozenset[str] | None = None  # the only properties that may be there
    prefix: list[Optional["Shape"]] = []
    items: Optional["Shape"] = None
    groups: list[list["Shape"]] = []  # the alternatives of each `anyOf` and `oneOf`
    names: frozenset[str] = frozenset()  # the properties declared here and in alternatives


class Shapes:
    """The shapes of one schema. A place that comes again, as in a loop, has the same shape."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MAX_SCHEMA_NODES
        self._known: dict[frozenset[int], Shape] = {}

    def of(self, schemas: Iterable[Any], depth: int = 0) -> Shape | None:
        """Return what these schemas demand together, or None if they allow everything."""
        parts = self._parts(schemas) if depth < _MAX_DEPTH else []
        if not parts:
            return None
        key = frozenset(map(id, parts))
        if key not in self._known:
            shape = self._known[key] = Shape()
            self._add_groups(shape, parts, depth + 1)
            _add_scalars(shape, parts)
            self._add_properties(shape, parts, depth + 1)
            self._add_items(shape, parts, depth + 1)
        return self._known[key]

    def _parts(self, schemas: Iterable[Any]) -> list[JSON]:
        """Collect every schema that holds of the same place, once."""
        parts: dict[int, JSON] = {}
        waiting = list(schemas) if self._left else []
        while waiting and self._left:
            self._left -= 1
            schema = waiting.pop()
            if isinstance(schema, dict) and id(schema) not in parts:
                parts[id(schema)] = schema
                waiting += [self._resolved(schema.get("$ref")), *_get(schema, "allOf", list)]
        return list(parts.values())

    def _resolved(self, pointer: Any) -> Any:
        start, *segments = pointer.split("/") if isinstance(pointer, str) else [""]
        node = self._root if start == "#" else None
        for segment in segments:
            key = segment.replace("~1", "/").replace("~0", "~")
            node = node.get(key) if isinstance(node, dict) else None
        return node

    def _add_groups(self, shape: Shape, parts: list[JSON], depth: int) -> None:
        for group in (_get(part, key, list) for part in parts for key in ("anyOf", "oneOf")):
            branches = [branch for schema in group if (branch := self.of([schema], depth))]
            if branches and len(branches) == len(group):
                shape.groups.append(branches)

    def _add_properties(self, shape: Shape, parts: list[JSON], depth: int) -> None:
        named: dict[str, list[Any]] = {}
        rest = []
        for part in parts:
            properties = _get(part, "properties", dict)
            for name, schema in properties.items():
                named.setdefault(name, []).append(schema)
            # Names that match a pattern are exempt, and patterns are not looked at.
            more = None if "patternProperties" in part else part.get("additionalProperties")
            rest.append(more)
            if more is False:
                shape.allowed = _both(shape.allowed, frozenset(properties))
        shape.properties = {name: self.of(schemas, depth) for name, schemas in named.items()}
        shape.rest = self.of(rest, depth)
        required = chain.from_iterable(_get(part, "required", list) for part in parts)
        shape.required = frozenset(name for name in required if isinstance(name, str))
        inner = (branch.names for group in shape.groups for branch in group)
        shape.names = frozenset(named).union(*inner)

    def _add_items(self, shape: Shape, parts: list[JSON], depth: int) -> None:
        columns = [(_get(part, "prefixItems", list), part.get("items")) for part in parts]
        for at in range(max(len(prefix) for prefix, _ in columns)):
            row = (prefix[at] if at < len(prefix) else items for prefix, items in columns)
            shape.prefix.append(self.of(row, depth))
        shape.items = self.of([items for _, items in columns], depth)


def _add_scalars(shape: Shape, parts: list[JSON]) -> None:
    kinds = [frozenset().union(*(branch.kinds for branch in group)) for group in shape.groups]
    for part in parts:
        kinds.append(_declared(part.get("type")))
        for options in (part.get("enum"), [part["const"]] if "const" in part else None):
            if isinstance(options, list):
                kinds.append(frozenset(map(_kind, options)))
                texts = frozenset(option for option in options if isinstance(option, str))
                shape.texts = _both(shape.texts, texts)
    shape.kinds = _ALL_KINDS.intersection(*kinds)
    shape.refuses_empty = (
        "string" not in shape.kinds
        or (shape.texts is not None and "" not in shape.texts)
        or any(map(_refuses_empty, parts))
        or any(all(branch.refuses_empty for branch in group) for group in shape.groups)
    )
    settled = {int, bool} if shape.refuses_empty else {int, bool, str}
    shape.settled = frozenset(settled | ({type(None)} if "null" in shape.kinds else set()))


def _declared(types: Any) -> frozenset[str]:
    names = types if isinstance(types, list) and types else [types]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        return _ALL_KINDS
    return frozenset[str]().union(*(_TYPES[name] for name in names))


def _refuses_empty(schema: JSON) -> bool:
    least, pattern, form = (schema.get(key) for key in ("minLength", "pattern", "format"))
    return (
        (isinstance(least, int | float) and least >= 1)
        or (isinstance(form, str) and form in _FORMATS)
        or (isinstance(pattern, str) and _needs_character(pattern))
    )


def _needs_character(pattern: str) -> bool:
    """Whether a pattern plainly begins with a character that must be there. It is never run."""
    body = pattern.removeprefix("^")
    size = 0 if body[:1] in _REGEX_SYNTAX else 1
    if body.startswith("\\") and (body[1:2] in set("dDsSwW") or not body[1:2].isalnum()):
        size = 2
    elif body.startswith("["):
        end = body.find("]", 2)
        inside = body[1:end]
        size = 0 if inside == "^" or "[" in inside or inside.endswith("\\") else end + 1
    after = body[size:]
    optional = after[:1] in {"?", "*"} or (after[:1] == "{" and after[1:2] not in set("123456789"))
    return 0 < size <= len(body) and "|" not in body and not optional


def _get(schema: JSON, key: str, kind: type) -> Any:
    value = schema.get(key)
    return value if isinstance(value, kind) else kind()


def _both(one: frozenset[str] | None, other: frozenset[str]) -> frozenset[str]:
    return other if one is None else one & other


def _kind(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "fraction"
    return _KINDS.get(type(value), "")


# Fitting


class _TooCostly(Exception):
    """The visits are used up."""


class _Fitting(msgspec.Struct):
    """One call: the steps taken and the visits left. What needs no change is returned as it is."""

    steps: list[str] = []
    left: int = _MAX_VISITS

    def fit(self, shape: Shape, value: Any, depth: int) -> Any:
        """Change what the shape rejects and what has one reading that it allows."""
        self._spend(1)
        if isinstance(value, str) and "string" not in shape.kinds:
            value = self._from_text(value, shape.kinds)
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, dict):
            value = self._object(shape, value, depth + 1)
        elif isinstance(value, list):
            value = self._array(shape, value, depth + 1)
        elif isinstance(value, float):
            return self._from_float(value, shape.kinds)
        else:
            return value
        for group in shape.groups:
            value = self._branch(group, value, depth + 1)
        return value

    def unwrapped(self, shape: Shape, value: Any) -> Any:
        """Take off a sole key that is not the tool's and only says "these are the arguments"."""
        sole = isinstance(value, dict) and len(value) == 1
        if not sole or not value.keys() <= _WRAPPERS - shape.names:
            return value
        (inner,) = value.values()
        inner = self._read(inner) if isinstance(inner, str) else inner
        if not isinstance(inner, dict) or (inner and shape.names.isdisjoint(inner)):
            return value
        return self._took("unwrapped", inner) if self._rejects(shape, value, 0) else value

    def _spend(self, visits: int) -> None:
        self.left -= visits
        if self.left < 0:
            raise _TooCostly

    def _took(self, step: str, value: Any) -> Any:
        self.steps.append(step)
        return value

    def _from_text(self, text: str, kinds: frozenset[str]) -> Any:
        whole, _, fraction = text.partition(".")
        # Of JSON texts, only numbers end in a digit; "2.0" is 2 exactly, however long it is.
        zeros = fraction != "" and not fraction.strip("0") and whole[-1:].isdigit()
        value = self._read(whole if zeros and "fraction" not in kinds else text)
        kind = "fraction" if isinstance(value, float) else _kind(value)
        return self._took(f"{_STEPS.get(kind, kind)}_from_text", value) if kind in kinds else text

    def _read(self, text: str) -> Any:
        """Read JSON text by the rules for arguments; any other text is its own reading."""
        self._spend(len(text) // _CHARS_PER_VISIT)
        if text in _WORDS:
            return _WORDS[text]
        try:
            container = isinstance(decode_json(text), dict | list)
        except ValueError:
            return text
        if not container and text != text.strip():
            return text
        # It is one JSON value, so it cannot break out of the object that is put around it.
        read = read_arguments(f'{{"value":{text}}}', sys.maxsize)
        return text if read.value is None or read.repairs else read.value["value"]

    def _from_float(self, value: float, kinds: frozenset[str]) -> Any:
        whole = value.is_integer() and "integer" in kinds and "fraction" not in kinds
        exact = whole and abs(value) < _INEXACT
        return self._took("integer_from_float", int(value)) if exact else value

    def _object(self, shape: Shape, value: JSON, depth: int) -> JSON:
        changed: JSON = {}
        for name, item in value.items():
            child = shape.properties.get(name, shape.rest)
            if child is None or type(item) in child.settled:
                continue
            optional = name in shape.properties and name not in shape.required
            if optional and (item is None or item == ""):
                blank = "null" if item is None else "empty"
                changed[name] = self._took(f"{blank}_optional_dropped", _GONE)
            elif (fitted := self.fit(child, item, depth)) is not item:
                changed[name] = fitted
        if not changed:
            return value
        items = ((name, changed.get(name, item)) for name, item in value.items())
        return {name: item for name, item in items if item is not _GONE}

    def _array(self, shape: Shape, value: list[Any], depth: int) -> list[Any]:
        if shape.items is None and not shape.prefix:
            return value
        fitted = [
            item if child is None or type(item) in child.settled else self.fit(child, item, depth)
            for child, item in _places(shape, value)
        ]
        return value if all(map(is_, fitted, value)) else fitted

    def _branch(self, group: list[Shape], value: Any, depth: int) -> Any:
        """Fit a container to the one alternative that it can be meant for."""
        able = [branch for branch in group if _kind(value) in branch.kinds]
        if len(able) == 1:
            return self.fit(able[0], value, depth)
        if not all(self._rejects(branch, value, depth) for branch in able):
            return value
        found: list[tuple[Any, list[str]]] = []
        for branch in able:
            before, self.steps = self.steps, []
            fitted = self.fit(branch, value, depth)
            steps, self.steps = self.steps, before
            if steps and not self._rejects(branch, fitted, depth):
                found.append((fitted, steps))
        if not found or any(fitted != found[0][0] for fitted, _ in found):
            return value
        self.steps += found[0][1]
        return found[0][0]

    def _rejects(self, shape: Shape | None, value: Any, depth: int) -> bool:
        """Whether the value surely breaks the schema that the shape was made from."""
        self._spend(1)
        if shape is None or depth > _MAX_DEPTH:
            return False
        return (
            _kind(value) not in shape.kinds
            or _rejects_itself(shape, value)
            or any(self._rejects(child, item, depth + 1) for child, item in _places(shape, value))
            or any(
                all(self._rejects(branch, value, depth + 1) for branch in group)
                for group in shape.groups
            )
        )


def _rejects_itself(shape: Shape, value: Any) -> bool:
    if isinstance(value, dict):
        closed = shape.allowed is not None and not value.keys() <= shape.allowed
        return closed or not shape.required <= value.keys()
    if value == "":
        return shape.refuses_empty
    return isinstance(value, str) and shape.texts is not None and value not in shape.texts


def _places(shape: Shape, value: Any) -> Iterator[tuple[Shape | None, Any]]:
    if isinstance(value, dict):
        children = (shape.properties.get(name, shape.rest) for name in value)
        return zip(children, value.values(), strict=True)
    items = value if isinstance(value, list) else ()
    return zip(chain(shape.prefix, repeat(shape.items)), items, strict=False)  # endless shapes
