"""How much may go on at the same time: conversations with each provider, and money.

A `Lane` is one provider's share. It starts at half of what the user allows, widens by one after
each round of answers, and halves when the provider says that it is too much (429); a Retry-After
closes it for that long. Everything here is a value or a table; only the harness waits.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal

import msgspec

from surecall.runtime.transport import Client
from surecall.values.types import Answer
from surecall.wire.messages import MOST_COST
from surecall.wire.response import retry_after

TOO_MANY: Final = 429
# A trial may end without a price by accident; so many of a model, and not one with a price, do not.
UNTOLD_AT_MOST: Final = 3
# Longer advice than this is followed in steps: a wrong header must not end an evaluation.
_LONGEST_PAUSE_S: Final = 120.0


class Lane(msgspec.Struct, frozen=True):
    """The share of one provider. Times are seconds of a clock that the caller reads."""

    most: int
    limit: int
    answers: int = 0
    cut_at: float = float("-inf")
    closed_until: float = float("-inf")

    def answered(self, started: float) -> "Lane":
        """Widen by one after a full round of answers; those from before a cut do not count."""
        if started <= self.cut_at:
            return self
        wider = self.answers + 1 >= self.limit < self.most
        return msgspec.structs.replace(
            self,
            limit=self.limit + wider,
            answers=0 if wider else min(self.answers + 1, self.most),
        )

    def refused(self, started: float, now: float, wait_s: float) -> "Lane":
        """Halve, once for all requests that were under way together; close for the time asked."""
        until = max(self.closed_until, now + min(wait_s, _LONGEST_PAUSE_S))
        if started <= self.cut_at:
            return msgspec.structs.replace(self, closed_until=until)
        return Lane(self.most, max(1, self.limit // 2), 0, now, until)

    def takes(self, under_way: int, now: float) -> bool:
        """Whether one more may begin."""
        return under_way < self.limit and now >= self.closed_until


class Limiter:
    """The lanes of an evaluation, and how many conversations are under way in each."""

    def __init__(
        self, most: int, clock: Callable[[], float], wall: Callable[[], float] | None = None
    ) -> None:
        self.clock = clock
        # Only the clock on the wall understands a Retry-After that is a date.
        self._wall = wall or clock
        self._fresh = Lane(most, max(1, most // 2))
        self._lanes: dict[str, Lane] = {}
        self._under_way: dict[str, int] = {}

    def lane(self, name: str) -> Lane:
        """Return the state of a lane."""
        return self._lanes.get(name, self._fresh)

    @property
    def under_way(self) -> int:
        """How many conversations are under way in all."""
        return sum(self._under_way.values())

    def takes(self, name: str) -> bool:
        """Whether one more may begin in a lane."""
        return self.lane(name).takes(self._under_way.get(name, 0), self.clock())

    def begin(self, name: str) -> None:
        """Count one more in a lane."""
        self._under_way[name] = self._under_way.get(name, 0) + 1

    def end(self, name: str) -> None:
        """Count one less in a lane."""
        self._under_way[name] -= 1

    def heard(self, name: str, started: float, answer: Answer) -> float | None:
        """Learn from an answer; return for how long the lane is closed, if it was refused."""
        now, lane = self.clock(), self.lane(name)
        if answer.status != TOO_MANY:
            self._lanes[name] = lane.answered(started)
            return None
        wait_s = retry_after(answer.headers, self._wall()) or 0.0
        self._lanes[name] = lane.refused(started, now, wait_s)
        # Not `closed_until - now`: adding a small wait to a large clock and taking it off again
        # does not give the same number.
        return max(min(wait_s, _LONGEST_PAUSE_S), lane.closed_until - now)

    def opens_in(self, names: Iterable[str]) -> float | None:
        """Say when the first of some closed lanes opens again; None when none is closed."""
        now = self.clock()
        waits = [self.lane(name).closed_until - now for name in names]
        return min((wait for wait in waits if wait > 0), default=None)


class Watched:
    """A client that shows every answer to the limiter, and otherwise behaves like the one inside.

    It shares no lessons between trials: what a trial had to learn about the endpoint must not
    depend on which others came before it.
    """

    def __init__(
        self,
        client: Client,
        lane: str,
        limiter: Limiter,
        refused: Callable[[str, float], None],
    ) -> None:
        self._client = client
        self._lane = lane
        self._limiter = limiter
        self._refused = refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @property
    def lessons(self) -> dict[str, tuple[str, ...]]:
        """What the endpoint was found to refuse: nothing, at the start of each trial."""
        return {}

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Keep connections open for as long as the block lasts."""
        return self._client.opened()

    async def send(self, body: bytes) -> Answer:
        """Send one request; tell when the provider refuses it as one too many."""
        started = self._limiter.clock()
        answer = await self._client.send(body)
        wait_s = self._limiter.heard(self._lane, started, answer)
        if wait_s is not None:
            self._refused(self._lane, wait_s)
        return answer


class Budget(msgspec.Struct, frozen=True):
    """What may be spent, and what was. A trial is expected to cost as much as the dearest did.

    Only a trial that costs more than every one before it can lead beyond the cap.
    """

    cap: float | None = None
    spent: float = 0.0
    priced: int = 0
    unpriced: int = 0
    dearest: float = 0.0
    # How many trials of a model came without a price; None for a model that has told one.
    untold: dict[str, int | None] = {}

    def paid(self, cost: float | None, model: str = "") -> "Budget":
        """Add the cost of a trial, if it is known and can be true."""
        if cost is None or not 0 <= cost <= MOST_COST:
            count = self.untold.get(model, 0)
            untold = {model: None if count is None else count + 1}
            return msgspec.structs.replace(
                self, unpriced=self.unpriced + 1, untold=self.untold | untold
            )
        return msgspec.structs.replace(
            self,
            spent=self.spent + cost,
            priced=self.priced + 1,
            dearest=max(self.dearest, cost),
            untold=self.untold | {model: None},
        )

    @property
    def silent(self) -> str | None:
        """A model that tells no prices, if there is one: a cap cannot be kept with it."""
        if self.cap is None:
            return None
        untold = self.untold.items()
        return next((model for model, count in untold if (count or 0) >= UNTOLD_AT_MOST), None)

    def advice(self, under_way: int) -> Literal["go", "wait", "stop"]:
        """Say whether one more trial fits beside those under way, may fit later, or does not."""
        if self.cap is None:
            return "go"
        if not self.priced:
            # One alone tells what the others will cost; those that did not tell do not count.
            return "wait" if under_way else "go"
        expected = self.dearest * (under_way + 1)
        if self.spent < self.cap and self.spent + expected <= self.cap:
            return "go"
        return "wait" if under_way else "stop"
