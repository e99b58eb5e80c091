"""Records the events of a run: timestamps them, passes them to observers, writes JSON lines.

Secrets are redacted before they reach the disk. A redacted trace can be read and reported on, but
not replayed.
"""

import logging
import os
import time
import traceback
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self, TypeVar

import msgspec

from surecall.runtime.execution import USER_CODE_ERRORS
from surecall.runtime.hooks import Observer
from surecall.runtime.redaction import Redactor, Secrets
from surecall.values.errors import ConfigError
from surecall.values.events import (
    SCHEMA_VERSION,
    Event,
    ObserverErrorEvent,
    RunStartEvent,
)
from surecall.values.nesting import MAX_WRAPPED_DEPTH, check_depth
from surecall.values.trace import Trace, safe_text
from surecall.wire.chat_format import encode

MAX_CONTEXT_BYTES = 200
MAX_MESSAGE = 200

_log = logging.getLogger("surecall")
_DECODER = msgspec.json.Decoder(Event)
_CHECKSUM_START, _CHECKSUM_END = b',"crc":"', b'"}'
_CHECKSUM_CHARS = 8 + len(_CHECKSUM_END)
E_ = TypeVar("E_", bound=Event)


# Observers of every run in the process. The pytest plugin adds one during a test.
GLOBAL_OBSERVERS: list[Observer] = []


class Recorder:
    """Timestamps and stores the events of one run, and passes them to observers.

    An observer that raises is removed. If it was a journal (`is_journal`), from which the run would
    be resumed, `has_journal` becomes false.

    Drive the run inside `with`, so that observers are notified of its end, including cancellation.
    """

    def __init__(
        self,
        run_id: str,
        observers: Iterable[Observer],
        context: Mapping[str, str] | None = None,
        clients: Mapping[str, object] | None = None,
    ) -> None:
        self._run_id = run_id
        self._clients = clients or {}
        self._observers = [*observers, *GLOBAL_OBSERVERS]
        self._entered_observers = tuple(self._observers)
        self._context = dict(context or {})
        self.events: list[Event] = []
        self.has_journal = True

    def __enter__(self) -> Self:
        self._call_hooks("run_entered", self._clients)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._call_hooks("run_left", error)

    def _call_hooks(self, method: str, argument: object) -> None:
        """Call a method of each observer that has it; log errors."""
        for observer in self._entered_observers:
            # Looked up on the class, like `__enter__`, to bypass `__getattr__` of the instance.
            hook = getattr(type(observer), method, None)
            try:
                if hook is not None:
                    hook(observer, self._run_id, argument)
            except USER_CODE_ERRORS as error:
                words = f"observer {type(observer).__qualname__} raised {type(error).__name__}"
                _log.warning("%s in %s", safe_text(words), method)

    def emit(self, kind: type[E_], turn: int, **fields: Any) -> None:
        """Record one event."""
        event = kind(
            run_id=self._run_id, turn=turn, at=time.time(), context=self._context, **fields
        )
        self.events.append(event)
        failed: list[tuple[Observer, BaseException]] = []
        for observer in self._observers:
            try:
                observer(event)
            except USER_CODE_ERRORS as error:  # an observer is user code
                failed.append((observer, error))
        # All are removed before the first is reported, because the report is an event, too.
        for observer, _ in failed:
            self._observers.remove(observer)
            self.has_journal &= not getattr(observer, "is_journal", False)
        for observer, reason in failed:
            self._report_observer_error(observer, turn, reason)

    def _report_observer_error(self, observer: Observer, turn: int, error: BaseException) -> None:
        """Log that an observer raised, and record it as an event."""
        name = getattr(observer, "__qualname__", type(observer).__qualname__)
        description = "".join(traceback.format_exception_only(error)).strip()
        message = f"observer {name} raised {description}"[:MAX_MESSAGE]
        # The message is only in the event: it may hold a secret, and logs are not redacted.
        words = safe_text(f"observer {name} raised {type(error).__name__}")
        _log.warning("%s; it gets no further events of this run", words)
        self.emit(ObserverErrorEvent, turn, observer=name, message=message)

    @property
    def trace(self) -> Trace:
        """The events so far."""
        return Trace(tuple(self.events))


