"""What an evaluation prints about itself: it fits the terminal, and its numbers add up."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from surecall.cli.conclusion import advice_lines, fitted
from surecall.cli.table import CellTable
from surecall.eval.analysis.recommend import candidates, recommend
from surecall.eval.analysis.summary import summarise
from surecall.eval.storage.trial import CONTROL, Cell, Trial
from surecall.testing import ScriptedProvider, failure
from tests.support.commands import Run
from tests.support.trials import series, trial

LONG = "a-maker-with-a-name/a-model-with-a-very-long-name-that-goes-on"


def trials_of(model: str, strategies: tuple[str, ...] = ("production",)) -> list[Trial]:
    return [
        each
        for strategy in strategies
        for scenario, how in (
            ("happy_path", "...xi"),
            ("a_scenario_whose_name_is_rather_long", "..xxi"),
            (CONTROL, "....i"),
        )
        for each in series(how, scenario, Cell(model, "a_profile_with_a_long_name", strategy))
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 132])
@pytest.mark.parametrize("model", ["m", LONG])
@pytest.mark.parametrize("strategies", [("production",), ("raw", "guided_contract")])
def test_on_a_terminal_table_and_advice_fit(
    width: int, model: str, strategies: tuple[str, ...]
) -> None:
    trials = trials_of(model, strategies)
    table = CellTable([], 0.9, trials).lines(width)
    advice = [
        line
        for each in recommend(candidates(summarise(trials).cells))
        for line in advice_lines(each, width)
    ]
    words = " ".join(" ".join([*table, *advice]).split())

    assert max(map(len, [*table, *advice])) <= width
    assert "a_scenario_whose_name_is_rather_long 2/4" in words
    assert "2 infra and 1 without tools (ASSERTION_FAILED), not scored" in words
    assert "2 more runs with tools were spoiled by infrastructure and not judged" in words


def test_elsewhere_every_model_has_one_line() -> None:
    trials = trials_of(LONG)
    (advice,) = recommend(candidates(summarise(trials).cells))

    assert len(CellTable([], 0.9, trials).lines()) == 2
    assert len(advice_lines(advice)) == 1
    assert fitted("a b " * 99, None) == ["a b " * 99]


def test_what_is_cut_off_in_the_live_table_stays_in_its_line() -> None:
    assert len(CellTable([], 0.9, trials_of(LONG)).lines(60, wrap=False)) == 2
    assert len(CellTable([], 0.9).lines(60)) == 1


def test_a_control_that_was_spoiled_alone_is_remarked() -> None:
    table = CellTable([], 0.9, [*series("."), *series("i", CONTROL)])

    assert table.lines()[1].endswith("1 infra without tools (ASSERTION_FAILED), not scored")


def test_what_to_use_is_explained_by_the_runs_with_tools() -> None:
    trials = [*series("." * 40), *series("x" * 10, CONTROL)]
    (advice,) = recommend(candidates(summarise(trials).cells))
    (line,) = advice_lines(advice)

    assert line.startswith("✓ use")
    assert line.endswith(
        "n=40  all 40 runs with tools passed; beside tools: the control, an exact answer, "
        "passed only 0 of 10"
    )


def test_runs_without_tools_are_remarked_and_in_no_column() -> None:
    chats = [trial("passed", number, "mine", tools=False) for number in (1, 2)]
    line = CellTable([], 0.9, [*series("x"), *chats]).lines()[1]

    assert "0/1   0%" in line
    assert line.endswith("without tools 2/2")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-m", "sim/clean", "-n", "1"), "1 cell x 1 scenario x 1 trial = 1 run\n"),
        (
            ("-m", "sim/clean", "-n", "auto"),
            "1 cell x 1 scenario x 10 or more trials = 10 runs or more\n",
        ),
        (
            ("-m", "sim/clean,sim/like-minimax-her", "-n", "3"),
            "2 cells x 1 scenario x 3 trials - 3 skipped = 3 runs\n",
        ),
    ],
)
def test_the_number_of_runs_says_what_it_is_made_of(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    _, out, _ = run("eval", *arguments, "-s", "happy_path", "--dry-run")

    assert said in out


def test_the_parts_of_a_shard_add_up(run: Run) -> None:
    parts = [
        run("eval", "-m", "sim/clean", "-n", "9", "--shard", part, "--dry-run")[1]
        for part in ("1/2", "2/2")
    ]
    heads = [line for out in parts for line in out.splitlines() if "cell x" in line]

    assert all(f"x 9 trials, of which part {at}/2 = " in head for at, head in enumerate(heads, 1))
    assert sum(int(head.split(" = ")[1].split()[0]) for head in heads) == 9 * 6


@pytest.mark.processes
def test_after_a_ctrl_c_the_table_says_that_it_is_partial(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    code = (
        "import os, signal, sys\n"
        "from surecall.cli import main\n"
        "from surecall.cli import progress\n"
        "take = progress.Progress.take\n"
        "def taken(self, notice):\n"
        "    take(self, notice)\n"
        "    if self._finished == 3: os.kill(os.getpid(), signal.SIGINT)\n"
        "progress.Progress.take = taken\n"
        "sys.exit(main())\n"
    )
    words = ("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "50", "-q")
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "40"},
    ) as process:
        os.close(theirs)
        printed = b""
        try:
            while piece := os.read(ours, 65536):
                printed += piece
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    first = printed.decode().splitlines()[0]
    (markdown,) = tmp_path.glob(".surecall/runs/*/report.md")

    assert process.returncode == 130
    assert first.startswith("Partial: ")
    assert first.endswith(" of 50 planned runs are not recorded.")
    assert first in markdown.read_text("utf-8")


def test_a_wrong_key_is_told_as_such_however_few_trials_there_are(run: Run) -> None:
    with ScriptedProvider(*[failure(401)] * 6) as provider:
        where = ("--base-url", provider.url, "-m", "mine", "-n", "1", "-q")
        code, _, err = run("eval", *where)

    assert code == 2
    assert "AUTH" in err
    assert "tries them again" not in err
