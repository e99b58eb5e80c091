"""What the proxy adds: CPU of its process per plain request, and the wait for a stream's beginning.

    python -m bench.proxy            what a request costs
    python -m bench.proxy attack     what others wait while one client is hostile

The endpoint and the proxy run in processes of their own. Rounds of requests to the endpoint itself
and through the proxy alternate in one run; printed is the median of the rounds, with their range.
Expected on an idle core: at most 1 ms of CPU for a plain request, and the first byte of a stream at
most 5 ms after the endpoint's own. Absolute times depend on the machine.

In the attack one client and its endpoint choose schema and arguments so that checking them is slow,
one request after the other, each with tools that the proxy has not seen. Four other clients send
plain requests. Their latencies are compared with those of rounds without the attack.
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


ATTACK_ROUNDS: Final = 4
ATTACK_S: Final = 2.0
CLIENTS: Final = 4
ADDED_BAR_MS: Final = 50.0


def _nested(levels: int) -> dict[str, object]:
    schema: dict[str, object] = {"properties": {"a": {"type": "integer"}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


# Each took seconds to minutes of one reply. The arguments are in `bench/server.py`.
_ALTERNATIVES: Final = [
    {"type": "object", "properties": {f"k{n}": {"type": "integer"}, "kind": {"const": f"a{n}"}}}
    for n in range(30)
]
_ITEMS: Final[dict[str, object]] = {
    "alternatives": {"anyOf": _ALTERNATIVES},
    "enum": {"enum": [f"v{number}" for number in range(4_000)]},
    "fractions": {"not": {"enum": [number + 0.5 for number in range(3_000)]}},
    "patterns": {"anyOf": [{"pattern": f"(\\w{{1,50}}){{1,9}}{n}"} for n in range(20)]},
}
# Leads back to the root in nine ways, whose errors were listed one by one.
_FAN: Final[dict[str, object]] = {
    "propertyNames": {"not": {}},
    "$ref": "#/$defs/d0",
    "$defs": {
        "d0": {"anyOf": [{"$ref": "#/$defs/d1"}] * 3},
        "d1": {"anyOf": [{"$ref": "#/$defs/d2"}] * 3},
        "d2": {"$ref": "#"},
    },
}
SCHEMAS: Final[dict[str, dict[str, object]]] = {
    "unevaluated": _nested(20),
    "identifiers": {"properties": {"items": {"type": "array", "uniqueItems": True}}},
    "fan": _FAN,
    "brackets": {"properties": {"a": {"pattern": "]" * 300_000}}},
    **{
        kind: {"properties": {"items": {"type": "array", "items": items}}}
        for kind, items in _ITEMS.items()
    },
}


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


async def _attacking(session: aiohttp.ClientSession, url: str, kind: str) -> None:
    """Send one hostile request after the other."""
    number = 0
    while True:
        number += 1
        function = {"name": "act", "description": str(number), "parameters": SCHEMAS[kind]}
        tools = [{"type": "function", "function": function}]
        body = msgspec.json.encode({**_ASKED, "model": f"attack-{kind}", "tools": tools})
        headers = {"Content-Type": "application/json"}
        async with session.post(f"{url}/v1/chat/completions", data=body, headers=headers) as said:
            await said.read()


async def _latencies(session: aiohttp.ClientSession, url: str, seconds: float) -> list[float]:
    """Send plain requests from several clients for a while; return how long each one took."""
    ends = time.perf_counter() + seconds
    found: list[float] = []

    async def client() -> None:
        while time.perf_counter() < ends:
            found.append(await _asked(session, url, PLAIN))
            await asyncio.sleep(0.01)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return found


async def attacked(proxy: Running, kind: str) -> tuple[list[float], list[float]]:
    """Return the latencies of other clients in rounds without an attack and in rounds with it."""
    quiet: list[float] = []
    loud: list[float] = []
    async with aiohttp.ClientSession() as session, aiohttp.ClientSession() as other:
        await _latencies(session, proxy.url, 0.5)
        for _ in range(ATTACK_ROUNDS):
            quiet += await _latencies(session, proxy.url, ATTACK_S)
            attack = asyncio.create_task(_attacking(other, proxy.url, kind))
            loud += await _latencies(session, proxy.url, ATTACK_S)
            attack.cancel()
            await asyncio.gather(attack, return_exceptions=True)
    return quiet, loud


def attack() -> int:
    """Print what an attack adds to the latency of other clients; fail if it is beyond the bar."""
    over = 0
    for kind in SCHEMAS:
        with server() as url, proxy_process(url) as proxy:
            quiet, loud = asyncio.run(attacked(proxy, kind))
        usual = statistics.median(quiet)
        added = [statistics.quantiles(loud, n=100)[98] - usual, max(loud) - usual]
        before = [statistics.quantiles(quiet, n=100)[98] - usual, max(quiet) - usual]
        over += added[1] > ADDED_BAR_MS
        print(
            f"{kind:<14} adds {added[0]:5.1f} ms at p99, {added[1]:5.1f} ms at most to the usual "
            f"{usual:.1f} ms of others (n={len(loud)}); without the attack {before[0]:.1f} ms "
            f"and {before[1]:.1f} ms (n={len(quiet)})   bar {ADDED_BAR_MS:g} ms"
        )
    return int(over > 0)


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
    sys.exit(attack() if sys.argv[1:] == ["attack"] else main())
