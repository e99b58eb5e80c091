"""The types of the API, seen by a type checker: right uses pass, wrong ones are told."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project_files import ROOT

FOLDER = ROOT / "tests" / "project" / "typing"
MARK = re.compile(r"  # type: ignore\[([\w, -]+)\]")


def found_in(path: Path) -> set[tuple[int, str]]:
    """Return the lines at which mypy finds errors, with their codes."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", str(path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = re.findall(r":(\d+): error: .*\[([\w-]+)\]$", ran.stdout, re.MULTILINE)
    assert ran.stdout.count(": error:") == len(errors), ran.stdout + ran.stderr
    return {(int(line), code) for line, code in errors}


@pytest.mark.processes
def test_typical_uses_pass() -> None:
    assert found_in(FOLDER / "api.py") == set()


@pytest.mark.processes
def test_each_wrong_use_is_an_error_and_nothing_else_is(tmp_path: Path) -> None:
    text = (FOLDER / "mistakes.py").read_text("utf-8")
    unmarked = tmp_path / "mistakes.py"
    unmarked.write_text(MARK.sub("", text), "utf-8")
    marked = {
        (number, code)
        for number, line in enumerate(text.splitlines(), start=1)
        for codes in MARK.findall(line)
        for code in codes.split(", ")
    }

    assert len(marked) > 20
    assert found_in(unmarked) == marked
