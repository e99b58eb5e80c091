"""One request of a client, answered: the same loop as everywhere, ended as soon as it owes.

    request ─► history ─► Run ─► Session ─► calls that may run, or text ─► a healed completion
                                       └► a failure, in the words of the loop

Calls that cannot run are refused here, and the model is asked again: the repair turn. What the
client gets of a turn, and what it will not send back, is remembered.
"""

import os
import time
from typing import Any

import msgspec

from surecall.core.outbound import Composer
from surecall.core.outcome import RequestFailed, RunFailed, RunResult
from surecall.core.state import Run
from surecall.core.streaming.display import Show
from surecall.core.tool_results import refusal, seal
from surecall.proxy.faces.face import Asked, Failure
from surecall.proxy.healing.healed import Head, healed
from surecall.proxy.healing.history import Entry, entries
from surecall.proxy.healing.memory import Conversation, remembered
from surecall.proxy.healing.outbound import OWNED, Outbound
from surecall.proxy.healing.settings import ProxySettings
from surecall.proxy.healing.tools import Offer, offer_of
from surecall.proxy.serving.upstream import Upstream
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.hooks import Observer
from surecall.runtime.requests import Composes, PromptRunner
from surecall.runtime.runner_checks import endpoint_of
from surecall.runtime.session import Session
from surecall.runtime.trace import Recorder
from surecall.settings.config import ToolCallingConfig
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import LlmRequestEndEvent, LlmRequestErrorEvent
from surecall.values.trace import Trace
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    System,
    ToolCall,
    ToolResult,
    User,
)
from surecall.wire.history import ids_of
from surecall.wire.messages import FROM_TEXT, WireStyle, render_message
from surecall.wire.response import read_choice

_BAD_GATEWAY = 502
_STATUSES = {
    ErrorCode.TIMEOUT: 504,
    ErrorCode.DEADLINE_EXCEEDED: 504,
    ErrorCode.CONTENT_POLICY: 400,
    ErrorCode.CONTEXT_TOO_LONG: 400,
}
_ERRORS = range(400, 600)


class Settled(msgspec.Struct, frozen=True):
    """What came of a request: a chat completion, or why there is none.

    `fired` names the repairs, `attempts` counts the requests to the upstream, `turns` the replies.
    """

    run_id: str
    body: JSON | None
    failure: Failure | None = None
    fault: Fault | None = None
    fired: tuple[str, ...] = ()
    attempts: int = 0
    turns: int = 0
    refused: tuple[str, ...] = ()
    came: Any = None


class Exchange:
    """One request of a client, and what it takes to answer it."""

    def __init__(
        self,
        asked: Asked,
        settings: ProxySettings,
        known: Conversation,
    ) -> None:
        self.run_id = os.urandom(8).hex()
        self.offer = offer_of(asked.body.get("tools") or ())
        self._asked = asked
        self._known = known
        self.observers: list[Observer] = []
        self._entries = entries(asked.body["messages"], known, self.offer.renamed)
        self._run = self._begun(settings)

    def _begun(self, settings: ProxySettings) -> Run:
        body = self._asked.body
        messages = tuple(entry.value for entry in self._entries)
        # A guard counts what the model did since the user last spoke.
        start = _since_user(messages) if settings.guards else len(messages)
        turns = sum(isinstance(message, Assistant) for message in messages[start:])
        model = str(body.get("model", ""))
        return Run(
            run_id=self.run_id,
            model=model,
            config=settings.config(model, body.get("tool_choice"), turns),
            messages=messages,
            start=start,
            tools=self.offer.specs,
            options={key: value for key, value in body.items() if key not in OWNED},
        )

    @property
    def head(self) -> JSON:
        """What the answer is called, unless the upstream says it."""
        now = int(time.time())
        return {"id": f"chatcmpl-{self.run_id}", "created": now, "model": self._run.model}

    async def settled(
        self, upstream: Upstream, retry: RetryPolicy, show: Show | None = None
    ) -> Settled:
        """Ask the upstream until the client can be given something."""
        run = msgspec.structs.replace(self._run, endpoint=endpoint_of(upstream))
        recorder = Recorder(self.run_id, self.observers)
        composer = _composer(self._asked, self._entries, self.offer, run.config)
        prompt = PromptRunner(upstream, retry=retry)
        requests = prompt.requests(run.config, self.offer.toolbox, recorder.emit, show, composer)
        dispatcher = ToolDispatcher(self.offer.toolbox, run.config, run_id=self.run_id)
        session = Session(run, requests, dispatcher, recorder, hands_over=True)
        try:
            result = await session.drive()
        except RunFailed as failed:
            return self._failed(failed)
        return self._answered(result)

    def _answered(self, result: RunResult) -> Settled:
        said = self._given_out(result.run)
        body = _last_body(result.trace)
        usage = result.usage if _replies(result.trace) > 1 else None
        head = Head(**self.head)
        answer = healed(body, said, head, self.offer.given, usage)
        ready = [call for call in said.calls if call.may_run]
        self._known.keep(ready, remembered(said, _set_aside(said, result.run.config)))
        return self._settled(result, answer)

    def _given_out(self, run: Run) -> Assistant:
        """Return the last turn; ids of calls from text say so, for the next request."""
        said = run.said[-1]
        if not any(call.from_text for call in said.calls):
            return said
        ids = ids_of(run.messages)
        calls = (
            msgspec.structs.replace(call, id=ids.claim(FROM_TEXT + call.id))
            if call.from_text
            else call
            for call in said.calls
        )
        return msgspec.structs.replace(said, calls=tuple(calls))

    def _settled(self, result: RunResult, body: JSON | None, **why: Any) -> Settled:
        trace = result.trace
        return Settled(
            self.run_id,
            body,
            fired=result.fired,
            attempts=_replies(trace) + sum(isinstance(e, LlmRequestErrorEvent) for e in trace),
            turns=result.run.turn,
            refused=tuple(code for item in result.run.results for code in item.error_codes),
            came=_first_message(trace),
            **why,
        )

    def _failed(self, failed: RunFailed) -> Settled:
        fault = failed.fault if isinstance(failed, RequestFailed) else None
        return self._settled(failed.result, None, failure=_failure(failed, fault), fault=fault)


