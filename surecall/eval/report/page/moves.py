"""How the rate of each model moved from strategy to strategy, for the drawings of the gains."""

import msgspec

from surecall.eval.analysis.figures import Figure
from surecall.eval.analysis.steps import Gain, gains, strategies_of
from surecall.eval.report.page.data import Report
from surecall.eval.storage.trial import Cell


class Place(msgspec.Struct, frozen=True):
    """The rate under one strategy; `mark` is the place of the strategy in their order."""

    mark: int
    strategy: str
    tool: Figure


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
    found = gains(report.comparisons)
    return Moves(
        strategies,
        tuple(Move(gain, _places(gain, strategies, rates)) for gain in found if gain.changed),
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
