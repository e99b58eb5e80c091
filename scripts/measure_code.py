"""Measures how large the package is, and how far a reader walks to follow one run.

Prints each figure beside its target. The path of a run is the sequence of functions that it calls
in this package: how many modules it visits, how often it changes from one module to another, and
how often from one top-level package to another.

    python scripts/measure_code.py [--no-paths]
"""

import ast
import asyncio
import io
import itertools
import sys
import tokenize
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SOURCE = ROOT / "surecall"
FILES = {"": 300, "eval": 75, "cli": 24, "runtime": 22, "parsing": 12, "proxy": 22}
MAX_CODE, MAX_ENTRIES, MAX_SUPPORT = 42_000, 14, 35
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_SKIPPED |= {tokenize.ENCODING, tokenize.ENDMARKER}
_STARTS = {tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.ENCODING}


class PathLength(NamedTuple):
    """The length of a path: modules visited, changes of module, changes of package."""

    modules: int
    changes: int
    across: int


PATHS = {"run": PathLength(40, 220, 0), "trial": PathLength(65, 550, 0)}
PATHS["proxied request"] = PathLength(45, 180, 0)


def main() -> int:
    """Print every figure."""
    print(f"{'figure':<34}{'now':>8}{'target':>9}")
    for name, now, target in sizes():
        print(f"{name:<34}{now:>8,}{target:>9,}")
    if "--no-paths" not in sys.argv:
        for name, wanted in PATHS.items():
            found = path_length(SCENES[name])
            print(f"{f'{name}: modules visited':<34}{found.modules:>8,}{wanted.modules:>9,}")
            print(f"{f'{name}: changes of module':<34}{found.changes:>8,}{wanted.changes:>9,}")
            print(f"{f'{name}: changes of package':<34}{found.across:>8,}")
    return 0


def sizes() -> Iterator[tuple[str, int, int]]:
    """Return each figure about size, with its target."""
    for folder, target in FILES.items():
        yield f"modules of {folder or 'the package'}", len(sources(SOURCE / folder)), target
    yield "lines of code", sum(map(lines_of_code, sources(SOURCE))), MAX_CODE
    hidden = {"__init__.py", "__main__.py", "__pycache__", "py.typed"}
    entries = [path for path in SOURCE.iterdir() if path.name not in hidden]
    yield "entries of the root", len(entries), MAX_ENTRIES
    yield "import rings", len(rings(imports())), 0
    yield "modules of tests/support", len(sources(ROOT / "tests" / "support")), MAX_SUPPORT
    yield "test files in the root of tests", len([*(ROOT / "tests").glob("test_*.py")]), 0


def sources(folder: Path) -> list[Path]:
    """List the Python files below a folder."""
    return sorted(folder.rglob("*.py"))


def lines_of_code(path: Path) -> int:
    """Count the lines that hold code: no blank lines, comments, or docstrings."""
    rows: set[int] = set()
    before = tokenize.ENCODING
    for token in tokenize.tokenize(io.BytesIO(path.read_bytes()).readline):
        is_docstring = token.type == tokenize.STRING and before in _STARTS
        if token.type not in _SKIPPED and not is_docstring:
            rows.update(range(token.start[0], token.end[0] + 1))
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            before = token.type
    return len(rows)


def imports() -> dict[str, set[str]]:
    """Return which modules each module imports, at any depth."""
    names = {_dotted(path): path for path in sources(SOURCE)}
    found: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                each = {f"{node.module}.{alias.name}" for alias in node.names} & names.keys()
                found[name] |= each or {node.module} & names.keys()
    return found


def _dotted(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


def rings(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the groups of modules that import each other; a package's `__init__` is lazy."""
    graph = {name: found for name, found in graph.items() if not _is_package(name)}
    reached = {name: _reachable(graph, name) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        ring = {other for other in reached[name] if name in reached.get(other, ())}
        if ring and ring not in found:
            found.append(ring)
    return found


def _is_package(name: str) -> bool:
    return (ROOT / name.replace(".", "/")).is_dir()


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for name in graph.get(left.pop(), ()):
            if name not in seen:
                seen.add(name)
                left.append(name)
    return seen


# Paths


def path_length(scene: Callable[[], Callable[[], Any]]) -> PathLength:
    """Play a scene twice, and measure the path of the second time."""
    play = scene()
    play()
    path: list[str] = []
    prefix = f"{SOURCE}/"

    def record(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(prefix):
            path.append(name[len(prefix) :])

    sys.setprofile(record)
    try:
        play()
    finally:
        sys.setprofile(None)
    steps = [*itertools.pairwise(path)]
    changes = [(a, b) for a, b in steps if a != b]
    across = [1 for a, b in changes if a.split("/")[0] != b.split("/")[0]]
    return PathLength(len({*path}), len(changes), len(across))


def _add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def plain_run() -> Callable[[], Any]:
    """Prepare a run with one call, its model scripted."""
    from surecall import ToolLoopRunner  # noqa: PLC0415 - `sizes` needs no package
    from surecall.testing import ScriptedModel, calls, says  # noqa: PLC0415 - see above

    answers = [calls("_add", a=1, b=2), says("3")]
    model = ScriptedModel(*answers, *answers)
    runner = ToolLoopRunner(client=model, model="m", tools=[_add])

    def play() -> None:
        assert asyncio.run(runner.run("1 + 2?")).assistant_text == "3"  # noqa: S101 - it must work

    return play


def trial() -> Callable[[], Any]:
    """Prepare a trial of the happy path; its simulated model runs in another thread."""
    from surecall import OpenAICompatible  # noqa: PLC0415 - see above
    from surecall.eval.running.trial_run import TrialCase, make_cell_setup, run_trial  # noqa: PLC0415
    from surecall.eval.scenarios.builtin_scenarios import SCENARIOS  # noqa: PLC0415 - see above
    from surecall.eval.storage.trial import Cell, Key  # noqa: PLC0415 - see above
    from surecall.simulator import Simulator  # noqa: PLC0415 - see above

    (scenario,) = [each for each in SCENARIOS if each.id == "happy_path"]
    model = "sim/clean"
    setup = make_cell_setup(model)
    key = Key(Cell(model), scenario.id, 1)

    async def run(url: str) -> None:
        result, _ = await run_trial(key, TrialCase(scenario, setup), OpenAICompatible(url))
        assert result.ok  # noqa: S101 - it must have worked

    def play() -> None:
        with Simulator() as simulator:
            asyncio.run(run(simulator.url))

    return play


def proxied_request() -> Callable[[], Any]:
    """Prepare one clean request with a tool through the proxy, its upstream in another thread."""
    import aiohttp  # noqa: PLC0415 - see above

    from surecall.proxy import Proxy  # noqa: PLC0415 - see above
    from surecall.testing import ScriptedProvider, says  # noqa: PLC0415 - see above

    function = {"name": "add", "parameters": {"type": "object", "properties": {}}}
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    body["tools"] = [{"type": "function", "function": function}]

    async def run(upstream: str) -> None:
        async with Proxy(upstream) as proxy, aiohttp.ClientSession() as session:
            url = f"{proxy.url}/v1/chat/completions"
            async with session.post(url, json=body) as response:
                assert response.status == HTTPStatus.OK  # noqa: S101 - it must have worked

    def play() -> None:
        with ScriptedProvider(says("Hello.")) as upstream:
            asyncio.run(run(upstream.url))

    return play


SCENES: dict[str, Callable[[], Callable[[], Any]]] = {
    "run": plain_run,
    "trial": trial,
    "proxied request": proxied_request,
}

if __name__ == "__main__":
    sys.exit(main())
