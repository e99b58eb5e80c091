"""A store in an SQLite file. Any number of processes of one machine may have it open.

Messages have a row each, so a turn writes what is new, however long the conversation is. Every row
has a checksum that goes on from the one before it, and the head one over all: a bit that changed, a
row that vanished or moved is noticed when it is read (docs/adr/0014). Each write is flushed to the
disk before anything happens that depends on it, so what is recorded survives a power cut.
"""

import os
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from surecall.core.kept import StoreConflict, Stored
from surecall.runtime.transactions import transaction
from surecall.values.errors import ConfigError, SurecallError

# Says in the file itself whose it is.
_APPLICATION: Final = 0x53434C43
_SCHEMA_VERSION: Final = 1
_BUSY_S: Final = 10.0
_PAUSE_S: Final = 0.01
# A statement of ours is wrong only if the tables are others.
_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
# No database is smaller than this, unless it is blank.
_LEAST_BYTES: Final = 512
_CONVERSATIONS: Final = (
    "CREATE TABLE conversations (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE,"
    " version INTEGER NOT NULL, head BLOB NOT NULL, count INTEGER NOT NULL, sum INTEGER NOT NULL)"
)
_MESSAGES: Final = (
    "CREATE TABLE messages (conversation INTEGER NOT NULL, place INTEGER NOT NULL,"
    " message BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (conversation, place))"
    " WITHOUT ROWID"
)
_MARKS: Final = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)
# Damage may make anything of a value; so each is read as what it should be.
_FIND: Final = (
    "SELECT id, CAST(version AS INTEGER), CAST(head AS BLOB), CAST(count AS INTEGER),"
    " CAST(sum AS INTEGER) FROM conversations WHERE key = ?"
)
_READ: Final = (
    "SELECT CAST(message AS BLOB), CAST(sum AS INTEGER) FROM messages WHERE conversation = ?"
    " ORDER BY place"
)
_LAST: Final = "SELECT sum FROM messages WHERE conversation = ? AND place = ?"
_CUT: Final = "DELETE FROM messages WHERE conversation = ? AND place >= ?"
_ADD: Final = "INSERT INTO messages VALUES (?, ?, ?, ?)"
_BEGIN: Final = "INSERT INTO conversations (key, version, head, count, sum) VALUES (?, 0, '', 0, 0)"
_HEAD: Final = "UPDATE conversations SET version = ?, head = ?, count = ?, sum = ? WHERE id = ?"


