"""Strategies side by side: how often each passed, and what was gained from first to last. Pure.

model            raw           production    change      from raw to production
sim/stops-early    12/60  20%    38/60  63%  +43 points  ▲ better: 26 fixed, 0 broken
"""

from collections.abc import Sequence
from typing import Final

from surecall.cli.columns import column_lines, shorter
from surecall.cli.listing import rate_text
from surecall.cli.verdict_table import model_head
from surecall.eval.analysis.gain import gains_of, points
from surecall.eval.analysis.paired import Comparison
from surecall.eval.analysis.recommend import Recommendation
from surecall.eval.analysis.summary import Summary
from surecall.eval.analysis.verdict_sentence import grouped
from surecall.eval.report.page.compare import VERDICTS, verdict_of
from surecall.eval.storage.trial import Cell

_LONGEST: Final = 60
_DEFAULT: Final = "default"


def strategy_lines(
    advice: Sequence[Recommendation], summary: Summary, width: int | None = None
) -> list[str]:
    """Write a row for each model and profile, in the order of the advice; none for one strategy."""
    strategies = list(summary.strategies)
    changes = gains_of(summary.comparisons)
    if len(strategies) == 1 or not changes:
        return []
    advised = [each.model for group in grouped(advice).values() for each in group]
    # A model that lacks the strategy which advice is about comes last.
    order = dict.fromkeys((*advised, *(each.cell.model for each in summary.cells)))
    tool = {each.cell: each.totals.tool for each in summary.cells}
    places = dict.fromkeys((each.cell.model, each.cell.profile) for each in summary.cells)
    several = {profile for _, profile in places} != {_DEFAULT}
    rows = []
    for model, profile in sorted(places, key=lambda place: [*order].index(place[0])):
        found = (tool.get(Cell(model, profile, each)) for each in strategies)
        rows.append(
            (
                shorter(model, _LONGEST),
                *([shorter(profile, _LONGEST)] if several else []),
                *("" if one is None else rate_text(one.k, one.n) for one in found),
                *_change(changes.get((model, profile))),
            )
        )
    heads = (model_head(advice), *(["profile"] if several else []), *strategies)
    span = f"from {strategies[0]} to {strategies[-1]}"
    return column_lines((*heads, "change", span), rows, width)


def _change(row: Comparison | None) -> tuple[str, str]:
    """Say how much it is, and whether that may be chance; where nothing changed, that is all."""
    if row is None or not row.pairs:
        return "", "not compared"
    if not row.fixed and not row.broken:
        return "none", ""
    sign, words, _ = VERDICTS[verdict_of(row)]
    return points(row), f"{sign} {words}: {row.fixed} fixed, {row.broken} broken"
