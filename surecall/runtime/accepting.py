"""What a final answer must pass before it counts: its type reads it, then the application is asked.

Both are foreign code: whatever they do is an objection, or a fault of the run with a name.
"""

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from surecall.core.loop import heard
from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.core.typed_answers import typed_answer
from surecall.runtime.execution import FOREIGN, Raised, asked
from surecall.runtime.hooks import AcceptFinal
from surecall.runtime.request import aside
from surecall.runtime.trace import plain_words
from surecall.tools.validation import clipped
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import Objector
from surecall.values.types import Reply

_LONGEST_REASON: Final = 400
# A text takes so much longer to become a checked value than a body to be read.
_WEIGHT: Final = 16
# Makes a value of the output's type of checked JSON.
ReadOutput: TypeAlias = Callable[[Any], Any]


class Objection(msgspec.Struct, frozen=True):
    """Why an answer is not accepted, and by whom."""

    reason: str
    by: Objector


async def judged(
    result: RunResult,
    read: ReadOutput | None,
    hook: AcceptFinal | None,
    limit_s: float = math.inf,
) -> RunResult | Objection | Fault:
    """Return an answer that is accepted, with its output; an objection; or why nobody can tell.

    Raises `TimeoutError` if the application takes too long.
    """
    found = await _with_output(result, read)
    if hook is None or not isinstance(found, RunResult):
        return found
    try:
        reason = await objection_to(found, hook, limit_s)
    except Raised as raised:
        return _fault("accept_final", raised.error)
    except TypeError as error:
        return _fault("accept_final", error)
    return found if reason is None else Objection(reason, "application")


async def heard_typed(run: Run, reply: Reply) -> Run:
    """Record a reply that may be a typed answer; a long one is read in a thread."""
    return await aside(len(reply.text) * _WEIGHT, _heard, run, reply)


def _heard(run: Run, reply: Reply) -> Run:
    after = heard(run, reply)
    if not reply.calls:
        typed_answer(after)  # which the run remembers
    return after


async def _with_output(result: RunResult, read: ReadOutput | None) -> RunResult | Objection | Fault:
    """Let the type of the output make a value of an answer that fits its schema."""
    answer = typed_answer(result.run)
    if answer is None:
        return result
    try:
        size = len(result.assistant_text) * _WEIGHT
        value = answer.value if read is None else await aside(size, read, answer.value)
    except ValueError as problem:
        words = clipped(plain_words(problem), _LONGEST_REASON)
        return Objection(words or "its type does not accept it", "type")
    except FOREIGN as error:
        return _fault("the output type", error)
    return msgspec.structs.replace(result, output=value)


async def objection_to(
    result: RunResult, hook: AcceptFinal, limit_s: float = math.inf
) -> str | None:
    """Ask the application whether it accepts an answer; return its reason if it does not."""
    reason: Any = await asked(limit_s, hook, result)
    if reason is None:
        return None
    if isinstance(reason, str) and reason.strip():
        return reason
    raise TypeError(f"it returned {reason!r:.50}, which is neither None nor a reason")


def _fault(who: str, error: BaseException) -> Fault:
    message = f"{who} raised {type(error).__name__}: {plain_words(error)}"[:200]
    return Fault(ErrorCode.POLICY_ERROR, message)
