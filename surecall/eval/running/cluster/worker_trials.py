"""Runs the trials assigned to a worker, and defines the messages it exchanges with the engine."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias, cast

import msgspec

from surecall.eval.running.cells import PlannedCell
from surecall.eval.running.limiter import TOO_MANY_REQUESTS, Limiter, NotifyOne, RateLimitedClient
from surecall.eval.running.matrix import EvaluationPlan
from surecall.eval.running.trial_run import RunTrial, TrialResult, TrialRunner, build_trial_runner
from surecall.eval.settings.endpoint import job_count
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.trial import Key, parse_trial
from surecall.runtime.transport import Client
from surecall.values.errors import ConfigError
from surecall.values.types import HttpResponse, Secret
from surecall.wire.chat_format import encode
from surecall.wire.rate_limits import embedded_headers


class SealedKey:
    """An optional API key, pickled for a worker. Its repr hides the key."""

    def __init__(self, secret: Secret | None) -> None:
        self.secret = secret

    def __repr__(self) -> str:
        return "SealedKey('…')"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_key, ("" if self.secret is None else self.secret.reveal(),)


def _restore_key(key: str) -> SealedKey:
    return SealedKey(Secret(key) if key else None)


class TrialOrder(msgspec.Struct, frozen=True, array_like=True):
    """One trial to run, identified by its number in all messages."""

    number: int
    lane: str
    key: Key


class WorkerOrders(msgspec.Struct, frozen=True, array_like=True):
    """New trials, and how many may run at once: in total, and in each lane.

    A lane without a share may run none. `paused_lanes` has the seconds for which a lane starts no
    trial because its provider refused a request of another worker.
    """

    new: list[TrialOrder] = []
    max_running: int = 0
    shares: dict[str, int] = {}
    paused_lanes: dict[str, float] = {}


class TrialOutcome(msgspec.Struct, frozen=True, array_like=True):
    """The result of a trial, encoded as in the store."""

    number: int
    record: bytes
    trace_lines: bytes | None
    endpoint_message: str

    @classmethod
    def from_result(cls, number: int, result: TrialResult) -> "TrialOutcome":
        """Encode a result."""
        record = encode(msgspec.to_builtins(result.trial))
        return cls(number, record, result.trace_lines, result.endpoint_message)

    @property
    def result(self) -> TrialResult:
        """The decoded result."""
        return TrialResult(
            parse_trial(self.record.decode()), self.trace_lines, self.endpoint_message
        )


class ProviderResponse(msgspec.Struct, frozen=True, array_like=True):
    """The parts of a provider's response that matter to its lane; the request is `age_s` old."""

    lane: str
    age_s: float
    status: int
    headers: Mapping[str, str] = {}

    @property
    def answer(self) -> HttpResponse:
        """The response without its body."""
        return HttpResponse(self.status, dict(self.headers), b"")


class WorkerReport(msgspec.Struct, frozen=True, array_like=True):
    """What happened in a worker since its last report.

    `dropped` trials never started, and will not. A `user_error` ends the evaluation.
    """

    started: list[int] = []
    outcomes: list[TrialOutcome] = []
    responses: list[ProviderResponse] = []
    dropped: list[int] = []
    user_error: str = ""


ENCODER: Final = msgspec.msgpack.Encoder()
ORDERS_DECODER: Final = msgspec.msgpack.Decoder(WorkerOrders)
REPORT_DECODER: Final = msgspec.msgpack.Decoder(WorkerReport)


# How long a report waits for more results, and how long an empty report is delayed.
BATCH_S: Final = 0.25
MAX_REPORT_INTERVAL_S: Final = 5.0

OpenClient: TypeAlias = Callable[[Settings], AbstractContextManager[Client]]


class RecordingLimiter(Limiter):
    """A limiter that records responses, to report them to the engine and so to other workers."""

    def __init__(self, max_limit: int) -> None:
        super().__init__(max_limit, time.monotonic, time.time)
        self._responses: list[tuple[str, float, int, dict[str, str]]] = []

    def record_response(self, name: str, started: float, response: HttpResponse) -> float | None:
        """Update the lane after a response, and record it."""
        refused = response.status == TOO_MANY_REQUESTS
        headers = (
            embedded_headers(response.body) | response.headers if refused else response.headers
        )
        self._responses.append((name, started, response.status, _rate_limit_headers(headers)))
        return super().record_response(name, started, response)

    @property
    def was_rate_limited(self) -> bool:
        """Whether a response since the last report was a 429."""
        return any(status == TOO_MANY_REQUESTS for _, _, status, _ in self._responses)

    def take_responses(self) -> list[ProviderResponse]:
        """Return the responses since the last report, and clear them."""
        noted, self._responses = self._responses, []
        now = self.clock()
        return [
            ProviderResponse(lane, now - started, status, headers)
            for lane, started, status, headers in noted
        ]


