"""Classifies a trial: status, failure category, and where it failed.

    passed    all expectations are met
    failed    caused by the model: wrong state, wrong answer, no calls, truncation, or a request
              refused because of the conversation so far
    infra     caused by the endpoint, the network, the account, or a crash in the scenario's own
              tool; says nothing about the model

`category` is a code that is the same on every platform and client; `hint` is the original message
of the provider behind a router.
"""

from typing import Final

import msgspec

from surecall.core.outcome import RunFailed, RunResult
from surecall.eval.storage.trial import Score, Status
from surecall.settings.fallback import UNAVAILABLE_CODES
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.events import (
    FinalEvent,
    LlmRequestEndEvent,
    LlmRequestErrorEvent,
    LlmRequestStartEvent,
    RunFailedEvent,
    RunStartEvent,
    ToolCallEndEvent,
)
from surecall.values.text import truncate
from surecall.values.trace import Trace
from surecall.values.types import JSON, ToolResult

ASSERTION_FAILED: Final = "ASSERTION_FAILED"
EMPTY_ASSISTANT_TEXT: Final = "EMPTY_ASSISTANT_TEXT"
EXCEPTION: Final = "EXCEPTION"
TRUNCATED: Final = "TRUNCATED"
TOOLS_DISABLED: Final = "TOOLS_DISABLED"
MAX_ERROR_CHARS: Final = 400
# Explanations for users. HTTP statuses without their own code are not included.
MEANINGS: Final[dict[str, str]] = {
    **{code.value: code.meaning.replace("`", "") for code in ErrorCode},
    ErrorCode.CONTRACT_UNMET: "The model reported success, but required work was not done.",
    ErrorCode.NO_TOOL_CALLS: "The model never called a tool.",
    ErrorCode.TOOL_ERROR: "A tool failed, and the model did not recover from the failure.",
    ASSERTION_FAILED: "The conversation ended with a wrong result.",
    EMPTY_ASSISTANT_TEXT: "The final answer was blank.",
    EXCEPTION: "The evaluation or the scenario's own code raised an exception.",
    TOOLS_DISABLED: "These settings disable tools for this model.",
    TRUNCATED: "The reply was truncated at the token limit.",
}
_HTTP_OK = 200

# Errors of an endpoint or an account. Refused requests (400, 413, 422) are not included: they are
# how a provider answers a history that wrong settings have made invalid.
INFRA: Final = UNAVAILABLE_CODES | {ErrorCode.CONFLICT, ErrorCode.RESPONSE_TOO_LARGE}
# By status, because moderation and provider-specific codes use several statuses.
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


class Classification(msgspec.Struct, frozen=True):
    """The classification of a trial. `category` is blank exactly when it passed."""

    status: Status
    category: str = ""
    error: str = ""
    hint: str = ""
    http_status: int | None = None

    @property
    def is_transient(self) -> bool:
        """Whether another attempt may succeed: after a blank reply or a broken connection."""
        return self.category in _TRANSIENT and self.http_status in {None, _HTTP_OK}


def classify_answer(result: RunResult, score: Score, *, tools_on: bool) -> Classification:
    """Classify a run that ended with an answer."""
    # A run that stops after its calls has no answer to check.
    answered = not isinstance(result.run.last_message, ToolResult)
    if answered and not result.assistant_text.strip():
        return _model_failure(result, EMPTY_ASSISTANT_TEXT, "the answer is blank")
    if score.ok:
        return Classification("passed")
    called = not tools_on or result.run.has_called_tools
    category = ASSERTION_FAILED if called else ErrorCode.NO_TOOL_CALLS.value
    return _model_failure(result, category, "; ".join(score.reasons))


def classify_failure(failure: RunFailed) -> Classification:
    """Classify a run that ended without an answer."""
    if isinstance(failure, ProviderError) and failure.code is not ErrorCode.DEADLINE_EXCEEDED:
        return classify_fault(failure.fault)
    if failure.code is ErrorCode.DEADLINE_EXCEEDED:
        waited = _was_waiting_for_endpoint(failure.result.trace)
        status: Status = "infra" if waited else "failed"
        return Classification(status, failure.code.value, truncate(str(failure), MAX_ERROR_CHARS))
    blank = failure.code is ErrorCode.EMPTY_FINAL
    category = EMPTY_ASSISTANT_TEXT if blank else failure.code.value
    return _model_failure(failure.result, category, str(failure).partition(": ")[2])


def classify_fault(fault: Fault) -> Classification:
    """Classify a request that failed permanently."""
    server = fault.status is not None and fault.status in _SERVER_ERRORS
    is_infra = fault.code in INFRA or server or fault.status in _INFRA_STATUSES
    # A provider that cannot parse its own model's call reports the model's mistake.
    infra = is_infra and fault.code is not ErrorCode.MALFORMED_CALL
    category = _fault_category(fault)
    hint = f"{fault.provider}: {fault.message}" if fault.provider else ""
    error = truncate(f"{category}: {fault.message}", MAX_ERROR_CHARS)
    return Classification(
        "infra" if infra else "failed",
        category,
        error,
        truncate(hint, MAX_ERROR_CHARS),
        fault.status,
    )


