"""The observer that records runs as OpenTelemetry spans.

A run has one span, with child spans for its requests and calls:

    invoke_agent      run_start … run_paused | final | run_failed
      chat            llm_request_start … llm_request_end | run_refused; attempts are its events
      execute_tool    tool_call_start … tool_call_end

Spans have the timestamps of the events, even if those are passed later. In a live run each span is
the current one while it lasts, so spans of tools and HTTP clients become its children.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from opentelemetry.context import attach, get_current
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
)

from surecall.core.outcome import APPROVAL_PENDING
from surecall.otel import attributes
from surecall.otel.attributes import Attributes
from surecall.runtime.redaction import Redactor
from surecall.values import events
from surecall.values.errors import ConfigError
from surecall.values.types import Assistant, Secret, User
from surecall.values.version import __version__

# The name of tools that do not exist: one invented by the model may contain user data.
UNKNOWN_TOOL: Final = "unknown"
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
# Events that are recorded as events of the run's span, with the recorded fields.
_RUN_EVENT_FIELDS: Final[dict[type[events.Event], tuple[str, ...]]] = {
    events.CallChangedEvent: (),
    events.CallsInOrderEvent: ("calls",),
    events.FinalObjectedEvent: (),
    events.FixEmptyFinalEvent: ("disable_tools",),
    events.ForcedContinuationEvent: ("rung", "code"),
    events.PolicyErrorEvent: ("stage",),
    events.TextCallAskedEvent: ("rule",),
    events.ToolSearchEvent: (),
    events.UnsupportedClaimEvent: (),
}
_ENDS: Final = {events.FinalEvent, events.RunFailedEvent, events.RunPausedEvent}


class SpanSettings(NamedTuple):
    """How to record a run. With a redactor, content is recorded, without known secrets."""

    tracer: Tracer
    agent: str
    endpoint_attributes: Callable[[str], Attributes]
    redactor: Redactor | None


class RunSpans:
    """Creates the spans of one run from its events, in order."""

    def __init__(self, settings: SpanSettings, start: events.RunStartEvent, *, live: bool) -> None:
        self._tracer = settings.tracer
        self._served_by = settings.endpoint_attributes
        self._outside = get_current()
        about = self._set_model(start)
        self._agent = self._tracer.start_span(
            f"invoke_agent {settings.agent}".rstrip(),
            self._outside,
            attributes=_agent_attributes(settings.agent, start) | about,
            start_time=attributes.nanoseconds(start.at),
        )
        self._inside = set_span_in_context(self._agent, self._outside)
        # Without an SDK there are no real spans.
        self.is_real = self._agent.get_span_context().is_valid
        self._live = live and self.is_real
        self._known_tools = {tool.name for tool in start.tools}
        self._chat: Span | None = None
        self._calls: dict[str, Span] = {}
        self._messages: list[str] = []
        self._redactor = settings.redactor if self._agent.is_recording() else None
        if self._redactor is not None:
            self._record_input(start)
        if self._live:
            attach(self._inside)

    def _set_model(self, event: events.RunStartEvent | events.ModelChangedEvent) -> Attributes:
        """Record the next requests as sent to this model; return its attributes."""
        about: Attributes = {
            "gen_ai.request.model": attributes.text(event.model),
            **self._served_by(event.endpoint),
        }
        self._name = f"chat {about['gen_ai.request.model']}"
        self._request = {
            "gen_ai.operation.name": "chat",
            **about,
            **attributes.request_attributes(event.options),
        }
        return about

    def record_event(self, event: events.Event) -> bool:
        """Record an event; return whether it ends the run."""
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)
        return type(event) in _ENDS

    def close(self, error: str) -> None:
        """End all open spans now, because the run was interrupted."""
        self._end_child_spans(error, None)
        self._end_span(self._agent, None, {}, error)

    def _record_input(self, start: events.RunStartEvent) -> None:
        """Record the messages and tools that the run starts with."""
        for message in (start.system, *start.messages):
            if message is not None:
                self._add_message(attributes.encode_message(message))
        tools = self._redact(attributes.encode_definitions(start.tools))
        self._agent.set_attributes({INPUT: self._transcript(), "gen_ai.tool.definitions": tools})

    def _add_message(self, message: str) -> None:
        """Add a message to the transcript, unless it is blank."""
        if self._redactor is not None and message:
            self._messages.append(self._redact(message))

    def _redact(self, document: str) -> str:
        """Return JSON without known secrets."""
        data = document.encode()
        if self._redactor is None or not self._redactor.may_match(data):
            return document
        return attributes.encode_value(self._redactor.redact_value(msgspec.json.decode(data)))

    def _transcript(self) -> str:
        """Return the messages so far as a JSON list."""
        return f"[{','.join(self._messages)}]"

    def _on_request_start(self, event: events.LlmRequestStartEvent) -> None:
        if self._chat is not None:  # another attempt at the same request
            return
        self._chat = self._start_span(self._name, self._request, event, SpanKind.CLIENT)
        if self._redactor is not None:
            self._chat.set_attribute(INPUT, self._transcript())

    def _on_request_error(self, event: events.LlmRequestErrorEvent) -> None:
        about = {
            "error.type": event.fault.code,
            "http.response.status_code": event.fault.status,
            "surecall.attempt": event.attempt,
        }
        self._add_request_event("surecall.request.failed", event, about)

    def _on_request_retry(self, event: events.LlmRequestRetryEvent) -> None:
        about = {"surecall.wait_s": event.wait_s, "surecall.dropped": event.dropped}
        self._add_request_event("surecall.request.retried", event, about)

    def _on_request_end(self, event: events.LlmRequestEndEvent) -> None:
        attrs = attributes.response_attributes(event)
        if self._redactor is not None:
            self._add_message(
                attributes.encode_message(Assistant(event.reply.text, event.reply.calls))
            )
            attrs[OUTPUT] = self._redact(attributes.encode_output(event.reply))
        self._end_request_span(attributes.nanoseconds(event.at), attrs)

    def _on_request_refused(self, event: events.RequestRefusedEvent) -> None:
        fault = event.fault
        attrs = attributes.simple_attributes({"http.response.status_code": fault.status})
        self._end_request_span(
            attributes.nanoseconds(event.at),
            attrs,
            attributes.text(fault.code) or attributes.OTHER,
            fault.message,
        )

    def _on_model_changed(self, event: events.ModelChangedEvent) -> None:
        facts = {
            "surecall.before": event.before,
            "gen_ai.request.model": event.model,
            "error.type": event.fault.code,
            "surecall.rests": event.rests,
        }
        self._agent.add_event(
            "surecall.model_changed",
            attributes.simple_attributes(facts),
            attributes.nanoseconds(event.at),
        )
        self._set_model(event)

    def _on_call_start(self, event: events.ToolCallStartEvent) -> None:
        call = event.call
        is_known = self._redactor is not None or call.name in self._known_tools
        name = attributes.text(call.name) if is_known else UNKNOWN_TOOL
        attrs: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
        }
        # The id of a call parsed from text was written by the model, so it is content.
        if self._redactor is not None or not call.from_text:
            attrs["gen_ai.tool.call.id"] = attributes.text(call.id)
        if self._redactor is not None:
            attrs["gen_ai.tool.call.arguments"] = self._redact(
                attributes.encode_value(call.arguments)
            )
        self._calls[call.id] = self._start_span(f"execute_tool {name}", attrs, event)

    def _on_call_end(self, event: events.ToolCallEndEvent) -> None:
        result = event.result
        attrs = attributes.result_attributes(event)
        if self._redactor is not None:
            self._add_message(attributes.encode_message(result))
            attrs["gen_ai.tool.call.result"] = self._redact(
                attributes.encode_value(attributes.embeddable_json(result.content))
            )
        span = self._calls.pop(result.call_id, None)
        if span is not None:
            error = str(attrs.get("error.type", ""))
            self._end_span(span, attributes.nanoseconds(event.at), attrs, error)

    def _on_final(self, event: events.FinalEvent) -> None:
        attrs = attributes.simple_attributes({"surecall.stop_reason": event.stop_reason})
        if self._redactor is not None:
            attrs[OUTPUT] = self._redact(attributes.encode_answer(event.text))
        self._end_run(event, attrs)

    def _on_paused(self, event: events.RunPausedEvent) -> None:
        attrs: Attributes = {
            "surecall.stop_reason": APPROVAL_PENDING,
            "surecall.waiting": len(event.waiting),
        }
        self._end_run(event, attrs)

    def _end_run(
        self, event: events.Event, attrs: Attributes, error: str = "", description: str = ""
    ) -> None:
        at = attributes.nanoseconds(event.at)
        self._end_child_spans(error, at)
        self._end_span(self._agent, at, attrs, error, description)

    def _on_failed(self, event: events.RunFailedEvent) -> None:
        self._end_run(event, {}, attributes.text(event.code) or attributes.OTHER, event.message)

    def _on_run_event(self, event: events.Event) -> None:
        """Record a run event; the text of a follow-up prompt is content."""
        kind = type(event)
        facts = {f"surecall.{name}": getattr(event, name) for name in _RUN_EVENT_FIELDS[kind]}
        name = f"surecall.{kind.__struct_config__.tag}"
        self._agent.add_event(
            name, attributes.simple_attributes(facts), attributes.nanoseconds(event.at)
        )
        if words := getattr(event, "text", ""):
            self._add_message(attributes.encode_message(User(words)))

    def _add_request_event(self, name: str, event: events.Event, details: dict[str, Any]) -> None:
        span = self._agent if self._chat is None else self._chat
        span.add_event(
            name, attributes.simple_attributes(details), attributes.nanoseconds(event.at)
        )

    def _start_span(
        self, name: str, attrs: Attributes, event: events.Event, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        at = attributes.nanoseconds(event.at)
        span = self._tracer.start_span(name, self._inside, kind, attrs, start_time=at)
        if self._live:
            attach(set_span_in_context(span))
        return span

    def _end_span(
        self, span: Span, end_ns: int | None, attrs: Attributes, error: str = "", words: str = ""
    ) -> None:
        """End a span; an error is its status, described if content is recorded."""
        if self._live and get_current_span() is span:
            attach(self._outside if span is self._agent else self._inside)
        if error:
            attrs["error.type"] = error
            description = (
                None
                if self._redactor is None
                else attributes.text(self._redactor.redact_text(words))
            )
            span.set_status(StatusCode.ERROR, description)
        span.set_attributes(attrs)
        span.end(end_ns)

    def _end_request_span(
        self, end_ns: int | None, attrs: Attributes, error: str = "", description: str = ""
    ) -> None:
        """End the span of the current request, if there is one."""
        if self._chat is not None:
            self._end_span(self._chat, end_ns, attrs, error, description)
            self._chat = None

    def _end_child_spans(self, error: str, end_ns: int | None) -> None:
        """End the spans of the current request and of all calls."""
        self._end_request_span(end_ns, {}, error)
        for span in self._calls.values():
            self._end_span(span, end_ns, {}, error)
        self._calls = {}

    _HANDLERS: ClassVar[dict[type[events.Event], Callable[["RunSpans", Any], None]]] = {
        events.LlmRequestStartEvent: _on_request_start,
        events.LlmRequestErrorEvent: _on_request_error,
        events.LlmRequestRetryEvent: _on_request_retry,
        events.LlmRequestEndEvent: _on_request_end,
        events.RequestRefusedEvent: _on_request_refused,
        events.ModelChangedEvent: _on_model_changed,
        events.ToolCallStartEvent: _on_call_start,
        events.ToolCallEndEvent: _on_call_end,
        events.FinalEvent: _on_final,
        events.RunPausedEvent: _on_paused,
        events.RunFailedEvent: _on_failed,
        **dict.fromkeys(_RUN_EVENT_FIELDS, _on_run_event),
    }


def _agent_attributes(name: str, start: events.RunStartEvent) -> Attributes:
    attrs: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "surecall.run.id": attributes.text(start.run_id),
    }
    return attrs | ({"gen_ai.agent.name": name} if name else {})


# The last release of the conventions that includes GenAI. They moved to another repository without
# releases; all attributes used here are in both.
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.1"
# Limits runs whose events are passed in by hand, because they may never end.
MAX_UNFINISHED_RUNS = 10_000
# Cached, because programs have few endpoints and many runs.
_endpoint_attributes: Final = lru_cache(maxsize=64)(attributes.endpoint_attributes)


class OpenTelemetry:
    """An observer that records runs as spans, following OpenTelemetry's GenAI conventions.

        ToolLoopRunner(client=…, model=…, tools=[…], observers=[OpenTelemetry()])

    Spans go to `tracer_provider`; the default is the global one. Content (messages, arguments,
    results) is only recorded with `content=True`. `agent` is the agent's name in spans. `provider`
    names a provider that cannot be inferred from the endpoint's URL.

    One observer can record any number of concurrent runs. The span of a run is a child of the
    current span where the run begins.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        content: bool = False,
        agent: str = "",
        provider: str = "",
    ) -> None:
        for name, value in {"agent": agent, "provider": provider}.items():
            if not isinstance(value, str):
                raise ConfigError(
                    f"OpenTelemetry: {name} must be a string, not {type(value).__name__}"
                )
        self._tracer = get_tracer("surecall", __version__, tracer_provider, SCHEMA_URL)
        self._agent = attributes.text(agent)
        self._content = content
        self._provider = attributes.text(provider)
        self._live_runs: dict[str, Mapping[str, object]] = {}
        self._runs: dict[str, RunSpans] = {}
        self._replayed_runs: deque[str] = deque()

    def run_entered(self, run_id: str, clients: Mapping[str, object]) -> None:
        """Register a live run and its clients."""
        self._live_runs[run_id] = clients

    def run_left(self, run_id: str, error: type[BaseException] | None) -> None:
        """End the open spans of a run that has ended or was cancelled."""
        self._live_runs.pop(run_id, None)
        self._end_unfinished(run_id, "" if error is None else error.__qualname__)

    def __call__(self, event: events.Event) -> None:
        """Record an event."""
        if isinstance(event, events.RunStartEvent):
            self._begin(event)
            return
        spans = self._runs.get(event.run_id)
        if spans is not None and spans.record_event(event):
            self._runs.pop(event.run_id, None)

    def _begin(self, start: events.RunStartEvent) -> None:
        """Start the spans of a run."""
        self._end_unfinished(start.run_id, "")
        live = start.run_id in self._live_runs
        clients = self._live_runs.get(start.run_id, {})
        spans = RunSpans(self._span_settings(clients), start, live=live)
        if not spans.is_real:
            return
        self._runs[start.run_id] = spans
        if not live:
            self._replayed_runs.append(start.run_id)
            if len(self._replayed_runs) > MAX_UNFINISHED_RUNS:
                self._end_unfinished(self._replayed_runs.popleft(), "")

    def _span_settings(self, clients: Mapping[str, object]) -> SpanSettings:
        """Return how to record a run with these clients."""

        def served_by(endpoint: str) -> Attributes:
            address = getattr(clients.get(endpoint), "base_url", "")
            return _endpoint_attributes(str(address), self._provider)

        redactor = None
        if self._content:
            redactor = Redactor([key for each in clients.values() for key in client_secrets(each)])
        return SpanSettings(self._tracer, self._agent, served_by, redactor)

    def _end_unfinished(self, run_id: str, error: str) -> None:
        """End the open spans of a run, if there are any."""
        spans = self._runs.pop(run_id, None)
        if spans is not None:
            spans.close(error)


def client_secrets(client: object) -> tuple[Secret | str, ...]:
    """Return the secrets of a client, which may be a custom one."""
    match getattr(client, "secrets", None) or getattr(client, "api_key", None):
        case None | "":
            return ()
        case Secret() | str() as key:
            return (key,)
        case several:
            return tuple(several)
