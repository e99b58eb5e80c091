"""What the proxy adds: CPU of its process per plain request, and the wait for a stream's beginning.

    python -m bench.proxy

The endpoint and the proxy run in processes of their own. Rounds of requests to the endpoint itself
and through the proxy alternate in one run; printed is the median of the rounds, with their range.
Expected on an idle core: at most 1 ms of CPU for a plain request, and the first byte of a stream at
most 5 ms after the endpoint's own. Absolute times depend on the machine.
"""

import asyncio
import statistics
import sys
import time
from typing import Final

import aiohttp
import msgspec

from bench.run import TOOLS, server
from proof.proxy_process import Running, proxy_process

ROUNDS: Final = 15
REQUESTS: Final = 100
STREAMS: Final = 25
CPU_BAR_MS: Final = 1.0
FIRST_BAR_MS: Final = 5.0
_ASKED: Final = {
    "model": "turns-1",
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": TOOLS,
}
PLAIN: Final = msgspec.json.encode(_ASKED)
STREAMED: Final = msgspec.json.encode({**_ASKED, "model": "turns-0", "stream": True})


class Round(msgspec.Struct, frozen=True):
    """One round, in milliseconds: CPU of the proxy for a request, and what it adds to the wait."""

    cpu: float
    wait: float
    first: float


async def _asked(session: aiohttp.ClientSession, url: str, body: bytes) -> float:
    """Ask once; return the milliseconds until the first byte of the answer's body."""
    started = time.perf_counter()
    headers = {"Content-Type": "application/json"}
    async with session.post(f"{url}/v1/chat/completions", data=body, headers=headers) as response:
        assert response.status == 200, await response.text()  # noqa: S101  # or nothing is measured
        await response.content.readany()
        first = time.perf_counter()
        await response.read()
    return (first - started) * 1000


async def _waits(session: aiohttp.ClientSession, url: str, body: bytes, count: int) -> float:
    return statistics.median([await _asked(session, url, body) for _ in range(count)])


async def _round(session: aiohttp.ClientSession, url: str, proxy: Running) -> Round:
    direct = await _waits(session, url, PLAIN, REQUESTS)
    before = proxy.state().cpu_s
    through = await _waits(session, proxy.url, PLAIN, REQUESTS)
    cpu = (proxy.state().cpu_s - before) * 1000 / REQUESTS
    first = await _waits(session, url, STREAMED, STREAMS)
    later = await _waits(session, proxy.url, STREAMED, STREAMS)
    return Round(cpu, through - direct, later - first)


async def measured(url: str, proxy: Running, rounds: int = ROUNDS) -> list[Round]:
    """Measure rounds, after one that warms the processes up."""
    async with aiohttp.ClientSession() as session:
        return [await _round(session, url, proxy) for _ in range(rounds + 1)][1:]


def rounds_of(count: int = ROUNDS) -> list[Round]:
    """Start everything, and measure."""
    with server() as url, proxy_process(url) as proxy:
        return asyncio.run(measured(url, proxy, count))


def show(name: str, values: list[float], bar: float | None = None) -> bool:
    """Print one line; say whether the median is within the bar."""
    middle = statistics.median(values)
    told = "" if bar is None else f"   bar {bar:g} ms"
    print(f"{name:<44} {middle:6.2f} ms  ({min(values):.2f} to {max(values):.2f}){told}")
    return bar is None or middle <= bar


def main() -> int:
    """Print the figures; fail if one is beyond its bar."""
    rounds = rounds_of()
    held = (
        show("CPU of the proxy for a plain request", [one.cpu for one in rounds], CPU_BAR_MS),
        show("added to the wait for a plain answer", [one.wait for one in rounds]),
        show(
            "added to the wait for a stream's first byte", [r.first for r in rounds], FIRST_BAR_MS
        ),
    )
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
