"""The outcome of a run: a `RunResult`, or an error that carries one, so that no work is lost."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec
from msgspec.structs import replace

from surecall.core.giving_up import count_premature_answers
from surecall.core.state import Fail, Run
from surecall.core.unsupported_claims import unsupported_claims
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
from surecall.wire.chat_format import TEXT_CALL_ID_PREFIX, WireStyle, render_message
from surecall.wire.history_repair import used_call_ids

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # Without a type argument, the output may be anything.
    T_co = TypeVar("T_co", covariant=True, default=Any)
else:  # `typing.TypeVar` has no defaults before Python 3.13
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

_LIMIT_CODES = frozenset(
    {
        ErrorCode.DEADLINE_EXCEEDED,
        ErrorCode.LOOP_DETECTED,
        ErrorCode.MAX_TOOL_CALLS_EXCEEDED,
        ErrorCode.MAX_TURNS_EXCEEDED,
        ErrorCode.MAX_UNKNOWN_TOOLS_EXCEEDED,
    }
)
# Stop reason of a run whose calls are executed by the client.
TOOL_CALLS_REQUESTED: Final = "tool_calls"
# Stop reason of a run with calls that need human approval.
APPROVAL_PENDING: Final = "waiting"
# Reported as a repair, though it concerns the turn and not the reply.
_CALLS_IN_ORDER = "calls_in_order"
# The application gets the complete conversation.
_FULL_STYLE: Final = WireStyle(keep_text_beside_calls=True, echo_fields=None)
_MAX_SHOWN_TEXT, _MAX_SHOWN_REASON = 90, 32
_APPLICATION_CODES = frozenset({ErrorCode.CONTRACT_UNMET, ErrorCode.POLICY_ERROR})


class ToolCallRecord(msgspec.Struct, frozen=True):
    """One call of a run with its result: an `output`, or an `error` that describes the failure."""

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
    """The outcome of a run, finished or not. `ToolLoopRunner.resume` continues its `run`.

    `text` is the final answer. `output` is the answer as a value of the runner's `output` type, or
    None without one; a replay does not know the type and returns plain JSON.
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
        """Show how the run ended; its configuration and transcript are in `run`."""
        return [
            ("text", _shorten_repr(self.text, _MAX_SHOWN_TEXT)),
            ("stop_reason", _shorten_repr(self.stop_reason, _MAX_SHOWN_REASON)),
            ("turns", self.run.turn_count),
            ("tokens", self.usage.total_tokens),
        ]

    @property
    def assistant_text(self) -> str:
        """The final answer; an alias of `text`."""
        return self.text

    @property
    def fired(self) -> tuple[str, ...]:
        """The repairs; an alias of `repairs` for programs of earlier versions."""
        return self.repairs

    @property
    def tool_calls(self) -> list[ToolCallRecord]:
        """The calls of this run that have a result, in order."""
        return [_call_record(call, result) for call, result in self.run.answered_calls]

    @property
    def messages(self) -> list[JSON]:
        """The conversation in OpenAI's format, as plain JSON, without the system message.

        `run(…, history=result.messages)` continues it.
        """
        rendered = (render_message(each, _FULL_STYLE) for each in _with_marked_ids(self.run))
        return [fields for fields in rendered if fields is not None]

    @property
    def history(self) -> list[Message]:
        """The conversation as surecall's own messages; `history=` accepts them as well."""
        return list(self.run.messages)

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that need human approval; pass decisions to `ToolLoopRunner.resume`.

        While there are any, `text` is not the final answer.
        """
        return self.run.waiting

    @property
    def repairs(self) -> tuple[str, ...]:
        """The names of the repairs that were applied, in order, with repetitions."""
        return tuple(repairs_in(self.trace))

    @property
    def models(self) -> tuple[str, ...]:
        """The models that replied, in order; with a fallback chain there may be several."""
        return tuple(name for name, replies in replies_by_model(self.trace) if replies)

    @property
    def false_finals(self) -> int:
        """The number of premature answers: final answers before the work was done."""
        return count_premature_answers(self.run)

    @property
    def unsupported_claims(self) -> tuple[str, ...]:
        """What the answer claims to have done without a successful call, as quotations."""
        return unsupported_claims(self.run)


class RunFailed(SurecallError):
    """A run ended without a usable answer. `result` holds everything up to that point."""

    def __init__(self, fail: Fail, result: RunResult) -> None:
        super().__init__(f"{fail.code}: {fail.message}")
        self._fail = fail
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling: the constructor's arguments are not the exception's `args`."""
        return type(self), (self._fail, self.result)

    @property
    def code(self) -> ErrorCode:
        """The code of the failure."""
        return self._fail.code

    @property
    def details(self) -> JSON:
        """Further facts about the failure, by name."""
        return self._fail.details


