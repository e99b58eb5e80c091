"""Sends the requests of a run, retries them, parses the replies, and adapts to refusals.

`RequestSender` sends one request and decodes the answer:

    bytes ─ client.send ─────────────────────────► answer ─ decode ────► body, or a `Fault`
          ─ client.stream ─► chunks ─► deltas, shown ─► assembled ─┘

Keys echoed by an endpoint are redacted here, before any other code sees the answer.

`RunRequests` turns a plan into a reply:

    plan ─ compose ─► request ─ RequestSender.send ─► body ─ inbound ─► reply
                         └──── a fault ─ RetryPolicy.wait ─► retry, or ProviderError

Encoded messages and options that the endpoint refused are cached. Attempts, faults and waits are
passed to `emit`, and text that may already be shown to `show`. Streamed and complete answers are
parsed alike.
"""

import asyncio
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

import msgspec

from surecall.core.lessons import (
    STREAM,
    apply_lessons,
    lesson_from,
    with_stream,
)
from surecall.core.refusals import request_lessons
from surecall.core.reply_parsing import (
    EDGES_TRIMMED,
    may_contain_calls,
    parse_reply,
    text_calls_mode,
)
from surecall.core.request_building import Request, RequestBuilder, ToolDefinitionCache, preflight
from surecall.core.streaming import (
    EdgeFilter,
    GuidedAnswerFilter,
    MarkFilter,
    ReplyDisplay,
    ResponseReader,
    ShowDelta,
    SilentFilter,
    TextFilter,
)
from surecall.parsing.budget import MAX_QUICK_WORK, TooManyValues, WorkBudget
from surecall.runtime.event_loop import wait_for_slot
from surecall.runtime.learned_lessons import LessonLearner
from surecall.runtime.redaction import Redactor
from surecall.runtime.runner_checks import checked_client, checked_config
from surecall.runtime.transport import Client, Incoming
from surecall.settings.capabilities import Capabilities, budget_problem, estimate_tokens
from surecall.settings.config import ToolCallingConfig, check_options
from surecall.settings.connection import DEFAULT_LIMITS, Limits, RetryPolicy
from surecall.settings.overlay import deep_merge
from surecall.tools.registry import Toolbox, ToolRegistry, registry_from_specs
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import LlmRequestErrorEvent, LlmRequestRetryEvent, LlmRequestStartEvent
from surecall.values.types import JSON, HttpResponse, Plan, Reply
from surecall.wire.assembler import Assembler, Delta, TextDelta
from surecall.wire.chat_format import decode, parse_message, replace_surrogates
from surecall.wire.response import parse_fault
from surecall.wire.transforms.response_transforms import failed_generation

MAX_QUOTE = 400
# Larger answers are parsed in a thread. Parsing this much takes tens of milliseconds at most.
LARGE_BYTES = 128 * 1024
# Streams are parsed in pieces of this size. Parsing one takes a few milliseconds.
PIECE_BYTES = 8 * 1024
P = ParamSpec("P")
R = TypeVar("R")


class DecodedAnswer(NamedTuple):
    """A decoded answer, its size in bytes, and whether it was streamed.

    `waited_s` is how long the client delayed the request.
    """

    body: Any | Fault
    size: int
    in_stream: bool = False
    waited_s: float = 0.0


