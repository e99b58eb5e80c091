"""Stores conversations in SQLite, with a checksum for every record."""

import os
import sqlite3
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from surecall.core.conversation_state import StoreConflict, Stored
from surecall.values.errors import ConfigError, SurecallError


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Commit the statements inside the block, or roll all back. `DEFERRED` is for reading."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # On some errors, such as a full disk, SQLite rolls back automatically.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


# A store in an SQLite file, which any number of processes on one machine may have open.
#
# Each message is a row, so a turn only writes new messages, however long the conversation is. Each
# row has a checksum that continues the previous one, and the head has one over all, so changed,
# missing and moved rows are detected when they are read (docs/adr/0014). Each write is flushed to
# disk before anything depends on it, so records survive a power failure.
#
# The table `directory` lists the keys in order, each with its successor. A key is absent only if
# the row before it names a later successor, so a conversation whose row was lost is an error, not
# absent.
#
# SQLite silently drops the end of a damaged write-ahead log. A file next to the log notes the last
# write; a database with an older version of that conversation has lost data.

# Identifies the file as a store.
_APPLICATION: Final = 0x53434C43
_SCHEMA_VERSION: Final = 2
_WITHOUT_DIRECTORY: Final = 1
_BUSY_S: Final = 10.0
_WAL_RETRY_S: Final = 0.01
# The statements are fixed, so SQLITE_ERROR means that the tables are damaged.
_DAMAGE_CODES: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
# No database is smaller than this, unless it is blank.
_MIN_FILE_BYTES: Final = 512
_CONVERSATIONS: Final = (
    "CREATE TABLE conversations (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE,"
    " version INTEGER NOT NULL, head BLOB NOT NULL, count INTEGER NOT NULL, sum INTEGER NOT NULL)"
)
_MESSAGES: Final = (
    "CREATE TABLE messages (conversation INTEGER NOT NULL, place INTEGER NOT NULL,"
    " message BLOB NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (conversation, place))"
    " WITHOUT ROWID"
)
# The first row has an empty key, and the last one an empty successor.
_DIRECTORY: Final = (
    "CREATE TABLE directory (key BLOB NOT NULL PRIMARY KEY, next BLOB NOT NULL,"
    " sum INTEGER NOT NULL) WITHOUT ROWID"
)
# Prevents an older version of surecall that still has the file open from adding unlisted rows.
_GUARD: Final = (
    "CREATE TRIGGER listed_first BEFORE INSERT ON conversations"
    " WHEN NOT EXISTS (SELECT 1 FROM directory WHERE key = NEW.key)"
    " BEGIN SELECT RAISE(ABORT, 'a newer version of surecall uses this file; update surecall');"
    " END"
)
_VERSION_PRAGMAS: Final = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_SCHEMA_VERSION}",
)
_SCHEMA: Final = {
    ("conversations", _CONVERSATIONS),
    ("sqlite_autoindex_conversations_1", None),
    ("messages", _MESSAGES),
    ("directory", _DIRECTORY),
    ("listed_first", _GUARD),
}
# Damage may change the type of a value, so each is cast. The key is compared with the row's own,
# because the index may be damaged.
_FIND: Final = (
    "SELECT id, CAST(version AS INTEGER), CAST(head AS BLOB), CAST(count AS INTEGER),"
    " CAST(sum AS INTEGER), CAST(key AS BLOB) FROM conversations NOT INDEXED"
    " WHERE id = (SELECT id FROM conversations WHERE key = ?)"
)
_READ: Final = (
    "SELECT CAST(message AS BLOB), CAST(sum AS INTEGER) FROM messages WHERE conversation = ?"
    " ORDER BY place"
)
_LAST: Final = "SELECT CAST(sum AS INTEGER) FROM messages WHERE conversation = ? AND place = ?"
_CUT: Final = "DELETE FROM messages WHERE conversation = ? AND place >= ?"
_ADD: Final = "INSERT INTO messages VALUES (?, ?, ?, ?)"
_BEGIN: Final = "INSERT INTO conversations (key, version, head, count, sum) VALUES (?, 0, '', 0, 0)"
_KEYS: Final = "SELECT CAST(key AS BLOB) FROM conversations NOT INDEXED ORDER BY id"
_LINKS: Final = (
    "SELECT CAST(key AS BLOB), CAST(next AS BLOB), CAST(sum AS INTEGER) FROM directory{}"
    " ORDER BY key"
)
_LINK_UP_TO: Final = _LINKS.format(" WHERE key <= ?") + " DESC LIMIT 1"
_ADD_LINK: Final = "INSERT OR REPLACE INTO directory VALUES (?, ?, ?)"
_HEAD: Final = "UPDATE conversations SET version = ?, head = ?, count = ?, sum = ? WHERE id = ?"


