"""What an evaluation reports while it runs, its outcome, and when it knows enough."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from surecall.eval.analysis.stats import NOTHING, Rate, interval, leaves
from surecall.eval.storage.trial import Cell, Key, Trial

Ending: TypeAlias = Literal["complete", "interrupted", "budget", "unpriced", "unusable", "lost"]


class Planned(msgspec.Struct, frozen=True):
    """So many trials are wanted by now, and so many of them are recorded already."""

    wanted: int
    recorded: int


class Started(msgspec.Struct, frozen=True):
    """A trial began."""

    key: Key


class Finished(msgspec.Struct, frozen=True):
    """A trial ended and is recorded. `spent` is the cost of all, as far as it is known."""

    trial: Trial
    spent: float


class RateLimited(msgspec.Struct, frozen=True):
    """A provider gets no new trial for a while: it refused a request, or its quota is used up."""

    provider: str
    wait_s: float
    limit: int


class Stopped(msgspec.Struct, frozen=True):
    """No new trial begins. Those under way are being finished."""

    reason: Ending
    under_way: int


Notice: TypeAlias = Planned | Started | Finished | RateLimited | Stopped


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """How far an evaluation came. `recorded` trials were there before; `ran` were added.

    `skipped` ones could not apply, were noted as such, and are not among those `wanted`.
    `unpriced` trials came without a cost: with any, `spent` is too low. `error` says why it ended
    early, and `category` what kind of error made the endpoint unusable.
    """

    ending: Ending
    wanted: int
    recorded: int
    ran: int = 0
    passed: int = 0
    failed: int = 0
    infra: int = 0
    skipped: int = 0
    spent: float = 0.0
    unpriced: int = 0
    error: str = ""
    category: str = ""

    @property
    def done(self) -> int:
        """How many of the wanted trials are recorded by now."""
        return self.recorded + self.ran

    @property
    def missing(self) -> int:
        """How many trials were not begun or not finished."""
        return self.wanted - self.done


class Tally:
    """The rates so far, by cell and scenario: enough to say which cells need more trials.

    It counts what the tool rate counts: only scenarios with tools, and nothing that the
    infrastructure spoiled.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._rates: dict[Cell, dict[str, Rate]] = {}
        for trial in trials:
            self.add(trial)

    def add(self, trial: Trial) -> None:
        """Count a trial, if it counts."""
        if trial.kind != "tool" or trial.status not in {"passed", "failed"}:
            return
        rates = self._rates.setdefault(trial.key.cell, {})
        scenario = trial.key.scenario
        rates[scenario] = rates.get(scenario, NOTHING) + Rate(int(trial.ok), 1)

    def counted(self, cell: Cell) -> int:
        """Return how many trials of a cell count."""
        return sum(rate.n for rate in self._rates.get(cell, {}).values())

    def undecided(self, cell: Cell, bar: float) -> bool:
        """Whether the interval of a cell's rate still contains the bar.

        It is asked again and again, so the interval is the one that holds at all looks together.
        """
        return not leaves(interval(self._rates.get(cell, {}).values(), sequential=True), bar)
