"""The table of conduct: what the runs of each cell did and said, as text. Pure.

model      profile  strategy  right  silent wrong  false success  wrong effects  …
sim/clean  default  guided    14/14             0              0              0  …
"""

from collections.abc import Iterable

from surecall.cli.table import shorter
from surecall.eval.analysis.summary import CellSummary
from surecall.eval.report.conduct import COLUMNS, conduct_row

_NAMES = ("model", "profile", "strategy")
_MODEL, _PROFILE = 38, 26


def conduct_lines(cells: Iterable[CellSummary]) -> list[str]:
    """Write a line for each cell with runs whose side effects were judged, and a head."""
    rows = [
        (
            shorter(each.cell.model, _MODEL),
            shorter(each.cell.profile, _PROFILE),
            each.cell.strategy,
            *conduct_row(each.totals.conduct),
        )
        for each in cells
        if each.totals.conduct.runs
    ]
    return _aligned([(*_NAMES, *COLUMNS), *rows]) if rows else []


def _aligned(lines: list[tuple[str, ...]]) -> list[str]:
    """Put names to the left of their columns, and figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if place < len(_NAMES) else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