class SqliteStore:
    """Keeps conversations in an SQLite file, which only its owner may read if it is made here.

    `":memory:"` is a store that ends with the program.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path if path == ":memory:" else str(Path(path).absolute())
        self._lock = threading.Lock()
        self._own: _Own | None = None
        if path != ":memory:":
            # Opened in vain, so that what is wrong is told now. SQLite takes no fork: whoever only
            # makes a store before one has nothing open, and each process opens its own.
            with self._explained(opening=True), closing(_connected(self._path)) as connection:
                _prepare(connection, self._path)

    def load(self, key: str, known: int = 0) -> Stored | None:
        """Return what is kept under a key; None if it still has the version that is known."""
        with self._opened("DEFERRED") as connection:
            name = key.encode()
            found = connection.execute(_FIND, (name,)).fetchone()
            if found is None or found[1] == known:
                return None
            number, version, head, count, total = found
            rows = connection.execute(_READ, (number,)).fetchall()
        if None in found or len(rows) != count or not _is_sound(name, rows):
            raise self._damaged(key)
        last = rows[-1][1] if rows else zlib.crc32(name)
        if _total(version, head, count, last) != total:
            raise self._damaged(key)
        return Stored(version, head, tuple(message for message, _ in rows))

    def save(
        self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
    ) -> None:
        """Replace a version by the next; see `Store`."""
        name = key.encode()
        with self._opened("IMMEDIATE") as connection:
            found = connection.execute(_FIND, (name,)).fetchone()
            if (0 if found is None else found[1]) != version:
                raise StoreConflict(f"conversation {key!r} has another version by now")
            number = connection.execute(_BEGIN, (name,)).lastrowid if found is None else found[0]
            before = connection.execute(_LAST, (number, keep - 1)).fetchone() if keep else None
            if keep and before is None:
                raise self._damaged(key)
            last = before[0] if before else zlib.crc32(name)
            connection.execute(_CUT, (number, keep))
            for place, message in enumerate(messages, keep):
                last = zlib.crc32(message, last)
                connection.execute(_ADD, (number, place, message, last))
            count = keep + len(messages)
            total = _total(version + 1, head, count, last)
            connection.execute(_HEAD, (version + 1, head, count, total, number))

    def keys(self) -> list[str]:
        """Return the keys of all conversations, in the order in which they began."""
        with self._opened("DEFERRED") as connection:
            rows = connection.execute("SELECT key FROM conversations ORDER BY id").fetchall()
            return [key.decode() for (key,) in rows]

    def close(self) -> None:
        """Close the file, until it is used again. Happens by itself with the end of the store."""
        with self._lock:
            if self._own is not None:
                self._own.close()
                self._own = None

    @contextmanager
    def _opened(self, kind: str) -> Iterator[sqlite3.Connection]:
        """Use the file, all of it or nothing; one thread at a time."""
        with self._lock, self._explained():
            if self._own is None:
                self._own = _Own(self._path)
            connection = self._own.checked()
            with transaction(connection, kind):
                yield connection

    @contextmanager
    def _explained(self, *, opening: bool = False) -> Iterator[None]:
        """Turn what SQLite says into one sentence."""
        try:
            yield
        except sqlite3.Error as error:
            # The low byte is the kind of error; the rest says where inside SQLite it was noticed.
            kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if opening or kind in _DAMAGE:
                raise ConfigError(f"cannot use {self._path} for conversations: {error}") from None
            raise SurecallError(f"{self._path} cannot be read or written: {error}") from None
        except UnicodeDecodeError:  # SQLite quotes what is wrong in the file
            raise ConfigError(f"cannot use {self._path} for conversations: damaged") from None

    def _damaged(self, key: str) -> ConfigError:
        return ConfigError(
            f"conversation {key!r} in {self._path} is damaged: it does not match its checksum"
        )


class _Own:
    """The connection of one process. It is closed when it is no longer used."""

    def __init__(self, path: str) -> None:
        connection = _connected(path)
        self._path = path
        self._connection = connection
        self._process = os.getpid()
        self.close = weakref.finalize(self, _closed, connection, self._process)
        _prepare(connection, path)

    def checked(self) -> sqlite3.Connection:
        if self._process != os.getpid():
            raise ConfigError(
                f"{self._path} was in use before a fork: make another SqliteStore in the new "
                "process, or begin to use it there"
            )
        return self._connection


def _is_sound(name: bytes, rows: Sequence[tuple[bytes | None, int | None]]) -> bool:
    """Whether each message matches its checksum, which goes on from the one before it."""
    last = zlib.crc32(name)
    for message, checksum in rows:
        if message is None or (last := zlib.crc32(message, last)) != checksum:
            return False
    return True


def _total(version: int, head: bytes, count: int, last: int) -> int:
    return zlib.crc32(head, zlib.crc32(b"%d %d %d" % (version, count, last)))


def _closed(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()


def _connected(path: str) -> sqlite3.Connection:
    if path != ":memory:":
        _make(path)
        # SQLite would take it for a blank one.
        if 0 < _size(path) < _LEAST_BYTES:
            raise ConfigError(f"cannot use {path} for conversations: it was cut short")
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def _make(path: str) -> None:
    """Make a file that only its owner may read, unless there is one."""
    try:
        # Not to open one that is in use: to close it again would end its locks.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigError(f"cannot make {path}: {error.strerror}") from None


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError as error:  # a link to nothing
        raise ConfigError(f"cannot use {path}: {error.strerror}") from None


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """See whether a file is a store, or make it one if it is blank."""
    with transaction(connection, "DEFERRED"):
        is_ours = _is_ours(connection, path)
    if not is_ours:
        _log_ahead(connection)
        with transaction(connection, "IMMEDIATE"):
            if not _is_ours(connection, path):  # else another process was faster
                for statement in (_CONVERSATIONS, _MESSAGES, *_MARKS):
                    connection.execute(statement)
    connection.execute("PRAGMA synchronous = FULL")


def _is_ours(connection: sqlite3.Connection, path: str) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION and version > _SCHEMA_VERSION:
        raise ConfigError(f"{path} was written by a newer version of surecall; update it to go on")
    if application == _APPLICATION and version == _SCHEMA_VERSION:
        return True
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        raise ConfigError(f"{path} is a database of something else")
    return False


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Let readers and a writer not wait for each other; the file remembers it."""
    for _ in range(int(_BUSY_S / _PAUSE_S)):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # Two at the same time do not wait for each other here.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
