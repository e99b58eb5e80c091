"""`surecall eval`: a command speaks of what it asked for, and its gates judge only that."""

import json
import os
import pty
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from surecall.cli.eval import advice_line
from surecall.cli.gates import exit_code
from surecall.cli.progress import Progress
from surecall.cli.table import Board, plain
from surecall.eval.analysis.recommend import Candidate, recommend
from surecall.eval.analysis.stats import Rate
from surecall.eval.analysis.summary import summarise
from surecall.eval.running.harness_events import Ending, RateLimited, Report, Stopped
from surecall.eval.running.matrix import Plan
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.parse import Gate
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from tests.support.commands import Run, stored
from tests.support.trials import series

SMALL = ("eval", "-m", "sim/clean,sim/lazy", "-s", "happy_path,chat_only", "-n", "3")
ONE = ("eval", "-m", "sim/lazy", "-s", "happy_path", "-n", "20", "-q")
GATED = Settings(fail_under=Gate(10.0))


def test_v_prints_a_line_for_each_trial(run: Run) -> None:
    code, _, err = run(*SMALL, "-v")

    assert code == 0
    assert err.count("passed  sim/clean default production") == 6


@pytest.mark.processes
def test_on_a_terminal_v_prints_lines_instead_of_the_board(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "surecall", "eval", "-v", *SMALL[1:]],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    ) as process:
        os.close(theirs)
        printed = b""
        try:
            while piece := os.read(ours, 65536):
                printed += piece
        except OSError:  # the other end is closed
            pass
    os.close(ours)

    assert process.returncode == 0
    assert printed.count(b"passed  sim/clean default production") == 6
    assert b"in flight" not in printed
    assert b"tool pass" not in printed


def test_a_line_of_advice_is_about_one_profile() -> None:
    few = Candidate(model="m", profile="few", tool=Rate(10, 10), infra=1)
    many = Candidate(model="m", profile="many", tool=Rate(98, 100))
    (both,), (alone,) = recommend([few, many]), recommend([few])

    assert advice_line(both).split() == [
        *("✓", "use", "m", "many"),
        *("98.0%", "[93.0,", "99.4]", "n=100"),
    ]
    assert "n=10  +25 runs would decide; 1 more run was spoiled" in advice_line(alone)


