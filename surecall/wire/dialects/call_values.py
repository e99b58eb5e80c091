"""Parses values inside text calls: almost-JSON, Python literals, and unquoted text."""

import json
import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from surecall.parsing.arguments import loses_fraction, parse_arguments
from surecall.parsing.coercion import SchemaShape
from surecall.parsing.json_repair import ParseError, depth_error, syntax_error
from surecall.parsing.lenient_lexer import (
    BRACKETS,
    MAX_DEPTH,
    PYTHON_WORDS,
    QuoteScanner,
    end_of_blanks,
)
from surecall.values.nesting import TooDeep, check_depth, decode_prefix
from surecall.values.text import join_surrogates
from surecall.values.types import FIRST_INEXACT_FLOAT, JSON
from surecall.wire.dialects.spelling import CLOSERS
from surecall.wire.dialects.text_source import NotACall, TextSource

# The lenient reader parses objects in JSON, Python, and Gemma's compact form from mid-text.
#
# It must also find the end of the value: a quote ends a string only where the value can continue
# after it, a closing tag closes all open brackets, and at the end of the text the value is
# truncated.

_QUOTES = ('<|"|>', "<escape>", '"""', "'''", '"', "'")
QUOTES = ('"', "'")
_STRUCTURE = frozenset("{}[]:,<>\n")
_COMMENTS = ("//", "/*", "#")
_TRIPLE = ('"""', "'''")
_CLOSING = BRACKETS | {"(": ")"}
# The bracket of call arguments, which may have names, unlike the items of a tuple.
CALL_BRACKET = "=)"
# The bracket of a Python set.
_SET_BRACKET = ",}"
_UNNAMED = ("]", ")", _SET_BRACKET)
_AMBIGUOUS = (*_UNNAMED, ":")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_WORDS |= {python: _WORDS[word] for python, word in PYTHON_WORDS.items()}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPES |= {'"': '"', "'": "'", "\\": "\\", "/": "/"}
_HEX_WIDTHS = {"u": 4, "x": 2, "U": 8}
_HEX = frozenset("0123456789abcdefABCDEF")
_LAST_CHARACTER = 0x10FFFF
_WORD_MARKS = frozenset("_-.+$")
# An unnamed argument that is no string, up to what follows it.
_LITERAL = re.compile(r"(?:[+-]?\d[\d.]{0,40}(?:e[+-]?\d{1,3})?|True|False|None)\s{0,9}[,)]|[\[{]")
_MAX_WORD = 640
_MAX_KEY = 128


