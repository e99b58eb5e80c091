"""Converts arguments to the types that a schema declares, where that is lossless.

    unwrapped               {"arguments": {…}} around the arguments of a tool without such a key
    number_from_text        "2"      boolean_from_text  "true"     } where that type is declared
    container_from_text     "[1]"    null_from_text     "null"     } and a string is not
    integer_from_float      3.0, where an integer is declared
    null_optional_dropped   null     } for an optional property
    empty_optional_dropped  ""       } whose schema rejects it

Only values that the schema certainly rejects are changed, plus 3.0, which is an integer in JSON
Schema but not in Python. A text has one meaning as JSON, so the declared type decides. Ambiguous
values are left unchanged, and the error is sent back to the model. Unsupported keywords are
treated as allowing everything.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, repeat
from operator import is_
from typing import Any, Final, Optional, Protocol

import msgspec

from surecall.parsing.arguments import parse_arguments
from surecall.parsing.budget import WorkBudget, node_count
from surecall.values.nesting import decode_json
from surecall.values.types import FIRST_INEXACT_FLOAT, JSON

# Rewriting a JSON Schema and all schemas below it.

ALL_TYPES: Final = ("string", "number", "boolean", "object", "array", "null")
_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_SCHEMA_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE_SCHEMAS: Final = frozenset({"items", "additionalProperties"})
_TYPE_KEYWORDS: Final = (
    frozenset({"type", "enum", "const", "not", "$ref"})
    | _SCHEMA_MAPS
    | _SCHEMA_LISTS
    | _SINGLE_SCHEMAS
)


def is_untyped(schema: JSON) -> bool:
    """Whether a schema does not constrain the type of its values."""
    return not _TYPE_KEYWORDS & schema.keys()


def rewrite_schema(schema: JSON, change: Callable[[JSON], JSON]) -> JSON:
    """Apply a change to a schema and all schemas below it; return the same object if unchanged."""
    below = {key: _rewrite_keyword(key, value, change) for key, value in schema.items()}
    return change(schema if _has_same_values(below, schema) else below)


def _rewrite_keyword(key: str, value: Any, change: Callable[[JSON], JSON]) -> Any:
    """Apply a change to the schemas below a keyword; return the new value of the keyword."""
    match value:
        case dict() if key in _SCHEMA_MAPS:
            mapped = {name: _rewrite_item(item, change) for name, item in value.items()}
            return value if _has_same_values(mapped, value) else mapped
        case list() if key in _SCHEMA_LISTS:
            listed = [_rewrite_item(item, change) for item in value]
            same = all(new is old for new, old in zip(listed, value, strict=True))
            return value if same else listed
        case dict() if key in _SINGLE_SCHEMAS:
            return rewrite_schema(value, change)
        case _:
            return value


def _rewrite_item(item: Any, change: Callable[[JSON], JSON]) -> Any:
    return rewrite_schema(item, change) if isinstance(item, dict) else item


def _has_same_values(new: JSON, old: JSON) -> bool:
    return all(new[key] is old[key] for key in old)


_MAX_DEPTH = 64
_MAX_SCHEMA_NODES = 10_000
# Nested alternatives may visit one value many times. Beyond this limit, nothing is changed.
_MAX_VISITS = 300_000
_MIN_VISITS = 10_000
_VISITS_PER_NODE = 16
_UNITS_PER_VISIT = 2
_PARTS_PER_VISIT = 4
_CHARS_PER_VISIT = 16

_WRAPPERS = {"args", "arguments", "input", "kwargs", "parameters", "params", "properties"}
_BOOLEAN_WORDS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_KINDS: dict[type, str] = {bool: "boolean", dict: "object", int: "integer", list: "array"}
_KINDS |= {str: "string", type(None): "null"}
_ALL_KINDS = frozenset({*_KINDS.values(), "fraction"})
# 3.0 is an integer in JSON Schema, so numbers are classified by value and not by spelling.
_TYPES = {kind: {kind} for kind in _KINDS.values()} | {"number": {"integer", "fraction"}}
_STEP_PREFIXES = {
    "array": "container",
    "fraction": "number",
    "integer": "number",
    "object": "container",
}
# The empty string is invalid in each of these formats.
_FORMATS = {"date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname"}
_FORMATS |= {"ipv4", "ipv6", "iri", "time", "uri", "uuid"}
_REGEX_SYNTAX = set("^$|?*+(){}[]\\")
_REMOVED: Any = object()


class Coercion(msgspec.Struct, frozen=True):
    """The fitted value, and the distinct names of the repairs made."""

    value: JSON
    steps: tuple[str, ...] = ()


class Coercer(Protocol):
    """Fits values to one schema, within a work budget."""

    def __call__(self, value: Any, budget: WorkBudget | None = None, /) -> Coercion:
        """Return the fitted value; it is unchanged if fitting takes too much work."""


def coercer(schema: JSON) -> Coercer:
    """Return the coercer of a schema. It never raises and never mutates its argument."""
    shape = SchemaShapes(schema).shape_for([schema])

    def fit(value: JSON, budget: WorkBudget | None = None, /) -> Coercion:
        if shape is None:
            return Coercion(value)
        budget = budget or WorkBudget()
        for per_node in (0, _VISITS_PER_NODE):
            most = per_node and min(_MAX_VISITS, per_node * node_count(value, _MAX_VISITS))
            with suppress(_TooCostly):
                return _fit_within(shape, value, max(most, _MIN_VISITS), budget)
            if budget.is_exhausted:
                break
        return Coercion(value)

    return fit


def _fit_within(shape: "SchemaShape", value: JSON, max_visits: int, budget: WorkBudget) -> Coercion:
    """Fit a value; raise `_TooCostly` if it takes more than `max_visits` or the budget."""
    may = min(max_visits, budget.remaining // _UNITS_PER_VISIT)
    fitting, before, after = _Fitter(remaining=may), None, value
    try:
        # The last pass changes nothing, so a second call would not either.
        while after is not before:
            before, after = after, fitting.unwrap(shape, fitting.fit(shape, after, 0))
    except _TooCostly:
        if may < max_visits:
            budget.exhaust()
        raise
    finally:
        budget.spend(_UNITS_PER_VISIT * min(may, may - fitting.remaining))
    return Coercion(after, tuple(dict.fromkeys(fitting.steps)))


def coerce(value: JSON, schema: JSON) -> Coercion:
    """Fit one value to a schema. For several values, reuse the schema's `coercer`."""
    return coercer(schema)(value)


