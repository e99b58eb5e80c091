"""One session with a server: opened, asked what it offers, called, closed.

Everything here runs in the event loop of the session's owner. What the SDK raises becomes one of
two things: `SessionLost`, after which nobody knows what came of a call, or words for the model.
"""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from surecall.mcp.results import FAILED, bounded
from surecall.mcp.server_tools import ServerTool, read_tool
from surecall.mcp.stdio import MAX_LINE, ServerProcess, spoken_to
from surecall.mcp.targets import Address, Command, InProcess, Target
from surecall.tools.validation import clipped
from surecall.values.errors import ConfigError, ErrorCode, SurecallError, ToolError
from surecall.values.types import JSON
from surecall.values.version import __version__

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp.client import IncomingMessage
    from mcp.client._transport import TransportStreams
    from mcp.shared.exceptions import MCPError
    from pydantic import TypeAdapter

MAX_PAGES: Final = 100
MAX_LIST: Final = 4 * 1024 * 1024
_CONNECTING_S: Final = 30.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
# A server that tells of changes without end is asked ten times a second.
_PAUSE_S: Final = 0.1
_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_SESSION_HEADER: Final = "mcp-session-id"
# The SDK's own words for a session that is over. A server may send the same code with others.
_LOST: Final = ("Connection closed", "SSE stream")
# And for an HTTP error that says nothing of its own.
_NO_WORDS: Final = "Server returned an error response"
_FORGOTTEN = "The server does not know this session any more. Make the call again in a new one."
_MORE_INPUT = "The server asks for more input before it runs this tool, which is not supported."
_ENDED = "The tool itself failed: it tried to end the program."
_NO_RESULT = "The server answered with something that is not the result of a call."


class MCPServerError(SurecallError):
    """A server does not start, cannot be reached, or does not speak MCP."""


class SessionLost(Exception):
    """The session ended before a call was answered."""


class Connection:
    """A session; `is_lost` once it is known to be over. `on_news` is called when something is."""

    def __init__(self, target: Target, on_news: Callable[[], None]) -> None:
        self.is_lost = False
        self.changed = asyncio.Event()
        self._target = target
        self._on_news = on_news
        self._process = ServerProcess(self.lose)
        self._status = 0
        self._is_forgotten = False
        self._client: Client | None = None

    def lose(self) -> None:
        """Take note that the session is over."""
        self.is_lost = True
        self._on_news()

    @property
    def last_words(self) -> str:
        """What a server that was started wrote last to its log, or the last HTTP error."""
        refused = f"HTTP {self._status}" if self._status >= _BAD_REQUEST else ""
        return self._process.last_words or refused

    def _answered(self, status: int, *, in_session: bool) -> None:
        """Take note of the status of an HTTP response."""
        self._status = status
        # By the protocol: the server does not know this session any more.
        self._is_forgotten = self._is_forgotten or (status == _NOT_FOUND and in_session)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Hold the session open; to be entered and left in one task."""
        from mcp import Client  # noqa: PLC0415 - importing it takes more than a second
        from mcp_types import Implementation  # noqa: PLC0415 - the same

        self._client = Client(
            self._door(),
            message_handler=self._noticed,
            client_info=Implementation(name="surecall", version=__version__),
            cache=None,  # a list that is asked for anew has changed
        )
        async with self._client:
            yield

    def _door(self) -> Any:
        match self._target:
            case Command() as command:
                return spoken_to(command, self._process)
            case Address() as address:
                return _over_http(address, self._answered)
            case InProcess(server):
                return _checked_server(server)

    async def _noticed(self, message: "IncomingMessage") -> None:
        from mcp_types import ToolListChangedNotification  # noqa: PLC0415 - it is loaded by now

        if isinstance(message, ToolListChangedNotification):
            self.changed.set()

    @property
    def _open(self) -> "Client":
        if self._client is None:
            raise SessionLost
        return self._client

    async def list_tools(self) -> tuple[ServerTool, ...]:
        """Ask for all tools, page by page."""
        tools: list[ServerTool] = []
        cursor: str | None = None
        size = 0
        for _ in range(MAX_PAGES):
            page = await self._open.list_tools(cursor=cursor)
            size += len(page.model_dump_json())
            if size > MAX_LIST:
                raise MCPServerError(f"its list of tools is larger than {MAX_LIST} bytes")
            tools += [read_tool(tool.model_dump(mode="json", by_alias=True)) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return tuple(tools)
        raise MCPServerError(f"its list of tools has more than {MAX_PAGES} pages")

    async def follow(self, on_change: Callable[[], Any]) -> None:
        """Await `on_change` whenever the list of tools changes."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # noqa: PLC0415 - see above

        tools = self._open.server_capabilities.tools
        if self._open.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            while True:
                await self.changed.wait()
                self.changed.clear()
                await on_change()
                await asyncio.sleep(_PAUSE_S)
        elif tools is not None and tools.list_changed:
            await self._listen(on_change)

    async def _listen(self, on_change: Callable[[], Any]) -> None:
        """Listen to a server that tells those who ask; ask again when it falls silent."""
        from mcp.client.subscriptions import SubscriptionLost  # noqa: PLC0415 - see above
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see above

        wait_s = _FIRST_WAIT_S
        while True:
            try:
                async with self._open.listen(tools_list_changed=True) as events:
                    await on_change()  # it may have changed before we listened
                    async for _ in events:
                        wait_s = _FIRST_WAIT_S
                        await on_change()
                        await asyncio.sleep(_PAUSE_S)
            except SubscriptionLost:
                pass
            except MCPError:
                return  # it does not tell
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    async def call(self, name: str, arguments: JSON) -> JSON:
        """Call a tool, once. Raises `SessionLost`, or a `ToolError` with the server's words."""
        from mcp_types import (  # noqa: PLC0415 - see above
            CallToolRequest,
            CallToolRequestParams,
            InputRequiredResult,
        )

        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
        try:
            # Not `call_tool`, which runs the server's own regular expressions over its answer, and
            # withholds one that does not fit.
            result = await self._open.session.send_request(request, _results())
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise self._failure(error) from error
        if isinstance(result, InputRequiredResult):
            raise ToolError(_MORE_INPUT, retry=False)
        answer: JSON = result.model_dump(mode="json", by_alias=True)
        return answer

    def _failure(self, error: BaseException) -> Exception:
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see above
        from pydantic import ValidationError  # noqa: PLC0415 - it comes with mcp

        match error:
            case MCPError():
                return self._refusal(error)
            case ValidationError():
                return ToolError(_NO_RESULT, code=FAILED)
            case SystemExit() | KeyboardInterrupt():  # these would end the owner
                return ToolError(_ENDED, code=FAILED)
            case _:
                self.lose()
                return SessionLost()

    def _refusal(self, error: "MCPError") -> Exception:
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS  # noqa: PLC0415 - see above

        if error.code == CONNECTION_CLOSED and error.message.startswith(_LOST):
            self.lose()
            return SessionLost()
        # Some servers answer 400 where the protocol wants 404.
        bare = self._status == _BAD_REQUEST and error.message == _NO_WORDS
        if self._is_forgotten or bare:
            self.lose()
            return ToolError(_FORGOTTEN, code=FAILED)
        code = ErrorCode.ARGUMENT_ERROR if error.code == INVALID_PARAMS else FAILED
        return ToolError(bounded(error.message) or "The server refused the call.", code=code)


