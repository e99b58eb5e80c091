"""One request: its bytes go out through a client, and the answer comes back decoded.

    bytes ─ client.send ─────────────────────────► answer ─ read ──────► body, or a `Fault`
          ─ client.stream ─► chunks ─► deltas, shown ─► assembled ─┘

Keys that an endpoint echoes are taken out here, before anything else sees the answer.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, ParamSpec, TypeVar

import msgspec

from surecall.core.endpoint_lessons import STREAM
from surecall.core.outbound import Request, preflight
from surecall.core.streaming.body_reader import Listener
from surecall.core.streaming.display import Display
from surecall.parsing.budget import TooManyValues
from surecall.runtime.redaction import Redactor
from surecall.runtime.transport import Client, Incoming
from surecall.runtime.turns import turn
from surecall.settings.capabilities import Capabilities, check_budget, estimate_tokens
from surecall.settings.connection import DEFAULT_LIMITS, Limits
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.types import JSON, Answer, Plan
from surecall.wire.assembler import Assembler, Delta, TextDelta
from surecall.wire.messages import decode, scrub
from surecall.wire.response import fault_of
from surecall.wire.transforms.inbound import failed_generation

MAX_QUOTE = 400
# In bytes. Reading this much takes a few hundredths of a second, whatever it is.
LARGE = 128 * 1024
# In bytes, of a stream. Reading this much takes a few milliseconds.
PIECE = 8 * 1024
P = ParamSpec("P")
R = TypeVar("R")


class Received(NamedTuple):
    """A decoded answer, how many bytes it took, and whether it came as a stream.

    `waited_s` is how long the request was held back before it was sent.
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
        self._redact_answer = Redactor(key, wary=False)
        self._redact_fault = Redactor(key)

    def read(self, answer: Answer) -> Any:
        """Decode an answer; whatever it echoes, the client's key is not in what is returned."""
        body = read_body(answer, self._limits)
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

    @property
    def _limits(self) -> Limits:
        limits: Limits = getattr(self.client, "limits", DEFAULT_LIMITS)
        return limits

    def redacted(self, fault: Fault) -> Fault:
        """Take keys out of what an endpoint says about a failure."""
        return self._redact_fault.fault(fault)

    def check(self, plan: Plan, request: Request) -> None:
        """Refuse what the endpoint is known not to serve, before anything is sent."""
        preflight(plan, self._capabilities)
        if self._capabilities is not None:
            tokens = estimate_tokens(request.body.decode())
            if (sentence := check_budget(tokens, self._capabilities)) is not None:
                raise ProviderError(Fault(ErrorCode.CONTEXT_TOO_LONG, sentence))

    async def send(
        self, plan: Plan, request: Request, display: Display | None, max_tool_args_bytes: int
    ) -> Received:
        """Send a request and return the decoded answer; every failure is a `Fault` in it."""
        stream = getattr(self.client, "stream", None) if STREAM in plan.options else None
        try:
            if stream is None or display is None:
                answer = await self.client.send(request.body)
                await turn()
                size = len(answer.body)
                body = await aside(size, self.read, answer)
                return Received(body, size, waited_s=answer.waited_s)
            names = [tool.name for tool in plan.tools]
            most = self._limits.max_response_bytes
            assembler = Assembler(names, max_tool_args_bytes, _judged, most)
            return await self._streamed(stream(request.body), assembler, display)
        except ProviderError as error:
            return Received(error.fault, 0)
        except OSError as error:  # of a client that is not ours
            message = f"the client raised {type(error).__name__}"
            return Received(Fault(ErrorCode.CONNECTION_ERROR, message, retryable=True), 0)

    async def _streamed(
        self,
        opening: AbstractAsyncContextManager[Incoming],
        assembler: Assembler,
        display: Display,
    ) -> Received:
        """Read an answer while it arrives, and show what may be shown."""
        async with opening as incoming:
            is_plain = not is_success(incoming.status)
            most = self._limits.max_response_bytes
            listener = Listener(assembler, most, is_plain=is_plain)
            async for piece in _in_pieces(incoming.chunks):
                # An event that took many pieces is read when its last one is there.
                size = listener.waiting + len(piece)
                await _show(display, await aside(size, listener.feed, piece))
                if listener.ended:
                    break
        await _show(display, await aside(listener.waiting, listener.close))
        body = await aside(listener.size, listener.finish)
        if isinstance(body, bytes):
            answer = Answer(incoming.status, incoming.headers, body)
            body = await aside(listener.size, self.read, answer)
        elif not isinstance(body, Fault):
            body = await aside(listener.size, self.assembled, body)
        return Received(body, listener.size, listener.is_stream)


async def _in_pieces(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Cut what arrives into pieces that are read quickly; between two, other runs go on."""
    async for chunk in chunks:
        for at in range(0, len(chunk), PIECE):
            await turn()
            yield chunk[at : at + PIECE]


async def _show(display: Display, deltas: list[Delta]) -> None:
    """Show what is new; much text bit by bit, so that other runs go on meanwhile."""
    for delta in deltas:
        if not isinstance(delta, TextDelta) or len(delta.text) <= PIECE:
            display.feed(delta)
            continue
        for at in range(0, len(delta.text), PIECE):
            await turn()
            display.feed(TextDelta(delta.text[at : at + PIECE]))


def _judged(holder: JSON) -> Fault:
    return fault_of(holder, None, {}, time.time())


def is_success(status: int) -> bool:
    """Whether a status is of the class of successes."""
    return 200 <= status < 300  # noqa: PLR2004  # see above


async def aside(size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Read an answer; a large one in a thread, so that other runs go on meanwhile."""
    if size <= LARGE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


def read_body(answer: Answer, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Decode an answer; a bad status or a body that is not JSON is a `Fault`."""
    try:
        body = decode(answer.body, limits.max_response_values)
    except TooManyValues:
        sentence = f"The answer holds more than {limits.max_response_values} values."
        return Fault(ErrorCode.RESPONSE_TOO_LARGE, sentence, answer.status)
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
