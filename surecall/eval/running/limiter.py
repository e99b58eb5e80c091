"""Adapts the number of concurrent trials and requests to what each provider accepts.

    small window ─ doubles each round ─► 429 ─► reduced ─ grows a little each round ─► …

Each lane, a group of models that share a provider's rate limits, has a `ConcurrencyWindow`. A round
is as many answers as the window is wide. Requests that were in flight together count as one
refusal. A `Retry-After` pauses the lane; it then restarts small and doubles up to the reduced
limit. The same happens if nothing was answered since the reduction: the pause grows each time, and
one request tests whether it is over. A window of one that is still refused waits between requests.
Quotas that providers report are tracked, so that a spent quota costs no refusal.

The windows are immutable values. Times are seconds of a clock that the caller reads.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Literal

import msgspec

from surecall.runtime.transport import Client
from surecall.values.types import HttpResponse
from surecall.wire.chat_format import MAX_COST_USD
from surecall.wire.rate_limits import Quota, embedded_headers, tightest_quota
from surecall.wire.response import retry_after


class NotifyOne:
    """Wakes the task that has waited longest on each notification.

    A woken task that leaves work for another one notifies again.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    def notify_one(self) -> None:
        """Wake one waiting task."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # neither cancelled nor timed out
                future.set_result(None)
                return

    async def wait(self, timeout_s: float | None) -> None:
        """Wait for a notification or the timeout."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await future
        except asyncio.CancelledError:
            self.notify_one()  # pass on a notification that this task may have received
            raise