class RequestSender:
    """Sends requests through a client and decodes what comes back."""

    def __init__(self, client: Client, capabilities: Capabilities | None = None) -> None:
        self.client = client
        self._capabilities = capabilities
        key = getattr(client, "secrets", None) or getattr(client, "api_key", None)
        self._redact_answer = Redactor(key, aggressive=False)
        self._redact_fault = Redactor(key)

    def decode_answer(self, answer: HttpResponse) -> Any:
        """Decode an answer, and redact the client's key in it."""
        body = decode_body(answer, self._limits)
        if isinstance(body, Fault) or not self._redact_answer.may_match(answer.body):
            return body
        return self._redact_answer.redact_value(body)

    def redact_assembled(self, body: JSON) -> Any:
        """Redact the client's key in an answer assembled from a stream."""
        try:
            data = msgspec.json.encode(body)
        except UnicodeEncodeError:  # a lone surrogate in a field other than the text
            body = replace_surrogates(body)
            data = msgspec.json.encode(body)
        redactor = self._redact_answer
        return redactor.redact_value(body) if redactor.may_match(data) else body

    @property
    def _limits(self) -> Limits:
        limits: Limits = getattr(self.client, "limits", DEFAULT_LIMITS)
        return limits

    def redact_fault(self, fault: Fault) -> Fault:
        """Redact keys in a fault reported by an endpoint."""
        return self._redact_fault.redact_fault(fault)

    def check_request(self, plan: Plan, request: Request) -> None:
        """Raise `ProviderError` if the endpoint is known not to support the request."""
        preflight(plan, self._capabilities)
        if self._capabilities is not None:
            tokens = estimate_tokens(request.body.decode())
            if (sentence := budget_problem(tokens, self._capabilities)) is not None:
                raise ProviderError(Fault(ErrorCode.CONTEXT_TOO_LONG, sentence))

    async def send(
        self, plan: Plan, request: Request, display: ReplyDisplay | None, max_tool_args_bytes: int
    ) -> DecodedAnswer:
        """Send a request and return the decoded answer, whose body is a `Fault` on failure."""
        stream = getattr(self.client, "stream", None) if STREAM in plan.options else None
        try:
            if stream is None or display is None:
                answer = await self.client.send(request.body)
                await wait_for_slot()
                size = len(answer.body)
                body = await run_in_thread_if_large(size, self.decode_answer, answer)
                return DecodedAnswer(body, size, waited_s=answer.waited_s)
            names = [tool.name for tool in plan.tools]
            most = self._limits.max_response_bytes
            assembler = Assembler(names, max_tool_args_bytes, _stream_fault, most)
            return await self._receive_stream(stream(request.body), assembler, display)
        except ProviderError as error:
            return DecodedAnswer(error.fault, 0)
        except OSError as error:  # raised by a custom client
            message = f"the client raised {type(error).__name__}"
            return DecodedAnswer(Fault(ErrorCode.CONNECTION_ERROR, message, retryable=True), 0)

    async def _receive_stream(
        self,
        opening: AbstractAsyncContextManager[Incoming],
        assembler: Assembler,
        display: ReplyDisplay,
    ) -> DecodedAnswer:
        """Parse an answer as it arrives, and show the text that may be shown."""
        async with opening as incoming:
            is_plain = not is_success(incoming.status)
            most = self._limits.max_response_bytes
            listener = ResponseReader(assembler, most, is_plain=is_plain)
            async for piece in _split_pieces(incoming.chunks):
                # An event that spans many pieces is parsed with the last one.
                size = listener.pending_bytes + len(piece)
                await _show_deltas(
                    display, await run_in_thread_if_large(size, listener.feed, piece)
                )
                if listener.is_complete:
                    break
        await _show_deltas(
            display, await run_in_thread_if_large(listener.pending_bytes, listener.close)
        )
        body = await run_in_thread_if_large(listener.size, listener.finish)
        if isinstance(body, bytes):
            answer = HttpResponse(incoming.status, incoming.headers, body)
            body = await run_in_thread_if_large(listener.size, self.decode_answer, answer)
        elif not isinstance(body, Fault):
            body = await run_in_thread_if_large(listener.size, self.redact_assembled, body)
        return DecodedAnswer(body, listener.size, listener.is_stream)


