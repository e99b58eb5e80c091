"""The chain of a run: which model goes on when one has failed, and which ones rest meanwhile.

Each model gets one go in a run: there is no way back to one that has failed. The next run begins
with the first model that does not rest. If all rest, they are asked nevertheless, in order.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from surecall.core.fallback import reason_of, taken_over
from surecall.core.loop import next_move
from surecall.core.state import Ask, Move, Run
from surecall.runtime.candidates import Candidate
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.requests import Requests
from surecall.settings.fallback import UNAVAILABLE
from surecall.settings.overlay import deep_merge
from surecall.values.errors import Fault

# An endpoint may ask for years; nobody means that.
MOST_REST_S: Final = 3600.0


class Resting:
    """Which models of a chain rest, and since which failure. All runs of a runner share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[int, tuple[float, Fault]] = {}
        self._lock = threading.Lock()

    def begin(self, place: int, fault: Fault, usual_s: float) -> None:
        """Let a model rest, if the failure was one of its endpoint."""
        if fault.code not in UNAVAILABLE:
            return
        asked = fault.retry_after or 0.0
        rest_s = min(asked, MOST_REST_S) if asked > 0 else usual_s
        # Its words may quote what was said in this run, and others will hear of it.
        known = Fault(fault.code, fault.code.meaning, fault.status)
        with self._lock:
            self._until[place] = (self._clock() + rest_s, known)

    def end(self, place: int) -> None:
        """Let a model that has answered rest no more."""
        with self._lock:
            self._until.pop(place, None)

    def fault(self, place: int) -> Fault | None:
        """Return the failure that a model rests from, if it still does."""
        with self._lock:
            until, fault = self._until.get(place, (0.0, None))
            return fault if fault is not None and self._clock() < until else None


class Parts(NamedTuple):
    """What a session talks to a model with."""

    requests: Requests
    dispatcher: ToolDispatcher


# Opens what talks to the model at a place, about a run.
Opening: TypeAlias = Callable[[int, Run], Parts]


class Change(NamedTuple):
    """Another model goes on with a run: from whom, to whom, and why."""

    before: str
    run: Run
    parts: Parts
    fault: Fault
    rests: bool


class Chain:
    """The way of one run through the models of a runner. `at` is the place of the first."""

    def __init__(
        self, candidates: Sequence[Candidate], resting: Resting, opening: Opening, at: int
    ) -> None:
        self._candidates = candidates
        self._resting = resting
        self._opening = opening
        self._at = at
        self._left = [place for place in range(len(candidates)) if place != at]

    def begun(self, run: Run) -> Change | None:
        """Say who begins a run in place of a model that rests."""
        fault = self._resting.fault(self._at)
        if fault is None or not isinstance(next_move(run), Ask):
            return None
        before, awake = self._at, self._awake(self._fit(fault))
        change = self._to(awake, run, fault, rests=True)
        if change is not None:
            # Nobody has asked this one: its turn may still come.
            self._left = sorted((*self._left, before))
        return change

    def after(self, run: Run, move: Move) -> Change | None:
        """Say who goes on where a run would end; nobody, if it has its answer or may not go on."""
        fault = reason_of(move)
        if fault is None:
            self._resting.end(self._at)
            return None
        self._resting.begin(self._at, fault, self._candidates[self._at].rest_s)
        fit = self._fit(fault)
        return self._to(self._awake(fit) or fit, run, fault)

    def _fit(self, fault: Fault) -> list[int]:
        return [place for place in self._left if fault.code in self._candidates[place].on]

    def _awake(self, places: Iterable[int]) -> list[int]:
        return [place for place in places if self._resting.fault(place) is None]

    def _to(
        self, places: Sequence[int], run: Run, fault: Fault, *, rests: bool = False
    ) -> Change | None:
        """Change to the first of some models, if there is one and it is a model's turn."""
        if not places:
            return None
        to = self._candidates[places[0]]
        options = deep_merge(to.options, run.own_options)
        after = taken_over(run, to.model, to.config, options, to.endpoint)
        if after is None:
            return None
        self._at = places[0]
        self._left.remove(self._at)
        return Change(run.model, after, self._opening(self._at, after), fault, rests)
