"""Progress: a table on a terminal, lines elsewhere."""

from pathlib import Path

import pytest

from surecall.cli.progress import Progress
from surecall.cli.table import CellTable
from surecall.eval.running.harness_events import Finished, Planned, RateLimited, Started, Stopped
from surecall.eval.running.matrix import Plan
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.done import Done
from surecall.eval.storage.trial import Cell, Key
from tests.cli.test_eval_part import SMALL
from tests.support.commands import Run
from tests.support.terminals import assert_fits, on_terminal
from tests.support.trials import trial


def test_v_prints_a_line_for_each_trial(run: Run) -> None:
    code, _, err = run(*SMALL, "-v")

    assert code == 0
    assert err.count("passed  sim/clean default production") == 6


@pytest.mark.processes
def test_on_a_terminal_v_prints_lines_instead_of_the_board(tmp_path: Path) -> None:
    code, (printed,) = on_terminal(tmp_path, 120, ("eval", "-v", *SMALL[1:]))

    assert code == 0
    assert printed.count("passed  sim/clean default production") == 6
    assert "in flight" not in printed


def test_what_to_do_after_ctrl_c_has_a_line_of_its_own_in_the_display() -> None:
    progress = Progress(Plan(Settings(), (), ()), CellTable((), 0.9), Done())
    assert "in flight 0" in progress.lines(80)[-1]
    progress.take(RateLimited("maker", 3.0, 1))
    assert progress.lines(80)[-1] == "rate limit (maker, waiting 3 s)"
    progress.take(Stopped("interrupted", 2))
    *_, far, hint = progress.lines(80)

    assert "in flight 0" in far
    assert "Ctrl-C" not in far
    assert hint.startswith("stopping: 2 trials to be finished within 10 min;")
    assert hint.endswith("Ctrl-C again stops now")
    assert len(hint) < 80
    assert progress.line == f"{far}   {hint}"


@pytest.mark.processes
def test_a_terminal_that_cannot_replace_lines_gets_one_for_each_cell(tmp_path: Path) -> None:
    _, (printed,) = on_terminal(tmp_path, 80, SMALL, variables={"TERM": "dumb"})

    assert "sim/clean default production: 3/3\n" in printed
    assert "in flight" not in printed
    assert "\x1b" not in printed


def test_a_narrow_display_leaves_out_what_does_not_fit() -> None:
    progress = Progress(Plan(Settings(), (), ()), CellTable((), 0.9), Done())
    progress.take(Planned(1000, 0))
    for number in range(1, 21):
        progress.take(Started(Key(Cell("m"), "happy_path", number)))
        progress.take(Finished(trial(number=number, retries=9, cell=Cell("m" * 90)), 12.5))
    progress.take(Stopped("interrupted", 20))

    for width in (60, 80, 120, 200):
        assert_fits("\n".join(progress.lines(width)), width)
    assert "retries 180" not in "".join(progress.lines(60))
    assert "retries 180   $12.50" in "".join(progress.lines(120))


@pytest.mark.parametrize(
    ("limit_s", "said"),
    [(None, "1 trial to be finished; Ctrl-C"), (90.0, "within 90 s;")],
)
def test_who_stops_is_told_how_long_it_may_take(limit_s: float | None, said: str) -> None:
    settings = Settings(timeout=limit_s)
    progress = Progress(Plan(settings, (), ()), CellTable((), 0.9), Done())
    progress.take(Stopped("interrupted", 1))

    assert said in progress.line
