"""The fallback chain of a run: which model continues after a failure, and which models rest.

A run never returns to a model that has failed in it. The next run begins with the first model that
is not resting. If all are resting, they are tried in order.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from surecall.core.loop import next_move
from surecall.core.model_change import change_model, failure_fault
from surecall.core.state import AskModel, Move, Run
from surecall.runtime.candidates import ModelCandidate
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.retrying_requests import RunRequests
from surecall.settings.fallback import UNAVAILABLE_CODES
from surecall.settings.overlay import deep_merge
from surecall.values.errors import Fault

# Limits Retry-After, which may name any duration.
MAX_REST_S: Final = 3600.0


class RestingModels:
    """The resting models of a fallback chain, each with its failure; shared by a runner's runs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[int, tuple[float, Fault]] = {}
        self._lock = threading.Lock()

    def start_rest(self, index: int, fault: Fault, default_s: float) -> None:
        """Make a model rest if its endpoint was unavailable."""
        if fault.code not in UNAVAILABLE_CODES:
            return
        requested_s = fault.retry_after or 0.0
        rest_s = min(requested_s, MAX_REST_S) if requested_s > 0 else default_s
        # The message may quote this run's conversation, and other runs will see the fault.
        summary = Fault(fault.code, fault.code.meaning, fault.status)
        with self._lock:
            self._until[index] = (self._clock() + rest_s, summary)

    def end_rest(self, index: int) -> None:
        """End the rest of a model that has answered."""
        with self._lock:
            self._until.pop(index, None)

    def fault(self, index: int) -> Fault | None:
        """Return the failure because of which a model is resting, or None."""
        with self._lock:
            until, fault = self._until.get(index, (0.0, None))
            return fault if fault is not None and self._clock() < until else None


class SessionParts(NamedTuple):
    """The collaborators of a session that depend on the model."""

    requests: RunRequests
    dispatcher: ToolDispatcher


# Creates the parts for the model at an index of the chain, for a run.
OpenParts: TypeAlias = Callable[[int, Run], SessionParts]


class ModelSwitch(NamedTuple):
    """A switch of a run to another model. `rests`: the previous one was skipped while resting."""

    before: str
    run: Run
    parts: SessionParts
    fault: Fault
    rests: bool


class FallbackChain:
    """The fallback chain of one run. `first` is the index of the model that it begins with."""

    def __init__(
        self,
        candidates: Sequence[ModelCandidate],
        resting: RestingModels,
        open_parts: OpenParts,
        first: int,
    ) -> None:
        self._candidates = candidates
        self._resting = resting
        self._opening = open_parts
        self._index = first
        self._untried = [place for place in range(len(candidates)) if place != first]

    def switch_at_start(self, run: Run) -> ModelSwitch | None:
        """Return the switch to make before a run begins, if its model is resting."""
        fault = self._resting.fault(self._index)
        if fault is None or not isinstance(next_move(run), AskModel):
            return None
        before, awake = self._index, self._not_resting(self._eligible(fault))
        change = self._switch_to(awake, run, fault, rests=True)
        if change is not None:
            # It was skipped, not tried, so it stays in the chain.
            self._untried = sorted((*self._untried, before))
        return change

    def switch_after(self, run: Run, move: Move) -> ModelSwitch | None:
        """Return the switch to make where a run would end; None if it has ended."""
        fault = failure_fault(move)
        if fault is None:
            self._resting.end_rest(self._index)
            return None
        self._resting.start_rest(self._index, fault, self._candidates[self._index].rest_s)
        fit = self._eligible(fault)
        return self._switch_to(self._not_resting(fit) or fit, run, fault)

    def _eligible(self, fault: Fault) -> list[int]:
        """Return the indexes of the untried models that continue after such a fault."""
        return [place for place in self._untried if fault.code in self._candidates[place].on]

    def _not_resting(self, indexes: Iterable[int]) -> list[int]:
        """Return the indexes of the models that may be used now."""
        return [place for place in indexes if self._resting.fault(place) is None]

    def _switch_to(
        self, indexes: Sequence[int], run: Run, fault: Fault, *, rests: bool = False
    ) -> ModelSwitch | None:
        """Return the switch to the first of the models; None if none can continue the run."""
        if not indexes:
            return None
        to = self._candidates[indexes[0]]
        options = deep_merge(to.options, run.own_options)
        after = change_model(run, to.model, to.config, options, to.endpoint)
        if after is None:
            return None
        self._index = indexes[0]
        self._untried.remove(self._index)
        return ModelSwitch(run.model, after, self._opening(self._index, after), fault, rests)