# Shapes


class SchemaShape(msgspec.Struct):
    """The constraints on one value, merged from `$ref`, `allOf`, and their siblings."""

    kinds: frozenset[str] = _ALL_KINDS
    allowed_texts: frozenset[str] | None = None  # the only strings that an `enum` or `const` allows
    refuses_empty: bool = False
    unchanged_types: frozenset[type] = frozenset()  # values of these types need no change
    properties: dict[str, Optional["SchemaShape"]] = {}
    required: frozenset[str] = frozenset()
    other_properties: Optional["SchemaShape"] = None  # of undeclared properties
    allowed_properties: frozenset[str] | None = None  # the only properties allowed, if limited
    prefix: list[Optional["SchemaShape"]] = []
    items: Optional["SchemaShape"] = None
    groups: list[list["SchemaShape"]] = []  # the alternatives of each `anyOf` and `oneOf`
    all_names: frozenset[str] = frozenset()  # the properties declared here and in alternatives


class SchemaShapes:
    """The shapes of one schema. Recursive references share one shape."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MAX_SCHEMA_NODES
        self._known: dict[frozenset[int], SchemaShape] = {}

    def shape_for(self, schemas: Iterable[Any], depth: int = 0) -> SchemaShape | None:
        """Return the combined shape of some schemas, or None if they allow everything."""
        parts = self._collect_parts(schemas) if depth < _MAX_DEPTH else []
        if not parts:
            return None
        key = frozenset(map(id, parts))
        if key not in self._known:
            shape = self._known[key] = SchemaShape()
            self._add_groups(shape, parts, depth + 1)
            _add_scalars(shape, parts)
            self._add_properties(shape, parts, depth + 1)
            self._add_items(shape, parts, depth + 1)
        return self._known[key]

    def _collect_parts(self, schemas: Iterable[Any]) -> list[JSON]:
        """Collect the distinct schemas that apply to the same value."""
        parts: dict[int, JSON] = {}
        waiting = list(schemas) if self._left else []
        while waiting and self._left:
            self._left -= 1
            schema = waiting.pop()
            if isinstance(schema, dict) and id(schema) not in parts:
                parts[id(schema)] = schema
                waiting += [
                    self._resolve(schema.get("$ref")),
                    *_value_or_empty(schema, "allOf", list),
                ]
        return list(parts.values())

    def _resolve(self, pointer: Any) -> Any:
        start, *segments = pointer.split("/") if isinstance(pointer, str) else [""]
        node = self._root if start == "#" else None
        for segment in segments:
            key = segment.replace("~1", "/").replace("~0", "~")
            node = node.get(key) if isinstance(node, dict) else None
        return node

    def _add_groups(self, shape: SchemaShape, parts: list[JSON], depth: int) -> None:
        """Add the alternatives of `anyOf` and `oneOf` to a shape."""
        for group in (
            _value_or_empty(part, key, list) for part in parts for key in ("anyOf", "oneOf")
        ):
            branches = [branch for schema in group if (branch := self.shape_for([schema], depth))]
            if branches and len(branches) == len(group):
                shape.groups.append(branches)

    def _add_properties(self, shape: SchemaShape, parts: list[JSON], depth: int) -> None:
        """Add the properties that the parts of a schema declare, allow, and require."""
        named: dict[str, list[Any]] = {}
        rest = []
        for part in parts:
            properties = _value_or_empty(part, "properties", dict)
            for name, schema in properties.items():
                named.setdefault(name, []).append(schema)
            # Names that match a pattern are exempt, and patterns are not evaluated.
            more = None if "patternProperties" in part else part.get("additionalProperties")
            rest.append(more)
            if more is False:
                shape.allowed_properties = _intersect(
                    shape.allowed_properties, frozenset(properties)
                )
        shape.properties = {name: self.shape_for(schemas, depth) for name, schemas in named.items()}
        shape.other_properties = self.shape_for(rest, depth)
        required = chain.from_iterable(_value_or_empty(part, "required", list) for part in parts)
        shape.required = frozenset(name for name in required if isinstance(name, str))
        inner = (branch.all_names for group in shape.groups for branch in group)
        shape.all_names = frozenset(named).union(*inner)

    def _add_items(self, shape: SchemaShape, parts: list[JSON], depth: int) -> None:
        """Add the shapes of the items of a list."""
        columns = [
            (_value_or_empty(part, "prefixItems", list), part.get("items")) for part in parts
        ]
        for at in range(max(len(prefix) for prefix, _ in columns)):
            row = (prefix[at] if at < len(prefix) else items for prefix, items in columns)
            shape.prefix.append(self.shape_for(row, depth))
        shape.items = self.shape_for([items for _, items in columns], depth)


def _add_scalars(shape: SchemaShape, parts: list[JSON]) -> None:
    """Add the allowed kinds and texts to a shape, and whether it rejects empty text."""
    kinds = [frozenset().union(*(branch.kinds for branch in group)) for group in shape.groups]
    for part in parts:
        kinds.append(_declared_kinds(part.get("type")))
        for options in (part.get("enum"), [part["const"]] if "const" in part else None):
            if isinstance(options, list):
                kinds.append(frozenset(map(_kind_of, options)))
                texts = frozenset(option for option in options if isinstance(option, str))
                shape.allowed_texts = _intersect(shape.allowed_texts, texts)
    shape.kinds = _ALL_KINDS.intersection(*kinds)
    shape.refuses_empty = (
        "string" not in shape.kinds
        or (shape.allowed_texts is not None and "" not in shape.allowed_texts)
        or any(map(_rejects_empty_text, parts))
        or any(all(branch.refuses_empty for branch in group) for group in shape.groups)
    )
    settled = {int, bool} if shape.refuses_empty else {int, bool, str}
    shape.unchanged_types = frozenset(settled | ({type(None)} if "null" in shape.kinds else set()))


def _declared_kinds(types: Any) -> frozenset[str]:
    names = types if isinstance(types, list) and types else [types]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        return _ALL_KINDS
    return frozenset[str]().union(*(_TYPES[name] for name in names))


def _rejects_empty_text(schema: JSON) -> bool:
    least, pattern, form = (schema.get(key) for key in ("minLength", "pattern", "format"))
    return (
        (isinstance(least, int | float) and least >= 1)
        or (isinstance(form, str) and form in _FORMATS)
        or (isinstance(pattern, str) and _needs_character(pattern))
    )


def _needs_character(pattern: str) -> bool:
    """Whether a pattern clearly starts with a required character. The pattern is never run."""
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


def _value_or_empty(schema: JSON, key: str, kind: type) -> Any:
    """Return the value of a keyword if it has the expected type; else an empty one."""
    value = schema.get(key)
    return value if isinstance(value, kind) else kind()


def _intersect(one: frozenset[str] | None, other: frozenset[str]) -> frozenset[str]:
    """Return what both sets contain; None stands for everything."""
    return other if one is None else one & other


def _kind_of(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "fraction"
    return _KINDS.get(type(value), "")


# Fitting


class _TooCostly(Exception):
    """The visits are exhausted."""


class _Fitter(msgspec.Struct):
    """One coercion: its steps and remaining visits. Unchanged values are returned themselves."""

    steps: list[str] = []
    remaining: int = _MAX_VISITS

    def fit(self, shape: SchemaShape, value: Any, depth: int) -> Any:
        """Convert the parts that the shape rejects and that have one allowed meaning."""
        self._spend(_visit_count(shape, value))
        if isinstance(value, str) and "string" not in shape.kinds:
            value = self._convert_text(value, shape.kinds)
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, dict):
            value = self._fit_object(shape, value, depth + 1)
        elif isinstance(value, list):
            value = self._fit_array(shape, value, depth + 1)
        elif isinstance(value, float):
            return self._convert_float(value, shape.kinds)
        else:
            return value
        for group in shape.groups:
            value = self._fit_alternative(group, value, depth + 1)
        return value

    def unwrap(self, shape: SchemaShape, value: Any) -> Any:
        """Remove an undeclared only key, such as `arguments`, around the arguments."""
        sole = isinstance(value, dict) and len(value) == 1
        if not sole or not value.keys() <= _WRAPPERS - shape.all_names:
            return value
        (inner,) = value.values()
        inner = self._parse_text(inner) if isinstance(inner, str) else inner
        if not isinstance(inner, dict) or (inner and shape.all_names.isdisjoint(inner)):
            return value
        return self._record_step("unwrapped", inner) if self._rejects(shape, value, 0) else value

    def _spend(self, visits: int) -> None:
        self.remaining -= visits
        if self.remaining < 0:
            raise _TooCostly

    def _record_step(self, step: str, value: Any) -> Any:
        """Record a conversion and return its result."""
        self.steps.append(step)
        return value

    def _convert_text(self, text: str, kinds: frozenset[str]) -> Any:
        """Return what a text encodes if the result has one of the kinds; else the text."""
        whole, _, fraction = text.partition(".")
        # Of JSON texts, only numbers end in a digit; "2.0" is 2 exactly, however long it is.
        zeros = fraction != "" and not fraction.strip("0") and whole[-1:].isdigit()
        value = self._parse_text(whole if zeros and "fraction" not in kinds else text)
        kind = "fraction" if isinstance(value, float) else _kind_of(value)
        return (
            self._record_step(f"{_STEP_PREFIXES.get(kind, kind)}_from_text", value)
            if kind in kinds
            else text
        )

    def _parse_text(self, text: str) -> Any:
        """Parse JSON text by the rules for arguments; return any other text unchanged."""
        self._spend(len(text) // _CHARS_PER_VISIT)
        if text in _BOOLEAN_WORDS:
            return _BOOLEAN_WORDS[text]
        try:
            container = isinstance(decode_json(text), dict | list)
        except ValueError:
            return text
        if not container and text != text.strip():
            return text
        # It is one JSON value, so it cannot escape the object around it.
        read = parse_arguments(f'{{"value":{text}}}', sys.maxsize)
        return text if read.value is None or read.repairs else read.value["value"]

    def _convert_float(self, value: float, kinds: frozenset[str]) -> Any:
        """Return a whole float as an integer if only that is allowed; else unchanged."""
        whole = value.is_integer() and "integer" in kinds and "fraction" not in kinds
        exact = whole and abs(value) < FIRST_INEXACT_FLOAT
        return self._record_step("integer_from_float", int(value)) if exact else value

    def _fit_object(self, shape: SchemaShape, value: JSON, depth: int) -> JSON:
        """Return an object with its properties fitted; the same one if none changes."""
        changed: JSON = {}
        for name, item in value.items():
            child = shape.properties.get(name, shape.other_properties)
            if child is None or type(item) in child.unchanged_types:
                continue
            optional = name in shape.properties and name not in shape.required
            if optional and (item is None or item == ""):
                blank = "null" if item is None else "empty"
                changed[name] = self._record_step(f"{blank}_optional_dropped", _REMOVED)
            elif (fitted := self.fit(child, item, depth)) is not item:
                changed[name] = fitted
        if not changed:
            return value
        items = ((name, changed.get(name, item)) for name, item in value.items())
        return {name: item for name, item in items if item is not _REMOVED}

    def _fit_array(self, shape: SchemaShape, value: list[Any], depth: int) -> list[Any]:
        """Return a list with its items fitted; the same one if none changes."""
        if shape.items is None and not shape.prefix:
            return value
        fitted = [
            item
            if child is None or type(item) in child.unchanged_types
            else self.fit(child, item, depth)
            for child, item in _shapes_and_children(shape, value)
        ]
        return value if all(map(is_, fitted, value)) else fitted

    def _fit_alternative(self, group: list[SchemaShape], value: Any, depth: int) -> Any:
        """Fit a list or object to the only alternative that it can match."""
        able = [branch for branch in group if _kind_of(value) in branch.kinds]
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

    def _rejects(self, shape: SchemaShape | None, value: Any, depth: int) -> bool:
        """Whether the schema behind the shape certainly rejects the value."""
        if shape is None or depth > _MAX_DEPTH:
            return False
        self._spend(_visit_count(shape, value))
        return (
            _kind_of(value) not in shape.kinds
            or _is_rejected_by_itself(shape, value)
            or any(
                self._rejects(child, item, depth + 1)
                for child, item in _shapes_and_children(shape, value)
            )
            or any(
                all(self._rejects(branch, value, depth + 1) for branch in group)
                for group in shape.groups
            )
        )


def _visit_count(shape: SchemaShape, value: Any) -> int:
    """Return the cost of inspecting a value, more for many parts or required keys."""
    keys = len(shape.required) if isinstance(value, dict) else 0
    parts = len(value) if isinstance(value, dict | list) else 0
    return 1 + (keys + parts) // _PARTS_PER_VISIT


def _is_rejected_by_itself(shape: SchemaShape, value: Any) -> bool:
    """Whether a shape rejects a value of an allowed kind, whatever its children are."""
    if isinstance(value, dict):
        closed = (
            shape.allowed_properties is not None and not value.keys() <= shape.allowed_properties
        )
        return closed or not shape.required <= value.keys()
    if value == "":
        return shape.refuses_empty
    return (
        isinstance(value, str)
        and shape.allowed_texts is not None
        and value not in shape.allowed_texts
    )


def _shapes_and_children(
    shape: SchemaShape, value: Any
) -> Iterator[tuple[SchemaShape | None, Any]]:
    """Return each property or item of a value, after its shape."""
    if isinstance(value, dict):
        children = (shape.properties.get(name, shape.other_properties) for name in value)
        return zip(children, value.values(), strict=True)
    items = value if isinstance(value, list) else ()
    return zip(chain(shape.prefix, repeat(shape.items)), items, strict=False)  # endless shapes
