"""How commands print what they found: aligned columns for people, one document for programs."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from surecall.cli.common import say
from surecall.eval.analysis.stats import Interval
from surecall.values.trace import safe_text
from surecall.wire.messages import encode

SCHEMA_VERSION: Final = 1


def say_columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows below their heads; each column but the last as wide as its longest text."""
    lines = [list(map(safe_text, row)) for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (map(str.ljust, line, widths) for line in lines)
    say("\n".join("  ".join(line).rstrip() for line in padded))


def say_document(found: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    say(json_line({"schema_version": SCHEMA_VERSION, **found}))


def json_line(value: Any) -> str:
    """Write JSON on one line, without control characters."""
    return visible(encode(value).decode(), lambda char: json.dumps(char)[1:-1])


def visible(text: str, spell: Callable[[str], str]) -> str:
    """Escape every character that is not printable, except line breaks, as the format does it.

    What `say` makes of such characters could not be read back.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else spell(char) for char in text)


def rate_words(k: int, n: int, bounds: Interval) -> str:
    """Write a rate with its interval: 39/40 97.5% [87.1, 99.6]."""
    if not n:
        return ""
    low, high = bounds
    return f"{k}/{n} {k / n:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
