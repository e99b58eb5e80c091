"""Recording: events are stamped, kept, handed to observers, and written as JSON lines.

Secrets are taken out on the way to the disk: known keys in all the spellings in which they leak,
pieces of them, and whatever looks like a key. A file from which something was taken out can be
read and reported on, but not replayed.
"""

import base64
import logging
import math
import os
import time
import traceback
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from surecall.values.errors import FOREIGN, ConfigError, Fault
from surecall.values.events import (
    SCHEMA_VERSION,
    Event,
    LlmRequestEndEvent,
    ObserverErrorEvent,
    RunStartEvent,
)
from surecall.values.trace import Trace, safe_text
from surecall.values.types import Secret
from surecall.wire.messages import encode

Observer: TypeAlias = Callable[[Event], object]
Secrets: TypeAlias = Secret | str | Iterable[Secret | str | None] | None
REDACTED = "[redacted]"
MAX_CONTEXT_BYTES = 200
MAX_MESSAGE = 200
# Shorter "secrets" would redact ordinary words.
MIN_SECRET_CHARS = 6
FRAGMENT_CHARS = 8
# An unknown token must be this long to be taken for a key.
MIN_KEY_CHARS = 16

_log = logging.getLogger("surecall")
_DECODER = msgspec.json.Decoder(Event)
_BEARER = ("Bearer", "bearer", "BEARER")
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
_UNRESERVED = _WORD | frozenset(".~")
_TOKEN = _UNRESERVED | frozenset("+/=")
E_ = TypeVar("E_", bound=Event)


class Recorder:
    """Stamps and keeps the events of one run, and tells the observers. None can break the run.

    An observer that says `is_journal` is what a run would be resumed from. If it can no longer
    write, nobody would know of a call that begins now.
    """

    def __init__(
        self, run_id: str, observers: Iterable[Observer], context: Mapping[str, str] | None = None
    ) -> None:
        self._run_id = run_id
        self._observers = list(observers)
        self._context = dict(context or {})
        self.events: list[Event] = []
        self.has_journal = True

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
        _log.warning("%s; it gets no further events of this run", safe_text(message))
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


class Redactor:
    """Takes secrets out of text, in the spellings in which they leak.

    With `wary`, pieces of the secrets go too, and so does whatever looks like a key. What a model
    says to a user is not a place for that; files and error messages are.
    """

    def __init__(self, secrets: Secrets = (), *, wary: bool = True) -> None:
        known = list(_known(secrets))
        spelt = {spelling for text in known for spelling in _spellings(text)}
        self._needles = sorted(spelt, key=len, reverse=True)
        self._fragments = sorted(
            {piece for text in known for piece in _pieces(text)} if wary else ()
        )
        self._wary = wary
        marks = (*self._needles, *self._fragments, *(("sk-", *_BEARER) if wary else ()))
        self._marks = [mark.encode("utf-8", "replace") for mark in marks]

    def suspects(self, data: bytes) -> bool:
        """Whether there may be something to take out; a quick look at bytes."""
        return any(mark in data for mark in self._marks)

    def value(self, value: Any) -> Any:
        """Copy a JSON value without the secrets in its texts and keys."""
        match value:
            case str():
                return self.text(value)
            case list() | tuple():
                return [self.value(item) for item in value]
            case dict():
                return {self.text(key): self.value(item) for key, item in value.items()}
            case _:
                return value

    def fault(self, fault: Fault) -> Fault:
        """Copy a fault without the secrets that an endpoint echoed."""
        words = (fault.message, fault.body, fault.hint, fault.provider)
        message, body, hint, provider = (word and self.text(word) for word in words)
        return msgspec.structs.replace(
            fault, message=message, body=body, hint=hint, provider=provider
        )

    def text(self, text: str) -> str:
        """Return the text without the secrets."""
        for needle in self._needles:
            text = text.replace(needle, REDACTED)
        if self._wary:
            text = _without(text, [*self._found(text), *_bearers(text), *_keys(text)])
        return text

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        for piece in self._fragments:
            at = text.find(piece)
            while at >= 0:
                yield at, at + len(piece)
                at = text.find(piece, at + len(piece))


def _known(secrets: Secrets) -> Iterator[str]:
    given = (secrets,) if secrets is None or isinstance(secrets, Secret | str) else secrets
    for secret in given:
        text = secret.reveal() if isinstance(secret, Secret) else secret or ""
        if len(text) >= MIN_SECRET_CHARS:
            yield text


