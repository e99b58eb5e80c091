"""How fast a lane reaches its width over real sockets, and what a provider with a limit refuses.

The endpoint runs in a process of its own. It answers a request after a latency, or refuses it at
once. A round is one latency. The lane is measured alone, with trials that are one request each and
try again as runs do; and with the whole command, where CPU is the limit before the width is.

    python bench/lanes.py            a lane of 512 at 300 ms, by round; the bar: 90 % of what that
                                     width can, 512 / 300 ms, in one of the first ten rounds
    python bench/lanes.py --limits   providers with limits; the bar: at most 10 % are refused
    python bench/lanes.py --eval     `surecall eval -j 512` by latency: what its CPU allows
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.server import served_by
from surecall import OpenAICompatible
from surecall.eval.running.limiter import Limiter, RateLimitedClient
from surecall.settings.connection import Limits, RetryPolicy
from surecall.wire.response import parse_fault

WIDTH, LATENCY_S, ROUNDS = 512, 0.3, 10
BAR, MOST_REFUSED = 0.9, 0.1
TOO_MANY = 429
EVAL_LATENCIES_S = (0.3, 0.6, 1.2, 2.4)
EVAL_TRIALS = 8 * WIDTH
MESSAGE = {"role": "assistant", "content": "Done."}
ANSWER = json.dumps({"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]})


class Limit(NamedTuple):
    """What a provider takes: so many at once, or so many a second and `burst` after a pause."""

    name: str
    slots: float = float("inf")
    rate: float = float("inf")
    burst: float = 0.0
    told: bool = False
    drops_at_s: float = float("inf")
    drops_to: float = 0.0


LIMITS = (
    Limit("100 slots", slots=100),
    Limit("300 requests/s", rate=300, burst=100),
    Limit("300 requests/s, with headers", rate=300, burst=300, told=True),
    Limit("200 slots, 40 after 4 s", slots=200, drops_at_s=4.0, drops_to=40),
)


class Provider:
    """The endpoint: counts what comes, by round, and what it refuses."""

    def __init__(self, latency_s: float, limit: Limit) -> None:
        self.latency_s, self.limit = latency_s, limit
        self.began = self.filled = 0.0
        self.tokens = limit.burst
        self.under_way = self.refused = 0
        self.rounds: Counter[int] = Counter()

    def takes(self, now: float) -> bool:
        """Decide about a request."""
        limit = self.limit
        slots = limit.drops_to if now - self.began > limit.drops_at_s else limit.slots
        if limit.rate < float("inf"):
            filled = self.tokens + (now - self.filled) * limit.rate
            self.tokens, self.filled = min(limit.burst, filled), now
            if self.tokens < 1:
                return False
            self.tokens -= 1
        return self.under_way < slots

    def headers(self) -> str:
        """Say what is left, as OpenAI does."""
        if not self.limit.told:
            return ""
        full_ms = (self.limit.burst - self.tokens) / self.limit.rate * 1000
        return (
            f"x-ratelimit-limit-requests: {self.limit.burst:.0f}\r\n"
            f"x-ratelimit-remaining-requests: {self.tokens:.0f}\r\n"
            f"x-ratelimit-reset-requests: {full_ms:.0f}ms\r\n"
        )

    def ended(self, transport: asyncio.Transport, data: bytes) -> None:
        """Answer a request that was taken."""
        self.under_way -= 1
        self.rounds[int((time.monotonic() - self.began) / self.latency_s)] += 1
        transport.write(data)


class Connection(asyncio.Protocol):
    """One connection: a request after the other."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.data = b""

    def connection_made(self, transport: Any) -> None:
        """Keep the way back."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Read a request as it arrives."""
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if not end or len(body) < int(length or b"0"):
            return
        self.data = b""
        if head.startswith(b"GET"):
            counts = {"rounds": self.provider.rounds, "refused": self.provider.refused}
            self.transport.write(written(200, json.dumps(counts)))
            return
        self.judge()

    def judge(self) -> None:
        """Answer later, or refuse now."""
        provider, now = self.provider, time.monotonic()
        provider.began = provider.began or now
        if provider.takes(now):
            provider.under_way += 1
            answer = written(200, ANSWER, provider.headers())
            loop = asyncio.get_running_loop()
            loop.call_later(provider.latency_s, provider.ended, self.transport, answer)
        else:
            provider.refused += 1
            self.transport.write(written(TOO_MANY, "{}", provider.headers()))


