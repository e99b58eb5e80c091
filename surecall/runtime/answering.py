"""The calls of one turn, answered: what is known is said again, what may run is run and recorded.

A call that was answered before gets that answer again; one that may have begun before a crash does
not begin again. The dispatcher says whether a call may run. Its start is recorded before it does.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from surecall.core.effects import UNRECORDED, first_like, known_answer, unfinished, unless_begun
from surecall.core.loop import ran
from surecall.core.repetition import may_repeat
from surecall.core.state import Run
from surecall.runtime.deadline import Deadline
from surecall.runtime.dispatch import Ready, ToolDispatcher
from surecall.runtime.trace import Recorder
from surecall.values.events import ToolCallEndEvent, ToolCallStartEvent
from surecall.values.types import Problem, ToolCall, ToolResult


class Answering:
    """Answers the calls that a run has due. `run` is how far it has come, at any moment."""

    def __init__(
        self, run: Run, dispatcher: ToolDispatcher, recorder: Recorder, deadline: Deadline
    ) -> None:
        self._before = run
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._deadline = deadline
        self._results: list[ToolResult] = []
        self._started: list[ToolCall] = []

    @property
    def answered(self) -> Run:
        """The run with the answers that there are."""
        return ran(self._before, self._results) if self._results else self._before

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
            for call in lane:
                async with gate:
                    await self._answer(call)
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

    async def _answer(self, call: ToolCall) -> None:
        run = self._before
        turn = run.turn - 1
        left = self._deadline.left_s
        call = unless_begun(run, call, in_time=left > 0)
        known = known_answer(run, call, self._results) or await self._dispatcher.admit(call, left)
        if isinstance(known, Problem):
            call = msgspec.structs.replace(call, problem=known)
        self._recorder.emit(ToolCallStartEvent, turn, call=call.private())
        result = await self._result(call, known)
        self._results.append(result)
        self._recorder.emit(
            ToolCallEndEvent,
            turn,
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
