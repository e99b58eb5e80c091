"""Almost-JSON rewritten as JSON: one pass over the text, no recursion, no guessing.

It changes spelling, never structure: each rewriting has one possible meaning and leaves its
name in `fired`. What is missing, ambiguous or cut off stays so, and is refused with a reason.
"""

from surecall.values.types import JSON

MAX_DEPTH = 64
# An object, or a string that may have one inside.
OBJECTS = frozenset('{"')

_CLOSERS = {"{": "}", "[": "]"}
_BLANK = frozenset(" \t\n\r")
_ESCAPED_BLANK = frozenset({"\\n", "\\r", "\\t"})
_WORD = frozenset("+-.0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_NUMERIC = frozenset("-0123456789")
# The last two are no JSON, but the decoder refuses them with a better sentence than ours.
_JSON_WORDS = frozenset({"true", "false", "null", "NaN", "Infinity"})
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}
# Python reads `\/` as two characters and JSON as one, so only a JSON string may hold it.
_ESCAPES = {'"': frozenset('"\\/bfnrtu'), "'": frozenset('"\\bfnrtu')}
# A value follows one of these; a comma, a colon or a second value does not.
_OPENINGS = frozenset("{[,:")
_QUOTE_LIMIT = 80
_SNIPPET = 40


class Unusable(Exception):
    """Why a text cannot be read, in words for the model."""

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


def quoted(text: str) -> str:
    """Cut text of the model to the length that a sentence may quote."""
    return text if len(text) <= _QUOTE_LIMIT else text[: _QUOTE_LIMIT - 1] + "…"


