"""Behaviors: well-formed replies that do not do what was asked.

Conversation behaviors apply to a whole conversation, and only if it has system instructions.
Parsing cannot repair them; only reminders, required calls, or schemas without an answer may help.
A model that ignores `tool_choice` is still bound by a grammar.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from surecall.simulator.personas.intent import (
    DONE,
    STATE_GET,
    STATE_PATCH,
    Intent,
    PlannedCall,
    call_outcomes,
    callable_tools,
    count_complaints,
    find_injection,
    next_intent,
)
from surecall.simulator.personas.recipes import CallOutcome
from surecall.simulator.request_checks import messages_of
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON

REFUSAL_ANSWER = "I cannot do that."
_ASSERTION_FAILED = "ASSERTION_FAILED"
_SHORTCUT_LENGTH = 100
# The `premature` behavior stops after this many complaints.
_COMPLAINT_LIMIT = 2

IntentChange: TypeAlias = Callable[[Intent, JSON], Intent]


def _keep_intent(intent: Intent, _request: JSON) -> Intent:
    return intent


class Behavior(msgspec.Struct, frozen=True):
    """How a model differs from a faultless one.

    `change` modifies the intent of the faultless model; behaviors of a single reply leave it
    unchanged, because the persona builds that reply. `outcome` is the category of a run in which
    the behavior applies and the client does not object.
    """

    id: str
    summary: str
    outcome: str
    change: IntentChange = _keep_intent
    ignores_tool_choice: bool = False


def apply_behavior(name: str, intent: Intent, request: JSON) -> Intent:
    """Change an intent; return the same object (`is`) if the behavior does not apply."""
    return (
        CONVERSATION_BEHAVIORS[name].change(intent, request)
        if intent.instructions.is_given
        else intent
    )


def answer_instead(intent: Intent, text: str) -> Intent:
    """Return the intent with an answer instead of calls."""
    return msgspec.structs.replace(intent, calls=(), text=text)


def _append_to_answer(addition: str) -> IntentChange:
    """Return a change that appends a sentence to the final answer."""

    def change(intent: Intent, _request: JSON) -> Intent:
        return answer_instead(intent, f"{DONE} {addition}") if intent.text == DONE else intent

    return change


def _only_after_errors(change: IntentChange) -> IntentChange:
    """Return a change that applies only if a call of the task failed."""
    return lambda intent, request: change(intent, request) if intent.had_errors else intent


def _only_in_chats(change: IntentChange) -> IntentChange:
    """Return a change that applies only in conversations without tools and calls."""

    def change_chat(intent: Intent, request: JSON) -> Intent:
        return (
            intent if request.get("tools") or _answered_calls(request) else change(intent, request)
        )

    return change_chat


def _answer_instead_of_calls(text: str) -> IntentChange:
    """Return a change that answers with a text instead of making calls."""
    return lambda intent, _request: answer_instead(intent, text) if intent.calls else intent


def _answered_calls(request: JSON) -> list[CallOutcome]:
    """Return all calls of the conversation that have results."""
    return call_outcomes(messages_of(request))


def _answer_before_first_call(intent: Intent, request: JSON) -> Intent:
    begun = _answered_calls(request) or count_complaints(messages_of(request))
    return answer_instead(intent, DONE) if intent.calls and not begun else intent


def _answer_after_first_results(intent: Intent, request: JSON) -> Intent:
    stops = _answered_calls(request) and count_complaints(messages_of(request)) < _COMPLAINT_LIMIT
    return answer_instead(intent, DONE) if intent.calls and stops else intent


def _answer_after_failed_call(intent: Intent, request: JSON) -> Intent:
    answers = _answered_calls(request)
    failed = bool(answers) and not answers[-1].ok and not count_complaints(messages_of(request))
    return answer_instead(intent, DONE) if intent.calls and failed else intent


def _repeat_first_read(intent: Intent, request: JSON) -> Intent:
    answers = _answered_calls(request)
    if not intent.calls or not answers or answers[-1].tool != STATE_GET:
        return intent
    # If the first repetition is rejected, the model continues; once it succeeds, it never stops.
    reads = sum(item.tool == STATE_GET and item.ok for item in answers)
    if reads == 0 or (reads == 1 and not answers[-1].ok):
        return intent
    return msgspec.structs.replace(intent, calls=_first_read(request))


def _first_read(request: JSON) -> tuple[PlannedCall, ...]:
    """Return the first call of the conversation."""
    messages = messages_of(request)
    roles = [message.get("role") for message in messages]
    opening = messages[: roles.index("assistant")]
    return next_intent(request | {"messages": opening, "tool_choice": "auto"}).calls[:1]


def _send_long_value(intent: Intent, _request: JSON) -> Intent:
    length = intent.instructions.min_length
    return _with_patch_value(intent, "x" * length) if length else intent


def _send_too_short_value(intent: Intent, request: JSON) -> Intent:
    patched = any(
        outcome.ok and outcome.tool == STATE_PATCH for outcome in _answered_calls(request)
    )
    if not intent.instructions.min_length:
        return intent
    if intent.calls and patched:
        return answer_instead(intent, DONE)
    return _with_patch_value(intent, "x" * _SHORTCUT_LENGTH)


def _send_wrong_value(intent: Intent, _request: JSON) -> Intent:
    return _with_patch_value(intent, "Bar")


def _with_patch_value(intent: Intent, value: str) -> Intent:
    """Return the intent with another value in every patch."""
    changed = tuple(_set_op_value(call, value) for call in intent.calls)
    return intent if changed == intent.calls else msgspec.structs.replace(intent, calls=changed)


def _set_op_value(call: PlannedCall, value: str) -> PlannedCall:
    match call.arguments:
        case {"ops": [dict(op)]}:
            arguments = call.arguments | {"ops": [op | {"value": value}]}
            return msgspec.structs.replace(call, arguments=arguments)
        case _:
            return call


def _ignore_instructions(intent: Intent, request: JSON) -> Intent:
    plain = next_intent(request, follow_instructions=False)
    return intent if plain == intent else plain


def _answer_with_blank_text(intent: Intent, _request: JSON) -> Intent:
    return answer_instead(intent, "") if intent.text else intent


def _truncate_answer(intent: Intent, _request: JSON) -> Intent:
    half = msgspec.structs.replace(intent, text=intent.text[: len(DONE) // 2], finish="length")
    return half if intent.text else intent


def _make_injected_call(intent: Intent, request: JSON) -> Intent:
    injected = find_injection(request)
    if injected is None or injected.tool not in callable_tools(request):
        return intent
    if any(item.tool == injected.tool for item in _answered_calls(request)):
        return intent
    call = PlannedCall(injected.tool, injected.arguments)
    return msgspec.structs.replace(intent, calls=(call,), text="")


_ALL: Final = (
    Behavior(
        "chatty-final",
        "adds a sentence to an answer that should be exact",
        _ASSERTION_FAILED,
        _append_to_answer("Let me know if there is anything else."),
    ),
    Behavior(
        "apologetic",
        "adds an apology to the answer if a call failed",
        _ASSERTION_FAILED,
        _only_after_errors(_append_to_answer("Sorry for the trouble.")),
    ),
    Behavior(
        "talkative",
        "adds a sentence to the answer in conversations without tools",
        _ASSERTION_FAILED,
        _only_in_chats(_append_to_answer("How else may I help?")),
    ),
    Behavior(
        "hasty",
        "says that it is done before the first call; starts after a reminder",
        ErrorCode.NO_TOOL_CALLS,
        _answer_before_first_call,
    ),
    Behavior(
        "premature",
        "says that it is done after the first results; continues after two complaints or if a call "
        "is required",
        _ASSERTION_FAILED,
        _answer_after_first_results,
    ),
    Behavior(
        "heedless",
        "says that it is done after a failed call; repeats the call after a reminder",
        ErrorCode.TOOL_ERROR,
        _answer_after_failed_call,
    ),
    Behavior(
        "circling",
        "repeats its first read; only an immediate rejection stops it",
        ErrorCode.LOOP_DETECTED,
        _repeat_first_read,
    ),
    Behavior(
        "unmoved",
        "says that it is done and calls nothing, despite reminders and required calls",
        ErrorCode.NO_TOOL_CALLS,
        _answer_instead_of_calls(DONE),
        ignores_tool_choice=True,
    ),
    Behavior(
        "unwilling",
        "says that it cannot do the task, despite reminders and required calls",
        ErrorCode.NO_TOOL_CALLS,
        _answer_instead_of_calls(REFUSAL_ANSWER),
        ignores_tool_choice=True,
    ),
    Behavior(
        "stubborn",
        "sends a long text when asked for one, and never a shorter one",
        ErrorCode.TOOL_ERROR,
        _send_long_value,
    ),
    Behavior(
        "shortcut",
        "sends a text that is too short when asked for a long one, then says that it is done",
        _ASSERTION_FAILED,
        _send_too_short_value,
    ),
    Behavior("sloppy", "sets a wrong value", _ASSERTION_FAILED, _send_wrong_value),
    Behavior(
        "forgetful",
        "does the task, but ignores the system instructions",
        _ASSERTION_FAILED,
        _ignore_instructions,
    ),
    Behavior(
        "obeys-injection",
        "makes a call that was injected into a tool result",
        _ASSERTION_FAILED,
        _make_injected_call,
    ),
    Behavior(
        "mute",
        "ends with an empty reply, even when re-prompted",
        "EMPTY_ASSISTANT_TEXT",
        _answer_with_blank_text,
    ),
    Behavior("cut-final", "hits the token limit in its answer", "TRUNCATED", _truncate_answer),
)
CONVERSATION_BEHAVIORS: Final = {each.id: each for each in _ALL}
