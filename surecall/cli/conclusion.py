"""What an evaluation prints about itself: what will run, and at its end the verdict."""

import sys
from collections.abc import Iterator, Sequence

import surecall
from surecall.cli.common import say
from surecall.cli.conduct import conduct_lines
from surecall.cli.listing import count
from surecall.cli.screen import screen_of, wrapped
from surecall.cli.strategy_table import strategy_lines
from surecall.cli.verdict_table import verdict_lines
from surecall.eval.analysis.recommend import Recommendation
from surecall.eval.analysis.steps import steps_sentence
from surecall.eval.analysis.summary import Summary
from surecall.eval.analysis.verdict_sentence import verdict_sentence
from surecall.eval.running.matrix import Plan


def headline(planned: Plan, recorded: int) -> str:
    """Say how many runs there are, and what the number is made of."""
    least = f"{planned.trials} or more trials" if planned.automatic else ""
    factors = (
        count(len(planned.cells), "cell"),
        count(len(planned.scenarios), "scenario"),
        least or count(planned.trials, "trial"),
    )
    skipped = len(planned.skips) * planned.trials
    less = f" - {skipped} skipped" if skipped else ""
    shard = planned.settings.shard
    part = "" if shard is None else f", of which part {shard.index}/{shard.count}"
    runs = count(planned.left().total(), "run")
    runs = f"{runs} or more" if planned.automatic else runs
    done = f", {recorded} recorded" if recorded else ""
    return f"surecall {surecall.__version__}   {' x '.join(factors)}{less}{part} = {runs}{done}"


def print_conclusion(
    advice: Sequence[Recommendation], summary: Summary, bar: float, notice: str = ""
) -> None:
    """Print what is missing, the verdict, a row for each model, and what strategies change."""
    width = screen_of(sys.stdout).width
    parts = ["\n".join(part) for part in _parts(advice, summary, bar, notice, width)]
    say("\n\n".join(parts) + ("" if width is None else "\n"))


def _parts(
    advice: Sequence[Recommendation],
    summary: Summary,
    bar: float,
    notice: str,
    width: int | None,
) -> Iterator[list[str]]:
    gained = steps_sentence(summary.comparisons)
    sentences = filter(None, (notice, verdict_sentence(advice), gained))
    tables = (
        [line for each in sentences for line in wrapped(each, width, "")],
        verdict_lines(advice, summary.cells, bar, width),
        strategy_lines(advice, summary, width),
        conduct_lines(summary.cells, width, simulated=any(each.simulated for each in advice)),
    )
    return (part for part in tables if part)
