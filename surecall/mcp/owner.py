"""The owner of a session: one task that opens and closes it, and receives all calls.

The SDK's session and transports consist of task groups, which must be left in the task that entered
them. A cancelled run, a collected generator, or a terminating program would leave them in another
task. So a single owner task enters and leaves them:

    runs, in any thread ─ call ─► owner's event loop ─► a task for each call ─► session
                                  owner task: open ─ wait ─ close ─ open again …

The event loop runs in its own thread, so a blocking or interrupted program cannot prevent the
session from being closed, and calls may come from any event loop.

The next call reopens a lost session, once. A call in progress when the session was lost is sent
again only if its tool may run twice, because its outcome is unknown.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from surecall.mcp.server_connection import (
    MCPServerError,
    ServerConnection,
    SessionLost,
    failure_reason,
    result_value,
)
from surecall.mcp.server_tools import ServerTool
from surecall.mcp.targets import Target
from surecall.values.errors import ConfigError, ErrorCode, SurecallError, ToolError
from surecall.values.types import JSON

if TYPE_CHECKING:
    import anyio

CLOSING_S: Final = 8.0
_UNKNOWN: Final = (
    "The tool's server ended or disconnected before it answered. The call may have taken effect. "
    "It was not made again."
)
_CLOSED: Final = "The tool's server was closed. The tool did not run."
_UNAVAILABLE: Final = (
    "The tool's server has ended and cannot be reached again. The tool did not run."
)
# The tools of a server, or the error for which they are unknown.
Listing: TypeAlias = tuple[ServerTool, ...] | SurecallError


class SessionOwner:
    """Owns the session with one server, and passes its tools to `on_list`."""

    def __init__(
        self, target: Target, starts_within_s: float, on_list: Callable[[Listing], None]
    ) -> None:
        self._target = target
        self._starts_within_s = starts_within_s
        self._on_list = on_list
        self._wake = asyncio.Event()
        self._over = asyncio.Event()
        self._is_stopping = False
        self._connection: ServerConnection | None = None
        self._pending: asyncio.Future[ServerConnection] | None = None
        self._scope: anyio.CancelScope | None = None

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Accept calls inside the block; close the session at its end."""
        task = asyncio.create_task(self._manage_session())
        try:
            yield
        finally:
            self._stop()
            await task

    async def close(self) -> None:
        """Close the session and refuse further calls."""
        self._stop()
        await self._over.wait()

    def _stop(self) -> None:
        """Tell the owner to close the session."""
        self._is_stopping = True
        self._wake.set()
        if self._connection is None and self._scope is not None:
            self._scope.cancel()  # it is still being opened

    async def open(self) -> None:
        """Open the session, or raise `MCPServerError`."""
        await self._ensure_connected()

    async def call(
        self,
        tool: ServerTool,
        arguments: JSON,
        check: Callable[[ServerTool], None],
        *,
        may_repeat: bool,
    ) -> Any:
        """Call a tool, at most once unless `may_repeat`, after `check` in the current session."""
        for attempt in range(2):
            try:
                connection = await self._ensure_connected()
            except (ConfigError, MCPServerError) as problem:
                raise ToolError(_UNAVAILABLE, retry=False) from problem
            check(tool)
            try:
                return result_value(await connection.call(tool.name, arguments))
            except SessionLost:
                if attempt or not may_repeat:
                    break
        raise ToolError(_UNKNOWN, code=ErrorCode.CALL_OUTCOME_UNKNOWN)

    async def _ensure_connected(self) -> ServerConnection:
        """Return an open session; if there is none, wait until the owner has opened one."""
        if self._is_stopping:
            raise ToolError(_CLOSED, retry=False)
        if self._connection is not None and not self._connection.is_lost:
            return self._connection
        if self._pending is None:
            self._pending = asyncio.get_running_loop().create_future()
            self._wake.set()
        return await asyncio.shield(self._pending)

    # The owner's task

    async def _manage_session(self) -> None:
        """Open the session whenever a call needs it, until stopped."""
        try:
            while not self._is_stopping:
                if self._pending is None:
                    await self._wake.wait()
                    self._wake.clear()
                else:
                    self._resolve_waiters(await self._hold_session())
        finally:
            self._resolve_waiters(ToolError(_CLOSED, retry=False))
            self._over.set()

    def _resolve_waiters(self, outcome: ServerConnection | SurecallError | None) -> None:
        """Pass a session or an error to the callers that wait for one."""
        pending = self._pending
        if outcome is None or pending is None:
            return
        self._pending = None
        if isinstance(outcome, ServerConnection):
            pending.set_result(outcome)
        else:
            pending.set_exception(outcome)
            pending.exception()  # retrieved, because all callers may have been cancelled

    async def _hold_session(self) -> SurecallError | None:
        """Open a session, close it when it is lost or stopped, and return why it did not open."""
        import anyio  # noqa: PLC0415 - it comes with the extra

        connection = ServerConnection(self._target, self._wake.set)
        deadline = anyio.current_time() + self._starts_within_s
        failure: BaseException = TimeoutError()
        try:
            with anyio.CancelScope(deadline=deadline) as self._scope:
                async with connection.open():
                    self._on_list(await connection.list_tools())
                    self._scope.deadline = math.inf
                    self._connection = connection
                    self._resolve_waiters(connection)
                    await self._wait_until_over(connection)
                    self._scope.deadline = anyio.current_time() + CLOSING_S
        except Exception as error:  # noqa: BLE001 - of the SDK, or of a library below it
            failure = error
        finally:
            was_open, self._connection = self._connection is connection, None
            connection.is_lost = True
        return None if was_open else self._failure_error(failure, connection)

    async def _wait_until_over(self, connection: ServerConnection) -> None:
        """Follow the server's list of tools until the session is lost or stopped."""
        import anyio  # noqa: PLC0415 - it comes with the extra

        async def update_list() -> None:
            try:
                self._on_list(await connection.list_tools())
            except Exception as error:  # noqa: BLE001 - as above; calls still work
                self._on_list(self._failure_error(error, connection))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.follow, update_list)
            while not (self._is_stopping or connection.is_lost):
                await self._wake.wait()
                self._wake.clear()
            tasks.cancel_scope.cancel()

    def _failure_error(self, failure: BaseException, connection: ServerConnection) -> SurecallError:
        """Return the error for a session that failed."""
        while isinstance(failure, BaseExceptionGroup):
            failure = failure.exceptions[0]
        if isinstance(failure, ConfigError):
            return failure
        if isinstance(failure, TimeoutError):
            reason = f"it was not ready within {self._starts_within_s:g} s"
        else:
            reason = failure_reason(failure)
        words = connection.last_output
        return MCPServerError(
            f"{self._target} cannot be used: {reason}{f' ({words})' if words else ''}"
        )
