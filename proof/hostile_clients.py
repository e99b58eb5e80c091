"""D13: whatever a client sends, the proxy answers as a table says, and nobody else is troubled.

The proxies run in a process each. The upstream behind them keeps what reaches it; an honest client
asks all the while, and two hundred connections send a byte a second.
"""

import asyncio
import itertools
import random
import re
import socket
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Final

import msgspec

from proof.bent_requests import bent_request
from proof.claims import Claim, Outcome, gathered
from proof.hostile_requests import (
    ASKED,
    BODY,
    CHAT,
    HOST,
    LENGTH,
    MIB,
    TOKEN,
    Case,
    all_cases,
    posted,
)
from proof.proxy_process import Running, State, proxy_process
from proof.recording_upstream import ENDLESS, LARGE, RecordingUpstream, Request
from surecall.proxy.serving.upstream import FORWARDED

KEY: Final = "sk-canary-0123456789abcdef"
HEAD_S, BODY_S, GRACE_S = 3.0, 2.0, 2.0
SLOW_HEADS, SLOW_BODIES, DEAF, LEAVING = 200, 20, 10, 20
# What a client sends may take so many times its size; small things take a little anyway.
MOST_TIMES, LEAST_MIB, MOST_MIB = 100, 24, 160
# An answer of three MiB that waits for a client that does not read it.
DEAF_MIB: Final = 20
P99_S: Final = 1.0
PATIENCE_S: Final = 20.0
PAUSE_S: Final = 0.02
TOGETHER: Final = 8
HEALTHY: Final = "healthy"
# What may come back for a request that chance has bent.
FINE: Final = frozenset({200, 400, 403, 404, 405, 408, 411, 413, 415, 417, 431, 501, 505})
OWN_HEADERS: Final = frozenset(
    {
        *("host", "accept", "accept-encoding", "content-type", "content-length", "authorization"),
        *FORWARDED,
    }
)
_STATUS: Final = re.compile(rb"HTTP/\d\.\d (\d{3}) ")
_LINE: Final = re.compile(rb"(GET|POST|DELETE) /v1/[\x21-\x7e]+ HTTP/1\.1")


class Said(msgspec.Struct, frozen=True):
    """What came back: the statuses, whether the connection was closed, and all of it."""

    statuses: tuple[int, ...]
    is_closed: bool
    data: bytes


