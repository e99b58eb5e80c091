"""Replay: the loop driven by a recording instead of a network, tools or a clock.

Every request is composed again and its hash compared; every raw answer is read again and compared
with what was read then. Either the same run comes out, or the first divergence is named.

A trace holds what was said, not the bodies of requests, which repeat it turn by turn.
`sent_requests` composes them again, and says of each whether it is what was sent, byte by byte.
"""

from collections import deque
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

import msgspec

from surecall.core.approvals import changed, held_again, is_stopped
from surecall.core.effects import unfinished
from surecall.core.endpoint_lessons import applied, with_stream
from surecall.core.fallback import taken_over
from surecall.core.inbound import inbound
from surecall.core.loop import heard, next_move, objected, ran, refused
from surecall.core.outbound import Composer, Request
from surecall.core.outcome import WAITING, RunResult, last_text, usage_of
from surecall.core.state import OBJECTION, OUTPUT, Ask, Call, Done, Fail, Move, Run, Wait
from surecall.core.typed_answers import typed_answer
from surecall.settings.config import ToolCallingConfig
from surecall.settings.overlay import union
from surecall.tools.registry import ToolRegistry, registry_of
from surecall.values.decisions import WaitingCall
from surecall.values.errors import ReplayDiverged, SurecallError
from surecall.values.events import (
    CallChangedEvent,
    FinalEvent,
    FinalObjectedEvent,
    LlmRequestEndEvent,
    LlmRequestRetryEvent,
    LlmRequestStartEvent,
    ModelChangedEvent,
    RequestRefusedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunStartEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import JSON, Plan, ToolCall, ToolSpec
from surecall.wire.messages import encode

_Recorded = (
    LlmRequestEndEvent
    | CallChangedEvent
    | ToolCallEndEvent
    | FinalObjectedEvent
    | RequestRefusedEvent
    | RunPausedEvent
    | ModelChangedEvent
    | FinalEvent
    | RunFailedEvent
)
T = TypeVar(
    "T",
    LlmRequestEndEvent,
    CallChangedEvent,
    ToolCallEndEvent,
    FinalObjectedEvent,
    RequestRefusedEvent,
    RunPausedEvent,
    ModelChangedEvent,
    FinalEvent,
    RunFailedEvent,
)


def replay(trace: Trace) -> RunResult:
    """Go through a recorded run again; raise `ReplayDiverged` where it takes another turn."""
    return _Replay(trace).drive()


class SentRequest(msgspec.Struct, frozen=True):
    """The request of a turn, composed again. `exact` says that its hash is the recorded one."""

    turn: int
    body: bytes
    exact: bool


def sent_requests(trace: Trace) -> list[SentRequest]:
    """Return the requests of a recorded run, as far as they can be composed again."""
    found: list[SentRequest] = []
    # Another version of this code may have recorded what it now does otherwise.
    with suppress(SurecallError):
        _Retold(trace, found).gather()
    return found


def run_of(trace: Trace) -> Run:
    """Return the run up to the last complete move of a recording, be it cut by a crash.

    `ToolLoopRunner.resume` takes it from there. A call that had begun and has no recorded result
    does not run again, unless its tool is read-only or idempotent: nobody knows what came of it.
    """
    if at := [event.turn for event in trace if event.redacted]:
        raise ReplayDiverged(at[0], "a secret was taken out of the recording, so it cannot go on")
    return _Replay(trace).gather()


class _Replay:
    def __init__(self, trace: Trace) -> None:
        if not len(trace) or not isinstance(trace[0], RunStartEvent):
            raise ReplayDiverged(0, "the recording does not begin with run_start")
        start = trace[0]
        self._trace = trace
        self._config, self._registry = self._told(start)
        self._composer = Composer(self._config)
        self._events = deque(
            event for event in trace if isinstance(event, _Recorded) and not _is_derived(event)
        )
        self._run = Run(
            run_id=start.run_id,
            model=start.model,
            config=self._config,
            messages=start.messages,
            start=start.start,
            system=start.system,
            tools=tuple(definition.spec for definition in self._registry.definitions),
            options=start.options,
            begun=start.begun,
            endpoint=start.endpoint,
            decisions=start.decisions,
            since=start.since,
            output=start.output,
        )

    def _told(self, start: RunStartEvent) -> tuple[ToolCallingConfig, ToolRegistry]:
        """Return what the run was told: its settings, and its tools."""
        return _read(start.config, start.tools)

    def drive(self) -> RunResult:
        run = self._run
        while isinstance(move := next_move(run), Ask | Call) or self._goes_on(move):
            run = self._step(run, move)
        result = self._end(run, move)
        if self._events:
            raise ReplayDiverged(run.turn, "the recording goes on after the run has ended")
        return result

    def gather(self) -> Run:
        run = self._run
        while self._events and (
            isinstance(move := next_move(run), Ask | Call) or self._goes_on(move)
        ):
            run = self._step(run, move)
        started = (event for event in self._trace if isinstance(event, ToolCallStartEvent))
        return unfinished(run, (event.call for event in started))

    def _goes_on(self, move: Move) -> bool:
        """Whether this was not the end: another model went on, or the application objected.

        It may also have been unable to judge an answer, or more calls were left to a person.
        """
        match move, self._events[0] if self._events else None:
            case Done(), FinalObjectedEvent() | RequestRefusedEvent():
                return True
            case Fail(), ModelChangedEvent():
                return True
            case Wait(calls), RunPausedEvent(waiting=waiting):
                return calls != waiting
            case _:
                return False

    def _step(self, run: Run, move: Move) -> Run:
        match self._next(run), move:
            case RequestRefusedEvent(), _:
                return refused(run, self._take(run, RequestRefusedEvent).fault)
            case ModelChangedEvent(), _:
                return self._change(run, self._take(run, ModelChangedEvent))
            case _, Ask(plan):
                return self._ask(run, plan)
            case CallChangedEvent(), Call():
                return changed(run, self._take(run, CallChangedEvent).call)
            case RunPausedEvent(waiting=waiting), Call() | Wait():
                return self._held(run, waiting)
            case _, Call(calls):
                return self._call(run, calls)
            case _:
                objection = self._take(run, FinalObjectedEvent)
                return objected(
                    run, objection.reason, OUTPUT if objection.by == "type" else OBJECTION
                )

    def _change(self, run: Run, to: ModelChangedEvent) -> Run:
        self._config = ToolCallingConfig.from_mapping(to.config)
        self._composer = Composer(self._config)
        after = taken_over(run, to.model, self._config, to.options, to.endpoint)
        if after is None or after.config != self._config:
            raise ReplayDiverged(run.turn, f"{to.model} cannot go on with the run as it was")
        return after

    def _ask(self, run: Run, plan: Plan) -> Run:
        recorded = self._take(run, LlmRequestEndEvent)
        request = self._composed(plan, recorded.lessons, streamed=recorded.streamed)
        if request.hash != recorded.request_hash:
            raise ReplayDiverged(run.turn, "the request differs from the recorded one")
        if (reply := inbound(recorded.body, plan, self._config, self._registry)) != recorded.reply:
            raise ReplayDiverged(
                run.turn,
                f"the answer reads as {reply!r:.200}, recorded was {recorded.reply!r:.200}",
            )
        return heard(run, recorded.reply)

    def _composed(self, plan: Plan, lessons: tuple[str, ...], *, streamed: bool) -> Request:
        spoken = self._composer.speak(plan)
        return self._composer.compose(applied(with_stream(spoken) if streamed else spoken, lessons))

    def _call(self, run: Run, calls: tuple[ToolCall, ...]) -> Run:
        """Take the next result; of calls that ran at the same time, any may have been first."""
        result = self._take(run, ToolCallEndEvent).result
        if result.call_id not in {call.id for call in calls}:
            due = ", ".join(repr(call.id) for call in calls)
            raise ReplayDiverged(run.turn, f"call {due} is due, recorded is {result.call_id!r}")
        return ran(run, [result])

    def _held(self, run: Run, waiting: tuple[WaitingCall, ...]) -> Run:
        """Let calls wait for a person, as the policy said then."""
        stopped = held_again(run, waiting)
        if not is_stopped(stopped) or stopped.waiting != waiting:
            raise ReplayDiverged(run.turn, "the run stops for other calls")
        return stopped

    def _end(self, run: Run, move: Wait | Done | Fail) -> RunResult:
        usage = usage_of(self._trace)
        match move:
            case Wait():
                self._take(run, RunPausedEvent)
                return RunResult(last_text(run), WAITING, usage, self._trace, run)
            case Done(text, stop_reason):
                recorded = self._take(run, FinalEvent)
                if (text, stop_reason) != (recorded.text, recorded.stop_reason):
                    raise ReplayDiverged(run.turn, "the run ends with another answer")
                answer = typed_answer(run)
                output = None if answer is None else answer.value
                return RunResult(text, stop_reason, usage, self._trace, run, output)
            case Fail(code, message):
                stopped = self._take(run, RunFailedEvent)
                if code != stopped.code:
                    raise ReplayDiverged(
                        run.turn, f"the run fails with {code} ({message}), not {stopped.code}"
                    )
                return RunResult(last_text(run), code, usage, self._trace, run)

    def _next(self, run: Run) -> _Recorded:
        if not self._events:
            raise ReplayDiverged(run.turn, "the recording ends before the run does")
        return self._events[0]

    def _take(self, run: Run, kind: type[T]) -> T:
        event = self._next(run)
        if not isinstance(event, kind):
            raise ReplayDiverged(
                run.turn, f"{kind.__name__} is due, recorded is {type(event).__name__}"
            )
        self._events.popleft()
        return event


def _is_derived(event: _Recorded) -> bool:
    """Whether the loop comes to an event by itself: what a schema objects to, it always does."""
    return isinstance(event, FinalObjectedEvent) and event.by == "schema"


class _Retold(_Replay):
    """Goes through a recording and notes each request. What was read is taken as it was read."""

    def __init__(self, trace: Trace, found: list[SentRequest]) -> None:
        super().__init__(trace)
        self._found = found
        # By model and turn: another model of a chain takes the same turn again.
        self._hashes: dict[tuple[int, int], set[str]] = {}
        self._dropped: dict[tuple[int, int], tuple[str, ...]] = {}
        model = 0
        for event in trace:
            if isinstance(event, LlmRequestStartEvent):
                self._hashes.setdefault((model, event.turn), set()).add(event.request_hash)
            elif isinstance(event, LlmRequestRetryEvent) and event.dropped:
                known = self._dropped.get((model, event.turn), ())
                self._dropped[model, event.turn] = (*known, event.dropped)
            elif isinstance(event, ModelChangedEvent):
                model += 1
        self._lessons: tuple[str, ...] = ()
        self._model = 0

    def _change(self, run: Run, to: ModelChangedEvent) -> Run:
        self._lessons = ()
        self._model += 1
        return super()._change(run, to)

    def _told(self, start: RunStartEvent) -> tuple[ToolCallingConfig, ToolRegistry]:
        """Return the same, read once for all runs that were told it: none of them gets it."""
        return _read_again(encode(msgspec.to_builtins(_Told(start.config, start.tools))))

    def _step(self, run: Run, move: Move) -> Run:
        if isinstance(move, Ask) and (self._model, run.turn) in self._hashes:
            self._tell(run, move.plan)
        return super()._step(run, move)

    def _tell(self, run: Run, plan: Plan) -> None:
        event = self._next(run)
        streamed = False
        if isinstance(event, LlmRequestEndEvent):
            self._lessons, streamed = event.lessons, event.streamed
        else:  # refused for good; what was learned until then is told by its retries
            self._lessons = union(self._lessons, self._dropped.get((self._model, run.turn), ()))
        request = self._composed(plan, self._lessons, streamed=streamed)
        exact = request.hash in self._hashes[self._model, run.turn]
        self._found.append(SentRequest(run.turn, request.body, exact))

    def _ask(self, run: Run, plan: Plan) -> Run:  # noqa: ARG002 - it was composed before
        return heard(run, self._take(run, LlmRequestEndEvent).reply)


class _Told(msgspec.Struct, frozen=True):
    """What a run was told, as it is recorded."""

    config: JSON
    tools: tuple[ToolSpec, ...]


def _read(config: JSON, tools: tuple[ToolSpec, ...]) -> tuple[ToolCallingConfig, ToolRegistry]:
    return ToolCallingConfig.from_mapping(config), registry_of(tools)


@lru_cache(maxsize=64)
def _read_again(told: bytes) -> tuple[ToolCallingConfig, ToolRegistry]:
    # The runs of an evaluation are told the same, cell by cell and scenario by scenario.
    found = msgspec.json.decode(told, type=_Told)
    return _read(found.config, found.tools)
