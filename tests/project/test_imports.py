"""What importing a runner loads: little, and nothing that only a run, or a mistake, needs."""

import subprocess
import sys
from typing import Final

import pytest

# They make up most of what a run loads; a program that names a runner need not wait for them.
LATE: Final = {
    "aiohttp",
    "asyncio",
    "concurrent.futures",
    "difflib",
    "email",
    "hashlib",
    "html",
    "http",
    "importlib.metadata",
    "importlib.resources",
    "jsonschema_rs",
    "logging",
    "opentelemetry",
    "pathlib",
    "queue",
    "random",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "surecall.core.inbound",
    "surecall.core.loop",
    "surecall.core.streaming",
    "surecall.runtime.session",
    "surecall.wire.assembler",
    "surecall.wire.dialects",
    "surecall.wire.protocols",
    "tempfile",
    "tomllib",
}

NEWLY_LOADED = """
import sys
before = set(sys.modules)
from surecall import OpenAICompatible, ToolLoopRunner, presets
print(*sys.modules.keys() - before)
"""
MANY_FIRST_RUNNERS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from surecall import ToolLoopRunner

together = Barrier(8)

def make(number):
    together.wait()
    return ToolLoopRunner(client="http://127.0.0.1:9", model=f"m{number}").model

with ThreadPoolExecutor(8) as pool:
    print(*pool.map(make, range(8)))
"""


def printed(code: str) -> list[str]:
    """Return the words that a fresh interpreter prints."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.split()


@pytest.mark.processes
def test_importing_a_runner_loads_neither_what_runs_it_nor_what_mistakes_need() -> None:
    loaded = set(printed(NEWLY_LOADED))

    assert "surecall.runtime.runner" in loaded
    assert loaded & LATE == set()


@pytest.mark.processes
def test_threads_may_make_the_first_runners_at_the_same_time() -> None:
    assert printed(MANY_FIRST_RUNNERS) == [f"m{number}" for number in range(8)]
