"""Tool calls that a model wrote as text, in any of the dialects that open models use.

`recover` needs no model name: the marks in the text say which dialect it is. `WRITERS` is the
inverse, one writer per dialect.
"""

from surecall.wire.dialects.engine import recover, without_thoughts
from surecall.wire.dialects.found import Found, PassedOver, Recovered
from surecall.wire.dialects.writing import WEAK_ROWS, WRITERS

__all__ = [
    "WEAK_ROWS",
    "WRITERS",
    "Found",
    "PassedOver",
    "Recovered",
    "recover",
    "without_thoughts",
]
