"""How the rate of each model moved from strategy to strategy, for the drawings of the gains."""

from typing import Final

import msgspec

from surecall.eval.analysis.figures import Figure
from surecall.eval.analysis.steps import Gain, gains, strategies_of
from surecall.eval.report.page.data import Report
from surecall.eval.report.page.drawing import Axis, axis_for
from surecall.eval.storage.trial import Cell

# Marks that are nearer than this share of the width would hide each other.
_NEAR: Final = 0.04
_LEVEL_PX: Final = 14


class Place(msgspec.Struct, frozen=True):
    """The rate under one strategy; `mark` is the place of the strategy in their order.

    `down` is how many pixels it is drawn below the middle, so that no mark hides another.
    """

    mark: int
    strategy: str
    tool: Figure
    down: int = 0


class Move(msgspec.Struct, frozen=True):
    """The gain of one model, and where its rates lie."""

    gain: Gain
    places: tuple[Place, ...]


class Moves(msgspec.Struct, frozen=True):
    """The models whose conversations ended differently, largest gain first; and the others."""

    strategies: tuple[str, ...] = ()
    moved: tuple[Move, ...] = ()
    still: tuple[Gain, ...] = ()


def moves_of(report: Report) -> Moves:
    """Return what the strategies of a report changed."""
    strategies = strategies_of(report.comparisons)
    rates = {view.cell: view.tool for view in report.cells}
    axis = axis_for(rates.values())
    found = gains(report.comparisons)
    return Moves(
        strategies,
        tuple(
            Move(gain, _apart(_places(gain, strategies, rates), axis))
            for gain in found
            if gain.changed
        ),
        tuple(gain for gain in found if not gain.changed),
    )


def _places(
    gain: Gain, strategies: tuple[str, ...], rates: dict[Cell, Figure]
) -> tuple[Place, ...]:
    places = (
        Place(mark, name, rates[cell])
        for mark, name in enumerate(strategies)
        if (cell := Cell(gain.model, gain.profile, name)) in rates
    )
    return tuple(place for place in places if place.tool.n)


def _apart(places: tuple[Place, ...], axis: Axis) -> tuple[Place, ...]:
    """Draw marks that are near each other on levels of their own, in the order of strategies."""
    ranked = sorted(places, key=lambda place: (place.tool.rate or 0.0, place.mark))
    groups: list[list[Place]] = []
    for place in ranked:
        if groups and _gap(groups[-1][-1], place, axis) < _NEAR:
            groups[-1].append(place)
        else:
            groups.append([place])
    moved = (
        msgspec.structs.replace(place, down=(2 * level - len(group) + 1) * _LEVEL_PX // 2)
        for group in groups
        for level, place in enumerate(sorted(group, key=lambda each: each.mark))
    )
    return tuple(sorted(moved, key=lambda place: place.mark))


def _gap(one: Place, other: Place, axis: Axis) -> float:
    return axis.share(other.tool.rate or 0.0) - axis.share(one.tool.rate or 0.0)
