"""Runs the trials of an evaluation on the workers of a Dask cluster."""

import asyncio
import itertools
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from surecall.eval.analysis.classification import EXCEPTION
from surecall.eval.running.cluster.dask_cluster import check_versions
from surecall.eval.running.cluster.remote_worker import (
    ABANDONED_AFTER_S,
    WorkerPayload,
    close_worker,
    exchange,
    halt_worker,
    open_worker,
    pack_payload,
)
from surecall.eval.running.cluster.worker_trials import (
    ENCODER,
    REPORT_DECODER,
    OpenClient,
    ProviderResponse,
    SealedKey,
    TrialOrder,
    WorkerOrders,
    WorkerReport,
)
from surecall.eval.running.ledger import EvaluationEvent, Ledger, RateLimited
from surecall.eval.running.limiter import Limiter, NotifyAll
from surecall.eval.running.matrix import EvaluationPlan
from surecall.eval.running.trial_run import RunTrial, TrialResult
from surecall.eval.settings.endpoint import job_count
from surecall.eval.storage.trial import Trial
from surecall.values.errors import ConfigError
from surecall.values.types import Secret


class LimitShares:
    """Divides one limit among workers. A share is released before another worker gets it."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def grant(self, worker: str, limit: int, claimants: int) -> int:
        """Return the new share of a worker: at most its fair share, and what the others leave.

        A worker that held more while it was alone gives up the excess here.
        """
        others = sum(part for name, part in self._held.items() if name != worker)
        fair = -(-limit // max(1, claimants))
        self._held[worker] = max(0, min(fair, limit - others))
        return self._held[worker]

    def release(self, worker: str) -> None:
        """Release the share of a worker that is idle or gone."""
        self._held.pop(worker, None)


# Which worker has which trials, and what happens to the trials of a lost worker.
#
# It is unknown which trial crashed a worker, if any did. Its trials run again in smaller groups,
# with no other trials on the same worker, and finally alone: a trial that loses its worker every
# time is given up, and only that one.

# The size of a group after one lost worker, and after two.
_GROUP_SIZES: Final = (8, 1)
MAX_WORKER_LOSSES: Final = len(_GROUP_SIZES) + 1


class RetryGroup(msgspec.Struct, frozen=True):
    """Trials of a lost worker, to run with no other trials on the same worker."""

    orders: tuple[TrialOrder, ...]
    losses: int


class Assignments:
    """The trials assigned to one worker."""

    def __init__(self) -> None:
        self.orders: dict[int, TrialOrder] = {}
        self._lanes: Counter[str] = Counter()
        # How many workers were lost with these trials; 0 for trials not in a retry group.
        self.losses = 0

    def __len__(self) -> int:
        return len(self.orders)

    def add(self, order: TrialOrder) -> None:
        """Assign a trial."""
        self.orders[order.number] = order
        self._lanes[order.lane] += 1

    def remove(self, number: int) -> TrialOrder | None:
        """Remove a trial and return it; None if it is not assigned."""
        order = self.orders.pop(number, None)
        if order is not None:
            self._lanes[order.lane] -= 1
        if not self.orders:
            self.losses = 0
        return order

    def count_in_lane(self, lane: str) -> int:
        """Return the number of trials in a lane."""
        return self._lanes[lane]

    @property
    def lanes(self) -> set[str]:
        """The lanes of the assigned trials."""
        return {lane for lane, count in self._lanes.items() if count}

    def add_group(self, group: RetryGroup) -> None:
        """Assign a retry group."""
        for order in group.orders:
            self.add(order)
        self.losses = group.losses


class RequeuedTrials:
    """Queues the trials of lost workers, in groups."""

    def __init__(self) -> None:
        self._groups: deque[RetryGroup] = deque()

    def __bool__(self) -> bool:
        return bool(self._groups)

    def requeue(self, assignments: Assignments) -> Iterator[TrialResult]:
        """Queue the trials of a lost worker; yield the results of those given up."""
        lost, orders = assignments.losses + 1, tuple(assignments.orders.values())
        if lost >= MAX_WORKER_LOSSES:
            yield from map(_abandoned_result, orders)
            return
        size = _GROUP_SIZES[lost - 1]
        for start in range(0, len(orders), size):
            self._groups.append(RetryGroup(orders[start : start + size], lost))

    def pop_group(self) -> RetryGroup | None:
        """Return the next group to run; None if there is none."""
        return self._groups.popleft() if self._groups else None


def _abandoned_result(order: TrialOrder) -> TrialResult:
    """Return the result of a trial whose worker was lost repeatedly: an infrastructure failure."""
    error = f"{MAX_WORKER_LOSSES} worker processes ended while they ran this trial"
    return TrialResult(Trial(key=order.key, status="infra", category=EXCEPTION, error=error))


if TYPE_CHECKING:
    from distributed import Client

# Seconds' worth of trials queued at a worker, so that it is never idle between messages.
_PREFETCH_S: Final = 0.5
_MAX_PREFETCH: Final = 200
# The weight of a new measurement of a worker's speed.
_RATE_WEIGHT: Final = 0.5


class WorkerLost(Exception):
    """A worker no longer answers."""


class ClusterWorker:
    """One worker: its address, the trials assigned to it, and its measured speed."""

    def __init__(self, client: "Client", address: str) -> None:
        self.address = address
        self.assignments = Assignments()
        self._client = client
        self._rate: float | None = None

    async def open(self, payload: bytes, key: Secret | None) -> None:
        """Send the payload; raise `ConfigError` if the worker cannot run it."""
        if problem := await self._call_worker(open_worker, payload, SealedKey(key)):
            raise ConfigError(problem)

    def prefetch_count(self, max_running: int) -> int:
        """Return how many trials to queue there, in addition to the running ones."""
        if self._rate is None:
            return max_running
        return max(1, min(round(self._rate * _PREFETCH_S), _MAX_PREFETCH))

    async def exchange(self, orders: WorkerOrders) -> WorkerReport:
        """Send orders and return the report; raise `WorkerLost` if none arrives."""
        started = time.monotonic()
        answer = await self._call_worker(exchange, ENCODER.encode(orders))
        if answer is None:
            raise WorkerLost("the worker no longer has the evaluation")
        news = REPORT_DECODER.decode(answer)
        rate = len(news.outcomes) / max(time.monotonic() - started, 1e-3)
        known = self._rate if self._rate is not None else rate
        self._rate = known + _RATE_WEIGHT * (rate - known)
        return news

    async def halt(self) -> None:
        """Tell the worker to start no more trials; ignore a lost worker."""
        with suppress(WorkerLost):
            await self._call_worker(halt_worker)

    async def close(self) -> None:
        """Tell the worker to end everything, waiting at most three seconds."""
        with suppress(WorkerLost, TimeoutError):
            async with asyncio.timeout(3.0):
                await self._call_worker(close_worker)

    async def _call_worker(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in the worker process. Dask runs it at once, alongside its own tasks."""
        try:
            async with asyncio.timeout(ABANDONED_AFTER_S):
                answers = await self._client.run(
                    function, self._client.id, *arguments, workers=[self.address]
                )
        except asyncio.CancelledError:
            raise
        except Exception as error:  # any error of Dask means that there is no answer
            raise WorkerLost(str(error)) from error
        return answers[self.address]


