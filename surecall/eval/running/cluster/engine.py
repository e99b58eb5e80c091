"""The Dask engine: trials in worker processes, on this machine or on others.

The ledger stays here. Each worker gets a handful of trials and tells how they ended, many in one
message, so this process has little to do for each. A worker that is lost loses nothing: what it
had in hand is run elsewhere, and what it had told is recorded.
"""

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

from surecall.eval.running.bell import Gong
from surecall.eval.running.cluster.hands import Returned
from surecall.eval.running.cluster.members import Lost, Member
from surecall.eval.running.cluster.messages import Heard, News, Order, Orders
from surecall.eval.running.cluster.opening import check_versions
from surecall.eval.running.cluster.parcel import Errand, packed
from surecall.eval.running.cluster.shares import Shares
from surecall.eval.running.cluster.workshop import OpenClient
from surecall.eval.running.guarded_trial import RunTrial
from surecall.eval.running.harness_events import Notice, RateLimited
from surecall.eval.running.ledger import Ledger
from surecall.eval.running.limiter import Limiter
from surecall.eval.running.matrix import Plan
from surecall.eval.settings.endpoint import jobs_of
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

if TYPE_CHECKING:
    from distributed import Client

_LOOK_S: Final = 1.0
_NOBODY_FOR_S: Final = 60.0
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
    async def opened(
        self, plan: Plan, tell: Callable[[Notice], None]
    ) -> AsyncIterator["ClusterWorkers"]:
        """Have workers on the cluster, for as long as the block lasts."""
        parcel = packed(Errand(plan, self._run_trial, self._open_client))
        async with self._cluster() as client:
            await check_versions(client)
            workers = ClusterWorkers(client, parcel, self._key, jobs_of(plan.settings), tell)
            try:
                yield workers
            finally:
                await workers.close()


