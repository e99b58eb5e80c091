"""Demo: run the same malformed replies through a plain loop, the OpenAI SDK, and surecall."""

import asyncio
import gzip
import http.client
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from surecall.core.outcome import RunResult
from surecall.runtime.runner import ToolLoopRunner
from surecall.simulator.demo_tasks import (
    DemoCase,
    DemoTask,
    EndpointError,
    Judgment,
    NoAnswer,
    ToolFunctions,
    ToolRecorder,
    describe_tools,
    judge_run,
)
from surecall.simulator.server import Simulator
from surecall.values.trace import Trace
from surecall.values.types import JSON

# A handwritten loop over HTTP with the standard library, following OpenAI's documentation.
#
# It handles common errors: it retries when the endpoint is busy or the connection breaks, and sends
# call errors (unknown tool, invalid JSON, wrong arguments) back to the model.

MAX_TURNS: Final = 8
_PATH: Final = "/v1/chat/completions"
_ATTEMPTS: Final = 3
_WAIT_S: Final = 0.5
_TIMEOUT_S: Final = 60.0
_FIRST_ERROR_STATUS, _TOO_MANY_REQUESTS, _FIRST_SERVER_ERROR = 400, 429, 500


def converse(ask: Callable[[list[JSON]], JSON], task: DemoTask, tools: ToolFunctions) -> str:
    """Request replies, run their calls, and send the results, until a reply has no calls."""
    by_name = {function.__name__: function for function in tools}
    messages: list[JSON] = [
        {"role": "system", "content": task.system},
        {"role": "user", "content": task.prompt},
    ]
    for _ in range(MAX_TURNS):
        message = ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message.get("content") or "")
        for call in message["tool_calls"]:
            content = _run_call(call["function"], by_name)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    raise NoAnswer(f"no answer after {MAX_TURNS} turns")


def _run_call(function: JSON, functions: dict[str, Callable[..., str]]) -> str:
    """Run a call; return its result, or the error to send to the model."""
    try:
        return functions[function["name"]](**json.loads(function["arguments"]))
    except (KeyError, TypeError, ValueError) as error:
        return f"Error: {type(error).__name__}: {error}. Please try again."


def plain_loop(
    url: str, model: str, task: DemoTask, tools: ToolFunctions, *, streamed: bool
) -> str:
    """Run a task with the handwritten loop."""
    request = {"model": model, "tools": describe_tools(tools)} | (
        {"stream": True} if streamed else {}
    )

    def ask(messages: list[JSON]) -> JSON:
        lines = _request_lines(url, request | {"messages": messages})
        if streamed:
            return assemble_message(_parse_chunks(lines))
        message: JSON = json.loads(b"".join(lines))["choices"][0]["message"]
        return message

    return converse(ask, task, tools)


def _request_lines(url: str, request: JSON) -> list[bytes]:
    """Send a request, with retries; return the lines of the response."""
    for attempt in range(1, _ATTEMPTS + 1):
        is_last = attempt == _ATTEMPTS
        try:
            status, data = _post_request(url, request)
        except (OSError, http.client.HTTPException):
            if is_last:
                raise
        else:
            if status < _FIRST_ERROR_STATUS:
                return data.splitlines(keepends=True)
            if is_last or (status < _FIRST_SERVER_ERROR and status != _TOO_MANY_REQUESTS):
                raise EndpointError(status, data.decode("utf-8", "replace"))
        time.sleep(_WAIT_S)
    raise AssertionError  # pragma: no cover  # the last attempt returns or raises


