"""What each strategy gained over the one before it, model by model, and all of it in a sentence.

The strategies of an evaluation stand in their order, from raw to the fullest. A step leads from
one to the next on the same conversations.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from surecall.eval.analysis.paired import Comparison, Comparisons
from surecall.eval.analysis.verdict_sentence import MOST, listed

_PERCENT: Final = 100
_MINUS: Final = "\N{MINUS SIGN}"


class Gain(msgspec.Struct, frozen=True):
    """What one model under one profile gained: step by step, and over all steps together.

    `whole` leads from the first strategy to the last. With two strategies it is the only step.
    """

    model: str
    profile: str
    steps: tuple[Comparison, ...]
    whole: Comparison

    @property
    def changed(self) -> bool:
        """Whether any conversation ended differently."""
        return any(step.fixed or step.broken for step in (*self.steps, self.whole))


def strategies_of(found: Comparisons) -> tuple[str, ...]:
    """Return the strategies that were compared, in their order."""
    return tuple(dict.fromkeys(name for row in found.overall for name in (row.first, row.second)))


def gains(found: Comparisons) -> tuple[Gain, ...]:
    """Return the gain of each model that was judged on both sides of a step, largest first."""
    names = strategies_of(found)
    if not names:
        return ()
    steps = set(itertools.pairwise(names))
    ends = (names[0], names[-1])
    by_model: dict[tuple[str, str], list[Comparison]] = {}
    for row in found.rows:
        if row.pairs:
            by_model.setdefault((row.model, row.profile), []).append(row)
    made = [
        Gain(
            model,
            profile,
            tuple(row for row in rows if (row.first, row.second) in steps),
            next((row for row in rows if (row.first, row.second) == ends), rows[0]),
        )
        for (model, profile), rows in by_model.items()
    ]
    return tuple(sorted(made, key=lambda gain: -(gain.whole.difference or 0.0)))


def gain_over_first(
    found: Comparisons, model: str, profile: str, strategy: str
) -> Comparison | None:
    """Return what a cell gained over the first strategy; None for that one, or without pairs."""
    wanted = (model, profile, *strategies_of(found)[:1], strategy)
    rows = (row for row in found.rows if row.pairs)
    return next(
        (row for row in rows if (row.model, row.profile, row.first, row.second) == wanted), None
    )


def steps_sentence(found: Comparisons, most: int = MOST) -> str:
    """Say for each step whom it helped, and whom it harmed; blank with a single strategy."""
    names = strategies_of(found)
    steps = itertools.pairwise(names)
    return " ".join(
        _step([row for row in found.rows if (row.first, row.second) == step], *step, most)
        for step in steps
    )


def _points(difference: float) -> str:
    """Write a difference of two shares in whole points, with its sign."""
    return f"{_PERCENT * difference:+.0f}".replace("-", _MINUS)


def _step(rows: Sequence[Comparison], first: str, second: str, most: int) -> str:
    better = _named((row for row in rows if row.verdict() == "better"), most, sign=-1)
    worse = _named((row for row in rows if row.verdict() == "worse"), most, sign=1)
    if not better and not worse:
        return f"{second} over {first}: no evidence of a gain."
    said = [f"helps {better}"] if better else []
    said += [f"harms {worse}"] if worse else []
    return f"{second} over {first}: {', '.join(said)}."


def _named(rows: Iterable[Comparison], most: int, *, sign: int) -> str:
    """Name models, the largest change first; the first of them tells the unit."""
    ranked = sorted(rows, key=lambda row: sign * (row.difference or 0.0))
    told = [f"{row.model} ({_points(row.difference or 0.0)})" for row in ranked]
    if told:
        told[0] = f"{told[0][:-1]} points)"
    return listed(told, most) if told else ""