class LenientReader:
    """A tolerant parser that advances through a text, value by value."""

    def __init__(self, text: str, at: int, *, bare: bool = False) -> None:
        self.text = text
        self.at = at
        self.is_truncated = False
        self.has_duplicate_key = False
        self.was_repaired = False
        self.has_inner_quotes = False
        self._allows_bare_text = bare
        self._is_python = text.startswith("(", at)
        self._depth = 0

    def parse_value(self, closing: str = "") -> Any:
        """Parse one value; `closing` is the bracket that encloses it."""
        self.at = end_of_blanks(self.text, self.at)
        mark = self.text[self.at : self.at + 1]
        if mark not in _CLOSING:
            text = self._parse_quoted(closing)
            return self._parse_word(closing) if text is None else text
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise depth_error()
        named, unnamed = self.parse_bracket(_CLOSING[mark])
        self._depth -= 1
        return named if mark == "{" and not unnamed else unnamed

    def parse_bracket(self, closing: str) -> tuple[dict[str, Any], list[Any]]:
        """Parse the contents of a bracket: named and unnamed values."""
        named: dict[str, Any] = {}
        unnamed: list[Any] = []
        self.at += 1
        if closing == "}" and self._begins_set():
            closing = _SET_BRACKET
        while not self._consume_closing(closing[-1]):
            if closing == "}" or (closing == CALL_BRACKET and self._is_key_at(self.at)):
                self._parse_pair(named, closing)
            elif named:
                # Python does not allow unnamed arguments after named ones.
                raise syntax_error(self.text, self.at)
            else:
                unnamed.append(self.parse_value(closing))
            self._consume_comma(closing[-1])
        return named, unnamed

    def _begins_set(self) -> bool:
        """Whether the braces begin with a string that is not a key."""
        at = end_of_blanks(self.text, self.at)
        quote = self._quote_at(at)
        end = self.text.find(quote, at + len(quote)) if quote else -1
        after = end_of_blanks(self.text, end + len(quote))
        return (
            end >= 0 and not self._allows_bare_text and self.text[after : after + 1] in (",", "}")
        )

    def _parse_pair(self, pairs: dict[str, Any], closing: str) -> None:
        """Parse a key and its value, and add them to `pairs`."""
        start = self.at
        key = self._parse_quoted(":")
        if key is None:
            self.at = self._word_end(start)
            key = self.text[start : self.at]
        if start == self.at or not (self._reaches_end() or self.text[self.at] in ":="):
            raise syntax_error(self.text, self.at)
        self.at += 1
        if self._reaches_end():
            return
        value = self.parse_value(closing)
        self.has_duplicate_key = self.has_duplicate_key or (key in pairs and pairs[key] != value)
        pairs[key] = value

    def _consume_closing(self, closing: str) -> bool:
        """Consume the end of the bracket: its closer, a closing tag, or the end of the text."""
        if self._reaches_end():
            return True
        if self.text[self.at] == closing:
            self.at += 1
            return True
        closed_for_it = self.text.startswith(CLOSERS, self.at)
        self.was_repaired = self.was_repaired or closed_for_it
        return closed_for_it

    def _consume_comma(self, closing: str) -> None:
        if self._reaches_end() or self.text[self.at] == closing:
            return
        if self.text[self.at] == ",":
            self.at += 1
        elif not self.text.startswith(CLOSERS, self.at):
            raise syntax_error(self.text, self.at)

    def _reaches_end(self) -> bool:
        """Skip blanks; return whether the text ends."""
        self.at = end_of_blanks(self.text, self.at)
        self.is_truncated = self.is_truncated or self.at >= len(self.text)
        return self.at >= len(self.text)

    def _quote_at(self, at: int) -> str:
        """Return the quotation mark at a position; empty if there is none."""
        return next((quote for quote in _QUOTES if self.text.startswith(quote, at)), "")

    def _parse_quoted(self, closing: str) -> str | None:
        """Parse a quoted string, if one is here."""
        quote = self._quote_at(self.at)
        self.at += len(quote)
        if len(quote) <= 1:
            return self._parse_string(quote, closing) if quote else None
        start, end = self.at, self.text.find(quote, self.at)
        if quote in _TRIPLE and not self._is_python:
            raise syntax_error(self.text, start)  # the quotes are ambiguous
        if end < 0 and (stop := self._unclosed_end(start)) >= 0:
            self.at = stop
            return self.text[start:stop]
        self.is_truncated = self.is_truncated or end < 0
        self.at = end + len(quote) if end >= 0 else len(self.text)
        return self.text[start : end if end >= 0 else None]

    def _unclosed_end(self, start: int) -> int:
        """Return where a string of special tokens ends that lacks its last one, or -1.

        It is the last value, so it ends at the only bracket before a closing mark.
        """
        stop = self.text.find("}", start)
        after = end_of_blanks(self.text, stop + 1)
        inside = self.text[start:stop] if stop >= 0 else "{"
        is_last = self._depth == 1 and self.text.startswith(CLOSERS, after)
        return stop if is_last and not _STRUCTURE.intersection(inside) else -1

    def _parse_string(self, quote: str, closing: str) -> str:
        text, quoted = self.text, QuoteScanner(self.text, self.at, quote)
        parts: list[str] = []
        kinds: set[bool] = set()
        inner_quotes = 0
        while (mark := quoted.next_mark()) >= 0:
            if text[mark] == "\\":
                escaped, after = _parse_escape(text, mark + 1)
                kinds.add(escaped[0] == "\\" and text[mark + 1 : mark + 2] != "\\")
                if len(kinds) > 1:
                    # If one backslash escapes nothing, the others may be literal, too.
                    raise syntax_error(text, mark)
                parts += (text[quoted.at : mark], escaped)
                quoted.at = after
            elif self._may_end_string(mark + 1, closing):
                if inner_quotes % 2:
                    raise syntax_error(text, mark)  # one of them may be missing or too many
                self.at = mark + 1
                return join_surrogates("".join((*parts, text[quoted.at : mark])))
            elif closing in _AMBIGUOUS or self._may_end_string(self.at, closing):
                # The end of the string is ambiguous: no key follows it, or its opening quote may
                # be the closing quote of another string.
                raise syntax_error(text, mark)
            elif self._is_key_at(mark):
                raise syntax_error(text, mark)  # a mark before the next key may be missing
            else:
                inner_quotes += not _is_apostrophe(text, mark)
                self.has_inner_quotes = True
                parts.append(text[quoted.at : mark + 1])
                quoted.at = mark + 1
        self.is_truncated = True
        self.at = len(text)
        return join_surrogates("".join((*parts, text[quoted.at :])))

    def _may_end_string(self, at: int, closing: str) -> bool:
        """Whether a string can end before `at`; quotes inside strings are often not escaped."""
        at = end_of_blanks(self.text, at)
        mark = self.text[at : at + 1]
        if not mark or self.text.startswith(CLOSERS, at):
            return True
        if closing == ":":
            return mark in ":="
        if mark == "," and closing in ("}", CALL_BRACKET):
            after = end_of_blanks(self.text, at + 1)
            next_mark = self.text[after : after + 1]
            if self.text.startswith(_COMMENTS, after):
                raise syntax_error(self.text, after)
            unnamed = closing == CALL_BRACKET and (
                next_mark in ("'", '"') or bool(_LITERAL.match(self.text, after))
            )
            return unnamed or next_mark in ("", closing) or self._is_key_at(after)
        return mark == closing[-1:] or (mark == "," and closing in _UNNAMED)

    def _is_key_at(self, at: int) -> bool:
        """Whether `key:` or `key=` is here."""
        quote = self._quote_at(at)
        if quote:
            end = self.text.find(quote, at + len(quote)) + len(quote)
            found = end >= at + 2 * len(quote)
        else:
            end = self._word_end(at)
            found = 0 < end - at <= _MAX_KEY
        after = end_of_blanks(self.text, end)
        return found and self.text[after : after + 1] in (":", "=")

    def _word_end(self, at: int) -> int:
        text = self.text
        limit = min(len(text), at + _MAX_WORD)
        while at < limit and (text[at].isalnum() or text[at] in _WORD_MARKS):
            at += 1
        return at

    def _parse_word(self, closing: str) -> Any:
        """Parse an unquoted value."""
        start = self.at
        self.at = self._bare_end(closing) if self._allows_bare_text else self._word_end(start)
        self.is_truncated = self.is_truncated or self.at >= len(self.text)
        word = self.text[start : self.at].rstrip()
        if word in _WORDS:
            return _WORDS[word]
        number = _parse_number(word, exact=self._allows_bare_text)
        if number is not None:
            return number
        if (
            self._allows_bare_text and not any(quote in word for quote in _QUOTES[:2])
        ) or self.is_truncated:
            return word
        raise syntax_error(self.text, start)

    def _bare_end(self, closing: str) -> int:
        """Return the end of unquoted text: a bracket, or the comma before the next key."""
        at = self.at
        while at < len(self.text) and self.text[at] != closing[-1:]:
            if self.text[at] == "<" and self.text.startswith(CLOSERS, at):
                break
            if self.text[at] == "," and (
                closing in ("]", ")") or self._is_key_at(end_of_blanks(self.text, at + 1))
            ):
                break
            at += 1
        return at


