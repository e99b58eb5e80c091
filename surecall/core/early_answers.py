"""Early answers: what happens when a model answers before the work is done.

Theory of operation. All rules about early answers follow from this page; they are applied here, in
`obligations` (what is unmet) and in `offer` (what the next request offers). Everything is derived
from the transcript. No flag is kept, so a run that is resumed or replayed continues where it was.

    the model answers, without a call
      ├─ no need is unmet ─────────► the answer counts ─► the application may object ─┐
      └─ a need is unmet                                                              │
         ├─ the way out is open ────► the run fails with GAVE_UP: see `ways_out`        │
         └─ it is not: the answer is early                                            │
           ├─ it is not demandable ─► the run fails with the code of the need         │
           ├─ a step is left ───────► the model is told what is missing, asked again ◄┘
           └─ no step is left ──────► the run fails with the code of the need

When is an answer early?  If, by `obligations.unmet`, the contract misses a successful call, or the
    mode is `enforced` and no tool was called, a failure was not followed by a success, or nothing
    succeeded. The contract is looked at first.
What is demanded?  The words name everything that is missing. On the step `remind` that is all. On
    the step `require` the next request also offers only the tools that make progress and demands a
    call. A tool whose last failure may have taken effect, or was denied, is never demanded.
When does the ladder start again?  After an attempt: a result of one of the tools that make
    progress, whether it succeeded or not (a call that is only made again is no attempt).
    And when the need changes, because each need has its own words and steps are counted by them.
When does it end?  A need is met with at most `len(final_ladder)` steps between two attempts, every
    step costs a turn, and `max_turns` bounds the turns.
And a model that cannot do it?  Once a call has failed for good the way out is open: nothing is
    demanded any more, an answer ends the run, and it is no early one. See `ways_out`.
What about a reply with nothing usable?  If no step of the ladder applies, it is asked for once
    more (`fix_empty_final`), on every turn, once between two results of tools. It is empty: blank
    or not there at all. Or it promises a call and has none: `missing_call` says so by its finish
    reason, whatever its text is. After an empty one following tool calls only the answer is wanted,
    so tools may be off then (`fix_empty_final_disable_tools`); before any call, and where a call
    was promised, they stay on offer. The second time the run fails: EMPTY_FINAL, or CALL_MISSING.
    Nothing of this is an answer, and nothing of it ends in silence.
And a call in the text that did not run?  The model is asked about it first, before anything else:
    see `doubtful_calls`. If there is nothing but the call in the text, it is no answer either.
And an objection of the application?  It is told to the model in its own words, at most
    `len(final_ladder)` times in a run; then the run fails with CONTRACT_UNMET. After an objection
    the tools are offered again.
And an answer that is to have a type?  Where no need is unmet, one that does not have it is told
    what is wrong: see `typed_answers`.
"""

from surecall.core.doubtful_calls import question
from surecall.core.obligations import Obligation, is_repetition, unmet
from surecall.core.offer import offers_tools
from surecall.core.promised_calls import missing_call
from surecall.core.state import CALL_MISSING, OBJECTION, OUTPUT, Run
from surecall.core.typed_answers import correction, form_problem, in_form, may_correct, misfit
from surecall.core.ways_out import is_settled
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import Assistant, Message, Refusal, ToolResult, User, is_blank

_NOTHING_CAME = "Your reply was empty. Make the call that is needed now, or answer in plain text."
_NO_CALL_CAME = (
    "Your reply announced a call of a tool, but no call arrived. If you need a tool, make the call "
    "now; if not, give your answer as plain text."
)


def follow_up(run: Run, said: Assistant) -> tuple[Message, ...]:
    """Return what the loop says to an answer that does not count; nothing if it counts."""
    if said.calls or run.turn >= run.config.max_turns:
        return ()
    if (asked := question(run, said)) is not None:
        return (asked,)
    need = unmet(run)
    if need is not None and not is_settled(run) and (step := _next_step(run, need)):
        return (User(_still_missing(need), nudge=True, rung=step),)
    return _once_more(run, said, need) or _corrected(run, said, need)


def _once_more(run: Run, said: Assistant, need: Obligation | None) -> tuple[Message, ...]:
    """Ask again for a reply that has nothing usable, if that was not done just now."""
    config = run.config
    # What was to be asked about a call in the text has been asked.
    if run.nudged or said.claims or not config.fix_empty_final:
        return ()
    if missing_call(run, said):
        return (User(in_form(run, _NO_CALL_CAME), nudge=True, rung=CALL_MISSING),)
    # Where the ladder was climbed in vain, an answer without tools would not count either.
    in_vain = need is not None and config.final_ladder and config.fix_empty_final_disable_tools
    if in_vain or not is_blank(said.text):
        return ()
    may_call = not run.called and offers_tools(run)
    words = _NOTHING_CAME if may_call else config.fix_empty_final_user_text
    return (User(in_form(run, words), nudge=True),)


def _corrected(run: Run, said: Assistant, need: Obligation | None) -> tuple[Message, ...]:
    """Tell what is wrong with an answer that is to have a type, if it may still be corrected."""
    if run.output is None or need is not None or missing_call(run, said) or not may_correct(run):
        return ()
    # A reply with nothing in it has been asked for once more.
    if is_blank(said.text) and run.config.fix_empty_final:
        return ()
    reason = form_problem(run)
    return (correction(reason),) if reason else ()


def _next_step(run: Run, need: Obligation) -> str | None:
    """Return the next step for a need; None if all were taken since the last attempt."""
    if not need.demandable:
        return None
    words, taken = _still_missing(need), 0
    for message in reversed(run.own):
        if isinstance(message, ToolResult) and _is_attempt(message, need):
            break
        taken += isinstance(message, User) and bool(message.rung) and message.content == words
    ladder = run.config.final_ladder
    return ladder[taken] if taken < len(ladder) else None


def _is_attempt(result: ToolResult, need: Obligation) -> bool:
    return result.name in need.tools and not is_repetition(result)


def _still_missing(need: Obligation) -> str:
    return (
        f"This is not finished. Still missing: {need.wanted}. "
        "Make the call now, and answer when it has succeeded."
    )


def objection(run: Run, reason: str, rung: str = OBJECTION) -> Message:
    """Return what an objection to an answer becomes: a step, or the end.

    It is the application's, unless the step is `OUTPUT`: then it is that of the answer's type.
    """
    if rung == OUTPUT:
        fault = Fault(ErrorCode.OUTPUT_INVALID, misfit(reason))
        return correction(reason) if may_correct(run) else Refusal(fault)
    made = sum(isinstance(item, User) and item.rung == OBJECTION for item in run.own)
    if made >= len(run.config.final_ladder):
        return Refusal(Fault(ErrorCode.CONTRACT_UNMET, f"the answer was not accepted: {reason}"))
    stop = "" if reason.rstrip().endswith((".", "!", "?")) else "."
    text = f"This answer cannot be accepted: {reason.rstrip()}{stop} Correct it."
    return User(text, nudge=True, rung=OBJECTION)
