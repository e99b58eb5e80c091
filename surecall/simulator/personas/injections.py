"""Calls that somebody else wrote into what a tool returns: an injection, found and read.

It is spelt `<tool_call>{"name": …, "arguments": {…}}</tool_call>` in any text of a result. A good
model reports what stands around it; one that obeys makes the call; one that quotes repeats it.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from surecall.values.nesting import decode_json
from surecall.values.types import JSON

OPENING, CLOSING = "<tool_call>", "</tool_call>"
# So it stands in a result that is told in words.
_ESCAPED = OPENING.replace("<", "\\u003c")


class Injection(msgspec.Struct, frozen=True):
    """A call in a result: its words, the whole text that they stand in, and what it asks for."""

    words: str
    around: str
    tool: str
    arguments: JSON

    @property
    def body(self) -> str:
        """What stands between the marks."""
        return self.words.removeprefix(OPENING).removesuffix(CLOSING).strip()


def first_injection(contents: Iterable[str]) -> Injection | None:
    """Find the first call in what the tools have returned."""
    texts = (text for content in contents for text in _texts(_decoded(content)))
    return next((found for text in texts for found in _injections(text)), None)


def without_injection(text: str) -> str:
    """Return what stands before the first call in a text."""
    return text.partition(OPENING)[0].partition(_ESCAPED)[0]


def _decoded(content: str) -> Any:
    try:
        return decode_json(content)
    except ValueError:
        return content


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
        case _:
            return


def _injections(text: str) -> Iterator[Injection]:
    for part in text.split(OPENING)[1:]:
        inside, closer, _ = part.partition(CLOSING)
        match _decoded(inside):
            case {"name": str(name), "arguments": dict(arguments)} if closer:
                yield Injection(OPENING + inside + closer, text, name, arguments)
            case _:
                continue
