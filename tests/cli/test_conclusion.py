"""What an evaluation prints about itself: the verdict first, and its numbers add up."""

from pathlib import Path

import pytest

from surecall.testing import ScriptedProvider, failure
from tests.support.commands import Run
from tests.support.terminals import on_terminal

INTERRUPTED = """
import json, os, signal, sys
from surecall.cli import main
from surecall.cli import progress
take = progress.Progress.take
def taken(self, notice):
    take(self, notice)
    if self._finished == 3: os.kill(os.getpid(), signal.SIGINT)
progress.Progress.take = taken
sys.exit(main(json.loads(sys.argv[1])[0]))
"""


def test_the_end_begins_with_the_verdict_and_then_has_a_row_for_each_model(run: Run) -> None:
    words = ("-m", "sim/lazy,sim/clean", "-s", "simple", "-n", "40", "-q")
    _, out, _ = run("eval", *words)
    sentence, blank, head, *rows = out.splitlines()

    assert (sentence, blank) == (
        "Simulated: sim/clean is handled. sim/lazy is not handled.",
        "",
    )
    assert head.startswith("verdict        simulated model  tool pass ")
    assert [row.split("  ")[:3] for row in rows] == [
        ["✓ handled", "", ""],
        ["✗ not handled", "sim/lazy", ""],
    ]
    assert " use" not in out.replace("use ", "")
    assert "avoid" not in out


def test_of_several_strategies_the_gain_is_the_news(run: Run) -> None:
    words = ("-m", "sim/stops-early", "-s", "happy_path", "-n", "12", "-q")
    _, out, _ = run("eval", *words, "--strategy", "raw,guided_contract")

    gained = out.splitlines()[1]
    assert gained == "guided_contract over raw: helps sim/stops-early (+75 points)."
    assert out.splitlines()[-1].startswith("sim/stops-early ")


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
    words = ("eval", "-m", "sim/clean", "-s", "happy_path", "-n", "50", "-q")
    code, (printed,) = on_terminal(tmp_path, 80, words, code=INTERRUPTED)
    (first,) = [line for line in printed.splitlines() if line.startswith("Partial: ")]
    (markdown,) = tmp_path.glob(".surecall/runs/*/report.md")

    assert code == 130
    assert first.endswith(" of 50 planned runs are not recorded.")
    assert first in markdown.read_text("utf-8")


def test_a_wrong_key_is_told_as_such_however_few_trials_there_are(run: Run) -> None:
    with ScriptedProvider(*[failure(401)] * 6) as provider:
        where = ("--base-url", provider.url, "-m", "mine", "-n", "1", "-q")
        code, _, err = run("eval", *where)

    assert code == 2
    assert "AUTH" in err
    assert "tries them again" not in err
