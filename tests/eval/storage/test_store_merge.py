"""Runs put together: every result once, or none; and what is read of a run that is damaged."""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import DAMAGED_TRACE, Store, merge, open_or_resume
from tests.support.eval_results import OTHER, SAME, TRACE, key, passed, spoiled


def test_shards_are_put_together(base: Path, tmp_path: Path, run: Store) -> None:
    run.add(passed(key(1)), TRACE)
    run.add(spoiled(key(2)))
    with open_or_resume(tmp_path / "elsewhere", SAME) as shard:
        shard.add(passed(key(1)), TRACE)
        shard.add(passed(key(2)), TRACE)
        shard.add(spoiled(key(3)))
        with open_or_resume(base, SAME, fresh=True) as into:
            assert merge([run, shard], into) == 3
            assert merge([run, shard], into) == 0
            assert list(into.trials()) == [passed(key(1)), passed(key(2)), spoiled(key(3))]
            assert into.trace(key(2)) == TRACE


def test_shards_that_disagree_or_do_not_belong_together_are_refused(
    base: Path, tmp_path: Path, run: Store
) -> None:
    run.add(passed(key(2)))
    with (
        open_or_resume(tmp_path / "b", SAME) as shard,
        open_or_resume(base, OTHER) as stranger,
        open_or_resume(base, SAME, fresh=True) as into,
    ):
        shard.add(passed(key(1)))
        shard.add(passed(key(2), elapsed_ms=99))
        with pytest.raises(StoreError, match="another result"):
            merge([run, shard], into)
        with pytest.raises(StoreError, match="different settings"):
            merge([run, stranger], into)
        assert len(into) == 0


def test_a_damaged_trace_ends_the_reading_unless_the_rest_is_to_be_salvaged(run: Store) -> None:
    run.add(passed(key(1)), TRACE)
    run.add(passed(key(2)), TRACE)
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute("UPDATE traces SET lines = x'00' WHERE trial_id = 1")
        connection.commit()

    with pytest.raises(StoreError, match="trace of the record of the trial"):
        list(run.packed())
    (first, lost), (second, kept) = run.packed(salvage=True)
    assert (first, lost) == (passed(key(1)), DAMAGED_TRACE)
    assert (second, zlib.decompress(kept or b"")) == (passed(key(2)), TRACE)


def test_nothing_is_put_together_with_a_run_whose_traces_are_damaged(
    tmp_path: Path, run: Store
) -> None:
    run.add(passed(key(1)))
    run.add(passed(key(2)), TRACE)
    with closing(sqlite3.connect(run.directory / "trials.sqlite")) as connection:
        connection.execute("UPDATE traces SET lines = x'00'")
        connection.commit()

    with open_or_resume(tmp_path / "b", SAME) as into:
        with pytest.raises(StoreError, match="is damaged"):
            merge([run], into)
        assert len(into) == 0