class ClusterWorkers:
    """The workers of a cluster, also those that come later."""

    def __init__(
        self,
        client: "Client",
        parcel: bytes,
        key: Secret | None,
        most: int,
        tell: Callable[[Notice], None],
    ) -> None:
        self._client = client
        self._parcel = parcel
        self._key = key
        self._tell = tell
        self._most = most
        self._limiter = Limiter(self._most, time.monotonic, time.time)
        self._all = Shares()
        self._lanes: defaultdict[str, Shares] = defaultdict(Shares)
        self._members: dict[str, Member] = {}
        self._returned = Returned()
        self._numbers = itertools.count(1)
        self._unfit: set[str] = set()
        # Sounds when there may be something to do for a worker that has nothing, or no more at all.
        self._gong = Gong()

    async def run(self, ledger: Ledger) -> None:
        """Run what the ledger has left, until nothing may begin and nothing is under way."""
        halting = asyncio.create_task(self._halt_when_closed(ledger))
        serving: dict[str, asyncio.Task[None]] = {}
        try:
            await self._look_after(ledger, serving)
        finally:
            tasks = (halting, *serving.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """Let go of all workers."""
        if self._client.status == _CONNECTED:
            await asyncio.gather(*(member.close() for member in self._members.values()))

    async def _look_after(self, ledger: Ledger, serving: dict[str, asyncio.Task[None]]) -> None:
        """Serve every worker there is, until all is done or the cluster is gone."""
        seen_at = time.monotonic()
        while not self._is_done(ledger):
            if self._client.status != _CONNECTED:
                ledger.close("lost", "the Dask scheduler is gone")
                return
            for address in await self._fit_workers():
                if address not in serving:
                    serving[address] = asyncio.create_task(self._serve(address, ledger))
            if serving:
                seen_at = time.monotonic()
                await asyncio.wait(
                    serving.values(), timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
            elif time.monotonic() > seen_at + _NOBODY_FOR_S:
                ledger.close("lost", "the Dask cluster has no workers")
                return
            else:
                await asyncio.sleep(_LOOK_S)
            for address in [address for address, task in serving.items() if task.done()]:
                await serving.pop(address)

    def _is_done(self, ledger: Ledger) -> bool:
        if any(member.hand for member in self._members.values()):
            return False
        return ledger.is_closed or not (ledger.left or self._returned)

    async def _fit_workers(self) -> list[str]:
        """Return the addresses of the workers; one of another version is passed over."""
        try:
            async with asyncio.timeout(_NOBODY_FOR_S):
                found = await self._client.scheduler.identity()
        except (OSError, TimeoutError):
            return []  # whether the scheduler is gone is seen by the state of the client
        return [address for address in found["workers"] if address not in self._unfit]

    async def _serve(self, address: str, ledger: Ledger) -> None:
        """Keep one worker busy, until all is done or it is lost."""
        try:
            member = self._members.get(address) or await self._hired(address)
        except Lost:
            return
        if member is None:
            return
        try:
            while not self._is_done(ledger):
                orders = self._orders(member, ledger)
                if member.hand:
                    self._take_in(await member.exchange(orders), member, ledger)
                else:
                    self._take_back_shares(member)
                    await self._gong.heard(self._limiter.opens_in(ledger.lanes))
        except Lost:
            self._lose(member, ledger)

    async def _hired(self, address: str) -> Member | None:
        """Make a worker of a process that is there, if it fits."""
        if self._members:
            try:
                await check_versions(self._client, only=address)
            except ConfigError:
                self._unfit.add(address)
                return None
        member = Member(self._client, address)
        await member.open(self._parcel, self._key)
        self._members[address] = member
        return member

    def _lose(self, member: Member, ledger: Ledger) -> None:
        """Put back what a lost worker had in hand."""
        del self._members[member.address]
        self._take_back_shares(member)
        for given_up in self._returned.put(member.hand):
            ledger.finish(given_up)
        self._gong.sound()

    def _take_back_shares(self, member: Member) -> None:
        for shares in (self._all, *self._lanes.values()):
            shares.give_back(member.address)

    async def _halt_when_closed(self, ledger: Ledger) -> None:
        """Tell the workers to begin nothing more, as soon as the ledger says so."""
        while not ledger.is_closed:
            await ledger.bell.heard(None)
        self._gong.sound()
        await asyncio.gather(*(member.halt() for member in list(self._members.values())))

    def _orders(self, member: Member, ledger: Ledger) -> Orders:
        """Give a worker its shares, and as many trials as keep it busy."""
        hand, new = member.hand, list[Order]()
        if not hand and not ledger.is_closed and (group := self._returned.next()):
            hand.take(group)
            new += group.orders
        most = self._all.grant(member.address, self._most, self._claimants(ledger, None))
        shares = {
            lane: self._lanes[lane].grant(
                member.address, self._limiter.lane(lane).limit, self._claimants(ledger, lane)
            )
            for lane in {*ledger.lanes, *hand.lanes}
        }
        if not hand.lost:
            new += self._taken(member, ledger, most, shares)
        held = {lane: part for lane, part in shares.items() if hand.in_lane(lane)}
        for lane in shares.keys() - held.keys():
            self._lanes[lane].give_back(member.address)
        waits = {lane: self._limiter.opens_in([lane]) for lane in held}
        return Orders(new, most, held, {lane: wait for lane, wait in waits.items() if wait})

    def _claimants(self, ledger: Ledger, lane: str | None) -> int:
        """Count the workers that a limit is divided among: those that have, or can get, trials."""
        if ledger.is_open and (lane is None or lane in ledger.lanes):
            return len(self._members)
        hands = [member.hand for member in self._members.values()]
        return sum(bool(hand) if lane is None else hand.in_lane(lane) > 0 for hand in hands)

    def _taken(
        self, member: Member, ledger: Ledger, most: int, shares: dict[str, int]
    ) -> list[Order]:
        """Take trials for a worker: those that it may begin, and some that wait."""
        hand, ahead = member.hand, member.ahead(most)
        closed = {lane for lane in shares if self._limiter.opens_in([lane])}

        def has_room(lane: str) -> bool:
            share = shares.get(lane, 0)
            return bool(share) and lane not in closed and hand.in_lane(lane) < share + ahead

        new: list[Order] = []
        while most and len(hand) < most + ahead and (taken := ledger.take(has_room)):
            order = Order(next(self._numbers), *taken)
            hand.add(order)
            new.append(order)
        return new

    def _take_in(self, news: News, member: Member, ledger: Ledger) -> None:
        """Record what a worker tells."""
        for heard in news.heard:
            self._hear(heard)
        for number in news.begun:
            ledger.begin(member.hand.orders[number].key)
        for outcome in news.ended:
            if member.hand.remove(outcome.number) is not None:
                ledger.finish(outcome.ended)
        for number in news.dropped:
            member.hand.remove(number)
        self._gong.sound()
        if news.mistake:
            raise ConfigError(news.mistake)

    def _hear(self, heard: Heard) -> None:
        """Learn from an answer that a worker got, as if it had come here."""
        started = self._limiter.clock() - heard.age_s
        wait_s = self._limiter.heard(heard.lane, started, heard.answer)
        if wait_s is not None:
            self._tell(RateLimited(heard.lane, wait_s, self._limiter.lane(heard.lane).limit))
