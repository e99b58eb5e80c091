"""PromptRunner: the single boundary of a request. One plan in, one reply out.

    plan ─ compose ─► body ─ client.send ───────────────────► answer ─ inbound ─► reply
                        │    client.stream ─► deltas, shown ────┘ assembled
                        └──── a fault ─ RetryPolicy.wait ─► again, or ProviderError

It knows nothing of loops or tools that run. Every attempt, fault and wait is told to `emit`. What
is shown of an answer that is still arriving goes to `show`; a reply is read the same way whether
it was streamed or not.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from surecall.core.endpoint_lessons import STREAM, applied, lesson_of, with_stream
from surecall.core.pipeline import Composer, Request, inbound, preflight, text_calls_of
from surecall.core.streaming.body_reader import Listener
from surecall.core.streaming.display import Display, Show
from surecall.core.streaming.holdback import AnswerOnly, Filter, Holdback
from surecall.runtime.trace import Redactor
from surecall.runtime.transport import Client, Incoming
from surecall.settings.capabilities import Capabilities, check_budget, estimate_tokens
from surecall.settings.config import ToolCallingConfig, union
from surecall.settings.endpoint import DEFAULT_LIMITS
from surecall.settings.retry import RetryPolicy
from surecall.tools.registry import Toolbox, ToolRegistry
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import LlmRequestErrorEvent, LlmRequestRetryEvent, LlmRequestStartEvent
from surecall.values.types import JSON, Answer, Plan, Reply
from surecall.wire.assembler import Assembler
from surecall.wire.messages import decode, scrub
from surecall.wire.response import fault_of
from surecall.wire.transforms.bodies import failed_generation

MAX_QUOTE = 400
_NO_REPLY = Fault(ErrorCode.CONNECTION_ERROR, "nobody waits for the reply any more")


class Emit(Protocol):
    """How a request tells what happens to it."""

    def __call__(self, kind: Any, turn: int, **fields: Any) -> None:
        """Record one event."""


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


class _Received(NamedTuple):
    """A decoded answer and how many bytes it took."""

    body: Any | Fault
    size: int


class PromptRunner:
    """Sends single requests through a client, with the retry of passing faults."""

    def __init__(
        self,
        client: Client,
        *,
        retry: RetryPolicy | None = None,
        capabilities: Capabilities | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.client = client
        self.retry = retry or RetryPolicy()
        self.sleep = sleep
        self.jitter = jitter
        # What the endpoint was found to refuse, by model. A client that keeps it shares it.
        self.lessons: dict[str, tuple[str, ...]] = getattr(client, "lessons", {})
        # What it is known to refuse beforehand.
        can = capabilities or Capabilities(parallel_tool_calls=True)
        # A client that is not ours need not know how to stream.
        streams = can.streaming and hasattr(client, "stream")
        refused = {"parallel_tool_calls": not can.parallel_tool_calls, STREAM: not streams}
        self.known = tuple(option for option, is_refused in refused.items() if is_refused)
        self._capabilities = capabilities
        key = getattr(client, "secrets", None) or getattr(client, "api_key", None)
        self._redact_answer = Redactor(key, wary=False)
        self._redact_fault = Redactor(key)

    def conversation(
        self,
        config: ToolCallingConfig | None = None,
        toolbox: Toolbox | None = None,
        emit: Emit = silent,
    ) -> "Conversation":
        """Open a series of requests that share settings and grow one transcript."""
        return Conversation(self, config or ToolCallingConfig(), toolbox or ToolRegistry(), emit)

    async def ask(
        self, plan: Plan, config: ToolCallingConfig | None = None, show: Show | None = None
    ) -> Exchange:
        """Send one plan on its own; with `show`, the answer is streamed."""
        conversation = self.conversation(config)
        conversation.show = show
        return await conversation.ask(plan)

    def read(self, answer: Answer) -> Any:
        """Decode an answer; whatever it echoes, the client's key is not in what is returned."""
        body = read_body(answer)
        if isinstance(body, Fault) or not self._redact_answer.suspects(answer.body):
            return body
        return self._redact_answer.value(body)

    def assembled(self, body: JSON) -> Any:
        """Do the same for an answer that was put together from a stream."""
        try:
            data = msgspec.json.encode(body)
        except UnicodeEncodeError:  # half a character, somewhere beside the text
            body = scrub(body)
            data = msgspec.json.encode(body)
        redactor = self._redact_answer
        return redactor.value(body) if redactor.suspects(data) else body

    def redacted(self, fault: Fault) -> Fault:
        """Take keys out of what an endpoint says about a failure."""
        return self._redact_fault.fault(fault)

    def check(self, plan: Plan, request: Request) -> None:
        """Refuse what the endpoint is known not to serve, before it costs anything."""
        preflight(plan, self._capabilities)
        if self._capabilities is not None:
            tokens = estimate_tokens(request.body.decode())
            if (sentence := check_budget(tokens, self._capabilities)) is not None:
                raise ProviderError(Fault(ErrorCode.CONTEXT_TOO_LONG, sentence))


