"""The worker: one in each worker process, for as long as an evaluation needs it.

    open_worker ─► exchange, again and again ─► close_worker

These functions are called from another process, and never raise: Dask would write their arguments
to its log. Trials run in a thread of their own, so that the process answers its scheduler also
while a scenario computes. When nobody has asked for a while the worker ends: whoever started the
evaluation is gone, and nobody would record the results that are being paid for.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from typing import Final

from surecall.eval.running.cluster.messages import PACKER, READ_ORDERS, SealedKey
from surecall.eval.running.cluster.parcel import Errand, unpacked
from surecall.eval.running.cluster.workshop import AT_LAST_S, Workshop, opened_workshop
from surecall.runtime.event_loop_thread import EventLoopClosed, EventLoopThread
from surecall.values.errors import ConfigError

# Nobody asks for so long only if nobody is there.
FORGOTTEN_AFTER_S: Final = 12 * AT_LAST_S
# What a call raises when the worker has ended, or ends meanwhile.
_OVER: Final = (EventLoopClosed, CancelledError)
# The workers of this process, by the evaluation that they work for.
_WORKERS: Final[dict[str, "RemoteWorker"]] = {}


async def open_worker(evaluation: str, parcel: bytes, key: SealedKey) -> str:
    """Prepare to run the trials of a plan; return what is wrong, in a sentence, if anything."""
    try:
        errand = await asyncio.to_thread(unpacked, parcel, key.secret)
        _WORKERS[evaluation] = await asyncio.to_thread(RemoteWorker, evaluation, errand)
    except ConfigError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  # told to whoever started the evaluation
        return f"{type(error).__name__}: {error}"
    return ""


async def exchange(evaluation: str, orders: bytes) -> bytes | None:
    """Take orders and return news, see `Workshop.exchange`; None when there is no such worker."""
    worker = _WORKERS.get(evaluation)
    return None if worker is None else await asyncio.to_thread(worker.exchange, orders)


async def halt_worker(evaluation: str) -> None:
    """Let a worker begin nothing more."""
    worker = _WORKERS.get(evaluation)
    if worker is not None:
        await asyncio.to_thread(worker.halt)


async def close_worker(evaluation: str) -> None:
    """End everything that a worker has under way."""
    worker = _WORKERS.pop(evaluation, None)
    if worker is not None:
        await asyncio.to_thread(worker.close)


class RemoteWorker:
    """Runs the trials of one evaluation in this process. Its methods wait: each needs a thread."""

    def __init__(self, evaluation: str, errand: Errand) -> None:
        self._evaluation = evaluation
        self._errand = errand
        self._asked_at = time.monotonic()
        self._workshop: Workshop
        self._thread = EventLoopThread(self._at_work)
        self._thread.call(self._begin_watch())

    def exchange(self, orders: bytes) -> bytes | None:
        """Take orders and return news; None when it has ended, or ends meanwhile."""
        self._asked_at = time.monotonic()
        with suppress(*_OVER):
            news = self._thread.call(self._workshop.exchange(READ_ORDERS.decode(orders)))
            self._asked_at = time.monotonic()
            return PACKER.encode(news)
        return None

    def halt(self) -> None:
        """Begin nothing more."""
        with suppress(*_OVER):
            self._thread.call(self._workshop.halted())

    def close(self) -> None:
        """End everything."""
        self._thread.close()

    @asynccontextmanager
    async def _at_work(self) -> AsyncIterator[None]:
        errand = self._errand
        opened = opened_workshop(errand.plan, errand.run_trial, errand.open_client)
        async with opened as self._workshop:
            yield

    async def _begin_watch(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """End when nobody asks any more."""
        while self._left_s > 0:  # noqa: ASYNC110  # nothing tells that nobody asks
            await asyncio.sleep(self._left_s)
        _WORKERS.pop(self._evaluation, None)
        self._thread.close()

    @property
    def _left_s(self) -> float:
        return self._asked_at + FORGOTTEN_AFTER_S - time.monotonic()
