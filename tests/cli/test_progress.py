"""Progress: a table on a terminal, lines elsewhere."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from surecall.cli.progress import Progress
from surecall.cli.table import CellTable
from surecall.eval.running.harness_events import RateLimited, Stopped
from surecall.eval.running.matrix import Plan
from surecall.eval.settings.fields import Settings
from tests.cli.test_eval_part import SMALL
from tests.support.commands import Run


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


def test_what_to_do_after_ctrl_c_has_a_line_of_its_own_in_the_display() -> None:
    progress = Progress(Plan(Settings(), (), ()), CellTable((), 0.9), set())
    assert "in flight 0" in progress.lines(80)[-1]
    progress.take(RateLimited("maker", 3.0, 1))
    assert progress.lines(80)[-1] == "429 (maker, waiting 3 s)"
    progress.take(Stopped("interrupted", 2))
    *_, far, hint = progress.lines(80)

    assert "in flight 0" in far
    assert "Ctrl-C" not in far
    assert hint.startswith("stopping: 2 trials to be finished within 10 min;")
    assert hint.endswith("Ctrl-C again stops now")
    assert len(hint) < 80
    assert progress.line == f"{far}   {hint}"


@pytest.mark.parametrize(
    ("limit_s", "said"),
    [(None, "1 trial to be finished; Ctrl-C"), (90.0, "within 90 s;")],
)
def test_who_stops_is_told_how_long_it_may_take(limit_s: float | None, said: str) -> None:
    settings = Settings(timeout=limit_s)
    progress = Progress(Plan(settings, (), ()), CellTable((), 0.9), set())
    progress.take(Stopped("interrupted", 1))

    assert said in progress.line
