"""What importing a runner loads: little, and nothing that only a run, or a mistake, needs."""

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

import pytest

from tests.support.project_files import ROOT

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
    "surecall.core.reply_parsing",
    "surecall.core.loop",
    "surecall.core.streaming",
    "surecall.runtime.session",
    "surecall.wire.assembler",
    "surecall.wire.dialects",
    "surecall.core.protocols",
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


# An import that only a string or a document has is seen by no type checker.
_IMPORT = re.compile(r"^[ \t]*from (surecall[\w.]*) import ([\w, ]+)$", re.MULTILINE)


def missing_names(text: str) -> Iterator[str]:
    """Find names that a text imports and that do not exist."""
    for module, names in _IMPORT.findall(text):
        found = importlib.import_module(module)
        for name in re.findall(r"(\w+)(?: as \w+)?", names):
            if not hasattr(found, name) and not find_spec(f"{module}.{name}"):
                yield f"{module}.{name}"


def test_what_strings_and_documents_import_exists() -> None:
    folders = ("bench", "docs", "examples", "proof", "scripts", "tests")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    texts = {path: path.read_text("utf-8") for path in paths if path.suffix in {".md", ".py"}}

    assert {str(path): [*missing_names(text)] for path, text in texts.items()} == {
        str(path): [] for path in texts
    }
