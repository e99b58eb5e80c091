"""`MCPTools`: the tools of one server, for as long as the block lasts.

It is a list of tool definitions that changes when the server's list does. A runner takes the tools
that are there when it is made; a tool that has vanished or changed since is not called.
"""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Self, overload

from surecall.mcp.owner import Listing, Owner
from surecall.mcp.server_tools import Selection, ServerTool, check_names, define
from surecall.mcp.targets import Target
from surecall.runtime.event_loop_thread import EventLoopClosed, EventLoopThread
from surecall.tools.binding import Handler
from surecall.tools.registry import ToolDefinition
from surecall.values.errors import ConfigError, SurecallError, ToolError

_NOT_OPEN = "the MCP server is not open: write `async with mcp_tools(…) as tools:`, or `with`"
_GONE = "The tool's server was closed. The tool did not run."
_VANISHED = "The server does not offer this tool any more. The tool did not run."
_CHANGED = "The server has changed what this tool takes or does since. The tool did not run."


class MCPTools(Sequence[ToolDefinition]):
    """The tools of a server; open inside `async with` or `with`, and gone after it."""

    def __init__(self, target: Target, selection: Selection, starts_within_s: float) -> None:
        self._target = target
        self._selection = selection
        self._starts_within_s = starts_within_s
        self._tools: dict[str, ServerTool] = {}
        self._definitions: dict[str, ToolDefinition] = {}
        self._problem: SurecallError | None = ConfigError(_NOT_OPEN)
        self._has_opened = False
        self._owner: Owner | None = None
        self._thread: EventLoopThread | None = None

    # The block

    async def __aenter__(self) -> Self:
        thread, owner = self._started()
        try:
            await asyncio.wrap_future(thread.submit(owner.open()))
            self._check()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        thread, owner = self._ended()
        try:
            await _to_the_end(thread.submit(owner.close()))
        finally:
            self._close(thread)

    def __enter__(self) -> Self:
        thread, owner = self._started()
        try:
            thread.call(owner.open())
            self._check()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close(self._ended()[0])

    def _started(self) -> tuple[EventLoopThread, Owner]:
        if self._thread is not None:
            raise ConfigError("the MCP server is open already")
        self._owner = Owner(self._target, self._starts_within_s, self._listed)
        # Closing is bounded by itself; to leave before it is done would leave a process behind.
        self._thread = EventLoopThread(self._owner.at_work, closing_s=None)
        return self._thread, self._owner

    def _ended(self) -> tuple[EventLoopThread, Owner]:
        if self._thread is None or self._owner is None:
            raise ConfigError(_NOT_OPEN)
        open_one = self._thread, self._owner
        self._thread = self._owner = None
        return open_one

    def _close(self, thread: EventLoopThread) -> None:
        thread.close()
        self._tools, self._definitions, self._has_opened = {}, {}, False
        self._problem = ConfigError(_NOT_OPEN)

    def _check(self) -> None:
        if self._problem is not None:
            raise self._problem

    # What the server offers

    def _listed(self, listing: Listing) -> None:
        """Take over what the server lists; called in the owner's thread."""
        if isinstance(listing, SurecallError):
            self._problem = listing
            return
        self._tools = {tool.name: tool for tool in listing}
        try:
            if not self._has_opened:  # later on a name may well be gone
                check_names(self._selection, self._tools)
                self._has_opened = True
            self._definitions = define(listing, self._selection, self._handler)
            self._problem = None
        except ConfigError as problem:
            self._problem = ConfigError(f"{self._target}: {problem}")

    def _handler(self, tool: ServerTool) -> Handler:
        async def call(**arguments: Any) -> Any:
            return await self._call(tool, arguments)

        return call

    async def _call(self, tool: ServerTool, arguments: dict[str, Any]) -> Any:
        thread, owner = self._thread, self._owner
        if thread is None or owner is None or not thread.alive:
            raise ToolError(_GONE, retry=False)
        hints = self._selection.believed(tool)
        may_repeat = hints.get("read_only", False) or hints.get("idempotent", False)
        work = owner.call(tool, arguments, self._check_unchanged, may_repeat=may_repeat)
        try:
            return await asyncio.wrap_future(thread.submit(work))
        except EventLoopClosed:
            raise ToolError(_GONE, retry=False) from None

    def _check_unchanged(self, tool: ServerTool) -> None:
        """Refuse a tool that is not what the model was told; another description is no matter."""
        now = self._tools.get(tool.name)
        if now is None:
            raise ToolError(_VANISHED, retry=False)
        if (now.parameters, now.hints) != (tool.parameters, tool.hints):
            raise ToolError(_CHANGED, retry=False)

    # A sequence

    def _current(self) -> tuple[ToolDefinition, ...]:
        self._check()
        return tuple(self._definitions.values())

    def __iter__(self) -> Iterator[ToolDefinition]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    @overload
    def __getitem__(self, index: int) -> ToolDefinition: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ToolDefinition]: ...
    def __getitem__(self, index: int | slice) -> ToolDefinition | Sequence[ToolDefinition]:
        return self._current()[index]

    def __repr__(self) -> str:
        names = ", ".join(one.name for one in self._definitions.values())
        return f"<MCPTools of {self._target}: {names}>"


async def _to_the_end(work: "Future[None]") -> None:
    """Wait for something that must be done, however often the waiting is cancelled."""
    waiting = asyncio.wrap_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
