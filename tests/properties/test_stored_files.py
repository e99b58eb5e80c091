"""Files that earlier versions wrote are still read, replayed, and continued.

`tests/corpus/stored/` holds files as they were written on 2026-11-18, before most names in the code
changed. A name in a stored file, or a text that was sent to a model, cannot change unnoticed.
"""

import json
import shutil
from pathlib import Path

import pytest

from surecall import (
    AskFirst,
    Conversation,
    Decision,
    Run,
    SqliteStore,
    ToolLoopRunner,
    load_trace,
    replay,
    tool,
)
from surecall.testing import ScriptedModel, says
from tests.support.commands import command_line
from tests.support.project_files import ROOT

STORED = ROOT / "tests" / "corpus" / "stored"
TRACES = sorted((STORED / "traces").glob("*.jsonl"))


@tool(destructive=True)
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


def desk() -> ToolLoopRunner:
    model = ScriptedModel(says("You get your money back."))
    return ToolLoopRunner(client=model, model="m", tools=[refund], tool_policy=AskFirst())


def test_there_are_stored_traces() -> None:
    assert len(TRACES) > 15


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_stored_trace_replays(path: Path) -> None:
    trace = load_trace(path)

    assert replay(trace).trace == trace


@pytest.mark.parametrize("name", ["waiting-run.json", "waiting-run-flat.json"])
def test_a_stored_run_resumes(name: str) -> None:
    run = Run.from_json((STORED / name).read_bytes())
    (waiting,) = run.waiting

    result = desk().resume_sync(run, decisions={waiting.id: Decision.approve()})

    assert result.text == "You get your money back."
    assert [call.output for call in result.tool_calls] == ["refunded O-7731"]


@pytest.mark.parametrize("name", ["conversations.db", "conversations-without-links.db"])
def test_stored_conversations_continue(name: str, tmp_path: Path) -> None:
    store = SqliteStore(shutil.copy(STORED / name, tmp_path))

    assert store.keys() == ["customer-7", "customer-8"]
    assert len(Conversation(desk(), store, "customer-7").history) == 4
    chat = Conversation(desk(), store, "customer-8")
    decisions = {call.id: Decision.approve() for call in chat.waiting}
    assert chat.resume_sync(decisions).text == "You get your money back."
    store.close()


def test_a_stored_evaluation_gives_the_same_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(STORED / "trials.sqlite", tmp_path)
    run = command_line(tmp_path, monkeypatch, capsys)

    code, _, remarks = run("report", str(tmp_path), "-o", str(tmp_path))

    assert code == 0, remarks
    stored, found = [
        json.loads((folder / "summary.json").read_bytes()) for folder in (STORED, tmp_path)
    ]
    # Earlier versions wrote no verdict.
    assert found.pop("verdict")["sentence"]
    assert found | {"output_dir": "here"} == stored


@pytest.mark.parametrize("number", range(1, 9))
def test_a_stored_trial_replays(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(STORED / "trials.sqlite", tmp_path)
    run = command_line(tmp_path, monkeypatch, capsys)

    code, printed, remarks = run("replay", f"{tmp_path}/{number}")

    assert code == 0, printed + remarks
