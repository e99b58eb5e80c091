"""`surecall replay`: recorded trials, read again."""

import json
import sys
from pathlib import Path

import pytest

from surecall.runtime.recording import dump_trace
from tests.support.commands import (
    HOSTILE,
    QUIET_SMALL,
    Run,
    one_line,
    stored,
    sum_trace,
    with_trace,
)
from tests.support.trials import series, trial

# From Python 3.14 on, a path that is too long is like one that does not exist.
TOO_LONG = "File name too long" if sys.version_info < (3, 14) else "unknown "


# Replay.


def test_a_recorded_trial_is_shown_and_comes_out_the_same(run: Run) -> None:
    with_trace(dump_trace(sum_trace()))
    code, out, err = run("replay", "latest/1")

    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "1  failed ASSERTION_FAILED"
    assert lines[1] == "maker/model (simulated)  default  production  happy_path  trial 1"
    assert any(line.startswith("[0] ← add(") for line in lines)
    assert lines[-1] == "replayed: same result after 2 turns"


def test_a_trial_is_found_by_number_name_part_of_a_name_and_path(run: Run) -> None:
    directory = with_trace(dump_trace(sum_trace()))
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
    data = dump_trace(sum_trace()).replace(b'"text":"3"', b'"text":"4"')
    with_trace(data)
    code, out, err = run("replay", "latest/1")

    assert code == 1
    assert "done: " in out
    assert "the same run" not in out
    assert one_line(err).startswith(
        "surecall: the replay diverged at turn 1: the answer was parsed as"
    )
    found = json.loads(run("replay", "latest/1", "--json")[1])
    assert (found["same"], found["diverged"].partition(":")[0]) == (False, "turn 1")


def test_a_recording_without_its_secrets_says_why_it_diverges(run: Run) -> None:
    with_trace(dump_trace(sum_trace(asked="my key is sk-abcdefghij0123456789")))
    code, _, err = run("replay", "latest/1")

    assert code == 1
    assert err.startswith("secrets were removed from this recording")


def test_hostile_words_of_a_model_do_nothing_to_the_terminal(run: Run) -> None:
    with_trace(dump_trace(sum_trace(HOSTILE)))
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
    assert "trial 1 has no recording: skipped" in one_line(err)


def test_a_file_with_a_trace_will_do(run: Run, tmp_path: Path) -> None:
    first, second = sum_trace(), sum_trace("three")
    (tmp_path / "one.jsonl").write_bytes(dump_trace(first))
    (tmp_path / "two.jsonl").write_bytes(dump_trace(first) + dump_trace(second))

    assert run("replay", "one.jsonl")[0] == 0
    assert run("replay", "two.jsonl")[0] == 2
    code, out, _ = run("replay", str(tmp_path / "two.jsonl"), "--run-id", second[0].run_id)
    assert (code, out.splitlines()[-1]) == (0, "replayed: same result after 2 turns")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("latest/9", "no trial 9: the run has trials 1 to 2"),
        ("latest/0", "no trial 0"),
        ("latest/" + "9" * 99, "unknown trial"),
        ("latest/" + "9" * 5000, TOO_LONG),
        ("9" * 5000, TOO_LONG),
        ("latest/hapy_path__trial_01", "unknown trial"),
        ("latest/happy_path", '"happy_path" matches 2 trials, such as maker__model__happy'),
        ("nobody/1", 'unknown run "nobody"'),
        ("some/where/1", 'unknown run "some/where"'),
        (HOSTILE, "unknown run"),
        ("missing.jsonl", "cannot use missing.jsonl: No such file"),
        ("broken.jsonl", "broken.jsonl, line 1: not an event"),
        ("empty.jsonl", "does not begin with run_start"),
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
    run(*QUIET_SMALL, "-n", "1")

    assert [run("replay", f"latest/{number}")[0] for number in range(1, 5)] == [0] * 4


# Every failed trial at once


def failed_run(*recordings: bytes | None) -> None:
    kept = [trial("failed", number=number) for number in range(1, len(recordings) + 1)]
    traces = {one.key: data for one, data in zip(kept, recordings, strict=True) if data}
    stored([*kept, trial("passed", number=9), trial("infra", number=10)], traces=traces)


def test_failed_trials_that_come_out_the_same_are_listed(run: Run) -> None:
    failed_run(dump_trace(sum_trace()), None)
    code, out, err = run("replay", "--failed")
    head, *lines = out.splitlines()

    assert code == 0
    assert head.split() == [*("#", "replay", "outcome", "model", "scenario", "trial", "difference")]
    assert [line.split()[:2] for line in lines] == [["1", "same"], ["2", "no"]]
    assert err.startswith("2 failed trials in ")
    assert err.endswith(", none differs; 1 without a recording\n")


def test_failed_trials_that_differ_are_named_with_the_difference(run: Run) -> None:
    data = dump_trace(sum_trace())
    failed_run(data, data.replace(b'"text":"3"', b'"text":"4"'))
    code, out, err = run("replay", "--failed", "latest")

    assert code == 1
    assert out.splitlines()[2].split()[:2] == ["2", "differs"]
    assert "turn 1: the answer was parsed as" in out
    assert one_line(err) == "surecall: 1 of 2 failed trials differs: 2\n"
    found = json.loads(run("replay", "--failed", "--json")[1])["trials"]
    assert [(one["number"], one["replay"]) for one in found] == [(1, "same"), (2, "differs")]
    assert found[0]["diverged"] is None
    assert found[1]["diverged"].startswith("turn 1: ")


def test_a_difference_that_removed_secrets_may_cause_says_so(run: Run) -> None:
    failed_run(dump_trace(sum_trace(asked="my key is sk-abcdefghij0123456789")))

    code, out, _ = run("replay", "--failed", "--json")
    assert code == 1
    assert json.loads(out)["trials"][0]["diverged"].endswith(" (secrets were removed)")


def test_a_run_without_failed_trials_has_nothing_that_differs(run: Run) -> None:
    failed_run()
    code, out, err = run("replay", "--failed")

    assert (code, out) == (0, "")
    assert err.startswith("0 failed trials in ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("latest/1",), "--failed replays all failed trials of a run: leave out /1"),
        (("x.jsonl",), "unknown run"),
        (("latest", "--run-id", "x"), "--run-id"),
    ],
)
def test_failed_needs_a_whole_run(run: Run, words: tuple[str, ...], said: str) -> None:
    failed_run(None)
    code, out, err = run("replay", "--failed", *words)

    assert (code, out) == (2, "")
    assert said in one_line(err)