def _rate_limit_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers about rate limits."""
    return {
        name: value
        for name, value in headers.items()
        if name.lower().startswith("retry-after") or "ratelimit" in name.lower()
    }


class WorkerTrials:
    """The queued, running, and ended trials of one worker, in one event loop.

    It starts the trials that its shares allow, and keeps results until they are requested.
    """

    def __init__(self, trial_runner: TrialRunner, limiter: RecordingLimiter) -> None:
        self._trial_runner = trial_runner
        self._limiter = limiter
        self._orders = WorkerOrders()
        self._paused_until: dict[str, float] = {}
        self._waiting: dict[str, deque[TrialOrder]] = {}
        self._running: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._started: list[int] = []
        self._outcomes: list[TrialOutcome] = []
        self._dropped: list[int] = []
        self._user_error = ""
        self._is_halted = False
        self._state_changed = NotifyOne()
        self._timer: asyncio.TimerHandle | None = None
        limiter.on_room = self._start_trials

    async def exchange(self, orders: WorkerOrders) -> WorkerReport:
        """Take orders, and return the report when there is enough to report."""
        self._orders = orders
        now = self._limiter.clock()
        for order in orders.new:
            self._waiting.setdefault(order.lane, deque()).append(order)
        for lane, wait_s in orders.paused_lanes.items():
            self._paused_until[lane] = now + wait_s
        if self._is_halted:
            self.halt()
        self._start_trials()
        await self._wait_for_report(now)
        news = WorkerReport(
            self._started,
            self._outcomes,
            self._limiter.take_responses(),
            self._dropped,
            self._user_error,
        )
        self._started, self._outcomes, self._dropped = [], [], []
        return news

    def halt(self) -> None:
        """Start no more trials and drop queued ones; running trials continue."""
        self._is_halted = True
        for queue in self._waiting.values():
            self._dropped += [order.number for order in queue]
        self._waiting.clear()
        self._state_changed.notify_one()

    async def halt_in_loop(self) -> None:
        """Halt. A coroutine, to run in the event loop of the trials."""
        self.halt()

    async def cancel_running(self) -> None:
        """Halt and cancel the running trials."""
        self.halt()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_report(self, since: float) -> None:
        """Wait until there is enough to report since a time."""
        while (wait_s := self._report_delay_s(self._limiter.clock() - since)) > 0:
            await self._state_changed.wait(wait_s)

    def _report_delay_s(self, waited_s: float) -> float:
        """Return how long to wait for more results.

        Results wait briefly for others, unless there is room for trials and none is queued.
        """
        starved = not self._waiting and len(self._tasks) < self._orders.max_running
        if self._user_error or (not self._tasks and not self._waiting):
            return 0.0
        if self._dropped or self._limiter.was_rate_limited or (self._outcomes and starved):
            return 0.0
        return (BATCH_S if self._started or self._outcomes else MAX_REPORT_INTERVAL_S) - waited_s

    def _start_trials(self) -> None:
        """Start every trial that may start, rotating the lanes."""
        while self._waiting and len(self._tasks) < self._orders.max_running:
            lane = next(filter(self._has_room, self._waiting), None)
            if lane is None:
                self._schedule_start()
                return
            queue = self._waiting.pop(lane)
            order = queue.popleft()
            if queue:
                self._waiting[lane] = queue
            self._start_trial(order)

    def _has_room(self, lane: str) -> bool:
        """Whether one more trial of a lane may start now."""
        return (
            self._running[lane] < self._orders.shares.get(lane, 0)
            and self._limiter.has_room(lane)
            and self._limiter.clock() >= self._paused_until.get(lane, 0.0)
        )

    def _schedule_start(self) -> None:
        """Try again when the first paused lane resumes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._limiter.clock()
        waits = [self._paused_until.get(lane, 0.0) - now for lane in self._waiting]
        waits.append(self._limiter.next_opening_s(self._waiting) or 0.0)
        wait_s = min((wait for wait in waits if wait > 0), default=None)
        if wait_s is not None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._start_trials)

    def _start_trial(self, order: TrialOrder) -> None:
        self._running[order.lane] += 1
        self._limiter.begin_conversation(order.lane)
        self._started.append(order.number)
        task = asyncio.create_task(self._run_trial(order))
        self._tasks.add(task)

    async def _run_trial(self, order: TrialOrder) -> None:
        try:
            ended = await self._trial_runner.run(order.key)
            self._outcomes.append(TrialOutcome.from_result(order.number, ended))
        except ConfigError as error:
            self._user_error = str(error)
        except Exception as error:  # noqa: BLE001  # reported to the engine
            self._user_error = f"{order.key.scenario}: {type(error).__name__}: {error}"
        finally:
            self._running[order.lane] -= 1
            self._limiter.end_conversation(order.lane)
            self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            self._start_trials()
            self._state_changed.notify_one()


@asynccontextmanager
async def open_worker_trials(
    plan: EvaluationPlan, run_trial: RunTrial, open_client: OpenClient
) -> AsyncIterator[WorkerTrials]:
    """Provide `WorkerTrials` for a plan inside the block, with their own client."""
    limiter = RecordingLimiter(job_count(plan.settings))
    with open_client(plan.settings) as client:

        def client_of(planned: PlannedCell) -> Client:
            return RateLimitedClient(client, planned.model.lane, limiter, _ignore_rate_limit)

        async with client.opened():
            workshop = WorkerTrials(build_trial_runner(plan, run_trial, client_of), limiter)
            try:
                yield workshop
            finally:
                await workshop.cancel_running()


def _ignore_rate_limit(_lane: str, _wait_s: float) -> None:
    """Ignore a pause: the engine reports pauses, since it sees the responses of all workers."""
