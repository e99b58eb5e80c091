"""Replays a recorded run: drives the loop from a trace, without network, tools, or a clock.

Each request is composed again and its hash compared; each raw answer is parsed again and compared
with the recorded reply. The result is the same run, or an error that names the first divergence.

A trace does not hold the bodies of requests, which repeat the transcript turn by turn.
`sent_requests` composes them again, and tells whether each is identical to what was sent.
"""

from collections import deque
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

import msgspec

from surecall.core.approvals import (
    has_same_waiting_calls,
    is_awaiting_approval,
    replace_call,
    restore_holds,
)
from surecall.core.effects import mark_unfinished
from surecall.core.lessons import apply_lessons, with_stream
from surecall.core.loop import (
    next_move,
    record_objection,
    record_refusal,
    record_reply,
    record_results,
)
from surecall.core.model_change import change_model
from surecall.core.outcome import APPROVAL_PENDING, RunResult, last_text, total_usage
from surecall.core.reply_parsing import parse_reply
from surecall.core.request_building import Request, RequestBuilder
from surecall.core.state import (
    OBJECTION,
    OUTPUT,
    AskModel,
    AwaitApproval,
    Fail,
    Finish,
    Move,
    Run,
    RunTools,
    start_fields,
)
from surecall.core.tool_search import with_learned_limit, with_searches
from surecall.core.typed_answers import typed_answer
from surecall.settings.config import ToolCallingConfig
from surecall.settings.overlay import union
from surecall.tools.registry import ToolRegistry, registry_from_specs, specs_of
from surecall.values.decisions import WaitingCall
from surecall.values.errors import Fault, ReplayDiverged, SurecallError
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
from surecall.wire.chat_format import encode

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
    """Replay a recorded run; raise `ReplayDiverged` at the first divergence."""
    return _Replay(trace).drive()


class SentRequest(msgspec.Struct, frozen=True):
    """The recomposed request of a turn. `exact` is true if its hash equals the recorded one."""

    turn: int
    body: bytes
    exact: bool


def sent_requests(trace: Trace) -> list[SentRequest]:
    """Return the requests of a recorded run, up to the first that cannot be composed again."""
    requests: list[SentRequest] = []
    # The trace may come from a version of this package that behaved differently.
    with suppress(SurecallError):
        _RequestCollector(trace, requests).replay_to_last_move()
    return requests


def run_of(trace: Trace) -> Run:
    """Return the run up to the last complete move of a recording, which a crash may have cut off.

    `ToolLoopRunner.resume` continues it. A call that had begun and has no recorded result does not
    run again, unless its tool is read-only or idempotent, because its outcome is unknown.
    """
    if at := [event.turn for event in trace if event.redacted]:
        raise ReplayDiverged(
            at[0], "a secret was removed from the recording, so the run cannot be resumed"
        )
    return _Replay(trace).replay_to_last_move()


