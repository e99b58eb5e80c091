"""One transaction of SQLite: all that happens in it, or nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Commit what happens inside, or leave everything as it was. `DEFERRED` is for reading."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # On some errors, such as a full disk, SQLite has undone it by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
