"""Runs the tool loop for one client request until there is something to return to the client.

    request ─► history ─► Run ─► Session ─► runnable calls, or text ─► repaired completion
                                       └► an error

The loop rejects invalid calls and re-prompts the model (a repair turn). What the client does not
send back of a turn is stored for its next request.
"""

import asyncio
import os
import time
from functools import partial
from typing import Any

import msgspec

from surecall.core.cut_calls import awaits_continuation
from surecall.core.outcome import RequestFailed, RunFailed, RunResult
from surecall.core.request_building import RequestBuilder
from surecall.core.state import Run, count_turns
from surecall.core.streaming import DisplayDelta, ShowDelta
from surecall.core.tool_results import build_result, refusal_envelope
from surecall.core.tool_search import (
    exposed_specs,
    is_limited,
    search_messages,
    search_results,
    with_learned_limit,
    with_room_for_other_tools,
    without_searches,
)
from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.proxy.repair.repaired_reply import DefaultHead, repair_completion
from surecall.proxy.repair.request_history import (
    ConversationMemory,
    HistoryEntry,
    build_entries,
    searches_to_remember,
    turn_to_remember,
)
from surecall.proxy.repair.upstream_request import (
    RUNNER_FIELDS,
    RequestTools,
    UpstreamRequestWriter,
)
from surecall.proxy.serving.upstream import Upstream
from surecall.runtime.dispatch import ToolDispatcher
from surecall.runtime.hooks import Observer
from surecall.runtime.recording import Recorder
from surecall.runtime.retrying_requests import PromptRunner, RequestComposer
from surecall.runtime.runner_checks import endpoint_id
from surecall.runtime.session import Session
from surecall.settings.config import ToolCallingConfig
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import LlmRequestEndEvent, LlmRequestErrorEvent
from surecall.values.trace import Trace
from surecall.values.types import JSON, Assistant, Message, System, ToolCall, ToolResult, User
from surecall.wire.apis.adapter import ClientRequest, ErrorReply
from surecall.wire.chat_format import TEXT_CALL_ID_PREFIX, WireStyle, render_message
from surecall.wire.history_repair import used_call_ids
from surecall.wire.response import parse_choice

_BAD_GATEWAY = 502
IGNORED_CALLS = "ignored_tool_calls"
_STATUSES = {
    ErrorCode.TIMEOUT: 504,
    ErrorCode.DEADLINE_EXCEEDED: 504,
    ErrorCode.CONTENT_POLICY: 400,
    ErrorCode.CONTEXT_TOO_LONG: 400,
}
_ERROR_STATUSES = range(400, 600)


class ExchangeResult(msgspec.Struct, frozen=True):
    """The result of a request: a chat completion, or the reason for the failure.

    `attempts` counts the requests to the upstream, `turns` the model's replies. `received` is the
    first message, before repairs. `lessons` are the adaptations of the last request, and `claims`
    are what the answer claims without a call.
    """

    run_id: str
    body: JSON | None
    failure: ErrorReply | None = None
    fault: Fault | None = None
    repairs: tuple[str, ...] = ()
    attempts: int = 0
    turns: int = 0
    error_codes: tuple[str, ...] = ()
    received: Any = None
    lessons: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