def classify_exception(error: BaseException) -> Classification:
    """Classify an unexpected exception in the harness or in a scenario's own code."""
    return Classification(
        "infra", EXCEPTION, truncate(f"{type(error).__name__}: {error}", MAX_ERROR_CHARS)
    )


def tool_crash(trace: Trace) -> str:
    """Return a description of the first tool crash, or a blank string.

    A tool crashes if it raises an unexpected exception or returns a value that is not JSON. A
    `ToolError` or `ValueError` is not a crash: it is sent back to the model.
    """
    for event in trace:
        if isinstance(event, ToolCallEndEvent) and (crash := _crash_description(event.result)):
            return crash
    return ""


def _crash_description(result: ToolResult) -> str:
    """Describe the crash that a tool result reports; blank if the tool did not crash."""
    if ErrorCode.TOOL_OUTPUT_SERIALIZATION_ERROR in result.error_codes:
        return f"{result.name} returned a value that cannot be serialized to JSON"
    # With this code but no detail, the tool itself reported the error.
    raised = ErrorCode.INTERNAL_ERROR in result.error_codes and result.detail
    return f"{result.name} raised {result.detail}" if raised else ""


def classify_crash(description: str) -> Classification:
    """Classify a run in which a tool of the scenario crashed, whatever its result."""
    return Classification("infra", EXCEPTION, truncate(description, MAX_ERROR_CHARS))


def category_meaning(category: str) -> str:
    """Return a sentence that explains a category."""
    return MEANINGS.get(category, f"The run ended with {category or 'no answer'}.")


def _model_failure(result: RunResult, category: str, reason: str) -> Classification:
    """Classify a failure of the model, or of the token limit if that truncated the reply."""
    if _last_finish_reason(result.trace) == "length":
        category = TRUNCATED
    return Classification("failed", category, truncate(f"{category}: {reason}", MAX_ERROR_CHARS))


def _last_finish_reason(trace: Trace) -> str | None:
    replies = (event for event in reversed(trace.events) if isinstance(event, LlmRequestEndEvent))
    last = next(replies, None)
    return last.reply.finish_reason if last else None


def _fault_category(fault: Fault) -> str:
    """Return the code of a fault, or `HTTP_<status>` for a status without its own code."""
    if fault.code is ErrorCode.PROVIDER_ERROR and fault.status is not None:
        return f"HTTP_{fault.status}"
    return fault.code.value


def _was_waiting_for_endpoint(trace: Trace) -> bool:
    """Whether time ran out during a request, or after a failed one."""
    kinds = (LlmRequestStartEvent, LlmRequestEndEvent, LlmRequestErrorEvent)
    last = next((event for event in reversed(trace.events) if isinstance(event, kinds)), None)
    return isinstance(last, LlmRequestStartEvent | LlmRequestErrorEvent)


class FailureLocation(msgspec.Struct, frozen=True):
    """The turn and call where a run failed; None and blank if unknown."""

    turn: int | None = None
    call_id: str = ""


def locate_failure(
    verdict: Classification, result: RunResult, details: JSON | None = None
) -> FailureLocation:
    """Return where a run failed, unless an unmet expectation decided it.

    Misses carry their own location. Otherwise it is the turn in which the run ended: the last
    rejected answer, the repeated call, the refused request, or the last failed call that was not
    repaired. `details` are those of the error that ended the run.
    """
    by_expectation = details is None and verdict.category == ErrorCode.NO_TOOL_CALLS
    if by_expectation or verdict.category in {"", ASSERTION_FAILED, EXCEPTION}:
        return FailureLocation()
    known = details or {}
    failed_ids = {answer.call_id for answer in result.run.results if not answer.ok}
    failed = known.get("failed_tools", ()) if verdict.category == ErrorCode.TOOL_ERROR else ()
    repeated = known.get("tool_name") if verdict.category == ErrorCode.LOOP_DETECTED else None
    calls = [
        FailureLocation(turn, call.id)
        for turn, message in enumerate(result.run.replies)
        for call in message.calls
        if call.name == repeated or (call.name in failed and call.id in failed_ids)
    ]
    return calls[-1] if calls else FailureLocation(_last_turn(result.trace))


def _last_turn(trace: Trace) -> int | None:
    """Return the turn of the newest event that has one. A request may have no reply."""
    without_turn = (RunStartEvent, RunFailedEvent, FinalEvent)
    turns = (event.turn for event in reversed(trace.events) if not isinstance(event, without_turn))
    return next(turns, None)
