"""What the HTTP client costs: CPU per request against bare aiohttp, and pyreqwest if it is there.

All sides send the same requests to a server in a process of its own, plain and streamed (about 80
events), one at a time and many at once. Rounds of all sides alternate in one run. Printed is, for
each side, the median in microseconds; for ours also the median ratio to bare aiohttp, with its bar.
To compare with another revision of surecall, put its checkout first in PYTHONPATH.

pyreqwest is no dependency: install it into an environment of its own to see its column. It may
abort the interpreter at its end, after everything was printed (docs/adr/0021).

    python bench/transport.py [ROUNDS]
"""

import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

sys.path.append(str(Path(__file__).resolve().parents[1]))

from bench.run import server, show
from surecall import OpenAICompatible

ROUNDS = 31
BAR = 1.25
QUESTION = "Weather in Paris for 3 days? " * 20
PLAIN: dict[str, Any] = {"model": "turns-0", "messages": [{"role": "user", "content": QUESTION}]}
BODY = json.dumps(PLAIN).encode()
STREAMED = json.dumps(PLAIN | {"stream": True}).encode()
HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "gzip, deflate",
    "Authorization": "Bearer none",
    "Content-Type": "application/json",
}
# What is measured: requests per round, and how many of them at once.
LOADS = {
    "plain, one at a time": (100, 1),
    "plain, 64 at once": (256, 64),
    "streamed, one at a time": (10, 1),
    "streamed, 64 at once": (64, 64),
}

Request = Callable[[], Awaitable[int]]


class Side(NamedTuple):
    """A client: how it sends a request, both ways. Each returns the bytes of the answer's body."""

    plain: Request
    streamed: Request


def bare_aiohttp(session: aiohttp.ClientSession, url: str) -> Side:
    """Use aiohttp as it comes."""

    async def sent(body: bytes) -> int:
        async with session.post(url, data=body, headers=HEADERS) as response:
            return sum([len(chunk) async for chunk in response.content.iter_any()])

    return Side(lambda: sent(BODY), lambda: sent(STREAMED))


def ours(client: OpenAICompatible) -> Side:
    """Use surecall's client."""

    async def plain() -> int:
        return len((await client.send(BODY)).body)

    async def streamed() -> int:
        async with client.stream(STREAMED) as incoming:
            return sum([len(chunk) async for chunk in incoming.chunks])

    return Side(plain, streamed)


def pyreqwest(client: Any, url: str) -> Side:
    """Use the Rust client as it comes."""

    async def sent(body: bytes) -> int:
        size = 0
        request = client.post(url).headers(HEADERS).body_bytes(body).build_streamed()
        async with request as response:
            while (chunk := await response.body_reader.read_chunk()) is not None:
                size += len(chunk)
        return size

    return Side(lambda: sent(BODY), lambda: sent(STREAMED))


async def sides_of(base: str, stack: AsyncExitStack) -> dict[str, Side]:
    """Open every client there is."""
    url = f"{base}/v1/chat/completions"
    client = OpenAICompatible(base, "none")
    await stack.enter_async_context(client)
    timeout = aiohttp.ClientTimeout(total=600, sock_connect=5, sock_read=60)
    session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
    await stack.enter_async_context(session)
    sides = {"aiohttp": bare_aiohttp(session, url), "surecall": ours(client)}
    if find_spec("pyreqwest"):
        from pyreqwest.client import ClientBuilder  # type: ignore[import-not-found]  # noqa: PLC0415

        rust = await stack.enter_async_context(ClientBuilder().no_proxy().build())
        sides["pyreqwest"] = pyreqwest(rust, url)
    return sides


async def cpu_of(request: Request, total: int, at_once: int) -> float:
    """Return the CPU microseconds of one request, averaged over many."""
    gc.collect()
    gc.disable()
    started = time.process_time()
    for _ in range(total // at_once):
        await asyncio.gather(*(request() for _ in range(at_once)))
    took = time.process_time() - started
    gc.enable()
    return took / total * 1_000_000


async def measured(requests: dict[str, Request], rounds: int, load: tuple[int, int]) -> bool:
    """Print what each side costs under one load; say whether ours is within the bar."""
    if len({await request() for request in requests.values()}) != 1:
        raise SystemExit("the sides got different answers")
    for request in requests.values():
        await cpu_of(request, *load)
    times: dict[str, list[float]] = {name: [] for name in requests}
    for number in range(rounds):
        for name in requests if number % 2 else reversed(requests):
            times[name].append(await cpu_of(requests[name], *load))
    print(", ".join(f"{name} {statistics.median(took):.0f} µs" for name, took in times.items()))
    pairs = zip(times["surecall"], times["aiohttp"], strict=True)
    return show("  surecall against aiohttp", [mine / bare for mine, bare in pairs], BAR)


async def main(rounds: int) -> int:
    """Print the table; fail if our client is over the bar."""
    passed = []
    with server() as base:
        async with AsyncExitStack() as stack:
            sides = await sides_of(base, stack)
            for name, load in LOADS.items():
                print(f"{name}: ", end="")
                kind = name.partition(",")[0]
                requests = {who: getattr(side, kind) for who, side in sides.items()}
                passed.append(await measured(requests, rounds, load))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else ROUNDS)))
