"""Paths into JSON values: `items[*].id`, `rows[0].name`, `[*]`.

A key, keys after dots, `[n]` for one item of a list, `[*]` for all of them. A path leads to any
number of values; where it does not fit, to none.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from surecall.values.errors import ConfigError

# A key, the place in a list, or None for all places.
Step: TypeAlias = str | int | None


def path_steps(path: str) -> tuple[Step, ...]:
    """Read a path; one that is written wrongly is the caller's error."""
    steps: list[Step] = []
    for number, part in enumerate(path.split(".") if path else ()):
        key, *places = part.split("[")
        if key or (number > 0 or not places):
            steps.append(key)
        steps += [_place(path, place) for place in places]
    if "" in steps or any(isinstance(step, str) and "]" in step for step in steps):
        raise ConfigError(f"the path {path!r} cannot be read: write it like items[*].id")
    return tuple(steps)


def _place(path: str, written: str) -> int | None:
    inside = written.removesuffix("]")
    if written == "*]":
        return None
    if written.endswith("]") and inside.isdecimal() and inside.isascii():
        return int(inside)
    raise ConfigError(f"the path {path!r} cannot be read: [{written} is no place in a list")


def values_at(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    """Return the values that a path leads to."""
    found = [value]
    for step in steps:
        found = [item for one in found for item in _next(one, step)]
    yield from found


def _next(value: Any, step: Step) -> list[Any]:
    match value, step:
        case dict(), str() if step in value:
            return [value[step]]
        case list(), None:
            return value
        case list(), int() if step < len(value):
            return [value[step]]
        case _:
            return []
