"""Texts of a schema, bounded: what would be refused for its length cannot be written at all.

A model that is bound by a grammar may write the same letter for ever, because nothing tells it to
stop. Only plain texts are bounded; whatever says more about itself is left alone.
"""

from typing import Any, Final

from surecall.parsing.schema_walk import ANY_TYPE, is_untyped, rewritten
from surecall.values.types import JSON

# What servers that make grammars of schemas can repeat.
MOST_REPEATS: Final = 2_000
_BINDS: Final = frozenset({"maxLength", "enum", "const", "format", "pattern"})


def bounded(schema: JSON, longest: int) -> JSON:
    """Return a schema whose plain texts are not longer than so many characters."""

    def bound(part: JSON) -> JSON:
        if is_untyped(part):
            part = part | {"type": list(ANY_TYPE)}
        if not _allows_text(part.get("type")) or _BINDS & part.keys():
            return part
        return part | {"maxLength": max(longest, part.get("minLength", 0))}

    return rewritten(schema, bound)


def _allows_text(kinds: Any) -> bool:
    return kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
