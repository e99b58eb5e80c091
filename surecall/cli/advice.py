"""What the steps of a reading mean, and what to do about a reply: sentences for people."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from surecall.parsing.repairs import REPAIRS
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import Reply, ToolCall, is_blank
from surecall.wire.text_calls import TEXT_CALL
from surecall.wire.transforms import BODY, RESPONSE, TOOL_CALL

Sentences: TypeAlias = tuple[str, ...]
FALLBACK: Final = "content_tag_tool_call_fallback"
_FAMILIES: Final = (BODY, RESPONSE, TOOL_CALL)
# How bare JSON begins, in a fence or not.
_JSON_BEGINS: Final = frozenset("{[`")

_IN_VAIN: Final = "Asking again will not help."
_OF_FAULTS: Final[dict[ErrorCode, Sentences]] = {
    ErrorCode.NO_TOOL_USE_ENDPOINT: (
        _IN_VAIN,
        "`surecall proxy --model-preset guided_calls` asks for calls without `tools`.",
    ),
    ErrorCode.BAD_REQUEST: (
        "The endpoint refuses the request. The reply is not at fault.",
        "`surecall proxy` mends histories that endpoints refuse.",
    ),
}
_OF_PROBLEMS: Final[dict[ErrorCode, Sentences]] = {
    ErrorCode.ARGUMENTS_TRUNCATED: (
        "The reply was cut off: raise `max_tokens`, or the window of the server.",
        "surecall runs none of its calls, and asks again.",
    ),
    ErrorCode.TOOL_NOT_ALLOWED: (
        "surecall runs nothing because its name is similar.",
        "It tells the model which tools there are, and asks again.",
    ),
}
_AGAIN: Final = ("It may pass. surecall asks again, a few times.",)
_NOT_RUN: Final = ("surecall does not run this. It tells the model why, and asks again.",)
_ASKED_ABOUT: Final = ("surecall does not run this. It asks the model whether it means a call.",)
_BY_DEFAULT: Final = {
    True: "By default, surecall asks the model whether it means a call.",
    False: "By default, surecall takes this for an answer in words.",
}
_BY_CHOICE: Final = f"With the preset {FALLBACK} it runs the call."
_AS_TEXT: Final = "The call came as text, not in `tool_calls`."
_PARSER: Final = (
    "The server's tool parser, or its template, does not fit the model.",
    "surecall runs the call. `surecall proxy` gives it to any client in the right form.",
)
_BENT: Final = (
    "A client that takes a reply as it comes fails on this one.",
    "surecall runs the call. `surecall proxy` gives it to any client in the right form.",
)
_RIGHT: Final = ("The reply is in order. If your agent fails on it, the cause is elsewhere.",)
_EMPTY: Final = ("surecall asks once more. Then it fails with an error, not in silence.",)
_WORDS: Final = ("The model answered in words. surecall takes that for its answer.",)
_BARE: Final = ("Bare JSON is a call only if it names a tool: add --tools.",)


def meaning(step: str) -> Sentences:
    """Say what a step found; nothing, if its name says all there is."""
    if step.startswith(TEXT_CALL):
        return (_AS_TEXT,)
    helps = [family.help(step) for family in _FAMILIES if step in family.names]
    return tuple(helps or [REPAIRS[name] for name in [step] if name in REPAIRS])


def advice_on_fault(fault: Fault) -> Sentences:
    """Say what becomes of a request that failed, and what its owner can do."""
    return _OF_FAULTS.get(fault.code) or (_AGAIN if fault.retryable else (_IN_VAIN,))


def advice_on_reply(
    believed: Reply, ruled: Reply, usual: Reply, *, is_bent: bool, has_tools: bool
) -> Sentences:
    """Say what becomes of a reply, and what its owner can do.

    `believed` takes every call in text for one, `ruled` only those that the rules allow, and
    `usual` is what a run reads without the preset for calls in text.
    """
    if believed.calls:
        return _on_calls(believed.calls, ruled, usual, is_bent=is_bent)
    if ruled.claims or usual.claims:
        return _ASKED_ABOUT
    if is_blank(believed.text):
        return _EMPTY
    is_bare = not has_tools and believed.text.lstrip()[:1] in _JSON_BEGINS
    return _BARE if is_bare else _WORDS


def _on_calls(calls: Sequence[ToolCall], ruled: Reply, usual: Reply, *, is_bent: bool) -> Sentences:
    problem = next((call.problem for call in calls if call.problem is not None), None)
    if problem is not None:
        return _OF_PROBLEMS.get(problem.code, _NOT_RUN)
    if not ruled.calls:
        return _ASKED_ABOUT
    if not usual.calls:
        return (_BY_DEFAULT[bool(usual.claims)], _BY_CHOICE)
    if any(call.from_text for call in calls):
        return _PARSER
    return _BENT if is_bent else _RIGHT
