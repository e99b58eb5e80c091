"""Premature answers: what happens when the model answers before the work is done.

The rules are applied here, in `obligations` (what is unmet), and in `exposed_tools` (the next
request). Everything is derived from the transcript, so a resumed or replayed run continues
exactly where it was.

    the model answers without a call
      ├─ nothing is unmet ──────────────► the answer counts; the application may object ─┐
      └─ a need is unmet                                                                 │
         ├─ a call failed permanently ──► the run fails with GAVE_UP: see `giving_up`    │
         └─ otherwise: premature answer                                                  │
           ├─ not demandable ───────────► the run fails with the code of the need        │
           ├─ a step is left ───────────► the model is re-prompted ◄─────────────────────┘
           └─ no step is left ──────────► the run fails with the code of the need

When is an answer premature?  If the contract lacks a successful call, or the mode is `enforced`
    and no tool was called, a failure was not followed by a success, or nothing succeeded. The
    contract is checked first (`obligations.unmet_obligation`).
What does the prompt ask for?  It names everything that is missing. On the step `require`, the next
    request also exposes only the tools that make progress and requires a call. A tool whose last
    failure may have taken effect, or was denied, is never required.
When does the ladder restart?  After an attempt: a result of a tool that makes progress, successful
    or not (a repeated call is no attempt). Also when the need changes, because steps are counted
    by the text of the prompt.
When does it end?  There are at most `len(final_ladder)` steps between two attempts, every step
    takes a turn, and `max_turns` limits the turns.
What if the task is impossible?  Once a call has failed permanently, the model is not prompted any
    more, and an answer ends the run. It does not count as premature. See `giving_up`.
What if a reply is unusable?  If no step of the ladder applies, the model is re-prompted once
    between two tool results (`fix_empty_final`). A reply is unusable if it is blank, or if it
    announces a call and has none (`missing_call_reason`, judging by the finish reason). After an
    empty answer to tool results, the next request may omit the tools
    (`fix_empty_final_disable_tools`); before any call, and where a call was announced, they stay.
    A second unusable reply fails the run with EMPTY_FINAL or CALL_MISSING.
What if the text only announces work ("Let me read the file:")?  The model is re-prompted in the
    same way, while it may call tools. It may mean its text as the answer, so a second one counts.
What if the text contains a call that did not run?  The model is asked about it before anything
    else: see `ambiguous_calls`. A reply that is only such a call is no answer.
What if the answer claims what no call did?  It is reported; with `verify_claims="ask"`, the model
    is asked about it once in a run. See `unsupported_claims`.
What if the application objects?  Its message is sent to the model, at most `len(final_ladder)`
    times in a run; then the run fails with CONTRACT_UNMET. The tools are exposed again.
What if the answer must have a type?  Where nothing is unmet, an invalid answer is sent back: see
    `typed_answers`.
"""

from surecall.core.ambiguous_calls import ambiguity_question
from surecall.core.cut_calls import has_used_turns
from surecall.core.exposed_tools import exposes_tools, missing_call_reason
from surecall.core.giving_up import before_last_reply, has_conclusive_failure
from surecall.core.obligations import Obligation, is_repetition, unmet_obligation
from surecall.core.state import CALL_MISSING, CLAIM_UNSUPPORTED, OBJECTION, OUTPUT, Run
from surecall.core.typed_answers import (
    answer_problem,
    can_correct,
    correction_message,
    mismatch_message,
    prompt_in_form,
)
from surecall.core.unsupported_claims import unsupported_claims
from surecall.parsing.announcements import announcement_in
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import Assistant, Message, Refusal, ToolResult, User, is_blank
from surecall.wire.content_parts import text_of

_EMPTY_REPLY = "Your reply was empty. Make the call that is needed now, or answer in plain text."
_MISSING_CALL = (
    "Your reply announced a call of a tool, but no call arrived. If you need a tool, make the call "
    "now; if not, give your answer as plain text."
)

_ANNOUNCED_WORK = (
    "Your reply ended before the work that it announces. If a tool is needed, make the call now; "
    "if not, give your complete answer as plain text."
)

_UNSUPPORTED_CLAIM = (
    "Your answer says: {}. No tool call that succeeded did this. Make the call now if a tool can "
    "do it; if not, correct your answer."
)


def follow_up_messages(run: Run, reply: Assistant) -> tuple[Message, ...]:
    """Return the prompt that follows an answer that does not count; nothing if it counts."""
    if reply.calls or (run.counted_turns >= run.config.max_turns and has_used_turns(run)):
        return ()
    if (ambiguity := ambiguity_question(run, reply)) is not None:
        return (ambiguity,)
    need = unmet_obligation(run)
    if need is not None and not has_conclusive_failure(run) and (step := _next_step(run, need)):
        return (User(_missing_call_prompt(need), nudge=True, rung=step),)
    return (
        _reprompt_unusable(run, reply, need)
        or _correct_typed_answer(run, reply, need)
        or _question_claims(run, need)
    )


