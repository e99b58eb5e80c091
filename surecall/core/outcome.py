"""How a run ends: a `RunResult`, or an error that carries the same result. No work is lost."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec
from msgspec.structs import replace

from surecall.core.state import Fail, Run
from surecall.core.ways_out import false_finals
from surecall.values.decisions import WaitingCall
from surecall.values.errors import ErrorCode, Fault, ProviderError, SurecallError
from surecall.values.events import (
    CallsInOrderEvent,
    FinalEvent,
    LlmRequestEndEvent,
    ModelChangedEvent,
    RunStartEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import JSON, Assistant, Message, ToolCall, ToolResult, Usage
from surecall.wire.history import ids_of
from surecall.wire.messages import FROM_TEXT, WireStyle, render_message

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # What is not said to have a type may have any.
    T_co = TypeVar("T_co", covariant=True, default=Any)
else:  # which knows of no defaults before 3.13
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

_LIMITS = frozenset(
    {
        ErrorCode.DEADLINE_EXCEEDED,
        ErrorCode.LOOP_DETECTED,
        ErrorCode.MAX_TOOL_CALLS_EXCEEDED,
        ErrorCode.MAX_TURNS_EXCEEDED,
        ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED,
    }
)
# How a run ends whose calls are made elsewhere.
HANDED_OVER: Final = "tool_calls"
# How a run stops that a person must say something to.
WAITING: Final = "waiting"
# Told as a fault, but the endpoint has nothing to do with it.
_IN_ORDER = "calls_in_order"
# Nothing is left out of a conversation that is handed to the application.
_COMPLETE: Final = WireStyle(keep_text_beside_calls=True, echo_fields=None)
_SHOWN_TEXT, _SHOWN_REASON = 90, 32
_OF_THE_APPLICATION = frozenset({ErrorCode.CONTRACT_UNMET, ErrorCode.POLICY_ERROR})


class ToolCallRecord(msgspec.Struct, frozen=True):
    """One call of a run and its result: an `output`, or an `error` that says what went wrong."""

    id: str
    name: str
    arguments: JSON
    output: Any = None
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the tool ran and succeeded."""
        return self.error is None


class RunResult(msgspec.Struct, Generic[T_co], frozen=True):
    """The outcome of a run, finished or not. `ToolLoopRunner.resume` can continue its `run`.

    `text` is the final answer. `output` is the answer as a value of the runner's `output` type, or
    None without one; in a replay, which does not know the type, it is plain JSON.
    """

    text: str
    stop_reason: str
    usage: Usage
    trace: Trace
    run: Run
    output: T_co = None  # type: ignore[assignment]  # of a run that has none

    def __repr__(self) -> str:
        fields = (f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"RunResult({', '.join(fields)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Say how it ended, and no more: the configuration and the transcript are in `run`."""
        return [
            ("text", _shortened(self.text, _SHOWN_TEXT)),
            ("stop_reason", _shortened(self.stop_reason, _SHOWN_REASON)),
            ("turns", self.run.turn),
            ("tokens", self.usage.total_tokens),
        ]

    @property
    def assistant_text(self) -> str:
        """The final answer: another name for `text`."""
        return self.text

    @property
    def tool_calls(self) -> list[ToolCallRecord]:
        """The calls of this run that have a result, in order."""
        return [_recorded_call(call, result) for call, result in self.run.answered_calls]

    @property
    def messages(self) -> list[JSON]:
        """The conversation in OpenAI's format, as plain JSON, without the system message.

        `run(…, history=result.messages)` continues it.
        """
        rendered = (render_message(each, _COMPLETE) for each in _with_marked_ids(self.run))
        return [fields for fields in rendered if fields is not None]

    @property
    def history(self) -> list[Message]:
        """The conversation as surecall's own values, which `history=` takes as well."""
        return list(self.run.messages)

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that a person must decide about; `ToolLoopRunner.resume` takes the decisions.

        If there are any, this is no answer yet.
        """
        return self.run.waiting

    @property
    def fired(self) -> tuple[str, ...]:
        """The names of the repairs that were needed, in order, with repetitions."""
        return tuple(fired_in(self.trace))

    @property
    def models(self) -> tuple[str, ...]:
        """The models that answered, in order; of a chain it may be several."""
        return tuple(name for name, replies in replies_by_model(self.trace) if replies)

    @property
    def false_finals(self) -> int:
        """How many early answers there were: "done" while something was still to be done."""
        return false_finals(self.run)


class RunFailed(SurecallError):
    """A run ended without a usable answer. `result` holds everything up to that point."""

    def __init__(self, fail: Fail, result: RunResult) -> None:
        super().__init__(f"{fail.code}: {fail.message}")
        self._fail = fail
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes: the arguments of an exception are not its message here."""
        return type(self), (self._fail, self.result)

    @property
    def code(self) -> ErrorCode:
        """Why it ended."""
        return self._fail.code

    @property
    def details(self) -> JSON:
        """What else is known."""
        return self._fail.details


class ToolUseError(RunFailed):
    """The model did not use the tools as the run demands."""


class LimitExceeded(RunFailed):
    """A guard stopped the run."""


class RequestFailed(RunFailed, ProviderError):
    """The endpoint failed in the middle of a run."""

    def __init__(self, fail: Fail, fault: Fault, result: RunResult) -> None:
        RunFailed.__init__(self, fail, result)
        before = [f"{each['model']}: {each['code']}" for each in fail.details.get("tried", ())[:-1]]
        self.args = (f"{fault} (before: {', '.join(before)})" if before else str(fault),)
        self.fault = fault

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._fail, self.fault, self.result)


