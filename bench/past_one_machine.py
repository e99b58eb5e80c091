"""How long a million trials take: a simulation of workers, lanes, a provider and its latency.

    python bench/past_one_machine.py [--trials 1000000] [--cpu-ms 2] [--record-ms 0.5] …

A trial is some requests, one after another. Before each, its process computes (its share of the
CPU of a trial); then the provider answers after its latency, if its rate allows it, or later.
Conversations are divided among the workers as `--jobs` is; one process records all results. The
table is that of docs/distributed.md. Nothing here is random: latencies go round.
"""

import argparse
import heapq
import itertools
import sys
from typing import NamedTuple

# The latencies of a real provider are skewed; these have a mean of one.
SHAPE = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.8)
HOUR_S, DAY_S = 3_600, 86_400


class World(NamedTuple):
    """What is simulated. The rate is in requests a minute; none means that it does not limit."""

    workers: int
    jobs: int
    rate: float | None
    latency_s: float
    requests: int = 4
    cpu_s: float = 0.002
    record_s: float = 0.0005


class Queue:
    """Something that does one thing at a time: a core, or a provider that counts."""

    def __init__(self) -> None:
        self.free_at = 0.0
        self.busy_s = 0.0

    def take(self, now: float, needed_s: float) -> float:
        """Be used for so long, as soon as it is free; return when that is over."""
        self.free_at = max(self.free_at, now) + needed_s
        self.busy_s += needed_s
        return self.free_at


def simulated(world: World, trials: int) -> tuple[float, str]:
    """Return how long so many trials take, and what they waited for most."""
    cores = [Queue() for _ in range(world.workers)]
    provider, recorder = Queue(), Queue()
    apart_s = 0.0 if world.rate is None else 60 / world.rate
    latencies = itertools.cycle(SHAPE)
    begun = min(world.jobs, trials)
    # When a conversation goes on, of which worker it is, and how many requests it still makes.
    events = [(0.0, number, number % world.workers, world.requests) for number in range(begun)]
    numbers = itertools.count(begun)
    while events:
        now, _, worker, left = heapq.heappop(events)
        if not left:
            now = recorder.take(now, world.record_s)
            if begun == trials:
                continue
            begun, left = begun + 1, world.requests
        asked = cores[worker].take(now, world.cpu_s / world.requests)
        answered = provider.take(asked, apart_s) + world.latency_s * next(latencies)
        heapq.heappush(events, (answered, next(numbers), worker, left - 1))
    end = max(recorder.free_at, 1e-9)
    shares = {
        "the CPU of the workers": max(core.busy_s for core in cores) / end,
        "the rate": provider.busy_s / end,
        "the process that records": recorder.busy_s / end,
    }
    name, share = max(shares.items(), key=lambda item: item[1])
    return end, name if share > 0.9 else "`--jobs`"


def duration(seconds: float) -> str:
    """Write a time as people say it."""
    if seconds >= 2 * DAY_S:
        return f"{seconds / DAY_S:.1f} days"
    return f"{seconds / HOUR_S:.1f} h" if seconds >= HOUR_S else f"{seconds / 60:.0f} min"


def worlds(cpu_s: float, record_s: float) -> list[World]:
    """Return what the page shows: from one process and a common quota to a cluster of one's own."""
    rows = (
        (1, 32, 500.0, 2.0),
        (1, 16, None, 2.0),
        (1, 256, None, 2.0),
        (8, 2_000, 10_000.0, 2.0),
        (1, 8_000, None, 2.0),
        (2, 8_000, None, 2.0),
        (8, 40_000, None, 2.0),
        (1, 16, None, 0.0),
        (2, 16, None, 0.0),
    )
    return [World(*row)._replace(cpu_s=cpu_s, record_s=record_s) for row in rows]


def main() -> int:
    """Print the table. A sample is simulated, and the rest goes on like it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--cpu-ms", type=float, default=5.0)
    parser.add_argument("--record-ms", type=float, default=0.5)
    parser.add_argument("--sample", type=int, default=200_000)
    given = parser.parse_args()
    print("| worker processes | `--jobs` | requests a minute | latency | time | what limits |")
    print("|---|---|---|---|---|---|")
    for world in worlds(given.cpu_ms / 1000, given.record_ms / 1000):
        sample = min(given.sample, given.trials)
        seconds, limit = simulated(world, sample)
        rate = "no limit" if world.rate is None else f"{world.rate:,.0f}"
        took = duration(seconds * given.trials / sample)
        told = (world.workers, f"{world.jobs:,}", rate, f"{world.latency_s:g} s", took, limit)
        print(f"| {' | '.join(map(str, told))} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
