# ruff: noqa: RUF001 (the quotation marks are what models write)
"""Repairs single values that the schema rejects and that have exactly one valid alternative.

    text_from_number     7            where a string is required: an integer has one spelling
    null_from_word       "None"       where the schema does not allow this string
    entities_decoded     "&gt;="      where the schema rejects it and allows ">="
    percents_decoded     "a%20b"      likewise
    text_bared           "“red”"      likewise: surrounding quotation marks, control tokens, blanks

A value is repaired only if its `type`, `enum`, `const`, `pattern`, or `format` rejects it. All
alternatives are tried. If the schema allows exactly one, it is used; otherwise the error is sent
back to the model.
"""

import json
import string
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec

from surecall.parsing.coercion import Coercion
from surecall.parsing.names import IGNORED_CHARACTERS, strip_first_token, strip_last_token
from surecall.values.text import html_entity, unescape_html
from surecall.values.types import JSON

ValuePath: TypeAlias = tuple[str | int, ...]
# The schema keywords that reject the value at each path.
Rejections: TypeAlias = Mapping[ValuePath, frozenset[str]]

_REJECTING_KEYWORDS = frozenset({"type", "enum", "const", "pattern", "format"})
_NULL_WORDS = frozenset({"null", "Null", "NULL", "None", "nil", "undefined"})
_QUOTES = {"“": "”", "‘": "’", "„": "“", "«": "»", "‹": "›", '"': '"', "'": "'", "`": "`"}
_QUOTE_MARK = '<|"|>'
_BLANKS = "".join(IGNORED_CHARACTERS)
_MAX_LAYERS = 4
# Each guess costs a validation of the whole value.
_MAX_GUESSES = 12
_LONGEST_ENTITY = 40
_DIGITS = frozenset(string.digits)
_HEX = frozenset(string.hexdigits)


class _Guess(msgspec.Struct, frozen=True):
    """A possible meaning of a value, and its repair; without one, it only adds ambiguity."""

    value: Any
    step: str = ""


def repair_values(
    value: JSON, rejections: Callable[[JSON], Rejections], fit: Callable[[JSON], Coercion]
) -> Coercion | None:
    """Replace each rejected value by its only allowed alternative; return None if that fails.

    All paths are tried together, guess by guess, to keep the number of validations small.
    """
    guesses = {
        place: found
        for place, keywords in rejections(value).items()
        if keywords <= _REJECTING_KEYWORDS and (found := _guesses(_value_at(value, place)))
    }
    fitting: dict[ValuePath, dict[str, _Guess]] = {place: {} for place in guesses}
    for turn in range(max(map(len, guesses.values()), default=0)):
        tried = {place: found[min(turn, len(found) - 1)] for place, found in guesses.items()}
        fitted = fit(_with_guesses(value, tried)).value
        wrong = rejections(fitted)
        for place, guess in tried.items():
            if place not in wrong:
                fitting[place].setdefault(_json_at(fitted, place), guess)
    chosen = {place: guess for place, found in fitting.items() for guess in found.values()}
    sure = all(guess.step for guess in chosen.values())
    if not chosen or not sure or any(len(found) > 1 for found in fitting.values()):
        return None
    coerced = fit(_with_guesses(value, chosen))
    steps = (guess.step for guess in chosen.values())
    return None if rejections(coerced.value) else Coercion(coerced.value, (*steps, *coerced.steps))


def _guesses(value: Any) -> list[_Guess]:
    if isinstance(value, int) and not isinstance(value, bool):
        return [_Guess(str(value), "text_from_number")]
    return _text_guesses(value) if isinstance(value, str) else []


def _text_guesses(text: str) -> list[_Guess]:
    """List the possible meanings of a string; none if there are too many to try."""
    layers = _inner_texts(text)
    found = dict.fromkeys(layers, "text_bared")
    for step, decode in _DECODERS.items():
        decoded = [decode(layer) for layer in (text, *layers)]
        for other in (*decoded, *_inner_texts(decoded[0])):
            found.setdefault(other, step)
    guesses = [_Guess(other, step) for other, step in found.items() if other != text]
    words = _NULL_WORDS.intersection((text, *layers))
    # A word for null may also be an allowed word in another case.
    cases = {change(word) for word in words for change in (str.lower, str.upper, str.title)}
    guesses += [_Guess(None, "null_from_word"), *map(_Guess, cases - words)] if words else []
    return guesses if len(guesses) <= _MAX_GUESSES else []


def _inner_texts(text: str) -> list[str]:
    """Strip blanks, quotation marks, and control tokens around a text; list each stage.

    Of two tokens, the last is stripped first; stripping only the first is listed as well.
    """
    found: dict[str, None] = {}
    for _ in range(_MAX_LAYERS):
        inside = _strip_quotes(text.strip(_BLANKS), text)
        if inside == text:
            inside = strip_last_token(text)
            found[strip_first_token(text)] = None
        found[inside] = None
        text = inside if inside != text else strip_first_token(text)
    return list(found)


def _strip_quotes(text: str, before: str) -> str:
    """Strip one pair of quotation marks, unless blanks were stripped."""
    if text == before and len(text) > 1:
        if _QUOTES.get(text[0]) == text[-1]:
            return text[1:-1]
        if text.startswith(_QUOTE_MARK) and text.endswith(_QUOTE_MARK):
            return text[len(_QUOTE_MARK) : -len(_QUOTE_MARK)]
    return text


def _unescape_entities(text: str) -> str:
    head, *rest = text.split("&")
    return head + "".join(map(_unescape_entity, rest))


def _unescape_entity(after: str) -> str:
    """Decode the text after an ampersand; an entity must end with a semicolon."""
    end = after.find(";", 0, _LONGEST_ENTITY) + 1
    name = after[:end]
    known = html_entity(name) or (
        unescape_html(f"&{name}") if _is_numeric_entity(name[:-1]) else None
    )
    return f"&{after}" if known is None else known + after[end:]


def _is_numeric_entity(name: str) -> bool:
    is_hex = name[1:2] in {"x", "X"}
    digits = name[2:] if is_hex else name[1:]
    return name[:1] == "#" and digits != "" and (_HEX if is_hex else _DIGITS).issuperset(digits)


def _percent_decode(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


_DECODERS = {"entities_decoded": _unescape_entities, "percents_decoded": _percent_decode}


def _value_at(value: Any, place: ValuePath) -> Any:
    for step in place:
        value = value[step]
    return value


def _json_at(value: Any, place: ValuePath) -> str:
    """Return the value at a path as JSON; blank if the path no longer exists."""
    try:
        return json.dumps(_value_at(value, place), sort_keys=True)
    except (LookupError, TypeError):
        return ""


def _with_guesses(value: JSON, guesses: Mapping[ValuePath, _Guess]) -> JSON:
    """Return a copy of a value with guesses at their paths."""
    copied: JSON = {**value}
    own: dict[ValuePath, Any] = {(): copied}
    for place, guess in guesses.items():
        for depth in range(1, len(place)):
            path = place[:depth]
            if path not in own:
                parent = own[path[:-1]]
                own[path] = parent[path[-1]] = _shallow_copy(parent[path[-1]])
        own[place[:-1]][place[-1]] = guess.value
    return copied


def _shallow_copy(value: Any) -> Any:
    return {**value} if isinstance(value, dict) else [*value]
