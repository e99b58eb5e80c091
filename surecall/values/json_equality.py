"""Equality of JSON values.

`equality_key` follows JSON Schema: 1 equals 1.0, true does not equal 1, and key order is ignored.
`is_same_json` also distinguishes 1 from 1.0, because a Python tool can.
"""

import json
import math
from collections.abc import Hashable
from typing import Any


def equality_key(value: Any) -> Hashable:
    """Return a hashable key; two keys are equal if and only if their JSON values are.

    Takes linear time. Integers become bytes, because crafted integers can collide when hashed.
    """
    match value:
        case str() | bool() | None:
            return value
        case int():
            return b"%x" % value
        case float():
            return _float_key(value)
        case dict():
            return frozenset([(key, equality_key(item)) for key, item in value.items()])
        case list() | tuple():
            return tuple([equality_key(item) for item in value])
        case _:
            other: Hashable = value
            return other


def _float_key(value: float) -> Hashable:
    """Return the key of a number that equals an integer's key for the same value."""
    if value.is_integer():
        return b"%x" % int(value)
    return b"NaN" if math.isnan(value) else value  # NaN equals nothing


def is_same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, ignoring key order."""
    return bool(one == other) and _canonical_text(one) == _canonical_text(other)


def _canonical_text(value: Any) -> str:
    """Return JSON text with sorted keys."""
    return json.dumps(value, sort_keys=True)
