"""The plugin in pytest itself: its fixtures, its marker, and what a failing test shows."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import surecall
from surecall import ToolLoopRunner, save_trace
from surecall.runtime.recording import GLOBAL_OBSERVERS
from surecall.testing import ScriptedModel, calls, says
from tests.support.project_files import ROOT

# What a run of pytest inside of this one imports, it forgets at its end; and half of a package that
# is imported anew does not go with its other half.
for module in pkgutil.walk_packages(surecall.__path__, "surecall."):
    if not module.name.startswith(
        ("surecall.cli", "surecall.eval", "surecall.proxy", "surecall.__")
    ):
        importlib.import_module(module.name)

PLUGIN = ("-p", "no:surecall", "-p", "surecall.testing.pytest_plugin")
RUNNER = """
import pytest
from surecall import OpenAICompatible, RetryPolicy, ToolLoopRunner
from surecall.testing import calls, says

def add(a: int, b: int) -> int:
    "Add."
    return a + b

def ask(client, model="any", **more):
    runner = ToolLoopRunner(client=client, model=model, tools=[add], **more)
    try:
        return runner.run_sync("What is 1 and 2?")
    finally:
        runner.close()
"""
FIXTURES = """
def test_model(scripted_model):
    model = scripted_model(calls("add", a=1, b=2), says("3"))
    assert ask(model).assistant_text == "3"
    assert len(model.requests) == 2

def test_provider(scripted_provider):
    first = scripted_provider(says("one"), api_key="sk-1")
    second = scripted_provider(says("two"), repeat=True)
    assert ask(OpenAICompatible(first.url, api_key="sk-1")).assistant_text == "one"
    assert [ask(second.url).assistant_text for _ in range(2)] == ["two", "two"]

def test_simulator(simulator):
    assert ask(simulator.url, "sim/clean").assistant_text == "Done."
    assert len(simulator.requests) == 1

def test_recording(replayed, recorded_model):
    assert replayed("run.jsonl").assistant_text == "3"
    again = ask(recorded_model("run.jsonl"))
    assert again.run.results[0].envelope["data"] == {"value": 3}
    assert replayed(again.trace).run == again.run

@pytest.mark.surecall_trace("run.jsonl")
@pytest.mark.surecall_trace("two.jsonl", run_id="RUN")
def test_marked(): ...
"""
FAILING = """
def test_alone(): assert False

def test_runs(scripted_model):
    for answer in range(7):
        ask(scripted_model(calls("add", a=answer, b=2), says("3")))
    assert False

def test_long(scripted_model):
    ask(scripted_model(*(calls("add", a=number, b=2) for number in range(60)), says("end")),
        config={"max_turns": 99})
    assert False

def test_script(scripted_provider):
    once = RetryPolicy(attempts=1)
    ask(scripted_provider(calls("add", a=1, b=2)).url, retry=once)

@pytest.mark.surecall_trace("other.jsonl")
def test_diverged(): ...

@pytest.mark.surecall_trace("nowhere.jsonl")
def test_missing(): ...

@pytest.mark.surecall_trace
def test_pathless(): ...

@pytest.mark.surecall_trace("two.jsonl")
def test_several(): ...

def test_replayed(replayed):
    assert replayed("run.jsonl").assistant_text == "4"