class Conversation:
    """The requests of one run. It remembers what it has written, so a turn costs a turn.

    Where `show` is set, answers are streamed and what may be shown of them goes there.
    """

    show: Show | None = None

    def __init__(
        self, runner: PromptRunner, config: ToolCallingConfig, toolbox: Toolbox, emit: Emit
    ) -> None:
        self._runner = runner
        self._config = config
        self._toolbox = toolbox
        self._emit = emit
        self._composer = Composer(config)
        self._in_stream = False

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
        runner.check(sent, request)
        attempt = learned = 0
        began = time.perf_counter()
        while True:
            attempt += 1
            self._announce(plan, request, turn, attempt)
            self._in_stream = False
            started = time.perf_counter()
            outcome = await self._attempt(plan, sent, request)
            elapsed_ms = round((time.perf_counter() - started) * 1000)
            if not isinstance(outcome, Fault):
                reply, body, size = outcome
                return Exchange(
                    reply, body, request.hash, attempt, elapsed_ms, size, lessons, streamed
                )
            fault = runner.redacted(outcome)
            self._emit(
                LlmRequestErrorEvent, turn, fault=fault, attempt=attempt, elapsed_ms=elapsed_ms
            )
            # Who has begun to answer does not refuse the request.
            lesson = None if self._in_stream else lesson_of(fault, sent)
            if lesson is not None and lesson not in lessons:
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
        )

    async def _attempt(
        self, plan: Plan, sent: Plan, request: Request
    ) -> tuple[Reply, Any, int] | Fault:
        display = None if self.show is None else self._display(self.show, plan)
        outcome: tuple[Reply, Any, int] | Fault
        try:
            received = await self._received(sent, request, display)
        except BaseException:  # the deadline, or whoever watched has left
            if display is not None:
                display.close(_NO_REPLY)
            raise
        if isinstance(received, Fault):
            outcome = received
        else:
            body, size = received
            reply = inbound(body, plan, self._config, self._toolbox)
            outcome = reply if isinstance(reply, Fault) else (reply, body, size)
        if display is not None:
            display.close(outcome if isinstance(outcome, Fault) else outcome[0])
        return outcome

    def _display(self, show: Show, plan: Plan) -> Display:
        names = [tool.name for tool in plan.tools]
        config = self._config
        mode = text_calls_of(config)
        holdback: Filter = Holdback(mode, names, strip_thinking=config.strip_thinking)
        if config.call_protocol == "guided" and plan.known_tools:
            holdback = AnswerOnly()
        return Display(show, holdback, frozenset(names))

    async def _received(
        self, plan: Plan, request: Request, display: Display | None
    ) -> _Received | Fault:
        stream = getattr(self._runner.client, "stream", None) if STREAM in plan.options else None
        try:
            if stream is None or display is None:
                answer = await self._runner.client.send(request.body)
                received = _Received(self._runner.read(answer), len(answer.body))
            else:
                received = await self._listened(stream(request.body), plan, display)
        except ProviderError as error:
            return error.fault
        except OSError as error:  # of a client that is not ours
            message = f"the client raised {type(error).__name__}"
            return Fault(ErrorCode.CONNECTION_ERROR, message, retryable=True)
        return received.body if isinstance(received.body, Fault) else received

    async def _listened(
        self, opening: AbstractAsyncContextManager[Incoming], plan: Plan, display: Display
    ) -> _Received:
        """Read an answer while it arrives, and show what may be shown."""
        limits = getattr(self._runner.client, "limits", DEFAULT_LIMITS)
        names = [tool.name for tool in plan.tools]
        assembler = Assembler(names, self._config.max_tool_args_bytes, _judged)
        async with opening as incoming:
            is_plain = not is_success(incoming.status)
            listener = Listener(assembler, limits.max_response_bytes, is_plain=is_plain)
            async for chunk in incoming.chunks:
                for delta in listener.feed(chunk):
                    display.feed(delta)
                if listener.ended:
                    break
        for delta in listener.close():
            display.feed(delta)
        self._in_stream = listener.is_stream
        body = listener.finish()
        if isinstance(body, bytes):
            body = self._runner.read(Answer(incoming.status, incoming.headers, body))
        elif not isinstance(body, Fault):
            body = self._runner.assembled(body)
        return _Received(body, listener.size)


def _judged(holder: JSON) -> Fault:
    return fault_of(holder, None, {}, time.time())


def is_success(status: int) -> bool:
    """Whether a status is of the class of successes."""
    return 200 <= status < 300  # noqa: PLR2004  # see above


def read_body(answer: Answer) -> Any:
    """Decode an answer; a bad status or a body that is not JSON is a `Fault`."""
    try:
        body = decode(answer.body)
    except ValueError:
        body = None
    if failed_generation(body) is not None:
        return body  # an error about what the model wrote, not about what we asked
    if not is_success(answer.status):
        text = answer.body[:MAX_QUOTE].decode("utf-8", "replace")
        shown = text if body is None else body
        return fault_of(shown, answer.status, answer.headers, time.time())
    return _not_json(answer) if body is None else body


def _not_json(answer: Answer) -> Fault:
    text = " ".join(answer.body[:MAX_QUOTE].decode("utf-8", "replace").split())
    if text in {"", "null"}:
        return Fault(ErrorCode.EMPTY_RESPONSE, "the answer is empty", answer.status, retryable=True)
    # A page is what a wrong URL serves; anything else may be a body that was cut on its way.
    page = text.startswith("<")
    return Fault(
        ErrorCode.DECODE_ERROR,
        "the answer is an HTML page, not JSON" if page else f"the answer is not JSON: {text!r}",
        answer.status,
        hint="Check base_url and api_prefix." if page else None,
        retryable=not page,
        body=text,
    )
