"""The state of a run: its settings and its transcript.

Everything else is derived from the transcript. A `Run` is a value: it can be serialized after any
move and resumed elsewhere. A `Move` is the next step, which a driver carries out.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

import msgspec

from surecall.settings.config import ToolCallingConfig
from surecall.values.decisions import Decision, WaitingCall, approval_id
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import RunStartEvent
from surecall.values.nesting import MAX_WRAPPED_DEPTH, decode_json
from surecall.values.types import (
    JSON,
    AnswerFormat,
    Assistant,
    Message,
    Plan,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)


class AskModel(msgspec.Struct, frozen=True):
    """Send a request to the model."""

    plan: Plan


class RunTools(msgspec.Struct, frozen=True):
    """Execute these calls, in this order."""

    calls: tuple[ToolCall, ...]


class AwaitApproval(msgspec.Struct, frozen=True):
    """Pause: these calls need human approval."""

    calls: tuple[WaitingCall, ...]


class Finish(msgspec.Struct, frozen=True):
    """The run has its answer."""

    text: str
    stop_reason: str


class Fail(msgspec.Struct, frozen=True):
    """The run has ended without a usable answer."""

    code: ErrorCode
    message: str
    details: JSON = {}
    fault: Fault | None = None


Move: TypeAlias = AskModel | RunTools | AwaitApproval | Finish | Fail

# The step of an application's objection to an answer.
OBJECTION: Final = "object"
# The step that reports what is wrong with a typed answer.
OUTPUT: Final = "output"
# The step that asks about a call written as text.
TEXT_CALL: Final = "text_call"
# The step that re-prompts for a call that a reply announces but does not contain.
CALL_MISSING: Final = "call_missing"
# The step that asks about claims that no call supports.
CLAIM_UNSUPPORTED: Final = "claim_unsupported"


T = TypeVar("T")


class RunFact(Generic[T]):
    """A fact derived from a run. All facts are derived together and once, as a run is immutable."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, _: type, name: str) -> None:
        """Store the name of the fact."""
        self._name = name

    def __get__(self, run: "Run", _: object = None) -> T:
        """Derive all facts into the run's `__dict__`, which then shadows this descriptor."""
        known = run.__dict__
        known.update(_derive_facts(run))
        value: T = known[self._name]
        return value


