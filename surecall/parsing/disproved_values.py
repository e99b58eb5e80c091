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
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec

from surecall.parsing.coercion import Coerced
from surecall.parsing.control_tokens import NOTHING, without_first_token, without_last_token
from surecall.parsing.entities import entity_named, without_entities
from surecall.values.types import JSON

Place: TypeAlias = tuple[str | int, ...]
# Which keywords of the schema refuse the value that stands at a place.
Disproofs: TypeAlias = Mapping[Place, frozenset[str]]

_DISPROVING = frozenset({"type", "enum", "const", "pattern", "format"})
_NULL_WORDS = frozenset({"null", "Null", "NULL", "None", "nil", "undefined"})
_QUOTES = {"“": "”", "‘": "’", "„": "“", "«": "»", "‹": "›", '"': '"', "'": "'", "`": "`"}
_QUOTE_MARK = '<|"|>'
_BLANKS = "".join(NOTHING)
_MAX_LAYERS = 4
# Each one costs a check of the whole value.
_MAX_GUESSES = 12
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
        if keywords <= _DISPROVING and (found := _guesses(_at(value, place)))
    }
    fitting: dict[Place, dict[str, _Guess]] = {place: {} for place in guesses}
    for turn in range(max(map(len, guesses.values()), default=0)):
        tried = {place: found[min(turn, len(found) - 1)] for place, found in guesses.items()}
        fitted = fit(_with(value, tried)).value
        wrong = disproofs(fitted)
        for place, guess in tried.items():
            if place not in wrong:
                fitting[place].setdefault(_text_at(fitted, place), guess)
    chosen = {place: guess for place, found in fitting.items() for guess in found.values()}
    sure = all(guess.step for guess in chosen.values())
    if not chosen or not sure or any(len(found) > 1 for found in fitting.values()):
        return None
    coerced = fit(_with(value, chosen))
    steps = (guess.step for guess in chosen.values())
    return None if disproofs(coerced.value) else Coerced(coerced.value, (*steps, *coerced.steps))


def _guesses(value: Any) -> list[_Guess]:
    if isinstance(value, int) and not isinstance(value, bool):
        return [_Guess(str(value), "text_from_number")]
    return _guesses_of(value) if isinstance(value, str) else []


def _guesses_of(text: str) -> list[_Guess]:
    """List what a text may stand for; nothing if that is too much to try."""
    layers = _layers(text)
    found = dict.fromkeys(layers, "text_bared")
    for step, decode in _DECODERS.items():
        decoded = [decode(layer) for layer in (text, *layers)]
        for other in (*decoded, *_layers(decoded[0])):
            found.setdefault(other, step)
    guesses = [_Guess(other, step) for other, step in found.items() if other != text]
    words = _NULL_WORDS.intersection((text, *layers))
    # A word for null may as well be an allowed word of another case.
    cases = {change(word) for word in words for change in (str.lower, str.upper, str.title)}
    guesses += [_Guess(None, "null_from_word"), *map(_Guess, cases - words)] if words else []
    return guesses if len(guesses) <= _MAX_GUESSES else []


def _layers(text: str) -> list[str]:
    """Take off what is around a text, one by one: blanks, quotation marks, control tokens.

    Of two tokens, the last goes first; that it was the first one only is a guess as well.
    """
    found: dict[str, None] = {}
    for _ in range(_MAX_LAYERS):
        inside = _unquoted(text.strip(_BLANKS), text)
        if inside == text:
            inside = without_last_token(text)
            found[without_first_token(text)] = None
        found[inside] = None
        text = inside if inside != text else without_first_token(text)
    return list(found)


def _unquoted(text: str, before: str) -> str:
    """Take off one pair of quotation marks, unless something came off before."""
    if text == before and len(text) > 1:
        if _QUOTES.get(text[0]) == text[-1]:
            return text[1:-1]
        if text.startswith(_QUOTE_MARK) and text.endswith(_QUOTE_MARK):
            return text[len(_QUOTE_MARK) : -len(_QUOTE_MARK)]
    return text


def _without_entities(text: str) -> str:
    head, *rest = text.split("&")
    return head + "".join(map(_entity, rest))


def _entity(after: str) -> str:
    """Read what follows an ampersand; an entity ends with its semicolon, or it is none."""
    end = after.find(";", 0, _LONGEST_ENTITY) + 1
    name = after[:end]
    known = entity_named(name) or (without_entities(f"&{name}") if _is_number(name[:-1]) else None)
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


def _text_at(value: Any, place: Place) -> str:
    """Return what has come of a place, as text; blank if the place is gone."""
    try:
        return json.dumps(_at(value, place), sort_keys=True)
    except (LookupError, TypeError):
        return ""


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
