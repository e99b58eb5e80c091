"""The records of a run. Each has a checksum, which is checked whenever it is read.

    meta      one row for each command that wrote into the run: when, what, with which code
    trials    one row for each finished trial: its key, its outcome, the whole record
    traces    the events of a trial, as compressed JSON lines; their checksum is in the trial's row
    totals    how many rows `meta` and `trials` have, and what their checksums add up to

A checksum covers the key of a record with its content: a changed key, or a row with the content of
another, does not match. A row that vanished, came twice or was put in from elsewhere changes the
totals, which are written in the same transaction as the row.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from surecall.eval.storage.damage import damaged

R = TypeVar("R", bound="CommandRow | TrialRow")
Columns: TypeAlias = tuple[str, str, str, str, int]
Outcome: TypeAlias = tuple[str, str, int, str]

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

_SELECT_TOTAL: Final = "SELECT name, number, sum, checksum FROM totals WHERE name = ?"
_WRITE_TOTAL: Final = "INSERT OR REPLACE INTO totals VALUES (?, ?, ?, ?)"
_INSERT_META: Final = "INSERT INTO meta VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT_META: Final = "SELECT * FROM meta ORDER BY id"
_SELECT: Final = (
    "SELECT id, model, profile, strategy, scenario, trial, status, category, elapsed_ms, record,"
    " trace_checksum, checksum FROM trials"
)
_ORDER: Final = " ORDER BY model, profile, strategy, scenario, trial"
_KEY: Final = " WHERE model = ? AND profile = ? AND strategy = ? AND scenario = ? AND trial = ?"
_SELECT_LINES: Final = "SELECT lines FROM traces WHERE trial_id = ?"
_INSERT_TRIAL: Final = "INSERT INTO trials VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE_TRIAL: Final = (
    "UPDATE trials SET status = ?, category = ?, elapsed_ms = ?, record = ?, trace_checksum = ?,"
    " checksum = ? WHERE id = ?"
)
_INSERT_TRACE: Final = "INSERT INTO traces VALUES (?, ?)"
_DELETE_TRACE: Final = "DELETE FROM traces WHERE trial_id = ?"

_CHECKSUM_BYTES: Final = 8
_RANGE: Final = 1 << (8 * _CHECKSUM_BYTES)


class CommandRow(NamedTuple):
    """A command that wrote into the run, as it is stored."""

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
    def covered(self) -> tuple[object, ...]:
        """What the checksum is of."""
        return self[:-1]

    @property
    def name(self) -> str:
        """What a message calls it."""
        return f"the record of command {self.id}"


class TrialRow(NamedTuple):
    """A trial as it is stored, without its trace."""

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
    def key(self) -> Columns:
        """What says which trial this is."""
        return (self.model, self.profile, self.strategy, self.scenario, self.trial)

    @property
    def covered(self) -> tuple[object, ...]:
        """What the checksum is of. By its number the trace is found; it is no part of a result."""
        return self[1:-1]

    @property
    def name(self) -> str:
        """What a message calls it."""
        return f"the record of the trial {' '.join(map(str, self.key))}"


def checksum(*values: object) -> int:
    """Return a checksum of values as SQLite gives them; it tells `1` from `"1"`."""
    digest = hashlib.blake2b(msgspec.json.encode(values), digest_size=_CHECKSUM_BYTES).digest()
    return int.from_bytes(digest, signed=True)


def is_schema(connection: sqlite3.Connection) -> bool:
    """Whether the tables are the ones that are made here."""
    return set(connection.execute(SELECT_SCHEMA)) == _SCHEMA


class Records:
    """Reads and writes the records of an open file. Writers bring a transaction.

    What must agree (rows and totals, a trial and its trace) is read in one: see `snapshot`.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._execute = connection.execute
        self._path = path

    def make_tables(self) -> None:
        """Make the tables of a new run."""
        for statement in (_META, _TRIALS, _OUTCOMES, _TRACES, _TOTALS):
            self._execute(statement)
        for table in ("meta", "trials"):
            self._write_total(table, 0, 0)
        self._execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def add_command(self, *told: str) -> None:
        """Note a command: the columns of `meta` between its number and its checksum."""
        row = (self._total("meta")[0] + 1, *told)
        self._execute(_INSERT_META, (*row, checksum(*row)))
        self._count("meta", 1, checksum(*row))

    def commands(self) -> list[CommandRow]:
        """Return all commands, oldest first."""
        rows = map(CommandRow._make, self._execute(_SELECT_META))
        found = list(self._complete("meta", rows))
        if not found:
            raise damaged(self._path, "it names no command that wrote it")
        return found

    def number_of_trials(self) -> int:
        """Return how many trials are recorded."""
        return self._total("trials")[0]

    def trials(self) -> Iterator[TrialRow]:
        """Read all trials in the order of their keys, one at a time."""
        last: Columns | None = None
        for row in self._complete("trials", map(TrialRow._make, self._execute(_SELECT + _ORDER))):
            if last is not None and row.key <= last:
                raise damaged(self._path, f"{row.name} is out of order")
            last = row.key
            yield row

    def find(self, key: Columns) -> TrialRow | None:
        """Find a trial by the index; who writes has seen that the index is sound."""
        row = self._execute(_SELECT + _KEY, key).fetchone()
        return None if row is None else self._checked(TrialRow._make(row))

    def search(self, key: Columns) -> TrialRow | None:
        """Find a trial; that there is none is said only after a look at every trial."""
        found = self.find(key)
        if found is None:
            rows = map(TrialRow._make, self._execute(f"{_SELECT} NOT INDEXED"))
            for row in self._complete("trials", rows):
                if row.key == key:
                    return row
        return found

    def lines(self, row: TrialRow) -> bytes | None:
        """Return the trace of a trial, compressed, if there is one."""
        found = self._execute(_SELECT_LINES, (row.id,)).fetchone()
        lines: bytes | None = None if found is None else found[0]
        if (None if lines is None else checksum(lines)) != row.trace_checksum:
            raise damaged(self._path, f"the trace of {row.name} does not match its checksum")
        return lines

    def add_trial(self, key: Columns, outcome: Outcome, lines: bytes | None) -> None:
        """Record a trial that is not there yet."""
        values = (*key, *outcome, None if lines is None else checksum(lines))
        number = self._execute(_INSERT_TRIAL, (*values, checksum(*values))).lastrowid
        if lines is not None:
            self._execute(_INSERT_TRACE, (number, lines))
        self._count("trials", 1, checksum(*values))

    def replace_trial(self, known: TrialRow, outcome: Outcome, lines: bytes | None) -> None:
        """Record another outcome of a trial."""
        changed = (*outcome, None if lines is None else checksum(lines))
        fresh = checksum(*known.key, *changed)
        self._execute(_UPDATE_TRIAL, (*changed, fresh, known.id))
        self._execute(_DELETE_TRACE, (known.id,))
        if lines is not None:
            self._execute(_INSERT_TRACE, (known.id, lines))
        self._count("trials", 0, fresh - known.checksum)

    def _complete(self, table: str, rows: Iterable[R]) -> Iterator[R]:
        """Check every row of a table, and at the end that it was every row."""
        number, total = self._total(table)
        missing = number
        for row in rows:
            yield self._checked(row)
            missing -= 1
            total -= row.checksum
        if missing:
            what = f"{abs(missing)} of {number} missing" if missing > 0 else f"{-missing} too many"
            raise damaged(self._path, f"the table {table} is not complete: {what}")
        if total % _RANGE:
            raise damaged(self._path, f"the table {table} holds other records than were written")

    def _checked(self, row: R) -> R:
        if checksum(*row.covered) != row.checksum:
            raise damaged(self._path, f"{row.name} does not match its checksum")
        return row

    def _total(self, table: str) -> tuple[int, int]:
        row = self._execute(_SELECT_TOTAL, (table,)).fetchone()
        if row is None or checksum(*row[:-1]) != row[-1]:
            raise damaged(self._path, f"the total of {table} does not match its checksum")
        return row[1], row[2]

    def _count(self, table: str, more: int, plus: int) -> None:
        number, total = self._total(table)
        half = _RANGE // 2
        self._write_total(table, number + more, (total + plus + half) % _RANGE - half)

    def _write_total(self, table: str, number: int, total: int) -> None:
        row = (table, number, total)
        self._execute(_WRITE_TOTAL, (*row, checksum(*row)))
