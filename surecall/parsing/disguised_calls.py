"""Finds disguised calls: text that has a call in other words, or scattered in pieces.

    retold      the tool's name in call position, and its arguments, with nothing between them but
                marks, argument keys, and words such as `arguments`
    in order    all characters of the call in their order, in pieces, and between two pieces at most
                a gap that a piece of this length does not bridge by chance
    in pieces   long pieces of the call, in any order and at any distance

A name is in call position in delete_file(…, "delete_file": {…, tool: delete_file …, and delete_file
--path …. The arguments may come before it. Prose retells a call if it asks for it by argument name:
"use delete_file with the path a.txt". Data that merely has the words of a call does not:
`{"order": "A-7", "allowed": ["cancel"]}` does not retell `cancel(order="A-7")`.

The last two compare skeletons, which have the marks of a call, unlike folded letters: prose has the
words of a call, but not `,arguments:{path:`.

Takes linear time; where the search would take longer, the text counts as one that has the call.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

from surecall.parsing.budget import WorkBudget
from surecall.parsing.deobfuscation import plain_text

Words = tuple[str, ...]

# How far the arguments may reach, besides the length of the call.
_NEAR: Final = 400
# How many words may be compared, besides one for each character.
_MOST_COMPARED: Final = 100_000
_WORD: Final = re.compile(r"[^\W_]+")
# Words of calls, besides the name and the argument keys.
_ARGUMENT_WORDS: Final = frozenset(
    (
        *("arguments", "argument", "args", "arg", "parameters", "parameter", "params", "param"),
        *("inputs", "input", "kwargs"),
    )
)
_CALL_WORDS: Final = _ARGUMENT_WORDS | {
    *("name", "tool", "tools", "function", "functions", "func", "call", "calls", "invoke"),
    *("invocation", "action", "recipient", "json", "type", "id", "string", "str"),
}
_INTRODUCTION: Final = re.compile(
    r"(?i)(?<![^\W_])(?:name|tool|tool_?name|function|function_?name|func|call|invoke|recipient_?name)"
    r"[\"'`\\]*\s{0,3}(?:[:=>]|\()[\s\"'`\\\[({<]{0,9}(?:functions?\.|tools?\.)?\Z"
)
_LONGEST_INTRODUCTION: Final = 40
# Prose that asks for a call, such as "please use delete_file with the path a.txt".
_ORDER: Final = re.compile(
    r"(?i)(?<![^\W_])(?:use|call|run|invoke|execute)\s{1,3}(?:the\s)?[\"'`*]{0,3}\Z"
)
_NOT_IN_ORDER: Final = re.compile(r"[\n\x1d]")
# What follows a name that is called.
_OPENING: Final = re.compile(r"\(|[\"'`\\*]{0,4}\s{0,3}[:=]?\s{0,3}\{")
# What stands between a name and the key of its first argument, and follows the key.
_BEFORE_KEY: Final = re.compile(r"[\s>]*<|[ \t]+(?P<dashes>--?)?|:[ \t]*\n[ \t]+")
_AFTER_KEY: Final = re.compile(r"[\"'`\\]*\s{0,3}[:=>]")
# The end of a sentence or of a source, or a bracket that closes the call.
_FOREIGN: Final = re.compile(r"[.!?][\"')\]]*\s|(?<!\()\)|\x1d")
_MOST_DIGITS: Final = 6
_SPELLINGS: Final = {"null": "none"}


class _Token(NamedTuple):
    """A word, and the text between it and the word read before."""

    gap: str
    word: str


class _CallWords:
    """The words of a call, in one reading direction."""

    def __init__(self, values: Iterable[Words], keys: Iterable[Words]) -> None:
        self.values = {value: None for value in values if value}
        self.starts = _by_first(self.values)
        self.keys = _by_first(dict.fromkeys(filter(None, keys)))

    def backwards(self) -> "_CallWords":
        """Return the same words for reading backwards."""
        keys = chain.from_iterable(self.keys.values())
        return _CallWords((value[::-1] for value in self.values), (key[::-1] for key in keys))

    def may_follow_name(self, word: str) -> bool:
        """Whether a word may come right after the name in a call."""
        return word in self.starts or word in self.keys or word in _CALL_WORDS or word.isdigit()


def words_of(text: str) -> Words:
    """Return the folded words of a text."""
    return tuple(map(_normalize_word, _WORD.finditer(plain_text(text))))


def is_retold(
    texts: Iterable[str], name: re.Pattern[str], arguments: Sequence[tuple[str, str]], size: int
) -> bool:
    """Whether texts retell a call, given by the pattern of its name and its arguments.

    The `arguments` are texts with their keys, and `size` is the length of the call.
    """
    pairs = [(words_of(key), words_of(value)) for key, value in arguments]
    wanted = _CallWords((value for _, value in pairs), (key for key, _ in pairs))
    if not wanted.values:
        return False
    search, left = _RetellingSearch(wanted, _NEAR + 2 * size), _MOST_COMPARED
    for text in texts:
        left += len(text)
        for match in name.finditer(text):
            if search.has_call_at(text, match) or (left := left - search.compared) < 0:
                return True
    return False


class _RetellingSearch:
    """Compares what surrounds a name with a call; `compared` is what the last one has cost."""

    def __init__(self, wanted: _CallWords, near: int) -> None:
        self._ahead, self._behind = wanted, wanted.backwards()
        self._near = near
        self.compared = 0

    def has_call_at(self, text: str, name: re.Match[str]) -> bool:
        """Whether the name is in call position, together with its arguments."""
        start, end = name.span()
        since = max(0, start - _LONGEST_INTRODUCTION)
        is_introduced = bool(_INTRODUCTION.search(text[since:start]))
        self.compared = 1
        if _ORDER.search(text[since:start]) and self._is_ordered(text[end : end + self._near]):
            return True
        first = _WORD.search(text, end, end + self._near)
        if first is not None and self._ahead.may_follow_name(_normalize_word(first)):
            called = is_introduced or self._is_opened(text, end)
            ahead = (_tokens(text[end : end + width], width) for width in self._widths())
            if self._compare(ahead, self._ahead, is_called=called):
                return True
        if not is_introduced:
            return False
        widths = self._widths()
        behind = (_tokens_backwards(text[max(0, start - width) : start], width) for width in widths)
        return self._compare(behind, self._behind, is_called=True)

    def _is_ordered(self, text: str) -> bool:
        """Whether the rest of a line has all keys and values, in any order, among any words."""
        words = words_of(_NOT_IN_ORDER.split(text, maxsplit=1)[0])
        self.compared += len(words)
        phrases = [*chain.from_iterable(self._ahead.keys.values()), *self._ahead.values]
        joined = f" {' '.join(words)} "
        return bool(self._ahead.keys) and all(f" {' '.join(each)} " in joined for each in phrases)

    def _widths(self) -> Iterator[int]:
        """Yield how much text to compare: more if all of it could be part of the call."""
        width = min(_NEAR, self._near)
        while width < self._near:
            yield width
            width *= 4
        yield self._near

    def _compare(
        self, windows: Iterable[list[_Token]], call_words: _CallWords, *, is_called: bool
    ) -> bool:
        """Whether the first of some ever wider windows that decides it retells the call."""
        for tokens in windows:
            self.compared += len(tokens)
            if (found := _retells(tokens, call_words, is_called=is_called)) is not None:
                return found
        return False

    def _is_opened(self, text: str, end: int) -> bool:
        """Whether a bracket or the first argument key shows that the name is called."""
        if _OPENING.match(text, end):
            return True
        before = _BEFORE_KEY.match(text, end)
        key = _WORD.match(text, before.end()) if before else None
        if before is None or key is None or _normalize_word(key) not in self._ahead.keys:
            return False
        return bool(before["dashes"] or "<" in before[0] or _AFTER_KEY.match(text, key.end()))


def _retells(tokens: Sequence[_Token], call_words: _CallWords, *, is_called: bool) -> bool | None:
    """Whether tokens begin with all values of a call, and with nothing else but its words.

    None if they end too early.
    """
    missing, at = dict(call_words.values), 0
    while at < len(tokens):
        gap, word = tokens[at]
        # The punctuation between later values may be their own.
        if len(missing) == len(call_words.values) and _FOREIGN.search(gap):
            return False
        if value := _phrase_at(tokens, at, call_words.starts):
            missing.pop(value, None)
            if not missing:
                return is_called
            at += len(value)
        elif key := _phrase_at(tokens, at, call_words.keys):
            at += len(key)
        elif word in _CALL_WORDS or _is_line_number(gap, word):
            is_called = is_called or word in _ARGUMENT_WORDS
            at += 1
        else:
            return None if _is_cut(tokens, at, call_words.starts) else False
    return None


def _is_line_number(gap: str, word: str) -> bool:
    return "\n" in gap and word.isdigit() and len(word) <= _MOST_DIGITS


def _is_cut(tokens: Sequence[_Token], at: int, phrases_by_first: dict[str, list[Words]]) -> bool:
    """Whether tokens end in the beginning of a phrase."""
    rest = tuple(token.word for token in tokens[at:])
    return any(phrase[: len(rest)] == rest for phrase in phrases_by_first.get(rest[0], ()))


def _phrase_at(
    tokens: Sequence[_Token], at: int, phrases_by_first: dict[str, list[Words]]
) -> Words:
    """Return the longest phrase that begins at a position; empty if none does."""
    for phrase in phrases_by_first.get(tokens[at].word, ()):
        if phrase == tuple(token.word for token in tokens[at : at + len(phrase)]):
            return phrase
    return ()


def _by_first(phrases: Iterable[Words]) -> dict[str, list[Words]]:
    """Group phrases by their first word, the longest first."""
    groups: dict[str, list[Words]] = {}
    for phrase in sorted(phrases, key=len, reverse=True):
        groups.setdefault(phrase[0], []).append(phrase)
    return groups


def _normalize_word(match: re.Match[str]) -> str:
    word = match[0].casefold()
    return _SPELLINGS.get(word, word)


def _tokens(text: str, width: int) -> list[_Token]:
    """Return the words of a window of text; the last may be cut if the window is full."""
    tokens, end = [], 0
    for match in _WORD.finditer(text):
        tokens.append(_Token(text[end : match.start()], _normalize_word(match)))
        end = match.end()
    return tokens[:-1] if len(text) == width else tokens


def _tokens_backwards(text: str, width: int) -> list[_Token]:
    """Return the words of a window of text, the last one first."""
    tokens, start = [], len(text)
    for match in reversed([*_WORD.finditer(text)]):
        tokens.append(_Token(text[match.end() : start], _normalize_word(match)))
        start = match.start()
    return tokens[:-1] if len(text) == width else tokens


Pair = tuple[str, str]

_NO_SKELETON: Final[dict[int, str | None]] = {
    **dict.fromkeys(map(ord, " \t\r\n\f\v\xa0\u3000\"'`\\\u201c\u201d\u2018\u2019")),
    # The boundary of two sources counts as a gap.
    0x1D: "\x1d\x1d",
}
# A shorter call has too few marks.
_SHORTEST: Final = 20
_LONGEST: Final = 4_000
# The lengths of pieces to search for, and how far the next piece may be, by its length.
_GAPS: Final = (
    (1, 0),
    (2, 32),
    (3, 64),
    (4, 100),
    (5, 150),
    (6, 200),
    (8, 300),
    (12, 300),
    (24, 300),
)
# The last marks of a call may be further apart.
_LAST_GAP: Final = 48
# A gap of one character may be part of a longer value.
_SHORTEST_GAP: Final = 2
_FEWEST_MARKS: Final = 2
_SHORTEST_ONLY_GAP: Final = 6
# A copy may lack the first characters of a call, or all of them before the name.
_START: Final = 4
_MOST_SKIPPED: Final = 9
_MOST_BACK: Final = 3
_JOINT: Final = 4
_MARKS: Final = "<>{}()[]=:,;|"
# Pieces in any order: their minimum length in a short and in a long text, and their number.
_SHORT_TEXT: Final = 50_000
_PIECE: Final = 5
_PIECE_IN_LONG_TEXT: Final = 7
_MOST_PIECES: Final = 16
# A few pieces must be longer.
_FEW: Final = 4
_LONG_PIECE: Final = 8


def skeleton(text: str) -> str:
    """Return a text without blanks, quotation marks, and backslashes, in lower case."""
    return text.translate(_NO_SKELETON).casefold()


def is_scattered(
    call: str, name: str, arguments: Sequence[Pair], views: Iterable[str], budget: WorkBudget
) -> bool:
    """Whether a view has the parts of a call, all as skeletons; true if the budget ends.

    The `arguments` are keys and values.
    """
    end = max(call.rfind(mark) for mark in "}])>") + 1
    tag = call.rfind("</", 0, end)
    call = call[: tag if tag > 0 and "}" not in call[tag:] else end]
    if not _SHORTEST <= len(call) <= _LONGEST:
        return False
    in_values = bytearray(len(call))
    for value in filter(None, (value for _, value in arguments)):
        at = call.find(value)
        while at >= 0:
            in_values[at : at + len(value)] = b"\1" * len(value)
            at = call.find(value, at + len(value))
    named = call.find(name) + len(name)
    data = call[named : in_values.rfind(1) + 1].lstrip(_MARKS)
    # Where nothing else marks the arguments, a name and separate data are no call.
    is_bare = bool(data) and data.startswith(
        tuple(one for pair in arguments for one in pair if one)
    )
    joint = call[max(0, named - _JOINT) : named + 2]
    return any(
        is_in_order(call, name, view, budget) or is_in_pieces(call, in_values, view)
        for view in views
        if not is_bare or joint in view or data not in view
    )


def is_in_order(call: str, name: str, view: str, budget: WorkBudget) -> bool:
    """Whether a view has the characters of a call in order, in pieces."""
    # Each character after the start is part of a piece of two or more.
    start = max(0, call.find(name, 0, len(call) // 2)) + _MOST_SKIPPED + _START
    pairs = [call[at : at + 2] in view for at in range(start, len(call) - 1)]
    if not all(before or after for before, after in pairwise((True, *pairs, True))):
        return False
    search = _PieceSearch(call, view, budget)
    return any(map(search.leads_to_end, _possible_starts(call, name, view))) or budget.is_exhausted


def _possible_starts(call: str, name: str, view: str) -> Iterator[tuple[int, int, int]]:
    """Yield the states from which a copy of a call may continue: after its start or name."""
    named = call.find(name, 0, len(call) // 2) if name else -1
    offsets = {*range(_MOST_SKIPPED), *range(max(0, named), max(0, named) + _MOST_SKIPPED)}
    for skipped in sorted(offsets):
        head = call[skipped : skipped + _START]
        place = view.find(head) if len(head) == _START else -1
        while place >= 0:
            is_later = skipped and view[place - 1 : place] == call[skipped - 1]
            if not is_later:
                yield skipped + len(head), place + len(head), 0
            place = view.find(head, place + 1)


class _PieceSearch:
    """Searches for the rest of a call, from states of call position, view position, and gaps.

    Gaps are counted up to two; a long one counts as two. No state is visited twice.
    """

    def __init__(self, call: str, view: str, budget: WorkBudget) -> None:
        self._call = call
        self._view = view
        self._seen: set[tuple[int, int, int]] = set()
        self._budget = budget

    def leads_to_end(self, state: tuple[int, int, int]) -> bool:
        """Whether the rest of the call follows, with two gaps or a long one."""
        waiting = [state]
        while waiting:
            at, place, gaps = waiting.pop()
            run = self._run_length(at, place)
            if at + run == len(self._call) and gaps > 1:
                return True
            # What precedes a gap may go on like the call by chance.
            for back in range(min(run, _MOST_BACK) + 1):
                end = at + run - back, place + run - back, gaps
                if end not in self._seen:
                    if not self._budget.spend(1):
                        return False
                    self._seen.add(end)
                    waiting += self._after_gap(*end)
        return False

    def _run_length(self, call_at: int, view_at: int) -> int:
        """Return how many characters of the call and the view agree from these positions."""
        rest, run = self._call[call_at:], 0
        while run < len(rest) and self._view.startswith(rest[run], view_at + run):
            run += 1
        return run

    def _after_gap(self, call_at: int, view_at: int, gaps: int) -> Iterator[tuple[int, int, int]]:
        """Yield the states from which the next piece may continue, the longest piece last."""
        known = -1
        for length, gap in _GAPS:
            piece = self._call[call_at : call_at + length]
            if len(piece) < length:
                return
            reach = (gap if call_at + length < len(self._call) else max(gap, _LAST_GAP)) + length
            found = self._view.find(piece, view_at + _SHORTEST_GAP, view_at + reach)
            if found >= 0 and found != known:
                known = found
                weight = 2 if found - view_at >= _SHORTEST_ONLY_GAP else 1
                yield call_at + length, found + length, min(gaps + weight, 2)


def is_in_pieces(call: str, in_values: bytearray, view: str) -> bool:
    """Whether a call consists of long pieces of a view, in any order.

    Each piece must have marks of the call besides parts of its values, which a model may fill into
    an example.
    """
    least = _PIECE if len(view) <= _SHORT_TEXT else _PIECE_IN_LONG_TEXT
    most = min(len(call) // (least + 1), _MOST_PIECES)
    shortest, at, count = len(call), 0, 0
    while at < len(call) and count < most:
        length = longest_piece(call, at, view)
        if length < least or in_values.count(0, at, at + length) < _FEWEST_MARKS:
            return False
        shortest, at, count = min(shortest, length), at + length, count + 1
    # Two calls may differ only in the middle of a value.
    return at == len(call) and (count >= _FEW or shortest >= _LONG_PIECE)


def longest_piece(call: str, at: int, view: str) -> int:
    """Return the length of the longest part of `call` from `at` that `view` contains."""
    low, high = 0, len(call) - at
    while low < high:
        middle = (low + high + 1) // 2
        if call[at : at + middle] in view:
            low = middle
        else:
            high = middle - 1
    return low


def columns_of(text: str, cell_edge: Any) -> str:
    """Return the cells of a text column by column; empty if it has no columns."""
    columns: dict[int, list[str]] = {}
    for line in text.split("\n"):
        for at, cell in enumerate(cell_edge.split(line)):
            columns.setdefault(at, []).append(cell)
    return "\n".join("\n".join(cells) for cells in columns.values()) if len(columns) > 1 else ""