class SqliteStore:
    """Stores conversations in an SQLite file. A new file is readable only by its owner.

    `":memory:"` stores conversations until the program ends.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path if path == ":memory:" else str(Path(path).absolute())
        self._lock = threading.Lock()
        self._process_connection: _ProcessConnection | None = None
        self._last_write: tuple[bytes, int] | None = None
        if path != ":memory:":
            # Opened once to report problems early, and closed again: SQLite connections must not be
            # carried across a fork, so each process opens its own at first use.
            with self._translate_errors(opening=True), closing(_connect(self._path)) as connection:
                _prepare_schema(connection, self._path)

    def load(self, key: str, known: int = 0) -> Stored | None:
        """Return a stored conversation; None if there is none or its version is `known`."""
        name = _encode_key(key)
        with self._transaction("DEFERRED") as connection:
            row = connection.execute(_FIND, (name,)).fetchone()
            if row is None:
                self._find_gap(connection, key)
                if known:  # stored conversations are never deleted
                    raise self._loss_error(key)
                return None
            if row[1] == known:
                self._check_head(connection, key, row)
                return None
            number, version, head, count, total, owner = row
            rows = connection.execute(_READ, (number,)).fetchall()
        if None in row or owner != name or len(rows) != count or not _checksums_match(name, rows):
            raise self._damage_error(key)
        last = rows[-1][1] if rows else zlib.crc32(name)
        if _head_checksum(version, head, count, last) != total:
            raise self._damage_error(key)
        return Stored(version, head, tuple(message for message, _ in rows))

    def save(
        self, key: str, version: int, head: bytes, keep: int, messages: Sequence[bytes]
    ) -> None:
        """Replace a version with the next one; see `Store`."""
        name = _encode_key(key)
        with self._transaction("IMMEDIATE") as connection:
            row = connection.execute(_FIND, (name,)).fetchone()
            if row is not None:
                self._check_head(connection, key, row)
            if (0 if row is None else row[1]) != version:
                raise StoreConflict(f"conversation {key!r} was changed concurrently")
            number = self._insert_conversation(connection, key) if row is None else row[0]
            before = connection.execute(_LAST, (number, keep - 1)).fetchone() if keep else None
            if keep and before is None:
                raise self._damage_error(key)
            last = before[0] if before else zlib.crc32(name)
            connection.execute(_CUT, (number, keep))
            for place, message in enumerate(messages, keep):
                last = zlib.crc32(message, last)
                connection.execute(_ADD, (number, place, message, last))
            count = keep + len(messages)
            total = _head_checksum(version + 1, head, count, last)
            connection.execute(_HEAD, (version + 1, head, count, total, number))
            self._last_write = (name, version + 1)

    def keys(self) -> list[str]:
        """Return the keys of all conversations, oldest first."""
        with self._transaction("DEFERRED") as connection:
            names = [name for (name,) in connection.execute(_KEYS)]
            links = connection.execute(_LINKS.format("")).fetchall()
            if None in names or not _is_complete(links, sorted(names)):
                raise ConfigError(
                    f"{self._path} is damaged: its conversations do not match its directory. "
                    "Restore it from a backup."
                )
            return [name.decode() for name in names]

    def close(self) -> None:
        """Close the file until it is used again. Also happens when the store is collected."""
        with self._lock:
            if self._process_connection is not None:
                self._process_connection.close()
                self._process_connection = None

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """Run a transaction; one thread at a time."""
        with self._lock, self._translate_errors():
            if self._process_connection is None:
                self._process_connection = _ProcessConnection(self._path)
            connection = self._process_connection.for_this_process()
            self._last_write = None
            with transaction(connection, kind):
                yield connection
            if self._last_write is not None and self._path != ":memory:":
                self._process_connection.last_write.write(*self._last_write)

    @contextmanager
    def _translate_errors(self, *, opening: bool = False) -> Iterator[None]:
        """Translate errors of SQLite to errors of this package."""
        try:
            yield
        except sqlite3.Error as error:
            # The low byte is the error code; the rest is SQLite's extended code.
            kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if opening or kind in _DAMAGE_CODES:
                raise ConfigError(f"cannot use {self._path} for conversations: {error}") from None
            raise SurecallError(f"{self._path} cannot be read or written: {error}") from None
        except UnicodeDecodeError:  # SQLite's error message quotes damaged data
            raise ConfigError(
                f"cannot use {self._path} for conversations: it is damaged. Restore it from a "
                "backup."
            ) from None

    def _check_head(self, connection: sqlite3.Connection, key: str, row: Sequence[Any]) -> None:
        """Raise if a row of `conversations` does not match its checksum."""
        number, version, head, count, total, owner = row
        last: Sequence[Any] | None = (zlib.crc32(key.encode()),)
        if count:
            last = connection.execute(_LAST, (number, count - 1)).fetchone()
        if None in row or owner != key.encode() or last is None or None in last:
            raise self._damage_error(key)
        if _head_checksum(version, head, count, last[0]) != total:
            raise self._damage_error(key)

    def _find_gap(self, connection: sqlite3.Connection, key: str) -> tuple[bytes, bytes]:
        """Return the keys around one that was never stored; raise if the directory disagrees."""
        name = key.encode()
        link = connection.execute(_LINK_UP_TO, (name,)).fetchone()
        if link is None or None in link or link[2] != _link_checksum(*link[:2]):
            raise self._loss_error(key)
        before, after, _ = link
        if before == name or (after and after <= name):
            raise self._loss_error(key)
        return before, after

    def _insert_conversation(self, connection: sqlite3.Connection, key: str) -> int | None:
        """Add a conversation and its directory entry, and return its row id."""
        before, after = self._find_gap(connection, key)
        name = key.encode()
        _add_link(connection, before, name)
        _add_link(connection, name, after)
        return connection.execute(_BEGIN, (name,)).lastrowid

    def _loss_error(self, key: str) -> ConfigError:
        return ConfigError(
            f"conversation {key!r} may be lost: {self._path} is damaged. Restore it from a backup."
        )

    def _damage_error(self, key: str) -> ConfigError:
        return ConfigError(
            f"conversation {key!r} in {self._path} is damaged: it does not match its checksum. "
            "Restore the file from a backup."
        )


class _ProcessConnection:
    """The connection of one process, closed when it is collected."""

    def __init__(self, path: str) -> None:
        connection = _connect(path)
        self._path = path
        self._connection = connection
        self._process = os.getpid()
        self.last_write = _LastWrite(path)
        self.close = weakref.finalize(
            self, _close_connection, connection, self.last_write, self._process
        )
        _prepare_schema(connection, path)

    def for_this_process(self) -> sqlite3.Connection:
        """Return the connection; raise in a forked process."""
        if self._process != os.getpid():
            raise ConfigError(
                f"{self._path} was used before this process was forked: create a new SqliteStore "
                "in the child process, or do not use it before the fork"
            )
        return self._connection


def _encode_key(key: str) -> bytes:
    """Return a key as stored; the empty one is reserved for the start of the directory."""
    if not key:
        raise ConfigError("the key of a conversation must not be empty")
    return key.encode()


def _add_link(connection: sqlite3.Connection, key: bytes, next_key: bytes) -> None:
    """Add a directory entry: a key, and the key that follows it."""
    connection.execute(_ADD_LINK, (key, next_key, _link_checksum(key, next_key)))


def _link_checksum(key: bytes, next_key: bytes) -> int:
    return zlib.crc32(b"%d %s%s" % (len(key), key, next_key))


def _is_complete(links: Sequence[tuple[bytes, bytes, int]], names: Sequence[bytes]) -> bool:
    """Whether a directory lists exactly these sorted keys."""
    expected = zip((b"", *names), (*names, b""), strict=True)
    return links == [(key, after, _link_checksum(key, after)) for key, after in expected]


class _LastWrite:
    """A file that notes the last write, and exists as long as the write-ahead log.

    It is written after the commit and never flushed, so it may be older than the log, but never
    newer. A missing or damaged note is ignored.
    """

    def __init__(self, path: str) -> None:
        self._log = Path(f"{path}-wal")
        self._path = Path(f"{path}-last")
        self._file: int | None = None

    def write(self, name: bytes, version: int) -> None:
        """Note the version of a conversation that was committed."""
        payload = b"%d %d %s" % (version, len(name), name)
        with suppress(OSError):  # such as a full disk: the commit itself has succeeded
            if self._file is None:
                flags = os.O_CREAT | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
                self._file = os.open(self._path, flags, 0o600)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, b"%08x %s" % (zlib.crc32(payload), payload))

    def load(self) -> tuple[bytes, int] | None:
        """Return the noted conversation and its version, or None."""
        try:
            checksum, version, size, rest = self._path.read_bytes().split(b" ", 3)
            name = rest[: int(size)]
            is_sound = int(checksum, 16) == zlib.crc32(b"%s %s %s" % (version, size, name))
            return (name, int(version)) if is_sound else None
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Delete the note if the write-ahead log is gone."""
        with suppress(OSError):
            if self._file is not None:
                os.close(self._file)
                self._file = None
            if not self._log.exists():
                self._path.unlink()


