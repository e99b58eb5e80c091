"""Tool names as models write them, in ASCII only.

Nothing here knows which tools exist. A resolver tries the `spellings` of what was asked for as
they stand, then looks for the one registered name with the same `fold`; `nearest` is for telling
the model what it may have meant, never for running it.
"""

import difflib
import string
from collections.abc import Iterable

MAX_LENGTH = 64
STAND_IN = "unknown_tool"

_LEGAL = frozenset(string.ascii_letters + string.digits + "_-")
# A table of ASCII alone: `str.lower` would turn the Kelvin sign into the letter k.
_FOLDING = str.maketrans(string.ascii_uppercase + "-.", string.ascii_lowercase + "__")
_CONTROL_MARK = "<|"
# `tool:` is left out on purpose: it comes with invented suffixes, so the model is asked again.
_PREFIXES = (
    "functions.",
    "functions:",
    "function.",
    "tools.",
    "tool.",
    "default_api.",
    "default_api:",
    "google:",
    "creating:",
)


def is_legal(name: str) -> bool:
    """Whether every provider accepts this name: 1 to 64 of `A-Z a-z 0-9 _ -`."""
    return 0 < len(name) <= MAX_LENGTH and _LEGAL.issuperset(name)


def fold(name: str) -> str:
    """Reduce a name to what decides a near match: ASCII case, and `-` and `.` read as `_`."""
    return name.translate(_FOLDING)


def spellings(asked: str) -> tuple[str, ...]:
    """List what `asked` may stand for, likeliest first: as it is, then without known noise."""
    name = asked.strip(string.whitespace)
    cut = name.partition(_CONTROL_MARK)[0].strip(string.whitespace)
    found = (name, _without_prefix(name), cut, _without_prefix(cut))
    return tuple(dict.fromkeys(spelling for spelling in found if spelling))


def legal(name: str) -> str:
    """Return a name that may stand in the history for one that may not."""
    if is_legal(name):
        return name
    name = name.strip(string.whitespace)[:MAX_LENGTH]
    return "".join(mark if mark in _LEGAL else "_" for mark in name) or STAND_IN


def nearest(asked: str, names: Iterable[str], limit: int = 3) -> tuple[str, ...]:
    """Pick the names most like `asked`, best first."""
    by_fold: dict[str, list[str]] = {}
    for name in names:
        by_fold.setdefault(fold(name), []).append(name)
    # Comparing takes quadratic time in the length, and the length is the model's choice.
    wanted = fold(asked.strip(string.whitespace)[:MAX_LENGTH])
    close = difflib.get_close_matches(wanted, by_fold, n=max(1, limit))
    return tuple(name for folded in close for name in by_fold[folded])[: max(0, limit)]


def _without_prefix(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix).strip(string.whitespace)
    return name