class _Replay:
    def __init__(self, trace: Trace) -> None:
        if not len(trace) or not isinstance(trace[0], RunStartEvent):
            raise ReplayDiverged(0, "the trace does not begin with run_start")
        start = trace[0]
        self._trace = trace
        self._config, self._registry = self._settings_and_tools(start)
        self._composer = RequestBuilder(self._config)
        self._events = deque(
            event for event in trace if isinstance(event, _Recorded) and not _is_derived(event)
        )
        self._run = Run(
            run_id=start.run_id,
            config=self._config,
            **start_fields(start) | {"tools": specs_of(self._registry)},
        )

    def _settings_and_tools(self, start: RunStartEvent) -> tuple[ToolCallingConfig, ToolRegistry]:
        """Return the settings and tools of the run."""
        return _parse_settings(start.config, start.tools)

    def drive(self) -> RunResult:
        """Replay the run to its end."""
        run = self._run
        while isinstance(move := next_move(run), AskModel | RunTools) or self._continues(move):
            run = self._replay_move(run, move)
        result = self._finish(run, move)
        if self._events:
            raise ReplayDiverged(run.turn_count, "the trace continues after the run has ended")
        return result

    def replay_to_last_move(self) -> Run:
        """Replay the run up to its last complete move."""
        run = self._run
        while self._events and (
            isinstance(move := next_move(run), AskModel | RunTools) or self._continues(move)
        ):
            run = self._replay_move(run, move)
        started = (event for event in self._trace if isinstance(event, ToolCallStartEvent))
        return mark_unfinished(run, (event.call for event in started))

    def _continues(self, move: Move) -> bool:
        """Whether the recorded run continued after a move that could have ended it.

        It did if another model took over, the application objected to the answer or failed to check
        it, or more calls needed human approval.
        """
        match move, self._events[0] if self._events else None:
            case Finish(), FinalObjectedEvent() | RequestRefusedEvent():
                return True
            case Fail(), ModelChangedEvent():
                return True
            case AwaitApproval(calls), RunPausedEvent(waiting=waiting):
                return not has_same_waiting_calls(calls, waiting)
            case _:
                return False

    def _replay_move(self, run: Run, move: Move) -> Run:
        """Carry out one move with the next recorded event."""
        match self._next_event(run), move:
            case RequestRefusedEvent(), _:
                return record_refusal(run, self._take_event(run, RequestRefusedEvent).fault)
            case ModelChangedEvent(), _:
                return self._switch_model(run, self._take_event(run, ModelChangedEvent))
            case _, AskModel(plan):
                return self._replay_request(run, plan)
            case CallChangedEvent(), RunTools():
                return replace_call(run, self._take_event(run, CallChangedEvent).call)
            case RunPausedEvent(waiting=waiting), RunTools() | AwaitApproval():
                return self._hold_calls(run, waiting)
            case _, RunTools(calls):
                return self._replay_result(run, calls)
            case _:
                objection = self._take_event(run, FinalObjectedEvent)
                return record_objection(
                    run, objection.reason, OUTPUT if objection.by == "type" else OBJECTION
                )

    def _switch_model(self, run: Run, event: ModelChangedEvent) -> Run:
        self._config = ToolCallingConfig.from_mapping(event.config)
        self._composer = RequestBuilder(self._config)
        after = change_model(run, event.model, self._config, event.options, event.endpoint)
        if after is None or after.config != self._config:
            raise ReplayDiverged(run.turn_count, f"{event.model} cannot continue the run")
        return after

    def _replay_request(self, run: Run, plan: Plan) -> Run:
        """Compare the composed request and the parsed reply with the recorded ones."""
        recorded = self._take_event(run, LlmRequestEndEvent)
        request = self._compose_request(plan, recorded.lessons, streamed=recorded.streamed)
        if request.hash != recorded.request_hash:
            raise ReplayDiverged(run.turn_count, "the request differs from the recorded one")
        run = with_learned_limit(run, recorded.lessons)
        reply = parse_reply(recorded.body, plan, self._config, self._registry)
        if not isinstance(reply, Fault):
            reply = with_searches(run, reply)
        if reply != recorded.reply:
            raise ReplayDiverged(
                run.turn_count,
                f"the answer was parsed as {reply!r:.200}, recorded was {recorded.reply!r:.200}",
            )
        return record_reply(run, recorded.reply)

    def _compose_request(self, plan: Plan, lessons: tuple[str, ...], *, streamed: bool) -> Request:
        """Compose the request for a plan as it was sent."""
        spoken = self._composer.encode_plan(plan)
        return self._composer.build(
            apply_lessons(with_stream(spoken) if streamed else spoken, lessons)
        )

    def _replay_result(self, run: Run, calls: tuple[ToolCall, ...]) -> Run:
        """Take the next result; of calls that ran concurrently, any may have been first."""
        result = self._take_event(run, ToolCallEndEvent).result
        if result.call_id not in {call.id for call in calls}:
            due = ", ".join(repr(call.id) for call in calls)
            raise ReplayDiverged(
                run.turn_count, f"expected the result of call {due}, recorded is {result.call_id!r}"
            )
        return record_results(run, [result])

    def _hold_calls(self, run: Run, waiting: tuple[WaitingCall, ...]) -> Run:
        """Hold calls for human approval, as the recorded run did."""
        stopped = restore_holds(run, waiting)
        if not is_awaiting_approval(stopped) or not has_same_waiting_calls(
            stopped.waiting, waiting
        ):
            raise ReplayDiverged(run.turn_count, "other calls need human approval")
        return stopped

    def _finish(self, run: Run, move: AwaitApproval | Finish | Fail) -> RunResult:
        """Compare the end of the run with the recorded one, and return the result."""
        usage = total_usage(self._trace)
        match move:
            case AwaitApproval():
                self._take_event(run, RunPausedEvent)
                return RunResult(last_text(run), APPROVAL_PENDING, usage, self._trace, run)
            case Finish(text, stop_reason):
                recorded = self._take_event(run, FinalEvent)
                if (text, stop_reason) != (recorded.text, recorded.stop_reason):
                    raise ReplayDiverged(run.turn_count, "the run ends with a different answer")
                answer = typed_answer(run)
                output = None if answer is None else answer.value
                return RunResult(text, stop_reason, usage, self._trace, run, output)
            case Fail(code, message):
                stopped = self._take_event(run, RunFailedEvent)
                if code != stopped.code:
                    raise ReplayDiverged(
                        run.turn_count, f"the run fails with {code} ({message}), not {stopped.code}"
                    )
                return RunResult(last_text(run), code, usage, self._trace, run)

    def _next_event(self, run: Run) -> _Recorded:
        """Return the next recorded event without taking it."""
        if not self._events:
            raise ReplayDiverged(run.turn_count, "the trace ends before the run does")
        return self._events[0]

    def _take_event(self, run: Run, kind: type[T]) -> T:
        """Take the next recorded event; raise `ReplayDiverged` if it is of another kind."""
        event = self._next_event(run)
        if not isinstance(event, kind):
            raise ReplayDiverged(
                run.turn_count, f"expected {kind.__name__}, recorded is {type(event).__name__}"
            )
        self._events.popleft()
        return event