# The ledger stays in this process. Workers get trials and report results in batches, so the cost
# per trial here is small. When a worker is lost, its reported results are recorded already, and its
# other trials run elsewhere.

if TYPE_CHECKING:
    from distributed import Client

_POLL_S: Final = 1.0
_NO_WORKERS_TIMEOUT_S: Final = 60.0
_CONNECTED: Final = "running"


class DaskEngine:
    """Runs trials on a Dask cluster."""

    def __init__(
        self,
        cluster: Callable[[], AbstractAsyncContextManager["Client"]],
        run_trial: RunTrial,
        open_client: OpenClient,
        key: Secret | None = None,
    ) -> None:
        self._cluster = cluster
        self._run_trial = run_trial
        self._open_client = open_client
        self._key = key

    @asynccontextmanager
    async def open_workers(
        self, plan: EvaluationPlan, on_event: Callable[[EvaluationEvent], None]
    ) -> AsyncIterator["ClusterWorkers"]:
        """Provide workers on the cluster inside the block."""
        parcel = pack_payload(WorkerPayload(plan, self._run_trial, self._open_client))
        async with self._cluster() as client:
            await check_versions(client)
            workers = ClusterWorkers(client, parcel, self._key, job_count(plan.settings), on_event)
            try:
                yield workers
            finally:
                await workers.close()


