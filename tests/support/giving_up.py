"""A client that gives up on the simulator when it has fallen silent, and never before.

A short limit on silence would also strike where an answer is only late, as on a busy machine.
That a limit strikes is shown by the tests of the transport; here it strikes at the right moment.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

from surecall import Limits, OpenAICompatible
from surecall.runtime.transport import Incoming
from surecall.simulator.server import Simulator
from surecall.simulator.transport_faults import TRANSPORT_FAULTS
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.types import Answer
from tests.support.patience import PATIENCE_S, until_soon

T = TypeVar("T")
PATIENT: Final = Limits(idle_s=PATIENCE_S, total_s=PATIENCE_S)
_LATE: Final = Fault(ErrorCode.TIMEOUT, "Idle timeout: nothing came.", retryable=True)


class GivesUp(OpenAICompatible):
    """Waits for every answer, but not for those that the simulator spoils with one fault."""

    def __init__(self, simulator: Simulator, fault: str) -> None:
        super().__init__(simulator.url, limits=PATIENT)
        self._simulator = simulator
        self._fault = fault

    @property
    def _played(self) -> int:
        return self._simulator.faults[self._fault]

    async def send(self, body: bytes) -> Answer:
        return await self._begun_by(super().send(body))

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[Incoming]:
        before = self._played
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(super().stream(body))
            # Where there will be a head, silence begins later.
            has_head = TRANSPORT_FAULTS[self._fault].sends > 0
            incoming = await (opening if has_head else self._begun_by(opening))
            spoiled = self._played > before
            chunks = _first_alone(incoming.chunks) if spoiled else incoming.chunks
            yield incoming._replace(chunks=chunks)

    async def _begun_by(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the beginning of an answer, unless there will be none."""
        before = self._played
        working = asyncio.create_task(work)
        await until_soon(lambda: working.done() or self._played > before)
        if working.done():
            return await working
        working.cancel()
        await asyncio.wait([working])
        raise ProviderError(_LATE)


async def _first_alone(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield await anext(chunks)
    raise ProviderError(_LATE)
