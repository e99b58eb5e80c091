"""Stores the trials of a run, and finds the run that a command resumes.

The identity of a run is the settings that affect results, plus the requested matrix:

    {"seed": 0, "version": "0.1.0", …, "matrix": [{"cells": […], "scenarios": […]}]}

The matrix is sorted, so filters that select the same cells resume the same run. The number of
trials is not part of it: more trials can be added to a run. A merged run may have several matrices.
Earlier versions wrote no matrix.
"""

import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from surecall.eval.storage import database as db
from surecall.eval.storage.database import (
    EmptyStoreError,
    KeyColumns,
    RunRecords,
    damage_error,
    translate_sqlite_errors,
)
from surecall.eval.storage.run_directories import (
    DATABASE,
    LATEST,
    StoreError,
    create_run,
    find_run,
    lock,
    lock_base,
    run_directories,
    set_latest,
    unlock,
    utc_now,
)
from surecall.eval.storage.trial import Cell, CompletedTrials, Key, Trial, parse_trial
from surecall.runtime.redaction import Redactor, Secrets
from surecall.runtime.sqlite_store import transaction
from surecall.values.types import JSON
from surecall.wire.chat_format import encode

MATRIX_KEY: Final = "matrix"


def run_identity(settings: JSON, cells: Iterable[Cell], scenarios: Iterable[str]) -> JSON:
    """Return the identity of a run with these settings, cells, and scenarios."""
    rows = sorted([cell.model, cell.profile, cell.strategy] for cell in cells)
    return settings | {MATRIX_KEY: [{"cells": rows, "scenarios": sorted(scenarios)}]}


def identity_settings(identity: Mapping[str, Any]) -> JSON:
    """Return an identity without its matrix. Runs with equal settings can be merged."""
    return {name: value for name, value in identity.items() if name != MATRIX_KEY}


def merge_identities(identities: Iterable[Mapping[str, Any]]) -> JSON:
    """Return the identity of a merged run. All identities must have the same settings."""
    found = list(identities)
    # Runs of earlier versions have no matrix; it counts as unknown.
    matrices = (matrix for identity in found for matrix in identity.get(MATRIX_KEY, [None]))
    by_text = {msgspec.json.encode(matrix): matrix for matrix in matrices}
    settings = identity_settings(found[0])
    distinct = [by_text[text] for text in sorted(by_text)]
    return settings if distinct == [None] else settings | {MATRIX_KEY: distinct}


def setting_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return one line for each setting in which two identities differ."""
    one, other = identity_settings(first), identity_settings(second)
    names = sorted(one.keys() | other.keys())
    pairs = ((name, _setting_as_text(one, name), _setting_as_text(other, name)) for name in names)
    return [f"{name}: {here} and {there}" for name, here, there in pairs if here != there]


def _setting_as_text(settings: JSON, name: str) -> str:
    """Return a stored setting as JSON; `nothing` if there is none."""
    if name not in settings:
        return "nothing"
    return msgspec.json.encode(settings[name], order="deterministic").decode()


def json_digest(value: Mapping[str, Any]) -> str:
    """Return a hash of a JSON object that does not depend on key order."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


# The SQLite file is the single source of truth. Each trial is committed when it ends, so killing
# the process loses only the trials in flight. Commits do not wait for the disk
# (`synchronous=NORMAL`), because waiting would block the event loop and distort the latencies. A
# power failure can lose the last seconds, which the next command runs again; the file stays
# consistent.

# On traces, level 1 compresses within a few percent of level 6, and faster.
_COMPRESSION: Final = 1
# Not a valid compressed value: decompressing it reports damage.
DAMAGED_TRACE: Final = b""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """One command that wrote into a run. `started` is filled in by the store."""

    command: tuple[str, ...] = ()
    code: str = ""
    config: JSON = {}
    started: str = ""

    @property
    def config_hash(self) -> str:
        """Hash of the configuration."""
        return json_digest(self.config)


class RunMeta(msgspec.Struct, frozen=True):
    """The identity of a run, and the commands that wrote to it, oldest first."""

    identity: JSON
    invocations: tuple[Invocation, ...]

    @property
    def created_at(self) -> str:
        """Start of the first command: UTC, ISO 8601."""
        return self.invocations[0].started

    @property
    def latest(self) -> Invocation:
        """The newest command."""
        return self.invocations[-1]


