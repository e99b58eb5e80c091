"""The shape of the code base: small files, small functions, imports that point down."""

import ast
import itertools
import pydoc
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import surecall
from tests.support.paths import ROOT

SOURCES = sorted(
    path
    for folder in ("surecall", "tests", "examples", "bench", "proof", "scripts")
    for path in (ROOT / folder).rglob("*.py")
)
MAX_FILE, MAX_FUNCTION, MAX_LOOP, MAX_NEXT_MOVE = 600, 40, 60, 10


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


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_FILE
    assert [node.name for node in functions(path) if length(node) > MAX_FUNCTION] == []


def test_the_loop_fits_on_one_screen() -> None:
    path = ROOT / "surecall" / "core" / "loop.py"

    assert len(path.read_text("utf-8").splitlines()) <= MAX_LOOP
    (next_move,) = [node for node in functions(path) if node.name == "next_move"]
    assert length(next_move) <= MAX_NEXT_MOVE


def test_no_public_name_is_also_a_module_that_could_take_its_place() -> None:
    modules = {path.stem for path in (ROOT / "surecall").iterdir()}

    assert modules & set(surecall.__all__) == set()
    with pytest.raises(AttributeError):
        _ = surecall.nonsense  # type: ignore[attr-defined]  # that is the point
    assert dir(surecall) == surecall.__all__


def test_the_public_list_is_sorted_and_complete() -> None:
    homes = {name for names in surecall._HOMES.values() for name in names}

    assert sorted(surecall.__all__) == surecall.__all__
    assert all(hasattr(surecall, name) for name in surecall.__all__)
    assert set(surecall.__all__) == homes | {"presets", "__version__"}


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
