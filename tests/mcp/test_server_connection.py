"""Tests of `surecall.mcp.server_connection`."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)
from starlette.middleware.gzip import GZipMiddleware

from surecall.mcp import MCPServerError, mcp_tools, server_connection
from surecall.mcp.server_connection import failure_reason, result_value
from surecall.values.errors import ErrorCode, ToolError
from surecall.values.types import JSON
from tests.support.mcp_servers import called, over_http

# One session: odd servers, endless lists, and what is said of what the SDK raises


Lister = Callable[[str | None], ListToolsResult]
Answer = Callable[[], CallToolResult | InputRequiredResult]
ONE = Tool(name="one", input_schema={"type": "object"})


def odd(lister: Lister | None = None, answer: Answer | None = None) -> Server[Any]:
    """Return a server that lists and answers as it is told."""

    async def on_list(_: Any, params: Any) -> ListToolsResult:
        return lister(params and params.cursor) if lister else ListToolsResult(tools=[ONE])

    async def on_call(_: Any, __: Any) -> CallToolResult | InputRequiredResult:
        return answer() if answer else CallToolResult(content=[])

    return Server("odd", on_list_tools=on_list, on_call_tool=on_call)


def told(answer: Answer) -> ToolError:
    with mcp_tools(odd(answer=answer)) as tools, pytest.raises(ToolError) as raised:
        asyncio.run(called(tools, "one"))
    return raised.value


def raising(error: BaseException) -> Answer:
    def answer() -> CallToolResult:
        raise error

    return answer


def test_the_list_is_read_to_its_last_page_and_no_further_than_a_limit() -> None:
    def paged(cursor: str | None) -> ListToolsResult:
        number = int(cursor or 0)
        tool = Tool(name=f"t{number}", input_schema={"type": "object"})
        return ListToolsResult(tools=[tool], next_cursor=str(number + 1) if number < 4 else None)

    def endless(_: str | None) -> ListToolsResult:
        return ListToolsResult(tools=[ONE], next_cursor="1")

    with mcp_tools(odd(paged)) as tools:
        assert [tool.name for tool in tools] == ["t0", "t1", "t2", "t3", "t4"]
    with pytest.raises(MCPServerError, match="more than 100 pages"), mcp_tools(odd(endless)):
        pass


def test_a_list_that_is_too_large_is_refused() -> None:
    tools = [Tool(name="t", description="x" * 9_999, input_schema={"type": "object"})] * 500
    server = odd(lambda _: ListToolsResult(tools=tools))
    with pytest.raises(MCPServerError, match="larger than 4194304 bytes"), mcp_tools(server):
        pass


def test_a_server_without_tools_has_none() -> None:
    with mcp_tools(odd(lambda _: ListToolsResult(tools=[]))) as tools:
        assert list(tools) == []


@pytest.mark.parametrize(
    ("error", "words", "code"),
    [
        (MCPError(INVALID_PARAMS, "b is missing"), "b is missing", ErrorCode.ARGUMENT_ERROR),
        (MCPError(INTERNAL_ERROR, "no disk"), "no disk", "TOOL_FAILED"),
        (MCPError(-32000, "an error of its own"), "an error of its own", "TOOL_FAILED"),
        (MCPError(INTERNAL_ERROR, " "), "The server refused the call.", "TOOL_FAILED"),
        (MCPError(INTERNAL_ERROR, "x" * 9_999), f"{'x' * 498} …", "TOOL_FAILED"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_server(
    error: MCPError, words: str, code: str
) -> None:
    problem = told(raising(error))

    assert (str(problem), problem.code) == (words, code)


def test_a_tool_that_tries_to_end_the_program_ends_nothing() -> None:
    with mcp_tools(odd(answer=raising(SystemExit(3)))) as tools:
        for _ in range(2):
            with pytest.raises(ToolError, match="tried to end the program"):
                asyncio.run(called(tools, "one"))


def test_a_server_that_wants_to_know_more_is_told_that_nobody_answers() -> None:
    problem = told(lambda: InputRequiredResult(request_state="state"))

    assert str(problem).startswith("The server asks for more input")
    assert not problem.retry


def test_a_result_that_does_not_fit_the_schema_of_the_server_is_not_withheld() -> None:
    tool = Tool(name="one", input_schema={"type": "object"}, output_schema={"type": "object"})
    text = TextContent(type="text", text="done")
    server = odd(lambda _: ListToolsResult(tools=[tool]), lambda: CallToolResult(content=[text]))
    with mcp_tools(server) as tools:
        assert asyncio.run(called(tools, "one")) == "done"


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (MCPError(0, "no\nsuch version"), "no such version"),
        (httpx2.ConnectError("nobody there"), "nobody there"),
        (httpx2.ConnectError(""), "ConnectError"),
        (RuntimeError("https://host/?key=hunter2"), "RuntimeError"),
    ],
)
def test_of_the_words_of_others_only_harmless_ones_are_shown(
    failure: Exception, reason: str
) -> None:
    assert failure_reason(failure) == reason


class Blown:
    """A server over HTTP whose answers are JSON, and compressed though nobody wants that."""

    def __init__(self, *, packed: bool) -> None:
        self._packed = packed

    def streamable_http_app(self) -> Any:
        """Return the application."""
        server = MCPServer("blown", log_level="CRITICAL")

        @server.tool()
        def blow(size: int) -> str:
            """Blow something up."""
            return "x" * size

        application = server.streamable_http_app(json_response=True)
        return GZipped(application) if self._packed else application


class GZipped:
    """An ASGI application that takes every client for one that unpacks."""

    def __init__(self, application: Any) -> None:
        self._application = GZipMiddleware(application, minimum_size=1)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] == "http":
            scope = scope | {"headers": [(b"accept-encoding", b"gzip"), *scope["headers"]]}
        await self._application(scope, receive, send)


def test_an_answer_over_http_is_read_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_connection, "MAX_MESSAGE_BYTES", 10_000)
    server: Any = Blown(packed=False)
    with over_http(server) as url, mcp_tools(url) as tools:
        assert asyncio.run(called(tools, "blow", size=1_000)) == {"result": "x" * 1_000}
        with pytest.raises(ToolError, match="the response has more than 10000 bytes"):
            asyncio.run(called(tools, "blow", size=20_000))
        assert asyncio.run(called(tools, "blow", size=1)) == {"result": "x"}
    assert "Error parsing JSON response" in caplog.text


def test_what_is_compressed_though_nobody_asked_is_not_unpacked() -> None:
    server: Any = Blown(packed=True)
    with over_http(server) as url, pytest.raises(MCPServerError), mcp_tools(url):
        raise AssertionError


# What a server answers, as a value or as a failure


DATA = base64.b64encode(bytes(range(100))).decode()
TEXT = {"type": "text", "text": "one"}
IMAGE = {"type": "image", "data": DATA, "mimeType": "image/png"}


def result(*content: JSON, **fields: Any) -> JSON:
    return {"content": list(content), "isError": False, **fields}


def test_structured_content_is_preferred_to_the_text_that_says_the_same() -> None:
    assert result_value(result(TEXT, structuredContent={"n": 1})) == {"n": 1}
    assert result_value(result(TEXT, structuredContent=[1])) == [1]


def test_texts_are_joined_and_nothing_is_none() -> None:
    assert result_value(result(TEXT, TEXT)) == "one\none"
    assert result_value(result()) is None
    assert result_value({}) is None


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (IMAGE, "[image, image/png, 100 bytes, not shown]"),
        ({"type": "audio", "data": DATA}, "[audio, unknown kind, 100 bytes, not shown]"),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": DATA}},
            "[file file:///a, unknown kind, 100 bytes, not shown]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "text": "words"}},
            "[file:///a]\nwords",
        ),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            "[link to a: file:///a]",
        ),
        ({"type": "hologram", "data": DATA}, "[hologram, not shown]"),
        ({"data": DATA}, "[something, not shown]"),
    ],
)
def test_what_is_no_text_is_described(block: JSON, words: str) -> None:
    assert result_value(result(block)) == words


def test_a_label_cannot_be_long_nor_of_several_lines() -> None:
    link = {"type": "resource_link", "uri": "u" * 10_000, "name": "a\nb"}

    words = result_value(result(link))

    assert words.startswith("[link to a b: uuu")
    assert len(words) < 450


def test_an_image_beside_structured_content_is_described_beside_it() -> None:
    assert result_value(result(TEXT, IMAGE, structuredContent={"n": 1})) == {
        "value": {"n": 1},
        "beside": ["[image, image/png, 100 bytes, not shown]"],
    }


def test_a_field_called_ok_makes_no_envelope() -> None:
    assert result_value(result(structuredContent={"ok": 1})) == {"value": {"ok": 1}}


def test_an_error_is_told_in_the_words_of_the_server_cut_to_length() -> None:
    with pytest.raises(ToolError, match=r"^one$") as raised:
        result_value(result(TEXT, isError=True))
    assert raised.value.code == "TOOL_FAILED"
    with pytest.raises(ToolError, match=r"^x{498} …$"):
        result_value(result({"type": "text", "text": "x" * 10_000}, isError=True))
    with pytest.raises(ToolError, match="without an error message"):
        result_value(result(isError=True, structuredContent={"n": 1}))
