"""A JSON schema changed everywhere: in itself, and in all the schemas below it."""

from collections.abc import Callable
from typing import Any, Final

from surecall.values.types import JSON

ANY_TYPE: Final = ("string", "number", "boolean", "object", "array", "null")
_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_ONES: Final = frozenset({"items", "additionalProperties"})
_SAYS: Final = frozenset({"type", "enum", "const", "not", "$ref"}) | _MAPS | _LISTS | _ONES


def is_untyped(schema: JSON) -> bool:
    """Whether a schema says nothing about what kind of value it wants."""
    return not _SAYS & schema.keys()


def rewritten(schema: JSON, change: Callable[[JSON], JSON]) -> JSON:
    """Return a schema with a change made everywhere; the same one (`is`) if it changes nothing."""
    below = {key: _below(key, value, change) for key, value in schema.items()}
    return change(schema if _is_same(below, schema) else below)


def _below(key: str, value: Any, change: Callable[[JSON], JSON]) -> Any:
    match value:
        case dict() if key in _MAPS:
            mapped = {name: _one(item, change) for name, item in value.items()}
            return value if _is_same(mapped, value) else mapped
        case list() if key in _LISTS:
            listed = [_one(item, change) for item in value]
            same = all(new is old for new, old in zip(listed, value, strict=True))
            return value if same else listed
        case dict() if key in _ONES:
            return rewritten(value, change)
        case _:
            return value


def _one(item: Any, change: Callable[[JSON], JSON]) -> Any:
    return rewritten(item, change) if isinstance(item, dict) else item


def _is_same(new: JSON, old: JSON) -> bool:
    return all(new[key] is old[key] for key in old)
