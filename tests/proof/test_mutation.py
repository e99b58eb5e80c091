"""A mistake that no test notices is told, and one that a test notices is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from proof import mutation
from proof.claims import Tier
from proof.mutation import MODULES, ROOT, Noticed, failures_of, suite_of

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


def test_small_samples_are_judged_together() -> None:
    good, bad = Noticed("a", 10, []), Noticed("b", 10, ["1 x", "2 y"])
    assert failures_of([good, bad], alone=False) == []
    (told,) = failures_of([bad], alone=False)
    assert told == "all modules: 80% of 10 noticed; not: b:1 x; b:2 y"
    assert failures_of([], alone=False) == []


def test_large_samples_are_judged_alone_even_beside_a_module_with_few_mutants() -> None:
    found = [Noticed("few", 5, ["1 x"]), Noticed("many", 25, ["2 y"] * 4), Noticed("good", 9, [])]
    assert failures_of(found, alone=True) == [
        "few: 80% of 5 noticed; not: 1 x",
        "many: 84% of 25 noticed; not: 2 y; 2 y; 2 y; 2 y",
    ]


def test_a_module_whose_tests_fail_anyway_is_told_however_good_the_others_are() -> None:
    broken = Noticed("a", 1, ["the tests fail without a mistake"], is_sound=False)
    good = [Noticed(module, 25, []) for module in "bcd"]
    for alone in (True, False):
        (told,) = failures_of([broken, *good], alone=alone)
        assert told == "a: 0% of 1 noticed; not: the tests fail without a mistake"


@pytest.mark.parametrize(
    ("tier", "told"), [("ci", []), ("hour", [*MODULES]), ("release", [*MODULES])]
)
def test_every_tier_but_the_smallest_names_each_module_with_a_low_score(
    monkeypatch: pytest.MonkeyPatch, tier: Tier, told: list[str]
) -> None:
    def noticed(module: str, size: int, _seed: int) -> Noticed:
        found = min(size, 4)
        return Noticed(module, found, ["1 x"] if found == 4 else [])

    monkeypatch.setattr(mutation, "noticed", noticed)
    outcome = mutation.attempt(mutation.CLAIM.size(tier), 1)
    assert outcome.failures == tuple(f"{name}: 75% of 4 noticed; not: 1 x" for name in told)


def test_every_module_has_tests_at_its_path_and_further_away() -> None:
    for module in MODULES:
        assert (ROOT / "surecall" / f"{module}.py").exists()
        tests = suite_of(module)
        assert Path(tests[0]).stem.startswith(f"test_{module.rpartition('/')[2]}")
        assert all(Path(test).exists() for test in tests)
