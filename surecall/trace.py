"""Recording: events are stamped, kept, handed to observers, and written as JSON lines.

Secrets are taken out at the sink: whatever a provider echoes or a tool returns, a known key never
reaches the disk.
"""

import base64
import logging
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from surecall.errors import ConfigError
from surecall.events import SCHEMA_VERSION, Event, ObserverErred, RunStarted, Trace
from surecall.types import Secret

Observer: TypeAlias = Callable[[Event], object]
REDACTED = b"[redacted]"
MAX_CONTEXT_BYTES = 200
# Shorter "secrets" would redact ordinary words.
MIN_SECRET_CHARS = 6

_log = logging.getLogger("surecall")
_DECODER = msgspec.json.Decoder(Event)
E_ = TypeVar("E_", bound=Event)


class Recorder:
    """Stamps and keeps the events of one run, and tells the observers. None can break the run."""

    def __init__(
        self, run_id: str, observers: Iterable[Observer], context: Mapping[str, str] | None = None
    ) -> None:
        self._run_id = run_id
        self._observers = list(observers)
        self._context = dict(context or {})
        self.events: list[Event] = []

    def emit(self, kind: type[E_], turn: int, **fields: Any) -> None:
        """Record one event."""
        event = kind(
            run_id=self._run_id, turn=turn, at=time.time(), context=self._context, **fields
        )
        self.events.append(event)
        for observer in tuple(self._observers):
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001  # an observer is foreign code
                self._dismiss(observer, turn, error)

    def _dismiss(self, observer: Observer, turn: int, error: Exception) -> None:
        self._observers.remove(observer)
        name = getattr(observer, "__qualname__", type(observer).__qualname__)
        message = f"observer {name} raised {type(error).__name__}: {error}"
        _log.warning("%s; it gets no further events of this run", message)
        self.emit(ObserverErred, turn, observer=name, message=message)

    @property
    def trace(self) -> Trace:
        """What has been recorded so far."""
        return Trace(tuple(self.events))


def allowed_context(context: Mapping[str, Any], keys: Iterable[str]) -> dict[str, str]:
    """Keep only the keys that the config lets into events, as short text."""
    allowed = {key: str(context[key]) for key in keys if key in context}
    return {
        key: text.encode()[:MAX_CONTEXT_BYTES].decode("utf-8", "ignore")
        for key, text in allowed.items()
    }


class Redactor:
    """Takes known secrets out of bytes, in the spellings in which they leak."""

    def __init__(self, secrets: Iterable[Secret | str]) -> None:
        self._needles = sorted(
            {needle for secret in secrets for needle in _spellings(secret)}, key=len, reverse=True
        )

    def __call__(self, data: bytes) -> bytes:
        """Return the bytes without the secrets."""
        for needle in self._needles:
            data = data.replace(needle, REDACTED)
        return data


def _spellings(secret: Secret | str) -> Iterable[bytes]:
    text = secret.reveal() if isinstance(secret, Secret) else secret
    if len(text) < MIN_SECRET_CHARS:
        return ()
    raw = text.encode()
    return (
        raw,
        msgspec.json.encode(text)[1:-1],
        base64.b64encode(raw).rstrip(b"="),
        urllib.parse.quote(text, safe="").encode(),
        raw.hex().encode(),
    )


class JsonlSink:
    """An observer that appends each event to a file as one JSON line, as it happens."""

    def __init__(self, path: str | Path, secrets: Iterable[Secret | str] = ()) -> None:
        self._path = Path(path)
        self._redact = Redactor(secrets)

    def __call__(self, event: Event) -> None:
        """Write one event."""
        with self._path.open("ab") as file:
            file.write(self._redact(msgspec.json.encode(event)) + b"\n")


def save_trace(trace: Trace, path: str | Path, secrets: Iterable[Secret | str] = ()) -> None:
    """Write a whole trace as JSON lines, replacing the file."""
    redact = Redactor(secrets)
    lines = [redact(msgspec.json.encode(event)) + b"\n" for event in trace]
    Path(path).write_bytes(b"".join(lines))


def load_trace(path: str | Path) -> Trace:
    """Read a trace back. A torn last line, as a crash leaves it, is left out."""
    lines = Path(path).read_bytes().split(b"\n")
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            events.append(_DECODER.decode(line))
        except (msgspec.MsgspecError, ValueError) as error:
            if number == len(lines):
                break
            raise ConfigError(f"{path}, line {number}: not an event ({error})") from None
    _check_version(events, path)
    return Trace(tuple(events))


def _check_version(events: list[Event], path: str | Path) -> None:
    if not events or not isinstance(events[0], RunStarted):
        raise ConfigError(f"{path}: a trace begins with run_start")
    if events[0].schema_version > SCHEMA_VERSION:
        raise ConfigError(f"{path}: written by a newer version; update surecall to read it")
