"""Values among words: whether a text has one in it as a word of its own, and which numbers it has.

O-77 does not stand in O-7731, nor 7731 in O-7731: what joins two parts of a name ends none. A
number is found by its worth: 20 stands in "20.00 EUR".
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

_JOINERS: Final = "-_./@:#+"
_EDGES: Final = " \t\r\n.,;:!?\"'`()[]{}<>|*\xab\xbb\u2018\u2019\u201c\u201d\u201e"
_SIGNS: Final = "€$£¥%#~≈="


def stands_in(value: str | float, text: str) -> bool:
    """Whether a text has a value in it, as whole words; a number by its worth."""
    if not isinstance(value, str):
        return any(number == value for number in numbers_in(text))
    return next(_places(value, text), None) is not None


def without(text: str, values: Iterable[Any]) -> str:
    """Return a text with blanks in the places of some values."""
    for value in map(str, values):
        for at in list(_places(value, text)):
            text = text[:at] + " " * len(value) + text[at + len(value) :]
    return text


def _places(value: str, text: str) -> Iterator[int]:
    at = text.find(value) if value else -1
    while at >= 0:
        if _is_edge(text, at - 1, -1) and _is_edge(text, at + len(value), 1):
            yield at
        at = text.find(value, at + 1)


def _is_edge(text: str, at: int, step: int) -> bool:
    if not 0 <= at < len(text):
        return True
    beyond = at + step
    joins = text[at] in _JOINERS and 0 <= beyond < len(text) and text[beyond].isalnum()
    return not text[at].isalnum() and not joins


def words_in(text: str) -> Iterator[str]:
    """Return the words of a text, without the marks around them."""
    return (bare for word in text.split() if (bare := word.strip(_EDGES)))


def numbers_in(text: str) -> Iterator[float]:
    """Return the numbers that stand in a text as words of their own."""
    for word in text.split():
        bare = word.strip(_EDGES + _SIGNS)
        if bare[:1] in set("+-.0123456789") and bare[-1:].isdecimal():
            for written in dict.fromkeys((bare, bare.replace(",", ""))):
                try:
                    yield float(written)
                except ValueError:
                    continue
