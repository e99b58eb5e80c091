"""A transaction is kept whole, or not at all."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from surecall.runtime.transactions import transaction


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        opened.execute("CREATE TABLE kept (value INTEGER)")
        yield opened


def kept(connection: sqlite3.Connection) -> list[int]:
    return [value for (value,) in connection.execute("SELECT value FROM kept")]


def broken_off(connection: sqlite3.Connection, statement: str) -> None:
    with transaction(connection, "DEFERRED"):
        connection.execute(statement)
        raise KeyboardInterrupt


def test_what_happens_inside_is_kept(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        connection.execute("INSERT INTO kept VALUES (1)")
    assert kept(connection) == [1]


def test_nothing_is_kept_of_what_is_broken_off(connection: sqlite3.Connection) -> None:
    with pytest.raises(KeyboardInterrupt):
        broken_off(connection, "INSERT INTO kept VALUES (1)")
    assert (kept(connection), connection.in_transaction) == ([], False)


def test_an_error_after_which_sqlite_has_undone_everything_comes_through(
    connection: sqlite3.Connection,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        broken_off(connection, "ROLLBACK")
    assert not connection.in_transaction
