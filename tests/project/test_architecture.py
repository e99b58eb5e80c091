"""The shape of the code base: small files, small functions, imports that point down."""

import ast
import itertools
import pydoc
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import surecall
from tests.support.project_files import ROOT

SOURCES = sorted(
    path
    for folder in ("surecall", "tests", "examples", "bench", "proof", "scripts")
    for path in (ROOT / folder).rglob("*.py")
)
MAX_FILE, MAX_FUNCTION, MAX_LOOP, MAX_NEXT_MOVE = 600, 40, 75, 10


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.processes
def test_import_contracts_hold() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    ran = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def too_long(path: Path) -> Iterator[str]:
    """Report a file, and functions of it, that are longer than allowed."""
    name, lines = path.relative_to(ROOT), len(path.read_text("utf-8").splitlines())
    if lines > MAX_FILE:
        yield f"{name}: {lines} lines, more than {MAX_FILE}"
    for node in functions(path):
        if length(node) > MAX_FUNCTION:
            yield f"{name}: {node.name} has {length(node)} lines, more than {MAX_FUNCTION}"


def test_files_and_functions_can_be_read_in_one_sitting() -> None:
    assert len(SOURCES) > 500
    assert [problem for path in SOURCES for problem in too_long(path)] == []


def test_a_long_file_and_a_long_function_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("def work():\n" + "    pass\n" * MAX_FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.ROOT", tmp_path)
        assert list(too_long(path)) == [
            "long.py: 601 lines, more than 600",
            "long.py: work has 601 lines, more than 40",
        ]


def test_the_loop_fits_on_one_screen() -> None:
    path = ROOT / "surecall" / "core" / "loop.py"

    assert len(path.read_text("utf-8").splitlines()) <= MAX_LOOP
    (next_move,) = [node for node in functions(path) if node.name == "next_move"]
    assert length(next_move) <= MAX_NEXT_MOVE


def test_help_begins_with_the_api() -> None:
    shown = pydoc.plain(pydoc.render_doc(surecall))
    words = set(re.findall(r"\w+", surecall.__doc__ or ""))

    assert set(surecall.__all__) - words == {"__version__"}
    assert "ToolLoopRunner(" in shown[:800]
    assert "class ToolLoopRunner" in shown
    assert "RunOptions" in shown[shown.index(" run_sync(") :][:300]


def test_every_dependency_is_constrained_by_name_and_version_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    lines = (ROOT / "constraints.txt").read_text("utf-8").split()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    groups = project["dependency-groups"].values()
    wanted = [*project["project"]["dependencies"], *itertools.chain(*groups)]

    assert all("==" in line and "/" not in line for line in lines)
    assert {name.partition(">=")[0].lower() for name in wanted} <= pinned