"""


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@pytest.fixture(name="inner")
def inner_fixture(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Prepare a folder with recordings, and a pytest that has our plugin alone."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    traces = []
    for answer in ("3", "three"):
        model = ScriptedModel(calls("add", a=1, b=2), says(answer))
        runner = ToolLoopRunner(client=model, model="any", tools=[add])
        traces.append(runner.run_sync("What is 1 and 2?").trace)
        runner.close()
    folder = pytester.path
    save_trace(traces[0], folder / "run.jsonl")
    save_trace(traces[1], folder / "three.jsonl")
    written = [(folder / name).read_bytes() for name in ("run.jsonl", "three.jsonl")]
    (folder / "two.jsonl").write_bytes(b"".join(written))
    # The checksum of a line is left out: somebody changed the recording by hand.
    sealed = re.sub(rb',"crc":"[0-9a-f]+"', b"", written[0])
    (folder / "other.jsonl").write_bytes(sealed.replace(b"What is 1 and 2?", b"What is 2 and 2?"))
    code = RUNNER + FIXTURES.replace("RUN", traces[1][0].run_id)
    pytester.makepyfile(test_fixtures=code, test_failing=RUNNER + FAILING)
    return pytester


def ran(inner: pytest.Pytester, *options: str) -> pytest.RunResult:
    return inner.runpytest_inprocess(*PLUGIN, "-W", "error", "--strict-markers", *options)


def section(shown: str, test: str) -> str:
    """Return what was shown of a failed test."""
    parts = re.split(r"^_+ (\w+) _+$", shown, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[test]


def test_the_fixtures_and_the_marker_do_what_they_say(inner: pytest.Pytester) -> None:
    ran(inner, "test_fixtures.py").assert_outcomes(passed=5)

    assert GLOBAL_OBSERVERS == []


def test_a_failing_test_shows_the_traces_of_its_runs(inner: pytest.Pytester) -> None:
    result = ran(inner, "test_failing.py")
    shown = result.stdout.str()

    result.assert_outcomes(failed=9, errors=1)
    assert "surecall:" not in section(shown, "test_alone")
    runs = section(shown, "test_runs")
    assert re.findall(r"surecall: run (\d) of 7", runs) == ["3", "4", "5", "6", "7"]
    assert '← add({"a":6,"b":2})' in runs
    long = section(shown, "test_long")
    assert "… 84 lines …" in long
    assert "done: final" in long
    assert GLOBAL_OBSERVERS == []


def test_a_script_that_is_too_short_is_told_beside_the_trace(inner: pytest.Pytester) -> None:
    shown = ran(inner, "test_failing.py", "-k", "test_script").stdout.str()

    assert "The script has 1 answers, but received request 2." in shown
    assert '✓ add {"value":3}' in section(shown, "test_script")


def test_a_trace_that_cannot_be_replayed_is_told_in_one_sentence(inner: pytest.Pytester) -> None:
    shown = ran(inner, "test_failing.py").stdout.str()

    diverged = section(shown, "test_diverged")
    told, _, trace = diverged.strip().partition("\n")
    assert told == (
        "surecall_trace: other.jsonl: turn 0: the request differs from the recorded one"
    )
    assert "surecall: run 1 of 1" in trace
    missing = section(shown, "test_missing").strip()
    assert missing.startswith("surecall_trace: nowhere.jsonl: [Errno 2] No such file")
    assert section(shown, "test_pathless").strip() == (
        "surecall_trace takes one argument, the path of a trace"
    )
    assert "holds 2 runs; pass run_id" in section(shown, "test_several")
    assert "done: final" in section(shown, "test_replayed")


def test_the_marker_is_listed_for_whoever_asks(inner: pytest.Pytester) -> None:
    ran(inner, "--markers").stdout.fnmatch_lines(
        ["@pytest.mark.surecall_trace(path, run_id=None)*"]
    )


def test_the_tests_of_the_documentation_pass(
    inner: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "testing.md").read_text("utf-8")
    first, record, tests = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    exec(compile(first + record, "testing.md", "exec"), {})  # noqa: S102  # it is ours
    inner.makepyfile(test_page=tests)

    ran(inner, "test_page.py").assert_outcomes(passed=4)
    capsys.readouterr()


# What takes a process of its own

LOADED = """
import sys, pytest
before = set(sys.modules)
import surecall.testing.pytest_plugin
print(*sorted(sys.modules.keys() - before))
"""


@pytest.mark.processes
def test_a_run_of_pytest_that_does_not_use_it_loads_next_to_nothing() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    ).stdout.split()

    package = [
        "surecall",
        "surecall.testing",
        "surecall.testing.pytest_plugin",
        "surecall.values",
        "surecall.values.version",
    ]
    assert printed == package


TWICE = """
import pytest
for options in ([], ["-p", "no:surecall"]):
    code = pytest.main(["-q", "-p", "no:langsmith_plugin", *options, "test_it.py"])
    print("exit code", int(code))
"""


@pytest.mark.processes
def test_it_is_found_by_its_entry_point_and_can_be_switched_off(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    ((name, target),) = project["entry-points"]["pytest11"].items()
    installed = tmp_path / "site" / "surecall-0.0.1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: surecall\nVersion: 0.0.1\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{name} = {target}\n")
    (tmp_path / "test_it.py").write_text("def test_it(replayed): assert callable(replayed)\n")
    inner = subprocess.run(
        [sys.executable, "-c", TWICE],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(installed.parent), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert re.findall(r"exit code (\d)", inner.stdout) == ["0", "1"]
    assert "fixture 'replayed' not found" in inner.stdout
