"""The state of a run is its transcript; everything else here is derived from it.

A `Run` is a value. It can be written down after any move and continued elsewhere. A `Move` is what
must happen next; a driver makes it happen.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

import msgspec

from surecall.settings.config import ToolCallingConfig
from surecall.values.decisions import Decision, WaitingCall
from surecall.values.errors import ErrorCode, Fault
from surecall.values.nesting import MAX_WRAPPED_DEPTH, decode_json
from surecall.values.types import (
    JSON,
    AnswerForm,
    Assistant,
    Message,
    Plan,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)


class Ask(msgspec.Struct, frozen=True):
    """Ask the model."""

    plan: Plan


class Call(msgspec.Struct, frozen=True):
    """Answer these calls, in this order."""

    calls: tuple[ToolCall, ...]


class Wait(msgspec.Struct, frozen=True):
    """Stop here: a person must decide about these calls first."""

    calls: tuple[WaitingCall, ...]


class Done(msgspec.Struct, frozen=True):
    """The run has its answer."""

    text: str
    stop_reason: str


class Fail(msgspec.Struct, frozen=True):
    """The run has ended without a usable answer."""

    code: ErrorCode
    message: str
    details: JSON = {}
    fault: Fault | None = None


Move: TypeAlias = Ask | Call | Wait | Done | Fail

# The step of the ladder that an application's objection takes.
OBJECTION: Final = "object"
# The step that tells what is wrong with an answer that is to have a type.
OUTPUT: Final = "output"
# The step that asks about a call in text.
TEXT_CALL: Final = "text_call"
# The step that asks for a call that a reply promises and does not have.
CALL_MISSING: Final = "call_missing"


T = TypeVar("T")


class Once(Generic[T]):
    """A property of a run that is derived once: a run is a value, so it stays true.

    Other than `functools.cached_property` it takes no lock: whoever derives it twice finds the
    same.
    """

    def __init__(self, derive: Callable[[Any], T]) -> None:
        self._derive = derive
        self._name = derive.__name__
        self.__doc__ = derive.__doc__

    def __get__(self, run: "Run", _: object = None) -> T:
        """Derive it, and put it where the next look finds it instead of this."""
        value: T = self._derive(run)
        run.__dict__[self._name] = value
        return value


# `dict` leaves room for what is derived (see `Once`, `once_per_run`). It is not part of the value.
class Run(msgspec.Struct, frozen=True, dict=True):
    """One run: its settings and its transcript. Messages before `start` are earlier history.

    `begun` are the ids of calls that had begun when the run was interrupted: whether they took
    effect is not known. `endpoint` stands for the address; it says only whether it is the same.
    `decisions` are about calls that are due, by id; one that says `confirm` is still to be made.
    `since` is where the model took over from another one, in a chain of models.
    `output` is what the final answer must be, if that is said. `own_options` are request options of
    this run alone: they are part of `options` and stay when another model takes over.
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
    output: AnswerForm | None = None
    own_options: JSON = {}

    def plus(self, *messages: Message) -> "Run":
        """Return the run with messages appended."""
        if not messages:
            return self
        return msgspec.structs.replace(self, messages=(*self.messages, *messages))

    def until(self, position: int) -> "Run":
        """Return the run as it was before a message came."""
        return msgspec.structs.replace(self, messages=self.messages[:position])

    def answered(self, results: Sequence[ToolResult]) -> "Run":
        """Return the run with calls of the last turn answered, in the order of the calls."""
        said = len(self.messages) - len(self.tail)
        order = {call.id: place for place, call in enumerate(self._last_calls)}
        answers = [item for item in self.tail if isinstance(item, ToolResult)]
        answers = sorted((*answers, *results), key=lambda result: order[result.call_id])
        ended = {result.call_id for result in results}
        return msgspec.structs.replace(
            self,
            messages=(*self.messages[:said], *answers),
            begun=tuple(call_id for call_id in self.begun if call_id not in ended),
            decisions=self.decisions
            and {key: made for key, made in self.decisions.items() if key not in ended},
        )

    @property
    def origin(self) -> str:
        """Where the replies of this run come from; blank if the client does not say."""
        return f"{self.model}@{self.endpoint}" if self.endpoint else ""

    @Once
    def own(self) -> tuple[Message, ...]:
        """The messages of this run."""
        return self.messages[self.start :]

    @property
    def last(self) -> Message | None:
        """The newest message of this run, if there is one yet."""
        return self.messages[-1] if len(self.messages) > self.start else None

    @Once
    def tail(self) -> tuple[Message, ...]:
        """What came since the model last spoke."""
        at = len(self.messages)
        while at > self.start and not isinstance(self.messages[at - 1], Assistant):
            at -= 1
        return self.messages[at:]

    @Once
    def due(self) -> tuple[ToolCall, ...]:
        """The calls of the last turn that wait for an answer; a refusal ends the wait."""
        tail = self.tail
        if any(not isinstance(item, ToolResult) for item in tail):
            return ()
        answered = {item.call_id for item in tail if isinstance(item, ToolResult)}
        return tuple(call for call in self._last_calls if call.id not in answered)

    @property
    def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that a person must decide about before the run can go on.

        Their arguments are copies: whoever shows them may shorten them.
        """
        asked = {key: made for key, made in self.decisions.items() if made.outcome == "confirm"}
        return tuple(
            WaitingCall(call.id, call.name, call.private().arguments, asked[call.id].reason)
            for call in self.due
            if call.id in asked
        )

    @property
    def _last_calls(self) -> tuple[ToolCall, ...]:
        at = len(self.messages) - len(self.tail)
        said = self.messages[at - 1] if at > self.start else None
        return said.calls if isinstance(said, Assistant) else ()

    @Once
    def said(self) -> tuple[Assistant, ...]:
        """The model's turns in this run."""
        return tuple([message for message in self.own if isinstance(message, Assistant)])

    @Once
    def turn(self) -> int:
        """How many turns the model has had."""
        return len(self.said)

    @Once
    def results(self) -> tuple[ToolResult, ...]:
        """The answers to all calls of this run."""
        return tuple([message for message in self.own if isinstance(message, ToolResult)])

    @Once
    def called(self) -> bool:
        """Whether the model has made any call that counts."""
        return any(message.calls for message in self.said)

    @property
    def nudged(self) -> bool:
        """Whether, since a tool last answered, nothing usable came and was asked for again."""
        for message in reversed(self.own):
            if isinstance(message, ToolResult):
                break
            if isinstance(message, User) and (message.asks or message.rung == CALL_MISSING):
                return True
        return False

    @Once
    def answered_calls(self) -> tuple[tuple[ToolCall, ToolResult], ...]:
        """The calls of this run that were answered, each with its answer, in order."""
        results = {result.call_id: result for result in self.results}
        return tuple(
            (call, results[call.id])
            for message in self.said
            for call in message.calls
            if call.id in results
        )

    @Once
    def done(self) -> tuple[ToolCall, ...]:
        """The calls of this run that ran and succeeded, in order."""
        return tuple(call for call, result in self.answered_calls if result.ok and result.executed)

    @property
    def asks_for_one(self) -> bool:
        """Whether one call per turn is asked for, and no number of calls is set."""
        explicit = self.config.max_tool_calls_per_turn
        return explicit is None and self.options.get("parallel_tool_calls") is False

    @property
    def calls_per_turn(self) -> int | None:
        """How many calls of one turn may run.

        Where one is asked for it is one, until the model, which was told so, sends several again:
        then all run, one after the other. So they do where nobody expects the model to comply.
        """
        if not self.asks_for_one:
            return self.config.max_tool_calls_per_turn
        told = (call.ignored for message in self.said for call in message.calls)
        return None if self.config.endpoint.calls_in_order or any(told) else 1

    @property
    def concurrency(self) -> int:
        """How many tools may run at the same time; one, unless parallel calls were asked for."""
        parallel = self.options.get("parallel_tool_calls") is True
        return self.config.max_concurrent_tools if parallel else 1

    def to_json(self) -> bytes:
        """Write the run down."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Read a run that was written down, by this version or an earlier one."""
        try:
            return decode_json(data, cls, limit=MAX_WRAPPED_DEPTH)
        except msgspec.ValidationError:
            plain = decode_json(data, limit=MAX_WRAPPED_DEPTH)
            if not _has_flat_config(plain):
                raise
            config = ToolCallingConfig.from_mapping(plain["config"])
            return msgspec.convert(plain | {"config": msgspec.to_builtins(config)}, cls)


def _has_flat_config(plain: Any) -> bool:
    """Whether a run was written when a config held the fields of its endpoint as well."""
    match plain:
        case {"config": {"text_calls": _}}:
            return True
        case _:
            return False


def once_per_run(derive: Callable[[Run], T]) -> Callable[[Run], T]:
    """Remember what a function derives from a run: a run is a value, so the result stays true."""
    key = f"{derive.__module__}.{derive.__qualname__}"

    @wraps(derive)
    def derived(run: Run) -> T:
        known: dict[str, T] = run.__dict__
        try:
            return known[key]
        except KeyError:
            value = known[key] = derive(run)
            return value

    return derived
