"""Rewrites malformed JSON as JSON: one pass over the text, no recursion, no guessing.

Rewriting changes spelling, never structure. Each repair has one possible meaning, and its name is
recorded in `repairs`. Missing, ambiguous, or truncated content is rejected with a reason.
"""

from surecall.parsing.lenient_lexer import (
    BLANKS,
    BRACKETS,
    MAX_DEPTH,
    PYTHON_WORDS,
    QuoteScanner,
    end_of_blanks,
)
from surecall.values.text import truncate
from surecall.values.types import JSON

# An object, or a string that may contain an encoded one.
OBJECT_STARTS = frozenset('{"')

_WORD_CHARS = frozenset("+-.0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_NUMERIC = frozenset("-0123456789")
# The last two are not JSON, but the decoder rejects them with a better message.
_JSON_WORDS = frozenset({"true", "false", "null", "NaN", "Infinity"})
# Python reads `\/` as two characters and JSON as one, so only a JSON string may hold it.
_ESCAPES = {'"': frozenset('"\\/bfnrtu'), "'": frozenset('"\\bfnrtu')}
# A value follows one of these; a comma, a colon or a second value does not.
_VALUE_OPENERS = frozenset("{[,:")
MAX_QUOTED_CHARS = 80
_SNIPPET_CHARS = 40


class ParseError(Exception):
    """Malformed JSON that cannot be repaired; the message is sent to the model."""

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        advice: str = "Send the arguments again as one JSON object.",
        key: str | None = None,
        near: str = "",
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.key = key
        self.near = near
        self.message = f"{message} {advice}"
        self.data: JSON = {"reason": reason} if key is None else {"reason": reason, "key": key}


def syntax_error(text: str, at: int) -> ParseError:
    """Return the error for malformed JSON at a position."""
    near = text[max(0, at - _SNIPPET_CHARS // 2) : at + _SNIPPET_CHARS].strip()
    return ParseError("unreadable", f"The arguments are not valid JSON near `{near}`.", near=near)


def depth_error() -> ParseError:
    """Return the error for JSON that is nested too deeply."""
    return ParseError(
        "too_deep",
        f"The JSON is nested too deeply: more than {MAX_DEPTH} levels.",
        advice="Send the arguments again as one flatter JSON object.",
    )


def repair_json(
    text: str, repairs: dict[str, None], allowed_starts: frozenset[str] = OBJECT_STARTS
) -> tuple[str, ...]:
    """Rewrite `text` as JSON; return the distinct documents in it, usually one.

    `allowed_starts` are the characters that the first document may start with.
    """
    return _Rewriter(text, repairs, allowed_starts).read_documents()


def repair_json_prefix(text: str, repairs: dict[str, None]) -> tuple[tuple[str, ...], str]:
    """Rewrite the documents at the start of a text; return them and the remaining text."""
    rewriter = _Rewriter(text, repairs)
    return rewriter.read_documents(until_end=False), rewriter.remaining_text


class _Rewriter:
    """The state of one rewriting: position, open brackets, and the tokens written so far."""

    def __init__(
        self, text: str, repairs: dict[str, None], allowed_starts: frozenset[str] = OBJECT_STARTS
    ) -> None:
        self._text = text
        self._allowed_starts = allowed_starts
        self._at = 0
        self._repairs = repairs
        self._open_brackets: list[str] = []
        self._tokens: list[str] = []

    @property
    def remaining_text(self) -> str:
        """The text that has not been consumed."""
        return self._text[self._at :]

    def read_documents(self, *, until_end: bool = True) -> tuple[str, ...]:
        """Read the documents, dropping duplicates."""
        found: dict[str, None] = {}
        while self._skip_blanks():
            if found and not until_end and self._text[self._at] != "{":
                break
            self._read_first_token(again=bool(found))
            while self._open_brackets:
                if not self._skip_blanks():
                    raise _truncation_error()
                self._read_token()
            found["".join(self._tokens)] = None
            self._tokens = []
        if not found:
            raise syntax_error(self._text, 0)
        return tuple(found)

    def _skip_blanks(self) -> bool:
        """Advance to the next token; return whether there is one."""
        end = end_of_blanks(self._text, self._at)
        if self._text.find("\\", self._at, end) >= 0:
            self._repairs["escaped_whitespace"] = None
        self._at = end
        return end < len(self._text)

    def _read_first_token(self, *, again: bool) -> None:
        """Read the first token of a document. Any further document must be an object."""
        mark = self._text[self._at]
        if mark != "{" and (again or mark not in self._allowed_starts):
            raise syntax_error(self._text, self._at)
        if again:
            self._repairs["repeated_object"] = None
        self._read_token()

    def _read_token(self) -> None:
        mark = self._text[self._at]
        if mark in "}]":
            self._pop_bracket(mark)
        elif mark in ",:":
            self._read_separator(mark)
        elif self._tokens and self._tokens[-1] not in _VALUE_OPENERS:
            raise syntax_error(self._text, self._at)
        else:
            self._read_value(mark)

    def _read_value(self, mark: str) -> None:
        match mark:
            case "{" | "[":
                self._push_bracket(mark)
            case '"' | "'":
                self._tokens.append(self._read_string(mark))
            case _:
                self._tokens.append(self._read_word())

    def _push_bracket(self, mark: str) -> None:
        self._open_brackets.append(BRACKETS[mark])
        if len(self._open_brackets) > MAX_DEPTH:
            raise depth_error()
        self._append_mark(mark)

    def _pop_bracket(self, mark: str) -> None:
        if self._open_brackets.pop() != mark:
            raise syntax_error(self._text, self._at)
        self._require_value()
        if self._tokens[-1] == ",":
            self._repairs["trailing_commas"] = None
            self._tokens.pop()
        self._append_mark(mark)

    def _read_separator(self, mark: str) -> None:
        self._require_value()
        if self._tokens[-1] in _VALUE_OPENERS:
            raise syntax_error(self._text, self._at)
        self._append_mark(mark)

    def _append_mark(self, mark: str) -> None:
        self._tokens.append(mark)
        self._at += 1

    def _require_value(self) -> None:
        """Reject `"key": ,`, which may mean null, blank, or nothing."""
        if self._tokens[-1] == ":" and self._tokens[-2][0] == '"':
            key = truncate(self._tokens[-2][1:-1], MAX_QUOTED_CHARS)
            raise ParseError("missing_value", f'The key "{key}" has no value.', key=key)

    def _read_word(self) -> str:
        """Read an unquoted word and return it as JSON."""
        start = self._at
        while self._text[self._at : self._at + 1] in _WORD_CHARS:
            self._at += 1
        word = self._text[start : self._at]
        if word in PYTHON_WORDS:
            self._repairs["python_literals"] = None
            return PYTHON_WORDS[word]
        if self._is_key(word):
            self._repairs["bare_keys"] = None
            return f'"{word}"'
        # A word at the end may be a truncated known word.
        known = word in _JSON_WORDS or word[:1] in _NUMERIC or self._at == len(self._text)
        if not known:
            raise syntax_error(self._text, start)
        return word

    def _is_key(self, word: str) -> bool:
        """Whether a word is a key without quotation marks, as in JavaScript."""
        is_key_position = self._open_brackets[-1:] == ["}"] and self._tokens[-1] in {"{", ","}
        at = self._at
        while at < len(self._text) and self._text[at] in BLANKS:
            at += 1
        return is_key_position and word.isidentifier() and self._text[at : at + 1] == ":"

    def _read_string(self, quote: str) -> str:
        """Copy one string as a JSON string, jumping from escape to escape."""
        if quote == "'":
            self._repairs["python_literals"] = None
        text, parts = self._text, ['"']
        quoted = QuoteScanner(text, self._at + 1, quote)
        while (mark := quoted.next_mark()) >= 0:
            parts.append(self._escape_quotes(text[quoted.at : mark], quote))
            if text[mark] == quote:
                self._at = mark + 1
                return "".join((*parts, '"'))
            parts.append(self._rewrite_escape(mark + 1, quote))
            quoted.at = mark + 2
        raise _truncation_error()

    def _escape_quotes(self, chunk: str, quote: str) -> str:
        if not chunk.isprintable() and any(character < " " for character in chunk):
            self._repairs["control_characters"] = None
        return chunk.replace('"', '\\"') if quote == "'" else chunk

    def _rewrite_escape(self, at: int, quote: str) -> str:
        """Return the JSON for the character at `at`, which follows a backslash."""
        character = self._text[at]
        if character in _ESCAPES[quote]:
            return "\\" + character
        if character == "'":
            self._repairs["python_literals"] = None
            return "'"
        if character == "x" and quote == "'":
            return "\\u00"
        if character in "\r\n" and quote == '"':
            self._repairs["control_characters"] = None
            return "\\\\" + character
        raise ParseError(
            "bad_escape",
            f"`\\{character}` is not a valid JSON escape.",
            advice="Write each backslash in a string as two, and send the arguments again.",
        )


def _truncation_error() -> ParseError:
    """Return the error for JSON that ends too early."""
    return ParseError(
        "cut_off",
        "The JSON ends too early.",
        advice="Send the arguments again as one complete JSON object.",
    )
