"""The spans of one run: one around it, one for each request and one for each call.

    invoke_agent      run_start … run_paused | final | run_failed
      chat            llm_request_start … llm_request_end | run_refused; attempts are its events
      execute_tool    tool_call_start … tool_call_end

They begin and end when the events say so, whenever those are heard. In a run that is live each is
the current span of what works for it: what a tool or an HTTP client records is below it.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from opentelemetry.context import attach, get_current
from opentelemetry.trace import (
    Span,
    SpanKind,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from surecall.core.outcome import WAITING
from surecall.otel.attributes import (
    OTHER,
    Attributes,
    nanoseconds,
    of_options,
    of_reply,
    of_result,
    plain,
    text,
)
from surecall.otel.messages import (
    answer_of,
    as_json,
    definitions_of,
    message_of,
    outputs_of,
    reply_of,
    said_by_user,
    written,
)
from surecall.runtime.redaction import Redactor
from surecall.values.events import (
    CallChangedEvent,
    CallsInOrderEvent,
    Event,
    FinalEvent,
    FinalObjectedEvent,
    FixEmptyFinalEvent,
    ForcedContinuationEvent,
    LlmRequestEndEvent,
    LlmRequestErrorEvent,
    LlmRequestRetryEvent,
    LlmRequestStartEvent,
    ModelChangedEvent,
    PolicyErrorEvent,
    RequestRefusedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunStartEvent,
    TextCallAskedEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)

# What a tool is called that the model made up: its name may be what somebody has said.
UNKNOWN_TOOL: Final = "unknown"
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
# Events that are told by the span of the run, with what is told of each.
_TOLD: Final[dict[type[Event], tuple[str, ...]]] = {
    CallChangedEvent: (),
    CallsInOrderEvent: ("calls",),
    FinalObjectedEvent: (),
    FixEmptyFinalEvent: ("disable_tools",),
    ForcedContinuationEvent: ("rung", "code"),
    PolicyErrorEvent: ("stage",),
    TextCallAskedEvent: ("rule",),
}
_ENDS: Final = {FinalEvent, RunFailedEvent, RunPausedEvent}


class Manner(NamedTuple):
    """How a run is told: by which tracer, of which agent, and what is known of an endpoint.

    With a redactor, what was said is told as well, without the secrets that it knows.
    """

    tracer: Tracer
    agent: str
    served_by: Callable[[str], Attributes]
    redactor: Redactor | None


class RunSpans:
    """Makes the spans of one run from its events, in their order."""

    def __init__(self, manner: Manner, start: RunStartEvent, *, live: bool) -> None:
        self._tracer = manner.tracer
        self._served_by = manner.served_by
        self._outside = get_current()
        about = self._asks(start)
        self._agent = self._tracer.start_span(
            f"invoke_agent {manner.agent}".rstrip(),
            self._outside,
            attributes=_agent(manner.agent, start) | about,
            start_time=nanoseconds(start.at),
        )
        self._inside = set_span_in_context(self._agent, self._outside)
        # Without an SDK there is no span, and nobody to tell.
        self.is_real = self._agent.get_span_context().is_valid
        self._live = live and self.is_real
        self._known = {tool.name for tool in start.tools}
        self._chat: Span | None = None
        self._calls: dict[str, Span] = {}
        self._said: list[str] = []
        self._redactor = manner.redactor if self._agent.is_recording() else None
        if self._redactor is not None:
            self._quote(start)
        if self._live:
            attach(self._inside)

    def _asks(self, event: RunStartEvent | ModelChangedEvent) -> Attributes:
        """Tell from now on that this model is asked; return who it is, and where."""
        about: Attributes = {
            "gen_ai.request.model": text(event.model),
            **self._served_by(event.endpoint),
        }
        self._name = f"chat {about['gen_ai.request.model']}"
        self._request = {"gen_ai.operation.name": "chat", **about, **of_options(event.options)}
        return about

    def hear(self, event: Event) -> bool:
        """Tell an event; say whether the run is over."""
        heard = self._HEARD.get(type(event))
        if heard is not None:
            heard(self, event)
        return type(event) in _ENDS

    def close(self, error: str) -> None:
        """End here and now what has not ended: it was cut short."""
        self._end_parts(error, None)
        self._end(self._agent, None, {}, error)

    def _quote(self, start: RunStartEvent) -> None:
        for message in (start.system, *start.messages):
            if message is not None:
                self._say(message_of(message))
        tools = self._clean(definitions_of(start.tools))
        self._agent.set_attributes({INPUT: self._transcript(), "gen_ai.tool.definitions": tools})

    def _say(self, message: str) -> None:
        """Add a message to what was said; blank is none."""
        if self._redactor is not None and message:
            self._said.append(self._clean(message))

    def _clean(self, written_down: str) -> str:
        """Take known secrets out of JSON."""
        data = written_down.encode()
        if self._redactor is None or not self._redactor.suspects(data):
            return written_down
        return written(self._redactor.value(msgspec.json.decode(data)))

    def _transcript(self) -> str:
        return f"[{','.join(self._said)}]"

    def _request_started(self, event: LlmRequestStartEvent) -> None:
        if self._chat is not None:  # another attempt at the same request
            return
        self._chat = self._begin(self._name, self._request, event, SpanKind.CLIENT)
        if self._redactor is not None:
            self._chat.set_attribute(INPUT, self._transcript())

    def _request_failed(self, event: LlmRequestErrorEvent) -> None:
        about = {
            "error.type": event.fault.code,
            "http.response.status_code": event.fault.status,
            "surecall.attempt": event.attempt,
        }
        self._note("surecall.request.failed", event, about)

    def _request_retried(self, event: LlmRequestRetryEvent) -> None:
        about = {"surecall.wait_s": event.wait_s, "surecall.dropped": event.dropped}
        self._note("surecall.request.retried", event, about)

    def _request_ended(self, event: LlmRequestEndEvent) -> None:
        told = of_reply(event)
        if self._redactor is not None:
            self._say(reply_of(event.reply))
            told[OUTPUT] = self._clean(outputs_of(event.reply))
        self._end_chat(nanoseconds(event.at), told)

    def _request_refused(self, event: RequestRefusedEvent) -> None:
        fault = event.fault
        told = plain({"http.response.status_code": fault.status})
        self._end_chat(nanoseconds(event.at), told, text(fault.code) or OTHER, fault.message)

    def _model_changed(self, event: ModelChangedEvent) -> None:
        facts = {
            "surecall.before": event.before,
            "gen_ai.request.model": event.model,
            "error.type": event.fault.code,
            "surecall.rests": event.rests,
        }
        self._agent.add_event("surecall.model_changed", plain(facts), nanoseconds(event.at))
        self._asks(event)

    def _call_started(self, event: ToolCallStartEvent) -> None:
        call = event.call
        known = self._redactor is not None or call.name in self._known
        name = text(call.name) if known else UNKNOWN_TOOL
        told: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
        }
        # In a call that was read from text the model has written the id, too.
        if self._redactor is not None or not call.from_text:
            told["gen_ai.tool.call.id"] = text(call.id)
        if self._redactor is not None:
            told["gen_ai.tool.call.arguments"] = self._clean(written(call.arguments))
        self._calls[call.id] = self._begin(f"execute_tool {name}", told, event)

    def _call_ended(self, event: ToolCallEndEvent) -> None:
        result = event.result
        told = of_result(event)
        if self._redactor is not None:
            self._say(message_of(result))
            told["gen_ai.tool.call.result"] = self._clean(written(as_json(result.content)))
        span = self._calls.pop(result.call_id, None)
        if span is not None:
            error = str(told.get("error.type", ""))
            self._end(span, nanoseconds(event.at), told, error)

    def _ended(self, event: FinalEvent) -> None:
        told = plain({"surecall.stop_reason": event.stop_reason})
        if self._redactor is not None:
            told[OUTPUT] = self._clean(answer_of(event.text))
        self._stop(event, told)

    def _paused(self, event: RunPausedEvent) -> None:
        told: Attributes = {"surecall.stop_reason": WAITING, "surecall.waiting": len(event.waiting)}
        self._stop(event, told)

    def _stop(self, event: Event, told: Attributes, error: str = "", words: str = "") -> None:
        at = nanoseconds(event.at)
        self._end_parts(error, at)
        self._end(self._agent, at, told, error, words)

    def _failed(self, event: RunFailedEvent) -> None:
        self._stop(event, {}, text(event.code) or OTHER, event.message)

    def _tell(self, event: Event) -> None:
        """Tell what the loop has done about a reply; what it has said belongs to the content."""
        kind = type(event)
        facts = {f"surecall.{name}": getattr(event, name) for name in _TOLD[kind]}
        name = f"surecall.{kind.__struct_config__.tag}"
        self._agent.add_event(name, plain(facts), nanoseconds(event.at))
        if words := getattr(event, "text", ""):
            self._say(said_by_user(words))

    def _note(self, name: str, event: Event, about: dict[str, Any]) -> None:
        span = self._agent if self._chat is None else self._chat
        span.add_event(name, plain(about), nanoseconds(event.at))

    def _begin(
        self, name: str, told: Attributes, event: Event, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        at = nanoseconds(event.at)
        span = self._tracer.start_span(name, self._inside, kind, told, start_time=at)
        if self._live:
            attach(set_span_in_context(span))
        return span

    def _end(
        self, span: Span, at: int | None, told: Attributes, error: str = "", words: str = ""
    ) -> None:
        if self._live and get_current_span() is span:
            attach(self._outside if span is self._agent else self._inside)
        if error:
            told["error.type"] = error
            said = None if self._redactor is None else text(self._redactor.text(words))
            span.set_status(StatusCode.ERROR, said)
        span.set_attributes(told)
        span.end(at)

    def _end_chat(self, at: int | None, told: Attributes, error: str = "", words: str = "") -> None:
        if self._chat is not None:
            self._end(self._chat, at, told, error, words)
            self._chat = None

    def _end_parts(self, error: str, at: int | None) -> None:
        self._end_chat(at, {}, error)
        for span in self._calls.values():
            self._end(span, at, {}, error)
        self._calls = {}

    _HEARD: ClassVar[dict[type[Event], Callable[["RunSpans", Any], None]]] = {
        LlmRequestStartEvent: _request_started,
        LlmRequestErrorEvent: _request_failed,
        LlmRequestRetryEvent: _request_retried,
        LlmRequestEndEvent: _request_ended,
        RequestRefusedEvent: _request_refused,
        ModelChangedEvent: _model_changed,
        ToolCallStartEvent: _call_started,
        ToolCallEndEvent: _call_ended,
        FinalEvent: _ended,
        RunPausedEvent: _paused,
        RunFailedEvent: _failed,
        **dict.fromkeys(_TOLD, _tell),
    }


def _agent(name: str, start: RunStartEvent) -> Attributes:
    told: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "surecall.run.id": text(start.run_id),
    }
    return told | ({"gen_ai.agent.name": name} if name else {})
