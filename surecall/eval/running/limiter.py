"""How much may go on at the same time: requests and conversations with each provider, and money.

Each provider has a `Lane`. A conversation begins when its lane has room, and so does each of its
requests, retries among them: after a refusal they pass one by one, as wide as the lane still is.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal

import msgspec

from surecall.eval.running.bell import Bell
from surecall.eval.running.lane import LONGEST_PAUSE_S, Lane
from surecall.runtime.transport import Client
from surecall.values.types import Answer
from surecall.wire.messages import MOST_COST
from surecall.wire.rate_limits import headers_in, quota_in
from surecall.wire.response import retry_after

TOO_MANY: Final = 429
_WORTH_TELLING_S: Final = 1.0
_FAILURES: Final = 500
# A trial may end without a price by accident; so many of a model, and not one with a price, do not.
UNTOLD_AT_MOST: Final = 3


class _Traffic:
    """A lane, what is under way in it, and who waits in front of it."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.conversations = self.requests = 0
        self.door = Bell()


class Limiter:
    """The lanes of an evaluation, and how much is under way in each.

    `room` is called when a conversation may begin in a lane in which a request has ended.
    """

    def __init__(
        self, most: int, clock: Callable[[], float], wall: Callable[[], float] | None = None
    ) -> None:
        self.clock = clock
        self.room: Callable[[], None] = lambda: None
        # Only the clock on the wall understands a moment.
        self._wall = wall or clock
        self._most = most
        self._traffic: dict[str, _Traffic] = {}

    def _at(self, name: str) -> _Traffic:
        if name not in self._traffic:
            self._traffic[name] = _Traffic(Lane.fresh(self._most))
        return self._traffic[name]

    def lane(self, name: str) -> Lane:
        """Return the state of a lane."""
        return self._at(name).lane

    @property
    def under_way(self) -> int:
        """How many conversations are under way in all."""
        return sum(traffic.conversations for traffic in self._traffic.values())

    def takes(self, name: str) -> bool:
        """Whether one more conversation may begin in a lane."""
        traffic = self._at(name)
        return traffic.lane.takes(traffic.conversations, self.clock())

    def begin(self, name: str) -> None:
        """Count one more conversation in a lane."""
        self._at(name).conversations += 1

    def end(self, name: str) -> None:
        """Count one less conversation in a lane."""
        self._at(name).conversations -= 1

    async def admitted(self, name: str) -> float:
        """Wait until a request may be sent; return when that is."""
        traffic = self._at(name)
        while not traffic.lane.takes(traffic.requests, now := self.clock()):
            await traffic.door.heard(self.opens_in((name,)))
        traffic.requests += 1
        traffic.lane = traffic.lane.began(now)
        traffic.door.ring()
        return now

    def left(self, name: str) -> None:
        """Count one request less; whoever waits for its place may have it."""
        traffic = self._at(name)
        traffic.requests -= 1
        traffic.door.ring()
        if self.takes(name):
            self.room()

    def heard(self, name: str, started: float, answer: Answer) -> float | None:
        """Learn from an answer; return for how long the lane is closed, if that is news.

        Of all requests that are refused together, only the first is.
        """
        now, wall, traffic = self.clock(), self._wall(), self._at(name)
        lane = traffic.lane
        refused, headers = answer.status == TOO_MANY, answer.headers
        if refused:
            headers = headers_in(answer.body) | headers
        advice = retry_after(headers, wall) if refused else None
        quota = quota_in(headers, wall) if advice is None else None
        if quota is not None:
            traffic.lane = lane.told(quota, started, now, traffic.requests - 1)
        if not refused:
            if answer.status < _FAILURES:
                traffic.lane = traffic.lane.answered(started, now)
            return _closed_s(lane, traffic.lane, now)
        spent_s = quota.reset_s if quota is not None and not quota.remaining else 0.0
        wait_s = min(spent_s if advice is None else advice, LONGEST_PAUSE_S)
        traffic.lane = traffic.lane.refused(started, now, wait_s)
        if traffic.lane.cut_at == lane.cut_at:
            return None
        until = traffic.lane.closed_until
        # A small wait, added to a large clock and taken off again, is not the same number.
        return wait_s if until == now + wait_s else until - now

    def opens_in(self, names: Iterable[str]) -> float | None:
        """Say when the first of some closed lanes opens again; None when none is closed."""
        now = self.clock()
        waits = [self.lane(name).opens_at - now for name in names]
        return min((wait for wait in waits if wait > 0), default=None)


def _closed_s(before: Lane, after: Lane, now: float) -> float | None:
    """Say for how long a quota that is used up closes a lane; a moment is no news."""
    closed_s = after.opens_at - now
    return closed_s if before.opens_at <= now and closed_s >= _WORTH_TELLING_S else None


class Watched:
    """A client that keeps to its lane, and otherwise behaves like the one inside.

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
        """Send one request when the lane has room; tell when the provider refuses it."""
        asked = self._limiter.clock()
        started = await self._limiter.admitted(self._lane)
        try:
            answer = await self._client.send(body)
            wait_s = self._limiter.heard(self._lane, started, answer)
        finally:
            self._limiter.left(self._lane)
        if wait_s is not None:
            self._refused(self._lane, wait_s)
        waited_s = started - asked
        return msgspec.structs.replace(answer, waited_s=waited_s) if waited_s else answer


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