def safe_str(value: Any) -> str:
    """Return `str(value)`, or the name of its class if that raises."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # see above
        return f"({type(value).__name__})"


def allowed_context(context: Mapping[str, Any], keys: Iterable[str]) -> dict[str, str]:
    """Return the context keys that the config includes in events, as short text."""
    allowed = {key: safe_str(context[key]) for key in keys if key in context}
    return {
        key: text.encode("utf-8", "replace")[:MAX_CONTEXT_BYTES].decode("utf-8", "ignore")
        for key, text in allowed.items()
    }


class JsonlSink:
    """An observer that appends each event to a file as one JSON line, as it happens.

    Pass your keys, as in `JsonlSink(path, client.secrets)`: known keys never reach the disk, even
    if a tool returns them. New files are readable only by their owner.

    It is a journal: a call begins only after its start was written, so a run resumed from the file
    makes no call twice. If the file can no longer be written, calls are refused, except those of
    tools that are read-only or idempotent.
    """

    is_journal = True

    def __init__(self, path: str | Path, secrets: Secrets = ()) -> None:
        self._path = Path(path)
        self._redactor = Redactor(secrets)

    def __call__(self, event: Event) -> None:
        """Write one event."""
        line = _add_checksum(_encode_event(event, self._redactor))
        with _open_private(self._path, "ab+") as file:
            # A crash may have left an incomplete line, which must not swallow this one.
            file.write(b"\n" + line if _ends_mid_line(file) else line)


def _ends_mid_line(file: BinaryIO) -> bool:
    """Whether a file ends in the middle of a line."""
    if not file.seekable() or not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


def save_trace(trace: Trace, path: str | Path, secrets: Secrets = ()) -> None:
    """Write a whole trace as JSON lines, replacing the file."""
    redactor = Redactor(secrets)
    with _open_private(Path(path), "wb") as file:
        file.write(b"".join(_add_checksum(_encode_event(event, redactor)) for event in trace))


def dump_trace(trace: Trace, secrets: Secrets = ()) -> bytes:
    """Return a whole trace as JSON lines."""
    redactor = Redactor(secrets)
    return b"".join(_encode_event(event, redactor) for event in trace)


def _encode_event(event: Event, redactor: Redactor) -> bytes:
    plain = msgspec.to_builtins(event)
    line = encode(plain)
    if redactor.may_match(line):
        clean = redactor.redact_value(plain)
        line = encode(clean | {"redacted": True}) if encode(clean) != line else line
    return line + b"\n"


def _add_checksum(line: bytes) -> bytes:
    """Append a checksum to a line as an extra JSON field, which parsers ignore."""
    return b"%s%s%08x%s\n" % (line[:-2], _CHECKSUM_START, zlib.crc32(line[:-2]), _CHECKSUM_END)


def _is_damaged(line: bytes) -> bool:
    """Whether a line's checksum does not match; lines of older versions have none."""
    body, seal, checksum = line.rpartition(_CHECKSUM_START)
    whole = bool(seal) and len(checksum) == _CHECKSUM_CHARS and checksum.endswith(_CHECKSUM_END)
    return whole and checksum != b"%08x%s" % (zlib.crc32(body), _CHECKSUM_END)


def _open_private(path: Path, mode: Literal["ab+", "wb"]) -> BinaryIO:
    """Open a file; if it is new, only its owner can read it."""

    def private(name: str, flags: int) -> int:
        """Open a file that only its owner can read."""
        return os.open(name, flags, 0o600)

    return open(path, mode, opener=private)  # Path.open takes no opener


class _SchemaVersion(msgspec.Struct):
    schema_version: int = SCHEMA_VERSION


_VERSION_DECODER = msgspec.json.Decoder(_SchemaVersion)


def load_trace(path: str | Path, run_id: str | None = None) -> Trace:
    """Load a run from a file. A truncated line, as left by a crash, is skipped.

    If the file holds several runs, pass the `run_id`. Of a resumed run, the newest part is loaded,
    which begins with the transcript so far.
    """
    return parse_trace(Path(path).read_bytes(), run_id, str(path))


def parse_trace(data: bytes, run_id: str | None = None, path: str = "the trace") -> Trace:
    """Load a run from bytes; error messages call them `path`."""
    events = _parse_events(data, path)
    runs = list(dict.fromkeys(event.run_id for event in events))
    if run_id is None and len(runs) > 1:
        raise ConfigError(f"{path} holds {len(runs)} runs; pass run_id: {', '.join(runs[:9])}")
    chosen = tuple(event for event in events if run_id in {None, event.run_id})
    starts = [at for at, event in enumerate(chosen) if isinstance(event, RunStartEvent)]
    if not starts or starts[0] != 0:
        raise ConfigError(f"{path}: not a trace, it does not begin with run_start")
    return Trace(chosen[starts[-1] :])


def _may_be_truncated(lines: list[bytes], number: int) -> bool:
    """Whether a crash may have truncated a line: it is the last one, or the next run follows.

    A line with a complete checksum was not truncated.
    """
    _, seal, checksum = lines[number - 1].rpartition(_CHECKSUM_START)
    if seal and len(checksum) > _CHECKSUM_CHARS:
        return False
    return number == len(lines) or lines[number].startswith(b'{"type":"run_start"')


def _parse_events(data: bytes, path: str) -> list[Event]:
    """Parse all events of a file; skip a line truncated by a crash."""
    lines = data.split(b"\n")
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if _is_damaged(line.rstrip()):
            raise ConfigError(f"{path}, line {number} is damaged: it does not match its checksum")
        try:
            check_depth(line, MAX_WRAPPED_DEPTH)
            newer = _VERSION_DECODER.decode(line).schema_version > SCHEMA_VERSION
            event = None if newer else _DECODER.decode(line)
        except ValueError as error:
            if _may_be_truncated(lines, number):
                continue
            reason = safe_text(str(error)[:MAX_MESSAGE])
            raise ConfigError(f"{path}, line {number}: not an event ({reason})") from None
        if event is None:
            raise ConfigError(f"{path} was written by a newer version of surecall: update surecall")
        events.append(event)
    return events