class ProxyExchange:
    """Produces the reply to one client request."""

    def __init__(
        self,
        client_request: ClientRequest,
        settings: ProxySettings,
        memory: ConversationMemory,
        tools: RequestTools,
    ) -> None:
        self.run_id = os.urandom(8).hex()
        self.tools = tools
        self._client_request = client_request
        self._memory = memory
        self.observers: list[Observer] = []
        self._entries = build_entries(
            client_request.body["messages"], memory, self.tools.upstream_names
        )
        self._run = self._new_run(settings)

    def _new_run(self, settings: ProxySettings) -> Run:
        body = self._client_request.body
        messages = tuple(entry.value for entry in self._entries)
        # Guards count turns since the last user message.
        start = _user_turn_start(messages) if settings.guards else len(messages)
        turns = count_turns(messages[start:])
        model = str(body.get("model", ""))
        # Without tools, text that looks like a call is the answer.
        choice = body.get("tool_choice") if body.get("tools") else "none"
        one_call = body.get("parallel_tool_calls") is False
        return Run(
            run_id=self.run_id,
            model=model,
            config=settings.config_for(model, choice, turns, one_call=one_call),
            messages=messages,
            start=start,
            tools=self.tools.specs,
            options={key: value for key, value in body.items() if key not in RUNNER_FIELDS},
        )

    @property
    def default_head(self) -> JSON:
        """Values for required fields that the upstream leaves out."""
        now = int(time.time())
        return {"id": f"chatcmpl-{self.run_id}", "created": now, "model": self._run.model}

    async def run(
        self, upstream: Upstream, retry: RetryPolicy, show: ShowDelta | None = None
    ) -> ExchangeResult:
        """Send requests to the upstream until there is a result for the client."""
        run = msgspec.structs.replace(self._run, endpoint=endpoint_id(upstream))
        recorder = Recorder(self.run_id, self.observers)
        prompt = PromptRunner(upstream, retry=retry)
        run = with_learned_limit(run, prompt.lessons.get(run.model, ()))
        run = with_room_for_other_tools(run, len(self.tools.other_tools))
        if is_limited(run):  # ranking new tools may take a while
            await asyncio.to_thread(exposed_specs, run)
        composer = _build_composer(self._client_request, self._entries, self.tools, run.config)
        sessions: list[Session] = []
        gate = None if show is None else partial(_show_answer, show, sessions)
        requests = prompt.requests(run.config, self.tools.toolbox, recorder.emit, gate, composer)
        dispatcher = ToolDispatcher(self.tools.toolbox, run.config, run_id=self.run_id)
        session = Session(run, requests, dispatcher, recorder, hands_over=True)
        sessions.append(session)
        try:
            result = await session.drive()
        except RunFailed as failed:
            return self._failure_result(failed)
        return self._completion_result(result)

    def _completion_result(self, result: RunResult) -> ExchangeResult:
        """Return the completion for the client, and store what it may not send back."""
        turn = self._final_turn(result.run)
        said = without_searches(result.run, turn)
        body = _last_body(result.trace)
        usage = result.usage if _reply_count(result.trace) > 1 else None
        head = DefaultHead(**self.default_head)
        answer = repair_completion(body, said, head, self.tools.client_names, usage)
        ready = [call for call in said.calls if call.is_runnable]
        kept = _withheld_calls(turn, result.run)
        messages = search_messages(result.run.messages[len(self._entries) :])
        searches = searches_to_remember(messages, result.run.config.endpoint.wire_style)
        self._memory.store(ready, turn_to_remember(said, kept, searches))
        return self._build_result(result, answer)

    def _final_turn(self, run: Run) -> Assistant:
        """Return the last turn, with marked ids for calls recovered from text."""
        said = run.replies[-1]
        if not any(call.from_text for call in said.calls):
            return said
        ids = used_call_ids(run.messages)
        searches = {call.id for call, _ in search_results(run)}
        calls = (
            msgspec.structs.replace(call, id=ids.claim(TEXT_CALL_ID_PREFIX + call.id))
            if call.from_text and call.id not in searches
            else call
            for call in said.calls
        )
        return msgspec.structs.replace(said, calls=tuple(calls))

    def _build_result(
        self, result: RunResult, body: JSON | None, **failure_fields: Any
    ) -> ExchangeResult:
        """Return a result with the facts of its run, and the fields of a failure."""
        trace = result.trace
        return ExchangeResult(
            self.run_id,
            body,
            repairs=(*result.repairs, *_ignored_call_repairs(trace)),
            claims=result.unsupported_claims if body is not None else (),
            attempts=_reply_count(trace) + sum(isinstance(e, LlmRequestErrorEvent) for e in trace),
            turns=result.run.turn_count,
            error_codes=tuple(code for item in result.run.results for code in item.error_codes),
            received=_first_reply(trace),
            lessons=_used_lessons(trace),
            **failure_fields,
        )

    def _failure_result(self, failed: RunFailed) -> ExchangeResult:
        fault = failed.fault if isinstance(failed, RequestFailed) else None
        return self._build_result(
            failed.result, None, failure=_error_reply(failed, fault), fault=fault
        )


