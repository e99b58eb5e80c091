"""No test depends on the clock: none reads it, sleeps for a while, or limits what must happen.

Tests in virtual time may sleep, since nothing waits there. `tests/support/timing.py` provides
virtual time, waiting for events, and counted steps.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.support.project_files import ROOT, TESTS

CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time"}
READINGS = CLOCKS | {f"{name}_ns" for name in CLOCKS}
LIMITS = {"timeout", "wait_for"}
# Where the clock may be used, and why.
ALLOWED = {
    "tests/core/test_policy_guards.py: slow": "a tool of runs in virtual time",
    "tests/properties/test_parallel_calls.py: _work": "a tool of runs in virtual time",
    **{
        f"tests/properties/test_unknown_outcomes.py: {name}": "runs in virtual time"
        for name in ("_ignore_cancellation", "_play", "_wait")
    },
    "tests/eval/running/test_harness.py: test_never_more_trials_at_once_than_jobs": "virtual time",
    "tests/eval/running/test_trial_run.py: "
    "test_a_trial_that_takes_too_long_is_spoiled_and_the_others_go_on": "virtual time",
    "tests/eval/running/test_harness.py: "
    "test_the_first_wish_to_stop_lets_trials_under_way_end": "virtual time",
    "tests/eval/running/test_harness.py: "
    "test_after_one_wish_a_trial_has_all_the_time_that_a_trial_may_take": "virtual time",
    "tests/eval/running/cluster/test_dask_engine.py: run": "virtual time",
    "tests/eval/running/cluster/test_worker_trials.py: "
    "test_no_more_are_under_way_than_its_shares_allow": "virtual time",
    "tests/eval/running/cluster/test_worker_trials.py: "
    "test_a_lane_that_was_closed_elsewhere_waits_and_opens_by_itself": "virtual time",
    "tests/support/engine/xllamacpp.py: __init__": "native code that ends with its parent only",
    "tests/runtime/test_tool_turn.py: after": "virtual time",
    "tests/support/evaluations.py: send": "virtual time",
    "tests/support/evaluations.py: _asked": "virtual time",
    "tests/support/timing.py: until": "nothing announces what it waits for",
    "tests/support/timing.py: until_soon": "nothing announces what it waits for",
}
# What is only type-checked never runs.
SOURCES = sorted(path for path in TESTS.rglob("*.py") if path.parent.name != "typing")


def uses_of_the_clock(source: str) -> list[str]:
    """Name what a module does with the clock, each with the function or class that does it."""
    tree = ast.parse(source)
    return [f"{where}: {use}" for where, node in outlined(tree) for use in uses_in(node)]


def outlined(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Return each function and class at the top, the methods of a class one by one."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not is_virtual(node):
            for part in node.body:
                yield getattr(part, "name", node.name), part
        elif not is_virtual(node):
            yield getattr(node, "name", "the module"), node


def is_virtual(node: ast.AST) -> bool:
    """Whether all that happens here happens in virtual time."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    constants = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
    arguments = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return "virtual_time" in names or "virtual" in constants | arguments


def uses_in(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        match each:
            case ast.Call(ast.Attribute(_, name) | ast.Name(name), arguments):
                if is_use(name, arguments):
                    yield f"{name}({', '.join(map(ast.unparse, arguments))})"
            case ast.keyword("timeout", ast.Constant(int() | float() as seconds)):
                yield f"timeout={seconds}"
            case _:
                pass


def is_use(name: str, arguments: list[ast.expr]) -> bool:
    """Whether a call reads a clock, sleeps, or sets a limit in numbers."""
    if name in READINGS:
        return not arguments
    numbers = [each.value for each in arguments if isinstance(each, ast.Constant)]
    if name == "sleep":
        return numbers != [0]
    return name in LIMITS and any(isinstance(each, int | float) for each in numbers)


def test_no_test_depends_on_the_clock() -> None:
    found = [
        f"{path.relative_to(ROOT).as_posix()}: {use}"
        for path in SOURCES
        for use in uses_of_the_clock(path.read_text("utf-8"))
    ]
    places = {": ".join(each.split(": ")[:2]) for each in found}

    assert [each for each in found if ": ".join(each.split(": ")[:2]) not in ALLOWED] == []
    assert sorted(ALLOWED.keys() - places) == [], "allowed, but not there"


@pytest.mark.parametrize(
    "line",
    [
        "assert time.monotonic() - started < 5",
        "assert perf_counter() - began < 1.0",
        "seconds = time.process_time()",
        "assert abs(event.at - time.time()) < 60",
        "deadline = loop.time() + 5",
        "time.sleep(0.05)",
        "await asyncio.sleep(0.01 * number)",
        "await asyncio.sleep(60)",
        "await asyncio.wait_for(done.wait(), 5)",
        "async with asyncio.timeout(0.5): pass",
        "subprocess.run([], timeout=20)",
    ],
)
def test_a_test_that_depends_on_the_clock_is_found(line: str) -> None:
    assert len(uses_of_the_clock(f"async def test_it():\n    {line}")) == 1


@pytest.mark.parametrize(
    "source",
    [
        "async def test_it():\n    await asyncio.sleep(0)\n    await done.wait()",
        "@pytest.mark.usefixtures('virtual')\ndef test_it():\n    asyncio.run(asyncio.sleep(3600))",
        "def test_it(virtual):\n    asyncio.run(asyncio.sleep(3600))",
        "def test_it():\n    with virtual_time():\n        asyncio.run(asyncio.sleep(3600))",
        "async def test_it():\n    async with asyncio.timeout(PATIENCE_S): pass",
        "def test_it():\n    subprocess.run([], timeout=PATIENCE_S)",
    ],
)
def test_a_test_that_does_not_is_left_alone(source: str) -> None:
    assert uses_of_the_clock(source) == []
