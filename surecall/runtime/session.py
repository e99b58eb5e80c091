"""Drives one run: carries out, times, and records each move of the loop."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from surecall.core.exposed_tools import exposes_tools, missing_call_reason
from surecall.core.giving_up import count_premature_answers
from surecall.core.loop import next_move, record_objection, record_refusal, record_reply
from surecall.core.obligations import unmet_obligation
from surecall.core.outcome import (
    APPROVAL_PENDING,
    TOOL_CALLS_REQUESTED,
    RunResult,
    last_text,
    run_error,
    total_usage,
    with_tried_models,
)
from surecall.core.state import (
    CALL_MISSING,
    CLAIM_UNSUPPORTED,
    OBJECTION,
    OUTPUT,
    TEXT_CALL,
    AskModel,
    AwaitApproval,
    Fail,
    Finish,
    Move,
    Run,
    RunTools,
    start_fields,
)
from surecall.core.streaming import TextWithdrawn
from surecall.core.tool_search import (
    search_query,
    search_results,
    with_learned_limit,
    with_searches,
)
from surecall.core.typed_answers import answer_problem, typed_answer
from surecall.core.unsupported_claims import unsupported_claims
from surecall.runtime.dispatch import ToolDispatcher, ToolPolicyFailed
from surecall.runtime.execution import USER_CODE_ERRORS, UserCodeError, call_user_code
from surecall.runtime.fallback_chain import FallbackChain, ModelSwitch
from surecall.runtime.hooks import AcceptFinal
from surecall.runtime.recording import Recorder, safe_str
from surecall.runtime.retrying_requests import ReceivedReply, RunRequests, run_in_thread_if_large
from surecall.runtime.tool_turn import Deadline, DeadlinePassed, TurnExecutor
from surecall.settings.config import all_settings
from surecall.tools.output import answer_parser
from surecall.tools.validation import clip_middle
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
    ObjectionSource,
    PolicyErrorEvent,
    RequestRefusedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunStartEvent,
    TextCallAskedEvent,
    ToolSearchEvent,
    UnsupportedClaimEvent,
)
from surecall.values.types import Assistant, Plan, Reply, ToolCall, Usage, User
from surecall.values.version import __version__
from surecall.wire.assembler import TextDelta

# Checks of a final answer: it is converted to the output type, then `accept_final` is called.
#
# Both are user code. An exception becomes an objection, or a fault of the run.

_MAX_REASON_CHARS: Final = 400
# How much longer validating a typed answer takes than parsing a body of the same size.
_PARSE_WEIGHT: Final = 16
# The weight of a schema that doubles this.
_WEIGHTS_PER_CHAR: Final = 4
# Converts validated JSON to a value of the output type.
ReadOutput: TypeAlias = Callable[[Any], Any]


class Objection(msgspec.Struct, frozen=True):
    """The reason why an answer is not accepted, and who objected."""

    reason: str
    by: ObjectionSource


async def check_final_answer(
    result: RunResult,
    read_output: ReadOutput | None,
    hook: AcceptFinal | None,
    limit_s: float = math.inf,
) -> RunResult | Objection | Fault:
    """Return the result with its output if the answer is accepted; an objection; or a fault.

    Raises `TimeoutError` if `accept_final` takes too long.
    """
    checked = await _parse_output(result, read_output)
    if hook is None or not isinstance(checked, RunResult):
        return checked
    try:
        reason = await find_objection(checked, hook, limit_s)
    except UserCodeError as raised:
        return _callback_fault("accept_final", raised.error)
    except TypeError as error:
        return _callback_fault("accept_final", error)
    return checked if reason is None else Objection(reason, "application")


async def record_typed_reply(run: Run, reply: Reply) -> Run:
    """Record a reply that may be a typed answer; a long one is parsed in a thread."""
    weight = 0 if run.output is None else answer_parser(run.output.schema).weight
    size = len(reply.text) * max(_PARSE_WEIGHT, weight // _WEIGHTS_PER_CHAR)
    return await run_in_thread_if_large(size, _record_and_parse, run, reply)


def _record_and_parse(run: Run, reply: Reply) -> Run:
    """Record a reply, and parse a typed answer in it."""
    after = record_reply(run, reply)
    if not reply.calls:
        typed_answer(after)  # cached in the run
    return after


async def _parse_output(
    result: RunResult, read_output: ReadOutput | None
) -> RunResult | Objection | Fault:
    """Convert an answer that fits the output's schema to its type."""
    answer = typed_answer(result.run)
    if answer is None:
        return result
    try:
        size = len(result.assistant_text) * _PARSE_WEIGHT
        value = (
            answer.value
            if read_output is None
            else await run_in_thread_if_large(size, read_output, answer.value)
        )
    except ValueError as problem:
        words = clip_middle(safe_str(problem), _MAX_REASON_CHARS)
        return Objection(words or "its type does not accept it", "type")
    except USER_CODE_ERRORS as error:
        return _callback_fault("the output type", error)
    return msgspec.structs.replace(result, output=value)


