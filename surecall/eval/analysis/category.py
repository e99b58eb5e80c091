"""How a trial ended: passed, failed by the model, or spoiled by the infrastructure.

    passed    the scenario has no objection
    failed    the model's doing: wrong state, wrong words, no calls, cut off, a request refused
              because of what the conversation had become
    infra     the endpoint, the network, the account, a crash in a scenario's own tool: it says
              nothing about the model

`category` names the kind in one word, the same on every platform and for every client; `hint` is
what the provider behind a router said in its own words.
"""

from typing import Final

import msgspec

from surecall.core.outcome import RunFailed, RunResult
from surecall.eval.storage.trial import Score, Status
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import (
    LlmRequestEndEvent,
    LlmRequestErrorEvent,
    LlmRequestStartEvent,
    ToolCallEndEvent,
)
from surecall.values.trace import Trace
from surecall.values.types import ToolResult

ASSERTION_FAILED: Final = "ASSERTION_FAILED"
EMPTY_ASSISTANT_TEXT: Final = "EMPTY_ASSISTANT_TEXT"
EXCEPTION: Final = "EXCEPTION"
TRUNCATED: Final = "TRUNCATED"
TOOLS_DISABLED: Final = "TOOLS_DISABLED"
MAX_ERROR: Final = 400
# What a category means, for people. Statuses without a code of their own are not here.
MEANINGS: Final[dict[str, str]] = {
    **{code.value: code.meaning.replace("`", "") for code in ErrorCode},
    ErrorCode.CONTRACT_UNMET: "The model said that it was done, but what had to be done was not.",
    ErrorCode.NO_TOOL_CALLS: "The model never called a tool.",
    ErrorCode.TOOL_ERROR: "A tool failed, and the model did not repair it.",
    ASSERTION_FAILED: "The conversation ended, but not with the right result.",
    EMPTY_ASSISTANT_TEXT: "The final answer was blank.",
    EXCEPTION: "The evaluation itself failed, or a scenario's own code.",
    TOOLS_DISABLED: "The model is for chat only, under these settings.",
    TRUNCATED: "The reply was cut off at the token limit.",
}
_CUT_OFF = "length"
_OK = 200

# What an endpoint or an account does, whatever the model. A refused request (400, 413, 422) is not
# here: it is how a provider answers a history that the wrong settings have spoiled.
INFRA: Final = frozenset(
    {
        ErrorCode.AUTH,
        ErrorCode.CONFLICT,
        ErrorCode.CONNECTION_ERROR,
        ErrorCode.DECODE_ERROR,
        ErrorCode.EMPTY_RESPONSE,
        ErrorCode.FORBIDDEN,
        ErrorCode.NOT_FOUND,
        ErrorCode.NO_TOOL_USE_ENDPOINT,
        ErrorCode.PAYMENT_REQUIRED,
        ErrorCode.PROVIDER_ERROR,
        ErrorCode.RATE_LIMIT,
        ErrorCode.RESPONSE_TOO_LARGE,
        ErrorCode.TIMEOUT,
        ErrorCode.UPSTREAM_5XX,
    }
)
# By status, because moderation and a provider's own codes come with several.
_INFRA_STATUSES: Final = frozenset({401, 402, 403, 404, 408, 409, 425, 429})
_SERVER_ERRORS = range(500, 600)
_TRANSIENT: Final = frozenset(
    {
        EMPTY_ASSISTANT_TEXT,
        ErrorCode.CONNECTION_ERROR,
        ErrorCode.DECODE_ERROR,
        ErrorCode.EMPTY_RESPONSE,
        ErrorCode.TIMEOUT,
    }
)


class Verdict(msgspec.Struct, frozen=True):
    """How a trial ended. `category` is blank exactly when it passed."""

    status: Status
    category: str = ""
    error: str = ""
    hint: str = ""
    http_status: int | None = None

    @property
    def transient(self) -> bool:
        """Whether one more attempt may say more: a blank reply, or a line that broke."""
        return self.category in _TRANSIENT and self.http_status in {None, _OK}


