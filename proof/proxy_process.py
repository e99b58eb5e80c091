"""A proxy in a process of its own, and what it takes: memory, descriptors, tasks, time."""

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import msgspec

from surecall.cli.proxy import prefer_latency
from surecall.proxy import Proxy

_HERE: Final = Path("/proc/self")


class State(msgspec.Struct, frozen=True):
    """What a process takes now. `peak_mib` is the most it took since it was asked before."""

    rss_mib: float
    peak_mib: float
    descriptors: int
    tasks: int
    cpu_s: float


def _memory(field: str) -> float:
    lines = (_HERE / "status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024


def state() -> State:
    """Say what this process takes, and begin a new peak; the kernel does so when told 5."""
    peak = _memory("VmHWM")
    (_HERE / "clear_refs").write_text("5", "utf-8")
    # One descriptor is that of the list itself.
    descriptors = len(list((_HERE / "fd").iterdir())) - 1
    rss = _memory("VmRSS")
    return State(rss, peak, descriptors, len(asyncio.all_tasks()), time.process_time())


class Running:
    """A proxy that runs elsewhere: its addresses, and how it is."""

    def __init__(self, line: Connection) -> None:
        self._line = line
        self._turn = threading.Lock()
        self.url, self.page = line.recv()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rpartition(":")[2])

    def state(self) -> State:
        """Ask what it takes now."""
        with self._turn:
            self._line.send("state")
            told: State = self._line.recv()
        return told


@contextmanager
def proxy_process(upstream: str, **settings: Any) -> Iterator[Running]:
    """Run a proxy in another process."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_main, args=(there, upstream, settings), daemon=True)
    process.start()
    there.close()  # so that a process that dies ends the line
    try:
        yield Running(here)
        here.send("")
        process.join(10)
    finally:
        process.kill()
        process.join()


def _main(line: Connection, upstream: str, settings: dict[str, Any]) -> None:
    prefer_latency()  # as `surecall proxy` does
    asyncio.run(_serve(line, Proxy(upstream, **settings)))


async def _serve(line: Connection, proxy: Proxy) -> None:
    async with proxy:
        line.send((proxy.url, proxy.page))
        while await asyncio.to_thread(line.recv):
            line.send(state())
