"""The worker side of a cluster: its payload, and the functions called in each worker process.

    open_worker ─► exchange, repeatedly ─► close_worker

These functions are called from the main process and never raise: Dask would log their arguments.
Trials run in a separate thread, so that the process can answer its scheduler while a scenario
computes. A worker that gets no request for a while closes: the main process is gone, and nobody
would record results that cost money.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import cloudpickle
import msgspec

from surecall.eval.running.cluster.worker_trials import (
    ENCODER,
    MAX_REPORT_INTERVAL_S,
    ORDERS_DECODER,
    OpenClient,
    SealedKey,
    WorkerTrials,
    open_worker_trials,
)
from surecall.eval.running.matrix import EvaluationPlan
from surecall.eval.running.trial_run import RunTrial
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.plugins import MODULE_PREFIX
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.scenarios.work import WORK
from surecall.runtime.event_loop import EventLoopClosed, EventLoopThread
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

# A worker is sent the plan, its scenarios, and how to run them, once, before its first trial.
#
# Built-in scenarios are sent by name. Scenarios from files are sent as code, so workers do not need
# the files; those of installed packages need the package on the worker. The key is never included.

_BUILT_IN_SCENARIOS: Final = {scenario.id: scenario for scenario in (*SCENARIOS, *WORK)}


class WorkerPayload(msgspec.Struct, frozen=True):
    """What a worker needs to run trials."""

    plan: EvaluationPlan
    run_trial: RunTrial
    open_client: OpenClient


class _PackedPayload(msgspec.Struct, frozen=True):
    """A payload for sending: without scenarios, which are pickled one by one."""

    payload: WorkerPayload
    scenarios: tuple[tuple[str, bytes], ...]


def pack_payload(payload: WorkerPayload) -> bytes:
    """Pickle a payload without the key; raise `ConfigError` for a scenario that cannot be sent."""
    plan = payload.plan
    settings = msgspec.structs.replace(plan.settings, api_key=None)
    bare = msgspec.structs.replace(plan, settings=settings, scenarios=())
    with _pickle_files_by_value():
        scenarios = tuple((each.id, _pack_scenario(each)) for each in plan.scenarios)
    parcel = _PackedPayload(msgspec.structs.replace(payload, plan=bare), scenarios)
    return bytes(cloudpickle.dumps(parcel))


def unpack_payload(data: bytes, key: Secret | None) -> WorkerPayload:
    """Unpickle a payload in a worker; raise `ConfigError` if the worker lacks a module."""
    parcel: _PackedPayload = cloudpickle.loads(data)
    plan = parcel.payload.plan
    settings = msgspec.structs.replace(plan.settings, api_key=key)
    scenarios = tuple(_unpack_scenario(name, data) for name, data in parcel.scenarios)
    plan = msgspec.structs.replace(plan, settings=settings, scenarios=scenarios)
    return msgspec.structs.replace(parcel.payload, plan=plan)


def _pack_scenario(scenario: Scenario) -> bytes:
    if _BUILT_IN_SCENARIOS.get(scenario.id) is scenario:
        return b""
    try:
        return bytes(cloudpickle.dumps(scenario))
    except Exception as error:
        raise ConfigError(
            f"scenario {scenario.id!r} cannot be sent to other processes ({error}). "
            "Use --engine local to run it in this one"
        ) from error


def _unpack_scenario(name: str, data: bytes) -> Scenario:
    if not data:
        return _BUILT_IN_SCENARIOS[name]
    try:
        found: Scenario = cloudpickle.loads(data)
    except ImportError as error:
        raise ConfigError(
            f"scenario {name!r} needs a module that the workers lack: {error}"
        ) from error
    return found


@contextmanager
def _pickle_files_by_value() -> Iterator[None]:
    """Pickle definitions of scenario files by value: workers cannot import those modules."""
    modules = [module for name, module in sys.modules.items() if name.startswith(MODULE_PREFIX)]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


# A worker without a request for this long has lost its main process.
ABANDONED_AFTER_S: Final = 12 * MAX_REPORT_INTERVAL_S
# The errors of a call when the worker has closed, or closes meanwhile.
_CLOSED_ERRORS: Final = (EventLoopClosed, CancelledError)
# The workers of this process by evaluation.
_WORKERS: Final[dict[str, "RemoteWorker"]] = {}


async def open_worker(evaluation: str, packed: bytes, key: SealedKey) -> str:
    """Prepare to run the trials of a plan; return an error message, blank on success."""
    try:
        errand = await asyncio.to_thread(unpack_payload, packed, key.secret)
        _WORKERS[evaluation] = await asyncio.to_thread(RemoteWorker, evaluation, errand)
    except ConfigError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  # reported to the main process
        return f"{type(error).__name__}: {error}"
    return ""


async def exchange(evaluation: str, orders: bytes) -> bytes | None:
    """Pass orders to the worker and return its report; None if there is no such worker."""
    worker = _WORKERS.get(evaluation)
    return None if worker is None else await asyncio.to_thread(worker.exchange, orders)


async def halt_worker(evaluation: str) -> None:
    """Start no more trials in a worker."""
    worker = _WORKERS.get(evaluation)
    if worker is not None:
        await asyncio.to_thread(worker.halt)


async def close_worker(evaluation: str) -> None:
    """Close a worker and cancel its running trials."""
    worker = _WORKERS.pop(evaluation, None)
    if worker is not None:
        await asyncio.to_thread(worker.close)


class RemoteWorker:
    """Runs the trials of one evaluation in this process. Its methods block; use threads."""

    def __init__(self, evaluation: str, payload: WorkerPayload) -> None:
        self._evaluation = evaluation
        self._payload = payload
        self._last_request_at = time.monotonic()
        self._trials: WorkerTrials
        self._thread = EventLoopThread(self._open_trials)
        self._thread.call(self._start_watchdog())

    def exchange(self, orders: bytes) -> bytes | None:
        """Pass on orders and return the report; None if the worker has closed."""
        self._last_request_at = time.monotonic()
        with suppress(*_CLOSED_ERRORS):
            news = self._thread.call(self._trials.exchange(ORDERS_DECODER.decode(orders)))
            self._last_request_at = time.monotonic()
            return ENCODER.encode(news)
        return None

    def halt(self) -> None:
        """Start no more trials."""
        with suppress(*_CLOSED_ERRORS):
            self._thread.call(self._trials.halt_in_loop())

    def close(self) -> None:
        """Cancel the running trials and end the thread."""
        self._thread.close()

    @asynccontextmanager
    async def _open_trials(self) -> AsyncIterator[None]:
        """Open the worker's trials inside the block."""
        errand = self._payload
        opened = open_worker_trials(errand.plan, errand.run_trial, errand.open_client)
        async with opened as self._trials:
            yield

    async def _start_watchdog(self) -> None:
        self._watchdog = asyncio.create_task(self._close_when_abandoned())

    async def _close_when_abandoned(self) -> None:
        """Close after a time without requests."""
        while self._remaining_s > 0:  # noqa: ASYNC110  # there is no event for missing requests
            await asyncio.sleep(self._remaining_s)
        _WORKERS.pop(self._evaluation, None)
        self._thread.close()

    @property
    def _remaining_s(self) -> float:
        """Return the seconds until the worker counts as abandoned."""
        return self._last_request_at + ABANDONED_AFTER_S - time.monotonic()
