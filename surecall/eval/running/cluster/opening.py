"""Opens a Dask cluster: one of our own on this machine, or one that is there already.

One of our own listens on loopback alone, behind certificates that live as long as it does: on a
machine with several users, nobody else can send it code or read what it sends. It has no dashboard.
"""

import logging
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, Final

from surecall.values.errors import ConfigError
from surecall.values.version import __version__

if TYPE_CHECKING:
    from distributed import Client

LOOPBACK: Final = "127.0.0.1"
_PRELOAD: Final = "surecall.eval.running.cluster.worker_process"
_QUIET: Final = logging.CRITICAL + 1
_SAFE_PATH: Final = "PYTHONSAFEPATH"
_CONFIG: Final[dict[str, Any]] = {
    # A new Python looks for modules in the working directory first, which may be anyone's.
    f"distributed.nanny.pre-spawn-environ.{_SAFE_PATH}": "1",
    # Nothing is served about the evaluation.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_CONNECT_S: Final = 15.0


@asynccontextmanager
async def own_cluster(workers: int | None = None) -> AsyncIterator["Client"]:
    """Start a cluster of worker processes on this machine; it ends with the block."""
    import dask  # noqa: PLC0415 - an extra: only this engine needs it
    from dask.system import CPU_COUNT  # noqa: PLC0415 - see above
    from distributed import Client, LocalCluster, Security  # noqa: PLC0415 - see above

    with (
        tempfile.TemporaryDirectory(prefix="surecall-") as folder,
        dask.config.set(_CONFIG | {"temporary-directory": folder}),
        _environment(_SAFE_PATH, "1"),
    ):
        cluster = LocalCluster(
            n_workers=workers or CPU_COUNT,
            threads_per_worker=1,
            processes=True,
            host=LOOPBACK,
            security=Security.temporary(),
            dashboard_address=None,
            scheduler_kwargs={"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"},
            memory_limit=0,
            preload=_PRELOAD,
            silence_logs=_QUIET,
            asynchronous=True,
        )
        with _interrupts_blocked():
            await cluster
        async with cluster, Client(cluster, **_OURS) as client:
            yield client


@asynccontextmanager
async def existing_cluster(address: str) -> AsyncIterator["Client"]:
    """Connect to a scheduler; Dask's own configuration says which certificates it needs."""
    from distributed import Client  # noqa: PLC0415 - an extra: only this engine needs it

    _silence()
    client = Client(address, **_OURS, timeout=_CONNECT_S)
    try:
        await client
    except (OSError, TypeError, ValueError) as error:
        await client.close()
        raise ConfigError(f"{address}: no Dask scheduler answers there ({error})") from None
    async with client:
        yield client


async def check_versions(client: "Client", only: str | None = None) -> None:
    """Refuse workers, or one, that would not run the same trials as this process."""
    found = await client.get_versions(packages=["surecall"])
    ours = found["client"]["packages"] | {"surecall": __version__}
    for address, theirs in found["workers"].items():
        problem = difference(ours, theirs["packages"]) if only in {None, address} else ""
        if problem:
            raise ConfigError(f"the worker {address} has {problem}")


def difference(ours: Mapping[str, str | None], theirs: Mapping[str, str | None]) -> str:
    """Say what a worker has instead of what is here; blank if that is the same."""
    if theirs.get("surecall") is None:
        return f"no surecall: install surecall[dask]=={ours['surecall']} there"
    if theirs["surecall"] != ours["surecall"]:
        return f"surecall {theirs['surecall']}, and here it is {ours['surecall']}"
    python, other = (_minor(each.get("python")) for each in (ours, theirs))
    return "" if python == other else f"Python {other}, and here it is {python}"


def _minor(version: str | None) -> str:
    return ".".join((version or "?").split(".")[:2])


_OURS: Final[dict[str, Any]] = {"asynchronous": True, "set_as_default": False}


def _silence() -> None:
    """Keep Dask's log out of the terminal: what matters is told in a sentence."""
    logging.getLogger("distributed").setLevel(_QUIET)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, not even before their first line of Python.

    They keep what is blocked here. One that comes now waits for the end of the block.
    """
    # Once in the life of a process it is started, and unblocks interrupts when it is.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set a variable for processes that are started in the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
