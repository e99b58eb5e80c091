"""What happened to a request, in short: for the page, and for the line that `--explain` prints."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from surecall.proxy.serving.exchange import Settled
from surecall.values.trace import safe_text
from surecall.values.types import JSON
from surecall.wire.messages import encode

MOST_RECORDS: Final = 200
_LONGEST: Final = 300


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One request: who asked for what, what was repaired, and what went out.

    `outcome` is `calls`, `text`, `passed`, `left` (by the client) or the code of a failure.
    """

    number: int
    at: float
    face: str
    model: str
    streamed: bool
    status: int
    outcome: str
    elapsed_ms: int
    run_id: str = ""
    attempts: int = 0
    turns: int = 0
    fired: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    message: str = ""
    came: str = ""
    went: str = ""

    @property
    def details(self) -> list[str]:
        """Say what came and what went out, each in one line, safe for a terminal."""
        told = (
            ("came", self.came),
            ("healed", ", ".join(dict.fromkeys(self.fired))),
            ("refused", ", ".join(dict.fromkeys(self.refused))),
            ("went", self.went),
        )
        return [safe_text(f"{name:<8}{text}") for name, text in told if text]

    @property
    def line(self) -> str:
        """Say it in one line, safe for a terminal."""
        way = f"{self.face}{' stream' if self.streamed else ''}"
        went = " ".join((self.outcome, ", ".join(self.tools))).strip()
        parts = [f"#{self.number}", way, self.model, "->", went]
        if self.fired:
            parts.append(f"healed: {', '.join(dict.fromkeys(self.fired))}")
        if self.turns > 1:
            parts.append(f"asked again {self.turns - 1} time{'s' * (self.turns > 2)}")  # noqa: PLR2004
        if self.attempts > max(self.turns, 1):
            parts.append(f"{self.attempts} requests")
        if self.message:
            parts.append(self.message)
        return safe_text("  ".join((" ".join(parts[:5]), *parts[5:], f"{self.elapsed_ms} ms")))


class Records:
    """The newest requests. Everyone who watches is told of each as it ends."""

    def __init__(self, watch: Callable[[Record], object] | None = None) -> None:
        self._kept: deque[Record] = deque(maxlen=MOST_RECORDS)
        self._watch = watch
        self.count = 0

    def __iter__(self) -> Iterator[Record]:
        return reversed(self._kept)

    def add(self, record: Record) -> None:
        """Keep one, and tell of it."""
        self._kept.append(record)
        if self._watch is not None:
            self._watch(record)

    def next_number(self) -> int:
        """Return the number of a request that begins."""
        self.count += 1
        return self.count


def outcome_of(settled: Settled) -> JSON:
    """Return what a record says about how a request ended."""
    failure = settled.failure
    if failure is not None:
        ended: JSON = {
            "status": failure.status,
            "outcome": failure.code,
            "message": failure.message[:_LONGEST],
        }
    else:
        choice = (settled.body or {})["choices"][0]
        calls = choice["message"].get("tool_calls") or ()
        names = tuple(call["function"]["name"] for call in calls)
        ended = {
            "status": 200,
            "outcome": "calls" if calls else "text",
            "tools": names,
            "went": _excerpt(choice["message"]),
        }
    return ended | {
        "run_id": settled.run_id,
        "attempts": settled.attempts,
        "turns": settled.turns,
        "fired": settled.fired,
        "refused": settled.refused,
        "came": _excerpt(settled.came),
    }


def _excerpt(value: Any) -> str:
    if value is None:
        return ""
    text = encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
