"""The end of an evaluation: a row for each model, best first, with its verdict and why. Pure.

verdict      model   tool pass     40%             bar 90% 100%  control  p95
✓ use        clean     60/60 100%  ······················┼─●     10/10    0.1 s
    caution: …
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from surecall.cli.axis import NARROW, WIDE, axis_for
from surecall.cli.columns import (
    Columns,
    remarked,
    rows_of,
    shortened,
    shorter,
    width_of,
    without,
)
from surecall.cli.listing import count, rate_text
from surecall.eval.analysis.candidate import Candidate
from surecall.eval.analysis.recommend import Recommendation, candidates
from surecall.eval.analysis.summary import CellSummary
from surecall.eval.analysis.verdict_sentence import grouped
from surecall.eval.analysis.verdicts import verdicts
from surecall.eval.storage.trial import Cell

_DEFAULT: Final = "default"
_LONGEST: Final = 60
# What a narrow table lacks, the first one first.
_OPTIONAL: Final = ("control", "p95", "interval")
# What it says below a row instead.
_BELOW: Final = ("strategy", "profile")


class _Row(msgspec.Struct, frozen=True):
    """One profile of a model; the first one of each model has the verdict and says why."""

    found: Candidate
    verdict: str = ""
    why: str = ""


def verdict_lines(
    advice: Sequence[Recommendation],
    cells: Iterable[CellSummary],
    bar: float,
    width: int | None = None,
) -> list[str]:
    """Write the table; in a narrow one the reasons are below the rows."""
    rows = list(_rows(advice, tuple(cells)))
    if not rows:
        return []
    everything = _columns(advice, rows, bar, WIDE)
    shown = everything if width is None else _narrowed(advice, rows, bar, width)
    hidden = [name for name in _BELOW if name in everything and name not in shown]
    remarks = ["; ".join(_told(row, hidden)) for row in rows]
    return remarked(rows_of(shown), ["", *remarks], width)


def _rows(advice: Sequence[Recommendation], cells: Sequence[CellSummary]) -> Iterator[_Row]:
    early = {each.cell: each.totals.false_finals.answers for each in cells}
    known = candidates(cells)
    for group in grouped(advice).values():
        for each in group:
            mine = [one for one in known if one.model == each.model]
            for found in sorted(mine, key=lambda one: _rank(one, each)):
                if found.profile == each.decided_profile:
                    sign, word = verdicts(simulated=each.simulated)[each.decision]
                    cell = Cell(found.model, found.profile, found.strategy)
                    yield _Row(found, f"{sign} {word}", "; ".join(_why(each, early[cell])))
                else:
                    yield _Row(found)


def _rank(found: Candidate, advice: Recommendation) -> tuple[bool, float]:
    return found.profile != advice.decided_profile, -(found.tool.rate or 0.0)


def _why(each: Recommendation, early: int) -> Iterator[str]:
    """Say what stands behind a verdict, beside its figures; and what it is not about."""
    if each.decision == "more trials":
        yield f"+{count(each.more_trials or 0, 'run')} would decide"
    if each.decided_profile == each.profile:
        yield from map(_clause, each.notes)
    if early:
        yield count(early, "early answer")
    if each.decided_profile == each.profile:
        yield from (f"caution, {_clause(sentence)}" for sentence in each.cautions)


def _clause(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:].rstrip(".")


def _told(row: _Row, hidden: Sequence[str]) -> Iterator[str]:
    """Say why, after what the table itself has no room for."""
    yield from (f"{name} {getattr(row.found, name)}" for name in hidden)
    if row.why:
        yield row.why


def _narrowed(
    advice: Sequence[Recommendation], rows: Sequence[_Row], bar: float, width: int
) -> Columns:
    wide = without(_columns(advice, rows, bar, WIDE), width, _OPTIONAL)
    if width_of(wide) <= width:
        return wide
    columns = without(_columns(advice, rows, bar, NARROW), width, (*_OPTIONAL, *_BELOW))
    return without(shortened(columns, width, ("model",)), width, ("line",))


def _columns(
    advice: Sequence[Recommendation], rows: Sequence[_Row], bar: float, size: int
) -> Columns:
    found = [row.found for row in rows]
    axis = axis_for(bar, min((each.bounds[0] for each in found if each.tool.n), default=1.0), size)
    columns = {
        "verdict": ["verdict", *(row.verdict for row in rows)],
        "model": [model_head(advice), *(shorter(each.model, _LONGEST) for each in found)],
        "profile": ["profile", *(shorter(each.profile, _LONGEST) for each in found)],
        "strategy": ["strategy", *(each.strategy for each in found)],
        "passed": ["tool pass", *(rate_text(each.tool.k, each.tool.n) for each in found)],
        "interval": ["interval", *map(_interval, found)],
        "line": [axis.head, *(axis.drawn(each.tool.rate, each.bounds) for each in found)],
        "control": ["control", *(_counts(each) for each in found)],
        "p95": ["p95", *(f"{each.p95_ms / 1000:.1f} s" if each.p95_ms else "" for each in found)],
    }
    if {each.profile for each in found} <= {_DEFAULT}:
        del columns["profile"]
    if len({each.strategy for each in found}) == 1:
        del columns["strategy"]
    return {name: texts for name, texts in columns.items() if any(texts[1:])}


def model_head(advice: Iterable[Recommendation]) -> str:
    """Name a column of models; simulated ones are called so."""
    return "simulated model" if any(each.simulated for each in advice) else "model"


def _interval(found: Candidate) -> str:
    low, high = found.bounds
    return f"[{100 * low:.1f}, {100 * high:.1f}]" if found.tool.n else ""


def _counts(found: Candidate) -> str:
    return f"{found.control.k}/{found.control.n}" if found.control.n else ""
