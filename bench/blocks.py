"""How long one run keeps the others waiting: the event loop's longest block at many starts.

Conversations start simultaneously against a server in another process, plain and streamed, while a
task asks for the time every millisecond. Printed is the longest that it had to wait, as the median
of several rounds: by the clock, in which the machine's other work shows; in CPU time of the thread;
and without the passes of Python's garbage collector, which depend on all that the program holds.
Exits with 1 if that last one is over the bar.

    python bench/blocks.py [STARTS]
"""

import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.run import runner_for, server, watched, weather_async
from surecall import OpenAICompatible

STARTS = 1_000
ROUNDS = 5
BAR_MS = 50.0


class Collector:
    """How much CPU time Python's garbage collector took, which goes through all that is alive."""

    def __init__(self) -> None:
        self.took = self._since = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self._since = time.thread_time()
        else:
            self.took += time.thread_time() - self._since

    def close(self) -> None:
        """Stop looking."""
        gc.callbacks.remove(self._note)


class Blocks(NamedTuple):
    """The longest block in milliseconds: by the clock, of CPU time, and without the collector."""

    waited: float
    worked: float
    own: float


async def longest_blocks(conversation: Callable[[], Awaitable[object]], starts: int) -> Blocks:
    """Return how long a task had to wait at most while so many conversations are held."""
    collector = Collector()
    gaps = [Blocks(0.0, 0.0, 0.0)]

    async def tick() -> None:
        while True:
            clock, work, collected = time.perf_counter(), time.thread_time(), collector.took
            await asyncio.sleep(0.001)
            worked = time.thread_time() - work
            own = worked - (collector.took - collected)
            gaps.append(Blocks(time.perf_counter() - clock - 0.001, worked, own))

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    results = await asyncio.gather(*(conversation() for _ in range(starts)), return_exceptions=True)
    ticker.cancel()
    collector.close()
    failed = [result for result in results if isinstance(result, BaseException)]
    if failed:
        raise SystemExit(f"{len(failed)} conversations failed, the first with {failed[0]!r}")
    return Blocks(*(1000 * max(column) for column in zip(*gaps, strict=True)))


async def main(starts: int) -> int:
    """Print the longest block of each round; fail if the median is over the bar."""
    over = 0
    with server() as base:
        client = OpenAICompatible(base, "none")
        runner = runner_for(client, "turns-2", weather_async)
        kinds: dict[str, Callable[[], Awaitable[object]]] = {
            "run": lambda: runner.run("Weather in Paris for 3 days?"),
            "stream": lambda: watched(runner),
        }
        for kind, conversation in kinds.items():
            await conversation()
            gc.collect()
            cpu = time.process_time()
            blocks = [await longest_blocks(conversation, starts) for _ in range(ROUNDS)]
            cpu = (time.process_time() - cpu) / ROUNDS
            waited, worked, own = (
                statistics.median(column) for column in zip(*blocks, strict=True)
            )
            over += own > BAR_MS
            print(
                f"{starts} starts of `{kind}`: longest block {own:.0f} ms of own work (bar "
                f"{BAR_MS:g} ms; n={ROUNDS}), {worked:.0f} ms with Python's garbage collector, "
                f"{waited:.0f} ms by the clock; {cpu:.1f} s CPU in all  "
                f"{'OVER' if own > BAR_MS else 'ok'}"
            )
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else STARTS)))
