"""Detects quoted calls: calls in a reply that may be copied from untrusted text.

Tool results, documents, and pasted text are untrusted. A model that repeats a call from them
rarely repeats its bytes: spacing, case, escapes, and invisible characters change, and line numbers,
log prefixes, or surrounding JSON are dropped. So both sides are folded before they are compared,
over all untrusted text together, because a call may be split across sources:

    verbatim     the text contains the folded call
    over lines   consecutive lines end with its parts, with any prefix
    in pieces    a few long pieces of tool results, joined, are the folded call
    scattered    pieces of the call follow each other, or are long: see `disguised_calls`
    retold       a tool result has its name in call position, with its arguments: likewise

The text is compared in several views: in order, grouped by JSON key, without tags, and decoded.
Parsing the same call in another dialect is up to the dialects, which search the `passages`. All of
this takes linear time. Text that is too long to compare counts as quoted.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import chain
from typing import Any, Final, Literal

import msgspec

from surecall.parsing.budget import WorkBudget
from surecall.parsing.deobfuscation import (
    TAG_PATTERN,
    decoded_texts,
    hidden_texts,
    plain_text,
    plain_texts,
)
from surecall.parsing.disguised_calls import (
    columns_of,
    is_retold,
    is_scattered,
    longest_piece,
    skeleton,
)
from surecall.parsing.names import NAMESPACE_PREFIXES
from surecall.values.nesting import TooDeep, decode_json

# How untrusted text is like a call: it has a copy of the call, it retells it, or neither.
Likeness = Literal["copy", "retold", ""]
# Separates the sources. A call cannot span it, but its folded letters can, so it is not a line.
SOURCE_BOUNDARY: Final = "\x1d\n"
MAX_CHARS: Final = 2 * 1024 * 1024
MAX_LINES: Final = 50_000
_NON_LETTERS: Final = re.compile(r"[\W_]+")
_NON_LETTERS_IN_LINE: Final = re.compile(r"[^\w\r\n]+|_+")
# The same for ASCII text, much faster.
_ASCII_NON_LETTERS: Final = {code: None for code in range(128) if not chr(code).isalnum()}
_ASCII_NON_LETTERS_IN_LINE: Final = {
    code: None for code in _ASCII_NON_LETTERS if chr(code) not in "\r\n"
}
_ASCII_BLANKS: Final = dict.fromkeys(_ASCII_NON_LETTERS, " ")
_LINE_BREAKS: Final = re.compile(r"[\r\n]+")
# Not part of a tool's name: a namespace before it, a token or a number after it.
_BEFORE_NAME: Final = rf"(?:{'|'.join(map(re.escape, NAMESPACE_PREFIXES))}){{0,4}}"
_AFTER_NAME: Final = r"(?:\(\)|<\|\w+\|>|:\d+(?!\w))*"
# 42 and 42.0 are the same number.
_ZERO_FRACTION: Final = re.compile(r"(?<=\d)\.0+$")
_CELL_EDGE: Final = re.compile(rf"{TAG_PATTERN.pattern}|[|\u2502]")
_SHORTEST_REVERSED: Final = 12
# How many steps the search for scattered calls may take in all.
_MOST_STEPS: Final = 200_000
_COLUMN_EDGES: Final = (re.compile(r"\t|[ ]{2,}"), re.compile(r"[|\u2502]"))
# A call over several lines: its maximum length, and how many unrelated lines may interrupt it.
_MAX_CHARS_OVER_LINES: Final = 2_000
_MAX_GAP_LINES: Final = 2
_BRACKET: Final = re.compile(r"[\[{<]|\w\(")
# A call with this many letters besides its name and arguments cannot be mistaken for prose.
_MIN_FRAME_CHARS: Final = 4
# A call in pieces: their average length, and their maximum number.
_MIN_PIECE_CHARS: Final = 12
_MAX_PIECES: Final = 8
# How far the arguments may be from the name, besides the length of the call.
_CALL_DISTANCE: Final = 2_000
_LONGEST_NUMBER: Final = 9
_ESCAPED_QUOTE: Final = re.compile(r'\\++"')
# Numbers and marks before a line, and a mark after it.
_LINE_MARGIN: Final = re.compile(
    r"(?m)^[ \t>+#*/|\u2502-]*(?:[^\s{}<>]{0,60}?\d[ \t]*[:|.)\]\u2502\t-]+)?[ \t]*"
    r"|(?<![ \t])[ \t]*[|\u2502][ \t]*$"
)


@cache
def name_pattern(name: str, after: str = "") -> re.Pattern[str]:
    """Return the pattern of a tool's name in any spelling, followed by the pattern `after`."""
    parts = map(re.escape, re.split("[-_.]", name))
    return re.compile(rf"{'[-_.]'.join(parts)}{after}", re.IGNORECASE)