# `dict` makes room for derived values (see `RunFact`, `once_per_run`), which equality ignores.
class Run(msgspec.Struct, frozen=True, dict=True):
    """One run: its settings and its transcript. Messages before `start` are earlier history.

    `begun` holds the ids of calls that had started when the run was interrupted; whether they took
    effect is unknown. `endpoint` identifies the address without revealing it. `decisions` holds
    the approval decisions about pending calls, by call id; `confirm` means undecided. `since` is
    the position at which the current model of a fallback chain took over. `output` is the required
    form of the final answer, if any. `own_options` are the request options of this run alone: they
    are part of `options` and kept when another model takes over.
    """

    run_id: str
    model: str
    config: ToolCallingConfig
    messages: tuple[Message, ...]
    start: int = 0
    system: System | None = None
    tools: tuple[ToolSpec, ...] = ()
    options: JSON = {}
    begun: tuple[str, ...] = ()
    endpoint: str = ""
    decisions: dict[str, Decision] = {}
    since: int = 0
    output: AnswerFormat | None = None
    own_options: JSON = {}

    own_messages = RunFact[tuple[Message, ...]]("The messages of this run.")
    last_message = RunFact[Message | None]("The newest message of this run, if any.")
    tail = RunFact[tuple[Message, ...]]("The messages after the newest reply.")
    pending_calls = RunFact[tuple[ToolCall, ...]](
        "The calls of the newest reply that have no result; none after a refusal."
    )
    replies = RunFact[tuple[Assistant, ...]]("The model's replies in this run.")
    turn_count = RunFact[int]("The number of replies in this run.")
    counted_turns = RunFact[int](
        "The number of replies that count as turns: all but those that only searched for tools."
    )
    results = RunFact[tuple[ToolResult, ...]](
        "The results of all calls of this run. A search for tools is no call."
    )
    has_called_tools = RunFact[bool]("Whether the model has called any tool.")
    answered_calls = RunFact[tuple[tuple[ToolCall, ToolResult], ...]](
        "The calls of this run that have a result, each with its result, in order."
    )
    successful_calls = RunFact[tuple[ToolCall, ...]](
        "The calls of this run that ran and succeeded, in order."
    )

    def with_messages(self, *messages: Message) -> "Run":
        """Return the run with messages appended."""
        if not messages:
            return self
        return msgspec.structs.replace(self, messages=(*self.messages, *messages))

    def until(self, position: int) -> "Run":
        """Return the run as it was before the message at a position."""
        return msgspec.structs.replace(self, messages=self.messages[:position])

    def with_results(self, results: Sequence[ToolResult]) -> "Run":
        """Return the run with results for calls of the newest reply, in the order of the calls."""
        tail_start = len(self.messages) - len(self.tail)
        order = {call.id: place for place, call in enumerate(self.replies[-1].calls)}
        answers = [item for item in self.tail if isinstance(item, ToolResult)]
        answers = sorted((*answers, *results), key=lambda result: order[result.call_id])
        ended = {result.call_id for result in results}
        return msgspec.structs.replace(
            self,
            messages=(*self.messages[:tail_start], *answers),
            begun=tuple(call_id for call_id in self.begun if call_id not in ended),
            decisions=self.decisions
            and {key: made for key, made in self.decisions.items() if key not in ended},
        )

    @property
    def origin(self) -> str:
        """The model and endpoint that the replies come from; blank if the endpoint is unknown."""
        return f"{self.model}@{self.endpoint}" if self.endpoint else ""

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that need human approval before the run can continue.

        Their arguments are copies and may be modified for display.
        """
        undecided = {
            key: decision
            for key, decision in self.decisions.items()
            if decision.outcome == "confirm"
        }
        return tuple(
            WaitingCall(
                approval_id(self.run_id, call),
                call.name,
                call.with_copied_arguments().arguments,
                undecided[call.id].reason,
                call.id,
            )
            for call in self.pending_calls
            if call.id in undecided
        )

    @property
    def was_reprompted(self) -> bool:
        """Whether the model was re-prompted for a usable reply since the newest tool result."""
        for message in reversed(self.own_messages):
            if isinstance(message, ToolResult):
                break
            if isinstance(message, User) and (
                message.is_final_request or message.rung == CALL_MISSING
            ):
                return True
        return False

    @property
    def requests_single_calls(self) -> bool:
        """Whether one call per turn is requested and `max_tool_calls_per_turn` is not set."""
        explicit = self.config.max_tool_calls_per_turn
        return explicit is None and self.options.get("parallel_tool_calls") is False

    @property
    def max_calls_per_turn(self) -> int | None:
        """The maximum number of calls to run from one reply; None means all.

        Where one call is requested, it is one until the model, after a note about it, sends several
        again: then all run, one after the other. With `calls_in_order` they always do.
        """
        if not self.requests_single_calls:
            return self.config.max_tool_calls_per_turn
        was_told = (call.is_ignored for message in self.replies for call in message.calls)
        return None if self.config.endpoint.calls_in_order or any(was_told) else 1

    @property
    def concurrency(self) -> int:
        """The maximum number of tools running at once: one, unless parallel calls are enabled."""
        parallel = self.options.get("parallel_tool_calls") is True
        return self.config.max_concurrent_tools if parallel else 1

    def to_json(self) -> bytes:
        """Return the run as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Parse a run serialized by this version or an earlier one."""
        try:
            return decode_json(data, cls, limit=MAX_WRAPPED_DEPTH)
        except msgspec.ValidationError:
            plain = decode_json(data, limit=MAX_WRAPPED_DEPTH)
            if not _has_flat_config(plain):
                raise
            config = ToolCallingConfig.from_mapping(plain["config"])
            return msgspec.convert(plain | {"config": msgspec.to_builtins(config)}, cls)


_START_FIELDS: Final = tuple(
    name
    for name in RunStartEvent.__struct_fields__
    if name in Run.__struct_fields__ and name not in {"run_id", "config"}
)


def start_fields(source: Run | RunStartEvent) -> dict[str, Any]:
    """Return the fields that a run and its first event share, besides its id and its settings."""
    return {name: getattr(source, name) for name in _START_FIELDS}


def _derive_facts(run: Run) -> dict[str, Any]:
    """Return the values of all `RunFact` attributes by name."""
    own = run.messages[run.start :]
    said = tuple([message for message in own if isinstance(message, Assistant)])
    answers = [message for message in own if isinstance(message, ToolResult)]
    results = tuple([result for result in answers if result.found is None])
    searches = {result.call_id: result.ok for result in answers if result.found is not None}
    at = len(own)
    while at and not isinstance(own[at - 1], Assistant):
        at -= 1
    tail = own[at:]
    by_id = {result.call_id: result for result in results}
    pairs = [
        (call, by_id[call.id]) for message in said for call in message.calls if call.id in by_id
    ]
    due: tuple[ToolCall, ...] = ()
    if at and len(after := [item for item in tail if isinstance(item, ToolResult)]) == len(tail):
        answered = {result.call_id for result in after}
        due = tuple([call for call in said[-1].calls if call.id not in answered])
    return {
        "own_messages": own,
        "last_message": own[-1] if own else None,
        "tail": tail,
        "pending_calls": due,
        "replies": said,
        "turn_count": len(said),
        "counted_turns": len(said) - (_count_search_turns(said, searches) if searches else 0),
        "results": results,
        "has_called_tools": any(
            call.id not in searches for message in said for call in message.calls
        ),
        "answered_calls": tuple(pairs),
        "successful_calls": tuple(
            [call for call, result in pairs if result.ok and result.executed]
        ),
    }


def count_turns(messages: Sequence[Message]) -> int:
    """Count the replies that count as turns."""
    said = [message for message in messages if isinstance(message, Assistant)]
    answers = (message for message in messages if isinstance(message, ToolResult))
    searches = {result.call_id: result.ok for result in answers if result.found is not None}
    return len(said) - _count_search_turns(said, searches)


def _count_search_turns(replies: Sequence[Assistant], search_successes: dict[str, bool]) -> int:
    """Count the turns that only searched for tools, and were allowed to."""
    return sum(
        bool(reply.calls) and all(search_successes.get(call.id, False) for call in reply.calls)
        for reply in replies
    )


def _has_flat_config(plain: Any) -> bool:
    """Whether a run was serialized when configs still held the fields of their endpoint."""
    match plain:
        case {"config": {"text_calls": _}}:
            return True
        case _:
            return False


def once_per_run(derive: Callable[[Run], T]) -> Callable[[Run], T]:
    """Cache a function's result per run; runs are immutable, so it never goes stale."""
    key = f"{derive.__module__}.{derive.__qualname__}"

    @wraps(derive)
    def cached_derive(run: Run) -> T:
        known: dict[str, T] = run.__dict__
        try:
            return known[key]
        except KeyError:
            value = known[key] = derive(run)
            return value

    return cached_derive
