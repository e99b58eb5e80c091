"""A session with an MCP server: lists its tools, calls them, and converts results."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from surecall.mcp.server_tools import ServerTool, parse_tool
from surecall.mcp.stdio import MAX_MESSAGE_BYTES, ProcessStatus, stdio_transport
from surecall.mcp.targets import CommandTarget, HttpTarget, InProcessTarget, Target
from surecall.tools.validation import clip_middle
from surecall.values.errors import ConfigError, ErrorCode, SurecallError, ToolError
from surecall.values.types import JSON
from surecall.values.version import __version__

# Conversion of call results.
#
# Structured content is preferred to equivalent text. Base64 data never reaches the model: images,
# audio and files are replaced with short descriptions.

FAILED = "TOOL_FAILED"
_MAX_WORDS = 500
_MAX_LABEL = 200
_SILENT = "The tool failed without an error message."


def result_value(result: JSON) -> Any:
    """Return the value of a result; raise `ToolError` if it is marked as an error."""
    blocks = [block for block in result.get("content") or () if isinstance(block, dict)]
    if result.get("isError"):
        raise ToolError(truncate_error("\n".join(map(_block_text, blocks))) or _SILENT, code=FAILED)
    structured = result.get("structuredContent")
    if structured is None:
        return "\n".join(map(_block_text, blocks)) if blocks else None
    beside = [_block_text(block) for block in blocks if block.get("type") != "text"]
    if beside:
        return {"value": structured, "beside": beside}
    # A mapping with the key "ok" would be mistaken for a result envelope.
    is_envelope = isinstance(structured, dict) and "ok" in structured
    return {"value": structured} if is_envelope else structured


def truncate_error(text: str) -> str:
    """Shorten a server's error message."""
    text = text.strip()
    return text if len(text) <= _MAX_WORDS else f"{text[: _MAX_WORDS - 2]} …"


def _block_text(block: JSON) -> str:
    """Return a content block as text; media become a short description."""
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return f"[{kind}, {_mime_type(block)}, {_decoded_size(data)} bytes, not shown]"
        case {"type": "resource", "resource": {"text": str(text)} as resource}:
            return f"[{_clip_label(resource.get('uri'))}]\n{text}"
        case {"type": "resource", "resource": {"blob": str(data)} as resource}:
            about = (
                f"{_clip_label(resource.get('uri'))}, {_mime_type(resource)}, "
                f"{_decoded_size(data)} bytes"
            )
            return f"[file {about}, not shown]"
        case {"type": "resource_link"}:
            title = block.get("title") or block.get("name") or "a resource"
            return f"[link to {_clip_label(title)}: {_clip_label(block.get('uri'))}]"
        case _:
            return f"[{_clip_label(block.get('type') or 'something')}, not shown]"


def _mime_type(block: JSON) -> str:
    return _clip_label(block.get("mimeType") or "unknown kind")


def _clip_label(text: Any) -> str:
    return clip_middle(str(text), _MAX_LABEL)


def _decoded_size(base64: str) -> int:
    """Return the number of bytes that base64 text encodes."""
    return len(base64.rstrip("=")) * 3 // 4


# The session with a server.
#
# All of this runs in the event loop of the session's owner. Errors of the SDK become `SessionLost`,
# which leaves the outcome of a call unknown, or a `ToolError` with a message for the model.

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
# Limits how often a server's list of tools is requested again.
_PAUSE_S: Final = 0.1
_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_SESSION_HEADER: Final = "mcp-session-id"
# The SDK's messages for a closed session. A server may send the same code with other messages.
_LOST: Final = ("Connection closed", "SSE stream")
# The SDK's message for an HTTP error without one.
_NO_WORDS: Final = "Server returned an error response"
_FORGOTTEN = "The server no longer knows this session. Make the call again in a new one."
_MORE_INPUT = "The server asks for more input before it runs this tool, which is not supported."
_ENDED = "The tool itself failed: it tried to end the program."
_NO_RESULT = "The server's answer is not a valid tool result."


class MCPServerError(SurecallError):
    """A server does not start, cannot be reached, or does not speak MCP."""


class SessionLost(Exception):
    """The session ended before a call was answered."""


