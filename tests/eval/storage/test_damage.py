"""Damage to a run's file: the very same results are read, or one clear sentence is said."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from surecall.eval.storage.damage import damaged, explained
from surecall.eval.storage.run_directories import DATABASE, StoreError
from surecall.eval.storage.store import Store, open_for_reading, open_or_resume
from tests.support.damaged_stores import results, resumed, small_store, tortured, truncated
from tests.support.eval_results import SAME, TRACE, key, passed

FLIPS = int(os.environ.get("SURECALL_TEST_FLIPS", "1500"))
# Every byte, where there is time for it.
STEP = 1 if FLIPS > 1500 else 61


@pytest.mark.slow
def test_a_flipped_bit_is_never_read_as_another_result(tmp_path: Path) -> None:
    found = tortured(tmp_path, FLIPS, seed=14)

    assert found.wrong == []
    assert found.cases == FLIPS == found.same + found.refused
    assert min(found.same, found.refused) > FLIPS // 20


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
        ("DROP INDEX trials_by_outcome", "its tables are not those of a run"),
        ("PRAGMA user_version = 0", "its tables are not those of a run"),
        ("PRAGMA user_version = -3", "its tables are not those of a run"),
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
        (REPLACED, "table trials holds other records than were written"),
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


def test_a_second_writer_that_ignores_the_lock_is_found(run: Store) -> None:
    run.add(passed(key(1)), TRACE)
    changed(
        run.directory,
        "INSERT INTO trials SELECT NULL, 'sim/z', profile, strategy, scenario, trial, status,"
        " category, elapsed_ms, record, trace_checksum, checksum FROM trials",
    )

    with pytest.raises(StoreError, match=r"trial sim/z default .* does not match its checksum"):
        run.done_keys()


@pytest.mark.parametrize(
    "use", ["\ud800".encode, lambda: (1 << 80).to_bytes(1)], ids=["text", "number"]
)
def test_what_cannot_be_stored_is_one_sentence(use: Callable[[], object]) -> None:
    with pytest.raises(StoreError, match="cannot use place"), explained(Path("place")):
        use()


def test_a_message_is_one_line() -> None:
    assert "(a b)" in str(damaged(Path("place"), "a\n b"))
