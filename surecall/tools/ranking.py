"""Ranks tools by their relevance to a text, with BM25: no model, no network, the same every time.

A tool is a bag of words: those of its name count most, then its description, its parameters, and
their descriptions. Words are split at `_`, `-`, `.`, and camelCase, and reduced to a stem, so that
`getUserInvoices` matches "invoice of a user". Building an index is linear in the size of the
tools, and a query visits no word of a tool twice.
"""

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count, pairwise
from typing import Any, Final

from surecall.parsing.names import bare_spellings, fold_name, spellings
from surecall.values.types import JSON, ToolSpec, sha256

SEARCH_TOOL: Final = "search_tools"
# BM25: how fast repetitions saturate, and how much long definitions are discounted.
_SATURATION: Final = 1.2
_LENGTH_DISCOUNT: Final = 0.75
_NAME_WEIGHT: Final = 3.0
_TEXT_WEIGHT: Final = 1.0
_PARAMETER_TEXT_WEIGHT: Final = 0.5
# Longer texts are judged by their beginning and their end.
MAX_QUERY_CHARS: Final = 8_000
# A longer description is judged by its beginning.
_MAX_TEXT_CHARS: Final = 4_000
_MAX_CACHED: Final = 1_024
_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL_EDGE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts without blanks between words start here.
_FIRST_UNSPACED: Final = "\u2e80"
# Endings, and how long a word must be to lose one. The first that fits is removed.
_ENDINGS: Final = (("ing", 6), ("ion", 6), ("ed", 5), ("es", 5), ("s", 4), ("e", 4))

_SEARCH_PARAMETERS: Final[JSON] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "What the tool should do, in a few words, such as: send an email",
        }
    },
    "required": ["query"],
    "additionalProperties": False,
}


def words_of(text: str) -> Iterator[str]:
    """Yield the stems of the words in a text or a name."""
    for word in _WORD.findall(_CAMEL_EDGE.sub(" ", text)):
        if word[-1] >= _FIRST_UNSPACED and len(word) > 1:
            yield from map("".join, pairwise(word))
        else:
            yield _stem(word)


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    word = word.casefold()
    if word.endswith("ies") and len(word) > len("ties"):
        return f"{word[:-3]}y"
    if word.endswith("ss"):
        return word
    for ending, shortest in _ENDINGS:
        if len(word) >= shortest and word.endswith(ending):
            return word.removesuffix(ending)
    return word


