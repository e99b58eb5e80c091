"""The requests of a run: one plan in, one reply out, retried where that helps.

    plan ─ compose ─► request ─ RequestSender.send ─► body ─ inbound ─► reply
                         └──── a fault ─ RetryPolicy.wait ─► again, or ProviderError

What was written and what the endpoint refused is remembered. Nothing here knows of loops,
or of tools that run. Every attempt, fault and wait is told to `emit`; what may be shown of
an answer that is still arriving goes to `show`. A reply is read the same way, streamed or not.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from surecall.core.endpoint_lessons import STREAM, applied, lesson_of, with_stream
from surecall.core.history_lessons import history_lesson
from surecall.core.inbound import EDGES, inbound, text_calls_of
from surecall.core.outbound import Composer, Request, Surfaces
from surecall.core.streaming.display import Display, Show
from surecall.core.streaming.edges import Edges
from surecall.core.streaming.holdback import AnswerOnly, Filter, Holdback, Silent
from surecall.runtime.request import Received, RequestSender, aside
from surecall.runtime.runner_checks import checked_client, checked_config
from surecall.runtime.transport import Client
from surecall.settings.capabilities import Capabilities
from surecall.settings.config import ToolCallingConfig, check_options
from surecall.settings.connection import RetryPolicy
from surecall.settings.overlay import deep_merge, union
from surecall.tools.registry import Toolbox, ToolRegistry, registry_of
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import LlmRequestErrorEvent, LlmRequestRetryEvent, LlmRequestStartEvent
from surecall.values.types import Plan, Reply
from surecall.wire.messages import parse_message

_NO_REPLY = Fault(ErrorCode.CONNECTION_ERROR, "the reply is no longer awaited")


# Learned from one request. An endpoint that refuses more wants something else.
MOST_LESSONS = 8


class Emit(Protocol):
    """How a request tells what happens to it."""

    def __call__(self, kind: Any, turn: int, **fields: Any) -> None:
        """Record one event."""


class Composes(Protocol):
    """What writes the requests of a run."""

    @property
    def speak(self) -> Callable[[Plan], Plan]:
        """Put a plan into the words of the call protocol."""

    def compose(self, plan: Plan) -> Request:
        """Write one request."""


def silent(kind: Any, turn: int, **fields: Any) -> None:
    """Record nothing."""


class Exchange(msgspec.Struct, frozen=True, gc=False):
    """One reply, with the answer it was read from."""

    reply: Reply
    body: Any
    request_hash: str
    attempt: int
    elapsed_ms: int
    response_bytes: int
    lessons: tuple[str, ...] = ()
    streamed: bool = False


class PromptRunner:
    """The single boundary of a request: sends plans through a client and retries passing faults.

    `llm_options_defaults` are request options, such as a temperature, for every plan that `ask`
    sends; the plan's own take precedence.
    """

    def __init__(
        self,
        client: Client | str,
        *,
        llm_options_defaults: Mapping[str, Any] | None = None,
        retry: RetryPolicy | None = None,
        capabilities: Capabilities | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._llm_options_defaults = dict(llm_options_defaults or {})
        check_options(self._llm_options_defaults, "llm_options_defaults")
        self.sender = RequestSender(checked_client(client), capabilities)
        self.retry = retry or RetryPolicy()
        self._surfaces = Surfaces()
        self.sleep = sleep
        self.jitter = jitter
        # What the endpoint was found to refuse, by model. A client that keeps it shares it.
        self.lessons: dict[str, tuple[str, ...]] = getattr(self.client, "lessons", {})
        # What it is known to refuse beforehand.
        can = capabilities or Capabilities()
        # A client that is not ours need not know how to stream.
        streams = can.streaming and hasattr(self.client, "stream")
        refused = {"parallel_tool_calls": not can.parallel_tool_calls, STREAM: not streams}
        self.known = tuple(option for option, is_refused in refused.items() if is_refused)

    @property
    def client(self) -> Client:
        """What requests are sent through."""
        return self.sender.client

    def requests(
        self,
        config: ToolCallingConfig | None = None,
        toolbox: Toolbox | None = None,
        emit: Emit = silent,
        show: Show | None = None,
        composer: Composes | None = None,
    ) -> "Requests":
        """Open a series of requests that share settings and grow one transcript."""
        config = config or ToolCallingConfig()
        box = toolbox or ToolRegistry()
        composer = composer or Composer(config, self._surfaces)
        return Requests(self, config, box, emit, show, composer)

    async def ask(
        self,
        plan: Plan,
        config: ToolCallingConfig | Mapping[str, Any] | None = None,
        show: Show | None = None,
    ) -> Exchange:
        """Send one plan on its own; with `show`, the answer is streamed."""
        resolved = checked_config(config, self.client, plan.model)
        options = deep_merge(self._llm_options_defaults, plan.options)
        messages = tuple(map(parse_message, plan.messages))
        plan = msgspec.structs.replace(plan, messages=messages, options=options)
        return await self.requests(resolved, registry_of(plan.tools), show=show).ask(plan)


class Requests:
    """The requests of one run. They remember what was written, so a turn costs a turn.

    Where `show` is given, answers are streamed and what may be shown of them goes there.
    """

    def __init__(
        self,
        runner: PromptRunner,
        config: ToolCallingConfig,
        toolbox: Toolbox,
        emit: Emit,
        show: Show | None,
        composer: Composes,
    ) -> None:
        self.show = show
        self._runner = runner
        self._config = config
        self._toolbox = toolbox
        self._emit = emit
        self._composer = composer

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Keep connections open while the run lasts."""
        return self._runner.client.opened()

    async def ask(self, plan: Plan, turn: int = 0, longest_s: float = math.inf) -> Exchange:
        """Send a plan and read the reply; passing faults are retried, others raised."""
        runner = self._runner
        streamed = self.show is not None
        lessons = union(runner.known, runner.lessons.get(plan.model, ()))
        spoken = self._composer.speak(plan)
        sent = applied(with_stream(spoken) if streamed else spoken, lessons)
        request = self._composer.compose(sent)
        runner.sender.check(sent, request)
        attempt = learned = 0
        began = time.perf_counter()
        while True:
            attempt += 1
            self._announce(plan, request, turn, attempt)
            started = time.perf_counter()
            reply, received = await self._attempt(plan, sent, request)
            elapsed_ms = round((time.perf_counter() - started - received.waited_s) * 1000)
            if not isinstance(reply, Fault):
                body, size = received.body, received.size
                return Exchange(
                    reply, body, request.hash, attempt, elapsed_ms, size, lessons, streamed
                )
            fault = runner.sender.redacted(reply)
            self._failed(turn, fault, attempt, elapsed_ms)
            # An endpoint that has begun to answer has not refused the request.
            lesson = None if received.in_stream else _lesson(fault, sent, request, lessons)
            if lesson is not None and lesson not in lessons and learned < MOST_LESSONS:
                learned += 1
                lessons = (*lessons, lesson)
                runner.lessons[plan.model] = lessons
                sent = applied(sent, lessons)
                request = self._composer.compose(sent)
                self._retry(plan, turn, attempt, 0.0, lesson)
                continue
            wait = runner.retry.wait(fault, attempt - learned, runner.jitter())
            if wait is None or time.perf_counter() - began + wait >= longest_s:
                raise ProviderError(fault)
            self._retry(plan, turn, attempt, wait)
            await runner.sleep(wait)

    def _failed(self, turn: int, fault: Fault, attempt: int, elapsed_ms: int) -> None:
        self._emit(LlmRequestErrorEvent, turn, fault=fault, attempt=attempt, elapsed_ms=elapsed_ms)

    def _retry(
        self, plan: Plan, turn: int, attempt: int, wait_s: float, dropped: str | None = None
    ) -> None:
        self._emit(
            LlmRequestRetryEvent,
            turn,
            attempt=attempt,
            wait_s=wait_s,
            tools_enabled=bool(plan.tools),
            dropped=dropped,
        )

    def _announce(self, plan: Plan, request: Request, turn: int, attempt: int) -> None:
        self._emit(
            LlmRequestStartEvent,
            turn,
            tool_use_mode=self._config.tool_use_mode.value,
            tool_failure_policy=self._config.tool_failure_policy.value,
            tools_enabled=bool(plan.tools) and plan.tool_choice != "none",
            tool_choice=plan.tool_choice,
            messages_count=request.messages_count,
            tools_count=len(plan.tools),
            request_bytes=len(request.body),
            request_hash=request.hash,
            attempt=attempt,
            reminder="" if self._config.call_protocol == "native" else plan.reminder,
        )

    async def _attempt(
        self, plan: Plan, sent: Plan, request: Request
    ) -> tuple[Reply | Fault, Received]:
        """Send a request once; return the reply that was read, or the fault, and the answer."""
        display = None if self.show is None else self._display(self.show, plan)
        limit = self._config.max_tool_args_bytes
        try:
            received = await self._runner.sender.send(sent, request, display, limit)
        except BaseException:  # the deadline, or the caller has left the stream
            if display is not None:
                display.close(_NO_REPLY)
            raise
        reply = received.body
        if not isinstance(reply, Fault):
            body, size = received.body, received.size
            reply = await aside(size, inbound, body, plan, self._config, self._toolbox)
        if display is not None:
            display.close(reply)
        return reply, received

    def _display(self, show: Show, plan: Plan) -> Display:
        names = [tool.name for tool in plan.tools]
        config = self._config
        mode = text_calls_of(config)
        holdback: Filter = Holdback(mode, names, strip_thinking=config.endpoint.strip_thinking)
        if config.call_protocol == "guided" and plan.known_tools:
            holdback = AnswerOnly() if plan.output is None else Silent()
        if EDGES in config.endpoint.response_transforms:
            holdback = Edges(holdback)
        return Display(show, holdback, frozenset(names))


def _lesson(fault: Fault, sent: Plan, request: Request, learned: tuple[str, ...]) -> str | None:
    """Return what a refusal teaches: about the options, or about what was said before."""
    about_options = lesson_of(fault, sent)
    if about_options is not None:
        return about_options
    body = msgspec.json.decode(request.body)
    return history_lesson(fault, body["messages"], learned, body.get("tools", ()))
