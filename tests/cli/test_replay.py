"""`surecall replay` and `export`: runs on disk, read again."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from surecall.core.outcome import RunResult
from surecall.eval.storage.trial import Trial
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.trace import dump_trace
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, says
from surecall.values.trace import Trace
from tests.support.commands import HOSTILE, Run, one_line, stored
from tests.support.tools import add
from tests.support.trials import series, trial

# From Python 3.14 on, a path that is too long is like one that does not exist.
TOO_LONG = "File name too long" if sys.version_info < (3, 14) else "unknown "
SMALL = ("eval", "-q", "-m", "sim/clean,sim/lazy", "-s", "happy_path,chat_only")


def held(text: str = "3", asked: str = "1 + 2?") -> Trace:
    """Hold a conversation that ends with this text."""
    runner = ToolLoopRunner(
        client=ScriptedModel(calls("add", a=1, b=2), says(text)),
        model="m",
        registry=[add],
        config=raw(),
    )
    result: RunResult = asyncio.run(runner.run(asked))
    return result.trace


def with_trace(trace: bytes | None, one: Trial | None = None) -> Path:
    kept = one or trial("failed", error=f"ASSERTION_FAILED: {HOSTILE}", hint=HOSTILE)
    return stored([kept], traces={} if trace is None else {kept.key: trace})


# Replay.


def test_a_recorded_trial_is_shown_and_comes_out_the_same(run: Run) -> None:
    with_trace(dump_trace(held()))
    code, out, err = run("replay", "latest/1")

    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "1  failed ASSERTION_FAILED"
    assert lines[1] == "maker/model (simulated)  default  production  happy_path  trial 1"
    assert any(line.startswith("[0] ← add(") for line in lines)
    assert lines[-1] == "replayed: the same run came out, 2 turns"


def test_a_trial_is_found_by_number_name_part_of_a_name_and_path(run: Run) -> None:
    directory = with_trace(dump_trace(held()))
    name = "maker__model__happy_path__trial_01"
    ways = ("latest/1", f"latest/{name}", f"latest/{name}.json", "latest/happy_path")

    for way in (*ways, f"{directory}/1", f"{directory.name}/{name}"):
        assert run("replay", way)[0] == 0, way


def test_without_a_trial_they_are_listed_failures_first(run: Run) -> None:
    directory = stored([*series(".x"), *series("is", "two")])
    for what in ((), ("latest",), ("latest/",), (str(directory),)):
        code, out, err = run("replay", *what)
        assert code == 0
        assert [line.split()[:3] for line in out.splitlines()] == [
            ["#", "outcome", "model"],
            ["3", "failed", "ASSERTION_FAILED"],
            ["2", "infra", "ASSERTION_FAILED"],
            ["4", "skipped", "ASSERTION_FAILED"],
            ["1", "passed", "maker/model"],
        ]
        assert f"surecall replay {directory.name}/NUMBER" in err
    listed = json.loads(run("replay", "--json")[1])
    assert [one["number"] for one in listed["trials"]] == [3, 2, 4, 1]
    assert listed["trials"][1]["status"] == "infra"


def test_a_recording_that_was_changed_diverges_where_it_was_changed(run: Run) -> None:
    data = dump_trace(held()).replace(b'"text":"3"', b'"text":"4"')
    with_trace(data)
    code, out, err = run("replay", "latest/1")

    assert code == 1
    assert "done: " in out
    assert "the same run" not in out
    assert one_line(err).startswith("surecall: the replay diverged at turn 1: the answer reads as")
    found = json.loads(run("replay", "latest/1", "--json")[1])
    assert (found["same"], found["diverged"].partition(":")[0]) == (False, "turn 1")


def test_a_recording_without_its_secrets_says_why_it_diverges(run: Run) -> None:
    with_trace(dump_trace(held(asked="my key is sk-abcdefghij0123456789")))
    code, _, err = run("replay", "latest/1")

    assert code == 1
    assert err.startswith("secrets were removed from this recording")


def test_hostile_words_of_a_model_do_nothing_to_the_terminal(run: Run) -> None:
    with_trace(dump_trace(held(HOSTILE)))
    code, out, _ = run("replay", "latest/1")
    assert code == 0
    assert "\\x1b[2J" in out
    code, out, _ = run("replay", "latest/1", "--json")
    found = json.loads(out)
    assert (code, found["hint"], found["same"]) == (0, HOSTILE, True)
    assert found["events"][-1]["text"] == HOSTILE
    assert "\\x1b[2J" in run("replay", "latest")[1]


@pytest.mark.parametrize("data", [None, b""])
def test_a_trial_without_a_recording_replays_nothing(run: Run, data: bytes | None) -> None:
    with_trace(data, trial("skipped", category="TOOLS_DISABLED"))
    code, out, err = run("replay", "latest/1")

    assert (code, out) == (4, "")
    assert "nothing was recorded of trial 1: skipped" in one_line(err)


def test_a_file_with_a_trace_will_do(run: Run, tmp_path: Path) -> None:
    first, second = held(), held("three")
    (tmp_path / "one.jsonl").write_bytes(dump_trace(first))
    (tmp_path / "two.jsonl").write_bytes(dump_trace(first) + dump_trace(second))

    assert run("replay", "one.jsonl")[0] == 0
    assert run("replay", "two.jsonl")[0] == 2
    code, out, _ = run("replay", str(tmp_path / "two.jsonl"), "--run-id", second[0].run_id)
    assert (code, out.splitlines()[-1]) == (0, "replayed: the same run came out, 2 turns")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("latest/9", "there is no trial 9: the run has 2"),
        ("latest/0", "there is no trial 0"),
        ("latest/" + "9" * 99, "unknown trial"),
        ("latest/" + "9" * 5000, TOO_LONG),
        ("9" * 5000, TOO_LONG),
        ("latest/hapy_path__trial_01", "unknown trial"),
        ("latest/happy_path", '"happy_path" is part of 2 names, such as maker__model__happy'),
        ("nobody/1", 'unknown run "nobody"'),
        ("some/where/1", 'unknown run "some/where"'),
        (HOSTILE, "unknown run"),
        ("missing.jsonl", "cannot use missing.jsonl: No such file"),
        ("broken.jsonl", "broken.jsonl, line 1: not an event"),
        ("empty.jsonl", "a trace begins with run_start"),
    ],
)
def test_what_cannot_be_found_is_one_line(run: Run, tmp_path: Path, what: str, said: str) -> None:
    stored(series(".."))
    (tmp_path / "broken.jsonl").write_bytes(b"{\x1b\n{}\n")
    (tmp_path / "empty.jsonl").write_bytes(b"")
    code, out, err = run("replay", what)

    assert (code, out) == (2, "")
    assert said in one_line(err)


def test_every_trial_of_an_evaluation_can_be_replayed(run: Run) -> None:
    run(*SMALL, "-n", "1")

    assert [run("replay", f"latest/{number}")[0] for number in range(1, 5)] == [0] * 4


# Export.
