"""Objects as models write them: JSON, Python and Gemma's compact form, read from mid-text.

`lenient` rewrites a whole text and refuses what has no single meaning. Here the end of the value
has to be found too: a quote ends a string only where something can follow it, a closing tag
closes what is still open, and the end of the text leaves `cut` behind.
"""

from typing import Any

from surecall.lenient import MAX_DEPTH, Unusable, too_deep, unreadable

_BLANK = " \t\n\r"
_QUOTES = ('<|"|>', "<escape>", '"""', "'''", '"', "'")
_CLOSING = {"{": "}", "[": "]", "(": ")"}
# The arguments of a call: they have names, unlike the items of a tuple.
_CALL = "=)"
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_WORDS |= {"True": True, "False": False, "None": None}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERAL = frozenset("\"'\\/")
_HEX_WIDTHS = {"u": 4, "x": 2, "U": 8}
_LAST_CHARACTER = 0x10FFFF
_HEX = frozenset("0123456789abcdefABCDEF")
_WORD_MARKS = frozenset("_-.+$")
_MAX_WORD = 640
_KEY_LIMIT = 128


class Loose:
    """A place in a text, moving on with each value that is read."""

    def __init__(
        self, text: str, at: int, *, stops: tuple[str, ...] = (), bare: bool = False
    ) -> None:
        self.text = text
        self.at = at
        self.cut = False
        self.twice = False
        self._stops = stops
        self._bare = bare
        self._depth = 0

    def value(self, closing: str = "") -> Any:
        """Read one value; `closing` is the bracket that it stands in."""
        self._blanks()
        mark = self.text[self.at : self.at + 1]
        if mark in _CLOSING:
            return self._nested(mark)
        for quote in _QUOTES:
            if self.text.startswith(quote, self.at):
                self.at += len(quote)
                return self._string(closing) if len(quote) == 1 else self._verbatim(quote)
        return self._word(closing)

    def arguments(self) -> tuple[dict[str, Any], list[Any]]:
        """Read `(a=1, b: 2, 3)`: what has a name, and what has none."""
        named: dict[str, Any] = {}
        unnamed: list[Any] = []
        self.at += 1
        while not self._closed(")"):
            if self._key_at(self.at):
                self._pair(named, _CALL)
            else:
                unnamed.append(self.value(_CALL))
            self._comma(")")
        return named, unnamed

    def _nested(self, mark: str) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise too_deep()
        self.at += 1
        value = self._object() if mark == "{" else self._list(_CLOSING[mark])
        self._depth -= 1
        return value

    def _object(self) -> Any:
        pairs: dict[str, Any] = {}
        while not self._closed("}"):
            self._pair(pairs, "}")
            self._comma("}")
        return pairs

    def _list(self, closing: str) -> list[Any]:
        items = []
        while not self._closed(closing):
            items.append(self.value(closing))
            self._comma(closing)
        return items

    def _pair(self, pairs: dict[str, Any], closing: str) -> None:
        key = self._key()
        self._blanks()
        if self._ended():
            return
        if self.text[self.at] not in ":=":
            raise unreadable(self.text, self.at)
        self.at += 1
        self._blanks()
        if self._ended():
            return
        value = self.value(closing)
        self.twice = self.twice or (key in pairs and pairs[key] != value)
        pairs[key] = value

    def _key(self) -> str:
        for quote in _QUOTES:
            if self.text.startswith(quote, self.at):
                self.at += len(quote)
                return self._string(":") if len(quote) == 1 else self._verbatim(quote)
        start = self.at
        self.at = self._word_end(start)
        if start == self.at:
            raise unreadable(self.text, start)
        return self.text[start : self.at]

    def _closed(self, closing: str) -> bool:
        """Whether the bracket ends here: by itself, by a tag, or with the text."""
        self._blanks()
        if self._ended():
            return True
        if self.text[self.at] == closing:
            self.at += 1
            return True
        return self.text.startswith(self._stops, self.at)

    def _comma(self, closing: str) -> None:
        self._blanks()
        if self._ended() or self.text[self.at] == closing:
            return
        if self.text[self.at] == ",":
            self.at += 1
        elif not self.text.startswith(self._stops, self.at):
            raise unreadable(self.text, self.at)

    def _ended(self) -> bool:
        self.cut = self.cut or self.at >= len(self.text)
        return self.at >= len(self.text)

    def _blanks(self) -> None:
        self.at = self._after_blanks(self.at)

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

    def _verbatim(self, quote: str) -> str:
        end = self.text.find(quote, self.at)
        self.cut = self.cut or end < 0
        found = self.text[self.at : end if end >= 0 else None]
        self.at = end + len(quote) if end >= 0 else len(self.text)
        return found

    def _string(self, closing: str) -> str:
        text, quote, start = self.text, self.text[self.at - 1], self.at
        parts: list[str] = []
        end = text.find(quote, start)
        while end >= 0:
            slash = text.find("\\", start, end)
            if slash >= 0:
                parts.append(text[start:slash])
                start = self._escape(slash + 1, parts)
                end = text.find(quote, start) if start > end else end
            elif self._may_end(end + 1, closing):
                self.at = end + 1
                return _joined([*parts, text[start:end]])
            else:
                parts.append(text[start : end + 1])
                start = end + 1
                end = text.find(quote, start)
        self.cut = True
        self.at = len(text)
        return _joined([*parts, text[start:]])

    def _escape(self, at: int, parts: list[str]) -> int:
        """Read what follows a backslash; one that escapes nothing is itself text."""
        mark = self.text[at : at + 1]
        width = _HEX_WIDTHS.get(mark, 0)
        digits = self.text[at + 1 : at + 1 + width]
        if mark in _ESCAPES:
            parts.append(_ESCAPES[mark])
        elif mark in _LITERAL:
            parts.append(mark)
        elif width and _is_character(digits, width):
            parts.append(chr(int(digits, 16)))
            return at + 1 + width
        else:
            parts.append("\\" + mark)
        return at + 1

    def _may_end(self, at: int, closing: str) -> bool:
        """Whether a string can end before `at`: a quote inside one is often not escaped."""
        at = self._after_blanks(at)
        mark = self.text[at : at + 1]
        if not mark or self.text.startswith(self._stops, at):
            return True
        if closing == ":":
            return mark in ":="
        if mark == "," and closing in ("}", _CALL):
            after = self._after_blanks(at + 1)
            next_mark = self.text[after : after + 1]
            unnamed = closing == _CALL and next_mark in ("'", '"')
            return unnamed or next_mark in ("", closing) or self._key_at(after)
        return mark == closing[-1:] or (mark == "," and closing in ("]", ")"))

    def _key_at(self, at: int) -> bool:
        """Whether `key:` or `key=` stands here."""
        quote = next((quote for quote in _QUOTES if self.text.startswith(quote, at)), "")
        if quote:
            end = self.text.find(quote, at + len(quote)) + len(quote)
            found = end >= at + 2 * len(quote)
        else:
            end = self._word_end(at)
            found = 0 < end - at <= _KEY_LIMIT
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
        end = self._word_end(start)
        if self._bare:
            end = self._bare_end(closing)
        word = self.text[start:end].rstrip()
        self.at = end
        self.cut = self.cut or end >= len(self.text)
        if word in _WORDS:
            return _WORDS[word]
        number = _number(word, exact=self._bare)
        if number is not None:
            return number
        if self._bare or self.cut:
            return word
        raise unreadable(self.text, start)

    def _bare_end(self, closing: str) -> int:
        """Find the end of an unquoted text: the bracket, or the comma before the next key."""
        at = self.at
        while at < len(self.text) and self.text[at] != closing[-1:]:
            if self.text[at] == "<" and self.text.startswith(self._stops, at):
                break
            if self.text[at] == "," and (
                closing in ("]", ")") or self._key_at(self._after_blanks(at + 1))
            ):
                break
            at += 1
        return at


def _is_character(digits: str, width: int) -> bool:
    whole = len(digits) == width and _HEX.issuperset(digits)
    return whole and int(digits, 16) <= _LAST_CHARACTER


def _number(word: str, *, exact: bool) -> int | float | None:
    """Read a number; `exact` asks for one that would be written the same way again."""
    if not word or word[-1] not in "0123456789." or word[0] not in "+-.0123456789":
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


__all__ = ["Loose", "Unusable"]
