"""One run, driven: each move of the loop is made to happen, timed and recorded."""

from collections.abc import Sequence
from typing import Any

import msgspec

from surecall.core.loop import heard, next_move, objected, refused
from surecall.core.obligations import unmet
from surecall.core.offer import offers_tools
from surecall.core.outcome import (
    HANDED_OVER,
    WAITING,
    RunResult,
    after_changes,
    failure,
    last_text,
    usage_of,
)
from surecall.core.promised_calls import missing_call
from surecall.core.state import (
    CALL_MISSING,
    OBJECTION,
    OUTPUT,
    TEXT_CALL,
    Ask,
    Call,
    Done,
    Fail,
    Move,
    Run,
    Wait,
)
from surecall.core.streaming.display import TextWithdrawn
from surecall.core.typed_answers import form_problem, typed_answer
from surecall.core.ways_out import false_finals
from surecall.runtime.accepting import Objection, ReadOutput, heard_typed, judged
from surecall.runtime.answering import Answering
from surecall.runtime.chain import Chain, Change
from surecall.runtime.deadline import Deadline, DeadlinePassed
from surecall.runtime.dispatch import PolicyBroken, ToolDispatcher
from surecall.runtime.hooks import AcceptFinal
from surecall.runtime.requests import Exchange, Requests
from surecall.runtime.trace import Recorder, plain_words
from surecall.settings.config import all_settings
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import (
    CallsInOrderEvent,
    FinalEvent,
    FinalObjectedEvent,
    FixEmptyFinalEvent,
    ForcedContinuationEvent,
    LlmRequestEndEvent,
    LlmRequestRetryEvent,
    ModelChangedEvent,
    PolicyErrorEvent,
    RequestRefusedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunStartEvent,
    TextCallAskedEvent,
)
from surecall.values.types import Assistant, Plan, ToolCall, Usage, User
from surecall.values.version import __version__
from surecall.wire.assembler import TextDelta


