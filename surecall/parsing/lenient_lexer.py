"""Lexer for malformed JSON: blanks, brackets, words, and the marks in a quoted string.

`json_repair` uses it for whole texts, and `wire.dialects.values` for values in the middle of a
text. Every step takes linear time.
"""

from typing import Final

MAX_DEPTH: Final = 64
BLANKS: Final = " \t\n\r"
BRACKETS: Final = {"{": "}", "[": "]"}
# The Python spelling and the JSON spelling.
PYTHON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_ESCAPED_BLANKS: Final = ("n", "r", "t")


def end_of_blanks(text: str, at: int) -> int:
    """Return the position after blanks, including blanks that were escaped once too often."""
    while at < len(text):
        if text[at] in BLANKS:
            at += 1
        elif text[at] == "\\" and text[at + 1 : at + 2] in _ESCAPED_BLANKS:
            at += 2
        else:
            break
    return at


class QuoteScanner:
    """Finds the marks in a quoted string: backslashes, and quotes that may end it.

    The next search starts at `at`; move it past each mark.
    """

    def __init__(self, text: str, at: int, quote: str) -> None:
        self.at = at
        self._text = text
        self._quote = quote
        self._end = text.find(quote, at)

    def next_mark(self) -> int:
        """Return the position of the next mark, or -1 if no quote is left."""
        if self.at > self._end >= 0:
            self._end = self._text.find(self._quote, self.at)
        # Bounded by the quote; otherwise each string would search for the same distant backslash.
        slash = self._text.find("\\", self.at, self._end) if self._end >= 0 else -1
        return self._end if slash < 0 else slash
