# ruff: noqa: RUF001 (the quotation marks are what models write)
"""Values that the schema disproves, and the one thing each can stand for instead.

    text_from_number     7            for a text: an integer has one spelling
    null_from_word       "None"       where no such text may stand
    entities_decoded     "&gt;="      where the schema refuses it, and allows ">="
    percents_decoded     "a%20b"      likewise
    text_bared           "“red”"      likewise: quotation marks, control tokens, blanks around it

A value counts as disproved only if its type, its `enum`, `const`, `pattern` or `format` refuse it.
Everything that it may stand for is tried. Where exactly one of these is allowed, it is that; where
two are, the model must say which.
"""

import json
import string
from collections.abc import Callable, Iterator, Mapping
from html import unescape
from html.entities import html5
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec

from surecall.parsing.coercion import Coerced
from surecall.parsing.control_tokens import without_control_tokens
from surecall.values.types import JSON

Place: TypeAlias = tuple[str | int, ...]
# Which keywords of the schema refuse the value that stands at a place.
Disproofs: TypeAlias = Mapping[Place, frozenset[str]]

_DISPROVING = frozenset({"type", "enum", "const", "pattern", "format"})
_NULL_WORDS = frozenset({"null", "Null", "NULL", "None", "nil", "undefined"})
_QUOTES = {"“": "”", "‘": "’", "„": "“", "«": "»", "‹": "›", '"': '"', "'": "'", "`": "`"}
_MAX_LAYERS = 3
_LONGEST_ENTITY = 40
_DIGITS = frozenset(string.digits)
_HEX = frozenset(string.hexdigits)


class _Guess(msgspec.Struct, frozen=True):
    """What a value may stand for, and by which step; without a step it only raises a doubt."""

    value: Any
    step: str = ""


def mended(
    value: JSON, disproofs: Callable[[JSON], Disproofs], fit: Callable[[JSON], Coerced]
) -> Coerced | None:
    """Put the only allowed reading in the place of each disproved value, or give up.

    All places are tried together, guess by guess, so that the value is checked a few times and
    not once per place.
    """
    guesses = {
        place: found
        for place, keywords in disproofs(value).items()
        if keywords <= _DISPROVING and (found := list(_guesses(_at(value, place))))
    }
    fitting: dict[Place, dict[str, _Guess]] = {place: {} for place in guesses}
    for turn in range(max(map(len, guesses.values()), default=0)):
        tried = {place: found[min(turn, len(found) - 1)] for place, found in guesses.items()}
        wrong = disproofs(fit(_with(value, tried)).value)
        for place, guess in tried.items():
            if place not in wrong:
                fitting[place].setdefault(json.dumps(guess.value), guess)
    chosen = {place: guess for place, found in fitting.items() for guess in found.values()}
    sure = all(guess.step for guess in chosen.values())
    if not chosen or not sure or any(len(found) > 1 for found in fitting.values()):
        return None
    coerced = fit(_with(value, chosen))
    steps = (guess.step for guess in chosen.values())
    return None if disproofs(coerced.value) else Coerced(coerced.value, (*steps, *coerced.steps))


def _guesses(value: Any) -> Iterator[_Guess]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield _Guess(str(value), "text_from_number")
    if isinstance(value, str):
        yield from _guesses_of(value)


def _guesses_of(text: str) -> Iterator[_Guess]:
    bare = _bare(text)
    if bare in _NULL_WORDS:
        yield _Guess(None, "null_from_word")
        # It may as well be the allowed word of another case.
        yield from map(_Guess, {bare.lower(), bare.upper(), bare.title()} - {bare})
    found = [(bare, "text_bared")]
    for step, decode in _DECODERS.items():
        decoded = decode(text)
        found += [(decoded, step), (_bare(decoded), step), (decode(bare), step)]
    for other, step in dict(reversed(found)).items():
        if other != text:
            yield _Guess(other, step)


def _bare(text: str) -> str:
    """Take off what is around a text: control tokens, blanks, and quotation marks in pairs."""
    for _ in range(_MAX_LAYERS):
        text = without_control_tokens(text)
        if len(text) > 1 and _QUOTES.get(text[0]) == text[-1]:
            text = text[1:-1]
    return text


def _without_entities(text: str) -> str:
    head, *rest = text.split("&")
    return head + "".join(map(_entity, rest))


def _entity(after: str) -> str:
    """Read what follows an ampersand; an entity ends with its semicolon, or it is none."""
    end = after.find(";", 0, _LONGEST_ENTITY) + 1
    name = after[:end]
    known = html5.get(name) or (unescape(f"&{name}") if _is_number(name[:-1]) else None)
    return f"&{after}" if known is None else known + after[end:]


def _is_number(name: str) -> bool:
    is_hex = name[1:2] in {"x", "X"}
    digits = name[2:] if is_hex else name[1:]
    return name[:1] == "#" and digits != "" and (_HEX if is_hex else _DIGITS).issuperset(digits)


def _without_percents(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


_DECODERS = {"entities_decoded": _without_entities, "percents_decoded": _without_percents}


def _at(value: Any, place: Place) -> Any:
    for step in place:
        value = value[step]
    return value


def _with(value: JSON, guesses: Mapping[Place, _Guess]) -> JSON:
    """Copy a value with guesses put into their places."""
    copied: JSON = {**value}
    own: dict[Place, Any] = {(): copied}
    for place, guess in guesses.items():
        for depth in range(1, len(place)):
            path = place[:depth]
            if path not in own:
                parent = own[path[:-1]]
                own[path] = parent[path[-1]] = _copy(parent[path[-1]])
        own[place[:-1]][place[-1]] = guess.value
    return copied


def _copy(value: Any) -> Any:
    return {**value} if isinstance(value, dict) else [*value]