async def _split_pieces(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Split chunks into small pieces, and let other runs continue between them."""
    async for chunk in chunks:
        for at in range(0, len(chunk), PIECE_BYTES):
            await wait_for_slot()
            yield chunk[at : at + PIECE_BYTES]


async def _show_deltas(display: ReplyDisplay, deltas: list[Delta]) -> None:
    """Show deltas; split long text, and let other runs continue in between."""
    for delta in deltas:
        if not isinstance(delta, TextDelta) or len(delta.text) <= PIECE_BYTES:
            display.feed(delta)
            continue
        for at in range(0, len(delta.text), PIECE_BYTES):
            await wait_for_slot()
            display.feed(TextDelta(delta.text[at : at + PIECE_BYTES]))


def _stream_fault(holder: JSON) -> Fault:
    return parse_fault(holder, None, {}, time.time())


def is_success(status: int) -> bool:
    """Whether a status is 2xx."""
    return 200 <= status < 300  # noqa: PLR2004  # well-known numbers


async def run_in_thread_if_large(
    size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Do work on an answer of `size` bytes; a large one in a thread, not to block other runs."""
    if size <= LARGE_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


async def run_within_budget(work: Callable[[WorkBudget], R]) -> R:
    """Do work within a small budget; if that is exhausted, start over in a thread.

    The work must be pure.
    """
    quick = WorkBudget(MAX_QUICK_WORK)
    done = work(quick)
    return await asyncio.to_thread(work, WorkBudget()) if quick.is_exhausted else done


def decode_body(answer: HttpResponse, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Decode an answer; a bad status or a body that is not JSON is a `Fault`."""
    try:
        body = decode(answer.body, limits.max_response_values)
    except TooManyValues:
        sentence = f"The answer has more than {limits.max_response_values} values."
        return Fault(ErrorCode.RESPONSE_TOO_LARGE, sentence, answer.status)
    except ValueError:
        body = None
    if failed_generation(body) is not None:
        return body  # the error is about the model's output, not about the request
    if not is_success(answer.status):
        text = answer.body[:MAX_QUOTE].decode("utf-8", "replace")
        content = text if body is None else body
        return parse_fault(content, answer.status, answer.headers, time.time())
    return _not_json_fault(answer) if body is None else body


def _not_json_fault(answer: HttpResponse) -> Fault:
    text = " ".join(answer.body[:MAX_QUOTE].decode("utf-8", "replace").split())
    if text in {"", "null"}:
        return Fault(ErrorCode.EMPTY_RESPONSE, "the answer is empty", answer.status, retryable=True)
    # A wrong URL often serves an HTML page; anything else may be a truncated body.
    page = text.startswith("<")
    return Fault(
        ErrorCode.DECODE_ERROR,
        "the answer is an HTML page, not JSON" if page else f"the answer is not JSON: {text!r}",
        answer.status,
        hint="Check base_url and api_prefix." if page else None,
        retryable=not page,
        body=text,
    )


_NO_REPLY = Fault(ErrorCode.CONNECTION_ERROR, "the reply is no longer awaited")


class Emit(Protocol):
    """Records the events of a request."""

    def __call__(self, kind: Any, turn: int, **fields: Any) -> None:
        """Record one event."""


class RequestComposer(Protocol):
    """Composes the requests of a run."""

    @property
    def encode_plan(self) -> Callable[[Plan], Plan]:
        """Return a function that translates a plan into the call protocol."""

    def build(self, plan: Plan) -> Request:
        """Return the request for a plan."""


def ignore_event(kind: Any, turn: int, **fields: Any) -> None:
    """Record nothing."""


class ReceivedReply(msgspec.Struct, frozen=True, gc=False):
    """A reply, with the answer that it was parsed from."""

    reply: Reply
    body: Any
    request_hash: str
    attempt: int
    elapsed_ms: int
    response_bytes: int
    lessons: tuple[str, ...] = ()
    streamed: bool = False


class PromptRunner:
    """Sends plans through a client, and retries transient faults.

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
        self._surfaces = ToolDefinitionCache()
        self.sleep = sleep
        self.jitter = jitter
        # What the endpoint has refused, by model. Stored in the client, all its runners share it.
        self.lessons: MutableMapping[str, tuple[str, ...]] = getattr(self.client, "lessons", {})
        can = capabilities or Capabilities()
        # A custom client may not support streaming.
        streams = can.streaming and hasattr(self.client, "stream")
        refused = {"parallel_tool_calls": not can.parallel_tool_calls, STREAM: not streams}
        self.unsupported_options = tuple(
            option for option, is_refused in refused.items() if is_refused
        )

    @property
    def client(self) -> Client:
        """The client that requests are sent through."""
        return self.sender.client

    def requests(
        self,
        config: ToolCallingConfig | None = None,
        toolbox: Toolbox | None = None,
        emit: Emit = ignore_event,
        show: ShowDelta | None = None,
        composer: RequestComposer | None = None,
    ) -> "RunRequests":
        """Return the sender of one run's requests, which share settings and a transcript."""
        config = config or ToolCallingConfig()
        box = toolbox or ToolRegistry()
        composer = composer or RequestBuilder(config, self._surfaces)
        return RunRequests(self, config, box, emit, show, composer)

    async def ask(
        self,
        plan: Plan,
        config: ToolCallingConfig | Mapping[str, Any] | None = None,
        show: ShowDelta | None = None,
    ) -> ReceivedReply:
        """Send a single plan; with `show`, the answer is streamed."""
        resolved = checked_config(config, self.client, plan.model)
        options = deep_merge(self._llm_options_defaults, plan.options)
        messages = tuple(map(parse_message, plan.messages))
        plan = msgspec.structs.replace(plan, messages=messages, options=options)
        return await self.requests(resolved, registry_from_specs(plan.tools), show=show).ask(plan)


class RunRequests:
    """Sends the requests of one run. Earlier turns are not encoded again.

    With `show`, answers are streamed, and text that may be shown is passed to it.
    """

    def __init__(
        self,
        runner: PromptRunner,
        config: ToolCallingConfig,
        toolbox: Toolbox,
        emit: Emit,
        show: ShowDelta | None,
        composer: RequestComposer,
    ) -> None:
        self.show = show
        self._runner = runner
        self._config = config
        self._toolbox = toolbox
        self._emit = emit
        self._composer = composer

    def keep_open(self) -> AbstractAsyncContextManager[None]:
        """Keep connections open during the run."""
        return self._runner.client.opened()

    async def ask(self, plan: Plan, turn: int = 0, remaining_s: float = math.inf) -> ReceivedReply:
        """Send a plan and parse the reply; transient faults are retried, others raised."""
        runner = self._runner
        streamed = self.show is not None
        spoken = self._composer.encode_plan(plan)
        base = with_stream(spoken) if streamed else spoken
        learner = LessonLearner(runner.lessons, plan.model, runner.unsupported_options)
        sent, request = self._compose(base, learner.lessons)
        runner.sender.check_request(sent, request)
        attempt = 0
        began = time.perf_counter()
        while True:
            attempt += 1
            self._emit_start(plan, request, turn, attempt)
            started = time.perf_counter()
            reply, received = await self._send_once(plan, sent, request)
            elapsed_ms = round((time.perf_counter() - started - received.waited_s) * 1000)
            if not isinstance(reply, Fault):
                learner.confirm()
                body, size, lessons = received.body, received.size, learner.lessons
                return ReceivedReply(
                    reply, body, request.hash, attempt, elapsed_ms, size, lessons, streamed
                )
            fault = runner.sender.redact_fault(reply)
            self._emit_error(turn, fault, attempt, elapsed_ms)
            # An endpoint that has begun to stream has not refused the request.
            find = partial(self._find_lessons, fault, base)
            if not received.in_stream and (learned := learner.learn(fault, find)):
                sent, request = self._compose(base, learner.lessons)
                self._emit_retry(plan, turn, attempt, 0.0, ",".join(learned))
                continue
            wait = runner.retry.wait(fault, attempt - learner.rejections, runner.jitter())
            if wait is None or time.perf_counter() - began + wait >= remaining_s:
                raise ProviderError(fault)
            self._emit_retry(plan, turn, attempt, wait)
            await runner.sleep(wait)

    def _compose(self, base: Plan, lessons: tuple[str, ...]) -> tuple[Plan, Request]:
        """Return a plan with lessons applied, and its request."""
        sent = apply_lessons(base, lessons)
        return sent, self._composer.build(sent)

    def _find_lessons(
        self, fault: Fault, base: Plan, lessons: tuple[str, ...], tried: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return what a rejection teaches about a plan that was sent with some lessons."""
        sent, request = self._compose(base, lessons)
        about_plan = lesson_from(fault, sent)
        if about_plan is not None and about_plan not in tried:
            return (about_plan,)
        apis = getattr(self._runner.client, "api", "") == "auto"
        body = msgspec.json.decode(request.body)
        return request_lessons(fault, body, (*lessons, *tried), apis=apis)

    def _emit_error(self, turn: int, fault: Fault, attempt: int, elapsed_ms: int) -> None:
        self._emit(LlmRequestErrorEvent, turn, fault=fault, attempt=attempt, elapsed_ms=elapsed_ms)

    def _emit_retry(
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

    def _emit_start(self, plan: Plan, request: Request, turn: int, attempt: int) -> None:
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

    async def _send_once(
        self, plan: Plan, adapted_plan: Plan, request: Request
    ) -> tuple[Reply | Fault, DecodedAnswer]:
        """Send a request once; return the parsed reply or the fault, and the answer."""
        display = None if self.show is None else self._build_display(self.show, plan)
        limit = self._config.max_tool_args_bytes
        try:
            received = await self._runner.sender.send(adapted_plan, request, display, limit)
        except BaseException:  # the deadline passed, or the stream was closed
            if display is not None:
                display.close(_NO_REPLY)
            raise
        reply = received.body
        if not isinstance(reply, Fault):
            parse = partial(parse_reply, received.body, plan, self._config, self._toolbox)
            # A call in text is compared with the whole transcript.
            compares = may_contain_calls(received.body)
            size = max(received.size, len(request.body)) if compares else received.size
            if size > LARGE_BYTES:
                reply = await run_in_thread_if_large(size, parse)
            else:
                reply = await run_within_budget(parse)
        if display is not None:
            display.close(reply)
        return reply, received

    def _build_display(self, show: ShowDelta, plan: Plan) -> ReplyDisplay:
        names = [tool.name for tool in plan.tools]
        config = self._config
        mode = text_calls_mode(config)
        holdback: TextFilter = MarkFilter(
            mode, names, strip_thinking=config.endpoint.strip_thinking
        )
        if config.call_protocol == "guided" and plan.known_tools:
            holdback = GuidedAnswerFilter() if plan.output is None else SilentFilter()
        if EDGES_TRIMMED in config.endpoint.response_transforms:
            holdback = EdgeFilter(holdback)
        return ReplyDisplay(show, holdback, frozenset(names))