def _composer(
    asked: Asked, history: tuple[Entry, ...], offer: Offer, config: ToolCallingConfig
) -> Composes:
    """Return what writes the requests: where calls are asked for in words, nothing can stay."""
    if config.call_protocol != "native":
        return Composer(config)
    return Outbound(asked, history, offer, config)


def _since_user(messages: tuple[Message, ...]) -> int:
    for place in range(len(messages), 0, -1):
        if _is_request(messages[place - 1]):
            return place
    return 0


def _is_request(message: Message) -> bool:
    """Whether a message comes from the user or the application; a stray tool result does not."""
    return isinstance(message, System) or (isinstance(message, User) and not message.nudge)


def _replies(trace: Trace) -> int:
    return sum(isinstance(event, LlmRequestEndEvent) for event in trace)


def _last_body(trace: Trace) -> Any:
    return next(e.body for e in reversed(trace.events) if isinstance(e, LlmRequestEndEvent))


def _first_message(trace: Trace) -> Any:
    """Return the message that came first, if any did: what had to be healed."""
    for event in trace:
        if isinstance(event, LlmRequestEndEvent):
            choice = read_choice(event.body)
            return choice.get("message") if isinstance(choice, dict) else None
    return None


def _set_aside(said: Assistant, config: ToolCallingConfig) -> list[tuple[int, JSON, ToolResult]]:
    """Return the calls of a turn that do not go out, each with its place and its refusal."""
    if all(call.may_run for call in said.calls):
        return []
    written = render_message(said, WireStyle()) or {}
    return [
        (place, fields, seal(call, refusal(call.name, call.problem), config, executed=False))
        for place, (call, fields) in enumerate(zip(said.calls, written["tool_calls"], strict=True))
        if call.problem is not None
    ]


def _failure(failed: RunFailed, fault: Fault | None) -> Failure:
    """Say in the client's terms why there is no answer."""
    problem = _last_problem(failed.result.run)
    if failed.code is ErrorCode.MAX_TURNS_EXCEEDED and problem is not None:
        message = f"the model made calls that cannot run, and did not correct them: {problem[1]}"
        return Failure(_BAD_GATEWAY, message, problem[0])
    message = failed.args[0] if fault is None else fault.message
    status = fault.status if fault is not None and fault.status in _ERRORS else None
    return Failure(
        status or _STATUSES.get(failed.code, _BAD_GATEWAY), str(message), str(failed.code)
    )


def _last_problem(run: Run) -> tuple[str, str] | None:
    calls: tuple[ToolCall, ...] = run.said[-1].calls if run.said else ()
    problems = [call.problem for call in calls if call.problem is not None]
    return (str(problems[0].code), problems[0].message) if problems else None