def of_answer(result: RunResult, score: Score, *, tools_on: bool) -> Verdict:
    """Judge a run that ended with an answer."""
    # A run that stops after its calls has no answer that could be blank.
    answered = not isinstance(result.run.last, ToolResult)
    if answered and not result.assistant_text.strip():
        return _of_model(result, EMPTY_ASSISTANT_TEXT, "the answer is blank")
    if score.ok:
        return Verdict("passed")
    called = not tools_on or result.run.called
    category = ASSERTION_FAILED if called else ErrorCode.NO_TOOL_CALLS.value
    return _of_model(result, category, "; ".join(score.reasons))


def of_failure(failure: RunFailed) -> Verdict:
    """Judge a run that ended without an answer."""
    if isinstance(failure, ProviderError) and failure.code is not ErrorCode.DEADLINE_EXCEEDED:
        return of_fault(failure.fault)
    if failure.code is ErrorCode.DEADLINE_EXCEEDED:
        waited = _was_waiting(failure.result.trace)
        status: Status = "infra" if waited else "failed"
        return Verdict(status, failure.code.value, shortened(str(failure)))
    blank = failure.code is ErrorCode.EMPTY_FINAL
    category = EMPTY_ASSISTANT_TEXT if blank else failure.code.value
    return _of_model(failure.result, category, str(failure).partition(": ")[2])


def of_fault(fault: Fault) -> Verdict:
    """Judge a request that failed for good."""
    server = fault.status is not None and fault.status in _SERVER_ERRORS
    spoiled = fault.code in INFRA or server or fault.status in _INFRA_STATUSES
    # A provider that could not read its own model's call reports what the model wrote.
    infra = spoiled and fault.code is not ErrorCode.MALFORMED_CALL
    category = _category(fault)
    hint = f"{fault.provider}: {fault.message}" if fault.provider else ""
    error = shortened(f"{category}: {fault.message}")
    return Verdict("infra" if infra else "failed", category, error, shortened(hint), fault.status)


def of_exception(error: BaseException) -> Verdict:
    """Judge the unexpected: a crash of the harness or of a scenario's own code."""
    return Verdict("infra", EXCEPTION, shortened(f"{type(error).__name__}: {error}"))


def crash_in(trace: Trace) -> str:
    """Say how a tool broke that should not: it raised what no tool should, or returned no JSON.

    A `ToolError` or a `ValueError` is for the model to deal with. Blank when none broke.
    """
    for event in trace:
        if isinstance(event, ToolCallEndEvent) and (crash := _crash(event.result)):
            return crash
    return ""


def _crash(result: ToolResult) -> str:
    if ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR in result.error_codes:
        return f"{result.name} returned what cannot be shown"
    # With this code, but without a detail, the tool itself said so.
    raised = ErrorCode.INTERNAL_ERROR in result.error_codes and result.detail
    return f"{result.name} raised {result.detail}" if raised else ""


def of_crash(what: str) -> Verdict:
    """Judge a run in which a tool of the scenario itself broke, whatever came of it."""
    return Verdict("infra", EXCEPTION, shortened(what))


def meaning(category: str) -> str:
    """Say in a sentence what a category means."""
    return MEANINGS.get(category, f"The run ended with {category or 'no answer'}.")


def shortened(text: str, limit: int = MAX_ERROR) -> str:
    """Keep a text short; an ellipsis marks what is left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _of_model(result: RunResult, category: str, reason: str) -> Verdict:
    """Blame the model, or the token limit if that cut it off."""
    if _last_finish(result.trace) == _CUT_OFF:
        category = TRUNCATED
    return Verdict("failed", category, shortened(f"{category}: {reason}"))


def _last_finish(trace: Trace) -> str | None:
    heard = (event for event in reversed(trace.events) if isinstance(event, LlmRequestEndEvent))
    last = next(heard, None)
    return last.reply.finish_reason if last else None


def _category(fault: Fault) -> str:
    """Name a fault; a status without a code of its own gives its number."""
    if fault.code is ErrorCode.PROVIDER_ERROR and fault.status is not None:
        return f"HTTP_{fault.status}"
    return fault.code.value


def _was_waiting(trace: Trace) -> bool:
    """Whether time ran out on the endpoint: a request was under way, or had failed before."""
    kinds = (LlmRequestStartEvent, LlmRequestEndEvent, LlmRequestErrorEvent)
    last = next((event for event in reversed(trace.events) if isinstance(event, kinds)), None)
    return isinstance(last, LlmRequestStartEvent | LlmRequestErrorEvent)
