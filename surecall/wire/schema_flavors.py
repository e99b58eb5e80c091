"""Rewrites tool schemas for endpoints that accept only a subset of JSON Schema.

A rewrite keeps the meaning where the subset can express it; where not, it allows more than the
original. Arguments are always validated against the original schema, so nothing is lost.

    $ref, $defs        ─► the referenced schemas inline; a cycle becomes an unconstrained object
    const              ─► an `enum` with one value
    oneOf              ─► `anyOf`
    allOf              ─► one schema with the keywords of all
    type-list          ─► one type, `anyOf` for several, `nullable` for null
    typed              ─► a type where there is none
    any-of-alone       ─► the keywords beside `anyOf` inside each of its branches
    plain-root         ─► one object instead of alternatives at the root
    complete           ─► what a schema must have: a root object, properties, items; nothing null
    kinds              ─► no keyword that does not belong to the type; enumerations of strings
    depth:N            ─► nothing nested deeper than N levels
    simple             ─► only the keywords that every endpoint accepts
    any other keyword  ─► left out
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from surecall.parsing.coercion import is_untyped, rewrite_schema
from surecall.values.types import JSON

TYPE_LIST: Final = "type-list"
TYPED: Final = "typed"
ANY_OF_ALONE: Final = "any-of-alone"
PLAIN_ROOT: Final = "plain-root"
SIMPLE: Final = "simple"
COMPLETE: Final = "complete"
KINDS: Final = "kinds"
DEPTH_PREFIX: Final = "depth:"
# The keywords that mark a reference. They are resolved together.
REFERENCE_KEYWORDS: Final = frozenset({"$ref", "$defs", "definitions"})
# Without these, a definition would mean something else.
NEEDED_KEYWORDS: Final = frozenset(
    {
        *("", "type", "properties", "items", "required", "enum"),
        *("name", "description", "parameters", "function"),
    }
)
_BRANCHES: Final = ("anyOf", "oneOf", "allOf")
_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_LISTS: Final = frozenset({*_BRANCHES, "prefixItems"})
_SINGLE: Final = frozenset({"items", "additionalProperties", "not"})
_SIMPLE_KEYWORDS: Final = frozenset(
    {"type", "properties", "required", "items", "enum", "anyOf", "description"}
)
# Keywords that Gemini accepts for one type only.
_KEYWORD_KINDS: Final = {"properties": "object", "required": "object", "items": "array"}
_VALUE_KEYWORDS: Final = frozenset({"const", "default"})
# References can multiply a schema: beyond this many nodes, they become unconstrained objects.
_MAX_NODES: Final = 5_000
_MAX_DEPTH: Final = 64
_ANY_VALUE: Final = ("string", "number", "boolean")


def is_known_flavor(flavor: str) -> bool:
    """Whether a tool definition can be rewritten in a flavor without losing what it needs."""
    if flavor.startswith(DEPTH_PREFIX):
        return flavor.removeprefix(DEPTH_PREFIX).isdigit()
    return flavor not in NEEDED_KEYWORDS


def rewrite_parameters(parameters: JSON, flavor: str) -> JSON:
    """Return the schema of a tool's arguments in a flavor; the same object if nothing changes."""
    if flavor in REFERENCE_KEYWORDS:
        return _inline_references(parameters)
    if flavor == PLAIN_ROOT:
        return _flatten_root(parameters)
    if flavor.startswith(DEPTH_PREFIX):
        return _limit_depth(parameters, int(flavor.removeprefix(DEPTH_PREFIX)))
    if flavor == COMPLETE or (flavor == TYPED and is_untyped(parameters)):
        parameters = _as_object(parameters)
    change = _REWRITES.get(flavor) or partial(_drop_keyword, keyword=flavor)
    changed = rewrite_schema(parameters, change)
    if changed is parameters:
        return parameters
    # The root keeps its `type`: every endpoint requires that arguments are an object.
    return changed | {key: parameters[key] for key in ("type",) if key in parameters}


def _drop_keyword(schema: JSON, keyword: str) -> JSON:
    return _without(schema, (keyword,)) if keyword in schema else schema


def _without(schema: JSON, keywords: Iterable[str]) -> JSON:
    return {key: value for key, value in schema.items() if key not in keywords}