def failure(fail: Fail, result: RunResult) -> RunFailed:
    """Return the error for a failed run."""
    if fail.code in _LIMITS:
        return LimitExceeded(fail, result)
    if fail.code is ErrorCode.OUTPUT_INVALID:
        return RunFailed(fail, result)
    if fail.fault is not None and fail.code not in _OF_THE_APPLICATION:
        return RequestFailed(fail, fail.fault, result)
    return ToolUseError(fail, result)


def usage_of(trace: Trace) -> Usage:
    """Add up what the provider reported for every reply."""
    heard = (event.reply.usage for event in trace if isinstance(event, LlmRequestEndEvent))
    return sum((usage for usage in heard if usage is not None), Usage())


def fired_in(trace: Trace) -> Iterator[str]:
    """Name the repairs of every reply, of turns with too many calls, and of a typed answer."""
    for event in trace:
        match event:
            case LlmRequestEndEvent(reply=reply):
                yield from reply.fired
            case CallsInOrderEvent():
                yield _IN_ORDER
            case FinalEvent(repairs=repairs):
                yield from repairs
            case _:
                pass


def replies_by_model(trace: Trace) -> list[tuple[str, list[LlmRequestEndEvent]]]:
    """Return the models of a run in the order of their turn, each with its replies."""
    found: list[tuple[str, list[LlmRequestEndEvent]]] = []
    for event in trace:
        match event:
            case RunStartEvent(model=model) | ModelChangedEvent(model=model):
                found.append((model, []))
            case LlmRequestEndEvent() if found:
                found[-1][1].append(event)
            case _:
                pass
    return found


def after_changes(fail: Fail, trace: Trace) -> Fail:
    """Say in the details of a failure which models were tried before; none without a chain."""
    changes = [event for event in trace if isinstance(event, ModelChangedEvent)]
    if not changes:
        return fail
    tried = [
        {"model": event.before, "code": event.fault.code, "message": event.fault.message}
        for event in changes
    ]
    last = {"model": changes[-1].model, "code": fail.code, "message": fail.message}
    return msgspec.structs.replace(fail, details=fail.details | {"tried": [*tried, last]})


def _with_marked_ids(run: Run) -> Iterator[Message]:
    """Yield the messages; ids of calls that were parsed from text say so."""
    taken = ids_of(run.messages)
    ids = {
        call.id: taken.claim(FROM_TEXT + call.id)
        for message in run.messages
        if isinstance(message, Assistant)
        for call in message.calls
        if call.from_text and not call.id.startswith(FROM_TEXT)
    }
    for message in run.messages:
        if isinstance(message, Assistant) and any(call.id in ids for call in message.calls):
            calls = (replace(call, id=ids.get(call.id, call.id)) for call in message.calls)
            yield replace(message, calls=tuple(calls))
        elif isinstance(message, ToolResult) and message.call_id in ids:
            yield replace(message, call_id=ids[message.call_id])
        else:
            yield message


def _recorded_call(call: ToolCall, result: ToolResult) -> ToolCallRecord:
    own = call.private()
    envelope = result.envelope
    if result.ok:
        data: Any = envelope.get("data")
        is_wrapped = isinstance(data, dict) and data.keys() == {"value"}
        return ToolCallRecord(
            call.id, call.name, own.arguments, data["value"] if is_wrapped else data
        )
    errors = [f"{each['code']}: {each['message']}" for each in envelope.get("errors", ())]
    if result.detail:
        errors.append(result.detail)
    error = "; ".join(errors) or "the tool reported failure without a reason"
    return ToolCallRecord(call.id, call.name, own.arguments, error=error)


def _shortened(text: str, most: int) -> str:
    """Shorten a text until its `repr`, in which one character may take ten, is short as well."""
    kept = text[:most]
    while len(repr(kept)) > most + 2:
        kept = kept[: len(kept) * 3 // 4]
    return kept if kept == text else f"{kept}…"


def last_text(run: Run) -> str:
    """Return the model's newest words, the best there is when a run fails."""
    texts = [message.text for message in run.own if isinstance(message, Assistant)]
    return texts[-1] if texts else ""
