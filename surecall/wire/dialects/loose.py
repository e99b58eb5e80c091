"""Objects as models write them: JSON, Python and Gemma's compact form, read from mid-text.

`lenient` rewrites a whole text and refuses what has no single meaning. Here the end of the value
has to be found too: a quote ends a string only where something can follow it, a closing tag
closes what is still open, and the end of the text leaves `cut` behind.
"""

from typing import Any

from surecall.parsing.almost_json import MAX_DEPTH, too_deep, unreadable
from surecall.wire.dialects.spelling import CLOSERS

_BLANK = " \t\n\r"
_QUOTES = ('<|"|>', "<escape>", '"""', "'''", '"', "'")
_COMMENTS = ("//", "/*", "#")
_TRIPLE = ('"""', "'''")
_CLOSING = {"{": "}", "[": "]", "(": ")"}
# The arguments of a call: they may have names, unlike the items of a tuple.
CALL = "=)"
# The items of a Python set, which stand between the brackets of an object.
_SET = ",}"
_UNNAMED = ("]", ")", _SET)
_UNSURE = (*_UNNAMED, ":")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_WORDS |= {"True": True, "False": False, "None": None}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPES |= {'"': '"', "'": "'", "\\": "\\", "/": "/"}
_HEX_WIDTHS = {"u": 4, "x": 2, "U": 8}
_HEX = frozenset("0123456789abcdefABCDEF")
_LAST_CHARACTER = 0x10FFFF
_WORD_MARKS = frozenset("_-.+$")
_MAX_WORD = 640
_MAX_KEY = 128


