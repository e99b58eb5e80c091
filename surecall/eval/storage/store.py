"""The store: the results of a run. Its SQLite file is the only source of truth.

A trial is committed when it ends, so a kill loses at most the trials in flight. Commits go to the
write-ahead log without waiting for the disk (`synchronous=NORMAL`): a process that dies loses
nothing, and a power cut at most the last seconds, which the next command runs again; the file
stays sound. Waiting would stop the event loop in every commit, and spoil the latencies.
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from surecall.eval.storage import database as db
from surecall.eval.storage.damage import BlankStore, damaged, explained
from surecall.eval.storage.done import Done
from surecall.eval.storage.identity import differences, digest
from surecall.eval.storage.records import Columns, Records
from surecall.eval.storage.run_directories import (
    DATABASE,
    LATEST,
    StoreError,
    find_run,
    lock,
    new_run,
    opening,
    point_to,
    runs,
    unlock,
    utc_now,
)
from surecall.eval.storage.trial import Cell, Key, Trial, parse_trial
from surecall.runtime.redaction import Redactor, Secrets
from surecall.runtime.transactions import transaction
from surecall.values.types import JSON
from surecall.wire.messages import encode

__all__ = [
    "Invocation",
    "Meta",
    "Store",
    "StoreError",
    "merge",
    "open_for_reading",
    "open_or_resume",
    "open_to_add",
    "resumable",
]

# On traces, level 1 is as small as level 6 within a few percent, and faster.
_COMPRESSION: Final = 1
# Nothing is compressed to this: whoever unpacks it finds that it is damaged.
DAMAGED_TRACE: Final = b""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """One command that wrote into a run. `started` is filled in by the store."""

    command: tuple[str, ...] = ()
    code: str = ""
    config: JSON = {}
    started: str = ""

    @property
    def config_hash(self) -> str:
        """A hash of the configuration."""
        return digest(self.config)


class Meta(msgspec.Struct, frozen=True):
    """What a run is: what its results depend on, and the commands that made it, oldest first."""

    identity: JSON
    invocations: tuple[Invocation, ...]

    @property
    def created(self) -> str:
        """When the run began: UTC, ISO 8601."""
        return self.invocations[0].started

    @property
    def latest(self) -> Invocation:
        """The command that wrote last."""
        return self.invocations[-1]


class Store:
    """One run's results. Made by `open_or_resume` (to write) or `open_for_reading`."""

    def __init__(
        self,
        directory: Path,
        connection: sqlite3.Connection,
        held: sqlite3.Connection | None = None,
        redactor: Redactor | None = None,
        unreadable: tuple[Path, ...] = (),
    ) -> None:
        self.directory = directory
        self._path = directory / DATABASE
        self._connection = connection
        self._records = Records(connection, self._path)
        self._held = held
        self._redactor = redactor or Redactor()
        # Older runs that were passed over in the search for this one.
        self.unreadable = unreadable

    def add(self, trial: Trial, trace: bytes | None = None) -> None:
        """Record a finished trial and its events as JSON lines, without the secrets in them.

        When this returns, a kill can no longer lose it. A trial is recorded once: only one that
        the infrastructure spoiled is replaced by another result, and never replaces one.
        """
        record = self._record(trial)
        lines = None if trace is None else zlib.compress(self._cleaned_trace(trace), _COMPRESSION)
        with explained(self._path), transaction(self._connection):
            self._put(trial, record, lines)

    def cleaned(self, trial: Trial) -> Trial:
        """Return a trial without the secrets in it, as it is recorded."""
        return self._decoded(self._record(trial))

    def cleaned_text(self, text: str) -> str:
        """Return a text about the run without the secrets in it."""
        return self._redactor.text(text)

    def absorb(self, packed: Iterable[tuple[Trial, bytes | None]]) -> int:
        """Add what `packed` of other stores gives, all or nothing; return how many are new."""
        before = len(self)
        with explained(self._path), transaction(self._connection):
            for trial, lines in packed:
                self._put(trial, self._record(trial), lines)
        return len(self) - before

    def sign(self, identity: Mapping[str, Any], invocation: Invocation) -> None:
        """Note a command that is about to write; the first one also makes the tables."""
        clean = self._redactor.value
        row = (
            utc_now().isoformat(timespec="milliseconds"),
            encode(clean(dict(identity))).decode(),
            digest(identity),
            encode(clean(invocation.config)).decode(),
            invocation.config_hash,
            invocation.code,
            encode(clean(invocation.command)).decode(),
        )
        with explained(self._path), transaction(self._connection):
            if not db.checked_version(self._connection, self._path):
                self._records.make_tables()
            self._records.add_command(*row)

    def done_keys(self, *, infra: bool = True) -> Done:
        """Return the keys of all recorded trials; with `infra=False`, without the spoiled ones."""
        with db.snapshot(self._path) as records:
            return Done(
                Key(Cell(row.model, row.profile, row.strategy), row.scenario, row.trial)
                for row in records.trials()
                if infra or row.status != "infra"
            )

    def trials(self) -> Iterator[Trial]:
        """Read all trials in the order of their keys, as they are now, one at a time."""
        with db.snapshot(self._path) as records:
            for row in records.trials():
                yield self._decoded(row.record)

    def packed(self, *, salvage: bool = False) -> Iterator[tuple[Trial, bytes | None]]:
        """Read all trials with their traces, compressed, as `absorb` takes them.

        With `salvage`, a damaged trace does not end the reading: it comes as `DAMAGED_TRACE`.
        """
        with db.snapshot(self._path) as records:
            for row in records.trials():
                trial = self._decoded(row.record)
                try:
                    lines = records.lines(row)
                except StoreError:
                    if not salvage:
                        raise
                    lines = DAMAGED_TRACE
                yield trial, lines

    def find(self, key: Key) -> tuple[Trial, bytes | None] | None:
        """Read one trial with its trace, compressed, if it was recorded."""
        with explained(self._path), transaction(self._connection, "DEFERRED"):
            row = self._records.search(_columns(key))
            lines = None if row is None else self._records.lines(row)
        return None if row is None else (self._decoded(row.record), lines)

    def trace(self, key: Key) -> bytes | None:
        """Return the events of a trial as JSON lines, if any were recorded."""
        _, lines = self.find(key) or (None, None)
        try:
            return None if lines is None else zlib.decompress(lines)
        except zlib.error as error:
            raise damaged(self._path, error) from error

    def __len__(self) -> int:
        """Count the recorded trials."""
        with explained(self._path):
            return self._records.number_of_trials()

    @property
    def meta(self) -> Meta:
        """What the run is, and which commands made it."""
        with db.snapshot(self._path) as records:
            rows = records.commands()
        read = msgspec.json.decode
        return Meta(
            read(rows[0].identity),
            tuple(
                Invocation(
                    command=tuple(read(row.command)),
                    code=row.code,
                    config=read(row.config),
                    started=row.started,
                )
                for row in rows
            ),
        )

    def close(self) -> None:
        """Put everything into the one file, and let others write."""
        held, self._held = self._held, None
        if held is not None:
            db.settle(self._connection)
        self._connection.close()
        if held is not None:
            unlock(self.directory, held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _put(self, trial: Trial, record: str, lines: bytes | None) -> None:
        """Add or replace one trial, inside a transaction."""
        key = _columns(trial.key)
        outcome = (trial.status, trial.category, trial.elapsed_ms, record)
        known = self._records.find(key)
        if known is None:
            self._records.add_trial(key, outcome, lines)
        elif known.status == "infra":
            self._records.replace_trial(known, outcome, lines)
        elif trial.status != "infra" and not self._is_same(known.record, record):
            named = " ".join(map(str, key))
            raise StoreError(f"{self._path} holds another result of the same trial: {named}")

    def _record(self, trial: Trial) -> str:
        plain = msgspec.to_builtins(trial)
        line = encode(plain)
        if self._redactor.suspects(line):
            # The key stays as it is: it says which trial this is.
            line = encode(self._redactor.value(plain) | {"key": plain["key"]})
        return line.decode()

    def _cleaned_trace(self, trace: bytes) -> bytes:
        if not self._redactor.suspects(trace):
            return trace
        events = (msgspec.json.decode(line) for line in trace.split(b"\n") if line.strip())
        return b"".join(encode(self._redactor.value(event)) + b"\n" for event in events)

    def _is_same(self, known: str, record: str) -> bool:
        # A record that an earlier version wrote may lack a field; its value is then the default.
        return known == record or self._decoded(known) == self._decoded(record)

    def _decoded(self, record: str) -> Trial:
        try:
            return parse_trial(record)
        except ValueError as error:
            raise damaged(self._path, error) from error


def open_or_resume(
    base: Path,
    identity: Mapping[str, Any],
    invocation: Invocation | None = None,
    *,
    fresh: bool = False,
    secrets: Secrets = (),
) -> Store:
    """Open the newest run with this identity to add to it, or begin one.

    `identity` says which run it is (see `identity.py`). Of `secrets`, nothing reaches the disk. An
    old run that cannot be read is passed over (`Store.unreadable`); the run that was written last
    is not, because it is probably the one to continue.
    """
    with opening(base):
        found, unreadable = (None, ()) if fresh else resumable(base, identity)
        directory = found or new_run(base, utc_now())
        with _closed_on_error(_open_for_writing(directory, secrets, unreadable)) as store:
            store.sign(identity, invocation or Invocation())
            point_to(base, directory)
    return store


def open_to_add(
    directory: Path,
    identity: Mapping[str, Any],
    invocation: Invocation,
    *,
    secrets: Secrets = (),
) -> Store:
    """Open a run to add to it, whatever its matrix; its settings must be the same."""
    with _closed_on_error(_open_for_writing(directory, secrets)) as store:
        # What is recorded has no secrets, so this must not have any either.
        if found := differences(store.meta.identity, Redactor(secrets).value(dict(identity))):
            raise StoreError(f"{directory} was made with different settings: {'; '.join(found)}")
        store.sign(identity, invocation)
    return store


@contextmanager
def _closed_on_error(store: Store) -> Iterator[Store]:
    try:
        yield store
    except BaseException:
        store.close()
        raise


def open_for_reading(directory: Path) -> Store:
    """Open a run, also one that is being written."""
    path = directory / DATABASE
    with explained(path):
        return Store(directory, db.connect_reader(path))


def merge(stores: Iterable[Store], into: Store) -> int:
    """Add the trials of other runs of the same settings, all or none; return how many are new.

    A trial that several hold must have the same result; one that the infrastructure spoiled is
    replaced by any other.
    """
    others = list(stores)
    for other in others:
        if differences(other.meta.identity, into.meta.identity):
            raise StoreError(
                f"{other.directory} and {into.directory} were made with different settings; their "
                "results cannot be put together"
            )
    return into.absorb(row for other in others for row in other.packed())


def resumable(base: Path, identity: Mapping[str, Any]) -> tuple[Path | None, tuple[Path, ...]]:
    """Find the newest run of an identity; list those that could not be read on the way."""
    unreadable: list[Path] = []
    identity_hash = digest(identity)
    for directory in runs(base):
        try:
            if _identity_in(directory / DATABASE) == identity_hash:
                return directory, tuple(unreadable)
        except StoreError:
            if directory == _last_written(base):
                raise
            unreadable.append(directory)
    return None, tuple(unreadable)


def _identity_in(path: Path) -> str | None:
    """Return which run a file holds; None when a killed command left it without any."""
    try:
        with db.snapshot(path) as records:
            return records.commands()[0].identity_hash
    except BlankStore:
        return None


def _last_written(base: Path) -> Path | None:
    try:
        return find_run(base, LATEST)
    except StoreError:
        return None


def _open_for_writing(
    directory: Path, secrets: Secrets, unreadable: tuple[Path, ...] = ()
) -> Store:
    held = lock(directory)
    try:
        with explained(directory / DATABASE):
            connection = db.connect_writer(directory / DATABASE)
    except BaseException:
        unlock(directory, held)
        raise
    return Store(directory, connection, held, Redactor(secrets), unreadable)


def _columns(key: Key) -> Columns:
    return (key.cell.model, key.cell.profile, key.cell.strategy, key.scenario, key.trial)