class Session:
    """The asynchronous driver of one run.

    One that `hands_over` makes no calls: it ends as soon as there is one that may run. Of a `chain`
    of models, another goes on where one has failed.
    """

    def __init__(  # noqa: PLR0913  # collaborators
        self,
        run: Run,
        requests: Requests,
        dispatcher: ToolDispatcher,
        recorder: Recorder,
        policy_error: BaseException | None = None,
        accept_final: AcceptFinal | None = None,
        *,
        read_output: ReadOutput | None = None,
        hands_over: bool = False,
        chain: Chain | None = None,
    ) -> None:
        self._run = run
        self._chain = chain
        self._hands_over = hands_over
        self._answering: Answering | None = None
        self._requests = requests
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._policy_error = policy_error
        self._accept_final = accept_final
        self._read_output = read_output
        self._output: Any = None

    @property
    def run(self) -> Run:
        """How far the run has come; what has begun by now has begun, also in mid-turn."""
        return self._run if self._answering is None else self._answering.run

    async def drive(self) -> RunResult:
        """Run the loop to its end; return the result, or raise the error that carries it."""
        with self._recorder, Deadline(self._run.config.run_deadline_s) as self._deadline:
            return await self._driven()

    async def _driven(self) -> RunResult:
        self._run = self._begin(self._run)
        chain = self._chain
        if chain is not None:
            self._change(chain.begun(self._run))
        move = await self._moved()
        while chain is not None and self._change(chain.after(self._run, move)):
            move = await self._moved()
        return self._end(self._run, move)

    async def _moved(self) -> Wait | Done | Fail:
        """Make move after move, with one model, until there is none left to make."""
        async with self._requests.opened():
            while isinstance(move := await self._next_move(), Ask | Call):
                match move:
                    case Ask(plan):
                        self._run = await self._ask(self._run, plan)
                    case Call(calls) if self._hands_over and any(each.may_run for each in calls):
                        return Done(last_text(self._run), HANDED_OVER)
                    case Call(calls):
                        self._run = await self._call(self._run, calls)
                        self._answering = None
        return move

    def _change(self, change: Change | None) -> bool:
        """Let another model go on with the run; an answer of the last one does not count."""
        if change is None:
            return False
        said = self._run.last
        if isinstance(said, Assistant) and not (said.claims and missing_call(self._run, said)):
            self._withdraw(said.text)
        self._run = change.run
        self._requests, self._dispatcher = change.parts
        self._recorder.emit(
            ModelChangedEvent,
            change.run.turn,
            before=change.before,
            model=change.run.model,
            config=all_settings(change.run.config),
            options=change.run.options,
            fault=change.fault,
            endpoint=change.run.endpoint,
            rests=change.rests,
        )
        return True

    async def _next_move(self) -> Move:
        """Say what must happen next; an answer that is not accepted is not the end."""
        asks = self._accept_final is not None or self._run.output is not None
        while isinstance(move := next_move(self._run), Done) and asks:
            match await self._judged(move):
                case RunResult(output=output):
                    self._output = output
                    return move
                case Fault() as fault:
                    self._run = self._refuse(self._run, fault)
                case Objection() as objection:
                    self._object(objection, move.text)
        return move

    async def _judged(self, move: Done) -> RunResult | Objection | Fault:
        """Have an answer accepted, by its type and by the application."""
        result = self._result(self._run, move.text, move.stop_reason, self._usage())
        limit_s = self._deadline.left_s
        try:
            return await judged(result, self._read_output, self._accept_final, limit_s)
        except TimeoutError:
            return _too_late(self._run)

    def _object(self, objection: Objection, text: str) -> None:
        rung = OUTPUT if objection.by == "type" else OBJECTION
        self._run = objected(self._run, objection.reason, rung)
        said = self._run.last.content if isinstance(self._run.last, User) else ""
        self._recorder.emit(
            FinalObjectedEvent,
            self._run.turn - 1,
            reason=objection.reason,
            text=str(said),
            by=objection.by,
        )
        self._withdraw(text)

    def _result(self, run: Run, text: str, stop_reason: str, usage: Usage) -> RunResult:
        return RunResult(text, stop_reason, usage, self._recorder.trace, run, self._output)

    def _usage(self) -> Usage:
        return usage_of(self._recorder.trace)

    def _withdraw(self, text: str) -> None:
        """Take back an answer that was shown and does not count."""
        if self._requests.show is not None and text:
            self._requests.show(TextWithdrawn(text))

    def _begin(self, run: Run) -> Run:
        self._recorder.emit(
            RunStartEvent,
            run.turn,
            model=run.model,
            config=all_settings(run.config),
            options=run.options,
            tools=run.tools,
            system=run.system,
            messages=run.messages,
            start=run.start,
            begun=run.begun,
            endpoint=run.endpoint,
            decisions=run.decisions,
            since=run.since,
            output=run.output,
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
            asking = self._requests.ask(plan, run.turn, left)
            exchange = await self._deadline.within(asking)
        except ProviderError as error:
            return self._refuse(run, error.fault)
        except DeadlinePassed:
            return self._refuse(run, _too_late(run))
        # Observers get the reply itself; the transcript keeps a copy that they cannot reach.
        calls = tuple(call.private() for call in exchange.reply.calls)
        reply = msgspec.structs.replace(exchange.reply, calls=calls)
        after = heard(run, reply) if run.output is None else await heard_typed(run, reply)
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
        show = self._requests.show
        if said.claims and show is not None and not missing_call(after, said):
            # What was in doubt until now is what the model says.
            show(TextDelta(said.text))
        if words is not None:
            self._followed_up(turn, after, words)

    def _followed_up(self, turn: int, after: Run, words: User) -> None:
        """Record what the loop has said to an answer that does not count."""
        need = unmet(after)
        self._withdraw(after.said[-1].text)
        if words.rung == OUTPUT:
            said, reason = str(words.content), form_problem(after)
            self._recorder.emit(FinalObjectedEvent, turn, reason=reason, text=said, by="schema")
            return
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
        self._answering = Answering(run, self._dispatcher, self._recorder, self._deadline)
        try:
            await self._answering.answer(calls)
        except PolicyBroken as broken:
            fault = _policy_fault(broken.__cause__ or broken)
            return self._refuse(self._answering.answered, fault)
        return self._answering.answered

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

    def _end(self, run: Run, move: Wait | Done | Fail) -> RunResult:
        usage = self._usage()
        early = false_finals(run)
        turn = max(run.turn - 1, 0)
        match move:
            case Wait(calls):
                self._recorder.emit(
                    RunPausedEvent, turn, waiting=calls, usage=usage, false_finals=early
                )
                return self._result(run, last_text(run), WAITING, usage)
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
                    repairs=answer.repairs if (answer := typed_answer(run)) else (),
                )
                return self._result(run, text, stop_reason, usage)
            case Fail():
                move = after_changes(move, self._recorder.trace)
                self._recorder.emit(
                    RunFailedEvent,
                    turn,
                    code=move.code,
                    message=move.message,
                    usage=usage,
                    details=move.details,
                    false_finals=early,
                )
                raise failure(move, self._result(run, last_text(run), move.code, usage))


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
