"""The SQLite file: damage and newer versions are reported, and nothing is changed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from surecall.eval.storage import database
from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import Store, open_for_reading, open_or_resume
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
        connection.execute(f"PRAGMA user_version = {database.SCHEMA_VERSION + 1}")

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
