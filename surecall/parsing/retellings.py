"""Finds retold calls: text that has a tool's name in call position, together with its arguments.

    in call position   delete_file(…, "delete_file": {…, tool: delete_file …, delete_file --path …
    together           nothing between them but marks, argument keys, and words such as `arguments`

The arguments may come before the name. Prose retells a call if it asks for it by argument name:
"use delete_file with the path a.txt". Data that merely has the words of a call does not:
`{"order": "A-7", "allowed": ["cancel"]}` does not retell `cancel(order="A-7")`. Takes linear time;
text that has the name too often to search counts as a retold call.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

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
    gap: str
    word: str


class _Wanted:
    """The words of a call, in one reading direction."""

    def __init__(self, values: Iterable[Words], keys: Iterable[Words]) -> None:
        self.values = {value: None for value in values if value}
        self.starts = _by_first(self.values)
        self.keys = _by_first(dict.fromkeys(filter(None, keys)))

    def backwards(self) -> "_Wanted":
        """Return the same words for reading backwards."""
        keys = chain.from_iterable(self.keys.values())
        return _Wanted((value[::-1] for value in self.values), (key[::-1] for key in keys))

    def begins(self, word: str) -> bool:
        """Whether a word can begin what follows a name."""
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
    wanted = _Wanted((value for _, value in pairs), (key for key, _ in pairs))
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

    def __init__(self, wanted: _Wanted, near: int) -> None:
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
        if first is not None and self._ahead.begins(_normalize_word(first)):
            called = is_introduced or self._is_opened(text, end)
            ahead = (_tokens(text[end : end + width], width) for width in self._widths())
            if self._compare(ahead, self._ahead, called=called):
                return True
        if not is_introduced:
            return False
        widths = self._widths()
        behind = (_tokens_backwards(text[max(0, start - width) : start], width) for width in widths)
        return self._compare(behind, self._behind, called=True)

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

    def _compare(self, windows: Iterable[list[_Token]], wanted: _Wanted, *, called: bool) -> bool:
        for tokens in windows:
            self.compared += len(tokens)
            if (found := _retells(tokens, wanted, called=called)) is not None:
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


def _retells(tokens: Sequence[_Token], wanted: _Wanted, *, called: bool) -> bool | None:
    """Whether tokens begin with all values of a call, and with nothing else but its words.

    None if they end too early.
    """
    missing, at = dict(wanted.values), 0
    while at < len(tokens):
        gap, word = tokens[at]
        # The punctuation between later values may be their own.
        if len(missing) == len(wanted.values) and _FOREIGN.search(gap):
            return False
        if value := _begin(tokens, at, wanted.starts):
            missing.pop(value, None)
            if not missing:
                return called
            at += len(value)
        elif key := _begin(tokens, at, wanted.keys):
            at += len(key)
        elif word in _CALL_WORDS or _is_line_number(gap, word):
            called = called or word in _ARGUMENT_WORDS
            at += 1
        else:
            return None if _is_cut(tokens, at, wanted.starts) else False
    return None


def _is_line_number(gap: str, word: str) -> bool:
    return "\n" in gap and word.isdigit() and len(word) <= _MOST_DIGITS


def _is_cut(tokens: Sequence[_Token], at: int, starts: dict[str, list[Words]]) -> bool:
    """Whether tokens end in the beginning of a phrase."""
    rest = tuple(token.word for token in tokens[at:])
    return any(phrase[: len(rest)] == rest for phrase in starts.get(rest[0], ()))


def _begin(tokens: Sequence[_Token], at: int, starts: dict[str, list[Words]]) -> Words:
    """Return the longest of some phrases that is at a position; empty if there is none."""
    for phrase in starts.get(tokens[at].word, ()):
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
    tokens, start = [], len(text)
    for match in reversed([*_WORD.finditer(text)]):
        tokens.append(_Token(text[match.end() : start], _normalize_word(match)))
        start = match.start()
    return tokens[:-1] if len(text) == width else tokens