def written(status: int, body: str, headers: str = "") -> bytes:
    """Write an answer."""
    kind = "Content-Type: application/json\r\n"
    return (
        f"HTTP/1.1 {status} .\r\n{kind}{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )


async def serve(latency_s: float, limit: Limit) -> None:
    """Listen on a free loopback port and print it."""
    provider = Provider(latency_s, limit)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(provider), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def served(latency_s: float, limit: Limit) -> AbstractContextManager[str]:
    """Run the endpoint in another process; return its address."""
    return served_by(Path(__file__), "--serve", f"{latency_s}", json.dumps(limit))


def counted(base: str) -> tuple[list[int], int]:
    """Return how many requests were served in each round, and how many were refused."""
    with urlopen(base) as answer:  # noqa: S310  # our own server
        found = json.load(answer)
    rounds = {int(number): count for number, count in found["rounds"].items()}
    return [rounds.get(number, 0) for number in range(max(rounds) + 1)], found["refused"]


async def conversations(base: str, seconds: float) -> None:
    """Keep a lane as full as it may be, with trials of one request each."""
    limiter = Limiter(WIDTH, time.monotonic, time.time)
    client = OpenAICompatible(base, limits=Limits(max_connections=WIDTH))
    watched = RateLimitedClient(client, "lane", limiter, lambda *_: None)
    end, retry = time.monotonic() + seconds, RetryPolicy()

    async def converse() -> None:
        attempt = 0
        while time.monotonic() < end:
            attempt += 1
            answer = await watched.send(b"{}")
            if answer.status != TOO_MANY:
                attempt = 0
                continue
            fault = parse_fault({}, answer.status, answer.headers, time.time())
            wait_s = retry.wait(fault, attempt, 0.5)
            attempt = attempt if wait_s else 0
            await asyncio.sleep(wait_s or 0.0)

    async with client.opened():
        await asyncio.gather(*(converse() for _ in range(WIDTH)))


def ramp() -> bool:
    """Show a lane without a limit, round by round."""
    most = WIDTH / LATENCY_S
    with served(LATENCY_S, Limit("none")) as base:
        cpu = time.process_time()
        asyncio.run(conversations(base, (ROUNDS + 1) * LATENCY_S))
        cpu = time.process_time() - cpu
        rounds, _ = counted(base)
    rates = [count / LATENCY_S for count in rounds]
    for number, rate in enumerate(rates[: ROUNDS + 1]):
        print(f"round {number:2}  {rate:6.0f} requests/s  {rate / most:4.0%} of {most:.0f}")
    best = max(rates[: ROUNDS + 1])
    print(f"best {best / most:.0%} (bar {BAR:.0%}); {cpu / sum(rounds) * 1e6:.0f} us CPU a request")
    return best >= BAR * most


def limits() -> bool:
    """Show what providers with limits serve and refuse."""
    good = True
    for limit in LIMITS:
        with served(LATENCY_S, limit) as base:
            asyncio.run(conversations(base, 30.0))
            rounds, refused = counted(base)
        share = refused / (refused + sum(rounds))
        good = good and share <= MOST_REFUSED
        half = rounds[len(rounds) // 2 :]
        rate = sum(half) / len(half) / LATENCY_S
        print(f"{limit.name:30} {rate:5.0f} requests/s in the second half, {share:6.2%} refused")
    return good


def whole() -> bool:
    """Show the whole command, by latency: how much of its width it can fill."""
    for latency_s in EVAL_LATENCIES_S:
        with served(latency_s, Limit("none")) as base, tempfile.TemporaryDirectory() as folder:
            words = ["-m", "surecall", "eval", "-q", "--runs", folder, "--base-url", base]
            what = ["-m", "any", "-s", "chat_only", "-j", f"{WIDTH}", "-n", f"{EVAL_TRIALS}"]
            began = time.monotonic()
            process = subprocess.Popen(  # noqa: S603  # our own command
                [sys.executable, *words, *what],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            took = time.monotonic() - began
            rounds, _ = counted(base)
        cpu = usage.ru_utime + usage.ru_stime
        rates = [count / latency_s for count in rounds]
        most = WIDTH / latency_s
        print(
            f"{latency_s:3.1f} s  best round {max(rates):5.0f} of {most:5.0f} requests/s "
            f"({max(rates) / most:4.0%}), CPU {cpu / took:4.0%} of a core, {len(rounds)} rounds, "
            f"exit code {process.returncode}"
        )
    return True


def main() -> int:
    """Run what was asked for."""
    match sys.argv[1:]:
        case ["--serve", latency_s, limit]:
            asyncio.run(serve(float(latency_s), Limit(*json.loads(limit))))
            return 0
        case ["--limits"]:
            return int(not limits())
        case ["--eval"]:
            return int(not whole())
        case _:
            return int(not ramp())


if __name__ == "__main__":
    sys.exit(main())