@functools.cache
def _results() -> "TypeAdapter[Any]":
    from mcp_types import CallToolResult, InputRequiredResult  # noqa: PLC0415 - see above
    from pydantic import TypeAdapter  # noqa: PLC0415 - it comes with mcp

    return TypeAdapter(CallToolResult | InputRequiredResult)


def _checked_server(server: Any) -> Any:
    from mcp.server import Server  # noqa: PLC0415 - importing it takes more than a second
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - the same

    if not isinstance(server, Server | MCPServer):
        raise ConfigError(
            f"an MCP server in this process is a Server or MCPServer of the package mcp, "
            f"not {type(server).__name__}"
        )
    return server


class Answered(Protocol):
    """Hears the status of a response, and whether it belongs to a session."""

    def __call__(self, status: int, *, in_session: bool) -> None:
        """Take note of it."""


@asynccontextmanager
async def _over_http(address: Address, answered: Answered) -> "AsyncIterator[TransportStreams]":
    import httpx2  # noqa: PLC0415 - it comes with mcp
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - see above

    async def heard(response: "httpx2.Response") -> None:
        request = response.request  # of others than POST a server may know nothing
        in_session = request.method == "POST" and _SESSION_HEADER in request.headers
        answered(response.status_code, in_session=in_session)
        # Nothing compressed was asked for: a few bytes of it can be many.
        response.headers.pop("content-encoding", None)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _bounded(response.stream)

    headers = httpx2.Headers(address.headers)
    headers["accept-encoding"] = "identity"
    async with (
        httpx2.AsyncClient(
            headers=headers,
            # How long an answer may take is for the tool's own limit to say.
            timeout=httpx2.Timeout(_CONNECTING_S, read=None),
            event_hooks={"response": [heard]},
        ) as client,
        streamable_http_client(
            address.url, http_client=client, max_sse_event_size=MAX_LINE
        ) as streams,
    ):
        yield streams


def _bounded(body: Any) -> "httpx2.AsyncByteStream":
    """Return the body of a response, which is read as a whole, up to a limit."""
    import httpx2  # noqa: PLC0415 - it comes with mcp

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in body:
                size += len(piece)
                if size > MAX_LINE:
                    raise httpx2.StreamError(f"it has more than {MAX_LINE} bytes")
                yield piece

        async def aclose(self) -> None:
            await body.aclose()

    return Bounded()


def reason_of(failure: BaseException) -> str:
    """Say why a session failed. Of foreign words only those that hold no part of an address."""
    import httpx2  # noqa: PLC0415 - it comes with mcp
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see above

    match failure:
        case FileNotFoundError():
            return "there is no such program, or no such working directory"
        case OSError() if failure.strerror:
            return failure.strerror
        case MCPServerError() | MCPError() | httpx2.TransportError() if str(failure):
            return clipped(str(failure))
        case _:
            return type(failure).__name__
