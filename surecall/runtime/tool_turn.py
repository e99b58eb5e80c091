"""Runs the calls of one turn within the run's deadline, and holds those that need approval."""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from contextlib import nullcontext
from typing import Self, TypeVar

import msgspec

from surecall.core.approvals import hold_calls, replace_call, with_arguments
from surecall.core.effects import (
    CALL_NOT_RECORDED,
    EARLIER_OUTCOME_UNKNOWN,
    MAY_REPEAT_EFFECT,
    UnknownOutcome,
    find_unknown_outcome,
    first_equal_call,
    known_result,
    mark_unfinished,
)
from surecall.core.giving_up import is_safe_to_rerun
from surecall.core.loop import record_results
from surecall.core.state import Run
from surecall.runtime.dispatch import EarlierExecution, ReadyCall, ToolDispatcher
from surecall.runtime.recording import Recorder
from surecall.values.decisions import Decision
from surecall.values.errors import ErrorCode
from surecall.values.events import CallChangedEvent, ToolCallEndEvent, ToolCallStartEvent
from surecall.values.types import Problem, ToolCall, ToolResult

# The deadline of a run, with one timer.
#
# It interrupts only what is awaited `within` it, as `asyncio.timeout` would. Tools have their own
# limits, and time to clean up.

T = TypeVar("T")


class DeadlinePassed(Exception):
    """The deadline of the run has passed."""