class ToolUseError(RunFailed):
    """The model did not use the tools as the run requires."""


class LimitExceeded(RunFailed):
    """The run reached one of its limits."""


class RequestFailed(RunFailed, ProviderError):
    """A request to the endpoint failed permanently."""

    def __init__(self, fail: Fail, fault: Fault, result: RunResult) -> None:
        RunFailed.__init__(self, fail, result)
        before = [f"{each['model']}: {each['code']}" for each in fail.details.get("tried", ())[:-1]]
        self.args = (f"{fault} (before: {', '.join(before)})" if before else str(fault),)
        self.fault = fault

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._fail, self.fault, self.result)


def run_error(fail: Fail, result: RunResult) -> RunFailed:
    """Return the error for a failed run."""
    if fail.code in _LIMIT_CODES:
        return LimitExceeded(fail, result)
    if fail.code is ErrorCode.OUTPUT_INVALID:
        return RunFailed(fail, result)
    if fail.fault is not None and fail.code not in _APPLICATION_CODES:
        return RequestFailed(fail, fail.fault, result)
    return ToolUseError(fail, result)


def total_usage(trace: Trace) -> Usage:
    """Return the sum of the usage that the provider reported for each reply."""
    reported = (event.reply.usage for event in trace if isinstance(event, LlmRequestEndEvent))
    return sum((usage for usage in reported if usage is not None), Usage())


def repairs_in(trace: Trace) -> Iterator[str]:
    """Yield the repairs of every reply, of turns with too many calls, and of a typed answer."""
    for event in trace:
        match event:
            case LlmRequestEndEvent(reply=reply):
                yield from reply.fired
            case CallsInOrderEvent():
                yield _CALLS_IN_ORDER
            case FinalEvent(repairs=repairs):
                yield from repairs
            case _:
                pass


def replies_by_model(trace: Trace) -> list[tuple[str, list[LlmRequestEndEvent]]]:
    """Return the models of a run in order, each with its replies."""
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


def with_tried_models(fail: Fail, trace: Trace) -> Fail:
    """Add the models tried before to a failure's details; unchanged without a fallback chain."""
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
    """Yield the messages, with the ids of calls parsed from text marked by a prefix."""
    taken = used_call_ids(run.messages)
    ids = {
        call.id: taken.claim(TEXT_CALL_ID_PREFIX + call.id)
        for message in run.messages
        if isinstance(message, Assistant)
        for call in message.calls
        if call.from_text and not call.id.startswith(TEXT_CALL_ID_PREFIX)
    }
    for message in run.messages:
        if isinstance(message, Assistant) and any(call.id in ids for call in message.calls):
            calls = (replace(call, id=ids.get(call.id, call.id)) for call in message.calls)
            yield replace(message, calls=tuple(calls))
        elif isinstance(message, ToolResult) and message.call_id in ids:
            yield replace(message, call_id=ids[message.call_id])
        else:
            yield message


def _call_record(call: ToolCall, result: ToolResult) -> ToolCallRecord:
    own = call.with_copied_arguments()
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


def _shorten_repr(text: str, max_length: int) -> str:
    """Shorten a text until its `repr`, in which a character may take ten, is short as well."""
    kept = text[:max_length]
    while len(repr(kept)) > max_length + 2:
        kept = kept[: len(kept) * 3 // 4]
    return kept if kept == text else f"{kept}…"


def last_text(run: Run) -> str:
    """Return the text of the newest reply; a failed run has no better answer."""
    texts = [message.text for message in run.own_messages if isinstance(message, Assistant)]
    return texts[-1] if texts else ""