class NotifyAll:
    """Wakes all waiting tasks on each notification."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify_all(self) -> None:
        """Wake all waiting tasks."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, timeout_s: float | None) -> None:
        """Wait for a notification or the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()


# The longest pause at a time: a wrong header must not end an evaluation.
MAX_PAUSE_S: Final = 120.0
# The limit before anything is known about the provider.
_INITIAL_LIMIT: Final = 8
_REDUCTION: Final = 0.7
# After a reduction, a round grows the window by its limit divided by this, and by at least one.
_GROWTH_DIVISOR: Final = 32
# The fewest answers in a round: growing a small window by one is a large step.
_MIN_ROUND_ANSWERS: Final = 20
_MIN_WAIT_S: Final = 0.25
_MAX_WAIT_S: Final = 60.0
_SPACING_DECAY: Final = 0.75
_BACKOFF_GROWTH: Final = 4.0


class RemainingQuota(msgspec.Struct, frozen=True):
    """The provider's quota: requests remaining, and when it resets.

    `reported_at` is the start of the request whose answer reported it: the newest report counts.
    """

    remaining: float = math.inf
    resets_at: float = -math.inf
    period_s: float = 0.0
    after_reset: float = math.inf
    reported_at: float = -math.inf

    def with_report(
        self, quota: Quota, started: float, now: float, in_flight: int
    ) -> "RemainingQuota":
        """Return the quota that an answer reports, less the other requests in flight.

        If the wait was cut short, the quota after it is unknown, so one request is allowed.
        """
        if started < self.reported_at:
            return self
        wait_s = min(quota.reset_s, MAX_PAUSE_S)
        known = math.inf if quota.limit is None else quota.limit
        renewal = known if wait_s == quota.reset_s else 1
        return RemainingQuota(
            remaining=max(0, quota.remaining - in_flight),
            resets_at=now + wait_s,
            period_s=max(wait_s, self.period_s),
            after_reset=renewal,
            reported_at=started,
        )

    def after_request(self, now: float) -> "RemainingQuota":
        """Return the quota after sending one request."""
        if now < self.resets_at:
            return msgspec.structs.replace(self, remaining=self.remaining - 1)
        if self.after_reset == math.inf:
            return RemainingQuota(reported_at=self.reported_at)
        return msgspec.structs.replace(
            self, remaining=self.after_reset - 1, resets_at=now + self.period_s
        )

    @property
    def next_request_at(self) -> float:
        """When the next request may start."""
        return -math.inf if self.remaining >= 1 else self.resets_at


class ConcurrencyWindow(msgspec.Struct, frozen=True):
    """How many requests a lane may have in flight, and when the next may start.

    Below `slow_start_threshold`, `limit` doubles each round. `spacing_s` follows each answer;
    `backoff_s` follows a refusal if nothing is answered before it.
    """

    max_limit: int
    limit: int
    slow_start_threshold: int
    answers: int = 0
    reduced_at: float = -math.inf
    paused_until: float = -math.inf
    spacing_s: float = 0.0
    backoff_s: float = 0.0
    quota: RemainingQuota = RemainingQuota()

    @classmethod
    def initial(cls, max_limit: int) -> "ConcurrencyWindow":
        """Return the window for a provider that nothing is known about."""
        return cls(max_limit, min(max_limit, _INITIAL_LIMIT), max_limit)

    @property
    def next_request_at(self) -> float:
        """When the next request may start, if there is room."""
        return max(self.paused_until, self.quota.next_request_at)

    def has_room(self, in_flight: int, now: float) -> bool:
        """Whether one more request may start."""
        return in_flight < self.limit and now >= self.next_request_at

    def after_request(self, now: float) -> "ConcurrencyWindow":
        """Return the window after sending a request."""
        if self.quota.resets_at == -math.inf:
            return self
        return msgspec.structs.replace(self, quota=self.quota.after_request(now))

    def with_quota(
        self, quota: Quota, started: float, now: float, in_flight: int
    ) -> "ConcurrencyWindow":
        """Return the window with a quota that the provider reported."""
        allowance = self.quota.with_report(quota, started, now, in_flight)
        return msgspec.structs.replace(self, quota=allowance)

    def after_answer(self, started: float, now: float) -> "ConcurrencyWindow":
        """Return the window after an answer; it grows at the end of a round.

        Answers to requests from before a reduction do not count.
        """
        if started <= self.reduced_at or (self.limit == self.max_limit and not self.spacing_s):
            return self
        change = msgspec.structs.replace
        if self.limit < self.slow_start_threshold:
            return change(self, limit=self.limit + 1, backoff_s=0.0)
        lane = change(
            self, paused_until=max(self.paused_until, now + self.spacing_s), backoff_s=0.0
        )
        if self.answers + 1 < max(self.limit, _MIN_ROUND_ANSWERS):
            return change(lane, answers=self.answers + 1)
        if self.spacing_s:
            rest_s = self.spacing_s * _SPACING_DECAY if self.spacing_s > _MIN_WAIT_S else 0.0
            return change(lane, answers=0, spacing_s=rest_s)
        wider = min(self.max_limit, self.limit + max(1, self.limit // _GROWTH_DIVISOR))
        return change(lane, answers=0, limit=wider, slow_start_threshold=wider)

    def after_rate_limit(self, started: float, now: float, wait_s: float) -> "ConcurrencyWindow":
        """Return the window after a 429: reduced once per batch, and paused for `wait_s`."""
        wait_s = min(wait_s, MAX_PAUSE_S)
        again = started <= self.reduced_at
        lane = self if again else self._reduce(now)
        # Requests refused together must not be retried together: start small and double.
        narrow = min(lane.limit, _INITIAL_LIMIT)
        limit = narrow if wait_s else max(narrow, lane.limit - again)
        return msgspec.structs.replace(lane, limit=limit).with_pause(now + wait_s)

    def with_pause(self, until: float) -> "ConcurrencyWindow":
        """Return the window with no request starting before `until`."""
        return msgspec.structs.replace(self, paused_until=max(self.paused_until, until))

    def _reduce(self, now: float) -> "ConcurrencyWindow":
        """Return the window after a refusal: with a lower limit, and paused."""
        lane = msgspec.structs.replace(self, answers=0, reduced_at=now)
        if self.backoff_s:
            longer = min(self.backoff_s * _BACKOFF_GROWTH, _MAX_WAIT_S)
            return msgspec.structs.replace(lane, limit=1, backoff_s=longer).with_pause(
                now + self.backoff_s
            )
        rest_s = 0.0
        if self.limit == 1:
            rest_s = min(max(_MIN_WAIT_S, self.spacing_s * 2), _MAX_WAIT_S)
        width = max(1, int(self.limit * _REDUCTION))
        return msgspec.structs.replace(
            lane, limit=width, slow_start_threshold=width, spacing_s=rest_s, backoff_s=_MIN_WAIT_S
        ).with_pause(now + rest_s)


TOO_MANY_REQUESTS: Final = 429
_MIN_REPORTED_PAUSE_S: Final = 1.0
_SERVER_ERRORS: Final = 500
# A model whose first trials all lack a cost does not report costs; a single one may by accident.
MAX_UNPRICED_TRIALS: Final = 3


class _LaneTraffic:
    """The window of a lane, what is running in it, and the tasks waiting for a slot."""

    def __init__(self, lane: ConcurrencyWindow) -> None:
        self.window = lane
        self.conversations = self.requests = 0
        self.slot_freed = NotifyOne()


class Limiter:
    """Limits conversations and requests in each lane of an evaluation.

    A conversation starts when its lane has room, and so does each of its requests, including
    retries. `on_room` is called when a request ends and a conversation may start in its lane.
    """

    def __init__(
        self,
        max_limit: int,
        clock: Callable[[], float],
        wall_clock: Callable[[], float] | None = None,
    ) -> None:
        self.clock = clock
        self.on_room: Callable[[], None] = lambda: None
        # Absolute times in headers need a wall clock.
        self._wall_clock = wall_clock or clock
        self._max_limit = max_limit
        self._traffic: dict[str, _LaneTraffic] = {}

    def _traffic_in(self, name: str) -> _LaneTraffic:
        """Return the traffic of a lane, created on first use."""
        if name not in self._traffic:
            self._traffic[name] = _LaneTraffic(ConcurrencyWindow.initial(self._max_limit))
        return self._traffic[name]

    def window(self, name: str) -> ConcurrencyWindow:
        """Return the window of a lane."""
        return self._traffic_in(name).window

    @property
    def running(self) -> int:
        """How many conversations are running in all lanes."""
        return sum(traffic.conversations for traffic in self._traffic.values())

    def has_room(self, name: str) -> bool:
        """Whether one more conversation may start in a lane."""
        traffic = self._traffic_in(name)
        return traffic.window.has_room(traffic.conversations, self.clock())

    def begin_conversation(self, name: str) -> None:
        """Count a conversation that starts in a lane."""
        self._traffic_in(name).conversations += 1

    def end_conversation(self, name: str) -> None:
        """Count a conversation that ended in a lane."""
        self._traffic_in(name).conversations -= 1

    async def acquire_request(self, name: str) -> float:
        """Wait until a request may be sent, and return its start time."""
        traffic = self._traffic_in(name)
        while not traffic.window.has_room(traffic.requests, now := self.clock()):
            await traffic.slot_freed.wait(self.next_opening_s((name,)))
        traffic.requests += 1
        traffic.window = traffic.window.after_request(now)
        traffic.slot_freed.notify_one()
        return now

    def release_request(self, name: str) -> None:
        """Count a request that ended, and give its slot to a waiting one."""
        traffic = self._traffic_in(name)
        traffic.requests -= 1
        traffic.slot_freed.notify_one()
        if self.has_room(name):
            self.on_room()

    def record_response(self, name: str, started: float, response: HttpResponse) -> float | None:
        """Update a lane after a response; return its pause in seconds, if it is a new one.

        Of requests refused together, only the first causes a new pause.
        """
        now, wall, traffic = self.clock(), self._wall_clock(), self._traffic_in(name)
        lane = traffic.window
        refused, headers = response.status == TOO_MANY_REQUESTS, response.headers
        if refused:
            headers = embedded_headers(response.body) | headers
        advice = retry_after(headers, wall) if refused else None
        quota = tightest_quota(headers, wall) if advice is None else None
        if quota is not None:
            traffic.window = lane.with_quota(quota, started, now, traffic.requests - 1)
        if not refused:
            if response.status < _SERVER_ERRORS:
                traffic.window = traffic.window.after_answer(started, now)
            return _quota_pause_s(lane, traffic.window, now)
        spent_s = quota.reset_s if quota is not None and not quota.remaining else 0.0
        wait_s = min(spent_s if advice is None else advice, MAX_PAUSE_S)
        traffic.window = traffic.window.after_rate_limit(started, now, wait_s)
        if traffic.window.reduced_at == lane.reduced_at:
            return None
        until = traffic.window.paused_until
        # Floating point: adding a small wait to a large clock and subtracting it changes it.
        return wait_s if until == now + wait_s else until - now

    def next_opening_s(self, names: Iterable[str]) -> float | None:
        """Return the seconds until the first of the lanes resumes; None if none is paused."""
        now = self.clock()
        waits = [self.window(name).next_request_at - now for name in names]
        return min((wait for wait in waits if wait > 0), default=None)


def _quota_pause_s(before: ConcurrencyWindow, after: ConcurrencyWindow, now: float) -> float | None:
    """Return for how long a spent quota pauses a lane; None if that is not new or too short."""
    closed_s = after.next_request_at - now
    return closed_s if before.next_request_at <= now and closed_s >= _MIN_REPORTED_PAUSE_S else None


class RateLimitedClient:
    """A client that waits for room in its lane before each request.

    It shares no lessons between trials: the result of a trial must not depend on earlier trials.
    """

    def __init__(
        self,
        client: Client,
        lane: str,
        limiter: Limiter,
        on_rate_limit: Callable[[str, float], None],
    ) -> None:
        self._client = client
        self._lane = lane
        self._limiter = limiter
        self._on_rate_limit = on_rate_limit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @property
    def lessons(self) -> dict[str, tuple[str, ...]]:
        """What the endpoint is known to refuse: nothing, at the start of each trial."""
        return {}

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Keep connections open inside the block."""
        return self._client.opened()

    async def send(self, body: bytes) -> HttpResponse:
        """Send one request when the lane has room; report a new pause of the lane."""
        queued_at = self._limiter.clock()
        started = await self._limiter.acquire_request(self._lane)
        try:
            answer = await self._client.send(body)
            wait_s = self._limiter.record_response(self._lane, started, answer)
        finally:
            self._limiter.release_request(self._lane)
        if wait_s is not None:
            self._on_rate_limit(self._lane, wait_s)
        waited_s = started - queued_at
        return msgspec.structs.replace(answer, waited_s=waited_s) if waited_s else answer