class ClusterWorkers:
    """The workers of a cluster, including those that join later."""

    def __init__(
        self,
        client: "Client",
        payload: bytes,
        key: Secret | None,
        max_running: int,
        on_event: Callable[[EvaluationEvent], None],
    ) -> None:
        self._client = client
        self._payload = payload
        self._key = key
        self._on_event = on_event
        self._max_running = max_running
        self._limiter = Limiter(self._max_running, time.monotonic, time.time)
        self._total_shares = LimitShares()
        self._lane_shares: defaultdict[str, LimitShares] = defaultdict(LimitShares)
        self._workers: dict[str, ClusterWorker] = {}
        self._requeued = RequeuedTrials()
        self._numbers = itertools.count(1)
        self._incompatible: set[str] = set()
        # Notified when an idle worker may get trials, or when the evaluation stops.
        self._state_changed = NotifyAll()

    async def run(self, ledger: Ledger) -> None:
        """Run the remaining trials until none may start and none is running."""
        halting = asyncio.create_task(self._halt_when_closed(ledger))
        serving: dict[str, asyncio.Task[None]] = {}
        try:
            await self._serve_workers(ledger, serving)
        finally:
            tasks = (halting, *serving.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Close all workers."""
        if self._client.status == _CONNECTED:
            await asyncio.gather(*(member.close() for member in self._workers.values()))

    async def _serve_workers(self, ledger: Ledger, serving: dict[str, asyncio.Task[None]]) -> None:
        """Serve every worker until all trials are done or the cluster is gone."""
        seen_at = time.monotonic()
        while not self._is_done(ledger):
            if self._client.status != _CONNECTED:
                ledger.stop("lost", "the Dask scheduler is gone")
                return
            for address in await self._compatible_workers():
                if address not in serving:
                    serving[address] = asyncio.create_task(self._serve_worker(address, ledger))
            if serving:
                seen_at = time.monotonic()
                await asyncio.wait(
                    serving.values(), timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED
                )
            elif time.monotonic() > seen_at + _NO_WORKERS_TIMEOUT_S:
                ledger.stop("lost", "the Dask cluster has no workers")
                return
            else:
                await asyncio.sleep(_POLL_S)
            for address in [address for address, task in serving.items() if task.done()]:
                await serving.pop(address)

    def _is_done(self, ledger: Ledger) -> bool:
        if any(member.assignments for member in self._workers.values()):
            return False
        return ledger.is_stopped or not (ledger.remaining or self._requeued)

    async def _compatible_workers(self) -> list[str]:
        """Return the addresses of the workers, except those with another version."""
        try:
            async with asyncio.timeout(_NO_WORKERS_TIMEOUT_S):
                found = await self._client.scheduler.identity()
        except (OSError, TimeoutError):
            return []  # the client's status shows whether the scheduler is gone
        return [address for address in found["workers"] if address not in self._incompatible]

    async def _serve_worker(self, address: str, ledger: Ledger) -> None:
        """Keep one worker busy until all trials are done or it is lost."""
        try:
            member = self._workers.get(address) or await self._connect_worker(address)
        except WorkerLost:
            return
        if member is None:
            return
        try:
            while not self._is_done(ledger):
                orders = self._next_orders(member, ledger)
                if member.assignments:
                    self._record_report(await member.exchange(orders), member, ledger)
                else:
                    self._release_shares(member)
                    await self._state_changed.wait(self._limiter.next_opening_s(ledger.lanes))
        except WorkerLost:
            self._handle_lost_worker(member, ledger)

    async def _connect_worker(self, address: str) -> ClusterWorker | None:
        """Set up a worker; return None if its version does not match."""
        if self._workers:
            try:
                await check_versions(self._client, only=address)
            except ConfigError:
                self._incompatible.add(address)
                return None
        member = ClusterWorker(self._client, address)
        await member.open(self._payload, self._key)
        self._workers[address] = member
        return member

    def _handle_lost_worker(self, worker: ClusterWorker, ledger: Ledger) -> None:
        """Requeue the trials of a lost worker."""
        del self._workers[worker.address]
        self._release_shares(worker)
        for given_up in self._requeued.requeue(worker.assignments):
            ledger.record_result(given_up)
        self._state_changed.notify_all()

    def _release_shares(self, worker: ClusterWorker) -> None:
        """Release a worker's shares of all limits."""
        for shares in (self._total_shares, *self._lane_shares.values()):
            shares.release(worker.address)

    async def _halt_when_closed(self, ledger: Ledger) -> None:
        """Tell the workers to start no more trials when the ledger stops."""
        while not ledger.is_stopped:
            await ledger.state_changed.wait(None)
        self._state_changed.notify_all()
        await asyncio.gather(*(member.halt() for member in list(self._workers.values())))

    def _next_orders(self, worker: ClusterWorker, ledger: Ledger) -> WorkerOrders:
        """Return a worker's shares, with enough new trials to keep it busy."""
        hand, new = worker.assignments, list[TrialOrder]()
        if not hand and not ledger.is_stopped and (group := self._requeued.pop_group()):
            hand.add_group(group)
            new += group.orders
        most = self._total_shares.grant(
            worker.address, self._max_running, self._count_claimants(ledger, None)
        )
        shares = {
            lane: self._lane_shares[lane].grant(
                worker.address,
                self._limiter.window(lane).limit,
                self._count_claimants(ledger, lane),
            )
            for lane in {*ledger.lanes, *hand.lanes}
        }
        if not hand.losses:
            new += self._take_orders(worker, ledger, most, shares)
        held = {lane: part for lane, part in shares.items() if hand.count_in_lane(lane)}
        for lane in shares.keys() - held.keys():
            self._lane_shares[lane].release(worker.address)
        waits = {lane: self._limiter.next_opening_s([lane]) for lane in held}
        return WorkerOrders(new, most, held, {lane: wait for lane, wait in waits.items() if wait})

    def _count_claimants(self, ledger: Ledger, lane: str | None) -> int:
        """Return the number of workers that share a limit: those that have or can get trials."""
        if ledger.can_start and (lane is None or lane in ledger.lanes):
            return len(self._workers)
        hands = [member.assignments for member in self._workers.values()]
        return sum(bool(hand) if lane is None else hand.count_in_lane(lane) > 0 for hand in hands)

    def _take_orders(
        self, worker: ClusterWorker, ledger: Ledger, max_running: int, shares: dict[str, int]
    ) -> list[TrialOrder]:
        """Take trials for a worker: those it may start now, and some to queue."""
        hand, ahead = worker.assignments, worker.prefetch_count(max_running)
        closed = {lane for lane in shares if self._limiter.next_opening_s([lane])}

        def has_room(lane: str) -> bool:
            """Whether the worker may take another trial of a lane."""
            share = shares.get(lane, 0)
            return bool(share) and lane not in closed and hand.count_in_lane(lane) < share + ahead

        new: list[TrialOrder] = []
        while (
            max_running
            and len(hand) < max_running + ahead
            and (taken := ledger.take_next(has_room))
        ):
            order = TrialOrder(next(self._numbers), *taken)
            hand.add(order)
            new.append(order)
        return new

    def _record_report(self, report: WorkerReport, worker: ClusterWorker, ledger: Ledger) -> None:
        """Record the report of a worker."""
        for response in report.responses:
            self._record_response(response)
        for number in report.started:
            ledger.record_start(worker.assignments.orders[number].key)
        for outcome in report.outcomes:
            if worker.assignments.remove(outcome.number) is not None:
                ledger.record_result(outcome.result)
        for number in report.dropped:
            worker.assignments.remove(number)
        self._state_changed.notify_all()
        if report.user_error:
            raise ConfigError(report.user_error)

    def _record_response(self, response: ProviderResponse) -> None:
        """Update the lane from a response that a worker received."""
        started = self._limiter.clock() - response.age_s
        wait_s = self._limiter.record_response(response.lane, started, response.answer)
        if wait_s is not None:
            self._on_event(
                RateLimited(response.lane, wait_s, self._limiter.window(response.lane).limit)
            )
