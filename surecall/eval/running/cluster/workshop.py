"""A workshop: the trials that one worker process has under way, and what it tells about them.

It lives in one event loop. It begins what its shares allow, and keeps its results until somebody
asks for them.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final, TypeAlias, cast

from surecall.eval.running.bell import Bell
from surecall.eval.running.cells import PlannedCell
from surecall.eval.running.cluster.messages import Heard, News, Order, Orders, Outcome
from surecall.eval.running.guarded_trial import Benches, RunTrial, benches_of
from surecall.eval.running.limiter import TOO_MANY, Limiter, Watched
from surecall.eval.running.matrix import Plan
from surecall.eval.settings.endpoint import jobs_of
from surecall.eval.settings.fields import Settings
from surecall.runtime.transport import Client
from surecall.values.errors import ConfigError
from surecall.values.types import Answer
from surecall.wire.rate_limits import headers_in

# Something to tell waits this long for more of it, and nothing to tell that long.
SOON_S: Final = 0.25
AT_LAST_S: Final = 5.0

OpenClient: TypeAlias = Callable[[Settings], AbstractContextManager[Client]]


class Listener(Limiter):
    """A limiter that notes what it hears, so that other workers can be told."""

    def __init__(self, most: int) -> None:
        super().__init__(most, time.monotonic, time.time)
        self._noted: list[tuple[str, float, int, dict[str, str]]] = []

    def heard(self, name: str, started: float, answer: Answer) -> float | None:
        """Learn from an answer, and note it."""
        refused = answer.status == TOO_MANY
        headers = headers_in(answer.body) | answer.headers if refused else answer.headers
        self._noted.append((name, started, answer.status, _about_rates(headers)))
        return super().heard(name, started, answer)

    @property
    def was_refused(self) -> bool:
        """Whether a provider said that it was too much, since it was told last."""
        return any(status == TOO_MANY for _, _, status, _ in self._noted)

    def told(self) -> list[Heard]:
        """Return what was heard since the last time."""
        noted, self._noted = self._noted, []
        now = self.clock()
        return [
            Heard(lane, now - started, status, headers) for lane, started, status, headers in noted
        ]


def _about_rates(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that say how much is too much."""
    return {
        name: value
        for name, value in headers.items()
        if name.lower().startswith("retry-after") or "ratelimit" in name.lower()
    }


class Workshop:
    """The trials of one worker: those that wait, those under way, and those that ended."""

    def __init__(self, benches: Benches, limiter: Listener) -> None:
        self._benches = benches
        self._limiter = limiter
        self._orders = Orders()
        self._closed_until: dict[str, float] = {}
        self._waiting: dict[str, deque[Order]] = {}
        self._under_way: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun: list[int] = []
        self._ended: list[Outcome] = []
        self._dropped: list[int] = []
        self._mistake = ""
        self._is_halted = False
        self._bell = Bell()
        self._alarm: asyncio.TimerHandle | None = None
        limiter.room = self._fill

    async def exchange(self, orders: Orders) -> News:
        """Take orders, and return when there is something worth telling."""
        self._orders = orders
        now = self._limiter.clock()
        for order in orders.new:
            self._waiting.setdefault(order.lane, deque()).append(order)
        for lane, wait_s in orders.closed.items():
            self._closed_until[lane] = now + wait_s
        if self._is_halted:
            self.halt()
        self._fill()
        await self._worth_telling(now)
        news = News(self._begun, self._ended, self._limiter.told(), self._dropped, self._mistake)
        self._begun, self._ended, self._dropped = [], [], []
        return news

    def halt(self) -> None:
        """Begin nothing more; what waits is dropped, and what is under way goes on."""
        self._is_halted = True
        for queue in self._waiting.values():
            self._dropped += [order.number for order in queue]
        self._waiting.clear()
        self._bell.ring()

    async def halted(self) -> None:
        """Halt, in the event loop that the trials run in."""
        self.halt()

    async def abandon(self) -> None:
        """End what is under way."""
        self.halt()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _worth_telling(self, since: float) -> None:
        while (wait_s := self._patience(self._limiter.clock() - since)) > 0:
            await self._bell.heard(wait_s)

    def _patience(self, waited_s: float) -> float:
        """Say how long to wait for more to tell.

        Results can wait a moment for others, unless there is room for trials and none to begin.
        """
        starved = not self._waiting and len(self._tasks) < self._orders.most
        if self._mistake or (not self._tasks and not self._waiting):
            return 0.0
        if self._dropped or self._limiter.was_refused or (self._ended and starved):
            return 0.0
        return (SOON_S if self._begun or self._ended else AT_LAST_S) - waited_s

    def _fill(self) -> None:
        """Begin what may begin. Lanes take turns."""
        while self._waiting and len(self._tasks) < self._orders.most:
            lane = next(filter(self._has_room, self._waiting), None)
            if lane is None:
                self._set_alarm()
                return
            queue = self._waiting.pop(lane)
            order = queue.popleft()
            if queue:
                self._waiting[lane] = queue
            self._begin(order)

    def _has_room(self, lane: str) -> bool:
        return (
            self._under_way[lane] < self._orders.shares.get(lane, 0)
            and self._limiter.takes(lane)
            and self._limiter.clock() >= self._closed_until.get(lane, 0.0)
        )

    def _set_alarm(self) -> None:
        """Look again when the first closed lane opens."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now = self._limiter.clock()
        waits = [self._closed_until.get(lane, 0.0) - now for lane in self._waiting]
        waits.append(self._limiter.opens_in(self._waiting) or 0.0)
        wait_s = min((wait for wait in waits if wait > 0), default=None)
        if wait_s is not None:
            self._alarm = asyncio.get_running_loop().call_later(wait_s, self._fill)

    def _begin(self, order: Order) -> None:
        self._under_way[order.lane] += 1
        self._limiter.begin(order.lane)
        self._begun.append(order.number)
        task = asyncio.create_task(self._run(order))
        self._tasks.add(task)

    async def _run(self, order: Order) -> None:
        try:
            ended = await self._benches.run(order.key)
            self._ended.append(Outcome.of(order.number, ended))
        except ConfigError as error:
            self._mistake = str(error)
        except Exception as error:  # noqa: BLE001  # told to whoever waits for the result
            self._mistake = f"{order.key.scenario}: {type(error).__name__}: {error}"
        finally:
            self._under_way[order.lane] -= 1
            self._limiter.end(order.lane)
            self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            self._fill()
            self._bell.ring()


@asynccontextmanager
async def opened_workshop(
    plan: Plan, run_trial: RunTrial, open_client: OpenClient
) -> AsyncIterator[Workshop]:
    """Have a workshop for the trials of a plan, with a client of its own, inside the block."""
    limiter = Listener(jobs_of(plan.settings))
    with open_client(plan.settings) as client:

        def client_of(planned: PlannedCell) -> Client:
            return Watched(client, planned.model.lane, limiter, _nothing)

        async with client.opened():
            workshop = Workshop(benches_of(plan, run_trial, client_of), limiter)
            try:
                yield workshop
            finally:
                await workshop.abandon()


def _nothing(_lane: str, _wait_s: float) -> None:
    """Refusals are told by the engine, which hears of all of them."""
