"""What recovery hands back: calls, the text around them, and what was looked at and left alone."""

from typing import Any

import msgspec

from surecall.types import JSON


class Found(msgspec.Struct, frozen=True):
    """One recovered call. `arguments` is raw text where the model's own could not be read."""

    name: str
    arguments: JSON | str
    id: str | None
    dialect: str
    grammar: str
    truncated: bool
    start: int
    end: int
    in_reasoning: bool = False


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


class Draft(msgspec.Struct, frozen=True):
    """A call as a grammar read it, before the engine has decided whether it counts."""

    name: str
    arguments: Any
    start: int
    end: int
    id: str | None = None
    truncated: bool = False


class Section(msgspec.Struct, frozen=True):
    """What one opener led to: its calls, where it ends, and the body that was read."""

    row: str
    calls: tuple[Draft, ...]
    end: int
    body: int
    start: int = -1
    plain: bool = False


class NotACall(Exception):  # it is an answer, not an error
    """Why an opener leads to no call; `at` is how far it was followed."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class OutOfFuel(Exception):  # it ends the scan, and nothing else
    """The text has been read over so often that the rest of it stays text."""
