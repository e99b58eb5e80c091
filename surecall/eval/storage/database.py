"""The SQLite file of a run: its tables, how it is opened, and what its errors mean.

meta      one row for each command that wrote into the run: when, what, with which code
trials    one row for each finished trial: its key, its outcome, the whole record
traces    the events of a trial, as compressed JSON lines
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from surecall.eval.storage.run_directories import StoreError, claim, refuse_link, typed_errors

SCHEMA_VERSION: Final = 1
_BUSY_S: Final = 10.0
_META: Final = (
    "CREATE TABLE meta (id INTEGER PRIMARY KEY, started TEXT NOT NULL, identity TEXT NOT NULL,"
    " identity_hash TEXT NOT NULL, config TEXT NOT NULL, config_hash TEXT NOT NULL,"
    " code TEXT NOT NULL, command TEXT NOT NULL)"
)
_TRIALS: Final = (
    "CREATE TABLE trials (id INTEGER PRIMARY KEY, model TEXT NOT NULL, profile TEXT NOT NULL,"
    " strategy TEXT NOT NULL, scenario TEXT NOT NULL, trial INTEGER NOT NULL,"
    " status TEXT NOT NULL, category TEXT NOT NULL, elapsed_ms INTEGER NOT NULL,"
    " record TEXT NOT NULL, UNIQUE (model, profile, strategy, scenario, trial))"
)
_OUTCOMES: Final = "CREATE INDEX trials_by_outcome ON trials (status, category)"
_TRACES: Final = (
    "CREATE TABLE traces (trial_id INTEGER PRIMARY KEY REFERENCES trials (id), lines BLOB NOT NULL)"
)

INSERT_META: Final = "INSERT INTO meta VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)"
SELECT_META: Final = "SELECT identity, command, code, config, started FROM meta ORDER BY id"
SELECT_IDENTITY: Final = "SELECT identity_hash FROM meta ORDER BY id LIMIT 1"
COUNT: Final = "SELECT count(*) FROM trials"
SELECT_KEYS: Final = "SELECT model, profile, strategy, scenario, trial, status FROM trials"
SELECT_RECORDS: Final = (
    "SELECT record FROM trials ORDER BY model, profile, strategy, scenario, trial"
)
SELECT_PACKED: Final = (
    "SELECT record, lines FROM trials LEFT JOIN traces ON trial_id = trials.id"
    " ORDER BY model, profile, strategy, scenario, trial"
)
SELECT_ONE: Final = (
    "SELECT id, status, record FROM trials"
    " WHERE model = ? AND profile = ? AND strategy = ? AND scenario = ? AND trial = ?"
)
SELECT_TRACE: Final = (
    "SELECT lines FROM traces JOIN trials ON trial_id = trials.id"
    " WHERE model = ? AND profile = ? AND strategy = ? AND scenario = ? AND trial = ?"
)
INSERT_TRIAL: Final = "INSERT INTO trials VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
UPDATE_TRIAL: Final = (
    "UPDATE trials SET status = ?, category = ?, elapsed_ms = ?, record = ? WHERE id = ?"
)
INSERT_TRACE: Final = "INSERT INTO traces VALUES (?, ?)"
DELETE_TRACE: Final = "DELETE FROM traces WHERE trial_id = ?"

DAMAGED: Final = (
    "{path} is damaged ({error}) and was left as it is; restore it, or begin again with --fresh"
)
_UNWRITTEN: Final = (
    "{path} could not be written ({error}); every trial recorded before is safe, and the same "
    "command continues once there is room"
)
_USELESS: Final = "cannot use {path}: {error}"
_SENTENCES: Final = {
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_FULL: _UNWRITTEN,
    sqlite3.SQLITE_IOERR: _UNWRITTEN,
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what SQLite says about a file into one clear sentence."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the kind of error; the rest says where inside SQLite it was noticed.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        raise StoreError(_SENTENCES.get(kind, _USELESS).format(path=path, error=error)) from error


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a file to read from it, also while another process writes."""
    # Not with mode=ro: only a connection that may write can finish what a killed writer began.
    with typed_errors(path):
        refuse_link(path)
    connection = _connect(path, "rw")
    connection.execute("PRAGMA query_only = ON")
    return connection


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open a file to add to it, or make it, after a look at every page."""
    claim(path)
    connection = _connect(path, "rwc")
    try:
        _check_sound(connection, path)
        checked_version(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    # A report may be rendered in another thread than the one that opened the store.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=_BUSY_S,
        check_same_thread=False,
    )


def _check_sound(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreError(DAMAGED.format(path=path, error=" ".join(found.split())))


def checked_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the tables; zero when a killed command left a file without any."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StoreError(f"{path} was written by a newer version of surecall; update it to go on")
    return int(version)


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables, inside the transaction that first writes into them."""
    for statement in (
        _META,
        _TRIALS,
        _OUTCOMES,
        _TRACES,
        f"PRAGMA user_version = {SCHEMA_VERSION}",
    ):
        connection.execute(statement)


def settle(connection: sqlite3.Connection) -> None:
    """Put everything into one plain file, which can be copied, and read without write access.

    While another process reads, the write-ahead log stays; nothing depends on it.
    """
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:
        return


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what happens inside, or leave everything as it was."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # On some errors, such as a full disk, SQLite has undone it by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