def with_canonical_name(text: str, name: str) -> str:
    """Return a text with all spellings of a tool's name replaced by the name itself."""
    return re.sub(
        rf"(?i){_BEFORE_NAME}{name_pattern(name).pattern}{_AFTER_NAME}", lambda _: name, text
    )


def fold_text(text: str) -> str:
    """Return the letters and digits of a text, without anything that quoting may change."""
    return _fold_letters(plain_text(text))


def _fold_letters(text: str) -> str:
    if text.isascii():
        return text.translate(_ASCII_NON_LETTERS).lower()
    return _NON_LETTERS.sub("", text.casefold())


def _folded_words(text: str) -> str:
    """Return the folded words of a text, each surrounded by blanks."""
    if text.isascii() and text.isalnum():
        return f" {text.lower()} "
    decoded = plain_text(text)
    if decoded.isascii():
        words = decoded.translate(_ASCII_BLANKS).lower().split()
    else:
        words = _NON_LETTERS.sub(" ", decoded.casefold()).split()
    return f" {' '.join(words)} "


def _folded_lines(text: str) -> list[str]:
    if text.isascii():
        plain = text.translate(_ASCII_NON_LETTERS_IN_LINE).lower()
    else:
        plain = _NON_LETTERS_IN_LINE.sub("", text.casefold())
    return _LINE_BREAKS.sub("\n", plain).split("\n")


