"""The SQLite database of a run: schema, checksummed records, and damage detection.

    meta      one row per command that wrote to the run: time, settings, code version
    trials    one row per finished trial: key, outcome, full record
    traces    the events of a trial as compressed JSON lines; the checksum is in the trial's row
    totals    row count and checksum sum of `meta` and `trials`

Every read verifies the checksum. It covers key and content, so a changed key or swapped content is
detected. Totals are written in the same transaction as the row, so missing, duplicate, and inserted
rows are detected too.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from surecall.eval.storage.run_directories import (
    StoreError,
    create_private_file,
    reject_symlink,
    translate_os_errors,
)
from surecall.runtime.sqlite_store import transaction

_DAMAGED: Final = (
    "{path} is damaged ({error}) and was left unchanged; restore it, or start a new run with "
    "--fresh"
)
_WRITE_FAILED: Final = (
    "{path} could not be written ({error}); all recorded trials are safe: free disk space, and "
    "repeat the command to continue"
)
_UNUSABLE: Final = "cannot use {path}: {error}"
_ERROR_MESSAGES: Final = {
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_FULL: _WRITE_FAILED,
    sqlite3.SQLITE_IOERR: _WRITE_FAILED,
}


class EmptyStoreError(StoreError):
    """The file has no tables, because a command was killed before it created them."""


def damage_error(path: Path, error: object) -> StoreError:
    """Return the error that reports a damaged file."""
    return StoreError(_DAMAGED.format(path=path, error=" ".join(str(error).split())))


@contextmanager
def translate_sqlite_errors(path: Path) -> Iterator[None]:
    """Translate SQLite errors about a file to `StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the primary error code; the rest is SQLite's extended code.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise StoreError(
            _ERROR_MESSAGES.get(kind, _UNUSABLE).format(path=path, error=error)
        ) from error
    except (UnicodeError, OverflowError) as error:
        # Text that cannot be encoded, or an integer that SQLite cannot store.
        raise StoreError(_UNUSABLE.format(path=path, error=error)) from error


R = TypeVar("R", bound="CommandRow | TrialRow")
KeyColumns: TypeAlias = tuple[str, str, str, str, int]
OutcomeColumns: TypeAlias = tuple[str, str, int, str]

SCHEMA_VERSION: Final = 2
_META: Final = (
    "CREATE TABLE meta (id INTEGER PRIMARY KEY, started TEXT NOT NULL, identity TEXT NOT NULL,"
    " identity_hash TEXT NOT NULL, config TEXT NOT NULL, config_hash TEXT NOT NULL,"
    " code TEXT NOT NULL, command TEXT NOT NULL, checksum INTEGER NOT NULL)"
)
_TRIALS: Final = (
    "CREATE TABLE trials (id INTEGER PRIMARY KEY, model TEXT NOT NULL, profile TEXT NOT NULL,"
    " strategy TEXT NOT NULL, scenario TEXT NOT NULL, trial INTEGER NOT NULL,"
    " status TEXT NOT NULL, category TEXT NOT NULL, elapsed_ms INTEGER NOT NULL,"
    " record TEXT NOT NULL, trace_checksum INTEGER, checksum INTEGER NOT NULL,"
    " UNIQUE (model, profile, strategy, scenario, trial))"
)
_OUTCOMES: Final = "CREATE INDEX trials_by_outcome ON trials (status, category)"
_TRACES: Final = (
    "CREATE TABLE traces (trial_id INTEGER PRIMARY KEY REFERENCES trials (id), lines BLOB NOT NULL)"
)
_TOTALS: Final = (
    "CREATE TABLE totals (name TEXT PRIMARY KEY, number INTEGER NOT NULL, sum INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL) WITHOUT ROWID"
)
_SCHEMA: Final = {
    ("table", "meta", _META),
    ("table", "trials", _TRIALS),
    ("index", "sqlite_autoindex_trials_1", None),
    ("index", "trials_by_outcome", _OUTCOMES),
    ("table", "traces", _TRACES),
    ("table", "totals", _TOTALS),
}
SELECT_SCHEMA: Final = "SELECT type, name, sql FROM sqlite_master"

_SELECT: Final = (
    "SELECT id, model, profile, strategy, scenario, trial, status, category, elapsed_ms, record,"
    " trace_checksum, checksum FROM trials"
)
_KEY: Final = " WHERE model = ? AND profile = ? AND strategy = ? AND scenario = ? AND trial = ?"
_INSERT_TRIAL: Final = "INSERT INTO trials VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE_TRIAL: Final = (
    "UPDATE trials SET status = ?, category = ?, elapsed_ms = ?, record = ?, trace_checksum = ?,"
    " checksum = ? WHERE id = ?"
)
_INSERT_TRACE: Final = "INSERT INTO traces VALUES (?, ?)"

_CHECKSUM_BYTES: Final = 8
_CHECKSUM_RANGE: Final = 1 << (8 * _CHECKSUM_BYTES)


class CommandRow(NamedTuple):
    """A stored row of `meta`: one command that wrote to the run."""

    id: int
    started: str
    identity: str
    identity_hash: str
    config: str
    config_hash: str
    code: str
    command: str
    checksum: int

    @property
    def checksum_values(self) -> tuple[object, ...]:
        """The values that the checksum covers."""
        return self[:-1]

    @property
    def label(self) -> str:
        """Description for error messages."""
        return f"the record of command {self.id}"


class TrialRow(NamedTuple):
    """A stored row of `trials`."""

    id: int
    model: str
    profile: str
    strategy: str
    scenario: str
    trial: int
    status: str
    category: str
    elapsed_ms: int
    record: str
    trace_checksum: int | None
    checksum: int

    @property
    def key(self) -> KeyColumns:
        """The columns that identify the trial."""
        return (self.model, self.profile, self.strategy, self.scenario, self.trial)

    @property
    def checksum_values(self) -> tuple[object, ...]:
        """The values that the checksum covers. The row id only links the trace."""
        return self[1:-1]

    @property
    def label(self) -> str:
        """Description for error messages."""
        return f"the record of the trial {' '.join(map(str, self.key))}"


def checksum(*values: object) -> int:
    """Return a checksum of SQLite values. It distinguishes `1` from `"1"`."""
    digest = hashlib.blake2b(msgspec.json.encode(values), digest_size=_CHECKSUM_BYTES).digest()
    return int.from_bytes(digest, signed=True)


def has_run_schema(connection: sqlite3.Connection) -> bool:
    """Whether the database has exactly the tables of this schema version."""
    return set(connection.execute(SELECT_SCHEMA)) == _SCHEMA


class RunRecords:
    """Reads and writes the records of an open database.

    Callers provide the transaction: for writes, and for reads of values that must agree, such as
    rows and totals (see `read_snapshot`).
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._execute = connection.execute
        self._path = path

    def make_tables(self) -> None:
        """Create the tables of a new run."""
        for statement in (_META, _TRIALS, _OUTCOMES, _TRACES, _TOTALS):
            self._execute(statement)
        for table in ("meta", "trials"):
            self._write_totals(table, 0, 0)
        self._execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def add_command(self, *columns: str) -> None:
        """Record a command: the columns of `meta` between id and checksum."""
        row = (self._read_totals("meta")[0] + 1, *columns)
        self._execute("INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))
        self._add_to_totals("meta", 1, checksum(*row))

    def commands(self) -> list[CommandRow]:
        """Return all commands, oldest first."""
        rows = map(CommandRow._make, self._execute("SELECT * FROM meta ORDER BY id"))
        found = list(self._verify_rows("meta", rows))
        if not found:
            raise damage_error(self._path, "it records no command")
        for number, row in enumerate(found, 1):
            if row.id != number:
                raise damage_error(self._path, f"{row.label} is out of order")
        return found

    def trial_count(self) -> int:
        """Return the number of recorded trials."""
        return self._read_totals("trials")[0]

    def trials(self) -> Iterator[TrialRow]:
        """Yield all trials in key order."""
        last: KeyColumns | None = None
        found = self._execute(f"{_SELECT} ORDER BY model, profile, strategy, scenario, trial")
        for row in self._verify_rows("trials", map(TrialRow._make, found)):
            if last is not None and row.key <= last:
                raise damage_error(self._path, f"{row.label} is out of order")
            last = row.key
            yield row

    def find_by_index(self, key: KeyColumns) -> TrialRow | None:
        """Return a trial found by the index, which writers verified when they opened the file."""
        row = self._execute(_SELECT + _KEY, key).fetchone()
        return None if row is None else self._verify(TrialRow._make(row))

    def find_or_scan(self, key: KeyColumns) -> TrialRow | None:
        """Return a trial, scanning all rows if the index does not have it."""
        found = self.find_by_index(key)
        if found is None:
            rows = map(TrialRow._make, self._execute(f"{_SELECT} NOT INDEXED"))
            for row in self._verify_rows("trials", rows):
                if row.key == key:
                    return row
        return found

    def trace_lines(self, row: TrialRow) -> bytes | None:
        """Return the compressed trace of a trial, if any."""
        found = self._execute("SELECT lines FROM traces WHERE trial_id = ?", (row.id,)).fetchone()
        lines: bytes | None = None if found is None else found[0]
        if (None if lines is None else checksum(lines)) != row.trace_checksum:
            raise damage_error(self._path, f"the trace of {row.label} does not match its checksum")
        return lines

    def add_trial(self, key: KeyColumns, outcome: OutcomeColumns, lines: bytes | None) -> None:
        """Record a new trial."""
        values = (*key, *outcome, None if lines is None else checksum(lines))
        number = self._execute(_INSERT_TRIAL, (*values, checksum(*values))).lastrowid
        if lines is not None:
            self._execute(_INSERT_TRACE, (number, lines))
        self._add_to_totals("trials", 1, checksum(*values))

    def replace_trial(self, known: TrialRow, outcome: OutcomeColumns, lines: bytes | None) -> None:
        """Replace the outcome and trace of a recorded trial."""
        changed = (*outcome, None if lines is None else checksum(lines))
        fresh = checksum(*known.key, *changed)
        self._execute(_UPDATE_TRIAL, (*changed, fresh, known.id))
        self._execute("DELETE FROM traces WHERE trial_id = ?", (known.id,))
        if lines is not None:
            self._execute(_INSERT_TRACE, (known.id, lines))
        self._add_to_totals("trials", 0, fresh - known.checksum)

    def _verify_rows(self, table: str, rows: Iterable[R]) -> Iterator[R]:
        """Verify every row of a table, then that the table is complete."""
        number, total = self._read_totals(table)
        missing = number
        for row in rows:
            yield self._verify(row)
            missing -= 1
            total -= row.checksum
        if missing:
            what = f"{abs(missing)} of {number} missing" if missing > 0 else f"{-missing} too many"
            raise damage_error(self._path, f"the table {table} is not complete: {what}")
        if total % _CHECKSUM_RANGE:
            raise damage_error(
                self._path, f"the table {table} contains records that were not written"
            )

    def _verify(self, row: R) -> R:
        """Return a row whose checksum matches; raise for damage."""
        if checksum(*row.checksum_values) != row.checksum:
            raise damage_error(self._path, f"{row.label} does not match its checksum")
        return row

    def _read_totals(self, table: str) -> tuple[int, int]:
        """Return the row count and checksum sum of a table."""
        row = self._execute("SELECT * FROM totals WHERE name = ?", (table,)).fetchone()
        if row is None or checksum(*row[:-1]) != row[-1]:
            raise damage_error(self._path, f"the total of {table} does not match its checksum")
        return row[1], row[2]

    def _add_to_totals(self, table: str, rows: int, checksums: int) -> None:
        number, total = self._read_totals(table)
        half = _CHECKSUM_RANGE // 2
        self._write_totals(
            table, number + rows, (total + checksums + half) % _CHECKSUM_RANGE - half
        )

    def _write_totals(self, table: str, rows: int, checksums: int) -> None:
        row = (table, rows, checksums)
        self._execute("INSERT OR REPLACE INTO totals VALUES (?, ?, ?, ?)", (*row, checksum(*row)))


# Files of schema version 1 have no checksums. Readers upgrade a copy in memory; the next writer
# upgrades the file.

_WITHOUT_CHECKSUMS: Final = 1
_OLD_TRIALS: Final = (
    "SELECT model, profile, strategy, scenario, trial, status, category, elapsed_ms, record, lines"
    " FROM trials LEFT JOIN traces ON trial_id = trials.id ORDER BY trials.id"
)


@contextmanager
def read_snapshot(path: Path) -> Iterator[RunRecords]:
    """Open a consistent view of the database, unaffected by concurrent writes."""
    with translate_sqlite_errors(path), closing(connect_reader(path)) as connection:
        connection.execute("BEGIN")
        yield RunRecords(connection, path)


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the database for reading. Another process may be writing to it."""
    # Not with mode=ro: only a writable connection can recover the log of a killed writer.
    with translate_os_errors(path):
        reject_symlink(path)
    connection = _connect(path, "rw")
    try:
        if _require_schema_version(connection, path) == _WITHOUT_CHECKSUMS:
            connection = _upgraded_copy(connection, path)
        connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open or create the database for writing, after a full integrity check."""
    create_private_file(path)
    connection = _connect(path, "rwc")
    try:
        _check_integrity(connection, path)
        version = schema_version(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if version == _WITHOUT_CHECKSUMS:
            with transaction(connection):
                _upgrade(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # A report may be rendered in a different thread from the one that opened the store.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=10.0,
        check_same_thread=False,
    )


def _check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    # quick_check does not compare indexes with tables.
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise damage_error(path, found)


def _require_schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version; raise if the file holds no run."""
    version = schema_version(connection, path)
    if not version:
        raise EmptyStoreError(f"{path} holds no run")
    return version


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version, or zero if a killed command left no tables."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StoreError(f"{path} was written by a newer version of surecall; upgrade surecall")
    if version == SCHEMA_VERSION:
        sound = has_run_schema(connection)
    else:
        has_tables = connection.execute(SELECT_SCHEMA).fetchone() is not None
        sound = has_tables == bool(version) and version >= 0
    if not sound:
        raise damage_error(path, "its tables do not match the schema of a run")
    return int(version)


def _upgraded_copy(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Return an upgraded copy in memory: readers must not change the file."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        with closing(connection):
            connection.backup(copy)
        _upgrade(copy, path)
    except BaseException:
        copy.close()
        raise
    return copy


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Rewrite records of version 1 with checksums, inside a transaction."""
    commands = connection.execute("SELECT * FROM meta ORDER BY id").fetchall()
    trials = connection.execute(_OLD_TRIALS).fetchall()
    for table in ("traces", "trials", "meta"):
        connection.execute(f"DROP TABLE {table}")
    records = RunRecords(connection, path)
    records.make_tables()
    for _, *columns in commands:
        records.add_command(*columns)
    for row in trials:
        records.add_trial(row[:5], row[5:9], row[9])


def consolidate(connection: sqlite3.Connection) -> None:
    """Merge the write-ahead log, so that the file can be copied and read without write access.

    The log stays while another process reads, which does no harm.
    """
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:
        return