def _is_apostrophe(text: str, at: int) -> bool:
    """Whether the quotation mark at `at` stands between two letters."""
    return text[at] == "'" and text[at - 1 : at].isalpha() and text[at + 1 : at + 2].isalpha()


def _parse_escape(text: str, at: int) -> tuple[str, int]:
    """Parse what follows a backslash; one that escapes nothing is literal."""
    mark = text[at : at + 1]
    width = _HEX_WIDTHS.get(mark, 0)
    digits = text[at + 1 : at + 1 + width]
    if width and len(digits) == width and _HEX.issuperset(digits):
        code = int(digits, 16)
        if code <= _LAST_CHARACTER:
            return chr(code), at + 1 + width
    return _ESCAPES.get(mark, "\\" + mark), at + 1


def _parse_number(word: str, *, exact: bool) -> int | float | None:
    """Parse a number; with `exact`, only one that would be written the same way."""
    if not word or word[-1] not in "0123456789." or word[0] not in "+-.0123456789" or "_" in word:
        return None
    for kind in (int, float):
        try:
            number = kind(word)
        except ValueError:
            continue
        if number - number != 0 or (kind is float and loses_fraction(word, number)):
            return None
        return number if not exact or str(number) == word else None
    return None


# Values that begin anywhere in a text, and raw text typed by a schema.

# Fuel per character, relative to searching; a failed attempt costs as much as a successful one.
_LENIENT_COST = 24
_STRICT_COST = 4
_DEEP_COST = 50_000
_KINDS = {bool: "boolean", int: "integer", float: "fraction", type(None): "null"}
_KINDS |= {dict: "object", list: "array"}
_BOOLEANS = {"true": True, "false": False}
# How JSON that was escaped twice begins.
ESCAPED = ('{\\"', '"{\\"', '[{\\"', '"[{\\"')
_BITS = {"1": True, "0": False}


