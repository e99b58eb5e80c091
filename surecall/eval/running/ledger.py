"""The ledger of an evaluation: what is left to do, what was done, and why to stop.

    plan ─ minus what the store has ─► one queue for each lane ─ take ─► an engine runs it
                                       store, events  ◄─ finish ─┘

There is one, in the process that was started, and nothing else writes to the store. It does not
know how trials are run, nor how many at the same time: an engine takes keys and brings results.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from surecall.eval.analysis.category import TOOLS_DISABLED
from surecall.eval.running.bell import Bell
from surecall.eval.running.guarded_trial import Ended
from surecall.eval.running.harness_events import (
    Ending,
    Finished,
    Notice,
    Planned,
    Report,
    Started,
    Stopped,
    Tally,
)
from surecall.eval.running.limiter import Budget
from surecall.eval.running.matrix import Plan
from surecall.eval.running.outlook import Outlook
from surecall.eval.running.refusals import Refusals, settled
from surecall.eval.storage.done import Done
from surecall.eval.storage.trial import Cell, Key, Trial
from surecall.values.errors import ErrorCode


class Results(Protocol):
    """Where trials are recorded."""

    def trials(self) -> Iterator[Trial]:
        """Return all recorded trials."""
        ...

    def add(self, trial: Trial, trace: bytes | None = None) -> None:
        """Record a trial; it may replace one that the infrastructure spoiled."""
        ...

    def find(self, key: Key) -> tuple[Trial, bytes | None] | None:
        """Return a recorded trial, with its trace in some packed form."""
        ...

    def trace(self, key: Key) -> bytes | None:
        """Return the trace of a recorded trial as JSON lines."""
        ...


class Ledger:
    """An evaluation under way. Its methods are called from one event loop, and none waits."""

    def __init__(self, plan: Plan, store: Results, tell: Callable[[Notice], None]) -> None:
        self._plan = plan
        self._store = store
        self._tell = tell
        self._lanes = {planned.cell: planned.model.lane for planned in plan.cells}
        self._simulated = {each.cell for each in plan.cells if each.model.simulated}
        self._done = Done()
        self._queues: dict[str, Iterator[Key]] = {}
        self._tally = Tally()
        self._budget = Budget(plan.settings.max_cost)
        self._refusals = Refusals()
        self._counts: Counter[str] = Counter()
        self._places = {planned.cell: planned.model.at for planned in plan.cells}
        self._outlooks = {
            at: Outlook(len({each.model.id for each in plan.cells if each.model.at == at}))
            for at in dict.fromkeys(self._places.values())
        }
        self._wanted = self._recorded = self._left = self._under_way = self._ran = 0
        self._ending: Ending = "complete"
        self._error = self._category = ""
        # Rings when a trial has ended, and when no other may begin.
        self.bell = Bell()
        for trial in store.trials():
            self._count(trial)
            if trial.status != "infra":
                self._done.add(trial.key)
        self._record_skips()

    @property
    def left(self) -> int:
        """How many trials of this round were not taken yet."""
        return self._left

    @property
    def is_open(self) -> bool:
        """Whether there is a trial left, and it may begin."""
        return bool(self._left) and not self.is_closed

    @property
    def is_closed(self) -> bool:
        """Whether no trial may begin any more, even one that was taken."""
        return self._ending != "complete"

    @property
    def lanes(self) -> Iterable[str]:
        """The lanes that have trials left."""
        return self._queues.keys()

    def begin_round(self, cells: list[Cell], first: int, last: int) -> None:
        """Queue some trials of some cells, if the store lacks them."""
        wanted = self._plan.left(None, first, last, cells).total()
        missing = self._plan.left(self._done, first, last, cells).total()
        self._wanted += wanted
        self._recorded += wanted - missing
        self._left = missing
        self._tell(Planned(self._wanted, self._recorded))
        self._queues = self._queued(cells, first, last)

    def undecided(self, cells: Iterable[Cell], trials: int) -> list[Cell]:
        """Return the cells that need more trials, after so many of each.

        Those are undecided, and their trials are not merely spoiled one after another.
        """
        if self.is_closed:
            return []
        return [
            cell
            for cell in cells
            if self._tally.counted(cell) >= trials and self._tally.undecided(cell, self._plan.bar)
        ]

    def take(self, has_room: Callable[[str], bool]) -> tuple[str, Key] | None:
        """Take the next trial of a lane that has room; None when none may begin for now."""
        if not self.is_open:
            return None
        if (model := self._budget.silent) is not None:
            self.close("unpriced", f"{model} tells no prices, so --max-cost cannot be kept")
            return None
        advice = self._budget.advice(self._under_way)
        if advice == "stop":
            self.close("budget", "the next trial would cost more than is left")
        return self._taken(has_room) if advice == "go" else None

    def begin(self, key: Key) -> None:
        """Tell that a trial begins."""
        self._tell(Started(key))

    def finish(self, ended: Ended) -> None:
        """Record a trial that ended, and draw the conclusions."""
        trial, simulated = ended.trial, ended.trial.key.cell in self._simulated
        if not simulated:
            trial = self._refusals.judged(trial)
        self._store.add(trial, ended.lines)
        self._ran += 1
        self._counts[trial.status] += 1
        self._count(trial)
        self._tell(Finished(trial, self._budget.spent))
        if not simulated:
            place = self._places[trial.key.cell]
            self._outlooks[place].add(trial, ended.said)
            if self._outlooks[place].hopeless:
                self._give_up(place)
        self._under_way -= 1
        self.bell.ring()

    def close(self, reason: Ending, error: str = "") -> None:
        """Begin no new trial."""
        if not self.is_closed:
            self._ending, self._error = reason, error
            self._tell(Stopped(reason, self._under_way))
            self.bell.ring()

    def _give_up(self, place: str) -> None:
        """Begin no new trial: an endpoint cannot be used. It is named if there are several."""
        if not self.is_closed:
            outlook = self._outlooks[place]
            self._category = outlook.category
            self.close("unusable", f"{place}: {outlook.error}" if place else outlook.error)

    def report(self) -> Report:
        """Say how far the evaluation came."""
        for place, outlook in self._outlooks.items():
            # A few trials may end before the endpoint is given up.
            refused = outlook.category == ErrorCode.AUTH
            if outlook.silent and (refused or not self._recorded):
                self._give_up(place)
        return Report(
            ending=self._ending,
            wanted=self._wanted,
            recorded=self._recorded,
            ran=self._ran,
            passed=self._counts["passed"],
            failed=self._counts["failed"],
            infra=self._counts["infra"],
            skipped=self._counts["skipped"],
            spent=self._budget.spent,
            unpriced=self._budget.unpriced,
            error=self._error,
            category=self._category,
        )

    def _record_skips(self) -> None:
        for key, reason in self._plan.skipped_keys():
            if key not in self._done:
                skipped = Trial(key=key, status="skipped", category=TOOLS_DISABLED, error=reason)
                self._store.add(skipped)
                self._counts["skipped"] += 1

    def _queued(self, cells: list[Cell], first: int, last: int) -> dict[str, Iterator[Key]]:
        """Make a queue for each lane: a provider that must wait does not hold up the others."""
        lanes: dict[str, list[Cell]] = {}
        for cell in cells:
            lanes.setdefault(self._lanes[cell], []).append(cell)
        return {
            lane: (key for key in self._plan.keys(first, last, own) if key not in self._done)
            for lane, own in lanes.items()
        }

    def _taken(self, has_room: Callable[[str], bool]) -> tuple[str, Key] | None:
        """Take the next key of a lane that has room. Lanes take turns."""
        for lane in [lane for lane in self._queues if has_room(lane)]:
            queue = self._queues.pop(lane)
            key = next(queue, None)
            if key is not None:
                self._queues[lane] = queue
                self._left -= 1
                self._under_way += 1
                return lane, key
        return None

    def _count(self, trial: Trial) -> None:
        self._tally.add(trial)
        for key in self._refusals.settled_by(trial):
            self._settle(key)
        cost = trial.usage.cost
        if cost is None and trial.key.cell in self._simulated:
            cost = 0.0
        if trial.requests or cost is not None:
            self._budget = self._budget.paid(cost, trial.key.cell.model)

    def _settle(self, key: Key) -> None:
        """Let a trial that was held to be spoiled count as failed."""
        if (found := self._store.find(key)) is not None:
            failed = settled(found[0])
            self._store.add(failed, self._store.trace(key))
            self._counts.update(failed=1, infra=-1)
            self._tally.add(failed)