def _spellings(text: str) -> Iterator[str]:
    raw = text.encode("utf-8", "replace")
    yield from (raw.hex(), raw.hex().upper(), urllib.parse.quote(raw, safe=""))
    yield "".join(chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02x}" for byte in raw)
    for digits in ("04x", "04X"):
        yield "".join(char if char in _WORD else f"\\u{ord(char):{digits}}" for char in text)
    yield from _escapes(text)
    yield from _escapes(text.replace("/", "\\/"))
    for shift in range(3):
        # Inside a longer text, base64 depends on where in a group of three bytes the key begins;
        # the characters at both ends also depend on its neighbours, so they are left out.
        whole = base64.b64encode(bytes(shift) + raw).decode().rstrip("=")
        loose = (shift + len(raw)) % 3
        kept = whole[(0, 2, 3)[shift] : len(whole) - bool(loose)]
        yield from (kept, kept.replace("+", "-").replace("/", "_"))


def _escapes(text: str) -> Iterator[str]:
    # JSON in JSON in JSON: a call's arguments, in a tool's result, in an event.
    for _ in range(3):
        yield text
        text = encode(text)[1:-1].decode()


def _pieces(text: str) -> Iterator[str]:
    for at in range(len(text) - FRAGMENT_CHARS + 1):
        if _telling(piece := text[at : at + FRAGMENT_CHARS]):
            yield piece


def _telling(text: str) -> bool:
    """Whether a text looks made by a machine. Words of a language must not be taken for keys."""
    capitals = sum(char.isupper() for char in text[1:])
    return any(char.isdigit() for char in text) or 0 < capitals < len(text) - 1


def _bearers(text: str) -> Iterator[tuple[int, int]]:
    """Find the tokens after the word Bearer."""
    for word in _BEARER:
        at = text.find(word)
        while at >= 0:
            start = _end(text, at + len(word), frozenset(" \t:"))
            end = _end(text, start, _TOKEN)
            if start > at + len(word) and _is_key(text[start:end], FRAGMENT_CHARS):
                yield start, end
            at = text.find(word, end)


def _keys(text: str) -> Iterator[tuple[int, int]]:
    """Find tokens that begin like the keys of most providers."""
    at = text.find("sk-")
    while at >= 0:
        end = _end(text, at, _WORD)
        if (not at or text[at - 1] not in _WORD) and _is_key(text[at:end], MIN_KEY_CHARS):
            yield at, end
        at = text.find("sk-", end)


def _is_key(token: str, shortest: int) -> bool:
    return len(token) >= shortest and (_telling(token) or len(token) > 2 * MIN_KEY_CHARS)


def _end(text: str, at: int, alphabet: frozenset[str]) -> int:
    while at < len(text) and text[at] in alphabet:
        at += 1
    return at


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """Cut out the spans, which may overlap, and leave a mark for each stretch."""
    kept: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if start > position or not kept:
            kept += [text[position:start], REDACTED]
        position = max(position, end)
    return "".join((*kept, text[position:]))


class JsonlSink:
    """An observer that appends each event to a file as one JSON line, as it happens.

    Give it the key, as in `JsonlSink(path, client.api_key)`, or several: whatever a tool returns
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
        line = _line(event, self._redactor)
        if isinstance(event, RunStartEvent) and _is_torn(self._path):
            line = b"\n" + line  # a crash left half a line; it must not swallow this one
        _write(self._path, "ab", line)


def _is_torn(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:  # no such file, or an empty one
        return False


def save_trace(trace: Trace, path: str | Path, secrets: Secrets = ()) -> None:
    """Write a whole trace as JSON lines, replacing the file."""
    _write(Path(path), "wb", dump_trace(trace, secrets))


def dump_trace(trace: Trace, secrets: Secrets = ()) -> bytes:
    """Return a whole trace as JSON lines."""
    redactor = Redactor(secrets)
    return b"".join(_line(event, redactor) for event in trace)


def _line(event: Event, redactor: Redactor) -> bytes:
    plain = msgspec.to_builtins(event)
    if isinstance(event, LlmRequestEndEvent):
        plain = _writable(plain)
    line = encode(plain)
    return (encode(redactor.value(plain)) if redactor.suspects(line) else line) + b"\n"


def _writable(value: Any) -> Any:
    """Write NaN and the infinities, which some servers send, as text; JSON would lose them."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case list() | tuple():
            return [_writable(item) for item in value]
        case dict():
            return {key: _writable(item) for key, item in value.items()}
        case _:
            return value


def _write(path: Path, mode: str, data: bytes) -> None:
    def private(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600)

    with open(path, mode, opener=private) as file:  # Path.open takes no opener
        file.write(data)


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
    """Whether a crash may have cut a line: nothing follows it, or the next run does."""
    return number == len(lines) or lines[number].startswith(b'{"type":"run_start"')


def _events(data: bytes, path: str) -> list[Event]:
    lines = data.split(b"\n")
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            newer = _VERSION.decode(line).schema_version > SCHEMA_VERSION
            event = None if newer else _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            if _may_be_torn(lines, number):
                continue
            reason = safe_text(str(error)[:MAX_MESSAGE])
            raise ConfigError(f"{path}, line {number}: not an event ({reason})") from None
        if event is None:
            raise ConfigError(f"{path}: written by a newer version; update surecall to read it")
        events.append(event)
    return events