async def find_objection(
    result: RunResult, hook: AcceptFinal, limit_s: float = math.inf
) -> str | None:
    """Call `accept_final`; return its reason for rejecting the answer, or None."""
    reason: Any = await call_user_code(limit_s, hook, result)
    if reason is None:
        return None
    if isinstance(reason, str) and reason.strip():
        return reason
    raise TypeError(f"it returned {reason!r:.50}; return None or a reason")


def _callback_fault(callback: str, error: BaseException) -> Fault:
    """Return the fault for a callback that raised."""
    message = f"{callback} raised {type(error).__name__}: {safe_str(error)}"[:200]
    return Fault(ErrorCode.POLICY_ERROR, message)


class Session:
    """The asynchronous driver of one run.

    With `hands_over` it runs no calls, and ends as soon as there is an allowed one. With a `chain`,
    another model continues where one has failed.
    """

    def __init__(  # noqa: PLR0913  # collaborators
        self,
        run: Run,
        requests: RunRequests,
        dispatcher: ToolDispatcher,
        recorder: Recorder,
        policy_error: BaseException | None = None,
        accept_final: AcceptFinal | None = None,
        *,
        read_output: ReadOutput | None = None,
        hands_over: bool = False,
        chain: FallbackChain | None = None,
    ) -> None:
        self._run = run
        self._chain = chain
        self._hands_over = hands_over
        self._tool_turn: TurnExecutor | None = None
        self._requests = requests
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._policy_error = policy_error
        self._accept_final = accept_final
        self._read_output = read_output
        self._output: Any = None

    @property
    def run(self) -> Run:
        """The run so far, including calls that have begun in an unfinished turn."""
        return self._run if self._tool_turn is None else self._tool_turn.run

    async def drive(self) -> RunResult:
        """Run the loop to its end; return the result, or raise `RunFailed` with it."""
        with self._recorder, Deadline(self._run.config.run_deadline_s) as self._deadline:
            return await self._drive_models()

    async def _drive_models(self) -> RunResult:
        """Run the loop to its end, with another model of the chain where one has failed."""
        self._run = self._record_start(self._run)
        chain = self._chain
        if chain is not None:
            self._switch_model(chain.switch_at_start(self._run))
        move = await self._drive_model()
        while chain is not None and self._switch_model(chain.switch_after(self._run, move)):
            move = await self._drive_model()
        return self._finish(self._run, move)

    async def _drive_model(self) -> AwaitApproval | Finish | Fail:
        """Carry out moves with the current model until the run ends or pauses."""
        async with self._requests.keep_open():
            while isinstance(move := await self._next_move(), AskModel | RunTools):
                match move:
                    case AskModel(plan):
                        self._run = await self._request_reply(self._run, plan)
                    case RunTools(calls) if self._hands_over and any(
                        each.is_runnable for each in calls
                    ):
                        return Finish(last_text(self._run), TOOL_CALLS_REQUESTED)
                    case RunTools(calls):
                        self._run = await self._run_calls(self._run, calls)
                        self._tool_turn = None
        return move

    def _switch_model(self, switch: ModelSwitch | None) -> bool:
        """Continue the run with another model, and withdraw an answer of the last one."""
        if switch is None:
            return False
        answer = self._run.last_message
        if isinstance(answer, Assistant) and not (
            answer.claims and missing_call_reason(self._run, answer)
        ):
            self._withdraw(answer.text)
        self._run = switch.run
        self._requests, self._dispatcher = switch.parts
        self._recorder.emit(
            ModelChangedEvent,
            switch.run.turn_count,
            before=switch.before,
            model=switch.run.model,
            config=all_settings(switch.run.config),
            options=switch.run.options,
            fault=switch.fault,
            endpoint=switch.run.endpoint,
            rests=switch.rests,
        )
        return True

    async def _next_move(self) -> Move:
        """Return the next move, after checking a final answer; a rejected one continues the run."""
        asks = self._accept_final is not None or self._run.output is not None
        while isinstance(move := next_move(self._run), Finish) and asks:
            match await self._check_answer(move):
                case RunResult(output=output):
                    self._output = output
                    return move
                case Fault() as fault:
                    self._run = self._record_refusal(self._run, fault)
                case Objection() as objection:
                    self._record_objection(objection, move.text)
        return move

    async def _check_answer(self, move: Finish) -> RunResult | Objection | Fault:
        """Check an answer with the output type and the application."""
        result = self._build_result(self._run, move.text, move.stop_reason, self._total_usage())
        limit_s = self._deadline.remaining_s
        try:
            return await check_final_answer(result, self._read_output, self._accept_final, limit_s)
        except TimeoutError:
            return _deadline_fault(self._run)

    def _record_objection(self, objection: Objection, text: str) -> None:
        """Record that an answer is not accepted, and withdraw its text."""
        rung = OUTPUT if objection.by == "type" else OBJECTION
        self._run = record_objection(self._run, objection.reason, rung)
        prompt = self._run.last_message.content if isinstance(self._run.last_message, User) else ""
        self._recorder.emit(
            FinalObjectedEvent,
            self._run.turn_count - 1,
            reason=objection.reason,
            text=str(prompt),
            by=objection.by,
        )
        self._withdraw(text)

    def _build_result(self, run: Run, text: str, stop_reason: str, usage: Usage) -> RunResult:
        return RunResult(text, stop_reason, usage, self._recorder.trace, run, self._output)

    def _total_usage(self) -> Usage:
        return total_usage(self._recorder.trace)

    def _withdraw(self, text: str) -> None:
        """Withdraw text that was shown as an answer and does not count."""
        if self._requests.show is not None and text:
            self._requests.show(TextWithdrawn(text))

    def _record_start(self, run: Run) -> Run:
        """Record the start of the run, and an error of the tool policy before it."""
        self._recorder.emit(
            RunStartEvent,
            run.turn_count,
            config=all_settings(run.config),
            version=__version__,
            **start_fields(run),
        )
        if self._policy_error is None:
            return run
        record_policy_error(self._recorder, self._policy_error)
        if run.config.policy_error_mode == "raise":
            return self._record_refusal(run, _policy_fault(self._policy_error))
        return run

    async def _request_reply(self, run: Run, plan: Plan) -> Run:
        remaining_s = self._deadline.remaining_s
        if remaining_s <= 0:
            return self._record_refusal(run, _deadline_fault(run))
        try:
            asking = self._requests.ask(plan, run.turn_count, remaining_s)
            exchange = await self._deadline.within(asking)
        except ProviderError as error:
            return self._record_refusal(run, error.fault)
        except DeadlinePassed:
            return self._record_refusal(run, _deadline_fault(run))
        run = with_learned_limit(run, exchange.lessons)
        reply = with_searches(run, exchange.reply)
        exchange = msgspec.structs.replace(exchange, reply=reply)
        # Observers get the original reply; the transcript keeps a copy that they cannot change.
        calls = tuple(call.with_copied_arguments() for call in reply.calls)
        reply = msgspec.structs.replace(reply, calls=calls)
        after = (
            record_reply(run, reply) if run.output is None else await record_typed_reply(run, reply)
        )
        self._emit_reply(run.turn_count, after, exchange)
        return after

    def _emit_reply(self, turn: int, after: Run, received: ReceivedReply) -> None:
        """Record a reply, and the loop's follow-up prompt if there is one."""
        message = after.replies[-1]
        self._recorder.emit(
            LlmRequestEndEvent,
            turn,
            reply=received.reply,
            body=received.body,
            request_hash=received.request_hash,
            attempt=received.attempt,
            elapsed_ms=received.elapsed_ms,
            response_bytes=received.response_bytes,
            lessons=received.lessons,
            streamed=received.streamed,
            ignored_tool_calls=tuple(call.id for call in message.ignored_calls),
        )
        searches = search_results(after)
        for call, result in searches:
            self._recorder.emit(
                ToolSearchEvent,
                turn,
                call_id=call.id,
                query=search_query(call),
                found=result.found or (),
                error_codes=result.error_codes,
            )
        running = sum(not call.is_ignored for call in message.calls) - len(searches)
        if running > 1 and after.requests_single_calls:
            self._recorder.emit(CallsInOrderEvent, turn, calls=running)
        words = after.last_message if isinstance(after.last_message, User) else None
        if words is not None and words.rung == TEXT_CALL:
            self._emit_text_call(turn, message, words)
            return
        show = self._requests.show
        if message.claims and show is not None and not missing_call_reason(after, message):
            # The text held back as a possible call is part of the answer.
            show(TextDelta(message.text))
        if words is not None:
            self._emit_follow_up(turn, after, words)

    def _emit_follow_up(self, turn: int, after: Run, follow_up: User) -> None:
        """Record the loop's follow-up prompt to an answer that does not count."""
        need = unmet_obligation(after)
        self._withdraw(after.replies[-1].text)
        if follow_up.rung == OUTPUT:
            prompt, reason = str(follow_up.content), answer_problem(after)
            self._recorder.emit(FinalObjectedEvent, turn, reason=reason, text=prompt, by="schema")
            return
        if follow_up.rung == CLAIM_UNSUPPORTED:
            self._emit_claims(after, turn, str(follow_up.content))
            return
        if follow_up.rung in {"", CALL_MISSING} or need is None:
            self._recorder.emit(
                FixEmptyFinalEvent,
                turn,
                disable_tools=not exposes_tools(after),
                user_text_bytes=len(str(follow_up.content).encode()),
                text=str(follow_up.content),
            )
            return
        self._recorder.emit(
            ForcedContinuationEvent,
            turn,
            rung=follow_up.rung,
            code=need.code,
            message=need.message,
            text=str(follow_up.content),
            tools=need.tools,
        )

    def _emit_claims(self, run: Run, turn: int, prompt: str = "") -> None:
        """Record what the answer claims without a call, and the prompt about it, if any."""
        if claims := unsupported_claims(run):
            self._recorder.emit(UnsupportedClaimEvent, turn, claims=claims, text=prompt)

    def _emit_text_call(self, turn: int, message: Assistant, prompt: User) -> None:
        """Record that the model was re-prompted about a call in its text."""
        self._recorder.emit(
            TextCallAskedEvent,
            turn,
            rule=message.claims[0].rule,
            tools=tuple(dict.fromkeys(claim.name for claim in message.claims if claim.name)),
            text=str(prompt.content),
        )

    async def _run_calls(self, run: Run, calls: Sequence[ToolCall]) -> Run:
        self._tool_turn = TurnExecutor(run, self._dispatcher, self._recorder, self._deadline)
        try:
            await self._tool_turn.answer_calls(calls)
        except ToolPolicyFailed as broken:
            fault = _policy_fault(broken.__cause__ or broken)
            return self._record_refusal(self._tool_turn.run_with_results, fault)
        return self._tool_turn.run_with_results

    def _record_refusal(self, run: Run, fault: Fault) -> Run:
        self._recorder.emit(RequestRefusedEvent, run.turn_count, fault=fault)
        after = record_refusal(run, fault)
        if isinstance(next_move(after), AskModel):
            self._recorder.emit(
                LlmRequestRetryEvent,
                run.turn_count,
                attempt=1,
                wait_s=0.0,
                tools_enabled=exposes_tools(after),
            )
        return after

    def _finish(self, run: Run, move: AwaitApproval | Finish | Fail) -> RunResult:
        """Record the end of the run; return its result, or raise `RunFailed`."""
        usage = self._total_usage()
        early = count_premature_answers(run)
        turn = max(run.turn_count - 1, 0)
        match move:
            case AwaitApproval(calls):
                self._recorder.emit(
                    RunPausedEvent, turn, waiting=calls, usage=usage, false_finals=early
                )
                return self._build_result(run, last_text(run), APPROVAL_PENDING, usage)
            case Finish(text, stop_reason):
                self._emit_claims(run, turn)
                self._recorder.emit(
                    FinalEvent,
                    turn,
                    text=text,
                    stop_reason=stop_reason,
                    usage=usage,
                    any_tool_calls_seen=run.has_called_tools,
                    any_tool_success_seen=any(result.ok for result in run.results),
                    false_finals=early,
                    repairs=answer.repairs if (answer := typed_answer(run)) else (),
                )
                return self._build_result(run, text, stop_reason, usage)
            case Fail():
                move = with_tried_models(move, self._recorder.trace)
                self._recorder.emit(
                    RunFailedEvent,
                    turn,
                    code=move.code,
                    message=move.message,
                    usage=usage,
                    details=move.details,
                    false_finals=early,
                )
                raise run_error(move, self._build_result(run, last_text(run), move.code, usage))


def record_policy_error(
    recorder: Recorder, error: BaseException, call: ToolCall | None = None
) -> None:
    """Record that the tool policy raised, in the turn of the newest event."""
    recorder.emit(
        PolicyErrorEvent,
        recorder.events[-1].turn,
        stage="exposure" if call is None else "call",
        message=f"the tool policy raised {type(error).__name__}: {safe_str(error)}"[:200],
        call_id=call.id if call else None,
        name=call.name if call else None,
    )


def _deadline_fault(run: Run) -> Fault:
    message = f"the run took longer than {run.config.run_deadline_s:g} s"
    return Fault(ErrorCode.DEADLINE_EXCEEDED, message)


def _policy_fault(error: BaseException) -> Fault:
    return Fault(ErrorCode.POLICY_ERROR, f"the tool policy raised {type(error).__name__}")