def test_fewer_trials_and_scenarios_show_only_themselves(run: Run) -> None:
    run("eval", "-m", "sim/clean", "-s", "happy_path,missing_workspace_id", "-n", "5", "-q")
    part = ("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "2")
    _, out, err = run(*part)
    assert "= 2 runs, 2 recorded" in err
    assert "2/2 100%" in out
    assert "n=2 " in out
    _, out, _ = run(*part, "--json")
    found = json.loads(out)
    assert found["totals"]["runs"] == 2
    assert list(found["by_scenario"]) == ["happy_path"]
    assert found["recommendations"][0]["tool"]["n"] == 2


def test_what_was_recorded_for_other_models_is_not_counted_as_recorded(run: Run) -> None:
    run(*SMALL, "-q")
    _, _, err = run("eval", "-m", "sim/clean,sim/like-gpt", "-s", "happy_path", "-n", "4")

    assert "= 8 runs, 3 recorded" in err


def test_an_automatic_number_of_trials_takes_in_all_there_are(run: Run) -> None:
    run("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "45", "-q")
    _, out, _ = run("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "auto", "-q")

    assert "45/45 100%" in out


def test_a_shard_shows_only_its_part(run: Run) -> None:
    run("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "12", "-q")
    part = ("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "12", "-q", "--json", "--shard")
    sizes = [json.loads(run(*part, shard)[1])["totals"]["runs"] for shard in ("1/2", "2/2")]

    assert sum(sizes) == 12
    assert min(sizes) > 0


def test_a_dry_run_tells_what_is_recorded_and_estimates_the_rest(run: Run, tmp_path: Path) -> None:
    run(*SMALL, "-q")
    stored(series("..."))
    (tmp_path / ".surecall" / "runs" / "empty").mkdir()
    (tmp_path / ".surecall" / "runs" / "empty" / "trials.sqlite").touch()
    more = (*SMALL[:-1], "5", "--dry-run")

    assert "= 20 runs, 12 recorded" in run(*more)[1]
    found = json.loads(run(*more, "--json")[1])
    assert (found["recorded"], found["estimate"]["trials"]) == (12, 8)
    assert "recorded" not in run(*more, "--fresh")[1]


def test_against_the_latest_means_the_one_before(run: Run) -> None:
    stored(series("." * 20, cell=Cell("sim/lazy")))
    code, _, err = run(*ONE, "--fresh", "--against", "latest")

    assert code == 1
    assert "significantly worse than before, 0 fixed, 20 broken" in err


def test_a_run_to_hold_against_that_does_not_exist_costs_nothing(run: Run, tmp_path: Path) -> None:
    code, out, err = run(*ONE, "--against", "nowhere")

    assert (code, out) == (2, "")
    assert "there are no runs" in err
    assert not (tmp_path / ".surecall").exists()


def judged(
    trials: list[Trial], settings: Settings = GATED, ending: Ending = "complete", missing: int = 0
) -> tuple[int, list[str]]:
    report = Report(ending=ending, wanted=len(trials) + missing, recorded=0, ran=len(trials))
    return exit_code(settings, summarise(trials), report, trials, None)


@pytest.mark.parametrize(
    "trials", [series("...", CONTROL), [*series("sss"), *series("...", CONTROL)]]
)
def test_a_gate_without_a_rate_does_not_pass(trials: list[Trial]) -> None:
    assert judged(trials) == (
        3,
        ["no run with tools was measured, so --fail-under has nothing to judge"],
    )
    assert judged(trials, Settings()) == (0, [])


def test_a_gate_names_the_cell_that_it_cannot_judge_unless_that_has_no_tools() -> None:
    blank, off = Cell("blank"), Cell("off")
    known = series("." * 20)

    code, (reason,) = judged([*known, *series("..", CONTROL, blank)])
    assert code == 3
    assert reason.startswith("blank default production: no run with tools was measured")
    assert judged([*known, *series("ss", cell=off), *series("..", CONTROL, off)]) == (0, [])


def test_a_rate_that_is_too_low_comes_before_what_is_left_open() -> None:
    code, (reason,) = judged(series("xxx"), missing=2)

    assert code == 1
    assert "lower bound 0.0% is below 10 %" in reason


def test_trials_that_were_not_run_leave_the_verdict_open() -> None:
    trials = series("." * 20)

    assert judged(trials, missing=2) == (
        3,
        ["2 trials were not run; the same command continues"],
    )
    assert judged(trials, ending="budget", missing=2) == (
        3,
        ["the budget is used up; 2 trials were not run"],
    )


def test_a_gate_on_the_control_alone_leaves_the_verdict_open(run: Run) -> None:
    code, _, err = run("eval", "-m", "sim/clean", "-s", "chat_only", "-q", "--fail-under", "90")

    assert code == 3
    assert "--fail-under has nothing to judge" in err


def test_what_to_do_after_ctrl_c_has_a_line_of_its_own_in_the_display() -> None:
    progress = Progress(Plan(Settings(), (), ()), Board((), 0.9), set())
    assert "in flight 0" in progress.lines(80)[-1]
    progress.take(RateLimited("maker", 3.0, 1))
    assert progress.lines(80)[-1] == "429 (maker, waiting 3 s)"
    progress.take(Stopped("interrupted", 2))
    *_, far, hint = progress.lines(80)

    assert "in flight 0" in far
    assert "Ctrl-C" not in far
    assert hint.endswith("once more Ctrl-C stops now")
    assert len(hint) < 80
    assert progress.line == f"{far}   {hint}"


def test_the_board_remarks_what_is_skipped_and_left_also_in_plain_signs() -> None:
    off, on = Cell("off"), Cell("on")
    board = Board((off, on), 0.9, [*series("s", cell=off), *series(".", cell=on)])
    _, first, second = board.lines(left=Counter({on: 2}))

    assert first.endswith("tools are off: skipped")
    assert second.endswith("… 2 left")
    assert plain(second).endswith("... 2 left")
    assert plain(first + second).isascii()


def test_the_report_is_opened_while_it_fills_and_once_more_in_the_end(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def browse(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    code, _, _ = run("eval", "-m", "sim/clean", "-s", "simple", "-n", "1", "-q", "--open")

    assert code == 0
    assert [address.split(":")[0] for address in opened] == ["http", "file"]
    assert opened[1].endswith("report.html")
