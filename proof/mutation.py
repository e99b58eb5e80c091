"""D18: tests notice mistakes. Small ones are put into the modules that matter most.

Each mistake lives in a process of its own, forked from one that has loaded the libraries of
others. There the tests of the module run, up to the first that fails. Whatever does not end
within its time, or breaks the module altogether, was noticed, too.
"""

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

import msgspec

from proof.claims import Claim, Outcome
from proof.mutants import mutants, mutated

ROOT = Path(__file__).parents[1]
MEMORY = Path("/dev/shm")  # noqa: S108  # pytest makes a directory of its own in it
WANTED = 0.85
# If so many mutants are tried, each module is judged alone, even one that has fewer; below that,
# all of them together.
ENOUGH = 20
MEMORY_BYTES = 4 * 1024**3
CPU_SECONDS = 40
WALL_SECONDS = 240
# What goes wrong in these runs the wrong tool, runs it twice, loses a result or tells a lie.
# Beside the tests at the path of the module, those that look at it from further away.
MODULES: dict[str, tuple[str, ...]] = {
    "core/loop": ("properties/test_runs.py", "runtime/test_session.py"),
    "core/policy": ("core/test_premature_answers.py", "settings/test_contract.py"),
    "core/effects": ("properties/test_at_most_once.py",),
    "core/reply_parsing": ("core/guided", "properties/test_at_most_once.py"),
    "parsing/arguments": ("properties/test_corpus.py",),
    "wire/sse": ("wire/test_assembler.py",),
    "settings/connection": ("runtime/test_transport.py", "runtime/test_retrying_requests.py"),
    "tools/registry": ("tools/test_context.py", "runtime/test_runner.py"),
    "runtime/dispatch": ("tools/test_context.py", "properties/test_at_most_once.py"),
    "eval/storage/store": ("eval/storage/test_database.py",),
}
LIBRARIES = ("pytest", "hypothesis", "msgspec", "aiohttp.web", "click", "jinja2", "rich.console")


class Noticed(msgspec.Struct):
    """The mutants of a module that were tried, and those that no test noticed.

    It is not sound if its tests fail without any.
    """

    module: str
    tried: int = 0
    survivors: list[str] = []
    is_sound: bool = True

    @property
    def score(self) -> float:
        """The share that was noticed."""
        return 1 - len(self.survivors) / max(1, self.tried)


def attempt(size: int, seed: int) -> Outcome:
    """Try `size` mutants of each module."""
    found = [noticed(module, size, seed) for module in MODULES]
    total = sum(one.tried for one in found)
    missed = sum(len(one.survivors) for one in found)
    scores = ", ".join(f"{one.module} {one.score:.0%}" for one in found)
    return Outcome(
        f"{size} mutations in each of {len(MODULES)} modules; the tests of the module; "
        "branch coverage is gated by `make test`",
        total,
        tuple(failures_of(found, alone=size >= ENOUGH)),
        figures=f"{1 - missed / max(1, total):.0%} detected"
        + (f" ({scores})" if size >= ENOUGH else ""),
        is_score=True,
    )


def failures_of(found: Sequence[Noticed], *, alone: bool, wanted: float = WANTED) -> list[str]:
    """Say which scores are too low: those of each module, or that of all of them together.

    A module whose tests fail without a mistake is told in any case: they can notice nothing.
    """
    broken = [one for one in found if not one.is_sound]
    sound = [one for one in found if one.is_sound]
    judged = [*broken, *(sound if alone else [_together(sound)])]
    return [
        f"{one.module}: {one.score:.0%} of {one.tried} noticed; not: {'; '.join(one.survivors)}"
        for one in judged
        if one.score < wanted
    ]


def _together(found: Sequence[Noticed]) -> Noticed:
    """Add up what small samples found."""
    return Noticed(
        "all modules",
        sum(one.tried for one in found),
        [f"{one.module}:{text}" for one in found for text in one.survivors],
    )


def noticed(module: str, size: int, seed: int) -> Noticed:
    """Try mutants of a module."""
    path = ROOT / "surecall" / f"{module}.py"
    source = path.read_text("utf-8")
    every = mutants(ast.parse(source))
    numbers = list(range(len(every)))
    random.Random(f"{seed}{module}").shuffle(numbers)
    found = Noticed(module, 0, [])
    if not survives(path, source, None, suite_of(module)):
        return Noticed(module, 1, ["the tests fail without a mistake"], is_sound=False)
    for number in numbers[:size]:
        found.tried += 1
        if survives(path, source, number, suite_of(module)):
            found.survivors.append(f"{every[number].line} {every[number].text}")
    return found


def suite_of(module: str) -> list[str]:
    """Return the tests that a module must pass: those at its path first."""
    folder, _, name = module.rpartition("/")
    beside = sorted((ROOT / "tests" / folder).glob(f"test_{name}*.py"))
    further = [ROOT / "tests" / test for test in MODULES.get(module, ())]
    return [str(path) for path in (*beside, *further)]


class MutantLoader(importlib.machinery.SourceFileLoader):
    """Loads a module with a mistake in it."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        super().__init__(name, str(path))
        self._tree = tree

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the mutant, not of the file."""
        del fullname
        code: CodeType = compile(self._tree, self.path, "exec")
        return code


class MutantFinder(importlib.abc.MetaPathFinder):
    """Finds the mutant in the place of its module."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self.name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        self._loader = MutantLoader(self.name, path, tree)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find one module only."""
        del path, target
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, loader=self._loader)


def survives(path: Path, source: str, number: int | None, tests: Sequence[str]) -> bool:
    """Whether all tests pass although there is a mistake; without a number, there is none."""
    for library in LIBRARIES:
        importlib.import_module(library)
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
    code = 1
    try:
        code = _passed(path, source, number, tests)
    finally:
        os._exit(code)


def _passed(path: Path, source: str, number: int | None, tests: Sequence[str]) -> int:
    import pytest  # noqa: PLC0415  # in the process that was forked

    if MEMORY.is_dir():
        os.environ["TMPDIR"] = str(MEMORY)  # a busy disk takes its time
    signal.alarm(WALL_SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for name in [name for name in sys.modules if name.partition(".")[0] in {"surecall", "tests"}]:
        del sys.modules[name]
    if number is not None:
        sys.meta_path.insert(0, MutantFinder(path, mutated(source, number)))
    wanted = "not processes and not slow and not browser"
    # Else pytest loads the modules of every package that has a plugin, ours too, in its own way.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = ["-x", "-q", "-p", "no:cacheprovider"]
    options += ["-p", "_hypothesis_pytestplugin", "--hypothesis-profile", "quick"]
    # The libraries were loaded before pytest could look at their assertions.
    options += ["--no-header", "--tb=no", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*options, "-m", wanted, *tests]))


CLAIM = Claim(
    "D18",
    "The tests detect small mutations in the most important modules.",
    attempt,
    (2, 25, 1000),
    long=True,
)
