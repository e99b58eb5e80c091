"""`MCPTools`: the tools of one server, while its block is open.

It is a sequence of tool definitions that follows the server's list. A runner uses the tools that
exist when it is created; a tool that was removed or changed since is not called.
"""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Self, overload

from surecall.mcp.owner import Listing, SessionOwner
from surecall.mcp.server_tools import ServerTool, ToolSelection, check_names, define_tools
from surecall.mcp.targets import Target
from surecall.runtime.event_loop import EventLoopClosed, EventLoopThread
from surecall.tools.binding import Handler
from surecall.tools.registry import ToolDefinition
from surecall.values.errors import ConfigError, SurecallError, ToolError

_NOT_OPEN = "the MCP server is not open: write `async with mcp_tools(…) as tools:`, or `with`"
_GONE = "The tool's server was closed. The tool did not run."
_VANISHED = "The server no longer has this tool. The tool did not run."
_CHANGED = "The server has changed this tool's parameters or hints. The tool did not run."


class MCPTools(Sequence[ToolDefinition]):
    """The tools of a server; available inside `async with` or `with`."""

    def __init__(self, target: Target, selection: ToolSelection, starts_within_s: float) -> None:
        self._target = target
        self._selection = selection
        self._starts_within_s = starts_within_s
        self._tools: dict[str, ServerTool] = {}
        self._definitions: dict[str, ToolDefinition] = {}
        self._problem: SurecallError | None = ConfigError(_NOT_OPEN)
        self._has_opened = False
        self._owner: SessionOwner | None = None
        self._thread: EventLoopThread | None = None

    # The block

    async def __aenter__(self) -> Self:
        thread, owner = self._start()
        try:
            await asyncio.wrap_future(thread.submit(owner.open()))
            self._raise_problem()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        thread, owner = self._detach()
        try:
            await _wait_until_done(thread.submit(owner.close()))
        finally:
            self._close(thread)

    def __enter__(self) -> Self:
        thread, owner = self._start()
        try:
            thread.call(owner.open())
            self._raise_problem()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close(self._detach()[0])

    def _start(self) -> tuple[EventLoopThread, SessionOwner]:
        """Start the thread that owns the session; raise if the server is open already."""
        if self._thread is not None:
            raise ConfigError("the MCP server is open already")
        self._owner = SessionOwner(self._target, self._starts_within_s, self._update_tools)
        # The owner limits the time of closing; returning earlier would leave a process behind.
        self._thread = EventLoopThread(self._owner.serve, closing_s=None)
        return self._thread, self._owner

    def _detach(self) -> tuple[EventLoopThread, SessionOwner]:
        """Return the thread and the owner, which the caller must close."""
        if self._thread is None or self._owner is None:
            raise ConfigError(_NOT_OPEN)
        open_one = self._thread, self._owner
        self._thread = self._owner = None
        return open_one

    def _close(self, thread: EventLoopThread) -> None:
        """End the thread and forget the tools."""
        thread.close()
        self._tools, self._definitions, self._has_opened = {}, {}, False
        self._problem = ConfigError(_NOT_OPEN)

    def _raise_problem(self) -> None:
        """Raise the reason why there are no tools, if any."""
        if self._problem is not None:
            raise self._problem

    # The server's list

    def _update_tools(self, listing: Listing) -> None:
        """Update the definitions from the server's list. Called in the owner's thread."""
        if isinstance(listing, SurecallError):
            self._problem = listing
            return
        self._tools = {tool.name: tool for tool in listing}
        try:
            if not self._has_opened:  # later, tools may have been removed
                check_names(self._selection, self._tools)
                self._has_opened = True
            self._definitions = define_tools(listing, self._selection, self._build_handler)
            self._problem = None
        except ConfigError as problem:
            self._problem = ConfigError(f"{self._target}: {problem}")

    def _build_handler(self, tool: ServerTool) -> Handler:
        """Return a function that calls a tool."""

        async def call(**arguments: Any) -> Any:
            return await self._call(tool, arguments)

        return call

    async def _call(self, tool: ServerTool, arguments: dict[str, Any]) -> Any:
        """Call a tool from any event loop."""
        thread, owner = self._thread, self._owner
        if thread is None or owner is None or not thread.is_alive:
            raise ToolError(_GONE, retry=False)
        hints = self._selection.effective_hints(tool)
        may_repeat = hints.get("read_only", False) or hints.get("idempotent", False)
        work = owner.call(tool, arguments, self._check_unchanged, may_repeat=may_repeat)
        try:
            return await asyncio.wrap_future(thread.submit(work))
        except EventLoopClosed:
            raise ToolError(_GONE, retry=False) from None

    def _check_unchanged(self, tool: ServerTool) -> None:
        """Raise if a tool was removed or its parameters or hints have changed."""
        now = self._tools.get(tool.name)
        if now is None:
            raise ToolError(_VANISHED, retry=False)
        if (now.parameters, now.hints) != (tool.parameters, tool.hints):
            raise ToolError(_CHANGED, retry=False)

    # A sequence

    def _current_tools(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions; raise if there are none."""
        self._raise_problem()
        return tuple(self._definitions.values())

    def __iter__(self) -> Iterator[ToolDefinition]:
        return iter(self._current_tools())

    def __len__(self) -> int:
        return len(self._current_tools())

    @overload
    def __getitem__(self, index: int) -> ToolDefinition: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ToolDefinition]: ...
    def __getitem__(self, index: int | slice) -> ToolDefinition | Sequence[ToolDefinition]:
        return self._current_tools()[index]

    def __repr__(self) -> str:
        names = ", ".join(one.name for one in self._definitions.values())
        return f"<MCPTools of {self._target}: {names}>"


async def _wait_until_done(work: "Future[None]") -> None:
    """Wait until the work is done, even if cancelled; then raise the cancellation."""
    waiting = asyncio.wrap_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