def _const_to_enum(schema: JSON) -> JSON:
    if "const" not in schema:
        return schema
    return _without(schema, ("const",)) | {"enum": [schema["const"]]}


def _one_of_to_any_of(schema: JSON) -> JSON:
    if "oneOf" not in schema or "anyOf" in schema:
        return _drop_keyword(schema, "oneOf")
    return _without(schema, ("oneOf",)) | {"anyOf": schema["oneOf"]}


def _merge_all_of(schema: JSON) -> JSON:
    branches = schema.get("allOf")
    if not isinstance(branches, list):
        return schema
    merged = _without(schema, ("allOf",))
    for branch in branches:
        merged = merge_schemas(merged, branch) if isinstance(branch, dict) else merged
    return merged


def merge_schemas(one: JSON, other: JSON) -> JSON:
    """Return one schema with the keywords of both; the second wins where they differ."""
    merged = one | other
    for key in ("properties", "$defs", "definitions"):
        if isinstance(one.get(key), dict) and isinstance(other.get(key), dict):
            merged[key] = one[key] | other[key]
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        added = [name for name in other["required"] if name not in one["required"]]
        merged["required"] = one["required"] + added
    return merged


def _split_type_list(schema: JSON) -> JSON:
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    named = [kind for kind in kinds if kind != "null"]
    rest = _without(schema, ("type",)) | ({"nullable": True} if "null" in kinds else {})
    if len(named) == 1:
        return {"type": named[0]} | rest
    choices = [{"type": kind} for kind in named]
    return rest if "anyOf" in schema or not choices else rest | {"anyOf": choices}


def _add_type(schema: JSON) -> JSON:
    """Declare the type of a schema that has none."""
    if "properties" in schema and "type" not in schema:
        return {"type": "object"} | schema
    if "items" in schema and "type" not in schema:
        return {"type": "array"} | schema
    if "type" not in schema and isinstance(schema.get("enum"), list):
        return {"type": _type_of_values(schema["enum"])} | schema
    if is_untyped(schema):
        return schema | {"anyOf": [{"type": kind} for kind in _ANY_VALUE]}
    return schema


