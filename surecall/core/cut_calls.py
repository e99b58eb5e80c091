"""Calls that the token limit cut off: a higher limit, then the rest of the same call.

    a call is cut off ─► it is refused; the next request has a higher limit, if one is set
    it is cut off again ─► the model is shown what arrived, and asked for the rest as text
      ├─ the text repeats the end of what arrived ─► joined; it may be cut off once more
      └─ it does not, or adds nothing ─► the model is asked for smaller steps

A joined call is parsed and validated like any other, so nothing runs before the whole is valid. The
overlap must be unambiguous: where the end of what arrived repeats itself, nothing is joined. A call
written as text is continued as text. Everything is derived from the transcript: what arrived is in
the refusal of the call.
"""

from typing import Final, NamedTuple

import msgspec

from surecall.core.state import Run
from surecall.parsing.arguments import ParsedArguments, refuse_truncated
from surecall.values.errors import ErrorCode
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Plan,
    Problem,
    Refusal,
    ToolCall,
    ToolResult,
)
from surecall.wire.chat_format import name_and_arguments, raw_calls
from surecall.wire.content_parts import text_of
from surecall.wire.text_calls import TRUNCATED_ARGUMENTS

# How often the limit is multiplied, and the options that set it.
_RAISE: Final = 4
_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_REFUSED: Final = frozenset({400, 422})
# Replies that continue a call do not count as turns, up to this many in a run.
MAX_CONTINUATIONS: Final = 64
_OVERLAP: Final = 40
_MIN_OVERLAP, _MAX_OVERLAP = 12, 400
_AROUND: Final = "` \t\r\n"
_HOW: Final = (
    " was cut off again. Do not start over, and make no call now: reply with text only. Repeat the "
    f"last {_OVERLAP} characters of what arrived, exactly, and continue right after them. What "
    "arrived:\n"
)
_ARGUMENTS_HEAD: Final = f"Your call{_HOW}"
_TEXT_HEAD: Final = f"Your reply with a call{_HOW}"
_SMALLER: Final = (
    "Your call was cut off and could not be continued. Do the work in smaller steps, each with "
    "shorter arguments."
)


class _CutCall(NamedTuple):
    """A call that the model was asked to continue: its tool, and what arrived of it."""

    name: str
    so_far: str
    in_text: bool


def awaits_continuation(messages: tuple[Message, ...]) -> bool:
    """Whether the model was asked to continue a call, so that its reply is no answer."""
    return _awaited_call(messages) is not None


def _awaited_call(messages: tuple[Message, ...]) -> _CutCall | None:
    """Return the call to continue; a cheap check of the last message spares most requests."""
    if not _ends_with_cut_call(messages):
        return None
    reply = next(item for item in reversed(messages) if isinstance(item, Assistant))
    return next(filter(None, map(_cut_call, reply.calls)), None)


def _ends_with_cut_call(messages: tuple[Message, ...]) -> bool:
    last = messages[-1] if messages else None
    if isinstance(last, Refusal) and len(messages) > 1:
        last = messages[-2]
    if not isinstance(last, ToolResult) or last.ok or last.executed:
        return False
    return ErrorCode.ARGUMENTS_TRUNCATED in last.error_codes


def _cut_call(call: ToolCall) -> _CutCall | None:
    message = "" if call.problem is None else call.problem.message
    for head in (_ARGUMENTS_HEAD, _TEXT_HEAD):
        if message.startswith(head):
            return _CutCall(call.name, message[len(head) :], head is _TEXT_HEAD)
    return None


def join_continuation(message: JSON, plan: Plan) -> JSON:
    """Return a message with the call that it continues; the same object if it continues none."""
    awaited = _awaited_call(plan.messages)
    if awaited is None:
        return message
    given = raw_calls(message)
    if given:
        # The model started over, or continues in the arguments of a call.
        name, arguments = name_and_arguments(given[0])
        text = arguments if len(given) == 1 and isinstance(arguments, str) else ""
        rest = _rest_of(awaited.so_far, text) if name == awaited.name else None
        if rest is None or awaited.in_text:
            return message
    else:
        rest = _rest_of(awaited.so_far, text_of(message.get("content")))
    if awaited.in_text and rest is not None:
        return message | {"content": awaited.so_far + rest}
    # Without an overlap, the call must not be valid.
    arguments = TRUNCATED_ARGUMENTS if rest is None else awaited.so_far + rest
    function = {"name": awaited.name, "arguments": arguments}
    call = {"id": "", "type": "function", "function": function}
    return message | {"content": None, "tool_calls": [call]}