def _checksums_match(name: bytes, rows: Sequence[tuple[bytes | None, int | None]]) -> bool:
    """Whether each message matches its checksum, which continues the previous one."""
    last = zlib.crc32(name)
    for message, checksum in rows:
        if message is None or (last := zlib.crc32(message, last)) != checksum:
            return False
    return True


def _head_checksum(version: int, head: bytes, message_count: int, last_checksum: int) -> int:
    return zlib.crc32(head, zlib.crc32(b"%d %d %d" % (version, message_count, last_checksum)))


def _close_connection(connection: sqlite3.Connection, note: "_LastWrite", process_id: int) -> None:
    """Close a connection, unless it was inherited in a fork."""
    if process_id == os.getpid():
        connection.close()
        note.close()


def _connect(path: str) -> sqlite3.Connection:
    if path != ":memory:":
        _create_file(path)
        # SQLite would treat a truncated file as empty.
        if 0 < _file_size(path) < _MIN_FILE_BYTES:
            raise ConfigError(
                f"cannot use {path} for conversations: it is truncated. Restore it from a backup."
            )
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def _create_file(path: str) -> None:
    """Create a file that only its owner may read, unless it exists."""
    try:
        # O_EXCL, because opening and closing a file that is in use would release its locks.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigError(f"cannot create {path}: {error.strerror}") from None


