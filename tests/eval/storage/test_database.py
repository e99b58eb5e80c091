"""The SQLite file: damage and newer versions are reported, and nothing is changed."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from surecall.eval.storage.records import SCHEMA_VERSION
from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import Store, open_for_reading, open_or_resume
from tests.support.damaged_stores import results
from tests.support.eval_results import SAME, TRACE, key, passed


def test_a_damaged_file_is_reported_and_left_alone(base: Path, run: Store) -> None:
    run.close()
    path = run.directory / "trials.sqlite"
    path.write_bytes(b"this is not a database " * 100)

    with pytest.raises(StoreError, match=r"is damaged .* --fresh"):
        open_or_resume(base, SAME)
    with pytest.raises(StoreError, match=r"is damaged .* --fresh"):
        open_for_reading(run.directory)
    assert path.read_bytes() == b"this is not a database " * 100
    with open_or_resume(base, SAME, fresh=True) as fresh:
        assert fresh.directory != run.directory


def test_damage_inside_the_file_is_found_before_anything_is_added(base: Path, run: Store) -> None:
    for number in range(1, 100):
        run.add(passed(key(number)), TRACE)
    run.close()
    path = run.directory / "trials.sqlite"
    data = bytearray(path.read_bytes())
    data[4096 * 6 :] = b"\xff" * (len(data) - 4096 * 6)
    path.write_bytes(data)

    with pytest.raises(StoreError, match="is damaged"):
        open_or_resume(base, SAME)
    with open_for_reading(run.directory) as reader, pytest.raises(StoreError, match="is damaged"):
        list(reader.trials())
    assert path.read_bytes() == bytes(data)


def test_a_damaged_record_or_trace_is_reported(run: Store) -> None:
    run.add(passed(key()), TRACE)
    run.close()
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute("UPDATE trials SET record = '{'")
        connection.execute("UPDATE traces SET lines = x'00'")
        connection.commit()

    with open_for_reading(run.directory) as reader:
        with pytest.raises(StoreError, match="is damaged"):
            list(reader.trials())
        with pytest.raises(StoreError, match="is damaged"):
            reader.trace(key())


def test_a_file_of_a_newer_version_is_not_touched(base: Path, run: Store) -> None:
    run.close()
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")

    with pytest.raises(StoreError, match="newer version of surecall; update it"):
        open_or_resume(base, SAME)
    with pytest.raises(StoreError, match="newer version of surecall; update it"):
        open_for_reading(run.directory)


def test_a_file_without_tables_is_no_run(base: Path, run: Store) -> None:
    run.close()
    (run.directory / "trials.sqlite").write_bytes(b"")

    with pytest.raises(StoreError, match="holds no run"):
        open_for_reading(run.directory)
    with open_or_resume(base, SAME) as other:
        assert other.directory != run.directory


OLD_TABLES = """
CREATE TABLE meta (
    id INTEGER PRIMARY KEY, started TEXT NOT NULL, identity TEXT NOT NULL,
    identity_hash TEXT NOT NULL, config TEXT NOT NULL, config_hash TEXT NOT NULL,
    code TEXT NOT NULL, command TEXT NOT NULL);
CREATE TABLE trials (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, profile TEXT NOT NULL,
    strategy TEXT NOT NULL, scenario TEXT NOT NULL, trial INTEGER NOT NULL,
    status TEXT NOT NULL, category TEXT NOT NULL, elapsed_ms INTEGER NOT NULL,
    record TEXT NOT NULL, UNIQUE (model, profile, strategy, scenario, trial));
CREATE INDEX trials_by_outcome ON trials (status, category);
CREATE TABLE traces (
    trial_id INTEGER PRIMARY KEY REFERENCES trials (id), lines BLOB NOT NULL);
PRAGMA user_version = 1;
"""
OLD_META = (
    "INSERT INTO meta SELECT id, started, identity, identity_hash, config, config_hash, code,"
    " command FROM new.meta"
)
OLD_TRIALS = (
    "INSERT INTO trials SELECT id, model, profile, strategy, scenario, trial, status, category,"
    " elapsed_ms, record FROM new.trials"
)


def without_checksums(run: Store) -> None:
    """Write a run again as version 1 did."""
    path = run.directory / "trials.sqlite"
    path.rename(run.directory / "new")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ATTACH ? AS new", (str(run.directory / "new"),))
        connection.executescript(OLD_TABLES)
        for copy in (OLD_META, OLD_TRIALS, "INSERT INTO traces SELECT * FROM new.traces"):
            connection.execute(copy)
        connection.commit()
    (run.directory / "new").unlink()


def test_a_file_without_checksums_is_read_as_it_is_and_gets_them_when_it_is_resumed(
    base: Path, run: Store
) -> None:
    run.add(passed(key(2)), TRACE)
    run.add(passed(key(1)))
    run.close()
    expected = results(run.directory)
    without_checksums(run)
    path = run.directory / "trials.sqlite"
    before = path.read_bytes()

    assert results(run.directory) == expected
    assert path.read_bytes() == before
    with open_or_resume(base, SAME) as resumed:
        assert resumed.directory == run.directory
        resumed.add(passed(key(3)))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        connection.execute("UPDATE trials SET elapsed_ms = 6 WHERE trial = 2")
        connection.commit()
    with pytest.raises(StoreError, match=r"happy_path 2 does not match its checksum"):
        results(run.directory)


def test_an_old_file_that_cannot_be_read_is_reported(run: Store) -> None:
    run.close()
    without_checksums(run)
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute("DROP TABLE traces")

    with pytest.raises(StoreError, match="no such table: traces"):
        open_for_reading(run.directory)


def test_an_old_file_that_cannot_be_read_leaves_no_connection_open(
    run: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.close()
    without_checksums(run)
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute("DROP TABLE traces")
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def recorded(*given: Any, **named: Any) -> sqlite3.Connection:
        opened.append(connect(*given, **named))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    with pytest.raises(StoreError):
        open_for_reading(run.directory)
    assert len(opened) == 2
    for each in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            each.execute("SELECT 1")