class CallValue(msgspec.Struct, frozen=True):
    """A value and its end; truncated by the end of the text, or repaired at a closing mark."""

    value: Any
    end: int
    is_truncated: bool = False
    was_repaired: bool = False
    # The raw text if a key occurs twice with different values: the model must clarify it.
    ambiguous_text: str | None = None
    # Marks that may have ended a value earlier, because they are not escaped in values.
    value_ends: tuple[str, ...] = ()

    @property
    def arguments(self) -> Any:
        """The value, or its raw text if it is ambiguous."""
        return self.value if self.ambiguous_text is None else self.ambiguous_text


class _DuplicateKey(Exception):  # caught in `parse_value`
    """Raised if a key occurs twice with different values."""


def _unique_pairs(pairs: list[tuple[str, Any]]) -> JSON:
    """Return pairs as an object; raise `_DuplicateKey` if a key has two values."""
    value = dict(pairs)
    if len(value) < len(pairs) and any(value[key] != item for key, item in pairs):
        raise _DuplicateKey
    return value


def _finite_float(digits: str) -> float:
    """Parse a number; raise `ValueError` if a float cannot hold it."""
    number = float(digits)
    if not math.isfinite(number) or loses_fraction(digits, number):
        raise ValueError(digits)
    return number


_DECODER = json.JSONDecoder(
    strict=False,
    object_pairs_hook=_unique_pairs,
    parse_float=_finite_float,
    parse_constant=_finite_float,
)


def parse_value(source: TextSource, at: int, *, bare: bool = False) -> CallValue:
    """Parse the value at `at` as JSON, else with the lenient reader.

    The value of `(a=1, "b")` is a pair: the named and the unnamed arguments.
    """
    text = source.text
    if source.starts_with(ESCAPED, at):
        return _parse_escaped(source, at)
    try:
        value, end = decode_prefix(_DECODER, text, at)
    except json.JSONDecodeError as error:
        # The position of an unterminated string is its start, but all that follows was scanned.
        reached = len(text) if error.msg.startswith("Unterminated") else error.pos
        # Creating the error counts the lines of all text before it.
        source.spend_fuel(_STRICT_COST * (reached - at) + error.pos)
    except TooDeep:
        source.spend_fuel(_DEEP_COST)
        raise NotACall("the JSON is nested too deeply", at) from None
    except (ValueError, _DuplicateKey):
        source.spend_fuel(_STRICT_COST * (len(text) - at))
    else:
        return CallValue(value, end)
    reader = LenientReader(text, at, bare=bare)
    try:
        value = (
            reader.parse_bracket(CALL_BRACKET)
            if source.starts_with("(", at)
            else reader.parse_value()
        )
    except ParseError as refusal:
        raise NotACall(f"the arguments cannot be read ({refusal})", reader.at) from None
    finally:
        source.spend_fuel(_LENIENT_COST * (reader.at - at))
    twice = text[at : reader.at] if reader.has_duplicate_key else None
    ends = QUOTES if reader.has_inner_quotes else ()
    return CallValue(value, reader.at, reader.is_truncated, reader.was_repaired, twice, ends)


def _parse_escaped(source: TextSource, at: int) -> CallValue:
    """Parse JSON encoded as a JSON string, with or without its quotes."""
    text = source.text
    quoted = text[at] == '"'
    stop = source.find_first((*CLOSERS, "\n"), at) if not quoted else -1
    end = len(text) if stop < 0 else stop
    raw = text[at:end].rstrip()
    source.spend_fuel(_STRICT_COST * (end - at))
    try:
        inner, length = _DECODER.raw_decode(raw if quoted else f'"{raw}"')
        check_depth(inner)
        value = _DECODER.decode(inner)
    except (ValueError, _DuplicateKey):
        raise NotACall("the arguments cannot be read (escaped twice)", end) from None
    if not quoted and length < len(raw) + len('""'):
        raise NotACall("only part of the arguments is escaped twice", end)
    return CallValue(value, at + (length if quoted else len(raw)))


def decode_arguments(arguments: object) -> Any:
    """Return the arguments of a call as an object, or as text if they are not one."""
    match arguments:
        case dict():
            return arguments
        case None:
            return {}
        case str():
            read = parse_arguments(arguments, 4 * len(arguments) + 1).value
            return arguments if read is None else read
        case _:
            return json.dumps(arguments)


# A value that contains a key of its own call may have swallowed the parameter of that key.

