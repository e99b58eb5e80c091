"""Run the tests beside busy processes: whoever depends on the clock is found out.

    python scripts/loaded_tests.py --busy 16 -- -n 2 --clock-shift 1e7

What follows `--` goes to pytest. The busy processes end with this one, whatever happens to it.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST_S = 4 * 3600
# Busy until the pipe to its parent is closed, which also happens when that is killed.
BUSY = """
import os, threading
def end():
    os.read(0, 1)
    os._exit(0)
threading.Thread(target=end, daemon=True).start()
while True:
    pass
"""


@contextmanager
def busy(count: int) -> Iterator[list[int]]:
    """Keep so many processes busy while the block lasts; yield their ids."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            process = subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-c", BUSY], stdin=subprocess.PIPE
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            started.append(process.pid)
        yield started


def main() -> int:
    """Run pytest under load; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--busy", type=int, default=16, help="how many processes, 16 by default")
    parser.add_argument("--longest", type=float, default=LONGEST_S, help="seconds before it ends")
    parser.add_argument("arguments", nargs="*", help="arguments of pytest")
    chosen = parser.parse_args()
    command = [sys.executable, "-m", "pytest", *chosen.arguments]
    with busy(chosen.busy) as started:
        print(f"{len(started)} busy processes: {started}", flush=True)
        return subprocess.run(command, cwd=ROOT, timeout=chosen.longest, check=False).returncode  # noqa: S603 - as above


if __name__ == "__main__":
    sys.exit(main())
