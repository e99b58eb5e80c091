"""The first field of a JSON object that is still being written: `{"answer": "text so f`.

`{"thought": "…", "answer": "text so f` is read by a reader that passes over the first field. What a
reader has given away is never taken back: a character is given when it is complete.
"""

from typing import Final, Protocol

_BLANKS: Final = " \t\r\n"
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNIT: Final = len("\\u0000")
_HIGH, _LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)
_REPLACEMENT: Final = "\ufffd"


class Reader(Protocol):
    """What reads a text that grows."""

    def feed(self, piece: str) -> str:
        """Take more of the text; give what can be given."""


class FieldReader:
    """Reads one text that grows; gives the field's text as it comes, nothing if it is not first.

    With `within`, the object is the first of a list, which is the first field of the whole.
    """

    def __init__(self, name: str, within: str = "") -> None:
        around = ("{", f'"{within}"', ":", "[") if within else ()
        self._due: tuple[str, ...] = (*around, "{", f'"{name}"', ":", '"')
        self._pending = ""
        self._is_over = False
        self.ended = False

    @property
    def is_waiting(self) -> bool:
        """Whether more of the object may still become, or be, the field."""
        return not self._is_over

    @property
    def rest(self) -> str:
        """What follows the field, once it has ended."""
        return self._pending[1:] if self.ended else ""

    def feed(self, piece: str) -> str:
        """Take more of the object; give what it adds to the field."""
        if self._is_over:
            return ""
        self._pending += piece
        self._skip()
        return "" if self._due or self._is_over else self._text()

    def _skip(self) -> None:
        """Pass over what comes before the field's text."""
        while self._due:
            self._pending = self._pending.lstrip(_BLANKS)
            token = self._due[0]
            if not self._pending.startswith(token):
                self._is_over = not token.startswith(self._pending)
                return
            self._pending = self._pending[len(token) :]
            self._due = self._due[1:]

    def _text(self) -> str:
        text, at, given = self._pending, 0, []
        quote = text.find('"')
        while at < len(text):
            if -1 < quote < at:
                quote = text.find('"', at)
            slash = text.find("\\", at, quote if quote >= 0 else len(text))
            stop = slash if slash >= 0 else quote if quote >= 0 else len(text)
            given.append(text[at:stop])
            at = stop
            if at == quote:
                self.ended = self._is_over = True
                break
            character, length = _unescaped(text, at)
            if not length:
                break
            given.append(character)
            at += length
        self._pending = text[at:]
        return "".join(given)


class Without:
    """Lets a reader read an object without its first field, if that has this name."""

    def __init__(self, before: str, reader: Reader) -> None:
        self._before = FieldReader(before)
        self._reader = reader
        self._held = ""
        self._has_begun = False

    def feed(self, piece: str) -> str:
        """Take more of the object; give what the reader makes of it."""
        return self._reader.feed(piece if self._has_begun else self._passed(piece))

    def _passed(self, piece: str) -> str:
        """Return the object without the field before, once it is known whether there is one."""
        self._held += piece
        if not self._before.ended:
            self._before.feed(piece)
            if self._before.is_waiting:
                return ""
            if self._before.ended:
                self._held = self._before.rest
        if self._before.ended:
            rest = self._held.lstrip(_BLANKS)
            if not rest:
                return ""
            self._held = "{" + rest.removeprefix(",")
        self._has_begun = True
        return self._held


def _unescaped(text: str, at: int) -> tuple[str, int]:
    """Read the escape at a place: its character and length; no length if it is not all there."""
    mark = text[at + 1 : at + 2]
    if mark != "u":
        return _ESCAPES.get(mark, mark), 2 if mark else 0
    code = _unit(text, at)
    if code is None:
        return _REPLACEMENT, _UNIT if len(text) >= at + _UNIT else 0
    if code not in _HIGH:
        return _REPLACEMENT if code in _LOW else chr(code), _UNIT
    if len(text) < at + 2 * _UNIT:
        return "", 0
    low = _unit(text, at + _UNIT)
    if low is None or low not in _LOW:
        return _REPLACEMENT, _UNIT
    return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), 2 * _UNIT


def _unit(text: str, at: int) -> int | None:
    digits = text[at + 2 : at + _UNIT]
    if not text.startswith("\\u", at) or len(digits) < _UNIT - 2:
        return None
    return int(digits, 16) if all(digit in "0123456789abcdefABCDEF" for digit in digits) else None