_KEY_ENDS = frozenset("\"'=:>([<|")
_MAX_TAG_NAME = 32
_MAX_KEY_MARK = 4


def has_swallowed_key(value: Any, missing: Iterable[str], ends: tuple[str, ...]) -> bool:
    """Whether a text in `value` continues with a missing key, after a mark that may have ended it.

    Such a text is what remains of two parameters if a mark between them is lost.
    """
    match value:
        case str():
            end = min((at for mark in ends if (at := value.find(mark)) >= 0), default=-1)
            return end >= 0 and any(has_key(value, key, end, _MAX_KEY_MARK) for key in missing)
        case dict():
            return any(has_swallowed_key(item, missing, ends) for item in value.values())
        case list():
            return any(has_swallowed_key(item, missing, ends) for item in value)
        case _:
            return False


def has_key(text: str, key: str, start: int, reach: int = 1) -> bool:
    """Whether a text after `start` has `key` with a mark of a key among the next characters."""
    at = text.find(key, start) if key else -1
    while at >= 0:
        end = at + len(key)
        _, tag, inside = text[max(0, at - _MAX_TAG_NAME) : at].rpartition("<")
        is_word = not text[at - 1 : at].isalnum() or (tag != "" and inside.isalnum())
        if is_word and _is_key_end(text, end, reach):
            return True
        at = text.find(key, end)
    return False


def _is_key_end(text: str, at: int, reach: int) -> bool:
    """Whether a mark follows that ends a key, possibly after another one."""
    at = end_of_blanks(text, at)
    for mark in text[at : at + reach]:
        if mark in _KEY_ENDS or mark.isalnum():
            return mark in _KEY_ENDS
    return False


_EDGE_MARKS = (">", '="', "='")


def has_loose_mark(raw: str, marks: tuple[str, ...]) -> bool:
    """Whether a value in a tag begins or ends with one of the marks, or ends with part of one.

    A mark beside it may be missing, or occur twice.
    """
    inner = raw.strip()
    if raw.startswith(_EDGE_MARKS):
        return True
    opened = inner.startswith(marks) and inner.find(">", 2, _MAX_TAG_NAME) >= 0
    last = inner[max(0, len(inner) - _MAX_TAG_NAME) :]
    last = last[max(0, last.rfind("<")) :]
    if last[-1:] == ">":
        closed = last.startswith(marks) or any(mark.startswith(last) for mark in marks)
        # An invisible character hides what the tag closes.
        closed = closed or not last.isprintable()
        closed = closed and last.count(">") == 1
        return opened is not closed  # with both, the value is an element
    is_partial = last.startswith("</") and ">" not in last
    is_partial = is_partial or any(last and mark.startswith(last) for mark in marks)
    return is_partial or (opened and not inner.startswith("</"))


def convert_text(raw: str, shape: SchemaShape | None) -> Any:
    """Convert raw text to the only type its schema allows; else return it unchanged."""
    kinds = shape.kinds if shape else SchemaShape().kinds
    if kinds == SchemaShape().kinds or kinds <= {"string"}:
        return raw
    bare = raw.strip()
    value = _BOOLEANS.get(bare.lower(), _parse_literal(bare))
    # From `INEXACT` on a float loses digits, so the text is kept.
    if isinstance(value, float) and abs(value) < FIRST_INEXACT_FLOAT and "fraction" not in kinds:
        value = int(value) if value.is_integer() else value
    if "boolean" in kinds and "integer" not in kinds:
        value = _BITS.get(bare, value)
    return value if _KINDS.get(type(value)) in kinds else raw


def _parse_literal(text: str) -> Any:
    """Parse a text that is a single JSON or Python literal; else return it unchanged."""
    # The line break marks the last word as complete.
    source = TextSource(f"{text}\n", ())
    try:
        found = parse_value(source, 0)
    except NotACall:
        return text
    return (
        found.value
        if found.end == len(text) and not found.is_truncated and not found.ambiguous_text
        else text
    )


def convert_scalars(value: Any, shape: SchemaShape | None) -> Any:
    """Convert the unquoted scalars of a compact object to their declared types."""
    match value:
        case str():
            return convert_text(value, shape)
        case bool() | int() | float() if shape and shape.kinds == {"string"}:
            return json.dumps(value)
        case dict():
            inner = shape.properties if shape else {}
            return {key: convert_scalars(item, inner.get(key)) for key, item in value.items()}
        case list():
            return [convert_scalars(item, shape.items if shape else None) for item in value]
        case _:
            return value
