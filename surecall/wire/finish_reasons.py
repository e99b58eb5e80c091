"""Classifies finish reasons, whatever the provider calls them.

    stop, end_turn, eos, …                        ─► complete
    tool_calls, function_call, tool_use, …        ─► calls: the reply should contain a call
    length, max_tokens, model_context_window…     ─► cut off: the reply may be incomplete
    content_filter, SAFETY, guardrail_…           ─► filtered: cut off on purpose
    error, network_error, abort, …                ─► broken: the request is retried
    MALFORMED_FUNCTION_CALL, …                    ─► malformed: the reply meant to call a tool

Upstreams use their own words and routers pass them on, so reasons are matched by word stem,
ignoring case and punctuation. A reason without a known stem is a normal end.
"""

from enum import IntEnum
from functools import lru_cache

from surecall.values.types import JSON

MAX_REASON_LENGTH = 200


class FinishKind(IntEnum):
    """The kinds of finish reasons, ordered by severity: of two reasons, the greater counts."""

    COMPLETE = 0
    CALLS = 1
    CUT_OFF = 2
    FILTERED = 3
    BROKEN = 4
    MALFORMED = 5


_CALL_STEMS = ("tool", "function")
_FAILURE_STEMS = ("error", "fail", "invalid", "unexpected", "toomany", "pars", "illegal")
# Order matters: `function_call_filter: MALFORMED_FUNCTION_CALL` is malformed, not filtered.
_STEMS = (
    (FinishKind.MALFORMED, ("malformed",)),
    (
        FinishKind.FILTERED,
        (
            *("filter", "guardrail", "safety", "moderat", "block", "prohibit", "recitation"),
            *("sensitive", "refus", "policy", "spii", "censor", "violat", "flagged", "interven"),
        ),
    ),
    (
        FinishKind.BROKEN,
        (
            *("error", "abort", "cancel", "fail", "timeout", "timedout", "overload", "interrupt"),
            *("disconnect", "unavailable", "insufficient", "exception", "crash", "preempt"),
            *("ratelimit", "quota"),
        ),
    ),
    (
        FinishKind.CUT_OFF,
        (
            *("length", "maxtoken", "maxoutput", "maxcompletion", "maxnew", "tokenlimit"),
            *("outputlimit", "contextlimit", "contextwindow", "exceed", "trunc", "incomplete"),
            *("outoftoken", "tokenbudget"),
        ),
    ),
    (FinishKind.CALLS, _CALL_STEMS),
)
# Calls in such a reply may be incomplete, even if they parse.
UNFINISHED = frozenset(
    {FinishKind.CUT_OFF, FinishKind.FILTERED, FinishKind.BROKEN, FinishKind.MALFORMED}
)
# Replies that announce a call.
CALLS_EXPECTED = frozenset({FinishKind.CALLS, FinishKind.MALFORMED})


def finish_kind(reason: object) -> FinishKind:
    """Return the kind of a finish reason; a missing reason is a normal end."""
    return (
        _classify_reason(reason[:MAX_REASON_LENGTH])
        if isinstance(reason, str)
        else FinishKind.COMPLETE
    )


@lru_cache(maxsize=64)
def _classify_reason(reason: str) -> FinishKind:
    word = "".join(filter(str.isalnum, reason.casefold()))
    if any(stem in word for stem in _CALL_STEMS) and any(stem in word for stem in _FAILURE_STEMS):
        return FinishKind.MALFORMED
    found = (ending for ending, stems in _STEMS if any(stem in word for stem in stems))
    return next(found, FinishKind.COMPLETE)


def worst_finish_reason(choice: JSON) -> str | None:
    """Return the finish reason of a choice, or the native one if it is more severe."""
    given, native = choice.get("finish_reason"), choice.get("native_finish_reason")
    if isinstance(native, str) and finish_kind(native) > finish_kind(given):
        return native
    return given if isinstance(given, str) else None