def _reprompt_unusable(run: Run, reply: Assistant, need: Obligation | None) -> tuple[Message, ...]:
    """Re-prompt after an unusable reply, unless that was already done."""
    config = run.config
    # Ambiguous calls in the text have their own question, asked before this.
    if run.was_reprompted or reply.claims or not config.fix_empty_final:
        return ()
    if missing_call_reason(run, reply):
        return (User(prompt_in_form(run, _MISSING_CALL), nudge=True, rung=CALL_MISSING),)
    if need is None and is_announcement(run, reply):
        return (User(prompt_in_form(run, _ANNOUNCED_WORK), nudge=True, rung=CALL_MISSING),)
    # Once all steps of the ladder were taken, an answer without tools would not count either.
    has_exhausted_ladder = (
        need is not None and config.final_ladder and config.fix_empty_final_disable_tools
    )
    if has_exhausted_ladder or not is_blank(reply.text):
        return ()
    may_call = not run.has_called_tools and exposes_tools(run)
    prompt = _EMPTY_REPLY if may_call else config.fix_empty_final_user_text
    return (User(prompt_in_form(run, prompt), nudge=True),)


def is_announcement(run: Run, reply: Assistant) -> bool:
    """Whether the newest reply announces work that needs a call, and makes none."""
    if reply.calls or run.output is not None:
        return False
    requests = (item for item in reversed(run.messages) if isinstance(item, User))
    request = next((text_of(item.content) for item in requests if not item.nudge), "")
    return bool(announcement_in(reply.text, request)) and exposes_tools(before_last_reply(run))


def _question_claims(run: Run, need: Obligation | None) -> tuple[Message, ...]:
    """Ask once about actions that the answer claims and no call supports, where that is wanted."""
    asked = (isinstance(item, User) and item.rung == CLAIM_UNSUPPORTED for item in run.own_messages)
    if run.config.verify_claims != "ask" or need is not None or any(asked):
        return ()
    if not (claims := unsupported_claims(run)):
        return ()
    prompt = _UNSUPPORTED_CLAIM.format("; ".join(f'"{claim}"' for claim in claims))
    return (User(prompt_in_form(run, prompt), nudge=True, rung=CLAIM_UNSUPPORTED),)


def _correct_typed_answer(
    run: Run, reply: Assistant, need: Obligation | None
) -> tuple[Message, ...]:
    """Send an invalid typed answer back to the model, if it may still be corrected."""
    if (
        run.output is None
        or need is not None
        or missing_call_reason(run, reply)
        or not can_correct(run)
    ):
        return ()
    # A blank reply was already re-prompted.
    if is_blank(reply.text) and run.config.fix_empty_final:
        return ()
    reason = answer_problem(run)
    return (correction_message(reason),) if reason else ()


def _next_step(run: Run, need: Obligation) -> str | None:
    """Return the next step for a need; None if all were taken since the last attempt."""
    if not need.demandable:
        return None
    prompt, taken = _missing_call_prompt(need), 0
    for message in reversed(run.own_messages):
        if isinstance(message, ToolResult) and _is_attempt(message, need):
            break
        taken += isinstance(message, User) and bool(message.rung) and message.content == prompt
    ladder = run.config.final_ladder
    return ladder[taken] if taken < len(ladder) else None


def _is_attempt(result: ToolResult, need: Obligation) -> bool:
    """Whether a result is that of a new attempt to meet a need."""
    return result.name in need.tools and not is_repetition(result)


def _missing_call_prompt(need: Obligation) -> str:
    return (
        f"This is not finished. Still missing: {need.wanted}. "
        "Make the call now, and answer when it has succeeded."
    )


def objection_message(run: Run, reason: str, step: str = OBJECTION) -> Message:
    """Return the prompt for an objection to an answer, or the refusal that ends the run.

    The objection is the application's, or with the step `OUTPUT` the output type's.
    """
    if step == OUTPUT:
        fault = Fault(ErrorCode.OUTPUT_INVALID, mismatch_message(reason))
        return correction_message(reason) if can_correct(run) else Refusal(fault)
    objections = sum(isinstance(item, User) and item.rung == OBJECTION for item in run.own_messages)
    if objections >= len(run.config.final_ladder):
        return Refusal(Fault(ErrorCode.CONTRACT_UNMET, f"the answer was not accepted: {reason}"))
    stop = "" if reason.rstrip().endswith((".", "!", "?")) else "."
    text = f"This answer cannot be accepted: {reason.rstrip()}{stop} Correct it."
    return User(text, nudge=True, rung=OBJECTION)