class ToolIndex:
    """The words of a list of tools, ready for queries, and the spec of a tool that searches it."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.by_name = {spec.name: spec for spec in tools}
        self._names = tuple(self.by_name)
        # By word: the position of each tool with it, and how much the word counts there.
        self._postings: dict[str, list[tuple[int, float]]] = {}
        counts = [_count_words(spec) for spec in self.by_name.values()]
        mean = sum(sum(words.values()) for words in counts) / (len(counts) or 1) or 1.0
        for at, words in enumerate(counts):
            self._add(at, words, sum(words.values()) / mean)
        self.search_spec = _search_spec(_free_name(self._names), len(self._names))
        self._ranked: dict[bytes, tuple[str, ...]] = {}
        self._selected: dict[tuple[str, ...], tuple[ToolSpec, ...]] = {}

    def _add(self, position: int, words: dict[str, float], length: float) -> None:
        """Add the words of one tool, whose length is relative to the mean."""
        norm = _SATURATION * (1 - _LENGTH_DISCOUNT + _LENGTH_DISCOUNT * length)
        for word, weight in words.items():
            share = weight * (_SATURATION + 1) / (weight + norm)
            self._postings.setdefault(word, []).append((position, share))

    def rank(self, query: str, limit: int) -> tuple[str, ...]:
        """Return the names of the most relevant tools, best first; none that shares no word."""
        if len(query) > MAX_QUERY_CHARS:
            half = MAX_QUERY_CHARS // 2
            query = f"{query[:half]} {query[-half:]}"
        key = sha256(f"{limit} {query}".encode("utf-8", "surrogatepass"))
        if key not in self._ranked:
            if len(self._ranked) >= _MAX_CACHED:
                self._ranked.clear()
            self._ranked[key] = self._rank_uncached(query, limit)
        return self._ranked[key]

    def _rank_uncached(self, query: str, limit: int) -> tuple[str, ...]:
        scores: dict[int, float] = {}
        for word in dict.fromkeys(words_of(query)):
            found = self._postings.get(word, ())
            rarity = math.log(1 + (len(self._names) - len(found) + 0.5) / (len(found) + 0.5))
            for at, share in found:
                scores[at] = scores.get(at, 0.0) + rarity * share
        best = heapq.nsmallest(limit, scores.items(), key=lambda item: (-item[1], item[0]))
        return tuple(self._names[at] for at, _ in best)

    def select(self, names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
        """Return the search tool and the named tools; equal names give the same tuple."""
        if names not in self._selected:
            if len(self._selected) >= _MAX_CACHED:
                self._selected.clear()
            self._selected[names] = (self.search_spec, *(self.by_name[name] for name in names))
        return self._selected[names]

    def is_search(self, written_name: str) -> bool:
        """Whether a name is that of the search tool, in any spelling."""
        wanted = fold_name(self.search_spec.name)
        return any(
            fold_name(name) == wanted
            for name in (*spellings(written_name), *bare_spellings(written_name))
        )


class _SameObjects:
    """A cache key: the identities of objects that hold schemas and have no hash."""

    def __init__(self, tools: tuple[ToolSpec, ...], *parts: Any) -> None:
        self.tools = tools
        self._parts = parts  # kept alive, so that their ids stay unique
        self._ids = tuple(map(id, parts))

    def __hash__(self) -> int:
        return hash(self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObjects) and self._ids == other._ids


@lru_cache(maxsize=32)
def _index_of_specs(key: _SameObjects) -> ToolIndex:
    """Return the index of these specs, in whatever list."""
    return ToolIndex(key.tools)


@lru_cache(maxsize=32)
def _index_of_list(key: _SameObjects) -> ToolIndex:
    """Return the index of this very list, without a look at its specs if it is known."""
    # Where a tool policy hides tools, each run has a new list of the same specs.
    return _index_of_specs(_SameObjects(key.tools, *key.tools))


def tool_index(tools: tuple[ToolSpec, ...]) -> ToolIndex:
    """Return the index of a list of tools; a list of the same specs has the same index."""
    return _index_of_list(_SameObjects(tools, tools))


def _count_words(spec: ToolSpec) -> dict[str, float]:
    """Return the words of a tool, each with its weighted count."""
    texts: dict[float, list[str]] = {}
    for text, weight in _weighted_texts(spec):
        texts.setdefault(weight, []).append(text[:_MAX_TEXT_CHARS])
    counts: dict[str, float] = {}
    for weight, parts in texts.items():
        for word, times in Counter(words_of("\n".join(parts))).items():
            counts[word] = counts.get(word, 0.0) + weight * times
    return counts


def _weighted_texts(spec: ToolSpec) -> Iterator[tuple[str, float]]:
    """Yield the texts of a tool, each with its weight."""
    yield spec.name, _NAME_WEIGHT
    yield spec.description, _TEXT_WEIGHT
    # Without recursion, as schemas may be nested deeply.
    stack: list[Any] = [spec.parameters]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack += part
        if not isinstance(part, dict):
            continue
        stack += part.values()
        for text in (part.get("title"), part.get("description")):
            if isinstance(text, str):
                yield text, _PARAMETER_TEXT_WEIGHT
        if isinstance(fields := part.get("properties"), dict):
            for name in fields:
                yield str(name), _TEXT_WEIGHT


def _free_name(names: Iterable[str]) -> str:
    """Return the name of the search tool: one that no tool has, in any spelling."""
    taken = set(map(fold_name, names))
    spares = (f"{SEARCH_TOOL}_{number}" for number in count(2))
    return SEARCH_TOOL if SEARCH_TOOL not in taken else next(n for n in spares if n not in taken)


def _search_spec(name: str, tool_count: int) -> ToolSpec:
    about = (
        f"Search all {tool_count} tools by what they do. Only some are listed here: if none of "
        "these does what you need, search before you answer. The tools that are found can be "
        "called next."
    )
    return ToolSpec(name, about, _SEARCH_PARAMETERS, repeatable=True, read_only=True)


def is_search_spec(spec: ToolSpec) -> bool:
    """Whether a spec is that of a search, whatever its name."""
    return spec.parameters is _SEARCH_PARAMETERS
