"""The documentation runs: its Python is executed, its reference is up to date, its links exist."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

import surecall
from surecall.cli import cli
from surecall.simulator.personas.persona_catalog import DEFAULT_PERSONA
from surecall.simulator.server import Simulator
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.simulator.without_key import NO_KEY_NOTICE
from surecall.testing import Item, ScriptedProvider, calls, failure, says, streams
from tests.support.project_files import ROOT, without_trial

DOCUMENTS = {path.name: path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))}
FENCE = re.compile(r"^```(?:python|py)\b[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINKED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
# What builds, serves, opens a browser or takes long is left out; the rest is pasted as it is.
ELSEWHERE = ("python3 -m venv", "make ", "surecall proxy", "surecall report", "surecall eval")
PASTED = [
    block
    for block in SHELL.findall((ROOT / "README.md").read_text("utf-8"))
    if not block.startswith(ELSEWHERE)
]
WEATHER = (calls("get_weather", city="Paris", days=3), says("Clear for 3 days."))
# What the endpoint answers while the Python of a document runs. No document with Python may be
# missing here.
SCRIPTS: dict[str, tuple[Item, ...]] = {
    "README.md": WEATHER,
    "guide.md": (
        *WEATHER,
        calls("get_weather", city="Rome", days=2),
        says("Rain."),
        *WEATHER,
        *WEATHER,
        calls("cancel_order", order=1017),
        says("Cancelled."),
        streams(calls("get_weather", city="Rome", days=2)),
        streams(says("Clear in Rome, too.")),
    ),
    "bridges.md": (
        calls("find_city", country="Norway"),
        calls("get_weather", city="Oslo", days=30),
        calls("get_weather", city="Oslo", days="3"),
        says("Clear in Oslo."),
    ),
    "contracts.md": (
        calls("refund", order_id="12345", item_id="i-1"),  # too early, and made up
        calls("find_order", customer="Ada"),
        says("Done."),  # too early: nothing is refunded
        calls("refund", order_id="O-7731", item_id="i-9"),  # made up
        calls("refund", order_id="O-7731", item_id="i-1"),
        says("The lamp is refunded."),
        calls("find_order", customer="Ada"),
        calls("refund", order_id="O-7731", item_id="i-2"),
        says("I cannot: the gateway is offline."),
        calls("find_order", customer="Ada"),
        calls("refund", order_id="O-7731", item_id="i-1"),
        says("The lamp is refunded."),  # refused: it does not name the order
        says("The lamp of O-7731 is refunded."),
    ),
    "conversations.md": (),
    "evaluation.md": (),
    "mcp.md": (calls("clock_get_time", city="Rome"), says("Noon.")),
    "opentelemetry.md": (*WEATHER, *WEATHER),
    "fallback.md": (failure(404), says("Hello.")),
    "gateways.md": (),
    "guarantees.md": (),
    "openrouter.md": (says("Hello."),),
    "options.md": (),
    "testing.md": (),
    "tutorial.md": (),
    "typed-answers.md": (
        calls("get_weather", city="Paris", days=3),
        says("Clear for three days."),
        says('{"city": "Paris", "days": 3, "sky": "clear"}'),
        *[says("There is no such city.")] * 4,
    ),
}
PRINTED = {
    "README.md": ("Clear for 3 days.",),
    "guide.md": ("Clear for 3 days.", "'cancelled_by': 'kim'", "Clear in Rome, too."),
    "bridges.md": ("Ask for at most seven days.", '"city":"Oslo","days":3', "68.0"),
    "contracts.md": (
        "The lamp is refunded.",
        "GAVE_UP ['refund: The gateway for furniture is offline.']",
        "The lamp of O-7731 is refunded.",
    ),
    "conversations.md": (
        "A lamp.",
        "O-7731.",
        "6 messages",
        "waiting\n",
        "delete_file is marked destructive.",
        "old.txt is gone.",
        "customer-8 refund {'order': 'O-7731'} refund is marked destructive.",
        "You get your money back.",
        "A broken lamp",
        "2 versions",
    ),
    "evaluation.md": (),
    "mcp.md": ("Noon.",),
    "opentelemetry.md": ("Clear for 3 days.",),
    "fallback.md": ("('anthropic/claude-opus-4.6',)",),
    "gateways.md": (),
    "guarantees.md": ("('CALL_OUTCOME_UNKNOWN',)",),
    "openrouter.md": ("Hello.",),
    "options.md": ("{'top_p': 0.5, 'temperature': 0.9, 'max_tokens': 800, 'seed': 7}",),
    "testing.md": (),
    "tutorial.md": ("Done. get_weather said", "trip 17 is canceled", "0 calls: Done.", "AUTH"),
    "typed-answers.md": (
        "clear\n",
        "answer not accepted: it is not one JSON value",
        "OUTPUT_INVALID There is no such city.",
    ),
}


def python_in(path: Path) -> list[str]:
    """Return every block of Python in a document, but for what is tried by itself."""
    text = without_trial(path.read_text("utf-8"))
    blocks = FENCE.findall(text)
    assert len(blocks) == sum(line.strip().startswith("```py") for line in text.splitlines())
    return blocks


SERVER_URL = "http://127.0.0.1:8000"
WITH_SERVER = [
    name
    for name, path in DOCUMENTS.items()
    if any(SERVER_URL in block for block in python_in(path)[:1])
]


def ran(name: str) -> dict[str, object]:
    """Run the Python of a document, block after block, and return what it has defined."""
    space: dict[str, object] = {"__name__": "document"}
    with ScriptedProvider(*SCRIPTS[name]) as provider:
        for number, block in enumerate(python_in(DOCUMENTS[name]), start=1):
            code = block.replace("https://openrouter.ai/api", provider.url)
            code = code.replace(SERVER_URL, provider.url)
            exec(compile(code, f"{name} block {number}", "exec"), space)  # noqa: S102  # it is ours
        assert len(provider.requests) == len(SCRIPTS[name])
    return space


def test_no_document_with_python_is_left_out() -> None:
    with_python = {name for name, path in DOCUMENTS.items() if python_in(path)}

    assert with_python == SCRIPTS.keys() == PRINTED.keys()


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_python_of_a_document_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-of-a-test")
    ran(name)
    shown = capsys.readouterr().out

    assert [text for text in PRINTED[name] if text not in shown] == []


@pytest.mark.processes
@pytest.mark.parametrize("name", ["README.md", "guide.md"])
def test_pasted_without_a_key_it_runs_against_the_simulator_and_says_so(
    name: str, tmp_path: Path
) -> None:
    code = "\n".join(python_in(DOCUMENTS[name]))
    bare = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    pasted = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env=bare | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (pasted.returncode, pasted.stderr) == (0, f"{NO_KEY_NOTICE}\n")
    assert '"days":3' in pasted.stdout
    if "streaming" in code:
        assert "[get_weather …]\nDone. get_weather said" in pasted.stdout


@pytest.mark.parametrize("name", WITH_SERVER)
def test_a_first_example_that_needs_a_server_says_how_to_start_one_and_runs_with_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = DOCUMENTS[name].read_text("utf-8")
    before, _, _ = text.partition(SERVER_URL + '"')
    with Simulator(default=DEFAULT_PERSONA) as simulator:
        code = python_in(DOCUMENTS[name])[0].replace(SERVER_URL, simulator.url)
        exec(compile(code, name, "exec"), {"__name__": "document"})  # noqa: S102  # it is ours

    assert "`surecall sim --port 8000`" in before
    assert capsys.readouterr().out


def test_the_scenarios_of_the_documentation_can_be_loaded(tmp_path: Path) -> None:
    for number, block in enumerate(python_in(DOCUMENTS["evaluation.md"])):
        (tmp_path / f"scenarios_{number}.py").write_text(block, "utf-8")
    listed = CliRunner().invoke(cli, ["ls", "scenarios", "-s", str(tmp_path)])

    assert listed.exit_code == 0, listed.output
    assert "looks_it_up" in listed.output
    assert "changes_it" in listed.output


def test_the_ten_lines_of_help_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown, _, _ = (surecall.__doc__ or "").partition("\nrun  ")
    code = textwrap.dedent(shown.partition("\n\n")[2])
    with ScriptedProvider(*WEATHER) as provider:
        exec(code.replace("http://127.0.0.1:8000", provider.url), {})  # noqa: S102  # it is ours

    assert capsys.readouterr().out == "Clear for 3 days.\n"


@pytest.mark.processes
@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.name)
def test_an_example_runs_to_its_last_assertion(path: Path) -> None:
    pytest_plugin = ("-m", "pytest", "-p", "surecall.testing.pytest_plugin")
    program = pytest_plugin if path.name.startswith("test_") else ()
    ran = subprocess.run(
        [sys.executable, "-W", "error", *program, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        input="y\n",  # for the one that asks
    )

    assert (ran.returncode, ran.stderr) == (0, "")


FIRST_GUESSES = (
    *("approval", "chat", "fallback", "history", "mcp_tools"),
    *("proxy", "sampling", "streaming", "tools", "typed_output"),
)


@pytest.mark.parametrize("name", FIRST_GUESSES)
def test_a_first_program_has_at_most_fifteen_lines(name: str) -> None:
    assert len((ROOT / "examples" / f"{name}.py").read_text("utf-8").splitlines()) <= 15


def test_the_table_of_drift_has_every_fault_of_streams() -> None:
    told = (ROOT / "docs" / "drift.md").read_text("utf-8")
    faults = [fault.stream_fault for fault in TRANSPORT_FAULTS.values() if fault.stream_fault]
    assert len(faults) > 50
    assert [name for name in faults if f"| `{name}` |" not in told] == []


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [target.split("#")[0] for target in targets if not target.startswith("http")]

    assert [target for target in local if not (path.parent / target).exists()] == []


def test_the_readme_shows_what_explain_prints() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    _, _, example = text.partition("surecall explain - <<'REPLY'\n")
    reply, _, after = example.partition("\nREPLY\n```\n\n```text\n")
    printed = CliRunner().invoke(cli, ["explain", "-"], input=reply)

    assert after.partition("```\n")[0] == printed.stdout


def test_the_readme_counts_the_lines_of_the_loop() -> None:
    lines = len((ROOT / "surecall" / "core" / "loop.py").read_text("utf-8").splitlines())

    assert f"[{lines} lines](surecall/core/loop.py)" in (ROOT / "README.md").read_text("utf-8")


def test_every_make_target_that_the_readme_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = re.findall(r"\bmake ([a-z-]+)", (ROOT / "README.md").read_text("utf-8"))

    assert set(named) - targets <= {"and"}


@pytest.mark.processes
@pytest.mark.parametrize("command", PASTED, ids=lambda command: command[:24])
def test_a_command_of_the_readme_runs_as_pasted(command: str, tmp_path: Path) -> None:
    shims = tmp_path / "bin"
    shims.mkdir()
    script = shims / "surecall"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m surecall "$@"\n', "utf-8")
    script.chmod(0o755)
    bare = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    path = f"{shims}{os.pathsep}{os.environ['PATH']}"
    pasted = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=tmp_path,
        env=bare | {"PYTHONPATH": str(ROOT), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (pasted.returncode, "Traceback" in pasted.stderr) == (0, False), pasted.stderr
    assert pasted.stdout
