"""Recording: events are stamped, kept, handed to observers, and written as JSON lines.

Secrets are taken out on the way to the disk. A file from which something was taken out can be read
and reported on, but not replayed.
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

from surecall.runtime.execution import FOREIGN
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
from surecall.wire.messages import encode

MAX_CONTEXT_BYTES = 200
MAX_MESSAGE = 200

_log = logging.getLogger("surecall")
_DECODER = msgspec.json.Decoder(Event)
_SEAL, _SEAL_END = b',"crc":"', b'"}'
_SEAL_CHARS = 8 + len(_SEAL_END)
E_ = TypeVar("E_", bound=Event)


# Observers of every run of the process. surecall's pytest plugin is one, while a test uses it.
WATCHING: list[Observer] = []


class Recorder:
    """Stamps and keeps the events of one run, and tells the observers. None can break the run.

    An observer that says `is_journal` is what a run would be resumed from. If it can no longer
    write, nobody would know of a call that begins now.

    The run happens inside `with`, so that observers hear of its end, also if it is cancelled.
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
        self._observers = [*observers, *WATCHING]
        self._introduced = tuple(self._observers)
        self._context = dict(context or {})
        self.events: list[Event] = []
        self.has_journal = True

    def __enter__(self) -> Self:
        self._announce("run_entered", self._clients)
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._announce("run_left", error)

    def _announce(self, method: str, about: object) -> None:
        for observer in self._introduced:
            # As Python looks for `__enter__`: what an instance makes of unknown names is its own.
            hook = getattr(type(observer), method, None)
            try:
                if hook is not None:
                    hook(observer, self._run_id, about)
            except FOREIGN as error:
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
            except FOREIGN as error:  # an observer is foreign code
                failed.append((observer, error))
        # All of them go before the first is reported: the report is an event, too.
        for observer, _ in failed:
            self._observers.remove(observer)
            self.has_journal &= not getattr(observer, "is_journal", False)
        for observer, reason in failed:
            self._report(observer, turn, reason)

    def _report(self, observer: Observer, turn: int, error: BaseException) -> None:
        name = getattr(observer, "__qualname__", type(observer).__qualname__)
        said = "".join(traceback.format_exception_only(error)).strip()
        message = f"observer {name} raised {said}"[:MAX_MESSAGE]
        # Its words are in the event: they may hold a secret, and a log has nobody to remove it.
        words = safe_text(f"observer {name} raised {type(error).__name__}")
        _log.warning("%s; it gets no further events of this run", words)
        self.emit(ObserverErrorEvent, turn, observer=name, message=message)

    @property
    def trace(self) -> Trace:
        """What has been recorded so far."""
        return Trace(tuple(self.events))