def _post_request(url: str, request: JSON) -> tuple[int, bytes]:
    """Send a request; return the status and the body."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", _PATH, json.dumps(request), {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
    finally:
        connection.close()
    is_compressed = response.getheader("Content-Encoding") == "gzip"
    return response.status, gzip.decompress(data) if is_compressed else data


def _parse_chunks(lines: Iterable[bytes]) -> Iterable[JSON]:
    for line in lines:
        data = line.removeprefix(b"data: ").strip()
        if line.startswith(b"data: ") and data != b"[DONE]":
            yield json.loads(data)


def assemble_message(chunks: Iterable[Any]) -> JSON:
    """Assemble the message from the deltas of a stream, as documented."""
    message: JSON = {"role": "assistant", "content": ""}
    calls: dict[int, JSON] = {}
    for chunk in chunks:
        for choice in chunk["choices"][:1]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            for part in delta.get("tool_calls") or ():
                _add_call_part(calls, part)
    return message | ({"tool_calls": list(calls.values())} if calls else {})


def _add_call_part(calls: dict[int, JSON], part: JSON) -> None:
    """Add a fragment of a streamed call to the calls, by index."""
    known = calls.get(part["index"])
    if known is None:
        calls[part["index"]] = {key: part[key] for key in part if key != "index"}
    else:
        known["function"]["arguments"] += part["function"].get("arguments") or ""


# The same loop over OpenAI's client, if it is installed.


def open_sdk_loop(url: str, stack: ExitStack) -> Callable[..., str] | None:
    """Return the SDK loop for a URL; None if the client is missing or too old."""
    try:
        make, transport = import_module("openai").OpenAI, import_module("httpx").Client
    except (ImportError, AttributeError):
        return None
    # Default settings, without a proxy, which could not reach loopback.
    http_client = stack.enter_context(transport(trust_env=False))
    client = make(base_url=f"{url}/v1", api_key="none", timeout=_TIMEOUT_S, http_client=http_client)
    return partial(sdk_loop, client)


def sdk_loop(
    client: Any, model: str, task: DemoTask, tools: ToolFunctions, *, streamed: bool
) -> str:
    """Run a task with the SDK loop."""
    create, definitions = client.chat.completions.create, describe_tools(tools)

    def ask(messages: list[JSON]) -> JSON:
        reply = create(model=model, messages=messages, tools=definitions, stream=streamed)
        if streamed:
            # If only the garbage collector closed it, other users of the client could deadlock.
            with reply:
                return assemble_message(chunk.model_dump(warnings=False) for chunk in reply)
        message: JSON = reply.choices[0].message.model_dump(exclude_none=True, warnings=False)
        return message

    return converse(ask, task, tools)


# Every loop runs every case concurrently over HTTP, each loop with its own simulator.

PLAIN_LOOP, SDK_LOOP, SURECALL_LOOP = "plain loop", "openai SDK", "surecall"
# Most threads wait: for a response, or before a retry.
_THREADS: Final = 64
BlockingLoop: TypeAlias = Callable[..., str]
LoopAgent: TypeAlias = Callable[[DemoCase, ToolFunctions], Awaitable[str | RunResult]]
OpenAgent: TypeAlias = Callable[[], Awaitable[LoopAgent | None]]


class LoopOutcome(NamedTuple):
    """A loop's judgment for a case. Only surecall's loop has a trace."""

    judgment: Judgment
    trace: Trace | None = None

    @property
    def is_right(self) -> bool:
        """Whether exactly the expected calls ran, each once, and the answer is right."""
        return self.judgment.verdict == "right"


class DemoRow(NamedTuple):
    """A case with the outcome of each loop."""

    case: DemoCase
    outcomes: dict[str, LoopOutcome]


def compare_loops(
    cases: Sequence[DemoCase], run: Callable[[Any], list[DemoRow]] = asyncio.run
) -> list[DemoRow]:
    """Run all cases with each loop; the SDK loop only if OpenAI's client is installed.

    `run` runs the coroutine.
    """
    return run(_compare_loops(cases))


async def _compare_loops(cases: Sequence[DemoCase]) -> list[DemoRow]:
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(_THREADS))
        urls = {
            name: stack.enter_context(Simulator()).url
            for name in (PLAIN_LOOP, SDK_LOOP, SURECALL_LOOP)
        }
        openers: dict[str, OpenAgent] = {
            PLAIN_LOOP: partial(
                _open_blocking_agent, threads, lambda: partial(plain_loop, urls[PLAIN_LOOP])
            ),
            SDK_LOOP: partial(
                _open_blocking_agent, threads, lambda: open_sdk_loop(urls[SDK_LOOP], stack)
            ),
            SURECALL_LOOP: partial(_open_surecall_agent, urls[SURECALL_LOOP]),
        }
        sides = await asyncio.gather(
            *(_run_cases_with_loop(each, cases) for each in openers.values())
        )
    present = [(name, side) for name, side in zip(openers, sides, strict=True) if side]
    return [
        DemoRow(shape, {name: side[number] for name, side in present})
        for number, shape in enumerate(cases)
    ]


async def _open_blocking_agent(
    threads: Executor, open_loop: Callable[[], BlockingLoop | None]
) -> LoopAgent | None:
    """Return an async agent for a blocking loop; None if the loop is not available."""
    loop = asyncio.get_running_loop()
    blocking = await loop.run_in_executor(threads, open_loop)
    if blocking is None:
        return None

    async def agent(shape: DemoCase, tools: ToolFunctions) -> str:
        call = partial(blocking, shape.persona.id, shape.task, tools, streamed=shape.is_streamed)
        return await loop.run_in_executor(threads, call)

    return agent


async def _open_surecall_agent(url: str) -> LoopAgent:
    return partial(_run_surecall, url)


async def _run_surecall(url: str, case: DemoCase, tools: ToolFunctions) -> RunResult:
    """Run a case with surecall, as in its documentation."""
    runner = ToolLoopRunner(client=url, model=case.persona.id, tools=tools, system=case.task.system)
    if not case.is_streamed:
        return await runner.run(case.task.prompt)
    async with runner.stream(case.task.prompt) as stream:
        async for _ in stream:
            pass
        return stream.result


async def _run_cases_with_loop(
    open_agent: OpenAgent, cases: Sequence[DemoCase]
) -> list[LoopOutcome]:
    """Run all cases with one loop; return an empty list if it is not available."""
    agent = await open_agent()
    if agent is None:
        return []
    return await asyncio.gather(*(_run_case(agent, shape) for shape in cases))


async def _run_case(agent: LoopAgent, case: DemoCase) -> LoopOutcome:
    desk = ToolRecorder()
    try:
        result = await agent(case, desk.tools(case.task))
    except Exception as error:  # noqa: BLE001  # any error that an application would see
        return LoopOutcome(judge_run(case.task, desk.calls, error))
    answer, trace = (
        (result, None) if isinstance(result, str) else (result.assistant_text, result.trace)
    )
    return LoopOutcome(judge_run(case.task, desk.calls, answer), trace)
