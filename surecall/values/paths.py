"""Paths into JSON values: `items[*].id`, `rows[0].name`, `[*]`.

Keys are separated by dots; `[n]` selects one item of a list and `[*]` selects all of them. A path
matches any number of values, or none if it does not fit.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from surecall.values.errors import ConfigError

# An object key, a list index, or None for every item.
Step: TypeAlias = str | int | None


def path_steps(path: str) -> tuple[Step, ...]:
    """Parse a path; raise `ConfigError` if it is malformed."""
    steps: list[Step] = []
    for number, part in enumerate(path.split(".") if path else ()):
        key, *places = part.split("[")
        if key or (number > 0 or not places):
            steps.append(key)
        steps += [_parse_index(path, place) for place in places]
    if "" in steps or any(isinstance(step, str) and "]" in step for step in steps):
        raise ConfigError(f"invalid path {path!r}: use the form items[*].id")
    return tuple(steps)


def _parse_index(path: str, segment: str) -> int | None:
    """Return the number in a segment such as `3]`; None for `*]`."""
    inside = segment.removesuffix("]")
    if segment == "*]":
        return None
    if segment.endswith("]") and inside.isdecimal() and inside.isascii():
        return int(inside)
    raise ConfigError(f"invalid path {path!r}: [{segment} is not a list index")


def values_at(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    """Yield the values that a path matches."""
    found = [value]
    for step in steps:
        found = [item for one in found for item in _children_at(one, step)]
    yield from found


def _children_at(value: Any, step: Step) -> list[Any]:
    """Return the values that one step selects."""
    match value, step:
        case dict(), str() if step in value:
            return [value[step]]
        case list(), None:
            return value
        case list(), int() if step < len(value):
            return [value[step]]
        case _:
            return []