class ServerConnection:
    """A session with a server. `on_change` is called when it is lost, see `is_lost`."""

    def __init__(self, target: Target, on_change: Callable[[], None]) -> None:
        self.is_lost = False
        self.tools_changed = asyncio.Event()
        self._target = target
        self._on_news = on_change
        self._process = ProcessStatus(self.lose)
        self._status = 0
        self._is_forgotten = False
        self._client: Client | None = None

    def lose(self) -> None:
        """Mark the session as lost."""
        self.is_lost = True
        self._on_news()

    @property
    def last_output(self) -> str:
        """The last line of a started server's log, or the last HTTP error."""
        refused = f"HTTP {self._status}" if self._status >= _BAD_REQUEST else ""
        return self._process.last_log_line or refused

    def _record_status(self, status: int, *, in_session: bool) -> None:
        """Record the status of an HTTP response."""
        self._status = status
        # As specified by the protocol, the server no longer knows this session.
        self._is_forgotten = self._is_forgotten or (status == _NOT_FOUND and in_session)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Keep the session open inside the block, which must be entered and left in one task."""
        from mcp import Client  # noqa: PLC0415 - importing it takes more than a second
        from mcp_types import Implementation  # noqa: PLC0415 - the same

        self._client = Client(
            self._transport(),
            message_handler=self._handle_message,
            client_info=Implementation(name="surecall", version=__version__),
            cache=None,  # a list is only requested again because it has changed
        )
        async with self._client:
            yield

    def _transport(self) -> Any:
        """Return what the SDK connects to: a transport, or a server in this process."""
        match self._target:
            case CommandTarget() as command:
                return stdio_transport(command, self._process)
            case HttpTarget() as address:
                return _over_http(address, self._record_status)
            case InProcessTarget(server):
                return _checked_server(server)

    async def _handle_message(self, message: "IncomingMessage") -> None:
        from mcp_types import ToolListChangedNotification  # noqa: PLC0415 - it is loaded by now

        if isinstance(message, ToolListChangedNotification):
            self.tools_changed.set()

    @property
    def _active_client(self) -> "Client":
        """The SDK's client; raises `SessionLost` if there is none."""
        if self._client is None:
            raise SessionLost
        return self._client

    async def list_tools(self) -> tuple[ServerTool, ...]:
        """Request all tools, page by page."""
        tools: list[ServerTool] = []
        cursor: str | None = None
        size = 0
        for _ in range(MAX_PAGES):
            page = await self._active_client.list_tools(cursor=cursor)
            size += len(page.model_dump_json())
            if size > MAX_LIST:
                raise MCPServerError(f"its list of tools is larger than {MAX_LIST} bytes")
            tools += [
                parse_tool(tool.model_dump(mode="json", by_alias=True)) for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None:
                return tuple(tools)
        raise MCPServerError(f"its list of tools has more than {MAX_PAGES} pages")

    async def follow(self, on_change: Callable[[], Any]) -> None:
        """Await `on_change` whenever the list of tools changes."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS  # noqa: PLC0415 - see above

        tools = self._active_client.server_capabilities.tools
        if self._active_client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            while True:
                await self.tools_changed.wait()
                self.tools_changed.clear()
                await on_change()
                await asyncio.sleep(_PAUSE_S)
        elif tools is not None and tools.list_changed:
            await self._listen(on_change)

    async def _listen(self, on_change: Callable[[], Any]) -> None:
        """Subscribe to changes of the list of tools, and resubscribe when a subscription ends."""
        from mcp.client.subscriptions import SubscriptionLost  # noqa: PLC0415 - see above
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see above

        wait_s = _FIRST_WAIT_S
        while True:
            try:
                async with self._active_client.listen(tools_list_changed=True) as events:
                    await on_change()  # it may have changed before the subscription
                    async for _ in events:
                        wait_s = _FIRST_WAIT_S
                        await on_change()
                        await asyncio.sleep(_PAUSE_S)
            except SubscriptionLost:
                pass
            except MCPError:
                return  # the server does not support it
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    async def call(self, name: str, arguments: JSON) -> JSON:
        """Call a tool once. Raises `SessionLost`, or `ToolError` with the server's message."""
        from mcp_types import (  # noqa: PLC0415 - see above
            CallToolRequest,
            CallToolRequestParams,
            InputRequiredResult,
        )

        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
        try:
            # Not `call_tool`, which validates the answer with the server's output schema, including
            # its regular expressions, and raises if it does not match.
            result = await self._active_client.session.send_request(request, _result_adapter())
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise self._error_of_call(error) from error
        if isinstance(result, InputRequiredResult):
            raise ToolError(_MORE_INPUT, retry=False)
        answer: JSON = result.model_dump(mode="json", by_alias=True)
        return answer

    def _error_of_call(self, error: BaseException) -> Exception:
        """Return the error to raise for a failed call; mark a lost session as lost."""
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see above
        from pydantic import ValidationError  # noqa: PLC0415 - it comes with mcp

        match error:
            case MCPError():
                return self._protocol_error(error)
            case ValidationError():
                return ToolError(_NO_RESULT, code=FAILED)
            case SystemExit() | KeyboardInterrupt():  # these would end the owner
                return ToolError(_ENDED, code=FAILED)
            case _:
                self.lose()
                return SessionLost()

    def _protocol_error(self, error: "MCPError") -> Exception:
        """Return the error to raise for an error response."""
        from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS  # noqa: PLC0415 - see above

        if error.code == CONNECTION_CLOSED and error.message.startswith(_LOST):
            self.lose()
            return SessionLost()
        # Some servers answer 400 where the protocol requires 404.
        bare = self._status == _BAD_REQUEST and error.message == _NO_WORDS
        if self._is_forgotten or bare:
            self.lose()
            return ToolError(_FORGOTTEN, code=FAILED)
        code = ErrorCode.ARGUMENT_ERROR if error.code == INVALID_PARAMS else FAILED
        return ToolError(truncate_error(error.message) or "The server refused the call.", code=code)


@functools.cache
def _result_adapter() -> "TypeAdapter[Any]":
    """Return the parser of call results; built once."""
    from mcp_types import CallToolResult, InputRequiredResult  # noqa: PLC0415 - see above
    from pydantic import TypeAdapter  # noqa: PLC0415 - it comes with mcp

    return TypeAdapter(CallToolResult | InputRequiredResult)


def _checked_server(server: Any) -> Any:
    """Return a server object of the SDK; raise for any other object."""
    from mcp.server import Server  # noqa: PLC0415 - importing it takes more than a second
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - the same

    if not isinstance(server, Server | MCPServer):
        raise ConfigError(
            "a server object must be a Server or MCPServer of the package mcp, "
            f"not {type(server).__name__}"
        )
    return server


class OnStatus(Protocol):
    """A callback for the status of a response; `in_session` if the request belonged to one."""

    def __call__(self, status: int, *, in_session: bool) -> None:
        """Record the status."""


@asynccontextmanager
async def _over_http(target: HttpTarget, on_status: OnStatus) -> "AsyncIterator[TransportStreams]":
    """Yield the message streams of a server over HTTP; report the status of each response."""
    import httpx2  # noqa: PLC0415 - it comes with mcp
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - see above

    async def on_response(response: "httpx2.Response") -> None:
        request = response.request  # a server may answer 404 to methods that it does not support
        in_session = request.method == "POST" and _SESSION_HEADER in request.headers
        on_status(response.status_code, in_session=in_session)
        # Compression was not requested, and a few compressed bytes can expand a thousandfold.
        response.headers.pop("content-encoding", None)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.stream = _limit_body(response.stream)

    headers = httpx2.Headers(target.headers)
    headers["accept-encoding"] = "identity"
    async with (
        httpx2.AsyncClient(
            headers=headers,
            # The time of an answer is limited by the tool's timeout.
            timeout=httpx2.Timeout(_CONNECTING_S, read=None),
            event_hooks={"response": [on_response]},
        ) as client,
        streamable_http_client(
            target.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams


def _limit_body(body: Any) -> "httpx2.AsyncByteStream":
    """Return the body of a response with a size limit."""
    import httpx2  # noqa: PLC0415 - it comes with mcp

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in body:
                size += len(piece)
                if size > MAX_MESSAGE_BYTES:
                    raise httpx2.StreamError(
                        f"the response has more than {MAX_MESSAGE_BYTES} bytes"
                    )
                yield piece

        async def aclose(self) -> None:
            await body.aclose()

    return Bounded()


def failure_reason(failure: BaseException) -> str:
    """Return why a session failed, using only messages that cannot contain parts of a URL."""
    import httpx2  # noqa: PLC0415 - it comes with mcp
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - see above

    match failure:
        case FileNotFoundError():
            return "no such program or working directory"
        case OSError() if failure.strerror:
            return failure.strerror
        case MCPServerError() | MCPError() | httpx2.TransportError() if str(failure):
            return clip_middle(str(failure))
        case _:
            return type(failure).__name__
