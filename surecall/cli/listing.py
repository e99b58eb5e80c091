"""How commands print what they found: aligned columns for people, one document for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from surecall.cli.columns import column_lines
from surecall.cli.common import say, say_exactly
from surecall.cli.screen import screen_of
from surecall.eval.analysis.stats import Interval
from surecall.wire.messages import encode

SCHEMA_VERSION: Final = 1
_COUNTS: Final = 7


def say_columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows below their heads, as wide as the terminal allows."""
    say("\n".join(column_lines(heads, rows, screen_of(sys.stdout).width)))


def say_document(found: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    say_exactly(json_line({"schema_version": SCHEMA_VERSION, **found}))


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


def rate_text(k: int, n: int) -> str:
    """Write a rate for a column: 39/40  98%. Only all is 100 %, and only nothing is 0 %."""
    counts = f"{k}/{n}".rjust(_COUNTS)
    if not n:
        return counts
    share = min(round(100 * k / n), 100 if k == n else 99)
    return f"{counts} {max(share, 1 if k else 0):3}%"
