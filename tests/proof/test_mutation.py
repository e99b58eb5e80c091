"""A mistake that no test notices is told, and one that a test notices is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from proof.mutation import ENOUGH, MODULES, ROOT, Noticed, failures_of, suite_of

TRY = """
from pathlib import Path
from proof.mutation import survives
path, test = Path({path!r}), {test!r}
print(survives(path, path.read_text(), {number}, [test]))
"""
MODULE = ROOT / "surecall" / "core" / "loop.py"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("test", "number", "survives"),
    [
        ("core/test_loop.py", None, True),
        ("core/test_loop.py", 0, False),
        ("parsing/test_names.py", 0, True),
    ],
)
def test_a_mistake_is_noticed_by_tests_that_look(
    test: str, number: int | None, *, survives: bool
) -> None:
    command = TRY.format(path=str(MODULE), test=str(ROOT / "tests" / test), number=number)
    ran = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == str(survives), ran.stderr


def test_small_samples_are_judged_together_and_large_ones_alone() -> None:
    good, bad = Noticed("a", 10, []), Noticed("b", 10, ["1 x", "2 y"])
    assert failures_of([good, bad]) == []
    (told,) = failures_of([bad])
    assert told == "all modules: 80% of 10 noticed; not: b:1 x; b:2 y"
    large = [Noticed("a", ENOUGH, []), Noticed("b", ENOUGH, ["1 x"] * 4)]
    assert [line[:9] for line in failures_of(large)] == ["b: 80% of"]


def test_every_module_has_tests_at_its_path_and_further_away() -> None:
    for module in MODULES:
        assert (ROOT / "surecall" / f"{module}.py").exists()
        tests = suite_of(module)
        assert Path(tests[0]).stem.startswith(f"test_{module.rpartition('/')[2]}")
        assert all(Path(test).exists() for test in tests)