class Deadline:
    """The deadline of a run. The time starts when it is created; use it as a context manager."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self._waiting: asyncio.Task[object] | None = None
        self._is_over = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)

    @property
    def remaining_s(self) -> float:
        """The remaining seconds; zero or negative after the deadline."""
        return self._at - time.monotonic()

    async def within(self, work: Awaitable[T]) -> T:
        """Await `work`; raise `DeadlinePassed` if the deadline passes first."""
        task = asyncio.current_task()
        before = 0 if task is None else task.cancelling()
        self._waiting = task
        try:
            return await work
        except asyncio.CancelledError:
            # The task may have been cancelled for another reason, too.
            if task is not None and self._is_over and task.uncancel() <= before:
                raise DeadlinePassed from None
            raise
        finally:
            self._waiting = None

    def _expire(self) -> None:
        """Mark the deadline as passed, and cancel what waits for it."""
        self._is_over = True
        if self._waiting is not None:
            self._waiting.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


# A call that was answered before gets the same answer. A call that may already have taken effect
# does not begin: the executor answers with what is known, waits for a tool that is still running,
# or asks for human approval. The dispatcher decides whether a call is allowed. Its start is
# recorded before it begins.
#
# If a call needs human approval, later calls wait too, because calls are answered in order. Calls
# that would run concurrently are all decided before the first begins, and wait together.


class TurnExecutor:
    """Answers the pending calls of a run. `run` is the run so far, at any moment."""

    def __init__(
        self, run: Run, dispatcher: ToolDispatcher, recorder: Recorder, deadline: Deadline
    ) -> None:
        self._run_before = run
        self._turn = run.turn_count - 1
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._deadline = deadline
        self._results: list[ToolResult] = []
        self._started: list[ToolCall] = []
        self._needs_decisions = dispatcher.has_policy or bool(run.decisions)
        self._decisions: dict[str, Decision | Problem] = {}
        self._held: dict[str, Decision] = {}

    @property
    def run_with_results(self) -> Run:
        """The run with the results so far and the calls that need human approval."""
        run = hold_calls(self._run_before, self._held)
        return record_results(run, self._results) if self._results else run

    @property
    def run(self) -> Run:
        """The run so far, including calls that have begun and have no result yet."""
        return (
            mark_unfinished(self.run_with_results, self._started)
            if self._started
            else self.run_with_results
        )

    async def answer_calls(self, calls: Sequence[ToolCall]) -> None:
        """Answer calls: lanes run concurrently; calls within a lane run in order."""
        concurrency = self._run_before.concurrency
        if concurrency == 1:
            await self._answer_in_order(calls)
            return
        if self._needs_decisions:
            calls = await self._decide_calls(calls)
        gate = asyncio.Semaphore(concurrency)
        await _gather_all([self._answer_in_order(lane, gate) for lane in self._lanes(calls)])

    async def _answer_in_order(
        self, calls: Sequence[ToolCall], gate: asyncio.Semaphore | None = None
    ) -> None:
        """Answer calls one after another; `gate` limits how many run at once."""
        before = _cancellation_count()
        for call in calls:
            async with gate or nullcontext():
                await self._answer_call(call)
            # The run may have been cancelled even if the tool suppressed the cancellation.
            if _cancellation_count() > before:
                raise asyncio.CancelledError

    def _lanes(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Return the calls grouped by lane: serial calls share one, and so do equal calls.

        The second of two equal calls may be answered with the first one's result.
        """
        lanes: dict[str, list[ToolCall]] = {}
        for call in calls:
            key = (
                "" if self._dispatcher.is_serial(call) else first_equal_call(self._run_before, call)
            )
            lanes.setdefault(key, []).append(call)
        return list(lanes.values())

    async def _answer_call(self, call: ToolCall) -> None:
        """Decide a call if needed, and answer it unless it needs approval."""
        began = time.perf_counter()
        if self._held and first_equal_call(self._run_before, call) != call.id:
            return  # it may be answered with the result of the call that it repeats
        if self._needs_decisions and call.id not in self._decisions:
            decided = await self._decide_calls([call])
            if not decided:
                return
            (call,) = decided
        await self._finish_call(
            call, self._known_result(call, began) or self._prepare_call(call, began)
        )

    def _known_result(
        self, call: ToolCall, began: float = 0.0, *, is_decided: bool = True
    ) -> ToolResult | Problem | EarlierExecution | None:
        """Return the answer to a call if it is known without running it.

        A call that may have taken effect has none if a person has approved it. With `is_decided`
        false, it has none either, because a person may still approve it.
        """
        doubt = self._find_doubt(call)
        if doubt is not None:
            remaining_s = self._deadline.remaining_s
            if (
                earlier := self._dispatcher.earlier_execution(call, doubt, remaining_s, began)
            ) is not None:
                return earlier
            decision = self._run_before.decisions.get(call.id)
            is_open = (
                not is_decided if decision is None else decision.outcome in {"allow", "replace"}
            )
            if call.problem is not None or doubt.is_same_reply or not is_open:
                return call.problem or doubt.problem
        return known_result(self._run_before, call, self._results) or call.problem

    def _find_doubt(self, call: ToolCall) -> UnknownOutcome | None:
        """Return the doubt about a call's effect; None if it cannot run for another reason.

        A repeated call is checked nevertheless, because the earlier one may have finished since.
        """
        if call.problem is not None and call.problem.code is not ErrorCode.REPEATED_CALL:
            return None
        in_time = self._deadline.remaining_s > 0
        return find_unknown_outcome(self._run_before, call, self._results, has_time_left=in_time)

    def _prepare_call(self, call: ToolCall, began: float) -> ReadyCall | Problem:
        """Return an allowed call ready to run, or the problem for which it is refused."""
        match self._decisions.get(call.id):
            case Problem() as problem:
                return problem
            case _:
                return self._dispatcher.prepare_call(call, self._deadline.remaining_s, began)

    async def _decide_calls(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Decide calls and return them with their final arguments; none if one needs approval.

        Calls behind a waiting one are decided as well, so that a person can decide all of them at
        once. Their arguments are not changed yet.
        """
        settled = self._run_before.decisions
        # A waiting call stays waiting until it is decided, even if its answer is known by now.
        undecided = [
            call
            for call in calls
            if call.id in settled or self._known_result(call, is_decided=False) is None
        ]
        decisions: dict[str, Decision | Problem] = {}

        async def decide(call: ToolCall) -> None:
            """Decide about a call and store the decision."""
            decisions[call.id] = await self._decide(call, settled.get(call.id))

        await _gather_all([decide(call) for call in undecided])
        for call_id, decision in decisions.items():
            self._record_decision(call_id, decision)
        if self._held:
            return []
        answered = [await self._replace_arguments(call, decisions.get(call.id)) for call in calls]
        return [] if self._held else answered

    def _record_decision(self, call_id: str, decision: Decision | Problem) -> None:
        """Record a decision; hold the call if it needs human approval."""
        self._decisions[call_id] = decision
        if isinstance(decision, Decision) and decision.outcome == "confirm":
            self._held[call_id] = decision

    async def _replace_arguments(
        self, call: ToolCall, decision: Decision | Problem | None
    ) -> ToolCall:
        """Return a call with the arguments that the policy replaced, if it did.

        The policy decides about the new arguments, too, and may require approval.
        """
        if not isinstance(decision, Decision) or decision.outcome != "replace":
            return call
        call = with_arguments(call, decision.arguments)
        self._recorder.emit(CallChangedEvent, self._turn, call=call.with_copied_arguments())
        self._run_before = replace_call(self._run_before, call)
        self._record_decision(call.id, await self._decide(call, None))
        return call

    async def _decide(
        self, call: ToolCall, earlier_decision: Decision | None
    ) -> Decision | Problem:
        """Return the policy's decision; require approval for a call that may have taken effect."""
        decision = await self._dispatcher.decide(call, self._deadline.remaining_s, earlier_decision)
        if (
            earlier_decision is not None
            or not isinstance(decision, Decision)
            or decision.outcome == "replace"
        ):
            return decision
        doubt = self._find_doubt(call)
        if doubt is None or doubt.is_same_reply:
            return decision
        return Decision.confirm(f"{decision.reason} {MAY_REPEAT_EFFECT}".strip())

    async def _finish_call(
        self, call: ToolCall, answer: ToolResult | Problem | ReadyCall | EarlierExecution
    ) -> None:
        """Run the tool if the call is ready, and record the result; a problem is its error."""
        if isinstance(answer, Problem | EarlierExecution):
            problem = (
                EARLIER_OUTCOME_UNKNOWN if isinstance(answer, EarlierExecution) else answer
            )  # neither begins a tool
            call = msgspec.structs.replace(call, problem=problem)
        self._recorder.emit(ToolCallStartEvent, self._turn, call=call.with_copied_arguments())
        result = await self._result(call, answer)
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

    async def _result(
        self, call: ToolCall, answer: ToolResult | Problem | ReadyCall | EarlierExecution
    ) -> ToolResult:
        """Return the result of a call.

        A call whose start cannot be journaled does not run, unless it may be repeated.
        """
        match answer:
            case ToolResult():
                return answer
            case Problem():
                return self._dispatcher.refuse(call, answer)
            case EarlierExecution():
                return await self._dispatcher.answer_from_earlier(answer)
            case ReadyCall() if not self._recorder.has_journal and not is_safe_to_rerun(
                self._run_before, call
            ):
                return self._dispatcher.refuse(call, CALL_NOT_RECORDED)
            case ReadyCall():
                self._started.append(call)
                return await self._dispatcher.run(answer)


async def _gather_all(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all concurrently, each to its end even if others fail; raise the first error."""
    match list(works):
        case [work]:
            await work
        case many:
            outcomes = await asyncio.gather(*many, return_exceptions=True)
            for error in filter(None, outcomes):
                raise error


def _cancellation_count() -> int:
    """Return the number of cancellation requests to the current task."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