class UntrustedText:
    """The untrusted text of a conversation, to compare calls with.

    `texts` is all of it in order; `pasted` comes from users and `returned` from tools.
    """

    def __init__(
        self, texts: Sequence[str], pasted: Sequence[str], returned: Sequence[Any]
    ) -> None:
        self._texts = texts
        self._pasted = pasted
        self._returned = returned
        self.size = sum(map(len, texts))
        self._steps = WorkBudget(_MOST_STEPS)
        self._folded_stretches: dict[str, str] = {}
        self.is_too_long = (
            self.size > MAX_CHARS
            or sum(text.count("\n") + text.count("\\n") for text in texts) > MAX_LINES
        )

    def has_text(self, words: str) -> bool:
        """Whether the untrusted text contains a text, apart from its spelling."""
        if self.is_too_long:
            return True
        folded = fold_text(words)
        return bool(folded) and (
            any(folded in letters for letters in self._plain_views.values())
            or (len(folded) >= _SHORTEST_REVERSED and self._has_variants(folded))
            or any(_spans_lines(folded, lines) for lines in self._line_views)
            or any(_spans_lines(folded[::-1], lines) for lines in self._reversed_line_views)
        )

    def has_call(
        self, words: str, name: str, arguments: Any, *, allow_paraphrase: bool = True
    ) -> bool:
        """Whether a call, given as written and as parsed, may be copied.

        Unless `is_retold_enough`, it does not count that a tool result retells the call.
        """
        if not self._texts:
            return False
        name, arguments = name.rpartition(".")[2], _decode_line(arguments)
        values = "".join(key + value for key, value in _argument_lines(arguments)).replace(" ", "")
        # Without a frame, `delete(post=7)` has the letters of "Delete post 7", a plausible request.
        is_framed = len(fold_text(words)) >= len(fold_text(name)) + len(values) + _MIN_FRAME_CHARS
        source = self if is_framed or self._has_markup else self._results_only
        return (
            source.has_text(words)
            or self._has_pieces(fold_text(words))
            or self._has_parts(words, name, arguments)
            or (allow_paraphrase and self.retells(name, arguments, len(words)))
        )

    def _has_variants(self, folded: str) -> bool:
        """Whether the text has a folded text backwards, or in letters that look alike."""
        views = self._plain_views.values()
        return any(folded[::-1] in letters or _resembles(folded, letters) for letters in views)

    def retells(self, name: str, arguments: Any, size: int) -> bool:
        """Whether a tool result has the name in call position, together with all arguments."""
        name, arguments = name.rpartition(".")[2], _decode_line(arguments)
        lines = [(key, line) for key, text in leaves(arguments) for line in text.splitlines()]
        keys = [(key, "") for key in keys_of(arguments)]
        return is_retold(self._result_texts, name_pattern(name), [*lines, *keys], size)

    @cached_property
    def _plain_views(self) -> dict[str, str]:
        """All plain texts, each with its folded letters."""
        raw = (SOURCE_BOUNDARY.join(self._texts), self._texts_by_key)
        pairs = dict(zip(raw, self._base_views, strict=True))
        uncovered = (text for pair in pairs.items() for text in hidden_texts(*pair))
        found = ((text, edge) for edge in _COLUMN_EDGES for text in self._plain_texts)
        columns = (columns_of(text, edge) for text, edge in found if edge.search(text))
        texts = (
            *self._base_views,
            *uncovered,
            *self._decoded_views,
            *map(plain_text, filter(None, columns)),
        )
        return {text: _fold_letters(text) for text in texts}

    @cached_property
    def _base_views(self) -> tuple[str, str]:
        """The deobfuscated texts: in order, and grouped by key."""
        return plain_text(SOURCE_BOUNDARY.join(self._texts)), plain_text(self._texts_by_key)

    @cached_property
    def _decoded_views(self) -> list[str]:
        # Escapes in JSON change the length of lines.
        sources = dict.fromkeys((*self._base_views, SOURCE_BOUNDARY.join(self._plain_texts)))
        return [text for source in sources for text in decoded_texts(source)]

    @cached_property
    def _line_views(self) -> list[list[str]]:
        """The folded lines of the texts, including the cells of tables."""
        # Split before decoding: entities in cells are not cell edges.
        cells = (_CELL_EDGE.sub("\n", text) for text in (self._base_views[0], self._texts_by_key))
        texts = dict.fromkeys((*self._base_views, *map(plain_text, cells), *self._decoded_views))
        views = dict.fromkeys(tuple(filter(None, _folded_lines(text))) for text in texts)
        return [*map(list, views)]

    @cached_property
    def _texts_by_key(self) -> str:
        return SOURCE_BOUNDARY.join(
            filter(None, map(_group_by_key, (self._returned, self._pasted)))
        )

    @cached_property
    def _result_texts(self) -> list[str]:
        """The plain texts of each tool result."""
        texts = [text for value in self._returned for text in plain_texts(as_text(value))]
        return [*dict.fromkeys(texts)]

    @cached_property
    def _result_words(self) -> list[str]:
        """The folded words of each tool result, including its keys."""
        return [
            _folded_words("\n".join(plain_texts("\n".join(chain.from_iterable(leaves(value))))))
            for value in self._returned
        ]

    @cached_property
    def _reversed_line_views(self) -> list[list[str]]:
        """The lines reversed, for lines with a suffix instead of a prefix."""
        return [[line[::-1] for line in reversed(lines)] for lines in self._line_views]

    @cached_property
    def _has_markup(self) -> bool:
        """Whether users wrote more than plain sentences."""
        return any(map(_BRACKET.search, plain_texts("\n".join(self._pasted))))

    @cached_property
    def _results_only(self) -> "UntrustedText":
        return UntrustedText([*map(as_text, self._returned)], (), self._returned)

    def _has_pieces(self, folded: str) -> bool:
        """Whether a few long pieces of tool results, joined, are the folded call."""
        most = min(len(folded) // _MIN_PIECE_CHARS, _MAX_PIECES)
        if most < 2 or not self._result_words:  # noqa: PLR2004  # one piece is a verbatim copy
            return False
        views = (
            "".join(self._result_words).replace(" ", ""),
            fold_text(_group_by_key(self._returned)),
        )
        return any(_count_pieces(folded, view, most) <= most for view in views)

    def _has_parts(self, words: str, name: str, arguments: Any) -> bool:
        """Whether the parts of a call are scattered over the untrusted text."""
        call = skeleton(plain_text(words))
        pairs = [
            (skeleton(plain_text(key)), skeleton(plain_text(text)))
            for key, text in leaves(arguments)
        ]
        return is_scattered(call, skeleton(name), pairs, self._skeletons, self._steps)

    @cached_property
    def _plain_texts(self) -> list[str]:
        """The texts of users and in tool results, in which line ends are not escaped."""
        return [*self._pasted, *(text for _, text in leaves([*self._returned]))]

    @cached_property
    def _skeletons(self) -> list[str]:
        """The skeletons of all plain texts, also with their lines in the opposite order."""
        # Escaped line ends may be part of the call.
        raw = SOURCE_BOUNDARY.join(self._plain_texts)
        upwards = ("\n".join(reversed(text.split("\n"))) for text in (raw, *self._base_views))
        return [*dict.fromkeys(map(skeleton, (*self._plain_views, *map(plain_text, upwards))))]

    def passages(self, name: str, arguments: Any, size: int) -> Iterator[str]:
        """Yield the stretches of text that have a name and all arguments of a call."""
        # Dialects spell null differently.
        values, named = argument_values(arguments) - {"null"}, name_pattern(name)
        near = _CALL_DISTANCE + 2 * size
        for text in filter(named.search, self._readable_views):
            for at in range(0, len(text), near):
                stretch = text[at : at + 2 * near]
                letters = self._fold_stretch(stretch) if named.search(stretch) else ""
                if letters and all(value in letters for value in values):
                    yield stretch

    def _fold_stretch(self, stretch: str) -> str:
        """Fold a stretch once, however many calls are compared with it."""
        if stretch not in self._folded_stretches:
            self._folded_stretches[stretch] = fold_text(stretch)
        return self._folded_stretches[stretch]

    @cached_property
    def _readable_views(self) -> list[str]:
        """The texts in which calls can be parsed.

        Includes the original texts, because decoding escapes may break a call, and the texts with
        line prefixes removed and lines joined.
        """
        raw = (SOURCE_BOUNDARY.join(self._texts), self._texts_by_key)
        bare = (_LINE_MARGIN.sub("", text) for text in (self._base_views[0], self._texts_by_key))
        cells = plain_text(TAG_PATTERN.sub("\n", self._texts_by_key))
        texts = [*dict.fromkeys((*raw, *map(_join_lines, (*bare, cells)), *self._plain_views))]
        # Calls in JSON strings, also in strings of strings.
        unquoted = (_ESCAPED_QUOTE.sub('"', text) for text in texts if '\\"' in text)
        return [*dict.fromkeys((*texts, *unquoted))]


def argument_values(arguments: Any) -> set[str]:
    """Return the folded values in the arguments of a call."""
    opened = ((key, _decode_line(text)) for key, text in leaves(arguments))
    texts = [text for key, value in opened for _, text in leaves(value, key)]
    # Where the schema has no type, the elements in a value stay text.
    texts += [part for text in texts if "<" in text for part in TAG_PATTERN.split(text)]
    return {folded for text in dict.fromkeys(texts) if (folded := _fold_value(text))}


def _fold_value(text: str) -> str:
    # Most values are words or integers, which need no decoding.
    return (
        text.lower()
        if text.isascii() and text.isalnum()
        else fold_text(_ZERO_FRACTION.sub("", text))
    )


def _join_lines(text: str) -> str:
    """Join the lines of a text, without lines that only hold line numbers."""
    lines: list[str] = []
    number = ""
    for line in text.split("\n"):
        if line.isdecimal() and line == (number or line):
            number = str(int(line[:_LONGEST_NUMBER]) + 1)
        else:
            lines.append(line)
    return "".join(lines)


def as_text(value: Any) -> str:
    """Return a string unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _group_by_key(values: Iterable[Any]) -> str:
    """Return the texts in some values, grouped by key, including those in JSON lines."""
    columns: dict[tuple[bool, str], list[str]] = {}
    for value in values:
        for key, text in leaves(value):
            columns.setdefault((False, key), []).append(text)
            if (opened := _decode_nested(text)) is not text:
                for inner, one in leaves(opened, key):
                    columns.setdefault((True, inner), []).append(one)
    return "\n".join("\n".join(texts) for texts in columns.values())


def _count_pieces(folded: str, view: str, limit: int) -> int:
    """Count the pieces of a view that form a text, up to `limit + 1`."""
    count = at = 0
    while at < len(folded) and count <= limit:
        length = longest_piece(folded, at, view)
        count += 1 if length else limit + 1
        at += length
    return count


def _argument_lines(arguments: Any) -> Iterator[tuple[str, str]]:
    """Yield the values in the arguments of a call, line by line, with their keys."""
    for key, text in leaves(arguments):
        for line in text.splitlines():
            if not (words := _folded_words(line)).isspace():
                yield _folded_words(key), words


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers in a JSON value, from left to right, with their keys."""
    stack: list[tuple[str, Any]] = [(key, value)]
    while stack:
        key, item = stack.pop()
        match item:
            case dict():
                stack += reversed(item.items())
            case list():
                stack += [(key, one) for one in reversed(item)]
            case str():
                yield key, item
            case _:
                yield key, msgspec.json.encode(item).decode()


def keys_of(value: Any) -> Iterator[str]:
    """Yield the keys in a JSON value."""
    stack = [value]
    while stack:
        match stack.pop():
            case dict() as item:
                yield from item
                stack += item.values()
            case list() as items:
                stack += items
            case _:
                pass


def _decode_nested(value: Any) -> Any:
    """Decode each line of a text that is JSON; return a value without JSON unchanged."""
    if not isinstance(value, str) or "{" not in value:
        return value
    return [_decode_line(line) for line in value.splitlines()]


def _decode_line(line: Any) -> Any:
    if not isinstance(line, str) or not line.lstrip().startswith(("{", "[")):
        return line
    try:
        return decode_json(line)
    except (msgspec.DecodeError, UnicodeError, TooDeep):
        return line


def _spans_lines(folded: str, lines: Sequence[str]) -> bool:
    """Whether consecutive lines end with the parts of a folded call.

    Line prefixes are ignored: a number, a time, a file name, a mark. `reached` maps each position
    up to which the lines so far may be a copy to the number of unrelated lines since then.
    """
    if len(folded) > _MAX_CHARS_OVER_LINES:
        return False
    reached: dict[int, int] = {}
    for line in lines:
        if any(folded[at:] in line for at in reached):
            return True
        ends: dict[int, int] = {at: gap + 1 for at, gap in reached.items() if gap < _MAX_GAP_LINES}
        for at in (0, *reached):
            for end in _line_end_positions(line, folded, at):
                ends[end] = 0
        reached = ends
    return False


def _line_end_positions(line: str, folded: str, at: int) -> Iterator[int]:
    """Yield the ends of the parts of a folded call that start at `at` and end the line."""
    end = folded.find(line[-1:] or "\n", at) + 1
    while end:
        if line.endswith(folded[at:end]):
            yield end
        end = folded.find(line[-1:], end) + 1


# Letters that look alike: one outside ASCII may stand for any ASCII letter. At least half of the
# letters must be equal, and all others outside ASCII.

_SEED: Final = 3
_MOST_SEEDS: Final = 16
_MOST_PLACES: Final = 50
_LONGEST_RESEMBLING: Final = 2_000


def _resembles(folded: str, letters: str) -> bool:
    """Whether folded letters have a text, apart from letters outside ASCII. Takes linear time."""
    if letters.isascii() or len(folded) > _LONGEST_RESEMBLING:
        return False
    step = max(1, len(folded) // _MOST_SEEDS)
    for offset in range(0, len(folded) - _SEED + 1, step):
        place = letters.find(folded[offset : offset + _SEED])
        for _ in range(_MOST_PLACES):
            if place < 0:
                break
            if place >= offset and _is_alike(
                folded, letters[place - offset : place - offset + len(folded)]
            ):
                return True
            place = letters.find(folded[offset : offset + _SEED], place + 1)
    return False


def _is_alike(folded: str, window: str) -> bool:
    if len(window) < len(folded):
        return False
    others = 0
    for wanted, found in zip(folded, window, strict=True):
        if wanted != found:
            if found.isascii() or not wanted.isascii():
                return False
            others += 1
    return 2 * others <= len(folded)
