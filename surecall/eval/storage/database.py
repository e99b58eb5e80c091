"""The SQLite file of a run: how it is opened, and what is looked at before it is used.

Files of version 1 have no checksums. They are read as they are; the next command that writes into
one gives checksums to what it finds.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from surecall.eval.storage.damage import BlankStore, damaged, explained
from surecall.eval.storage.records import SCHEMA_VERSION, SELECT_SCHEMA, Records, is_schema
from surecall.eval.storage.run_directories import StoreError, claim, refuse_link, typed_errors
from surecall.runtime.transactions import transaction

_BUSY_S: Final = 10.0
_WITHOUT_CHECKSUMS: Final = 1
_OLD_TRIALS: Final = (
    "SELECT model, profile, strategy, scenario, trial, status, category, elapsed_ms, record, lines"
    " FROM trials LEFT JOIN traces ON trial_id = trials.id ORDER BY trials.id"
)


@contextmanager
def snapshot(path: Path) -> Iterator[Records]:
    """Read one state of a file, whatever is added meanwhile."""
    with explained(path), closing(connect_reader(path)) as connection:
        connection.execute("BEGIN")
        yield Records(connection, path)


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the file of a run to read from it, also while another process writes."""
    # Not with mode=ro: only a connection that may write can finish what a killed writer began.
    with typed_errors(path):
        refuse_link(path)
    connection = _connect(path, "rw")
    try:
        if _version_of_run(connection, path) == _WITHOUT_CHECKSUMS:
            connection = _upgraded_copy(connection, path)
        connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open a file to add to it, or make it, after a look at every page."""
    claim(path)
    connection = _connect(path, "rwc")
    try:
        _check_sound(connection, path)
        version = checked_version(connection, path)
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
    # A report may be rendered in another thread than the one that opened the store.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=_BUSY_S,
        check_same_thread=False,
    )


def _check_sound(connection: sqlite3.Connection, path: Path) -> None:
    # The quick check would not compare the indexes with the tables.
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise damaged(path, found)


def _version_of_run(connection: sqlite3.Connection, path: Path) -> int:
    version = checked_version(connection, path)
    if not version:
        raise BlankStore(f"{path} holds no run")
    return version


def checked_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the tables; zero when a killed command left a file without any."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StoreError(f"{path} was written by a newer version of surecall; update it to go on")
    if version == SCHEMA_VERSION:
        sound = is_schema(connection)
    else:
        has_tables = connection.execute(SELECT_SCHEMA).fetchone() is not None
        sound = has_tables == bool(version) and version >= 0
    if not sound:
        raise damaged(path, "its tables are not those of a run")
    return int(version)


def _upgraded_copy(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Copy an old file into memory: whoever reads must not change it."""
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
    """Give checksums to the records of version 1, inside a transaction."""
    commands = connection.execute("SELECT * FROM meta ORDER BY id").fetchall()
    trials = connection.execute(_OLD_TRIALS).fetchall()
    for table in ("traces", "trials", "meta"):
        connection.execute(f"DROP TABLE {table}")
    records = Records(connection, path)
    records.make_tables()
    for _, *told in commands:
        records.add_command(*told)
    for row in trials:
        records.add_trial(row[:5], row[5:9], row[9])


def settle(connection: sqlite3.Connection) -> None:
    """Put everything into one plain file, which can be copied, and read without write access.

    While another process reads, the write-ahead log stays; nothing depends on it.
    """
    try:
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error:
        return