def _type_of_values(values: list[Any]) -> str:
    """Return the JSON type of all values; `string` if they have several types."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "integer"
    return "number" if kinds and kinds <= {int, float} else "string"


def _move_into_any_of(schema: JSON) -> JSON:
    """Move the keywords beside `anyOf` into its alternatives."""
    choices = schema.get("anyOf")
    beside = _without(schema, ("anyOf",))
    if not isinstance(choices, list) or not beside:
        return schema
    return {"anyOf": [merge_schemas(beside, each) for each in choices if isinstance(each, dict)]}


def _as_object(schema: JSON) -> JSON:
    return schema if schema.get("type") == "object" else schema | {"type": "object"}


def _complete(schema: JSON) -> JSON:
    """Add what providers miss in a schema, and omit what is null or not defined."""
    kinds = _kinds_of(schema)
    added: JSON = {}
    if "array" in kinds and not isinstance(schema.get("items"), dict | bool):
        added["items"] = {}
    if "object" in kinds and not isinstance(schema.get("properties"), dict):
        added["properties"] = {}
    empty = [key for key in schema if schema[key] is None and key not in _VALUE_KEYWORDS]
    complete = _without(schema, empty) | added
    required, defined = complete.get("required"), complete.get("properties")
    if isinstance(required, list) and isinstance(defined, dict):
        complete["required"] = [name for name in defined if name in required]
    return schema if complete == schema else complete


def _kinds_of(schema: JSON) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def _keep_fitting(schema: JSON) -> JSON:
    """Omit the keywords of other types, and enumerations of anything but strings."""
    values = schema.get("enum")
    texts = isinstance(values, list) and all(isinstance(each, str) for each in values)
    fitting = {"type": "string"} | schema if values and texts and "type" not in schema else schema
    kinds = _kinds_of(fitting)
    dropped = [key for key, kind in _KEYWORD_KINDS.items() if kinds != [None] and kind not in kinds]
    if "enum" in schema and not (values and texts and "string" in kinds):
        dropped += ["enum", *(["format"] if schema.get("format") == "enum" else [])]
    return _without(fitting, dropped) if fitting.keys() & set(dropped) else fitting


def _keep_simple(schema: JSON) -> JSON:
    """Drop all keywords but the simple ones, such as `type` and `properties`."""
    extra = schema.keys() - _SIMPLE_KEYWORDS
    return _without(schema, extra) if extra else schema


_REWRITES: Final[dict[str, Callable[[JSON], JSON]]] = {
    "const": _const_to_enum,
    "oneOf": _one_of_to_any_of,
    "allOf": _merge_all_of,
    TYPE_LIST: _split_type_list,
    TYPED: _add_type,
    ANY_OF_ALONE: _move_into_any_of,
    COMPLETE: _complete,
    KINDS: _keep_fitting,
    SIMPLE: _keep_simple,
}


def _flatten_root(parameters: JSON) -> JSON:
    """Merge the alternatives at the root; a property is required if all of them require it."""
    merged = _without(parameters, _BRANCHES)
    for key in _BRANCHES:
        listed = parameters.get(key)
        branches = [each for each in listed or () if isinstance(each, dict)]
        for branch in branches:
            merged = merge_schemas(merged, _without(branch, ("required", *_BRANCHES)))
        needed = [set(each.get("required") or ()) for each in branches]
        common = set[str]().union(*needed) if key == "allOf" else _intersection(needed)
        required = [*(merged.get("required") or ()), *sorted(common)]
        if required:
            merged["required"] = list(dict.fromkeys(required))
    return parameters if merged == parameters else merged | {"type": "object"}


def _intersection(sets: list[set[str]]) -> set[str]:
    return set.intersection(*sets) if sets else set()


class _ReferenceInliner:
    """Replaces references in one schema by what they refer to."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._left = _MAX_NODES

    def inline(self, schema: JSON, active: tuple[str, ...] = (), depth: int = 0) -> JSON:
        """Return a schema without references; `active` are the references being resolved."""
        self._left -= 1
        if self._left <= 0 or depth > _MAX_DEPTH:
            return {"type": "object"}
        go_down = partial(self.inline, active=active, depth=depth + 1)
        kept = _without(schema, REFERENCE_KEYWORDS)
        beside = {key: map_schemas(key, value, go_down) for key, value in kept.items()}
        pointer = schema.get("$ref")
        if not isinstance(pointer, str):
            return beside
        target = None if pointer in active else self._resolve(pointer)
        if target is None:
            return {"type": "object"} | beside
        return self.inline(target, (*active, pointer), depth + 1) | beside

    def _resolve(self, pointer: str) -> JSON | None:
        """Return the schema that a JSON pointer into the root names; None without one."""
        head, *steps = pointer.split("/")
        found: Any = self._root if head == "#" else None
        for step in steps:
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else None


def _inline_references(parameters: JSON) -> JSON:
    inlined = _ReferenceInliner(parameters).inline(parameters)
    return parameters if inlined == parameters else inlined


def _limit_depth(schema: JSON, levels: int) -> JSON:
    """Return a schema of at most so many levels; deeper ones are unconstrained."""
    if levels <= 1:
        kept = _keep_shallow(schema)
        return schema if kept == schema else kept
    limit = partial(_limit_depth, levels=levels - 1)
    below = {key: map_schemas(key, value, limit) for key, value in schema.items()}
    return schema if below == schema else below


def _keep_shallow(schema: JSON) -> JSON:
    """Drop the keywords that have schemas below them."""
    return {key: schema[key] for key in ("type", "description", "enum") if key in schema}


def map_schemas(key: str, value: Any, change: Callable[[JSON], JSON]) -> Any:
    """Apply a change to the schemas directly below a keyword."""
    match value:
        case dict() if key in _MAPS:
            return {name: _change_schema(item, change) for name, item in value.items()}
        case list() if key in _LISTS:
            return [_change_schema(item, change) for item in value]
        case dict() if key in _SINGLE:
            return change(value)
        case _:
            return value


def _change_schema(item: Any, change: Callable[[JSON], JSON]) -> Any:
    return change(item) if isinstance(item, dict) else item
