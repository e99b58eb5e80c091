"""Records: what is written comes back, and the totals follow every change."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from surecall.eval.storage.records import Records, checksum, is_schema
from surecall.eval.storage.run_directories import StoreError

KEY = ("m", "default", "production", "s", 1)
OTHER = ("m", "default", "production", "s", 2)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        yield opened


@pytest.fixture
def records(connection: sqlite3.Connection) -> Records:
    made = Records(connection, Path("file"))
    made.make_tables()
    return made


def test_a_checksum_tells_values_and_their_places_apart() -> None:
    alike = [
        (1, "2"),
        ("1", "2"),
        (1.0, "2"),
        ("1", 2),
        (None, "2"),
        ("12",),
        ("2", 1),
        (b"1", "2"),
    ]

    assert len({checksum(*values) for values in alike}) == len(alike)
    assert checksum(1, "2") == checksum(1, "2")


def test_new_tables_are_the_expected_ones(connection: sqlite3.Connection, records: Records) -> None:
    assert is_schema(connection)
    assert (records.number_of_trials(), list(records.trials())) == (0, [])
    with pytest.raises(StoreError, match="names no command"):
        records.commands()


def test_commands_are_numbered(records: Records) -> None:
    for word in ("first", "second"):
        records.add_command("now", "{}", "hash", "{}", "hash", "1", word)

    assert [(row.id, row.command) for row in records.commands()] == [(1, "first"), (2, "second")]


def test_trials_are_read_as_they_were_written_and_replaced(records: Records) -> None:
    records.add_trial(OTHER, ("infra", "TIMEOUT", 1, "{}"), b"old")
    records.add_trial(KEY, ("passed", "", 2, "{}"), None)
    spoiled = records.find(OTHER)
    assert spoiled is not None
    records.replace_trial(spoiled, ("passed", "", 3, "[]"), b"new")

    assert [(row.key, row.elapsed_ms) for row in records.trials()] == [(KEY, 2), (OTHER, 3)]
    assert [records.lines(row) for row in records.trials()] == [None, b"new"]
    assert records.number_of_trials() == 2
    found = records.search(OTHER)
    assert found is not None
    records.replace_trial(found, ("passed", "", 3, "[]"), None)
    assert [records.lines(row) for row in records.trials()] == [None, None]
    assert records.search(("nobody", "", "", "", 1)) is None


def test_an_index_that_lost_a_trial_does_not_hide_it(
    connection: sqlite3.Connection, records: Records
) -> None:
    records.add_trial(KEY, ("passed", "", 2, "{}"), None)
    _empty(connection, "sqlite_autoindex_trials_1")

    assert records.find(KEY) is None
    found = records.search(KEY)
    assert found is not None
    assert found.key == KEY
    with pytest.raises(StoreError, match="trials is not complete: 1 of 1 missing"):
        list(records.trials())


def test_an_index_out_of_order_is_found(connection: sqlite3.Connection, records: Records) -> None:
    _rewrite(connection, "scenario TEXT", "scenario TEXT COLLATE NOCASE")
    for scenario in ("a", "B"):
        records.add_trial((*KEY[:3], scenario, 1), ("passed", "", 2, "{}"), None)
    _rewrite(connection, "scenario TEXT COLLATE NOCASE", "scenario TEXT")

    with pytest.raises(StoreError, match="trial m default production B 1 is out of order"):
        list(records.trials())


def _empty(connection: sqlite3.Connection, index: str) -> None:
    """Let an index begin at a page of its own, which is empty."""
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("CREATE TABLE blank (a PRIMARY KEY) WITHOUT ROWID")
    connection.execute(
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master"
        " WHERE name = 'blank') WHERE name = ?",
        (index,),
    )
    connection.execute("PRAGMA schema_version = 99")
    connection.execute("PRAGMA writable_schema = RESET")


def _rewrite(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Make the tables believe that they are declared in another way."""
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute(
        "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = 'trials'", (old, new)
    )
    connection.execute("PRAGMA schema_version = 99")
    connection.execute("PRAGMA writable_schema = RESET")