def _show_answer(show: ShowDelta, sessions: list[Session], delta: DisplayDelta) -> None:
    """Show a delta, unless the reply only continues a call: a client could not withdraw it."""
    if not awaits_continuation(sessions[0].run.messages):
        show(delta)


def _build_composer(
    client_request: ClientRequest,
    history: tuple[HistoryEntry, ...],
    request_tools: RequestTools,
    config: ToolCallingConfig,
) -> RequestComposer:
    """Return the request composer. Only the native protocol can keep the client's bytes."""
    if config.call_protocol != "native":
        return RequestBuilder(config)
    return UpstreamRequestWriter(client_request, history, request_tools, config)


def _user_turn_start(messages: tuple[Message, ...]) -> int:
    """Return the position after the user's last message; 0 if there is none."""
    for place in range(len(messages), 0, -1):
        if _is_user_input(messages[place - 1]):
            return place
    return 0


def _is_user_input(message: Message) -> bool:
    """Whether a message comes from the user or the application, not from the loop."""
    return isinstance(message, System) or (isinstance(message, User) and not message.nudge)


def _reply_count(trace: Trace) -> int:
    return sum(isinstance(event, LlmRequestEndEvent) for event in trace)


def _last_body(trace: Trace) -> Any:
    """Return the body of the last response."""
    return next(e.body for e in reversed(trace.events) if isinstance(e, LlmRequestEndEvent))


def _ignored_call_repairs(trace: Trace) -> tuple[str, ...]:
    """Return `IGNORED_CALLS` if calls were withheld because the client limits or disables them."""
    events = (event for event in trace if isinstance(event, LlmRequestEndEvent))
    return (IGNORED_CALLS,) if any(event.ignored_tool_calls for event in events) else ()


def _used_lessons(trace: Trace) -> tuple[str, ...]:
    """Return how the last accepted request was adapted."""
    events = (event for event in reversed(trace.events) if isinstance(event, LlmRequestEndEvent))
    return next((event.lessons for event in events), ())


def _first_reply(trace: Trace) -> Any:
    """Return the first message from the upstream, before repairs."""
    for event in trace:
        if isinstance(event, LlmRequestEndEvent):
            choice = parse_choice(event.body)
            return choice.get("message") if isinstance(choice, dict) else None
    return None


def _withheld_calls(turn: Assistant, run: Run) -> list[tuple[int, JSON, ToolResult]]:
    """Return the calls that the client does not get, each with its position and its result.

    Those are the rejected calls and the searches for tools.
    """
    searches = {call.id: result for call, result in search_results(run)}
    if not searches and all(call.is_runnable for call in turn.calls):
        return []
    written = render_message(turn, WireStyle()) or {}
    kept = []
    for place, (call, fields) in enumerate(zip(turn.calls, written["tool_calls"], strict=True)):
        if (result := searches.get(call.id) or _rejection(call, run.config)) is not None:
            kept.append((place, fields, result))
    return kept


def _rejection(call: ToolCall, config: ToolCallingConfig) -> ToolResult | None:
    """Return the result that reports why a call is rejected; None if it is not."""
    if call.problem is None:
        return None
    envelope = refusal_envelope(call.name, call.problem)
    return build_result(call, envelope, config, executed=False)


def _error_reply(failed: RunFailed, fault: Fault | None) -> ErrorReply:
    """Return the error response for a failed run."""
    problem = _last_problem(failed.result.run)
    if failed.code is ErrorCode.MAX_TURNS_EXCEEDED and problem is not None:
        message = f"the model made invalid calls and did not correct them: {problem[1]}"
        return ErrorReply(_BAD_GATEWAY, message, problem[0])
    message = failed.args[0] if fault is None else fault.message
    status = fault.status if fault is not None and fault.status in _ERROR_STATUSES else None
    return ErrorReply(
        status or _STATUSES.get(failed.code, _BAD_GATEWAY), str(message), str(failed.code)
    )


def _last_problem(run: Run) -> tuple[str, str] | None:
    """Return the code and the message of the first problem in the last reply, if any."""
    calls: tuple[ToolCall, ...] = run.replies[-1].calls if run.replies else ()
    problems = [call.problem for call in calls if call.problem is not None]
    return (str(problems[0].code), problems[0].message) if problems else None
