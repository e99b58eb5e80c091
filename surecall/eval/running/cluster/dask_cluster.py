"""Starts a Dask cluster on this machine, or connects to an existing one.

A started cluster listens on loopback only, with temporary TLS certificates: on a machine with
several users, nobody else can send it code or read its traffic. It has no dashboard.
"""

import asyncio
import logging
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any, Final

from surecall.values.errors import ConfigError
from surecall.values.version import __version__

if TYPE_CHECKING:
    from distributed import Client

LOOPBACK: Final = "127.0.0.1"
_LOG_OFF: Final = logging.CRITICAL + 1
_SAFE_PATH_VARIABLE: Final = "PYTHONSAFEPATH"
_DASK_CONFIG: Final[dict[str, Any]] = {
    # Without it, Python imports modules from the working directory first, which may be untrusted.
    f"distributed.nanny.pre-spawn-environ.{_SAFE_PATH_VARIABLE}": "1",
    # No HTTP pages about the evaluation.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_CONNECT_S: Final = 15.0
_CLOSING_S: Final = 0.5


@asynccontextmanager
async def start_cluster(workers: int | None = None) -> AsyncIterator["Client"]:
    """Start a cluster of worker processes on this machine; close it after the block."""
    import dask  # noqa: PLC0415 - an extra: only this engine needs it
    from dask.system import CPU_COUNT  # noqa: PLC0415 - see above
    from distributed import Client, LocalCluster, Security  # noqa: PLC0415 - see above

    with (
        tempfile.TemporaryDirectory(prefix="surecall-") as folder,
        dask.config.set(_DASK_CONFIG | {"temporary-directory": folder}),
        _set_variable(_SAFE_PATH_VARIABLE, "1"),
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
            preload="surecall.eval.running.cluster.worker_process",
            silence_logs=_LOG_OFF,
            asynchronous=True,
        )
        with _block_interrupts():
            await cluster
        async with cluster, Client(cluster, **_CLIENT_OPTIONS) as client:
            yield client


@asynccontextmanager
async def connect_cluster(address: str) -> AsyncIterator["Client"]:
    """Connect to a scheduler, with the certificates of Dask's own configuration."""
    from distributed import Client  # noqa: PLC0415 - an extra: only this engine needs it

    _silence_dask_log()
    client = Client(address, **_CLIENT_OPTIONS, timeout=_CONNECT_S)
    try:
        # Dask's own timeout does not cover a peer that accepts the connection and never answers.
        async with asyncio.timeout(_CONNECT_S):
            await client
    except Exception as error:  # noqa: BLE001  # Dask raises anything for a peer that is no scheduler
        await _close_unconnected(client)
        raise ConfigError(_connect_error_message(address, error)) from None
    except asyncio.CancelledError:
        await _close_unconnected(client)
        raise
    async with client:
        yield client


async def _close_unconnected(client: "Client") -> None:
    """Close a client that never connected, without waiting for the peer."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CLOSING_S):
            await client.close(timeout=_CLOSING_S)


def _connect_error_message(address: str, error: Exception) -> str:
    silent = isinstance(error, TimeoutError)
    why = f"no reply for {_CONNECT_S:.0f} s" if silent else str(error)
    return (
        f"no Dask scheduler answers at {address} ({why}). Check the address in --engine, start a "
        "scheduler with `dask scheduler`, or use --engine dask"
    )


async def check_versions(client: "Client", only: str | None = None) -> None:
    """Raise `ConfigError` if a worker's versions of surecall or Python differ from this process."""
    found = await client.get_versions(packages=["surecall"])
    ours = found["client"]["packages"] | {"surecall": __version__}
    for address, theirs in found["workers"].items():
        problem = version_mismatch(ours, theirs["packages"]) if only in {None, address} else ""
        if problem:
            raise ConfigError(f"the worker {address} has {problem}")


def version_mismatch(local: Mapping[str, str | None], remote: Mapping[str, str | None]) -> str:
    """Describe how a worker's versions differ; blank if they match."""
    if remote.get("surecall") is None:
        return f"no surecall: install surecall[dask]=={local['surecall']} there"
    if remote["surecall"] != local["surecall"]:
        return f"surecall {remote['surecall']}, but this process has {local['surecall']}"
    python, other = (_without_patch_version(each.get("python")) for each in (local, remote))
    return "" if python == other else f"Python {other}, but this process has {python}"


def _without_patch_version(version: str | None) -> str:
    return ".".join((version or "?").split(".")[:2])


_CLIENT_OPTIONS: Final[dict[str, Any]] = {"asynchronous": True, "set_as_default": False}


def _silence_dask_log() -> None:
    """Keep Dask's log out of the terminal; errors are reported in one sentence."""
    logging.getLogger("distributed").setLevel(_LOG_OFF)


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Block SIGINT, so that processes started in the block never receive it.

    They inherit the signal mask. A SIGINT to this process is delivered after the block.
    """
    # Starting it unblocks interrupts, so start it first.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _set_variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for processes started in the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
