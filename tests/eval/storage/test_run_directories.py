"""Run directories: found by name, put together, and never harmed when something is wrong."""

from pathlib import Path

import pytest

from surecall.eval.storage import store
from surecall.eval.storage.run_directories import StoreError, find_run, runs
from surecall.eval.storage.store import Store, merge, open_or_resume
from tests.support.eval_results import OTHER, SAME, TRACE, key, passed, spoiled


@pytest.mark.parametrize("name", ["writer.lock", "trials.sqlite"])
def test_a_lock_or_file_that_cannot_be_used_is_reported(base: Path, run: Store, name: str) -> None:
    run.close()
    (run.directory / "trials.sqlite").rename(run.directory / "kept")
    (run.directory / name).unlink(missing_ok=True)
    (run.directory / name).mkdir()

    with pytest.raises(StoreError, match=f"cannot use .*{name}: unable to open"):
        store._open_for_writing(run.directory, run._redactor, ())
    (run.directory / name).rmdir()
    (run.directory / "kept").rename(run.directory / "trials.sqlite")
    open_or_resume(base, SAME).close()


def test_a_damaged_lock_is_reported(base: Path, run: Store) -> None:
    run.close()
    (run.directory / "writer.lock").write_bytes(b"x" * 5000)

    with pytest.raises(StoreError, match=r"cannot use .*writer.lock: file is not a database"):
        open_or_resume(base, SAME)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"cannot use .*file: "):
        open_or_resume(tmp_path / "file", SAME)


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


def test_a_run_is_found_by_any_name_that_means_one(base: Path, run: Store) -> None:
    run.close()
    word = run.directory.name.rpartition("-")[2]
    for name in ("latest", run.directory.name, word, str(run.directory)):
        assert find_run(base, name) == run.directory

    (base / "latest").unlink()
    with pytest.raises(StoreError, match='unknown run "latest"'):
        find_run(base, "latest")
    for name in ("", "no-such-run"):
        with pytest.raises(StoreError, match=f'unknown run "{name}"; .*{word}'):
            find_run(base, name)


def test_a_place_without_runs_says_so(tmp_path: Path) -> None:
    assert runs(tmp_path) == []
    with pytest.raises(StoreError, match="there are no runs"):
        find_run(tmp_path, "latest")
