"""Kill a whole evaluation again and again, and see that it comes out as if nobody had.

    python scripts/kill_eval.py --kills 100 --seed 0

The command of a user runs against the simulator and is killed with SIGKILL at random moments;
then it runs to its end. No trial may be lost or repeated, and the summaries must be those of a
run that nobody disturbed, apart from times.
"""

import argparse
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

COMMAND = ("eval", "-m", "all", "-n", "60", "-q", "-j", "4")
LONGEST_S = 2.5
TIMES = frozenset({"ts", "elapsed_ms", "output_dir", "report_path", "ms_p50", "ms_p95"})


def started(folder: Path) -> subprocess.Popen[bytes]:
    """Start the evaluation in a folder."""
    return subprocess.Popen(  # noqa: S603  # our own interpreter and program
        [sys.executable, "-m", "surecall", *COMMAND],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finished(folder: Path) -> None:
    """Run the evaluation to its end."""
    with started(folder) as process:
        _, err = process.communicate()
    if process.returncode not in {0, 3}:
        raise SystemExit(f"the evaluation ended with {process.returncode}: {err.decode()}")


def recorded(folder: Path) -> dict[tuple[Any, ...], str]:
    """Return what is on the disk, by key; times left out."""
    found: dict[tuple[Any, ...], str] = {}
    for path in folder.glob(".surecall/runs/*/trials.sqlite"):
        with closing(sqlite3.connect(path)) as connection:
            query = "SELECT model, profile, strategy, scenario, trial, record FROM trials"
            for *key, record in connection.execute(query):
                found[tuple(key)] = record
    return found


def timeless(value: Any) -> Any:
    """Return a summary without what depends on the clock."""
    match value:
        case dict():
            return {
                key: timeless(item)
                for key, item in value.items()
                if key not in TIMES and not key.endswith(("_ms_p50", "_ms_p95"))
            }
        case list():
            return [timeless(item) for item in value]
        case _:
            return value


def summaries(folder: Path) -> dict[str, Any]:
    """Read the summaries of the only run in a folder."""
    (directory,) = folder.glob(".surecall/runs/*")
    names = sorted(path.name for path in directory.glob("summary*.json"))
    decoded = {name: msgspec.json.decode((directory / name).read_bytes()) for name in names}
    return {name: timeless(document) for name, document in decoded.items()}


def killed(folder: Path, kills: int, generator: random.Random) -> tuple[int, int]:
    """Kill the evaluation many times; return how many trials were ever lost or changed."""
    lost = changed = 0
    before: dict[tuple[Any, ...], str] = {}
    for _ in range(kills):
        with started(folder) as process:
            time.sleep(generator.uniform(0.2, LONGEST_S))
            process.kill()
            process.communicate()
        now = recorded(folder)
        lost += sum(key not in now for key in before)
        changed += sum(now.get(key, record) != record for key, record in before.items())
        before = now
    print(f"{kills} kills; {len(before)} trials were recorded by then", flush=True)
    return lost, changed


def main() -> int:
    """Kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        disturbed, left_alone = Path(one), Path(other)
        generator = random.Random(chosen.seed)  # noqa: S311  # no secret
        lost, changed = killed(disturbed, chosen.kills, generator)
        finished(disturbed)
        finished(left_alone)
        same = summaries(disturbed) == summaries(left_alone)
        total = len(recorded(disturbed))
        runs = len(list(disturbed.glob(".surecall/runs/*")))
    print(f"lost {lost}, changed {changed}, runs started {runs}, trials {total}, same {same}")
    return int(bool(lost or changed or runs != 1 or not same))


if __name__ == "__main__":
    sys.exit(main())
