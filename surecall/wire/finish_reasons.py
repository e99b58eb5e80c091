"""How a reply ended, in whatever words its provider has for that.

    stop, end_turn, eos, …                        ─► complete
    tool_calls, function_call, tool_use, …        ─► calls: a call should be there
    length, max_tokens, model_context_window…     ─► cut off: what is there may go on
    content_filter, SAFETY, guardrail_…           ─► filtered: cut off on purpose
    error, network_error, abort, …                ─► broken: the request is made again
    MALFORMED_FUNCTION_CALL, …                    ─► malformed: a call was meant, and is not right

Every upstream has its own words, and routers pass them on. So they are told apart by the stems in
them, whatever their case and signs. A word with none of the stems is a normal end: nobody invents
a word for a failure that says nothing of it.
"""

from enum import IntEnum
from functools import lru_cache

from surecall.values.types import JSON

MAX_REASON = 200


class Ending(IntEnum):
    """The families of finish reasons; of two that are given, the greater one counts."""

    COMPLETE = 0
    CALLS = 1
    CUT_OFF = 2
    FILTERED = 3
    BROKEN = 4
    MALFORMED = 5


_ABOUT_CALLS = ("tool", "function")
_BAD = ("error", "fail", "invalid", "unexpected", "toomany", "pars", "illegal")
# In this order: `function_call_filter: MALFORMED_FUNCTION_CALL` is more than a filter.
_STEMS = (
    (Ending.MALFORMED, ("malformed",)),
    (
        Ending.FILTERED,
        (
            *("filter", "guardrail", "safety", "moderat", "block", "prohibit", "recitation"),
            *("sensitive", "refus", "policy", "spii", "censor", "violat", "flagged", "interven"),
        ),
    ),
    (
        Ending.BROKEN,
        (
            *("error", "abort", "cancel", "fail", "timeout", "timedout", "overload", "interrupt"),
            *("disconnect", "unavailable", "insufficient", "exception", "crash", "preempt"),
            *("ratelimit", "quota"),
        ),
    ),
    (
        Ending.CUT_OFF,
        (
            *("length", "maxtoken", "maxoutput", "maxcompletion", "maxnew", "tokenlimit"),
            *("outputlimit", "contextlimit", "contextwindow", "exceed", "trunc", "incomplete"),
            *("outoftoken", "tokenbudget"),
        ),
    ),
    (Ending.CALLS, _ABOUT_CALLS),
)
# A call of such a reply is not known to be whole, however well it reads.
UNFINISHED = frozenset({Ending.CUT_OFF, Ending.FILTERED, Ending.BROKEN, Ending.MALFORMED})
# The reply says that it calls a tool.
PROMISES = frozenset({Ending.CALLS, Ending.MALFORMED})


def ending_of(reason: object) -> Ending:
    """Say which family a finish reason belongs to; none at all is a normal end."""
    return _ending(reason[:MAX_REASON]) if isinstance(reason, str) else Ending.COMPLETE


@lru_cache(maxsize=64)
def _ending(reason: str) -> Ending:
    word = "".join(filter(str.isalnum, reason.casefold()))
    if any(stem in word for stem in _ABOUT_CALLS) and any(stem in word for stem in _BAD):
        return Ending.MALFORMED
    found = (ending for ending, stems in _STEMS if any(stem in word for stem in stems))
    return next(found, Ending.COMPLETE)


def finish_reason(choice: JSON) -> str | None:
    """Return the finish reason of a choice, or the upstream's own if that one says worse."""
    given, native = choice.get("finish_reason"), choice.get("native_finish_reason")
    if isinstance(native, str) and ending_of(native) > ending_of(given):
        return native
    return given if isinstance(given, str) else None
