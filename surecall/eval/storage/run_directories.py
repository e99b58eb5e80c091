"""Run directories: names, write locks, and atomic file writes.

    <base>/.gitignore                  `*`: results are not source code
    <base>/latest                      the name of the run written last
    <base>/runs/2026-11-15-140233-otter/

Names are in UTC and sort by age. A lock is an open transaction on an empty SQLite file: it works on
every platform and ends with its process, so it is never stale. All files are private to the user,
and symbolic links are not followed.
"""

import errno
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from surecall.values.errors import ConfigError
from surecall.values.family import unknown_name_message

DATABASE: Final = "trials.sqlite"
LATEST: Final = "latest"
_RUNS, _LOCK, _PID = "runs", "writer.lock", "writer.pid"
# Commands that start at the same time search for a run to resume one at a time.
_OPEN_LOCK, _OPENING_WAIT_S = "open.lock", 10.0
_UNFINISHED: Final[set[Path]] = set()
_NAME_WORDS: Final = (
    "acorn", "alder", "amber", "aspen", "badger", "basil", "beech", "birch", "bison", "brook",
    "cedar", "clover", "cobalt", "comet", "coral", "crane", "delta", "dune", "ember", "falcon",
    "fennel", "fern", "finch", "fjord", "flint", "garnet", "ginger", "grove", "harbor", "hazel",
    "heron", "indigo", "ivory", "jade", "juniper", "kelp", "lagoon", "larch", "lark", "linden",
    "lotus", "lynx", "maple", "marble", "meadow", "mesa", "mint", "nutmeg", "ochre", "onyx",
    "orchid", "otter", "pebble", "pine", "quartz", "raven", "reed", "robin", "saffron", "sage",
    "sorrel", "sparrow", "tansy", "tern", "thistle", "topaz", "tundra", "umber", "walnut", "willow",
)  # fmt: skip


class StoreError(ConfigError):
    """The results directory cannot be used. Existing results are unchanged."""


@contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Translate operating system errors about a path to `StoreError`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot use {path}: {error.strerror or error}") from error


@contextmanager
def lock_base(base: Path) -> Iterator[None]:
    """Create the base directory if needed, and lock it while a run is opened."""
    with translate_os_errors(base):
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        make_private_folder(base / _RUNS)
        if not (base / ".gitignore").exists():
            write_file(base / ".gitignore", b"*\n")
    held = _acquire_lock(base / _OPEN_LOCK, _OPENING_WAIT_S)
    if held is None:
        raise StoreError(f"another process is opening a run in {base}; try again")
    try:
        yield
    finally:
        held.close()


def create_run(base: Path, now: datetime) -> Path:
    """Create the directory of a new run. Its name sorts after all existing ones."""
    with translate_os_errors(base):
        taken = {path.name[:17] for path in (base / _RUNS).iterdir()}
        while (stamp := now.strftime("%Y-%m-%d-%H%M%S")) in taken:
            now += timedelta(seconds=1)
        directory = base / _RUNS / f"{stamp}-{secrets.choice(_NAME_WORDS)}"
        directory.mkdir(mode=0o700)
    return directory


def run_directories(base: Path) -> list[Path]:
    """Return the directories of all runs that have results, newest first."""
    folder = base / _RUNS
    if not folder.is_dir():
        return []
    with translate_os_errors(folder):
        reject_symlink(folder)
        found = [path for path in folder.iterdir() if _holds_results(path)]
    return sorted(found, key=lambda path: path.name, reverse=True)


def _holds_results(path: Path) -> bool:
    return (path / DATABASE).is_file() and not path.is_symlink()


def find_run(base: Path, name: str) -> Path:
    """Return the run named by `latest`, its name, a unique part of its name, or its path."""
    known = {path.name: path for path in run_directories(base)}
    if name == LATEST:
        with suppress(OSError, UnicodeDecodeError):
            reject_symlink(base / LATEST)
            # Only the name: a path could lead outside the base directory.
            name = Path((base / LATEST).read_text("utf-8").strip()).name
    if name in known:
        return known[name]
    alike = [path for called, path in known.items() if name and name in called]
    if len(alike) == 1:
        return alike[0]
    if name and (Path(name) / DATABASE).is_file():
        return Path(name)
    if not known:
        raise StoreError(f"there are no runs in {base}: run surecall eval first, or pass --runs")
    raise StoreError(unknown_name_message("run", name, known))


def set_latest(base: Path, directory: Path) -> None:
    """Set `latest` to this run."""
    with translate_os_errors(base):
        write_file(base / LATEST, f"{directory.name}\n".encode())


def lock(directory: Path) -> sqlite3.Connection:
    """Lock a run for writing until the returned connection is closed."""
    held = _acquire_lock(directory / _LOCK, 0.0)
    if held is None:
        raise StoreError(
            f"another process{_lock_holder(directory)} is writing to {directory}; wait "
            "for it, stop it, "
            "or start a separate run with --fresh"
        )
    with translate_os_errors(directory):
        write_file(directory / _PID, str(os.getpid()).encode())
    return held


def unlock(directory: Path, connection: sqlite3.Connection) -> None:
    """Release the write lock."""
    with suppress(OSError):
        (directory / _PID).unlink()
    connection.close()


def _acquire_lock(path: Path, wait_s: float) -> sqlite3.Connection | None:
    """Lock a file within a time; return None if another process holds the lock."""
    create_private_file(path)
    try:
        held = sqlite3.connect(path, timeout=wait_s, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreError(f"cannot use {path}: {error}") from error
    try:
        held.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        held.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            return None
        raise StoreError(f"cannot use {path}: {error}") from error
    return held


def _lock_holder(directory: Path) -> str:
    """Return the process that holds the lock, for the message; blank if unknown."""
    with suppress(OSError, ValueError):
        return f" (pid {int((directory / _PID).read_bytes())})"
    return ""


def reject_symlink(path: Path) -> None:
    """Reject a symbolic link: it could lead to a location that the user did not choose."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))


def make_private_folder(path: Path) -> None:
    """Create a private folder unless it exists. Rejects a symbolic link."""
    reject_symlink(path)
    path.mkdir(mode=0o700, exist_ok=True)


def create_private_file(path: Path) -> None:
    """Create an empty private file unless it exists. Rejects a symbolic link."""
    with translate_os_errors(path):
        reject_symlink(path)
    with suppress(OSError):  # opening it afterwards reports the reason
        os.close(_open_private(str(path), os.O_CREAT | os.O_EXCL))


def write_file(path: Path, data: bytes) -> None:
    """Write a private file atomically."""
    write_pieces(path, (data,))


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a private file atomically from an iterable of pieces."""
    fresh = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.tmp")
    _UNFINISHED.add(fresh)
    try:
        with open(fresh, "xb", opener=_open_private) as file:  # Path.open takes no opener
            file.writelines(pieces)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    finally:
        _UNFINISHED.discard(fresh)


def remove_unfinished_files() -> None:
    """Remove the temporary files of this process before it is killed."""
    for path in tuple(_UNFINISHED):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _open_private(name: str, flags: int) -> int:
    """Open a file that only the user can read; the `opener` of `open`."""
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)