def _rest_of(so_far: str, text: str) -> str | None:
    """Return what a text adds to what arrived; None unless exactly one overlap is possible."""
    text = text.strip(_AROUND) if text.strip()[:1] == "`" else text
    if len(so_far) > _MAX_OVERLAP and text.startswith(so_far):
        return text[len(so_far) :]
    text = text if text[:1] == so_far[-_OVERLAP:][:1] else text.lstrip()
    most = min(len(so_far), len(text), _MAX_OVERLAP)
    sizes = [
        size
        for size in range(min(_MIN_OVERLAP, len(so_far)), most + 1)
        if text.startswith(so_far[-size:])
    ]
    return text[sizes[0] :] if len(sizes) == 1 else None


def refuse_cut_calls(
    calls: tuple[ToolCall, ...], written: str, plan: Plan, max_bytes: int
) -> tuple[ToolCall, ...]:
    """Refuse the calls of a reply that was cut off, even if they look complete.

    `written` is the text of the only call: its arguments, or the reply that it is written in.
    """
    plain = tuple(map(_refuse_cut_call, calls))
    if len(calls) != 1 or plain[0].problem is calls[0].problem or not written:
        return plain
    if not _ends_with_cut_call(plan.messages):
        return plain
    awaited = _awaited_call(plan.messages)
    has_grown = awaited is None or len(written) > len(awaited.so_far)
    # What was begun natively may not be completed by text if it destroys something.
    is_safe = not any(spec.destructive and spec.name == calls[0].name for spec in plan.tools)
    fits = is_safe and len(written.encode("utf-8", "replace")) <= max_bytes
    head = _TEXT_HEAD if calls[0].from_text else _ARGUMENTS_HEAD
    if not (has_grown and fits):
        return (_with_problem(calls[0], _SMALLER),)
    # The size distinguishes two attempts.
    call = msgspec.structs.replace(calls[0], arguments_bytes=len(written))
    return (_with_problem(call, head + written),)


def refuse_unjoined_calls(calls: tuple[ToolCall, ...], plan: Plan) -> tuple[ToolCall, ...]:
    """Ask for smaller steps where a reply does not continue the call that it should."""
    awaited = _awaited_call(plan.messages)
    if awaited is None or len(calls) != 1 or calls[0].problem is None:
        return calls
    is_unjoined = calls[0].arguments_bytes == len(TRUNCATED_ARGUMENTS)
    return (_with_problem(calls[0], _SMALLER),) if is_unjoined else calls


def _with_problem(call: ToolCall, message: str) -> ToolCall:
    problem = Problem(ErrorCode.ARGUMENTS_TRUNCATED, message)
    return msgspec.structs.replace(call, arguments={}, problem=problem)


def _refuse_cut_call(call: ToolCall) -> ToolCall:
    if call.problem is not None and call.problem.code is ErrorCode.ARGUMENTS_TOO_LARGE:
        return call  # already too large
    problem = refuse_truncated(ParsedArguments(call.arguments, call.arguments_bytes)).problem
    return msgspec.structs.replace(call, problem=problem)


def has_used_turns(run: Run) -> bool:
    """Whether a run has used its turns; replies that only continue a call do not count."""
    cut = sum(any(map(_cut_call, reply.calls)) for reply in run.replies)
    return run.counted_turns - min(cut, MAX_CONTINUATIONS) >= run.config.max_turns


def has_refused_limit(run: Run) -> bool:
    """Whether the endpoint refused the raised limit, so that it is not raised again."""
    match run.last_message:
        case Refusal(fault=fault) if fault.status in _REFUSED:
            before = run.until(len(run.messages) - 1)
            return raise_limit(before, run.options) is not run.options
        case _:
            return False


def raise_limit(run: Run, options: JSON) -> JSON:
    """Return the options with a higher token limit, in the request after the first cut call."""
    names = [name for name in _LIMITS if isinstance(options.get(name), int)]
    is_refused = isinstance(run.last_message, Refusal)
    if not names or is_refused or not _ends_with_cut_call(run.own_messages):
        return options
    cut = sum(ErrorCode.ARGUMENTS_TRUNCATED in result.error_codes for result in run.results)
    return options | {name: _RAISE * options[name] for name in names} if cut == 1 else options
