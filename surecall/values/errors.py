"""All error codes, and the exceptions that callers handle.

    SurecallError
    ├── ConfigError          invalid configuration or arguments, raised before any request
    ├── ToolError            raised *by* a tool handler; its text is sent to the model
    ├── ProviderError        a request failed permanently; carries a `Fault`
    ├── ReplayDiverged       a replay no longer matches its recording
    ├── ConversationBusy     a stored conversation cannot accept a message yet
    ├── ConversationTaken    another process has continued a turn of a stored conversation
    ├── StoreConflict        raised *by* a store that holds another version
    └── RunFailed            a run ended without a usable answer: OUTPUT_INVALID
        ├── ToolUseError       NO_TOOL_CALLS, TOOL_ERROR, CONTRACT_UNMET, EMPTY_FINAL, CALL_MISSING,
        │                      POLICY_ERROR
        ├── LimitExceeded      turns, calls, loops, unknown tools, the deadline
        └── RequestFailed      also a ProviderError: the endpoint failed during the run

Errors that the model can correct are sent back as tool results, with codes from the same list.
Errors of the caller or the endpoint are raised as exceptions.
"""

from enum import StrEnum
from typing import Any, Self

import msgspec


class ErrorCode(StrEnum):
    """Codes used in tool results, exceptions, traces, and reports."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """Attach the description that the documentation shows for the code."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # Sent to the model as the result of a call.
    ARGUMENTS_JSON_PARSE_ERROR = (
        "ARGUMENTS_JSON_PARSE_ERROR",
        "The arguments are not one JSON object. The tool did not run.",
    )
    ARGUMENTS_TOO_LARGE = (
        "ARGUMENTS_TOO_LARGE",
        "The arguments exceed `max_tool_args_bytes`. The tool did not run.",
    )
    ARGUMENTS_TRUNCATED = (
        "ARGUMENTS_TRUNCATED",
        "The reply was cut off in the middle of the call. The tool did not run.",
    )
    ARGUMENT_NOT_SEEN = (
        "ARGUMENT_NOT_SEEN",
        "A grounded argument holds a value that has not been observed. The tool did not run.",
    )
    ARGUMENT_ERROR = (
        "ARGUMENT_ERROR",
        "The arguments do not match the tool's schema, or the tool rejected them.",
    )
    CALL_NOT_RECORDED = (
        "CALL_NOT_RECORDED",
        "The start of the call could not be written to the journal. The tool did not run.",
    )
    CALL_OUTCOME_UNKNOWN = (
        "CALL_OUTCOME_UNKNOWN",
        "The call, or an identical earlier one, may have taken effect. It did not run again.",
    )
    INTERNAL_ERROR = (
        "INTERNAL_ERROR",
        "The tool raised an exception. The details are in the trace and hidden from the model.",
    )
    REPEATED_CALL = (
        "REPEATED_CALL",
        "The same call was repeated too many times in a row. It did not run again.",
    )
    TOOL_CALL_LIMIT = (
        "TOOL_CALL_LIMIT",
        "The run has used up `max_total_tool_calls`. The tool did not run.",
    )
    TOOL_CALL_NOT_EXECUTED = (
        "TOOL_CALL_NOT_EXECUTED",
        "More calls in one turn than `max_tool_calls_per_turn`. This one did not run.",
    )
    TOOL_CONFIRMATION_REQUIRED = (
        "TOOL_CONFIRMATION_REQUIRED",
        "The tool policy requires human approval of the call. It did not run.",
    )
    TOOL_NOT_ALLOWED = (
        "TOOL_NOT_ALLOWED",
        "No tool of that name is exposed to the model. Nothing ran.",
    )
    TOOL_NOT_YET = (
        "TOOL_NOT_YET",
        "A call that the contract requires first has not succeeded yet. The tool did not run.",
    )
    TOOL_OUTPUT_SERIALIZATION_ERROR = (
        "TOOL_OUTPUT_SERIALIZATION_ERROR",
        "The tool ran, but its result cannot be encoded as JSON.",
    )
    TOOL_OUTPUT_TOO_DEEP = (
        "TOOL_OUTPUT_TOO_DEEP",
        "The tool ran, but its result is nested too deeply.",
    )
    TOOL_OUTPUT_TOO_LARGE = (
        "TOOL_OUTPUT_TOO_LARGE",
        "The tool ran, but its result exceeds `max_tool_output_bytes`.",
    )
    TOOL_POLICY_DENIED = ("TOOL_POLICY_DENIED", "The tool policy denied the call. It did not run.")
    TOOL_POLICY_ERROR = (
        "TOOL_POLICY_ERROR",
        "The tool policy raised an exception, and `policy_error_mode` is `deny`.",
    )
    TOOL_STILL_RUNNING = (
        "TOOL_STILL_RUNNING",
        "The same call timed out earlier and is still running. It did not run a second time.",
    )
    TOOL_TIMEOUT = ("TOOL_TIMEOUT", "The tool did not finish within its timeout.")
    TOOL_UNAVAILABLE = (
        "TOOL_UNAVAILABLE",
        "The tool reported that retrying the call will not help.",
    )
    TOO_MANY_LEFT_RUNNING = (
        "TOO_MANY_LEFT_RUNNING",
        "`max_tools_left_running` tools timed out and are still running. The tool did not run.",
    )

    # A run ended without a usable answer.
    CALL_MISSING = (
        "CALL_MISSING",
        "The model announced a tool call but did not make it, even after a re-prompt.",
    )
    CONTRACT_UNMET = (
        "CONTRACT_UNMET",
        "The run ended before its contract was met, or `accept_final` rejected the answer.",
    )
    DEADLINE_EXCEEDED = ("DEADLINE_EXCEEDED", "The run took longer than `run_deadline_s`.")
    EMPTY_FINAL = ("EMPTY_FINAL", "The final answer stayed empty.")
    GAVE_UP = (
        "GAVE_UP",
        "The model ended the run with work left undone, after a call failed permanently.",
    )
    LOOP_DETECTED = (
        "LOOP_DETECTED",
        "The model repeated the same calls beyond `repeat_stop_at`, or the same failures.",
    )
    MAX_TOOL_CALLS_EXCEEDED = (
        "MAX_TOOL_CALLS_EXCEEDED",
        "The model requested more calls than `max_total_tool_calls`.",
    )
    MAX_TURNS_EXCEEDED = ("MAX_TURNS_EXCEEDED", "No final answer within `max_turns` turns.")
    MAX_UNKNOWN_TOOLS_EXCEEDED = (
        "MAX_UNKNOWN_TOOLS_EXCEEDED",
        "The model called unknown tools in more turns than `max_unknown_tool_calls`.",
    )
    NO_TOOL_CALLS = ("NO_TOOL_CALLS", "The mode is `enforced`, and the model never called a tool.")
    OUTPUT_INVALID = (
        "OUTPUT_INVALID",
        "The final answer does not match the `output` type, even after the errors were sent back.",
    )
    POLICY_ERROR = (
        "POLICY_ERROR",
        "The tool policy (with `policy_error_mode` `raise`), `accept_final`, or `output` raised.",
    )
    TOOL_ERROR = ("TOOL_ERROR", "The mode is `enforced`, and tool failures remain uncorrected.")

    # A request failed permanently.
    AUTH = ("AUTH", "401: the API key is missing, wrong, or expired.")
    BAD_REQUEST = ("BAD_REQUEST", "400: the endpoint rejected the request.")
    CONFLICT = ("CONFLICT", "409: the endpoint reports a conflict.")
    CONNECTION_ERROR = (
        "CONNECTION_ERROR",
        "The endpoint could not be reached, or it closed the connection.",
    )
    CONTENT_POLICY = ("CONTENT_POLICY", "Moderation rejected the prompt or the answer.")
    CONTEXT_TOO_LONG = (
        "CONTEXT_TOO_LONG",
        "The conversation does not fit the model's context window.",
    )
    DECODE_ERROR = ("DECODE_ERROR", "The response is not JSON, or not a chat completion.")
    EMPTY_RESPONSE = ("EMPTY_RESPONSE", "The response has a success status but no choices.")
    FORBIDDEN = ("FORBIDDEN", "403: the key lacks permission, or the route is blocked.")
    MALFORMED_CALL = ("MALFORMED_CALL", "The provider could not parse its model's tool call.")
    NO_TOOL_USE_ENDPOINT = (
        "NO_TOOL_USE_ENDPOINT",
        "No endpoint behind the router serves this model with tools.",
    )
    NOT_FOUND = ("NOT_FOUND", "404: wrong URL, or no such model.")
    PAYMENT_REQUIRED = ("PAYMENT_REQUIRED", "402: the account is out of credit.")
    PROVIDER_ERROR = ("PROVIDER_ERROR", "The provider reports an internal failure.")
    RATE_LIMIT = ("RATE_LIMIT", "429: too many requests.")
    REQUEST_TOO_LARGE = ("REQUEST_TOO_LARGE", "413: the request body is too large.")
    RESPONSE_TOO_LARGE = (
        "RESPONSE_TOO_LARGE",
        "The response has too many bytes, values, or calls.",
    )
    TIMEOUT = ("TIMEOUT", "The endpoint took too long to connect or to respond.")
    UNPROCESSABLE = ("UNPROCESSABLE", "422: the endpoint could not process the request.")
    UPSTREAM_5XX = ("UPSTREAM_5XX", "5xx: the endpoint, or the provider behind it, failed.")


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request failed: the endpoint's message, and a hint for fixing it."""

    code: ErrorCode
    message: str
    status: int | None = None
    provider: str | None = None
    hint: str | None = None
    retryable: bool = False
    retry_after: float | None = None
    body: str = ""

    def __str__(self) -> str:
        """Render as one line: code, status, message, hint, and requested wait."""
        status = f" (HTTP {self.status})" if self.status else ""
        provider = f" [{self.provider}]" if self.provider else ""
        stop = "" if self.message.endswith((".", "!", "?")) else "."
        hint = f"{stop} {self.hint}" if self.hint else ""
        wait = f" Retry after {self.retry_after:g} s." if self.retry_after else ""
        return f"{self.code}{status}{provider}: {self.message}{hint}{wait}"


