"""Finds values in text as whole words, and the numbers that a text contains.

Neither O-77 nor 7731 is a whole word in O-7731: a joiner such as `-` is not a word boundary.
Numbers are found by value: 20 is in "20.00 EUR". They are compared exactly and never as floats,
which cannot distinguish large integers. A word with an ambiguous separator, such as "1,200",
"1.200", or "1 200", contains no number.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Context, Decimal
from typing import Any, Final

from surecall.values.types import FIRST_INEXACT_FLOAT

_JOINERS: Final = "-_./@:#+"
# Between two digits, these may be part of a number.
_DIGIT_GROUPS: Final = ",'\u2019\xa0\u2007\u2009\u202f"
_EDGES: Final = " \t\r\n.,;:!?\"'`()[]{}<>|*\xab\xbb\u2018\u2019\u201c\u201d\u201e"
_SIGNS: Final = "€$£¥%#~≈="
# A point before digits is part of the number.
_BEFORE_NUMBERS: Final = (_EDGES + _SIGNS).replace(".", "")
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_LONGEST_NUMBER: Final = 1_000
# Enough digits that nothing is rounded.
_EXACT: Final = Context(prec=2 * _LONGEST_NUMBER)
_NON_LETTERS: Final = re.compile(r"[\W_]+")
# Spaces that group the digits of one number; the groups are not words of their own.
_JOINED_DIGITS: Final = re.compile(r"(?<=\d)[\xa0\u2007\u2009\u202f](?=\d)")
# `2 500` may be one number or two, with any kind of space.
_SPACES: Final = " \xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_THOUSANDS: Final = re.compile(rf"(?<![\d.,])\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?!\d)")
# `1.200` may be 1200 and `1,200` may be 1.2, so neither counts as a number; `0.125`, `1200.500`,
# and `1,200.50` are unambiguous. A comma alone may also separate two numbers.
_NUMBER: Final = re.compile(
    r"[+-]?(?:\d+"
    r"|(?![1-9]\d{0,2}\.\d{3}(?!\d))\d*\.\d+"
    r"|[1-9]\d{0,2}(?:,\d{3})+\.\d+"
    r"|[1-9]\d{0,2}(?:\.\d{3})+,\d+"
    r")(?:[eE][+-]?\d{1,3})?"
)


def is_value_in(value: str | float, text: str) -> bool:
    """Whether a text contains a value as whole words; numbers are compared by value."""
    if not isinstance(value, str):
        return any(is_same_number(value, number) for number in numbers_in(text))
    return next(_positions(value, text), None) is not None


def blank_out_values(text: str, values: Iterable[Any]) -> str:
    """Return a text with some values replaced by blanks of the same length."""
    for value in map(str, values):
        for at in list(_positions(value, text)):
            text = text[:at] + " " * len(value) + text[at + len(value) :]
    return text


def _positions(value: str, text: str) -> Iterator[int]:
    text = _join_digit_groups(text) if value.isdecimal() else text
    at = text.find(value) if value else -1
    while at >= 0:
        if _is_word_edge(text, at - 1, -1) and _is_word_edge(text, at + len(value), 1):
            yield at
        at = text.find(value, at + 1)


def _is_word_edge(text: str, at: int, step: int) -> bool:
    if not 0 <= at < len(text):
        return True
    beyond = text[at + step] if 0 <= at + step < len(text) else ""
    joins = text[at] in _JOINERS and beyond.isalnum()
    groups = text[at] in _DIGIT_GROUPS and beyond.isdecimal() and text[at - step].isdecimal()
    return not text[at].isalnum() and not joins and not groups


def _join_digit_groups(text: str) -> str:
    """Return a text with underscores in place of spaces between the digit groups of a number."""
    text = _JOINED_DIGITS.sub("_", text)
    return _THOUSANDS.sub(lambda match: "_".join(re.split(r"\D", match[0])), text)


def words_in(text: str) -> Iterator[str]:
    """Yield the words of a text, without surrounding punctuation."""
    return (bare for word in text.split() if (bare := word.strip(_EDGES)))


def numbers_in(text: str) -> Iterator[Decimal]:
    """Yield the exact numbers that are whole words of a text."""
    for word in _join_digit_groups(text).split():
        bare = word.rstrip(_EDGES + _SIGNS).lstrip(_BEFORE_NUMBERS)
        # Most words start with a letter, so this check comes first.
        if bare[:1] in _NUMBER_STARTS and len(bare) <= _LONGEST_NUMBER and _NUMBER.fullmatch(bare):
            yield Decimal(_decimal_text(bare))


def _decimal_text(number: str) -> str:
    """Return a number without thousands separators, and with a decimal point."""
    comma, point = number.rfind(","), number.rfind(".")
    if comma < 0:
        return number
    if comma < point:
        return number.replace(",", "")
    return number.replace(".", "").replace(",", ".")


def is_same_number(one: Any, other: Any) -> bool:
    """Whether two numbers are equal; a float from `FIRST_INEXACT_FLOAT` only equals a float."""
    if isinstance(one, float) is isinstance(other, float):
        return bool(one == other)
    written, number = (other, one) if isinstance(one, float) else (one, other)
    if abs(number) >= FIRST_INEXACT_FLOAT:
        return False
    # A fraction with more digits than a float can hold is rounded to the nearest float.
    return bool(float(written) == number if isinstance(written, Decimal) else written == number)


def normalized_value(value: str | float) -> str:
    """Return a value without its spelling: 666 for `"0666"`, `666.0`, and `"#666 "`."""
    text = unicodedata.normalize("NFKC", str(value))
    numbers = list(numbers_in(text)) if len(text.split()) == 1 else []
    if numbers:
        return f"{numbers[0].normalize(_EXACT):f}"
    return _NON_LETTERS.sub("", text.casefold())