class CostBudget(msgspec.Struct, frozen=True):
    """The cost limit, and the costs so far. Each trial is expected to cost the highest seen.

    So only a trial that costs more than every earlier one can exceed the cap.
    """

    cap: float | None = None
    spent: float = 0.0
    priced: int = 0
    unpriced: int = 0
    highest_cost: float = 0.0
    # The number of a model's trials without a cost; None once it has reported one.
    unpriced_by_model: dict[str, int | None] = {}

    def with_cost(self, cost: float | None, model: str = "") -> "CostBudget":
        """Return the budget with the cost of a trial, if it is known and plausible."""
        if cost is None or not 0 <= cost <= MAX_COST_USD:
            count = self.unpriced_by_model.get(model, 0)
            untold = {model: None if count is None else count + 1}
            return msgspec.structs.replace(
                self, unpriced=self.unpriced + 1, unpriced_by_model=self.unpriced_by_model | untold
            )
        return msgspec.structs.replace(
            self,
            spent=self.spent + cost,
            priced=self.priced + 1,
            highest_cost=max(self.highest_cost, cost),
            unpriced_by_model=self.unpriced_by_model | {model: None},
        )

    @property
    def unpriced_model(self) -> str | None:
        """A model that reports no costs, if any: the cap cannot be enforced with it."""
        if self.cap is None:
            return None
        untold = self.unpriced_by_model.items()
        return next((model for model, count in untold if (count or 0) >= MAX_UNPRICED_TRIALS), None)

    def next_action(self, running: int) -> Literal["go", "wait", "stop"]:
        """Return whether to start a trial, wait for the running ones, or stop."""
        if self.cap is None:
            return "go"
        if not self.priced:
            # Run one trial alone to learn the cost; unpriced ones do not count.
            return "wait" if running else "go"
        expected = self.highest_cost * (running + 1)
        if self.spent < self.cap and self.spent + expected <= self.cap:
            return "go"
        return "wait" if running else "stop"