class Loose:
    """A place in a text, moving on with each value that is read."""

    def __init__(self, text: str, at: int, *, bare: bool = False) -> None:
        self.text = text
        self.at = at
        self.cut = False
        self.twice = False
        self.mended = False
        self._bare = bare
        self._python = text.startswith("(", at)
        self._depth = 0

    def value(self, closing: str = "") -> Any:
        """Read one value; `closing` is the bracket that it is in."""
        self.at = self._after_blanks(self.at)
        mark = self.text[self.at : self.at + 1]
        if mark not in _CLOSING:
            text = self._quoted(closing)
            return self._word(closing) if text is None else text
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise too_deep()
        named, unnamed = self.bracket(_CLOSING[mark])
        self._depth -= 1
        return named if mark == "{" and not unnamed else unnamed

    def bracket(self, closing: str) -> tuple[dict[str, Any], list[Any]]:
        """Read everything in a bracket: what has a name, and what has none."""
        named: dict[str, Any] = {}
        unnamed: list[Any] = []
        self.at += 1
        if closing == "}" and self._begins_set():
            closing = _SET
        while not self._closed(closing[-1]):
            if closing == "}" or (closing == CALL and self._key_at(self.at)):
                self._pair(named, closing)
            elif named:
                # Python itself allows nothing without a name after something with one.
                raise unreadable(self.text, self.at)
            else:
                unnamed.append(self.value(closing))
            self._comma(closing[-1])
        return named, unnamed

    def _begins_set(self) -> bool:
        """Whether the first thing in braces is a text that is not followed by its value."""
        at = self._after_blanks(self.at)
        quote = self._quote_at(at)
        end = self.text.find(quote, at + len(quote)) if quote else -1
        after = self._after_blanks(end + len(quote))
        return end >= 0 and not self._bare and self.text[after : after + 1] in (",", "}")

    def _pair(self, pairs: dict[str, Any], closing: str) -> None:
        start = self.at
        key = self._quoted(":")
        if key is None:
            self.at = self._word_end(start)
            key = self.text[start : self.at]
        if start == self.at or not (self._ended() or self.text[self.at] in ":="):
            raise unreadable(self.text, self.at)
        self.at += 1
        if self._ended():
            return
        value = self.value(closing)
        self.twice = self.twice or (key in pairs and pairs[key] != value)
        pairs[key] = value

    def _closed(self, closing: str) -> bool:
        """Whether the bracket ends here: by itself, by a tag, or with the text."""
        if self._ended():
            return True
        if self.text[self.at] == closing:
            self.at += 1
            return True
        closed_for_it = self.text.startswith(CLOSERS, self.at)
        self.mended = self.mended or closed_for_it
        return closed_for_it

    def _comma(self, closing: str) -> None:
        if self._ended() or self.text[self.at] == closing:
            return
        if self.text[self.at] == ",":
            self.at += 1
        elif not self.text.startswith(CLOSERS, self.at):
            raise unreadable(self.text, self.at)

    def _ended(self) -> bool:
        """Go on to what is not blank; say whether the text ends before."""
        self.at = self._after_blanks(self.at)
        self.cut = self.cut or self.at >= len(self.text)
        return self.at >= len(self.text)

    def _after_blanks(self, at: int) -> int:
        text = self.text
        while at < len(text):
            if text[at] in _BLANK:
                at += 1
            elif text[at] == "\\" and text[at + 1 : at + 2] in ("n", "r", "t"):
                at += 2
            else:
                break
        return at

    def _quote_at(self, at: int) -> str:
        return next((quote for quote in _QUOTES if self.text.startswith(quote, at)), "")

    def _quoted(self, closing: str) -> str | None:
        """Read a text in quotes, if one is here."""
        quote = self._quote_at(self.at)
        self.at += len(quote)
        if len(quote) <= 1:
            return self._string(quote, closing) if quote else None
        start, end = self.at, self.text.find(quote, self.at)
        if quote in _TRIPLE and not self._python:
            raise unreadable(self.text, start)  # two quotes at both ends of a text look the same
        self.cut = self.cut or end < 0
        self.at = end + len(quote) if end >= 0 else len(self.text)
        return self.text[start : end if end >= 0 else None]

    def _string(self, quote: str, closing: str) -> str:
        text, start = self.text, self.at
        parts: list[str] = []
        kinds: set[bool] = set()
        end = text.find(quote, start)
        while end >= 0:
            slash = text.find("\\", start, end)
            if slash >= 0:
                escaped, after = _escaped(text, slash + 1)
                kinds.add(escaped[0] == "\\" and text[slash + 1 : slash + 2] != "\\")
                if len(kinds) > 1:
                    # If one backslash escapes nothing, the others may be part of the text as well.
                    raise unreadable(text, slash)
                parts += (text[start:slash], escaped)
                start = after
                end = text.find(quote, start) if start > end else end
            elif self._may_end(end + 1, closing):
                self.at = end + 1
                return _joined([*parts, text[start:end]])
            elif closing in _UNSURE or self._may_end(self.at, closing):
                # Nothing tells where a text with quotes in it ends: no name follows it, or its
                # own first quote may be the last one of another.
                raise unreadable(text, end)
            else:
                parts.append(text[start : end + 1])
                start = end + 1
                end = text.find(quote, start)
        self.cut = True
        self.at = len(text)
        return _joined([*parts, text[start:]])

    def _may_end(self, at: int, closing: str) -> bool:
        """Whether a string can end before `at`: a quote inside one is often not escaped."""
        at = self._after_blanks(at)
        mark = self.text[at : at + 1]
        if not mark or self.text.startswith(CLOSERS, at):
            return True
        if closing == ":":
            return mark in ":="
        if mark == "," and closing in ("}", CALL):
            after = self._after_blanks(at + 1)
            next_mark = self.text[after : after + 1]
            if self.text.startswith(_COMMENTS, after):
                raise unreadable(self.text, after)
            unnamed = closing == CALL and next_mark in ("'", '"')
            return unnamed or next_mark in ("", closing) or self._key_at(after)
        return mark == closing[-1:] or (mark == "," and closing in _UNNAMED)

    def _key_at(self, at: int) -> bool:
        """Whether `key:` or `key=` is here."""
        quote = self._quote_at(at)
        if quote:
            end = self.text.find(quote, at + len(quote)) + len(quote)
            found = end >= at + 2 * len(quote)
        else:
            end = self._word_end(at)
            found = 0 < end - at <= _MAX_KEY
        after = self._after_blanks(end)
        return found and self.text[after : after + 1] in (":", "=")

    def _word_end(self, at: int) -> int:
        text = self.text
        limit = min(len(text), at + _MAX_WORD)
        while at < limit and (text[at].isalnum() or text[at] in _WORD_MARKS):
            at += 1
        return at

    def _word(self, closing: str) -> Any:
        start = self.at
        self.at = self._bare_end(closing) if self._bare else self._word_end(start)
        self.cut = self.cut or self.at >= len(self.text)
        word = self.text[start : self.at].rstrip()
        if word in _WORDS:
            return _WORDS[word]
        number = _number(word, exact=self._bare)
        if number is not None:
            return number
        if (self._bare and not any(quote in word for quote in _QUOTES[:2])) or self.cut:
            return word
        raise unreadable(self.text, start)

    def _bare_end(self, closing: str) -> int:
        """Find the end of an unquoted text: the bracket, or the comma before the next key."""
        at = self.at
        while at < len(self.text) and self.text[at] != closing[-1:]:
            if self.text[at] == "<" and self.text.startswith(CLOSERS, at):
                break
            if self.text[at] == "," and (
                closing in ("]", ")") or self._key_at(self._after_blanks(at + 1))
            ):
                break
            at += 1
        return at


def _escaped(text: str, at: int) -> tuple[str, int]:
    """Read what follows a backslash; one that escapes nothing is itself text."""
    mark = text[at : at + 1]
    width = _HEX_WIDTHS.get(mark, 0)
    digits = text[at + 1 : at + 1 + width]
    if width and len(digits) == width and _HEX.issuperset(digits):
        code = int(digits, 16)
        if code <= _LAST_CHARACTER:
            return chr(code), at + 1 + width
    return _ESCAPES.get(mark, "\\" + mark), at + 1


def _number(word: str, *, exact: bool) -> int | float | None:
    """Read a number; `exact` asks for one that would be written the same way again."""
    if not word or word[-1] not in "0123456789." or word[0] not in "+-.0123456789" or "_" in word:
        return None
    for kind in (int, float):
        try:
            number = kind(word)
        except ValueError:
            continue
        finite = number - number == 0
        return number if finite and (not exact or str(number) == word) else None
    return None


def _joined(parts: list[str]) -> str:
    """Join the parts of a string, and the halves of its surrogate pairs."""
    whole = "".join(parts)
    if whole.isascii():
        return whole
    return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
