"""The table of conduct: what the runs of each cell did and said, as text. Pure.

model      profile  strategy  right  silent wrong  false success  wrong effects  …
sim/clean  default  guided    14/14             0              0              0  …
"""

from collections.abc import Iterable

from surecall.cli.columns import column_lines, shorter
from surecall.eval.analysis.summary import CellSummary
from surecall.eval.report.conduct import COLUMNS, conduct_row

_LONGEST = 60


def conduct_lines(
    cells: Iterable[CellSummary], width: int | None = None, *, simulated: bool = False
) -> list[str]:
    """Write a line for each cell with runs whose side effects were judged, and a head."""
    rows = [
        (
            shorter(each.cell.model, _LONGEST),
            shorter(each.cell.profile, _LONGEST),
            each.cell.strategy,
            *map(str.rjust, conduct_row(each.totals.conduct), map(len, COLUMNS)),
        )
        for each in cells
        if each.totals.conduct.runs
    ]
    model = "simulated model" if simulated else "model"
    return column_lines((model, "profile", "strategy", *COLUMNS), rows, width) if rows else []