def unreadable(text: str, at: int) -> Unusable:
    """Say where reading stopped."""
    near = text[max(0, at - _SNIPPET // 2) : at + _SNIPPET].strip()
    return Unusable("unreadable", f"The arguments are not valid JSON near `{near}`.", near=near)


def too_deep() -> Unusable:
    """Say that the nesting passes the limit."""
    return Unusable(
        "too_deep",
        f"The JSON is nested too deeply: more than {MAX_DEPTH} levels.",
        advice="Send the arguments again as one flatter JSON object.",
    )


def normalised(
    text: str, fired: dict[str, None], begins: frozenset[str] = OBJECTS
) -> tuple[str, ...]:
    """Rewrite `text` as JSON: one document, or several if it held several unlike ones.

    `begins` are the marks that the first of them may begin with.
    """
    return _Rewriter(text, fired, begins).documents()


def beginning(text: str, fired: dict[str, None]) -> tuple[tuple[str, ...], str]:
    """Rewrite the documents that a text begins with, and return what follows them as well."""
    rewriter = _Rewriter(text, fired)
    return rewriter.documents(to_the_end=False), rewriter.rest


class _Rewriter:
    """The place in the text, the brackets that are open, and the tokens written so far."""

    def __init__(self, text: str, fired: dict[str, None], begins: frozenset[str] = OBJECTS) -> None:
        self._text = text
        self._begins = begins
        self._at = 0
        self._fired = fired
        self._open: list[str] = []
        self._tokens: list[str] = []

    @property
    def rest(self) -> str:
        """What has not been read."""
        return self._text[self._at :]

    def documents(self, *, to_the_end: bool = True) -> tuple[str, ...]:
        """Read documents, of which one that was written twice is kept once."""
        found: dict[str, None] = {}
        while self._skip_blanks():
            if found and not to_the_end and self._text[self._at] != "{":
                break
            self._start(again=bool(found))
            while self._open:
                if not self._skip_blanks():
                    raise _cut_off()
                self._token()
            found["".join(self._tokens)] = None
            self._tokens = []
        if not found:
            raise unreadable(self._text, 0)
        return tuple(found)

    def _skip_blanks(self) -> bool:
        """Go to the next token; say whether there is one."""
        text = self._text
        while self._at < len(text):
            if text[self._at] in _BLANK:
                self._at += 1
            elif text[self._at : self._at + 2] in _ESCAPED_BLANK:
                self._fired["escaped_whitespace"] = None
                self._at += 2
            else:
                return True
        return False

    def _start(self, *, again: bool) -> None:
        """Read the first token of a document. After the first one, there may be objects only."""
        mark = self._text[self._at]
        if mark != "{" and (again or mark not in self._begins):
            raise unreadable(self._text, self._at)
        if again:
            self._fired["repeated_object"] = None
        self._token()

    def _token(self) -> None:
        mark = self._text[self._at]
        if mark in "}]":
            self._closing(mark)
        elif mark in ",:":
            self._separator(mark)
        elif self._tokens and self._tokens[-1] not in _OPENINGS:
            raise unreadable(self._text, self._at)
        else:
            self._value(mark)

    def _value(self, mark: str) -> None:
        match mark:
            case "{" | "[":
                self._opening(mark)
            case '"' | "'":
                self._tokens.append(self._string(mark))
            case _:
                self._tokens.append(self._word())

    def _opening(self, mark: str) -> None:
        self._open.append(_CLOSERS[mark])
        if len(self._open) > MAX_DEPTH:
            raise too_deep()
        self._mark(mark)

    def _closing(self, mark: str) -> None:
        if self._open.pop() != mark:
            raise unreadable(self._text, self._at)
        self._expect_value()
        if self._tokens[-1] == ",":
            self._fired["trailing_commas"] = None
            self._tokens.pop()
        self._mark(mark)

    def _separator(self, mark: str) -> None:
        self._expect_value()
        if self._tokens[-1] in _OPENINGS:
            raise unreadable(self._text, self._at)
        self._mark(mark)

    def _mark(self, mark: str) -> None:
        self._tokens.append(mark)
        self._at += 1

    def _expect_value(self) -> None:
        """Refuse `"key": ,`: whether it meant null, blank or nothing is the model's to say."""
        if self._tokens[-1] == ":" and self._tokens[-2][0] == '"':
            key = quoted(self._tokens[-2][1:-1])
            raise Unusable("missing_value", f'The key "{key}" has no value.', key=key)

    def _word(self) -> str:
        start = self._at
        while self._text[self._at : self._at + 1] in _WORD:
            self._at += 1
        word = self._text[start : self._at]
        if word in _PYTHON_WORDS:
            self._fired["python_literals"] = None
            return _PYTHON_WORDS[word]
        if self._is_key(word):
            self._fired["bare_keys"] = None
            return f'"{word}"'
        # A word at the end may be the beginning of a known one, cut off.
        known = word in _JSON_WORDS or word[:1] in _NUMERIC or self._at == len(self._text)
        if not known:
            raise unreadable(self._text, start)
        return word

    def _is_key(self, word: str) -> bool:
        """Whether a word is a key without its quotation marks, as JavaScript allows it."""
        in_place = self._open[-1:] == ["}"] and self._tokens[-1] in {"{", ","}
        at = self._at
        while self._text[at : at + 1] in _BLANK:
            at += 1
        return in_place and word.isidentifier() and self._text[at : at + 1] == ":"

    def _string(self, quote: str) -> str:
        """Copy one string as a JSON string, jumping from escape to escape."""
        if quote == "'":
            self._fired["python_literals"] = None
        text, parts, start = self._text, ['"'], self._at + 1
        end = text.find(quote, start)
        while end >= 0:
            # Bounded by `end`, or a far backslash would be looked for once per string.
            slash = text.find("\\", start, end)
            if slash < 0:
                self._at = end + 1
                return "".join((*parts, self._plain(text[start:end], quote), '"'))
            parts += (self._plain(text[start:slash], quote), self._escape(slash + 1, quote))
            start = slash + 2
            if start > end:
                end = text.find(quote, start)
        raise _cut_off()

    def _plain(self, chunk: str, quote: str) -> str:
        if not chunk.isprintable() and any(character < " " for character in chunk):
            self._fired["control_characters"] = None
        return chunk.replace('"', '\\"') if quote == "'" else chunk

    def _escape(self, at: int, quote: str) -> str:
        character = self._text[at]
        if character in _ESCAPES[quote]:
            return "\\" + character
        if character == "'":
            self._fired["python_literals"] = None
            return "'"
        if character == "x" and quote == "'":
            return "\\u00"
        if character in "\r\n" and quote == '"':
            self._fired["control_characters"] = None
            return "\\\\" + character
        raise Unusable(
            "bad_escape",
            f"`\\{character}` is not an escape that JSON knows.",
            advice="Write each backslash in a string as two, and send the arguments again.",
        )


def _cut_off() -> Unusable:
    return Unusable(
        "cut_off",
        "The JSON ends too early.",
        advice="Send the arguments again as one complete JSON object.",
    )


def mended(text: str) -> str:
    """Join surrogates that two pieces had torn apart; a half alone becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