async def talk(port: int, data: bytes, patience_s: float = PATIENCE_S) -> Said:
    """Send bytes and read until the connection ends, or nothing more comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.create_task(_send(writer, data))
    got, is_closed = bytearray(), True
    try:
        while chunk := await asyncio.wait_for(reader.read(MIB), patience_s):
            got += chunk
            patience_s = min(patience_s, 2.0)
    except TimeoutError:
        is_closed = False
    except ConnectionError:
        pass
    finally:
        sending.cancel()
        writer.close()
    statuses = tuple(int(number) for number in _STATUS.findall(got))
    return Said(tuple(one for one in statuses if one != 100), is_closed, bytes(got))


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(ConnectionError):
        writer.write(data)
        await writer.drain()


def written(data: bytes, port: int, name: str) -> bytes:
    """Fill in the port and the number of a case."""
    head, blank, body = data.partition(b"\r\n\r\n")
    head = head.replace(b"@PORT@", b"%d" % port).replace(b"@ID@", name.encode())
    return head + blank + body


def unsound(request: Request, own: str) -> Iterator[str]:
    """Say what of a request should not have reached the upstream."""
    names = {name.decode("latin-1") for name, _ in request.headers}
    if stray := names - OWN_HEADERS:
        yield f"headers {', '.join(sorted(stray))}"
    if len(names) < len(request.headers):
        yield "a header twice"
    if request.said(b"authorization") != [f"Bearer {KEY}".encode()]:
        yield "another key"
    if request.said(b"host") != [own.encode()]:
        yield f"host {request.said(b'host')!r}"
    if not _LINE.fullmatch(request.line):
        yield f"line {request.line[:80]!r}"
    everything = b"".join((request.line, *itertools.chain(*request.headers)))
    if b"evil" in everything or TOKEN.encode() in everything:
        yield "what was meant for the proxy"


def judged(name: str, case: Case, said: Said, reached: Sequence[Request]) -> Iterator[str]:
    """Say what is not as the table has it."""
    if said.statuses != case.statuses:
        yield f"{name}: {said.statuses}, not {case.statuses}"
    if len(reached) != case.sent:
        yield f"{name}: {len(reached)} requests went on, not {case.sent}"
    if b"access-control" in said.data.lower():
        yield f"{name}: another origin may read the answer"
    if KEY.encode() in said.data:
        yield f"{name}: the key came back"


def too_much(name: str, size: int, before: State, after: State) -> Iterator[str]:
    """Say that a case took more memory than it may."""
    taken = after.peak_mib - before.rss_mib
    most = min(max(MOST_TIMES * size / MIB, LEAST_MIB), MOST_MIB)
    if taken > most:
        yield f"{name}: {taken:.0f} MiB for {size / MIB:.2f}"


class Stage:
    """Two proxies, the upstream behind them, and what went wrong so far."""

    def __init__(self, upstream: RecordingUpstream, proxies: tuple[Running, Running]) -> None:
        self.upstream = upstream
        self.open, self.guarded = proxies
        self.failures: list[str] = []
        self.peak_mib = 0.0
        self.seconds: list[float] = []

    def reached(self, name: str) -> list[Request]:
        """Return the requests of a case."""
        return [request for request in self.upstream.requests if request.id == name]

    async def play(self, number: int, name: str, case: Case) -> None:
        """Play one case, and measure it."""
        proxy = self.guarded if case.guarded else self.open
        before = await asyncio.to_thread(proxy.state)
        data = written(case.data, proxy.port, f"c{number}")
        said = await talk(proxy.port, data)
        after = await asyncio.to_thread(proxy.state)
        self.peak_mib = max(self.peak_mib, after.peak_mib - before.rss_mib)
        self.failures += judged(name, case, said, self.reached(f"c{number}"))
        self.failures += too_much(name, len(data), before, after)

    async def healthy(self) -> None:
        """Ask as an honest client does, again and again, until this is cancelled."""
        marks = b"X-Request-Id: %s\r\nConnection: close\r\n" % HEALTHY.encode()
        head = CHAT + HOST + marks + LENGTH % len(BODY) + b"\r\n"
        while True:
            started = time.perf_counter()
            said = await talk(self.open.port, written(head + BODY, self.open.port, ""))
            self.seconds.append(time.perf_counter() - started)
            if said.statuses != (200,) or b"Hello." not in said.data:
                self.failures.append(f"an honest client got {said.statuses}")
            await asyncio.sleep(PAUSE_S)

    async def slow_heads(self) -> None:
        """Send heads a byte a second; each connection is closed before its head is complete."""
        gone = await asyncio.gather(*(self._drip(posted()[:200]) for _ in range(SLOW_HEADS)))
        late = [said for said in gone if said.statuses or not said.is_closed]
        self.failures += [f"slow head: {said.statuses}" for said in late[:1]]

    async def slow_bodies(self) -> None:
        """Send bodies a byte a second; each is told that it took too long."""
        data = posted(b"", b"", LENGTH % 1000)
        gone = await asyncio.gather(*(self._drip(b"xxxxx", data) for _ in range(SLOW_BODIES)))
        late = [said for said in gone if said.statuses != (408,)]
        self.failures += [f"slow body: {said.statuses}" for said in late[:1]]

    async def _drip(self, slowly: bytes, first: bytes = b"") -> Said:
        """Send what comes first, then byte after byte until an answer or the end comes."""
        port = self.open.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(written(first, port, "slow"))
        got = b""
        for byte in itertools.islice(itertools.cycle(slowly), int(HEAD_S + GRACE_S)):
            writer.write(bytes([byte]))
            try:
                got = await asyncio.wait_for(reader.read(MIB), 1.0)
                break
            except TimeoutError:
                continue
            except ConnectionError:  # closed while a byte was on its way
                break
        else:
            return Said((0,), is_closed=False, data=b"")
        writer.close()
        return Said(tuple(map(int, _STATUS.findall(got))), is_closed=not got, data=got)

    async def deaf(self) -> None:
        """Ask for large streams and read nothing of them: they do not pile up here."""
        before = await asyncio.to_thread(self.guarded.state)
        sockets = [await self._asks(self.guarded, LARGE) for _ in range(DEAF)]
        taken = await self._settled(before)
        self.peak_mib = max(self.peak_mib, taken)
        if taken > DEAF * DEAF_MIB:
            self.failures.append(f"{DEAF} clients that do not read: {taken:.0f} MiB")
        for each in sockets:
            each.close()

    async def _settled(self, before: State) -> float:
        """Wait until the proxy has no more to do; return the most that it took, in MiB."""
        taken, worked = 0.0, 0.0
        for _ in range(int(PATIENCE_S)):
            await asyncio.sleep(1.0)
            after = await asyncio.to_thread(self.guarded.state)
            taken = max(taken, after.peak_mib - before.rss_mib)
            if worked and after.cpu_s - worked < 0.1:
                break
            worked = after.cpu_s
        return taken

    async def leaving(self) -> None:
        """Leave in the middle of a stream: the upstream is not asked for the rest."""
        sockets = [await self._asks(self.guarded, ENDLESS) for _ in range(LEAVING)]
        await self._until(LEAVING)
        for each in sockets:
            each.close()
        await self._until(0)
        if self.upstream.streaming:
            self.failures.append(f"{self.upstream.streaming} streams go on for nobody")

    async def _until(self, streaming: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S / 2):
                while self.upstream.streaming != streaming:  # noqa: ASYNC110  # of a server
                    await asyncio.sleep(PAUSE_S)

    async def _asks(self, proxy: Running, what: bytes) -> socket.socket:
        asked = msgspec.json.encode({**ASKED, "stream": True, "user": what.decode()})
        shown = b"Authorization: Bearer %s\r\n" % TOKEN.encode()
        data = written(posted(shown, asked), proxy.port, "stream")
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)  # noqa: FBT003  # its name in the standard library
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, ("127.0.0.1", proxy.port))
        await loop.sock_sendall(connection, data)
        return connection

    async def bent(self, number: int, seed: int) -> None:
        """Send a request that chance has bent: no answer is a mistake of ours."""
        data = bent_request(random.Random(f"{seed} {number}"))
        said = await talk(self.open.port, written(data, self.open.port, f"b{number}"), 0.5)
        if odd := [status for status in said.statuses if status not in FINE]:
            self.failures.append(f"bent request {number} of seed {seed}: {odd}")
        if KEY.encode() in said.data:
            self.failures.append(f"bent request {number} of seed {seed}: the key came back")

    def looked_through(self) -> None:
        """Judge all that reached the upstream."""
        own = f"127.0.0.1:{self.upstream.port}"
        for request in self.upstream.requests:
            self.failures += [f"{request.id} sent on {text}" for text in unsound(request, own)]


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """Start the upstream and the proxies; at the end nothing of the visitors may be left."""
    upstream = RecordingUpstream()
    settings = {"api_key": KEY, "head_s": HEAD_S, "body_s": BODY_S}
    with ExitStack() as stack:
        async with upstream.opened() as url:
            processes = (
                proxy_process(url, **settings),
                proxy_process(url, **settings, token=TOKEN),
            )
            stage = Stage(upstream, tuple(map(stack.enter_context, processes)))  # type: ignore[arg-type]
            await talk(stage.open.port, written(posted(), stage.open.port, HEALTHY))
            before = [proxy.state() for proxy in (stage.open, stage.guarded)]
            yield stage
            for proxy, earlier in zip((stage.open, stage.guarded), before, strict=True):
                stage.failures += await left_over(proxy, earlier)


async def left_over(proxy: Running, before: State) -> list[str]:
    """Say what of the visitors is still there after a while."""
    after = before
    for _ in range(int(PATIENCE_S / 2 / PAUSE_S)):
        after = await asyncio.to_thread(proxy.state)
        # A connection to the upstream may stay open for whoever comes next.
        if after.tasks <= before.tasks and after.descriptors <= before.descriptors + TOGETHER:
            return []
        await asyncio.sleep(PAUSE_S)
    return [f"left over: {after.tasks} tasks, {after.descriptors} descriptors; before {before}"]


async def tried(size: int, seed: int) -> Stage:
    """Play the table, then requests bent by chance, while others are slow, deaf or gone."""
    table = list(all_cases().items())
    random.Random(seed).shuffle(table)
    async with staged() as stage:
        honest = asyncio.create_task(stage.healthy())
        aside = [asyncio.create_task(each()) for each in (stage.slow_heads, stage.slow_bodies)]
        for number, (name, case) in enumerate(table[:size]):
            await stage.play(number, name, case)
        await asyncio.gather(*aside)
        await stage.deaf()
        await stage.leaving()
        for first in range(0, size - len(table), TOGETHER):
            numbers = range(first, min(first + TOGETHER, size - len(table)))
            await asyncio.gather(*(stage.bent(number, seed) for number in numbers))
        honest.cancel()
    stage.looked_through()
    return stage


def attempt(size: int, seed: int) -> Outcome:
    """Play `size` requests: first the table, then bent ones."""
    stage = asyncio.run(tried(size, seed))
    *_, p99 = statistics.quantiles(stage.seconds, n=100)
    if p99 > P99_S:
        stage.failures.append(f"an honest client waited {p99:.2f} s (p99)")
    return Outcome(
        f"{size} requests on raw sockets, {len(all_cases())} of them with a tabulated answer, "
        f"beside {SLOW_HEADS} slow heads, {SLOW_BODIES} slow bodies, {DEAF} clients that do not "
        f"read and {LEAVING} that leave; a well-behaved client asked {len(stage.seconds)} times",
        size + SLOW_HEADS + SLOW_BODIES + DEAF + LEAVING,
        gathered(stage.failures),
        figures=f"the well-behaved client waited {statistics.median(stage.seconds) * 1000:.0f} ms "
        f"(median), {p99 * 1000:.0f} ms (p99, limit {P99_S:g} s); at most {stage.peak_mib:.0f} MiB "
        "over the base; the upstream got its own key and listed headers only",
    )


CLAIM = Claim(
    "D13",
    "A hostile client cannot affect other clients or bypass the proxy.",
    attempt,
    (400, 10_000, 100_000),
)
