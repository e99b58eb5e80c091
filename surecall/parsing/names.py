"""Tool names as models write them, in ASCII only.

Nothing here knows which tools exist. A resolver tries the `spellings` of what was asked for as
they stand, then looks for the one registered name with the same `fold`. If there is none, it does
the same with `bare_spellings`, which have lost everything around the name that says nothing.
`nearest` is for telling the model what it may have meant, never for running it.
"""

import string
from collections.abc import Iterable

from surecall.parsing.control_tokens import BLANKS, is_noise, without_control_tokens
from surecall.values.family import closest

MAX_LENGTH = 64
STAND_IN = "unknown_tool"

_LEGAL = frozenset(string.ascii_letters + string.digits + "_-")
# A table of ASCII alone: `str.lower` would turn the Kelvin sign into the letter k.
_FOLDING = str.maketrans(string.ascii_uppercase + "-.", string.ascii_lowercase + "__")
_CONTROL_MARK = "<|"
_CHANNEL = "<|channel|>"
# What may follow a control token behind a name: a channel, or the kind of what comes.
_CHANNELS = frozenset({"analysis", "commentary", "final", "json", "code"})
_RECIPIENT = "to="
_SPEAKERS = _CHANNELS | {"assistant"}
_QUOTES = frozenset("\"'`")
_MAX_LAYERS = 4
# What is longer is no name with something around it.
_LONGEST = 512
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
    cut = _before_channel(name)
    found = (name, _without_prefix(name), cut, _without_prefix(cut))
    return tuple(dict.fromkeys(spelling for spelling in found if spelling))


def bare_spellings(asked: str) -> tuple[str, ...]:
    """List what is left of `asked` without all that is around a name and is no part of one.

    That is what no legal name can hold: control tokens, the header of a harmony message, quotation
    marks, an empty pair of parentheses, the number of a call.
    """
    name = "" if len(asked) > _LONGEST else asked
    for _ in range(_MAX_LAYERS):
        name = _recipient(_before_channel(name.strip(string.whitespace)))
        if name.startswith(_CHANNEL):
            return ()  # it names a channel, not a tool
        name = _without_number(without_control_tokens(name, BLANKS)).removesuffix("()")
        if len(name) > 1 and name[0] in _QUOTES and name[0] == name[-1]:
            name = name[1:-1]
    found = (name, _without_prefix(name))
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
    close = closest(wanted, by_fold, max(1, limit))
    return tuple(name for folded in close for name in by_fold[folded])[: max(0, limit)]


def _before_channel(name: str) -> str:
    """Cut a name at its first control token, if what follows cannot be arguments."""
    head, mark, rest = name.partition(_CONTROL_MARK)
    return head.strip(string.whitespace) if is_noise(mark + rest, _CHANNELS) else name


def _recipient(name: str) -> str:
    """Return whom a harmony header addresses: `commentary to=functions.view` is for `view`."""
    header, mark, recipient = name.partition(_RECIPIENT)
    return recipient if mark and is_noise(header, _SPEAKERS) else name


def _without_number(name: str) -> str:
    head, mark, number = name.rpartition(":")
    return head if mark and number.isascii() and number.isdigit() else name


def _without_prefix(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix).strip(string.whitespace)
    return name