def _is_derived(event: _Recorded) -> bool:
    """Whether replaying produces the event anyway, as it does for objections of a schema."""
    return isinstance(event, FinalObjectedEvent) and event.by == "schema"


class _RequestCollector(_Replay):
    """Replays a trace and collects each request. Recorded replies are not parsed again."""

    def __init__(self, trace: Trace, requests: list[SentRequest]) -> None:
        super().__init__(trace)
        self._requests = requests
        # By model and turn, because the next model of a fallback chain repeats a turn.
        self._hashes: dict[tuple[int, int], set[str]] = {}
        self._dropped: dict[tuple[int, int], tuple[str, ...]] = {}
        model = 0
        for event in trace:
            if isinstance(event, LlmRequestStartEvent):
                self._hashes.setdefault((model, event.turn), set()).add(event.request_hash)
            elif isinstance(event, LlmRequestRetryEvent) and event.dropped:
                dropped = self._dropped.get((model, event.turn), ())
                self._dropped[model, event.turn] = (*dropped, *event.dropped.split(","))
            elif isinstance(event, ModelChangedEvent):
                model += 1
        self._lessons: tuple[str, ...] = ()
        self._model = 0

    def _switch_model(self, run: Run, event: ModelChangedEvent) -> Run:
        self._lessons = ()
        self._model += 1
        return super()._switch_model(run, event)

    def _settings_and_tools(self, start: RunStartEvent) -> tuple[ToolCallingConfig, ToolRegistry]:
        """Return the settings and tools of the run, cached across runs."""
        return _parse_settings_cached(
            encode(msgspec.to_builtins(_RecordedSettings(start.config, start.tools)))
        )

    def _replay_move(self, run: Run, move: Move) -> Run:
        if isinstance(move, AskModel) and (self._model, run.turn_count) in self._hashes:
            self._collect_request(run, move.plan)
        return super()._replay_move(run, move)

    def _collect_request(self, run: Run, plan: Plan) -> None:
        """Compose the request for a plan again, and keep it."""
        event = self._next_event(run)
        streamed = False
        if isinstance(event, LlmRequestEndEvent):
            self._lessons, streamed = event.lessons, event.streamed
        else:  # the endpoint refused it; the lessons learned until then are in its retries
            self._lessons = union(
                self._lessons, self._dropped.get((self._model, run.turn_count), ())
            )
        request = self._compose_request(plan, self._lessons, streamed=streamed)
        exact = request.hash in self._hashes[self._model, run.turn_count]
        self._requests.append(SentRequest(run.turn_count, request.body, exact))

    def _replay_request(self, run: Run, plan: Plan) -> Run:  # noqa: ARG002 - its request was composed already
        """Record the reply without parsing it again."""
        recorded = self._take_event(run, LlmRequestEndEvent)
        return record_reply(with_learned_limit(run, recorded.lessons), recorded.reply)


class _RecordedSettings(msgspec.Struct, frozen=True):
    """The recorded settings and tools of a run."""

    config: JSON
    tools: tuple[ToolSpec, ...]


def _parse_settings(
    config: JSON, tools: tuple[ToolSpec, ...]
) -> tuple[ToolCallingConfig, ToolRegistry]:
    return ToolCallingConfig.from_mapping(config), registry_from_specs(tools)


@lru_cache(maxsize=64)
def _parse_settings_cached(recorded: bytes) -> tuple[ToolCallingConfig, ToolRegistry]:
    """Parse recorded settings and tools; equal ones are parsed once."""
    # The runs of an evaluation share their settings and tools by cell and scenario.
    settings = msgspec.json.decode(recorded, type=_RecordedSettings)
    return _parse_settings(settings.config, settings.tools)
