"""Whether an answer is a no, told by its words.

The list is short on purpose: "nothing else was changed" is no refusal, and neither is "no problem".
"""

from collections.abc import Iterable
from typing import Final

_CURLY: Final = "\u2019"
_FIRST_WORDS: Final = frozenset({"no", "sorry", "unfortunately", "cannot"})
_HARMLESS: Final = ("no problem", "there is no need", "there is no further", "there is no other")
_REFUSALS: Final = (
    "cannot",
    "can not",
    "can't",
    "could not",
    "couldn't",
    "failed",
    "impossible",
    "no such",
    "not able to",
    "not available",
    "not found",
    "not possible",
    "there is no",
    "unable",
    "unavailable",
    "unfortunately",
)


def says_no(text: str) -> bool:
    """Whether an answer admits that what was asked for was not done."""
    plain = _plain(text)
    for phrase in _HARMLESS:
        plain = plain.replace(phrase, "")
    first = plain.replace(",", " ").replace(".", " ").replace(":", " ").split()[:1]
    return bool(_FIRST_WORDS.intersection(first)) or mentions(plain, _REFUSALS)


def mentions(text: str, words: Iterable[str]) -> bool:
    """Whether a text contains one of some words, whatever the case."""
    plain = _plain(text)
    return any(word.casefold() in plain for word in words)


def _plain(text: str) -> str:
    return " ".join(text.replace(_CURLY, "'").casefold().split())
