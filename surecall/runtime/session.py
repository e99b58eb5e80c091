"""One run, driven: each move of the loop is made to happen, timed and recorded."""

import asyncio
from collections.abc import Sequence

import msgspec

from surecall.core.effects import (
    UNRECORDED,
    first_like,
    known_answer,
    unfinished,
    unless_begun,
)
from surecall.core.loop import heard, next_move, objected, ran, refused
from surecall.core.obligations import unmet
from surecall.core.offer import offers_tools
from surecall.core.outcome import HANDED_OVER, RunResult, failure, last_text, usage_of
from surecall.core.promised_calls import missing_call
from surecall.core.repetition import may_repeat
from surecall.core.state import CALL_MISSING, TEXT_CALL, Ask, Call, Done, Fail, Move, Run
from surecall.core.streaming.display import TextWithdrawn
from surecall.core.ways_out import false_finals
from surecall.runtime.accepting import objection_to
from surecall.runtime.conversation import Conversation, Exchange
from surecall.runtime.deadline import Deadline, DeadlinePassed
from surecall.runtime.dispatch import PolicyBroken, Ready, ToolDispatcher
from surecall.runtime.execution import Raised
from surecall.runtime.hooks import AcceptFinal
from surecall.runtime.trace import Recorder, plain_words
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import (
    CallsInOrderEvent,
    FinalEvent,
    FinalObjectedEvent,
    FixEmptyFinalEvent,
    ForcedContinuationEvent,
    LlmRequestEndEvent,
    LlmRequestRetryEvent,
    PolicyErrorEvent,
    RequestRefusedEvent,
    RunFailedEvent,
    RunStartEvent,
    TextCallAskedEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from surecall.values.types import Assistant, Plan, Problem, ToolCall, ToolResult, Usage, User
from surecall.values.version import __version__
from surecall.wire.assembler import TextDelta


class Session:
    """The asynchronous driver of one run.

    One that `hands_over` makes no calls: it ends as soon as there is one that may run.
    """

    def __init__(  # noqa: PLR0913  # collaborators
        self,
        run: Run,
        conversation: Conversation,
        dispatcher: ToolDispatcher,
        recorder: Recorder,
        policy_error: BaseException | None = None,
        accept_final: AcceptFinal | None = None,
        *,
        hands_over: bool = False,
    ) -> None:
        self._run = run
        self._hands_over = hands_over
        self._fresh: list[ToolResult] = []
        self._started: list[ToolCall] = []
        self._conversation = conversation
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._policy_error = policy_error
        self._accept_final = accept_final

    @property
    def run(self) -> Run:
        """How far the run has come; what has begun by now has begun, also in mid-turn."""
        run = ran(self._run, self._fresh) if self._fresh else self._run
        return unfinished(run, self._started) if self._started else run

    async def drive(self) -> RunResult:
        """Run the loop to its end; return the result, or raise the error that carries it."""
        with Deadline(self._run.config.run_deadline_s) as self._deadline:
            return await self._driven()

    async def _driven(self) -> RunResult:
        self._run = self._begin(self._run)
        async with self._conversation.opened():
            while isinstance(move := await self._next_move(), Ask | Call):
                match move:
                    case Ask(plan):
                        self._run = await self._ask(self._run, plan)
                    case Call(calls) if self._hands_over and any(each.may_run for each in calls):
                        return self._end(self._run, Done(last_text(self._run), HANDED_OVER))
                    case Call(calls):
                        self._run = await self._call(self._run, calls)
                        self._fresh, self._started = [], []
        return self._end(self._run, move)

    async def _next_move(self) -> Move:
        """Say what must happen next; an answer that the application refuses is not the end."""
        hook = self._accept_final
        while isinstance(move := next_move(self._run), Done) and hook is not None:
            reason = await self._objection(move, hook)
            if reason is None:
                return move
            if isinstance(reason, Fault):
                self._run = self._refuse(self._run, reason)
            else:
                self._run = objected(self._run, reason)
                said = self._run.last.content if isinstance(self._run.last, User) else ""
                turn = self._run.turn - 1
                self._recorder.emit(FinalObjectedEvent, turn, reason=reason, text=str(said))
                self._withdraw(move.text)
        return move

    async def _objection(self, move: Done, hook: AcceptFinal) -> str | Fault | None:
        """Return why an answer is not accepted; a fault if the application could not tell."""
        result = RunResult(
            move.text, move.stop_reason, self._usage(), self._recorder.trace, self._run
        )
        try:
            return await objection_to(result, hook, self._deadline.left_s)
        except Raised as raised:
            return _hook_fault(raised.error)
        except TimeoutError:
            return _too_late(self._run)
        except TypeError as error:
            return _hook_fault(error)

    def _withdraw(self, text: str) -> None:
        """Take back an answer that was shown and does not count."""
        if self._conversation.show is not None and text:
            self._conversation.show(TextWithdrawn(text))

    def _usage(self) -> Usage:
        return usage_of(self._recorder.trace)

    def _begin(self, run: Run) -> Run:
        self._recorder.emit(
            RunStartEvent,
            run.turn,
            model=run.model,
            config=run.config.to_mapping(),
            options=run.options,
            tools=run.tools,
            system=run.system,
            messages=run.messages,
            start=run.start,
            begun=run.begun,
            endpoint=run.endpoint,
            version=__version__,
        )
        if self._policy_error is None:
            return run
        record_policy_error(self._recorder, self._policy_error)
        if run.config.policy_error_mode == "raise":
            return self._refuse(run, _policy_fault(self._policy_error))
        return run

    async def _ask(self, run: Run, plan: Plan) -> Run:
        left = self._deadline.left_s
        if left <= 0:
            return self._refuse(run, _too_late(run))
        try:
            asking = self._conversation.ask(plan, run.turn, left)
            exchange = await self._deadline.within(asking)
        except ProviderError as error:
            return self._refuse(run, error.fault)
        except DeadlinePassed:
            return self._refuse(run, _too_late(run))
        # Observers get the reply itself; the transcript keeps a copy that they cannot reach.
        calls = tuple(call.private() for call in exchange.reply.calls)
        after = heard(run, msgspec.structs.replace(exchange.reply, calls=calls))
        self._heard(run.turn, after, exchange)
        return after

    def _heard(self, turn: int, after: Run, exchange: Exchange) -> None:
        said = after.said[-1]
        self._recorder.emit(
            LlmRequestEndEvent,
            turn,
            reply=exchange.reply,
            body=exchange.body,
            request_hash=exchange.request_hash,
            attempt=exchange.attempt,
            elapsed_ms=exchange.elapsed_ms,
            response_bytes=exchange.response_bytes,
            lessons=exchange.lessons,
            streamed=exchange.streamed,
            ignored_tool_calls=tuple(call.id for call in said.ignored),
        )
        running = sum(not call.ignored for call in said.calls)
        if running > 1 and after.asks_for_one:
            self._recorder.emit(CallsInOrderEvent, turn, calls=running)
        words = after.last if isinstance(after.last, User) else None
        if words is not None and words.rung == TEXT_CALL:
            self._asked(turn, said, words)
            return
        show = self._conversation.show
        if said.claims and show is not None and not missing_call(after, said):
            # What was in doubt until now is what the model says.
            show(TextDelta(said.text))
        if words is not None:
            self._followed_up(turn, after, words)

    def _followed_up(self, turn: int, after: Run, words: User) -> None:
        """Record what the loop has said to an answer that does not count."""
        need = unmet(after)
        self._withdraw(after.said[-1].text)
        if words.rung in {"", CALL_MISSING} or need is None:
            self._recorder.emit(
                FixEmptyFinalEvent,
                turn,
                disable_tools=not offers_tools(after),
                user_text_bytes=len(str(words.content).encode()),
                text=str(words.content),
            )
            return
        self._recorder.emit(
            ForcedContinuationEvent,
            turn,
            rung=words.rung,
            code=need.code,
            message=need.message,
            text=str(words.content),
            tools=need.tools,
        )

    def _asked(self, turn: int, said: Assistant, words: User) -> None:
        """Record that the model was asked about a call in its text, which is no answer yet."""
        self._recorder.emit(
            TextCallAskedEvent,
            turn,
            rule=said.claims[0].rule,
            tools=tuple(dict.fromkeys(claim.name for claim in said.claims if claim.name)),
            text=str(words.content),
        )

    async def _call(self, run: Run, calls: Sequence[ToolCall]) -> Run:
        results = self._fresh = []
        try:
            await self._answer_all(run, calls, results)
        except PolicyBroken as broken:
            return self._refuse(ran(run, results), _policy_fault(broken.__cause__ or broken))
        return ran(run, results)

    async def _answer_all(
        self, run: Run, calls: Sequence[ToolCall], results: list[ToolResult]
    ) -> None:
        """Answer calls: lanes run concurrently; calls within a lane run in order."""
        lanes = self._lanes(run, calls) if run.concurrency > 1 else [calls]
        gate = asyncio.Semaphore(run.concurrency)

        async def work(lane: Sequence[ToolCall]) -> None:
            before = _cancellations()
            for call in lane:
                async with gate:
                    await self._answer(run, call, results)
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

    def _lanes(self, run: Run, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Give every call a lane of its own; those that must not run concurrently share one.

        So do equal calls: what comes second may be answered from the record.
        """
        lanes: dict[str, list[ToolCall]] = {}
        for call in calls:
            key = "" if self._dispatcher.is_serial(call) else first_like(run, call)
            lanes.setdefault(key, []).append(call)
        return list(lanes.values())

    async def _answer(self, run: Run, call: ToolCall, results: list[ToolResult]) -> None:
        turn = run.turn - 1
        left = self._deadline.left_s
        call = unless_begun(run, call, in_time=left > 0)
        known = known_answer(run, call, results) or await self._dispatcher.admit(call, left)
        if isinstance(known, Problem):
            call = msgspec.structs.replace(call, problem=known)
        self._recorder.emit(ToolCallStartEvent, turn, call=call.private())
        result = await self._result(run, call, known)
        results.append(result)
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

    async def _result(
        self, run: Run, call: ToolCall, known: ToolResult | Problem | Ready
    ) -> ToolResult:
        """Run a tool, unless nobody would know of it after a crash, or its answer is known."""
        match known:
            case ToolResult():
                return known
            case Problem():
                return self._dispatcher.refuse(call, known)
            case Ready() if not self._recorder.has_journal and not may_repeat(run, call):
                return self._dispatcher.refuse(call, UNRECORDED)
            case Ready():
                self._started.append(call)
                return await self._dispatcher.run(known)

    def _refuse(self, run: Run, fault: Fault) -> Run:
        self._recorder.emit(RequestRefusedEvent, run.turn, fault=fault)
        after = refused(run, fault)
        if isinstance(next_move(after), Ask):
            self._recorder.emit(
                LlmRequestRetryEvent,
                run.turn,
                attempt=1,
                wait_s=0.0,
                tools_enabled=offers_tools(after),
            )
        return after

    def _end(self, run: Run, move: Done | Fail) -> RunResult:
        usage = self._usage()
        early = false_finals(run)
        turn = max(run.turn - 1, 0)
        match move:
            case Done(text, stop_reason):
                self._recorder.emit(
                    FinalEvent,
                    turn,
                    text=text,
                    stop_reason=stop_reason,
                    usage=usage,
                    any_tool_calls_seen=run.called,
                    any_tool_success_seen=any(result.ok for result in run.results),
                    false_finals=early,
                )
                return RunResult(text, stop_reason, usage, self._recorder.trace, run)
            case Fail(code, message, details):
                self._recorder.emit(
                    RunFailedEvent,
                    turn,
                    code=code,
                    message=message,
                    usage=usage,
                    details=details,
                    false_finals=early,
                )
                result = RunResult(last_text(run), code, usage, self._recorder.trace, run)
                raise failure(move, result)


def record_policy_error(
    recorder: Recorder, error: BaseException, call: ToolCall | None = None
) -> None:
    """Record that the tool policy raised, in the turn of the newest event; `call` if about one."""
    recorder.emit(
        PolicyErrorEvent,
        recorder.events[-1].turn,
        stage="exposure" if call is None else "call",
        message=f"the tool policy raised {type(error).__name__}: {plain_words(error)}"[:200],
        call_id=call.id if call else None,
        name=call.name if call else None,
    )


def _too_late(run: Run) -> Fault:
    message = f"the run took longer than {run.config.run_deadline_s:g} s"
    return Fault(ErrorCode.DEADLINE_EXCEEDED, message)


def _policy_fault(error: BaseException) -> Fault:
    return Fault(ErrorCode.POLICY_ERROR, f"the tool policy raised {type(error).__name__}")


def _hook_fault(error: BaseException) -> Fault:
    message = f"accept_final raised {type(error).__name__}: {plain_words(error)}"[:200]
    return Fault(ErrorCode.POLICY_ERROR, message)


def _cancellations() -> int:
    """Count how often this task was asked to end; it may have begun in one that was."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
