"""The calls of one turn, answered: what is known is said again, what may run is run and recorded.

A call that was answered before gets that answer again; one that may have begun before a crash does
not begin again. The dispatcher says whether a call may run. Its start is recorded before it does.
"""

import asyncio
from collections.abc import Sequence

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
        lanes = self._lanes(calls) if concurrency > 1 else [calls]
        gate = asyncio.Semaphore(concurrency)

        async def work(lane: Sequence[ToolCall]) -> None:
            before = _cancellations()
            waits = False
            for call in lane:
                async with gate:
                    waits = await self._answer(call, waits=waits)
                # The run may have been cancelled, even if the tool took that for something else.
                if _cancellations() > before:
                    raise asyncio.CancelledError

        if len(lanes) == 1:
            await work(lanes[0])
            return
        # Every lane runs to its end, whatever happens in the others.
        outcomes = await asyncio.gather(*map(work, lanes), return_exceptions=True)
        for error in filter(None, outcomes):
            raise error

    def _lanes(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Give every call a lane of its own; those that must not run concurrently share one.

        So do equal calls: what comes second may be answered from the record.
        """
        lanes: dict[str, list[ToolCall]] = {}
        for call in calls:
            key = "" if self._dispatcher.is_serial(call) else first_like(self._before, call)
            lanes.setdefault(key, []).append(call)
        return list(lanes.values())

    async def _answer(self, call: ToolCall, *, waits: bool) -> bool:
        """Answer a call, or hold it; return whether those after it wait.

        If one before it `waits`, it does not begin; but whether it must be asked about is found
        out, so that a person is asked about all of them at once.
        """
        settled = self._before.decisions.get(call.id)
        if settled is not None and settled.outcome == "confirm":
            return True
        call = unless_begun(self._before, call, in_time=self._deadline.left_s > 0)
        known = await self._known(call, settled)
        if isinstance(known, Decision) and known.outcome == "replace" and not waits:
            call = self._changed(call, known)
            known = await self._known(call, known)
        if isinstance(known, Decision):
            if known.outcome == "confirm":
                self._held[call.id] = known
                return True
        elif not waits:
            await self._give(call, known)
        return waits

    async def _known(
        self, call: ToolCall, settled: Decision | None
    ) -> ToolResult | Problem | Decision | Ready:
        """Return what is known of a call, and else whether it may run."""
        known = known_answer(self._before, call, self._results)
        return known or await self._dispatcher.admit(call, self._deadline.left_s, settled)

    def _changed(self, call: ToolCall, decision: Decision) -> ToolCall:
        call = with_arguments(call, decision.arguments)
        self._recorder.emit(CallChangedEvent, self._turn, call=call.private())
        self._before = changed(self._before, call)
        return call

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


def _cancellations() -> int:
    """Count how often this task was asked to end; it may have begun in one that was."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
