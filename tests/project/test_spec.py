"""Every promise has a test, and every claim has a promise."""

import ast

from tests.support.project_files import TESTS
from tests.support.spec import SPEC


def claims() -> dict[str, list[str]]:
    """Collect `@proves(...)` from the sources of all tests."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "proves":
                    for arg in decorator.args:
                        assert isinstance(arg, ast.Constant), path
                        found.setdefault(str(arg.value), []).append(f"{path.name}::{node.name}")
    return found


def test_every_promise_is_proved_by_a_test() -> None:
    assert sorted(SPEC.keys() - claims().keys()) == []


def test_every_claim_is_a_promise() -> None:
    assert sorted(claims().keys() - SPEC.keys()) == []
