"""Tests of `surecall.eval.storage.database`."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from surecall.eval.storage.database import (
    SCHEMA_VERSION,
    RunRecords,
    checksum,
    damage_error,
    has_run_schema,
    translate_sqlite_errors,
)
from surecall.eval.storage.run_directories import DATABASE, StoreError
from surecall.eval.storage.store import RunStore, open_for_reading, open_or_resume
from tests.support.trials import (
    SAME,
    TRACE,
    key,
    passed,
    restructured,
    results,
    resumed,
    small_store,
    tortured,
    truncated,
)

# The SQLite file: damage and newer versions are reported, and nothing is changed


def test_a_damaged_file_is_reported_and_left_alone(base: Path, run: RunStore) -> None:
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


def test_damage_inside_the_file_is_found_before_anything_is_added(
    base: Path, run: RunStore
) -> None:
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


def test_a_damaged_record_or_trace_is_reported(run: RunStore) -> None:
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


def test_a_file_of_a_newer_version_is_not_touched(base: Path, run: RunStore) -> None:
    run.close()
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")

    with pytest.raises(StoreError, match="newer version of surecall; upgrade"):
        open_or_resume(base, SAME)
    with pytest.raises(StoreError, match="newer version of surecall; upgrade"):
        open_for_reading(run.directory)


def test_a_file_without_tables_is_no_run(base: Path, run: RunStore) -> None:
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


def without_checksums(run: RunStore) -> None:
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
    base: Path, run: RunStore
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


def test_an_old_file_that_cannot_be_read_is_reported(run: RunStore) -> None:
    run.close()
    without_checksums(run)
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute("DROP TABLE traces")

    with pytest.raises(StoreError, match="no such table: traces"):
        open_for_reading(run.directory)


def test_an_old_file_that_cannot_be_read_leaves_no_connection_open(
    run: RunStore, monkeypatch: pytest.MonkeyPatch
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


# Damage to a run's file: the very same results are read, or one clear sentence is said


FLIPS = int(os.environ.get("SURECALL_TEST_FLIPS", "1500"))
# Every byte, where there is time for it.
STEP = 1 if FLIPS > 1500 else 61


@pytest.mark.slow
def test_a_flipped_bit_is_never_read_as_another_result(tmp_path: Path) -> None:
    found = tortured(tmp_path, FLIPS, seed=14)

    assert found.wrong == []
    assert found.cases == FLIPS == found.same + found.refused
    assert min(found.same, found.refused) > FLIPS // 20


@pytest.mark.slow
def test_damaged_trees_are_never_read_as_another_result(tmp_path: Path) -> None:
    found = restructured(tmp_path, FLIPS, seed=16)

    assert found.wrong == []
    assert found.cases > FLIPS
    assert min(found.same, found.refused) > FLIPS // 20


def test_commands_in_another_order_are_damage(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    path = store.directory / DATABASE
    data = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'meta'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    at = (root - 1) * size + 8  # where the pointers to the rows of this page begin
    data[at : at + 4] = data[at + 2 : at + 4] + data[at : at + 2]
    path.write_bytes(data)

    with pytest.raises(StoreError, match="the record of command 2 is out of order"):
        results(store.directory)


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    found = truncated(tmp_path, STEP)

    assert found.wrong == []
    assert (found.same, found.refused) == (0, found.cases)


@pytest.mark.slow
def test_who_resumes_a_damaged_run_adds_to_the_same_results_or_is_refused(tmp_path: Path) -> None:
    found = tortured(tmp_path, FLIPS // 5, seed=15, read=resumed)

    assert found.wrong == []
    assert found.refused > FLIPS // 50


def changed(directory: Path, *statements: str) -> None:
    with closing(sqlite3.connect(directory / DATABASE)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE trials SET model = 'sim/c' WHERE id = 1", "trial sim/c default .* 3 does not"),
        ("UPDATE trials SET trial = 9 WHERE id = 1", "trial sim/a .* 9 does not match"),
        ("UPDATE trials SET status = 'failed' WHERE id = 2", "trial sim/b .* 3 does not match"),
        ("UPDATE trials SET elapsed_ms = '5x' WHERE id = 1", "trial sim/a .* 3 does not match"),
        ("UPDATE trials SET record = replace(record, 'bar', 'baz')", "trial sim/a .* 1 does not"),
        ("UPDATE traces SET lines = x'00' WHERE trial_id = 3", "trace of the record of the trial"),
        ("DELETE FROM traces WHERE trial_id = 3", "trace of the record of the trial sim/a .* 1"),
        ("INSERT INTO traces VALUES (2, x'00')", "trace of the record of the trial sim/b .* 3"),
        ("UPDATE traces SET trial_id = -trial_id", "trace of the record of the trial"),
        ("DELETE FROM trials WHERE trial = 3", "table trials is not complete: 2 of 8 missing"),
        ("UPDATE meta SET config = '{}' WHERE id = 1", "record of command 1 does not match"),
        ("UPDATE meta SET id = 3 WHERE id = 1", "record of command 3 does not match"),
        ("DELETE FROM meta WHERE id = 2", "table meta is not complete: 1 of 2 missing"),
        ("DELETE FROM meta", "table meta is not complete: 2 of 2 missing"),
        ("DELETE FROM totals", "total of trials does not match"),
        ("UPDATE totals SET number = 7 WHERE name = 'trials'", "total of trials does not match"),
        ("DROP INDEX trials_by_outcome", "its tables do not match the schema of a run"),
        ("PRAGMA user_version = 0", "its tables do not match the schema of a run"),
        ("PRAGMA user_version = -3", "its tables do not match the schema of a run"),
    ],
)
def test_damage_is_told_with_the_key_of_the_record(
    tmp_path: Path, statement: str, named: str
) -> None:
    directory = small_store(tmp_path).directory
    changed(directory, statement)

    with pytest.raises(StoreError, match=f"is damaged .*{named}"):
        results(directory)


EXCHANGED = (
    "UPDATE trials SET record = (SELECT record FROM trials o WHERE o.id = 4 - trials.id),"
    " checksum = (SELECT checksum FROM trials o WHERE o.id = 4 - trials.id) WHERE id IN (1, 3)"
)
SWAPPED_TRACES = (
    "UPDATE traces SET trial_id = -1 WHERE trial_id = 1",
    "UPDATE traces SET trial_id = 1 WHERE trial_id = 3",
    "UPDATE traces SET trial_id = 3 WHERE trial_id = -1",
)


@pytest.mark.parametrize("statements", [(EXCHANGED,), SWAPPED_TRACES])
def test_records_that_changed_places_are_found(tmp_path: Path, statements: tuple[str, ...]) -> None:
    directory = small_store(tmp_path).directory
    changed(directory, *statements)

    with pytest.raises(StoreError, match=r"sim/a default production happy_path .* does not match"):
        results(directory)


REPLACED = (
    "UPDATE trials SET (trial, elapsed_ms, record, trace_checksum, checksum) ="
    " (SELECT trial, elapsed_ms, record, trace_checksum, checksum FROM trials_of_other)"
    " WHERE id = 1"
)


def spliced(directory: Path, statement: str) -> None:
    """Bring in whole rows of another run, with checksums that match them."""
    with closing(sqlite3.connect(directory / DATABASE)) as connection:
        connection.execute("ATTACH ? AS other", (str(directory / "other"),))
        connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO trials SELECT 90, * FROM trials_of_other", "1 too many"),
        (REPLACED, "table trials contains records that were not written"),
    ],
)
def test_a_record_of_another_run_is_found(tmp_path: Path, statement: str, said: str) -> None:
    directory = small_store(tmp_path / "a").directory
    with open_or_resume(tmp_path / "b", SAME) as other:
        other.add(passed(key(7)), TRACE)
    (other.directory / DATABASE).rename(directory / "other")
    rows = (
        "(SELECT model, profile, strategy, scenario, trial, status, category, elapsed_ms, record,"
        " trace_checksum, checksum FROM other.trials)"
    )
    spliced(directory, statement.replace("trials_of_other", rows))

    with open_for_reading(directory) as store, pytest.raises(StoreError, match=said):
        list(store.trials())


class BadDisk:
    """Connects as usual; from the n-th statement on, every one fails."""

    def __init__(self, sound: int) -> None:
        self.left = sound
        self._connect = sqlite3.connect

    def connect(self, *given: Any, **named: Any) -> sqlite3.Connection:
        disk = self

        class Connection(sqlite3.Connection):
            def execute(self, *statement: Any) -> sqlite3.Cursor:
                disk.left -= 1
                if disk.left < 0:
                    error = sqlite3.OperationalError("disk I/O error")
                    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
                    raise error
                return super().execute(*statement)

        return self._connect(*given, factory=Connection, **named)


def written(base: Path) -> None:
    with open_or_resume(base, SAME) as store:
        store.add(passed(key(1)), TRACE)
        store.add(passed(key(2)), TRACE)


def test_a_disk_that_fails_at_any_statement_leaves_whole_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 0
    for number in range(1, 1000):
        base, disk = tmp_path / str(number), BadDisk(number)
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", disk.connect)
            try:
                written(base)
            except StoreError:
                refused += 1
        written(base)
        with open_or_resume(base, SAME) as store:
            assert list(store.trials()) == [passed(key(1)), passed(key(2))]
            assert store.trace(key(2)) == TRACE
        if disk.left >= 0:
            break
    assert refused > 20


def test_a_second_writer_that_ignores_the_lock_is_found(run: RunStore) -> None:
    run.add(passed(key(1)), TRACE)
    changed(
        run.directory,
        "INSERT INTO trials SELECT NULL, 'sim/z', profile, strategy, scenario, trial, status,"
        " category, elapsed_ms, record, trace_checksum, checksum FROM trials",
    )

    with pytest.raises(StoreError, match=r"trial sim/z default .* does not match its checksum"):
        run.completed_trials()


@pytest.mark.parametrize(
    "use", ["\ud800".encode, lambda: (1 << 80).to_bytes(1)], ids=["text", "number"]
)
def test_what_cannot_be_stored_is_one_sentence(use: Callable[[], object]) -> None:
    with (
        pytest.raises(StoreError, match="cannot use place"),
        translate_sqlite_errors(Path("place")),
    ):
        use()


def test_a_message_is_one_line() -> None:
    assert "(a b)" in str(damage_error(Path("place"), "a\n b"))


# Records: what is written comes back, and the totals follow every change


KEY = ("m", "default", "production", "s", 1)
OTHER = ("m", "default", "production", "s", 2)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        yield opened


@pytest.fixture
def records(connection: sqlite3.Connection) -> RunRecords:
    made = RunRecords(connection, Path("file"))
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


def test_new_tables_are_the_expected_ones(
    connection: sqlite3.Connection, records: RunRecords
) -> None:
    assert has_run_schema(connection)
    assert (records.trial_count(), list(records.trials())) == (0, [])
    with pytest.raises(StoreError, match="records no command"):
        records.commands()


def test_commands_are_numbered(records: RunRecords) -> None:
    for word in ("first", "second"):
        records.add_command("now", "{}", "hash", "{}", "hash", "1", word)

    assert [(row.id, row.command) for row in records.commands()] == [(1, "first"), (2, "second")]


def test_trials_are_read_as_they_were_written_and_replaced(records: RunRecords) -> None:
    records.add_trial(OTHER, ("infra", "TIMEOUT", 1, "{}"), b"old")
    records.add_trial(KEY, ("passed", "", 2, "{}"), None)
    spoiled = records.find_by_index(OTHER)
    assert spoiled is not None
    records.replace_trial(spoiled, ("passed", "", 3, "[]"), b"new")

    assert [(row.key, row.elapsed_ms) for row in records.trials()] == [(KEY, 2), (OTHER, 3)]
    assert [records.trace_lines(row) for row in records.trials()] == [None, b"new"]
    assert records.trial_count() == 2
    found = records.find_or_scan(OTHER)
    assert found is not None
    records.replace_trial(found, ("passed", "", 3, "[]"), None)
    assert [records.trace_lines(row) for row in records.trials()] == [None, None]
    assert records.find_or_scan(("nobody", "", "", "", 1)) is None


def test_an_index_that_lost_a_trial_does_not_hide_it(
    connection: sqlite3.Connection, records: RunRecords
) -> None:
    records.add_trial(KEY, ("passed", "", 2, "{}"), None)
    _empty(connection, "sqlite_autoindex_trials_1")

    assert records.find_by_index(KEY) is None
    found = records.find_or_scan(KEY)
    assert found is not None
    assert found.key == KEY
    with pytest.raises(StoreError, match="trials is not complete: 1 of 1 missing"):
        list(records.trials())


def test_an_index_out_of_order_is_found(
    connection: sqlite3.Connection, records: RunRecords
) -> None:
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
