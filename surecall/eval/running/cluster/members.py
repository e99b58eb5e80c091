"""The members of a cluster: what the engine knows of each worker, and how it talks to it."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from surecall.eval.running.cluster.hands import Hand
from surecall.eval.running.cluster.messages import PACKER, READ_NEWS, News, Orders, SealedKey
from surecall.eval.running.cluster.remote_worker import (
    FORGOTTEN_AFTER_S,
    close_worker,
    exchange,
    halt_worker,
    open_worker,
)
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

if TYPE_CHECKING:
    from distributed import Client

# So many seconds' worth of trials wait at a worker, so that it never waits for us.
_AHEAD_S: Final = 0.5
_MOST_AHEAD: Final = 200
_CLOSING_S: Final = 3.0
# How much a new measurement of its speed counts.
_WEIGHT: Final = 0.5


class Lost(Exception):
    """A worker does not answer any more."""


class Member:
    """One worker: where it is, the trials that it has in hand, and how fast it is."""

    def __init__(self, client: "Client", address: str) -> None:
        self.address = address
        self.hand = Hand()
        self._client = client
        self._rate: float | None = None

    async def open(self, parcel: bytes, key: Secret | None) -> None:
        """Send it what it needs; a `ConfigError` says what it cannot do."""
        if problem := await self._asked(open_worker, parcel, SealedKey(key)):
            raise ConfigError(problem)

    def ahead(self, most: int) -> int:
        """Say how many trials should wait there, beside those under way."""
        if self._rate is None:
            return most
        return max(1, min(round(self._rate * _AHEAD_S), _MOST_AHEAD))

    async def exchange(self, orders: Orders) -> News:
        """Give orders and wait for news; `Lost` if none comes."""
        started = time.monotonic()
        answer = await self._asked(exchange, PACKER.encode(orders))
        if answer is None:
            raise Lost("it has forgotten the evaluation")
        news = READ_NEWS.decode(answer)
        rate = len(news.ended) / max(time.monotonic() - started, 1e-3)
        known = self._rate if self._rate is not None else rate
        self._rate = known + _WEIGHT * (rate - known)
        return news

    async def halt(self) -> None:
        """Tell it to begin nothing more; one that cannot be told is lost anyway."""
        with suppress(Lost):
            await self._asked(halt_worker)

    async def close(self) -> None:
        """Tell it to end everything, and do not wait long for that."""
        with suppress(Lost, TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                await self._asked(close_worker)

    async def _asked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function there. Dask runs it at once, beside its own tasks."""
        try:
            async with asyncio.timeout(FORGOTTEN_AFTER_S):
                told = await self._client.run(
                    function, self._client.id, *arguments, workers=[self.address]
                )
        except asyncio.CancelledError:
            raise
        except Exception as error:  # whatever Dask raises, there is no answer
            raise Lost(str(error)) from error
        return told[self.address]
