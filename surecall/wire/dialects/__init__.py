"""Recovers tool calls that a model wrote as text, in any dialect of open models.

`recover` needs no model name: the marks in the text determine the dialect. `WRITERS` is the inverse
and has one writer per dialect.
"""

from surecall.wire.dialects.quoted_search import quoted_calls
from surecall.wire.dialects.recovery import extract_reasoning, recover
from surecall.wire.dialects.text_source import (
    OutOfFuel,
    RecoveredCall,
    RecoveredText,
    SkippedCandidate,
)
from surecall.wire.dialects.writers import WEAK_ROWS, WRITERS

__all__ = [
    "WEAK_ROWS",
    "WRITERS",
    "OutOfFuel",
    "RecoveredCall",
    "RecoveredText",
    "SkippedCandidate",
    "extract_reasoning",
    "quoted_calls",
    "recover",
]
