"""The owner of a session: one task opens it, keeps it and closes it, and calls are handed to it.

Theory of operation. The SDK's session and its transports are built of task groups, which must be
left in the task that entered them, in the reverse order. A run that is cancelled, a generator that
is collected or a program that ends would leave them elsewhere. So none of them ever enters one:

    runs, in any thread ─ call ─► owner's event loop ─► a task for each call ─► session
                                  owner task: open ─ wait ─ close ─ open again …

The event loop is one of its own, in a thread of its own. So a program that blocks (`run_sync`) or
is interrupted cannot keep the session from being closed, and calls may come from every event loop.

A session that is lost is opened again by the next call, once. A call that was on its way then is
sent again only if its tool may run twice; nobody knows whether it took effect.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from surecall.mcp.connection import Connection, MCPServerError, SessionLost, reason_of
from surecall.mcp.results import value_of
from surecall.mcp.server_tools import ServerTool
from surecall.mcp.targets import Target
from surecall.values.errors import ConfigError, ErrorCode, SurecallError, ToolError
from surecall.values.types import JSON

if TYPE_CHECKING:
    import anyio

CLOSING_S: Final = 8.0
_UNKNOWN: Final = (
    "The tool's server ended, or broke off, before it answered. The call may have taken effect. "
    "It was not made again."
)
_CLOSED: Final = "The tool's server was closed. The tool did not run."
_UNAVAILABLE: Final = (
    "The tool's server has ended and cannot be reached again. The tool did not run."
)
# What a server offers, or why that is not known.
Listing: TypeAlias = tuple[ServerTool, ...] | SurecallError


class Owner:
    """Owns the session with one server. `on_list` is told what the server offers."""

    def __init__(
        self, target: Target, starts_within_s: float, on_list: Callable[[Listing], None]
    ) -> None:
        self._target = target
        self._starts_within_s = starts_within_s
        self._on_list = on_list
        self._news = asyncio.Event()
        self._over = asyncio.Event()
        self._is_stopping = False
        self._connection: Connection | None = None
        self._wanted: asyncio.Future[Connection] | None = None
        self._scope: anyio.CancelScope | None = None

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Be there for calls; at the end the session is closed."""
        task = asyncio.create_task(self._own())
        try:
            yield
        finally:
            self._stop()
            await task

    async def close(self) -> None:
        """Close the session, and take no more calls."""
        self._stop()
        await self._over.wait()

    def _stop(self) -> None:
        self._is_stopping = True
        self._news.set()
        if self._connection is None and self._scope is not None:
            self._scope.cancel()  # it is still being opened

    async def open(self) -> None:
        """Open the session, or say in one sentence why that is not possible."""
        await self._connected()

    async def call(
        self,
        tool: ServerTool,
        arguments: JSON,
        check: Callable[[ServerTool], None],
        *,
        may_repeat: bool,
    ) -> Any:
        """Call a tool, at most once unless it may run twice; `check` it in the session first."""
        for attempt in range(2):
            try:
                connection = await self._connected()
            except (ConfigError, MCPServerError) as problem:
                raise ToolError(_UNAVAILABLE, retry=False) from problem
            check(tool)
            try:
                return value_of(await connection.call(tool.name, arguments))
            except SessionLost:
                if attempt or not may_repeat:
                    break
        raise ToolError(_UNKNOWN, code=ErrorCode.CALL_OUTCOME_UNKNOWN)

    async def _connected(self) -> Connection:
        """Return an open session; without one, have it opened."""
        if self._is_stopping:
            raise ToolError(_CLOSED, retry=False)
        if self._connection is not None and not self._connection.is_lost:
            return self._connection
        if self._wanted is None:
            self._wanted = asyncio.get_running_loop().create_future()
            self._news.set()
        return await asyncio.shield(self._wanted)

    # The owner's task

    async def _own(self) -> None:
        try:
            while not self._is_stopping:
                if self._wanted is None:
                    await self._news.wait()
                    self._news.clear()
                else:
                    self._settle(await self._held())
        finally:
            self._settle(ToolError(_CLOSED, retry=False))
            self._over.set()

    def _settle(self, outcome: Connection | SurecallError | None) -> None:
        """Answer those who wait for a session."""
        wanted = self._wanted
        if outcome is None or wanted is None:
            return
        self._wanted = None
        if isinstance(outcome, Connection):
            wanted.set_result(outcome)
        else:
            wanted.set_exception(outcome)
            wanted.exception()  # they may all have left

    async def _held(self) -> SurecallError | None:
        """Open a session, and close it when it is lost or nobody needs it; return what failed."""
        import anyio  # noqa: PLC0415 - it comes with the extra

        connection = Connection(self._target, self._news.set)
        deadline = anyio.current_time() + self._starts_within_s
        failure: BaseException = TimeoutError()
        try:
            with anyio.CancelScope(deadline=deadline) as self._scope:
                async with connection.opened():
                    self._on_list(await connection.list_tools())
                    self._scope.deadline = math.inf
                    self._connection = connection
                    self._settle(connection)
                    await self._until_over(connection)
                    self._scope.deadline = anyio.current_time() + CLOSING_S
        except Exception as error:  # noqa: BLE001 - of the SDK, or of a library below it
            failure = error
        finally:
            was_open, self._connection = self._connection is connection, None
            connection.is_lost = True
        return None if was_open else self._told(failure, connection)

    async def _until_over(self, connection: Connection) -> None:
        import anyio  # noqa: PLC0415 - it comes with the extra

        async def listed() -> None:
            try:
                self._on_list(await connection.list_tools())
            except Exception as error:  # noqa: BLE001 - as above; calls go on without it
                self._on_list(self._told(error, connection))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.follow, listed)
            while not (self._is_stopping or connection.is_lost):
                await self._news.wait()
                self._news.clear()
            tasks.cancel_scope.cancel()

    def _told(self, failure: BaseException, connection: Connection) -> SurecallError:
        """Say in one sentence why there is no session."""
        while isinstance(failure, BaseExceptionGroup):
            failure = failure.exceptions[0]
        if isinstance(failure, ConfigError):
            return failure
        if isinstance(failure, TimeoutError):
            reason = f"it was not ready within {self._starts_within_s:g} s"
        else:
            reason = reason_of(failure)
        words = connection.last_words
        return MCPServerError(
            f"{self._target} cannot be used: {reason}{f' ({words})' if words else ''}"
        )
