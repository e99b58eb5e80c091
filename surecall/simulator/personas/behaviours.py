"""Behaviours: a model does something else than it was asked to, in replies that are well formed.

Those of a conversation show in conversations with instructions only, and from beginning to end.
No reader can cure them. What helps, if anything does, is what the client says and demands: a
reminder, a call that is required, a schema without an answer. A model that is *deaf* does not heed
`tool_choice`; a grammar binds it all the same.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from surecall.simulator.personas.intent import (
    DONE,
    GET,
    PATCH,
    Intent,
    Outcome,
    Wanted,
    complaints,
    injection_in,
    next_intent,
    offered,
    outcomes,
)
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON

REFUSAL = "I cannot do that."
_ASSERTION_FAILED = "ASSERTION_FAILED"
_BARELY_LONG = 100
# After this many complaints the `premature` behaviour gives in.
_INSISTING = 2

Change: TypeAlias = Callable[[Intent, JSON], Intent]


def _unchanged(intent: Intent, _request: JSON) -> Intent:
    return intent


class Behaviour(msgspec.Struct, frozen=True):
    """What a model does instead of what a good one would do.

    `change` is made to the intent of the good one. For the behaviour of a single reply it does
    nothing: the persona writes that reply. `outcome` is the category that a judged run ends in
    where the behaviour shows and the client does not object; elsewhere the run is as good as any.
    """

    id: str
    summary: str
    outcome: str
    change: Change = _unchanged
    deaf: bool = False


def with_behaviour(name: str, intent: Intent, request: JSON) -> Intent:
    """Change an intent; the same object (`is`) where the behaviour does not show."""
    return CONVERSATION_BEHAVIOURS[name].change(intent, request) if intent.orders.given else intent


def says(intent: Intent, text: str) -> Intent:
    """Return an intent that answers instead of calling."""
    return msgspec.structs.replace(intent, calls=(), text=text)


def _adding(words: str) -> Change:
    def change(intent: Intent, _request: JSON) -> Intent:
        return says(intent, f"{DONE} {words}") if intent.text == DONE else intent

    return change


def _only_when_told(change: Change) -> Change:
    return lambda intent, request: change(intent, request) if intent.told else intent


def _only_in_chats(change: Change) -> Change:
    def changed(intent: Intent, request: JSON) -> Intent:
        return intent if request.get("tools") or _answers(request) else change(intent, request)

    return changed


def _instead_of_calls(text: str) -> Change:
    return lambda intent, _request: says(intent, text) if intent.calls else intent


def _messages(request: JSON) -> list[JSON]:
    return [item for item in request.get("messages", ()) if isinstance(item, dict)]


def _answers(request: JSON) -> list[Outcome]:
    """Return the answered calls of the whole conversation."""
    return outcomes(_messages(request))


def _hasty(intent: Intent, request: JSON) -> Intent:
    begun = _answers(request) or complaints(_messages(request))
    return says(intent, DONE) if intent.calls and not begun else intent


def _premature(intent: Intent, request: JSON) -> Intent:
    stops = _answers(request) and complaints(_messages(request)) < _INSISTING
    return says(intent, DONE) if intent.calls and stops else intent


def _heedless(intent: Intent, request: JSON) -> Intent:
    answers = _answers(request)
    failed = bool(answers) and not answers[-1].ok and not complaints(_messages(request))
    return says(intent, DONE) if intent.calls and failed else intent


def _circling(intent: Intent, request: JSON) -> Intent:
    answers = _answers(request)
    if not intent.calls or not answers or answers[-1].tool != GET:
        return intent
    # If the first repetition is refused it goes on; if it succeeds once it never stops.
    reads = sum(item.tool == GET and item.ok for item in answers)
    if reads == 0 or (reads == 1 and not answers[-1].ok):
        return intent
    return msgspec.structs.replace(intent, calls=_first_calls(request))


def _first_calls(request: JSON) -> tuple[Wanted, ...]:
    """Return the read that the conversation began with."""
    messages = _messages(request)
    roles = [message.get("role") for message in messages]
    opening = messages[: roles.index("assistant")]
    return next_intent(request | {"messages": opening, "tool_choice": "auto"}).calls[:1]


def _stubborn(intent: Intent, _request: JSON) -> Intent:
    length = intent.orders.length
    return _with_value(intent, "x" * length) if length else intent


def _shortcut(intent: Intent, request: JSON) -> Intent:
    patched = any(outcome.ok and outcome.tool == PATCH for outcome in _answers(request))
    if not intent.orders.length:
        return intent
    if intent.calls and patched:
        return says(intent, DONE)
    return _with_value(intent, "x" * _BARELY_LONG)


def _sloppy(intent: Intent, _request: JSON) -> Intent:
    return _with_value(intent, "Bar")


def _with_value(intent: Intent, value: str) -> Intent:
    """Let every patch set another value than the right one."""
    changed = tuple(_call_with(call, value) for call in intent.calls)
    return intent if changed == intent.calls else msgspec.structs.replace(intent, calls=changed)


def _call_with(call: Wanted, value: str) -> Wanted:
    match call.arguments:
        case {"ops": [dict(op)]}:
            arguments = call.arguments | {"ops": [op | {"value": value}]}
            return msgspec.structs.replace(call, arguments=arguments)
        case _:
            return call


def _forgetful(intent: Intent, request: JSON) -> Intent:
    plain = next_intent(request, heeds=False)
    return intent if plain == intent else plain


def _mute(intent: Intent, _request: JSON) -> Intent:
    return says(intent, "") if intent.text else intent


def _cut_off(intent: Intent, _request: JSON) -> Intent:
    half = msgspec.structs.replace(intent, text=intent.text[: len(DONE) // 2], finish="length")
    return half if intent.text else intent


def _obedient(intent: Intent, request: JSON) -> Intent:
    injected = injection_in(request)
    if injected is None or injected.tool not in offered(request):
        return intent
    if any(item.tool == injected.tool for item in _answers(request)):
        return intent
    call = Wanted(injected.tool, injected.arguments)
    return msgspec.structs.replace(intent, calls=(call,), text="")


_ALL: Final = (
    Behaviour(
        "chatty-final",
        "adds a sentence to the one that the answer should be",
        _ASSERTION_FAILED,
        _adding("Let me know if there is anything else."),
    ),
    Behaviour(
        "apologetic",
        "adds an apology to the answer when anything has failed on the way",
        _ASSERTION_FAILED,
        _only_when_told(_adding("Sorry for the trouble.")),
    ),
    Behaviour(
        "talkative",
        "adds a sentence to the answer in conversations without tools",
        _ASSERTION_FAILED,
        _only_in_chats(_adding("How else may I help?")),
    ),
    Behaviour(
        "hasty",
        "says that it is done before it has done anything, and begins when it is reminded",
        ErrorCode.NO_TOOL_CALLS,
        _hasty,
    ),
    Behaviour(
        "premature",
        "says that it is done after the first answers, until it is told so twice or must call",
        _ASSERTION_FAILED,
        _premature,
    ),
    Behaviour(
        "heedless",
        "says that it is done when a call has failed, and makes it again when it is reminded",
        ErrorCode.TOOL_ERROR,
        _heedless,
    ),
    Behaviour(
        "circling",
        "reads again what it has just read; only an immediate refusal stops it",
        ErrorCode.LOOP_DETECTED,
        _circling,
    ),
    Behaviour(
        "unmoved",
        "says that it is done and does nothing, whatever it is told and whatever is demanded",
        ErrorCode.NO_TOOL_CALLS,
        _instead_of_calls(DONE),
        deaf=True,
    ),
    Behaviour(
        "unwilling",
        "says that it cannot do what it is asked to, whatever it is told and whatever is demanded",
        ErrorCode.NO_TOOL_CALLS,
        _instead_of_calls(REFUSAL),
        deaf=True,
    ),
    Behaviour(
        "stubborn",
        "asked for a long text, it sends nothing shorter, whatever it is told",
        ErrorCode.TOOL_ERROR,
        _stubborn,
    ),
    Behaviour(
        "shortcut",
        "asked for a long text, it sends one that is not long enough and leaves it at that",
        _ASSERTION_FAILED,
        _shortcut,
    ),
    Behaviour("sloppy", "sets another value than the one it was told", _ASSERTION_FAILED, _sloppy),
    Behaviour(
        "forgetful",
        "does the task, but heeds none of the instructions about how",
        _ASSERTION_FAILED,
        _forgetful,
    ),
    Behaviour(
        "obeys-injection",
        "makes a call that somebody wrote into what a tool has returned",
        _ASSERTION_FAILED,
        _obedient,
    ),
    Behaviour("mute", "ends with nothing, also when asked again", "EMPTY_ASSISTANT_TEXT", _mute),
    Behaviour("cut-final", "is cut off by the token limit in its answer", "TRUNCATED", _cut_off),
)
CONVERSATION_BEHAVIOURS: Final = {each.id: each for each in _ALL}
