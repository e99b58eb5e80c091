"""What recovery hands back: calls, the text around them, and what was looked at and left alone."""

import msgspec

from surecall.values.types import JSON


class Found(msgspec.Struct, frozen=True):
    """One recovered call. `arguments` is raw text where the model's own could not be read."""

    name: str
    arguments: JSON | str
    start: int
    end: int
    id: str | None = None
    truncated: bool = False
    dialect: str = ""
    in_reasoning: bool = False

    @property
    def grammar(self) -> str:
        """The letter of the dialect's grammar."""
        return self.dialect[:1]


class PassedOver(msgspec.Struct, frozen=True):
    """Something that looked like a call and was not taken for one, and why."""

    start: int
    snippet: str
    reason: str


class Recovered(msgspec.Struct, frozen=True):
    """The calls of a text, and the rest of it in its order and spacing."""

    text: str
    calls: tuple[Found, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    reasoning: str = ""


class Section(msgspec.Struct, frozen=True):
    """What one opener led to: its calls, where they begin and end, and where the body begins."""

    calls: list[Found]
    row: str
    start: int
    body: int
    end: int


class NotACall(Exception):  # it is an answer, not an error
    """Why an opener leads to no call; `at` is how far it was followed."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class OutOfFuel(Exception):  # it ends the scan, and nothing else
    """The text has been read over so often that the rest of it stays text."""


def no_tool(name: str, at: int) -> NotACall:
    """Say that a call names no tool."""
    return NotACall(f"no tool is called {name[:40]!r}", at)
