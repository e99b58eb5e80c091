"""Run directories: their names, who may write into one, and files that are never half written.

    <base>/.gitignore                  `*`: results are not source code
    <base>/latest                      the name of the run that was written last
    <base>/runs/2026-11-15-140233-otter/

Names are in UTC and sort by age. A lock is an open transaction on an empty SQLite file: it works
on every system, and it ends with its process, however that ends, so it is never stale.

Whatever is written here is for the user alone, and no symbolic link in it is followed.
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
from surecall.values.family import unknown

DATABASE: Final = "trials.sqlite"
LATEST: Final = "latest"
_RUNS, _LOCK, _PID = "runs", "writer.lock", "writer.pid"
# Two commands that start together look for a run to resume one after the other.
_OPENING, _OPENING_WAIT_S = "open.lock", 10.0
_WORDS: Final = (
    "acorn", "alder", "amber", "aspen", "badger", "basil", "beech", "birch", "bison", "brook",
    "cedar", "clover", "cobalt", "comet", "coral", "crane", "delta", "dune", "ember", "falcon",
    "fennel", "fern", "finch", "fjord", "flint", "garnet", "ginger", "grove", "harbor", "hazel",
    "heron", "indigo", "ivory", "jade", "juniper", "kelp", "lagoon", "larch", "lark", "linden",
    "lotus", "lynx", "maple", "marble", "meadow", "mesa", "mint", "nutmeg", "ochre", "onyx",
    "orchid", "otter", "pebble", "pine", "quartz", "raven", "reed", "robin", "saffron", "sage",
    "sorrel", "sparrow", "tansy", "tern", "thistle", "topaz", "tundra", "umber", "walnut", "willow",
)  # fmt: skip


class StoreError(ConfigError):
    """The place where results are kept cannot be used as asked. What it held is still there."""


@contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    """Turn what the file system says about a path into one clear sentence."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot use {path}: {error.strerror or error}") from error


@contextmanager
def opening(base: Path) -> Iterator[None]:
    """Prepare the base directory, and keep others from opening a run at the same time."""
    with typed_errors(base):
        base.mkdir(parents=True, exist_ok=True, mode=0o700)
        make_folder(base / _RUNS)
        if not (base / ".gitignore").exists():
            write_file(base / ".gitignore", b"*\n")
    held = _take(base / _OPENING, _OPENING_WAIT_S)
    if held is None:
        raise StoreError(f"another process is opening a run in {base}; try again")
    try:
        yield
    finally:
        held.close()


def new_run(base: Path, now: datetime) -> Path:
    """Make a directory for a new run. Its name is newer than all that were made before."""
    with typed_errors(base):
        taken = {path.name[:17] for path in (base / _RUNS).iterdir()}
        while (stamp := now.strftime("%Y-%m-%d-%H%M%S")) in taken:
            now += timedelta(seconds=1)
        directory = base / _RUNS / f"{stamp}-{secrets.choice(_WORDS)}"
        directory.mkdir(mode=0o700)
    return directory


def runs(base: Path) -> list[Path]:
    """Return the directories of all runs that hold results, newest first."""
    folder = base / _RUNS
    if not folder.is_dir():
        return []
    with typed_errors(folder):
        refuse_link(folder)
        found = [path for path in folder.iterdir() if _holds_results(path)]
    return sorted(found, key=lambda path: path.name, reverse=True)


def _holds_results(path: Path) -> bool:
    return (path / DATABASE).is_file() and not path.is_symlink()


def find_run(base: Path, name: str) -> Path:
    """Return the run with this name: `latest`, a name, a part that only one name has, or a path."""
    known = {path.name: path for path in runs(base)}
    if name == LATEST:
        with suppress(OSError, UnicodeDecodeError):
            refuse_link(base / LATEST)
            # Only a name: a path in it could mean a run of another place.
            name = Path((base / LATEST).read_text("utf-8").strip()).name
    if name in known:
        return known[name]
    alike = [path for called, path in known.items() if name and name in called]
    if len(alike) == 1:
        return alike[0]
    if name and (Path(name) / DATABASE).is_file():
        return Path(name)
    if not known:
        raise StoreError(f"there are no runs in {base}")
    raise StoreError(unknown("run", name, known))


def point_to(base: Path, directory: Path) -> None:
    """Make `latest` mean this run."""
    with typed_errors(base):
        write_file(base / LATEST, f"{directory.name}\n".encode())


def lock(directory: Path) -> sqlite3.Connection:
    """Become the only writer of a run, until the returned connection is closed."""
    held = _take(directory / _LOCK, 0.0)
    if held is None:
        raise StoreError(
            f"another process{_holder(directory)} is writing to {directory}; wait until it ends, "
            "stop it, or start a run of its own with --fresh"
        )
    with typed_errors(directory):
        write_file(directory / _PID, str(os.getpid()).encode())
    return held


def unlock(directory: Path, held: sqlite3.Connection) -> None:
    """Let others write."""
    with suppress(OSError):
        (directory / _PID).unlink()
    held.close()


def _take(path: Path, wait_s: float) -> sqlite3.Connection | None:
    claim(path)
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


def _holder(directory: Path) -> str:
    """Name the holder of a lock, if it is known. Only the message depends on it."""
    with suppress(OSError, ValueError):
        return f" (pid {int((directory / _PID).read_bytes())})"
    return ""


def refuse_link(path: Path) -> None:
    """Refuse a symbolic link: it would lead to a place that the user did not name."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))


def make_folder(path: Path) -> None:
    """Make a folder for the user alone, if it is missing; a link in its place is refused."""
    refuse_link(path)
    path.mkdir(mode=0o700, exist_ok=True)


def claim(path: Path) -> None:
    """Make an empty file for the user alone, if it is missing; a link in its place is refused."""
    with typed_errors(path):
        refuse_link(path)
    with suppress(OSError):  # whoever opens it next says what is wrong
        os.close(_private(str(path), os.O_CREAT | os.O_EXCL))


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file or nothing; readers see the old content or the new. Owner only."""
    write_pieces(path, (data,))


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Do the same with what is made piece by piece."""
    fresh = path.with_name(f".{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(fresh, "xb", opener=_private) as file:  # Path.open takes no opener
            file.writelines(pieces)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _private(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def utc_now() -> datetime:
    """Return the time of day, in UTC."""
    return datetime.now(UTC)
