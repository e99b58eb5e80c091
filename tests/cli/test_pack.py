"""`surecall pack`: a benchmark becomes files that an evaluation runs, and says what it mapped."""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from surecall.eval.running.trial_run import TrialCase, make_cell_setup, run_trial
from surecall.eval.scenarios.plugins import load_scenarios
from surecall.eval.storage.trial import Cell, Key
from surecall.settings.presets import Strategy
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON
from tests.support.commands import Run, one_line
from tests.support.scenario_packs import HOPELESS, NO_TOOL, data_folder, forget_code, wheel


def packed(run: Run, tmp_path: Path, *options: str) -> str:
    code, out, err = run("pack", "bfcl", str(wheel(tmp_path)), "--into", "bench", *options)
    assert (code, err) == (0, "")
    return out


def answered(request: JSON, left_out: int = 0) -> JSON:
    """Answer with the first accepted values, without the last calls; in words where none is."""
    wanted = request["expect"].get("calls", ())
    if wanted:
        made = wanted[: len(wanted) - left_out]
        return calls_many(
            *(calls(each["name"], base=each["arguments"]["base"][0]) for each in made)
        )
    return calls("shapes_area") if request["expect"]["tool_call"] else says("No tool can do that.")


def rate(strategy: Strategy, path: Path, left_out: int = 0) -> tuple[int, int]:
    """Evaluate a file with a scripted model; return how many passed, of how many."""
    setup = make_cell_setup("m", strategy=strategy, extra_attempts=0)
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    passed = 0
    for one, line in zip(load_scenarios(str(path)), lines, strict=True):
        model = ScriptedModel(answered(line, left_out))
        trial, _ = asyncio.run(run_trial(Key(Cell("m"), one.id, 1), TrialCase(one, setup), model))
        passed += trial.ok
    return passed, len(lines)


def test_every_set_becomes_a_file_of_scenarios(run: Run, tmp_path: Path) -> None:
    out = packed(run, tmp_path)
    files = sorted(Path("bench").glob("*.jsonl"))
    assert len(files) == 11
    assert len(load_scenarios("bench/")) == 13
    assert "16 cases; run them with: surecall eval -n 1 -s bench/simple_python.jsonl" in out
    assert [file.stem for file in files if file.stem not in out] == []


def test_it_says_what_was_mapped_and_what_to_know(run: Run, tmp_path: Path) -> None:
    out = " ".join(packed(run, tmp_path).split())
    assert "name with dots: underscores 12 12" in out
    assert "type `dict`: `object` 28 14" in out
    assert f"no tools in 1 case: bfcl_{NO_TOOL}" in out
    assert f"does not fit the function, in 1 case: bfcl_{HOPELESS}" in out
    assert "left out: simple_java, simple_javascript: " in out


@pytest.mark.parametrize("strategy", ["raw", "production"])
def test_right_answers_pass_and_one_call_too_few_does_not(
    run: Run, tmp_path: Path, strategy: Strategy
) -> None:
    packed(run, tmp_path)
    bench = Path("bench")
    (bench / "live_simple.jsonl").unlink()  # one of its cases cannot be met
    for file in bench.glob("*.jsonl"):
        passed, of = rate(strategy, file)
        assert passed == of, file
    for name in ("parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple"):
        assert rate(strategy, bench / f"{name}.jsonl", left_out=1) == (0, 1)


def test_conversations_are_code_in_a_folder_that_runs_only_if_it_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(run, tmp_path)
    forget_code(monkeypatch)
    load_scenarios("bench/")
    assert "bfcl_eval" not in sys.modules
    code, out, err = run("ls", "scenarios", "-s", "bench/multi_turn/")
    assert (code, err, out.count("bfcl_multi_turn_base_0")) == (0, "", 1)
    assert "bfcl_eval" in sys.modules


def test_without_their_code_there_are_no_conversations(run: Run, tmp_path: Path) -> None:
    code, out, err = run("pack", "bfcl", str(data_folder(tmp_path / "data")), "--into", "bench")
    assert (code, err) == (0, "")
    assert "left out: multi_turn: the tool classes are missing" in out
    assert not Path("bench", "multi_turn").exists()


def test_a_sample_has_at_most_so_many_of_each(run: Run, tmp_path: Path) -> None:
    assert "14 cases; " in packed(run, tmp_path, "--most", "1")
    assert len(load_scenarios("bench/")) == 11


def test_what_cannot_be_packed_is_told_in_one_line(run: Run, tmp_path: Path) -> None:
    source = str(wheel(tmp_path))
    Path("full").mkdir()
    Path("full", "mine.txt").write_text("mine")
    Path("file").write_text("mine")
    for arguments, told in (
        (["bfcl", source, "--into", "full"], "full is not empty: choose another folder"),
        (["bfcl", source, "--into", "file"], "cannot use file: "),
        (["bfcl", "nowhere", "--into", "new"], "pass the wheel of bfcl-eval"),
        (["bfcI", source, "--into", "new"], 'did you mean "bfcl"'),
        (["bfcl", source, "--into", "new", "--most", "0"], "--most"),
    ):
        code, out, err = run("pack", *arguments)
        assert (code, out) == (2, "")
        assert told in one_line(err)
    assert not Path("new").exists()
    assert [file.name for file in Path("full").iterdir()] == ["mine.txt"]
