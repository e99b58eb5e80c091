"""Tests of `surecall.eval.storage.run_directories`."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from surecall.eval.report.page.page_files import write_report_at
from surecall.eval.report.report_files import load_results, write_trials
from surecall.eval.storage.run_directories import (
    StoreError,
    find_run,
    remove_unfinished_files,
    run_directories,
    write_file,
    write_pieces,
)
from surecall.eval.storage.store import RunStore, open_for_reading, open_or_resume
from tests.support.trials import SAME, TRACE, key, passed

# Run directories: found by name, and never harmed when something is wrong


def test_a_damaged_lock_is_reported(base: Path, run: RunStore) -> None:
    run.close()
    (run.directory / "writer.lock").write_bytes(b"x" * 5000)

    with pytest.raises(StoreError, match=r"cannot use .*writer.lock: file is not a database"):
        open_or_resume(base, SAME)


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"cannot use .*file: "):
        open_or_resume(tmp_path / "file", SAME)


def test_a_run_is_found_by_any_name_that_means_one(base: Path, run: RunStore) -> None:
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
    assert run_directories(tmp_path) == []
    with pytest.raises(StoreError, match="there are no runs"):
        find_run(tmp_path, "latest")


def test_a_process_that_is_killed_while_it_writes_leaves_no_file(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half of"
        assert [path.suffix for path in tmp_path.iterdir()] == [".tmp"]
        remove_unfinished_files()
        assert not list(tmp_path.iterdir())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pieces(tmp_path / "report.html", pieces())
    assert not list(tmp_path.iterdir())


# No link in the place of runs is followed, and only the user can read what is there


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(name="outside")
def outside_fixture(tmp_path: Path) -> Path:
    """Return a folder that nothing may be written into."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_bytes(b"precious")
    return folder


@pytest.mark.parametrize("name", ["runs", "open.lock"])
@pytest.mark.parametrize("target", ["", "precious", "missing"])
def test_a_link_in_the_base_is_refused(
    tmp_path: Path, outside: Path, name: str, target: str
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / name).symlink_to(outside / target)
    before = files_in(outside)

    with pytest.raises(StoreError, match="symbolic link"):
        open_or_resume(base, SAME)
    assert files_in(outside) == before


@pytest.mark.parametrize("name", ["writer.lock", "trials.sqlite"])
@pytest.mark.parametrize("target", ["precious", "missing"])
def test_a_link_in_a_run_is_refused(
    base: Path, run: RunStore, outside: Path, name: str, target: str
) -> None:
    run.close()
    path = run.directory / name
    path.rename(run.directory / "kept")
    path.symlink_to(run.directory / "kept" if name == "trials.sqlite" else outside / target)
    before = files_in(outside)

    with pytest.raises(StoreError, match="symbolic link"):
        open_or_resume(base, SAME)
    assert files_in(outside) == before


def test_a_linked_database_is_not_read(run: RunStore, base: Path) -> None:
    run.close()
    path = run.directory / "trials.sqlite"
    path.rename(base / "elsewhere")
    path.symlink_to(base / "elsewhere")

    with pytest.raises(StoreError, match="symbolic link"):
        open_for_reading(run.directory)


def test_a_linked_run_is_none(base: Path, run: RunStore, tmp_path: Path) -> None:
    run.close()
    run.directory.rename(tmp_path / "moved")
    run.directory.symlink_to(tmp_path / "moved")

    assert run_directories(base) == []
    with pytest.raises(StoreError, match="no runs"):
        find_run(base, "latest")


def test_linked_runs_are_not_listed(base: Path, run: RunStore, tmp_path: Path) -> None:
    run.close()
    (base / "runs").rename(tmp_path / "moved")
    (base / "runs").symlink_to(tmp_path / "moved")

    with pytest.raises(StoreError, match="symbolic link"):
        run_directories(base)


@pytest.mark.parametrize("linked", [False, True])
def test_the_latest_run_is_one_of_this_place(
    base: Path, run: RunStore, tmp_path: Path, *, linked: bool
) -> None:
    run.close()
    with open_or_resume(tmp_path / "other", SAME) as other:
        pass
    (base / "latest").unlink()
    if linked:
        (tmp_path / "name").write_text(str(other.directory))
        (base / "latest").symlink_to(tmp_path / "name")
    else:
        (base / "latest").write_text(str(other.directory))

    with pytest.raises(StoreError, match="unknown run"):
        find_run(base, "latest")


def test_a_report_replaces_a_link_and_leaves_its_target_alone(run: RunStore, outside: Path) -> None:
    run.add(passed(key(1)), TRACE)
    run.close()
    (run.directory / "report.html").symlink_to(outside / "precious")
    written = write_report_at(run.directory)

    assert not written.is_symlink()
    assert (outside / "precious").read_bytes() == b"precious"


def written_trials(run: RunStore) -> int:
    return write_trials(run.directory, load_results(run), run.trials(), run.trace)


def written_page(run: RunStore) -> Path:
    return write_report_at(run.directory)


@pytest.mark.parametrize(
    ("name", "write"), [("report_data", written_page), ("trials", written_trials)]
)
def test_a_linked_folder_of_a_report_is_refused(
    run: RunStore, outside: Path, name: str, write: Callable[[RunStore], object]
) -> None:
    run.add(passed(key(1)), TRACE)
    (outside / "traces_1.js").write_bytes(b"mine")
    (run.directory / name).symlink_to(outside)

    with pytest.raises(StoreError, match="symbolic link"):
        write(run)
    assert len(files_in(outside)) == 2


def test_a_file_is_written_beside_a_planted_name(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "here").symlink_to(outside / "precious")
    write_file(tmp_path / "here", b"new")

    assert (tmp_path / "here").read_bytes() == b"new"
    assert (outside / "precious").read_bytes() == b"precious"


def test_everything_is_for_the_user_alone(base: Path, run: RunStore) -> None:
    run.add(passed(key(1)), TRACE)
    write_report_at(run.directory)
    write_trials(run.directory, load_results(run), run.trials(), run.trace)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (base, *base.rglob("*"))}

    assert {
        path.name for path, mode in modes.items() if mode != (0o700, 0o600)[path.is_file()]
    } == set()
    assert any(path.name == "trials.sqlite-wal" for path in modes)  # while it is being written
