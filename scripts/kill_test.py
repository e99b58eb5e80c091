"""Kill a writer of results again and again; nothing that was finished may be lost or repeated.

    python scripts/kill_test.py --kills 1000 --seed 0

Two ways to die by SIGKILL: at random moments, and right before and right after every statement
and every file operation, one after the other. After each death the store is compared with a
journal that the writer kept of what it began and what it finished; then the next writer resumes.
Needs `fork`, so it does not run on Windows.
"""

import argparse
import functools
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from surecall.eval.storage.run_directories import StoreError, run_directories
from surecall.eval.storage.store import open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.values.errors import ConfigError

IDENTITY = {"base_url": "http://localhost/v1", "seed": 0}
REFUSED = 3


class Tally(msgspec.Struct):
    """What was counted. Everything but the first two must stay zero."""

    kills: int = 0
    completed: int = 0
    lost: int = 0
    repeated: int = 0
    altered: int = 0
    refused: int = 0
    started_over: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing happened that must not happen."""
        bad = (self.lost, self.repeated, self.altered, self.refused, self.started_over)
        return not any(bad)


def workload(trials: int) -> list[Key]:
    """Return the keys of a small matrix."""
    cells = [Cell("sim/a"), Cell("sim/b", strategy="baseline")]
    scenarios = ("happy_path", "chat_only")
    numbers = range(1, trials // 4 + 1)
    return [Key(cell, name, number) for cell in cells for name in scenarios for number in numbers]


def outcome(key: Key) -> Trial:
    """Return what a trial comes to; always the same for the same key."""
    passed = key.trial % 3 != 0
    return Trial(
        key=key,
        status="passed" if passed else "failed",
        category="" if passed else "ASSERTION_FAILED",
        elapsed_ms=key.trial * 7,
    )


def events(key: Key) -> bytes:
    """Return the trace of a trial."""
    return msgspec.json.encode({"key": key, "text": "x" * 4000}) + b"\n"


class Journal:
    """What a writer began (`b`) and finished (`f`), in a file that outlives it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def note(self, mark: str, number: int) -> None:
        """Add a line; one write, so it is whole or absent."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{mark} {number}\n".encode())
        os.close(descriptor)

    def news(self) -> list[tuple[str, int]]:
        """Return the lines that were added since the last look."""
        lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        fresh, self._read = lines[self._read :], len(lines)
        return [(mark, int(number)) for mark, number in map(str.split, fresh)]


def write_all(base: Path, keys: list[Key], journal: Journal) -> None:
    """Do what the harness does: open or resume, run what is missing, record each at once."""
    with open_or_resume(base, IDENTITY) as store:
        done = store.completed_trials()
        for number, key in enumerate(keys):
            if key not in done:
                journal.note("b", number)
                store.add(outcome(key), events(key))
                journal.note("f", number)


def fork(work: Callable[[], None]) -> int:
    """Start a writer and return its process id."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        work()
        code = 0
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        code = REFUSED
    finally:
        os._exit(code)


class Round:
    """One run, written by one process after the other until it is complete."""

    def __init__(self, base: Path, keys: list[Key], tally: Tally) -> None:
        self.base = base
        self.keys = keys
        self._tally = tally
        self._journal = Journal(base.with_name("journal"))
        self._finished: set[int] = set()
        self._stored: set[Key] = set()

    def writer(self) -> int:
        """Start a process that goes on with the run."""
        return fork(functools.partial(write_all, self.base, self.keys, self._journal))

    def doomed_writer(self, point: int) -> int:
        """Start a process that kills itself at the given point."""
        work = functools.partial(write_all, self.base, self.keys, self._journal)
        return fork(functools.partial(die_at, point, work))

    def reap(self, pid: int) -> bool:
        """Wait for a writer, compare, and say whether it was killed."""
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status)
        self._tally.kills += killed
        self._tally.refused += not killed and os.WEXITSTATUS(status) != 0
        self._compare()
        return killed

    def _compare(self) -> None:
        news = self._journal.news()
        begun = Counter(number for mark, number in news if mark == "b")
        self._finished |= {number for mark, number in news if mark == "f"}
        again = [n for n, times in begun.items() if self.keys[n] in self._stored or times > 1]
        self._tally.repeated += len(again)
        found = stored_in(self.base)
        stored = {key: result for results in found for key, result in results.items()}
        self._tally.started_over += len(found) > 1
        self._tally.lost += sum(self.keys[number] not in stored for number in self._finished)
        self._tally.lost += len(self._stored - stored.keys())
        intact = (result == (outcome(key), events(key)) for key, result in stored.items())
        self._tally.altered += sum(not same for same in intact)
        self._stored = set(stored)

    def check_complete(self) -> None:
        """Count what is missing at the end."""
        self._tally.completed += 1
        self._tally.lost += len(set(self.keys) - self._stored)


def stored_in(base: Path) -> list[dict[Key, tuple[Trial, bytes | None]]]:
    """Read every run that has tables; a writer that died at once left a file without any."""
    found = []
    for directory in run_directories(base):
        try:
            with open_for_reading(directory) as store:
                found.append({one.key: (one, store.trace(one.key)) for one in store.trials()})
        except StoreError as error:
            if "holds no run" not in str(error):
                raise
    return found


def die_at(point: int, work: Callable[[], None]) -> None:
    """Do the work, but die at the given point: there is one around each statement and file."""
    passed = 0

    def step() -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def mortal(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def around(*args: Any, **kwargs: Any) -> Any:
            step()
            result = function(*args, **kwargs)
            step()
            return result

        return around

    class Mortal(sqlite3.Connection):
        execute = mortal(sqlite3.Connection.execute)

    # Only in this process, which was forked to die.
    connect = functools.partial(sqlite3.connect, factory=Mortal)
    sqlite3.connect = connect  # type: ignore[assignment]  # see above
    for name in ("mkdir", "replace", "unlink"):
        setattr(Path, name, mortal(getattr(Path, name)))
    work()


def random_deaths(folder: Path, kills: int, seed: int, trials: int) -> Tally:
    """Kill writers at random moments, round after round; the first round goes undisturbed."""
    tally, chance = Tally(), random.Random(seed)  # noqa: S311  # a test, not a secret
    one = Round(_empty(folder) / "base", workload(trials), tally)
    started = time.perf_counter()
    one.reap(one.writer())
    longest_s = time.perf_counter() - started
    one.check_complete()
    while tally.kills < kills:
        one = Round(_empty(folder) / "base", workload(trials), tally)
        killed = True
        while killed:
            pid = one.writer()
            time.sleep(chance.uniform(0, longest_s))
            os.kill(pid, signal.SIGKILL)  # nobody else gets the number before it is reaped
            killed = one.reap(pid)
        one.check_complete()
    return tally


def deaths_at_every_point(folder: Path) -> Tally:
    """Kill writers before and after each thing that they do."""
    tally, point, killed = Tally(), 0, True
    while killed:
        point += 1
        one = Round(_empty(folder) / "base", workload(4), tally)
        killed = one.reap(one.doomed_writer(point))
        one.reap(one.writer())
        one.check_complete()
    return tally


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def main() -> int:
    """Kill, print the figures, fail when one that must be zero is not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=120)
    chosen = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "kills"
        tallies = {
            "at every point": deaths_at_every_point(place),
            "at random": random_deaths(place, chosen.kills, chosen.seed, chosen.trials),
        }
    for name, tally in tallies.items():
        print(f"{name}: {msgspec.json.encode(tally).decode()}")
    print(f"{time.perf_counter() - started:.1f} s")
    return int(not all(tally.clean for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