def plain_words(value: Any) -> str:
    """Return a foreign value as text; its class may be broken."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # see above
        return f"({type(value).__name__})"


def allowed_context(context: Mapping[str, Any], keys: Iterable[str]) -> dict[str, str]:
    """Keep only the keys that the config lets into events, as short text."""
    allowed = {key: plain_words(context[key]) for key in keys if key in context}
    return {
        key: text.encode("utf-8", "replace")[:MAX_CONTEXT_BYTES].decode("utf-8", "ignore")
        for key, text in allowed.items()
    }


class JsonlSink:
    """An observer that appends each event to a file as one JSON line, as it happens.

    Give it the keys, as in `JsonlSink(path, client.secrets)`, or just one: whatever a tool returns
    then, a known key never reaches the disk. Only the owner may read a file that it creates.

    It is a journal: a call begins only after its start was written, so that a run which is resumed
    from the file makes no call twice. If the file can no longer be written, calls are refused,
    except those of tools that are read-only or idempotent.
    """

    is_journal = True

    def __init__(self, path: str | Path, secrets: Secrets = ()) -> None:
        self._path = Path(path)
        self._redactor = Redactor(secrets)

    def __call__(self, event: Event) -> None:
        """Write one event."""
        line = _sealed(_line(event, self._redactor))
        with _opened(self._path, "ab+") as file:
            # A crash, perhaps of another run, left half a line; it must not swallow this one.
            file.write(b"\n" + line if _is_torn(file) else line)


def _is_torn(file: BinaryIO) -> bool:
    """Whether a file has an end that is not the end of a line."""
    if not file.seekable() or not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


def save_trace(trace: Trace, path: str | Path, secrets: Secrets = ()) -> None:
    """Write a whole trace as JSON lines, replacing the file."""
    redactor = Redactor(secrets)
    with _opened(Path(path), "wb") as file:
        file.write(b"".join(_sealed(_line(event, redactor)) for event in trace))


def dump_trace(trace: Trace, secrets: Secrets = ()) -> bytes:
    """Return a whole trace as JSON lines."""
    redactor = Redactor(secrets)
    return b"".join(_line(event, redactor) for event in trace)


def _line(event: Event, redactor: Redactor) -> bytes:
    plain = msgspec.to_builtins(event)
    line = encode(plain)
    if redactor.suspects(line):
        clean = redactor.value(plain)
        line = encode(clean | {"redacted": True}) if encode(clean) != line else line
    return line + b"\n"


def _sealed(line: bytes) -> bytes:
    """Add a checksum of a line at its end, where every reader of JSON passes over it."""
    return b"%s%s%08x%s\n" % (line[:-2], _SEAL, zlib.crc32(line[:-2]), _SEAL_END)


def _is_damaged(line: bytes) -> bool:
    """Whether a line has a checksum that is not its own; lines of earlier versions have none."""
    body, seal, told = line.rpartition(_SEAL)
    whole = bool(seal) and len(told) == _SEAL_CHARS and told.endswith(_SEAL_END)
    return whole and told != b"%08x%s" % (zlib.crc32(body), _SEAL_END)


def _opened(path: Path, mode: Literal["ab+", "wb"]) -> BinaryIO:
    def private(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    return open(path, mode, opener=private)  # Path.open takes no opener


class _Version(msgspec.Struct):
    schema_version: int = SCHEMA_VERSION


_VERSION = msgspec.json.Decoder(_Version)


def load_trace(path: str | Path, run_id: str | None = None) -> Trace:
    """Read a run back. A torn line, as a crash leaves it, is left out.

    A file that one sink wrote for several runs needs the `run_id` of the one that is meant. Of a
    run that was resumed, the newest part is read; it begins with the transcript so far.
    """
    return parse_trace(Path(path).read_bytes(), run_id, str(path))


def parse_trace(data: bytes, run_id: str | None = None, path: str = "the trace") -> Trace:
    """Do the same for bytes; `path` is what errors call them."""
    events = _events(data, path)
    runs = list(dict.fromkeys(event.run_id for event in events))
    if run_id is None and len(runs) > 1:
        raise ConfigError(f"{path} holds {len(runs)} runs; pass run_id: {', '.join(runs[:9])}")
    chosen = tuple(event for event in events if run_id in {None, event.run_id})
    starts = [at for at, event in enumerate(chosen) if isinstance(event, RunStartEvent)]
    if not starts or starts[0] != 0:
        raise ConfigError(f"{path}: a trace begins with run_start")
    return Trace(chosen[starts[-1] :])


def _may_be_torn(lines: list[bytes], number: int) -> bool:
    """Whether a crash may have cut a line: nothing follows it, or the next run does.

    What has come to its checksum was not cut before it.
    """
    _, seal, told = lines[number - 1].rpartition(_SEAL)
    if seal and len(told) > _SEAL_CHARS:
        return False
    return number == len(lines) or lines[number].startswith(b'{"type":"run_start"')


def _events(data: bytes, path: str) -> list[Event]:
    lines = data.split(b"\n")
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if _is_damaged(line.rstrip()):
            raise ConfigError(f"{path}, line {number}: damaged, it does not match its checksum")
        try:
            check_depth(line, MAX_WRAPPED_DEPTH)
            newer = _VERSION.decode(line).schema_version > SCHEMA_VERSION
            event = None if newer else _DECODER.decode(line)
        except ValueError as error:
            if _may_be_torn(lines, number):
                continue
            reason = safe_text(str(error)[:MAX_MESSAGE])
            raise ConfigError(f"{path}, line {number}: not an event ({reason})") from None
        if event is None:
            raise ConfigError(f"{path}: written by a newer version; update surecall to read it")
        events.append(event)
    return events
