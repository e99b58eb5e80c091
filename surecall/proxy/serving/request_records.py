"""Request records, for the page and for the lines that `--explain` prints."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from surecall.proxy.serving.proxy_exchange import ExchangeResult
from surecall.values.trace import safe_text
from surecall.values.types import JSON
from surecall.wire.chat_format import encode
from surecall.wire.request_adaptations import describe_lesson

MAX_RECORDS: Final = 200
_MAX_EXCERPT: Final = 300


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One request: the API and model, the repairs, and the reply.

    `outcome` is `calls`, `text`, `passed` (through), `left` (the client disconnected), or an error
    code.
    """

    number: int
    at: float
    api: str
    model: str
    streamed: bool
    status: int
    outcome: str
    elapsed_ms: int
    run_id: str = ""
    attempts: int = 0
    turns: int = 0
    repairs: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    message: str = ""
    received: str = ""
    sent: str = ""

    @property
    def details(self) -> list[str]:
        """The received and the sent message and what changed, one line each, terminal-safe."""
        fields = (
            ("received", self.received),
            ("adapted", "; ".join(map(describe_lesson, self.lessons))),
            ("repaired", ", ".join(dict.fromkeys(self.repairs))),
            ("rejected", ", ".join(dict.fromkeys(self.error_codes))),
            ("claims", "; ".join(self.claims)),
            ("sent", self.sent),
        )
        return [safe_text(f"{name:<10}{text}") for name, text in fields if text]

    @property
    def line(self) -> str:
        """A summary in one line, terminal-safe."""
        api = f"{self.api}{' stream' if self.streamed else ''}"
        outcome = " ".join((self.outcome, ", ".join(self.tools))).strip()
        parts = [f"#{self.number}", api, self.model, "->", outcome]
        if self.lessons:
            parts.append(f"adapted: {', '.join(self.lessons)}")
        if self.repairs:
            parts.append(f"repaired: {', '.join(dict.fromkeys(self.repairs))}")
        if self.claims:
            parts.append(f"no call supports: {self.claims[0]}")
        if self.turns > 1:
            parts.append(f"re-prompted {self.turns - 1} time{'s' * (self.turns > 2)}")  # noqa: PLR2004
        if self.attempts > max(self.turns, 1):
            parts.append(f"{self.attempts} requests")
        if self.message:
            parts.append(self.message)
        return safe_text("  ".join((" ".join(parts[:5]), *parts[5:], f"{self.elapsed_ms} ms")))


class RequestLog:
    """The most recent requests. `watch` is called for each request when it ends."""

    def __init__(self, watch: Callable[[Record], object] | None = None) -> None:
        self._records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self._watch = watch
        self.count = 0

    def __iter__(self) -> Iterator[Record]:
        return reversed(self._records)

    def add(self, record: Record) -> None:
        """Store a record, and pass it to `watch`."""
        self._records.append(record)
        if self._watch is not None:
            self._watch(record)

    def next_number(self) -> int:
        """Return the number for a new request."""
        self.count += 1
        return self.count


def outcome_fields(result: ExchangeResult) -> JSON:
    """Return the record fields that describe the result of a request."""
    failure = result.failure
    if failure is not None:
        fields: JSON = {"status": failure.status, "outcome": failure.code}
        fields["message"] = failure.message[:_MAX_EXCERPT]
    else:
        choice = (result.body or {})["choices"][0]
        names = tuple(
            call["function"]["name"] for call in choice["message"].get("tool_calls") or ()
        )
        fields = {"status": 200, "outcome": "calls" if names else "text", "tools": names}
        fields["sent"] = _excerpt(choice["message"])
    return fields | {
        "run_id": result.run_id,
        "attempts": result.attempts,
        "turns": result.turns,
        "repairs": result.repairs,
        "error_codes": result.error_codes,
        "lessons": result.lessons,
        "claims": result.claims,
        "received": _excerpt(result.received),
    }


def _excerpt(value: Any) -> str:
    if value is None:
        return ""
    text = encode(value).decode()
    return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]}…"
