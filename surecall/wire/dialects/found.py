"""What recovery hands back: calls, the text around them, and what was looked at and left alone."""

from collections.abc import Iterable

import msgspec

from surecall.parsing.budget import MAX_TEXT
from surecall.values.types import JSON

_SNIPPET = 60


class Found(msgspec.Struct, frozen=True):
    """One recovered call. `arguments` is raw text where the model's own could not be read.

    `mended` says that a bracket was closed for it.
    """

    name: str
    arguments: JSON | str
    start: int
    end: int
    id: str | None = None
    truncated: bool = False
    dialect: str = ""
    in_reasoning: bool = False
    mended: bool = False

    @property
    def grammar(self) -> str:
        """The letter of the dialect's grammar."""
        return self.dialect[:1]


class PassedOver(msgspec.Struct, frozen=True):
    """Something that looked like a call and was not taken for one, and why.

    If it names a tool and is not plainly a quotation, it is worth a question: then `tool` says
    which, and `rule` what it breaks.
    """

    start: int
    snippet: str
    reason: str
    tool: str = ""
    rule: str = ""


class Recovered(msgspec.Struct, frozen=True):
    """The calls of a text, and the rest of it in its order and spacing.

    `unlifted` is the text with its calls left in. `words` are those of each call. `followed` says
    that something comes after the last call, `spare` that a closing mark is left over.
    """

    text: str
    unlifted: str
    calls: tuple[Found, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    reasoning: str = ""
    words: tuple[str, ...] = ()
    followed: bool = False
    spare: bool = False


class Section(msgspec.Struct, frozen=True):
    """What one opener led to: its calls, where they begin and end, and where the body begins."""

    calls: list[Found]
    row: str
    start: int
    body: int
    end: int


class NotACall(Exception):  # it is an answer, not an error
    """Why an opener leads to no call; `at` is how far it was followed.

    Unless it is `meant` as something else, a call that names a tool is worth a question.
    """

    def __init__(self, reason: str, at: int, *, meant: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at
        self.meant = meant


class OutOfFuel(Exception):  # it ends the scan, and nothing else
    """The text has been read over so often that the rest of it stays text."""


def no_tool(name: str, at: int) -> NotACall:
    """Say that a call names no tool."""
    return NotACall(f"no tool is called {name[:40]!r}", at)


def unread(text: str, names: Iterable[str]) -> Recovered:
    """Leave a text as it is that is too long to be searched; if it names a tool, it is in doubt."""
    named = next((name for name in names if name in text), "")
    reason = f"the text has more than {MAX_TEXT} characters and is not searched"
    return Recovered(text, text, passed_over=(left(text, 0, reason, named, "whole"),))


def left(text: str, place: int, reason: str, tool: str, rule: str) -> PassedOver:
    """Say what was left alone, with its first words; only a tool's name makes it doubtful."""
    snippet = text[place : place + _SNIPPET]
    return PassedOver(place, snippet, reason, tool, rule if tool else "")