class RunStore:
    """The results of one run. Opened by `open_or_resume`, `open_to_extend`, `open_for_reading`."""

    def __init__(
        self,
        directory: Path,
        connection: sqlite3.Connection,
        write_lock: sqlite3.Connection | None = None,
        redactor: Redactor | None = None,
        unreadable: tuple[Path, ...] = (),
    ) -> None:
        self.directory = directory
        self._path = directory / DATABASE
        self._connection = connection
        self._records = RunRecords(connection, self._path)
        self._write_lock = write_lock
        self._redactor = redactor or Redactor()
        # Unreadable older runs that were skipped in the search for this one.
        self.unreadable = unreadable

    def add(self, trial: Trial, trace: bytes | None = None) -> None:
        """Record a finished trial and its events (JSON lines), with secrets redacted.

        Once this returns, the trial survives a killed process. Only an `infra` result can be
        replaced by another one, and it never replaces one.
        """
        record = self._encode_trial(trial)
        lines = None if trace is None else zlib.compress(self._redact_trace(trace), _COMPRESSION)
        with translate_sqlite_errors(self._path), transaction(self._connection):
            self._add_or_replace(trial, record, lines)

    def redact_trial(self, trial: Trial) -> Trial:
        """Return a trial with secrets redacted, ready to be stored."""
        return self._decode_trial(self._encode_trial(trial))

    def redact_text(self, text: str) -> str:
        """Return a text with secrets redacted."""
        return self._redactor.redact_text(text)

    def absorb(self, packed: Iterable[tuple[Trial, bytes | None]]) -> int:
        """Add all trials from other stores (see `packed_trials`) or none; return the new count."""
        before = len(self)
        with translate_sqlite_errors(self._path), transaction(self._connection):
            for trial, lines in packed:
                self._add_or_replace(trial, self._encode_trial(trial), lines)
        return len(self) - before

    def record_command(self, identity: Mapping[str, Any], invocation: Invocation) -> None:
        """Record a command that is about to write. The first one also creates the tables."""
        clean = self._redactor.redact_value
        row = (
            utc_now().isoformat(timespec="milliseconds"),
            encode(clean(dict(identity))).decode(),
            json_digest(identity),
            encode(clean(invocation.config)).decode(),
            invocation.config_hash,
            invocation.code,
            encode(clean(invocation.command)).decode(),
        )
        with translate_sqlite_errors(self._path), transaction(self._connection):
            if not db.schema_version(self._connection, self._path):
                self._records.make_tables()
            self._records.add_command(*row)

    def completed_trials(self, *, infra: bool = True) -> CompletedTrials:
        """Return the keys of all recorded trials. `infra=False` excludes `infra` results."""
        with db.read_snapshot(self._path) as records:
            return CompletedTrials(
                Key(Cell(row.model, row.profile, row.strategy), row.scenario, row.trial)
                for row in records.trials()
                if infra or row.status != "infra"
            )

    def trials(self) -> Iterator[Trial]:
        """Yield all trials in key order, from one snapshot."""
        with db.read_snapshot(self._path) as records:
            for row in records.trials():
                yield self._decode_trial(row.record)

    def packed_trials(self, *, salvage: bool = False) -> Iterator[tuple[Trial, bytes | None]]:
        """Yield all trials with their compressed traces.

        With `salvage`, a damaged trace is returned as `DAMAGED_TRACE` instead of raising.
        """
        with db.read_snapshot(self._path) as records:
            for row in records.trials():
                trial = self._decode_trial(row.record)
                try:
                    lines = records.trace_lines(row)
                except StoreError:
                    if not salvage:
                        raise
                    lines = DAMAGED_TRACE
                yield trial, lines

    def find(self, key: Key) -> tuple[Trial, bytes | None] | None:
        """Return one trial with its compressed trace, if it was recorded."""
        with translate_sqlite_errors(self._path), transaction(self._connection, "DEFERRED"):
            row = self._records.find_or_scan(_key_columns(key))
            lines = None if row is None else self._records.trace_lines(row)
        return None if row is None else (self._decode_trial(row.record), lines)

    def trace(self, key: Key) -> bytes | None:
        """Return the events of a trial as JSON lines, if recorded."""
        _, lines = self.find(key) or (None, None)
        try:
            return None if lines is None else zlib.decompress(lines)
        except zlib.error as error:
            raise damage_error(self._path, error) from error

    def __len__(self) -> int:
        """Return the number of recorded trials."""
        with translate_sqlite_errors(self._path):
            return self._records.trial_count()

    @property
    def meta(self) -> RunMeta:
        """The identity of the run and its commands."""
        with db.read_snapshot(self._path) as records:
            rows = records.commands()
        read = msgspec.json.decode
        return RunMeta(
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
        """Consolidate the file and release the write lock."""
        held, self._write_lock = self._write_lock, None
        if held is not None:
            db.consolidate(self._connection)
        self._connection.close()
        if held is not None:
            unlock(self.directory, held)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add_or_replace(self, trial: Trial, record: str, lines: bytes | None) -> None:
        """Add or replace a trial, inside a transaction."""
        key = _key_columns(trial.key)
        outcome = (trial.status, trial.category, trial.elapsed_ms, record)
        known = self._records.find_by_index(key)
        if known is None:
            self._records.add_trial(key, outcome, lines)
        elif known.status == "infra":
            self._records.replace_trial(known, outcome, lines)
        elif trial.status != "infra" and not self._is_same_trial(known.record, record):
            named = " ".join(map(str, key))
            raise StoreError(f"{self._path} already has a different result for the trial {named}")

    def _encode_trial(self, trial: Trial) -> str:
        plain = msgspec.to_builtins(trial)
        line = encode(plain)
        if self._redactor.may_match(line):
            # The key stays unchanged: it identifies the trial.
            line = encode(self._redactor.redact_value(plain) | {"key": plain["key"]})
        return line.decode()

    def _redact_trace(self, trace: bytes) -> bytes:
        if not self._redactor.may_match(trace):
            return trace
        events = (msgspec.json.decode(line) for line in trace.split(b"\n") if line.strip())
        return b"".join(encode(self._redactor.redact_value(event)) + b"\n" for event in events)

    def _is_same_trial(self, stored: str, record: str) -> bool:
        """Whether two records are the same trial, also if one is of an older version."""
        # A record of an earlier version may lack fields; decoding fills in the defaults.
        return stored == record or self._decode_trial(stored) == self._decode_trial(record)

    def _decode_trial(self, record: str) -> Trial:
        try:
            return parse_trial(record)
        except ValueError as error:
            raise damage_error(self._path, error) from error


def open_or_resume(
    base: Path,
    identity: Mapping[str, Any],
    invocation: Invocation | None = None,
    *,
    fresh: bool = False,
    secrets: Secrets = (),
) -> RunStore:
    """Open the newest run with this identity for writing, or create one.

    `secrets` are never written to disk. Older runs that cannot be read are skipped and listed in
    `RunStore.unreadable`. If the latest run cannot be read, this raises, because it is probably
    the one to continue.
    """
    with lock_base(base):
        found, unreadable = (None, ()) if fresh else find_resumable(base, identity)
        directory = found or create_run(base, utc_now())
        with _close_on_error(_open_for_writing(directory, secrets, unreadable)) as store:
            store.record_command(identity, invocation or Invocation())
            set_latest(base, directory)
    return store


def open_to_extend(
    directory: Path,
    identity: Mapping[str, Any],
    invocation: Invocation,
    *,
    secrets: Secrets = (),
) -> RunStore:
    """Open a run with the same settings for writing, whatever its matrix."""
    with _close_on_error(_open_for_writing(directory, secrets)) as store:
        # The recorded identity is redacted, so compare it with a redacted one.
        if found := setting_differences(
            store.meta.identity, Redactor(secrets).redact_value(dict(identity))
        ):
            raise StoreError(f"{directory} was made with different settings: {'; '.join(found)}")
        store.record_command(identity, invocation)
    return store


@contextmanager
def _close_on_error(store: RunStore) -> Iterator[RunStore]:
    """Close the store if the block raises."""
    try:
        yield store
    except BaseException:
        store.close()
        raise


def open_for_reading(directory: Path) -> RunStore:
    """Open a run for reading. Another process may be writing to it."""
    path = directory / DATABASE
    with translate_sqlite_errors(path):
        return RunStore(directory, db.connect_reader(path))


def merge(stores: Iterable[RunStore], target: RunStore) -> int:
    """Add all trials of runs with the same settings, or none; return how many are new.

    Results for the same trial must be equal, except that any result replaces an `infra` one.
    """
    others = list(stores)
    for other in others:
        if setting_differences(other.meta.identity, target.meta.identity):
            raise StoreError(
                f"{other.directory} and {target.directory} were made with different settings and "
                "cannot be merged"
            )
    return target.absorb(row for other in others for row in other.packed_trials())


def find_resumable(base: Path, identity: Mapping[str, Any]) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the newest run with this identity, and the unreadable runs that were skipped."""
    unreadable: list[Path] = []
    identity_hash = json_digest(identity)
    for directory in run_directories(base):
        try:
            if _stored_identity_hash(directory / DATABASE) == identity_hash:
                return directory, tuple(unreadable)
        except StoreError:
            if directory == _latest_run(base):
                raise
            unreadable.append(directory)
    return None, tuple(unreadable)


def _stored_identity_hash(path: Path) -> str | None:
    """Return the identity hash in a database; None if a killed command left it empty."""
    try:
        with db.read_snapshot(path) as records:
            return records.commands()[0].identity_hash
    except EmptyStoreError:
        return None


def _latest_run(base: Path) -> Path | None:
    try:
        return find_run(base, LATEST)
    except StoreError:
        return None


def _open_for_writing(
    directory: Path, secrets: Secrets, unreadable: tuple[Path, ...] = ()
) -> RunStore:
    held = lock(directory)
    try:
        with translate_sqlite_errors(directory / DATABASE):
            connection = db.connect_writer(directory / DATABASE)
    except BaseException:
        unlock(directory, held)
        raise
    return RunStore(directory, connection, held, Redactor(secrets), unreadable)


def _key_columns(key: Key) -> KeyColumns:
    """Return the values of the columns that identify a trial."""
    return (key.cell.model, key.cell.profile, key.cell.strategy, key.scenario, key.trial)
