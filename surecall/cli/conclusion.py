"""What an evaluation prints about itself: what will run, and at its end the figures and advice.

On a terminal every line fits; elsewhere lines are as long as they are, so that programs can read
them.
"""

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import surecall
from surecall.cli.common import say
from surecall.cli.conduct import conduct_lines
from surecall.cli.listing import count
from surecall.cli.table import CellTable, plain, shorter
from surecall.eval.analysis.paired import Comparison
from surecall.eval.analysis.recommend import Recommendation
from surecall.eval.analysis.summary import Summary
from surecall.eval.analysis.verdicts import SIMULATED_VERDICTS, VERDICTS, verdicts
from surecall.eval.running.matrix import Plan

_INDENT: Final = "    "
_WORD: Final = max(
    len(word) for words in (VERDICTS, SIMULATED_VERDICTS) for _, word in words.values()
)


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
    runs = count(sum(1 for _ in planned.keys(1)), "run")
    runs = f"{runs} or more" if planned.automatic else runs
    done = f", {recorded} recorded" if recorded else ""
    return f"surecall {surecall.__version__}   {' x '.join(factors)}{less}{part} = {runs}{done}"


def print_conclusion(
    table: CellTable, advice: Sequence[Recommendation], summary: Summary, notice: str = ""
) -> None:
    """Print the table, the advice and what strategies change; first what is missing from it all."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    spelt = str if (sys.stdout.encoding or "").lower().startswith("utf") else plain
    say(spelt("\n".join(_lines(table, advice, summary, notice, width))))


def _lines(
    table: CellTable,
    advice: Sequence[Recommendation],
    summary: Summary,
    notice: str,
    width: int | None,
) -> Iterator[str]:
    if notice:
        yield from (*fitted(notice, width), "")
    yield from table.lines(width)
    yield ""
    if done := conduct_lines(summary.cells):
        yield from (*done, "")
    for each in advice:
        yield from advice_lines(each, width)
    yield ""
    for pair in summary.comparisons.rows:
        if pair.fixed or pair.broken:
            yield from fitted(_compared(pair), width)


def fitted(text: str, width: int | None, indent: str = _INDENT) -> list[str]:
    """Break a text into lines of a width, if there is one."""
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def advice_lines(each: Recommendation, width: int | None = None) -> list[str]:
    """Say what to do with a model, and why, with the profile it names; in one line if it fits."""
    sign, word = verdicts(simulated=each.simulated)[each.decision]
    model = f"{sign} {word:<{_WORD}}  {each.model:<23}"
    tool = each.decided_tool
    notes = each.why if each.decided_profile == each.profile else ()
    if each.decision == "more trials":
        notes = (f"+{each.more_trials} runs would decide", *notes)
    sentences = (*notes, *each.cautions)
    why = "; ".join(reason[0].lower() + reason[1:].rstrip(".") for reason in sentences)
    figures = ""
    if tool.rate is not None:
        bounds = f"[{tool.low * 100:.1f}, {tool.high * 100:.1f}]"
        figures = f"{tool.rate:6.1%}  {bounds:<14}  n={tool.n}"
    parts = (model, f"{each.decided_profile:<12}", figures, why)
    return _joined([part for part in parts if part], width)


def _joined(parts: Sequence[str], width: int | None) -> list[str]:
    """Put parts side by side while they fit; what does not begins a line of its own."""
    lines = [shorter(parts[0].rstrip(), width or len(parts[0]))]
    for before, part in pairwise(parts):
        beside = f"{lines[-1]}{' ' * (len(before) - len(before.rstrip()) + 2)}{part}"
        if width is None or len(beside) <= width:
            lines[-1] = beside.rstrip()
        else:
            lines += fitted(f"{_INDENT}{part.strip()}", width)
    return lines


def _compared(pair: Comparison) -> str:
    first, second = pair.rates
    return (
        f"{pair.model} {pair.profile}: {pair.first} {first.k}/{first.n} -> {pair.second} "
        f"{second.k}/{second.n}, fixed {pair.fixed}, broken {pair.broken}: {pair.verdict()}"
    )