def _file_size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError as error:  # a dangling symbolic link
        raise ConfigError(f"cannot use {path}: {error.strerror}") from None


def _prepare_schema(connection: sqlite3.Connection, path: str) -> None:
    """Check that a file is a store; create the tables in an empty file, and upgrade an old one.

    An upgrade happens in one transaction.
    """
    last_write = _LastWrite(path).load()  # before the database, which may only be newer
    with transaction(connection, "DEFERRED"):
        version = _checked_version(connection, path)
    if not version:
        _enable_wal(connection)
    if version != _SCHEMA_VERSION:
        with transaction(connection, "IMMEDIATE"):
            version = _checked_version(connection, path)  # another process may have changed it
            if not version:
                connection.execute(_CONVERSATIONS)
                connection.execute(_MESSAGES)
            if version != _SCHEMA_VERSION:
                _add_directory(connection, path)
    if not set(connection.execute("SELECT name, sql FROM sqlite_master")) >= _SCHEMA:
        raise ConfigError(
            f"cannot use {path} for conversations: its tables are damaged. "
            "Restore it from a backup."
        )
    if last_write is not None:
        _check_last_write(connection, path, *last_write)
    connection.execute("PRAGMA synchronous = FULL")


def _check_last_write(connection: sqlite3.Connection, path: str, name: bytes, version: int) -> None:
    """Raise if the noted conversation is missing or has an older version."""
    row = connection.execute(_FIND, (name,)).fetchone()
    if row is None or row[1] is None or row[1] < version:
        raise ConfigError(
            f"{path} has lost its last writes: {path}-wal is damaged or missing. Restore both from "
            f"a backup, or delete {path}-last to accept the loss."
        )


def _add_directory(connection: sqlite3.Connection, path: str) -> None:
    """Create the directory of a file whose index and tables agree."""
    (problem,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if problem != "ok":
        raise ConfigError(f"cannot use {path} for conversations: it is damaged ({problem})")
    names = sorted(name for (name,) in connection.execute(_KEYS))
    connection.execute(_DIRECTORY)
    for key, after in zip((b"", *names), (*names, b""), strict=True):
        _add_link(connection, key, after)
    for statement in (_GUARD, *_VERSION_PRAGMAS):
        connection.execute(statement)


def _checked_version(connection: sqlite3.Connection, path: str) -> int:
    """Return the schema version of a store; zero if the file is empty."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == _APPLICATION and version > _SCHEMA_VERSION:
        raise ConfigError(f"{path} was written by a newer version of surecall: update surecall")
    if application == _APPLICATION and version in {_WITHOUT_DIRECTORY, _SCHEMA_VERSION}:
        return int(version)
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application or version or tables:
        raise ConfigError(f"{path} is not a conversation store: pass another path")
    return 0


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Enable the write-ahead log, so that readers and a writer do not block each other."""
    for _ in range(int(_BUSY_S / _WAL_RETRY_S)):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite's busy timeout does not apply to this statement.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(_WAL_RETRY_S)
        else:
            return