class SurecallError(Exception):
    """Base class of all exceptions that this package raises."""


class ConfigError(SurecallError, ValueError):
    """A name, value, or combination of settings is invalid. Raised before any request."""


class ToolError(SurecallError):
    """Raise this in a tool handler to send an error message to the model.

    Pass `retry=False` if retrying the call will not help. The call is then no longer required, and
    the model may give up.
    """

    def __init__(self, message: str, *, code: str | None = None, retry: bool = True) -> None:
        super().__init__(message)
        default = ErrorCode.ARGUMENT_ERROR if retry else ErrorCode.TOOL_UNAVAILABLE
        self.code = default if code is None else code
        self.retry = retry


class ProviderError(SurecallError):
    """A request failed permanently; `fault` has the details."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fault,)

    @property
    def code(self) -> ErrorCode:
        """The fault's code."""
        return self.fault.code

    @property
    def status(self) -> int | None:
        """The HTTP status, or the status in the error body of a 200 response."""
        return self.fault.status

    @property
    def hint(self) -> str | None:
        """How to fix the failure, if known."""
        return self.fault.hint


class ReplayDiverged(SurecallError):
    """A replay differs from its recording, starting at `turn`."""

    def __init__(self, turn: int, message: str) -> None:
        super().__init__(f"turn {turn}: {message}")
        self.turn = turn
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.turn, self._message)
