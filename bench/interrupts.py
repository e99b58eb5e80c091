"""How long commands take to end: seconds from SIGTERM, and from the second Ctrl-C, to the exit.

.venv/bin/python -m bench.interrupts [BEGINNING]
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.commands import is_group_empty
from tests.support.timing import until
from tests.support.waiting_commands import COMMANDS, Waiting, press_ctrl_c, waiting


def main() -> None:
    """Print a row for each command."""
    print(f"{'command':28} {'SIGTERM':>9} {'2 Ctrl-C':>9}   exit codes")
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, case in COMMANDS.items():
        if not name.startswith(wanted):
            continue
        (term, first), (both, second) = _measured(case, _terminate), _measured(case, _interrupt)
        print(f"{name:28} {term:8.2f}s {both:8.2f}s   {first}, {second}", flush=True)


def _measured(case: Waiting, end: Callable[[int], None]) -> tuple[float, int]:
    """Return how long a command takes to end, and its exit code."""
    with tempfile.TemporaryDirectory() as folder, waiting(case, Path(folder)) as process:
        began = time.perf_counter()
        end(process.pid)
        code = process.wait()
        seconds = time.perf_counter() - began
        until(lambda: is_group_empty(process.pid))
        return seconds, code


def _terminate(leader: int) -> None:
    os.kill(leader, signal.SIGTERM)


def _interrupt(leader: int) -> None:
    press_ctrl_c(leader)
    press_ctrl_c(leader)


if __name__ == "__main__":
    main()
