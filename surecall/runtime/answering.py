"""The calls of one turn, answered: what is known is said again, what may run is run and recorded.

A call that was answered before gets that answer again; one that may have begun before a crash does
not begin again. The dispatcher says whether a call may run. Its start is recorded before it does.

A call may have to wait for a person. Then those after it wait, too: calls are answered in order.
Calls that would run at the same time are all decided before the first begins, and wait together.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import nullcontext

import msgspec

from surecall.core.approvals import changed, held, with_arguments
from surecall.core.effects import UNRECORDED, first_like, known_answer, unfinished, unless_begun
from surecall.core.loop import ran
from surecall.core.repetition import may_repeat
from surecall.core.state import Run
from surecall.runtime.deadline import Deadline
from surecall.runtime.dispatch import Ready, ToolDispatcher
from surecall.runtime.trace import Recorder
from surecall.values.decisions import Decision
from surecall.values.events import CallChangedEvent, ToolCallEndEvent, ToolCallStartEvent
from surecall.values.types import Problem, ToolCall, ToolResult


class Answering:
    """Answers the calls that a run has due. `run` is how far it has come, at any moment."""

    def __init__(
        self, run: Run, dispatcher: ToolDispatcher, recorder: Recorder, deadline: Deadline
    ) -> None:
        self._before = run
        self._turn = run.turn - 1
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._deadline = deadline
        self._results: list[ToolResult] = []
        self._started: list[ToolCall] = []
        self._is_asked = dispatcher.has_policy or bool(run.decisions)
        self._made: dict[str, Decision | Problem] = {}
        self._held: dict[str, Decision] = {}

    @property
    def answered(self) -> Run:
        """The run with the answers that there are, and the calls that wait for a person."""
        run = held(self._before, self._held)
        return ran(run, self._results) if self._results else run

    @property
    def run(self) -> Run:
        """The same, in mid-turn: what has begun by now has begun."""
        return unfinished(self.answered, self._started) if self._started else self.answered

    async def answer(self, calls: Sequence[ToolCall]) -> None:
        """Answer calls: lanes run concurrently; calls within a lane run in order."""
        concurrency = self._before.concurrency
        if concurrency == 1:
            await self._in_order(calls)
            return
        if self._is_asked:
            calls = await self._decided(calls)
        gate = asyncio.Semaphore(concurrency)
        await _to_the_end([self._in_order(lane, gate) for lane in self._lanes(calls)])

    async def _in_order(
        self, calls: Sequence[ToolCall], gate: asyncio.Semaphore | None = None
    ) -> None:
        before = _cancellations()
        for call in calls:
            async with gate or nullcontext():
                await self._answer(call)
            # The run may have been cancelled, even if the tool took that for something else.
            if _cancellations() > before:
                raise asyncio.CancelledError

    def _lanes(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Give every call a lane of its own; those that must not run concurrently share one.

        So do equal calls: what comes second may be answered from the record.
        """
        lanes: dict[str, list[ToolCall]] = {}
        for call in calls:
            key = "" if self._dispatcher.is_serial(call) else first_like(self._before, call)
            lanes.setdefault(key, []).append(call)
        return list(lanes.values())

    async def _answer(self, call: ToolCall) -> None:
        began = time.perf_counter()
        if self._held and first_like(self._before, call) != call.id:
            return  # what becomes of the call that it repeats may answer it
        if self._is_asked and call.id not in self._made:
            decided = await self._decided([call])
            if not decided:
                return
            (call,) = decided
        await self._give(call, self._known(call) or self._ready(call, began))

    def _known(self, call: ToolCall) -> ToolResult | Problem | None:
        """Return what is known of a call without asking anybody."""
        call = unless_begun(self._before, call, in_time=self._deadline.left_s > 0)
        return known_answer(self._before, call, self._results) or call.problem

    def _ready(self, call: ToolCall, began: float) -> Ready | Problem:
        match self._made.get(call.id):
            case Problem() as problem:
                return problem
            case _:
                return self._dispatcher.ready(call, self._deadline.left_s, began)

    async def _decided(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return calls as they may be answered; none of them if one must wait for a person.

        A call behind one that waits is decided as well, so that a person can be asked about all of
        them at once. Its arguments are not changed yet.
        """
        settled = self._before.decisions
        # One that waits does so until it is decided, even if its answer is known by now.
        asked = [call for call in calls if call.id in settled or self._known(call) is None]
        made: dict[str, Decision | Problem] = {}

        async def decide(call: ToolCall) -> None:
            made[call.id] = await self._decide(call, settled.get(call.id))

        await _to_the_end([decide(call) for call in asked])
        for call_id, decision in made.items():
            self._note(call_id, decision)
        if self._held:
            return []
        answered = [await self._changed(call, made.get(call.id)) for call in calls]
        return [] if self._held else answered

    def _note(self, call_id: str, decision: Decision | Problem) -> None:
        self._made[call_id] = decision
        if isinstance(decision, Decision) and decision.outcome == "confirm":
            self._held[call_id] = decision

    async def _changed(self, call: ToolCall, made: Decision | Problem | None) -> ToolCall:
        """Return a call with the arguments that the policy gave it, if it did.

        The policy is asked about these, too: they may be some that a person must see.
        """
        if not isinstance(made, Decision) or made.outcome != "replace":
            return call
        call = with_arguments(call, made.arguments)
        self._recorder.emit(CallChangedEvent, self._turn, call=call.private())
        self._before = changed(self._before, call)
        self._note(call.id, await self._decide(call, None))
        return call

    async def _decide(self, call: ToolCall, settled: Decision | None) -> Decision | Problem:
        return await self._dispatcher.decide(call, self._deadline.left_s, settled)

    async def _give(self, call: ToolCall, known: ToolResult | Problem | Ready) -> None:
        """Give a call its answer, and record it."""
        if isinstance(known, Problem):
            call = msgspec.structs.replace(call, problem=known)
        self._recorder.emit(ToolCallStartEvent, self._turn, call=call.private())
        result = await self._result(call, known)
        self._results.append(result)
        self._recorder.emit(
            ToolCallEndEvent,
            self._turn,
            result=result,
            ok=result.ok,
            elapsed_ms=result.elapsed_ms,
            output_bytes=len(result.content.encode()),
            output_replaced=result.replaced,
            error_codes=result.error_codes,
        )

    async def _result(self, call: ToolCall, known: ToolResult | Problem | Ready) -> ToolResult:
        """Run a tool, unless nobody would know of it after a crash, or its answer is known."""
        match known:
            case ToolResult():
                return known
            case Problem():
                return self._dispatcher.refuse(call, known)
            case Ready() if not self._recorder.has_journal and not may_repeat(self._before, call):
                return self._dispatcher.refuse(call, UNRECORDED)
            case Ready():
                self._started.append(call)
                return await self._dispatcher.run(known)


async def _to_the_end(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Do all at the same time; each goes on to its end, whatever happens in the others."""
    match list(works):
        case [work]:
            await work
        case many:
            outcomes = await asyncio.gather(*many, return_exceptions=True)
            for error in filter(None, outcomes):
                raise error


def _cancellations() -> int:
    """Count how often this task was asked to end; it may have begun in one that was."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
