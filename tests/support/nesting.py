"""Values that are nested too deeply, above the limit of surecall and of every Python."""

from typing import Any, Final

from surecall.values.nesting import MAX_WRAPPED_DEPTH

# Some Pythons encode and decode 5,000 levels, some do not.
DEPTHS: Final = (MAX_WRAPPED_DEPTH + 1, 5_000, 100_000)


def nested(depth: int) -> list[Any]:
    """Return a list with this many levels."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def nested_text(depth: int, opening: str = "[") -> str:
    """Return JSON with this many levels."""
    if opening == "[":
        return "[" * depth + "]" * depth
    return opening * depth + "1" + "}" * depth
