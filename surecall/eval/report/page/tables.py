"""Failures counted by two fields together, for the tables of a report."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from surecall.eval.report.page.data import FailureRow


class Tally(msgspec.Struct, frozen=True):
    """A table of counts: fullest rows and columns first. `infra` rows say nothing about models."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: dict[tuple[str, str], int]
    totals: dict[str, int]
    infra: frozenset[str]

    @property
    def most(self) -> int:
        """The largest total of a row."""
        return max(self.totals.values(), default=0)


def tally(failures: Iterable[FailureRow], down: str, across: str) -> Tally:
    """Count failures by two of their fields."""
    counts: Counter[tuple[str, str]] = Counter()
    rows: Counter[str] = Counter()
    columns: Counter[str] = Counter()
    spoiled: Counter[str] = Counter()
    for each in failures:
        row, column = getattr(each, down), getattr(each, across)
        counts[row, column] += each.count
        rows[row] += each.count
        columns[column] += each.count
        spoiled[row] += each.count if each.infra else 0
    return Tally(
        _fullest_first(rows),
        _fullest_first(columns),
        dict(counts),
        dict(rows),
        frozenset(row for row in rows if spoiled[row] == rows[row]),
    )


def _fullest_first(counts: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(counts, key=lambda name: (-counts[name], name)))
