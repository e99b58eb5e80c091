"""Every error code, written once, and the exceptions a caller can meet.

    SurecallError
    ├── ConfigError          the caller's mistake, raised before any request
    ├── ToolError            raised *by* a tool handler: its text is shown to the model
    ├── ProviderError        one request failed for good; carries a `Fault`
    ├── ReplayDiverged       a recording and the present code disagree
    ├── ConversationBusy     a kept conversation takes no new words now (see `kept`)
    ├── ConversationTaken    another process has gone on with a turn (see `kept`)
    ├── StoreConflict        raised *by* a store: it has another version (see `kept`)
    └── RunFailed            a run ended without a usable answer (see `outcome`): OUTPUT_INVALID
        ├── ToolUseError       NO_TOOL_CALLS, TOOL_ERROR, CONTRACT_UNMET, EMPTY_FINAL, CALL_MISSING,
        │                      POLICY_ERROR
        ├── LimitExceeded      turns, calls, loops, unknown tools, the deadline
        └── RequestFailed      also a ProviderError: the endpoint failed in mid-run

Two audiences, two channels: what the *model* can repair is a tool result with a code from the
same list; what the *caller* or the endpoint did wrong is an exception.
"""

from enum import StrEnum
from typing import Any, Self

import msgspec


class ErrorCode(StrEnum):
    """The one list of codes: in tool results, exceptions, traces and reports."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """Attach the sentence that the documentation prints beside the code."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # Told to the model, as the result of a call.
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
        "The reply was cut off while the call was being written. The tool did not run.",
    )
    ARGUMENT_NOT_SEEN = (
        "ARGUMENT_NOT_SEEN",
        "A grounded argument holds a value that nobody has named. The tool did not run.",
    )
    ARGUMENT_ERROR = (
        "ARGUMENT_ERROR",
        "The arguments break the tool's schema, or the tool refused them.",
    )
    CALL_NOT_RECORDED = (
        "CALL_NOT_RECORDED",
        "The start of the call could not be written to the journal. The tool did not run.",
    )
    CALL_OUTCOME_UNKNOWN = (
        "CALL_OUTCOME_UNKNOWN",
        "The call had begun when its run was interrupted. It did not run again.",
    )
    INTERNAL_ERROR = (
        "INTERNAL_ERROR",
        "The tool raised. The trace has the details, the model does not.",
    )
    REPEATED_CALL = (
        "REPEATED_CALL",
        "The same call was made too often in a row. It did not run again.",
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
        "The tool policy wants a person to confirm the call. It did not run.",
    )
    TOOL_NOT_ALLOWED = (
        "TOOL_NOT_ALLOWED",
        "No tool of that name is offered to the model. Nothing ran.",
    )
    TOOL_NOT_YET = (
        "TOOL_NOT_YET",
        "What the contract puts before this call has not succeeded yet. The tool did not run.",
    )
    TOOL_OUTPUT_SERIALIZATION_ERROR = (
        "TOOL_OUTPUT_SERIALIZATION_ERROR",
        "The tool ran, but what it returned cannot be written as JSON.",
    )
    TOOL_OUTPUT_TOO_DEEP = (
        "TOOL_OUTPUT_TOO_DEEP",
        "The tool ran, but what it returned is nested too deeply.",
    )
    TOOL_OUTPUT_TOO_LARGE = (
        "TOOL_OUTPUT_TOO_LARGE",
        "The tool ran, but what it returned exceeds `max_tool_output_bytes`.",
    )
    TOOL_POLICY_DENIED = ("TOOL_POLICY_DENIED", "The tool policy denied the call. It did not run.")
    TOOL_POLICY_ERROR = (
        "TOOL_POLICY_ERROR",
        "The tool policy itself raised, and `policy_error_mode` is `deny`.",
    )
    TOOL_STILL_RUNNING = (
        "TOOL_STILL_RUNNING",
        "The same call timed out earlier and is still at work. It did not run a second time.",
    )
    TOOL_TIMEOUT = ("TOOL_TIMEOUT", "The tool did not finish within its timeout.")
    TOOL_UNAVAILABLE = (
        "TOOL_UNAVAILABLE",
        "The tool said that making the call again will not help.",
    )
    TOO_MANY_LEFT_RUNNING = (
        "TOO_MANY_LEFT_RUNNING",
        "`max_tools_left_running` tools timed out and are still at work. The tool did not run.",
    )

    # A run ended without a usable answer.
    CALL_MISSING = (
        "CALL_MISSING",
        "The model said that it calls a tool, and no call came, even when it was asked again.",
    )
    CONTRACT_UNMET = (
        "CONTRACT_UNMET",
        "The run was to end before its contract was met, or `accept_final` refused the answer.",
    )
    DEADLINE_EXCEEDED = ("DEADLINE_EXCEEDED", "The run took longer than `run_deadline_s`.")
    EMPTY_FINAL = ("EMPTY_FINAL", "The final answer stayed empty.")
    GAVE_UP = (
        "GAVE_UP",
        "The model ended the run after a call had failed for good, with something left undone.",
    )
    LOOP_DETECTED = (
        "LOOP_DETECTED",
        "The model kept making the same calls, beyond `repeat_stop_at`, or kept failing alike.",
    )
    MAX_TOOL_CALLS_EXCEEDED = (
        "MAX_TOOL_CALLS_EXCEEDED",
        "The model asked for more calls than `max_total_tool_calls`.",
    )
    MAX_TURNS_EXCEEDED = ("MAX_TURNS_EXCEEDED", "No final answer within `max_turns` turns.")
    MAX_UNKNOWN_TOOLS_EXCEEDED = (
        "MAX_UNKNOWN_TOOLS_EXCEEDED",
        "The model named tools that do not exist in more turns than `max_unknown_tool_calls`.",
    )
    NO_TOOL_CALLS = ("NO_TOOL_CALLS", "Mode `enforced`, and the model never called a tool.")
    OUTPUT_INVALID = (
        "OUTPUT_INVALID",
        "The final answer did not become a value of the `output` type, even when it was told why.",
    )
    POLICY_ERROR = (
        "POLICY_ERROR",
        "The tool policy (`policy_error_mode` is `raise`), `accept_final` or `output` raised.",
    )
    TOOL_ERROR = ("TOOL_ERROR", "Mode `enforced`, and tool failures were left unrepaired.")

    # One request failed for good.
    AUTH = ("AUTH", "401: the key is missing, wrong or expired.")
    BAD_REQUEST = ("BAD_REQUEST", "400: the endpoint refused the request.")
    CONFLICT = ("CONFLICT", "409: the endpoint reports a conflict.")
    CONNECTION_ERROR = ("CONNECTION_ERROR", "The endpoint could not be reached, or hung up.")
    CONTENT_POLICY = ("CONTENT_POLICY", "Moderation refused the prompt or the answer.")
    CONTEXT_TOO_LONG = ("CONTEXT_TOO_LONG", "The conversation does not fit the model's window.")
    DECODE_ERROR = ("DECODE_ERROR", "The answer is not JSON, or not a chat completion.")
    EMPTY_RESPONSE = ("EMPTY_RESPONSE", "A success status, but no choices in the answer.")
    FORBIDDEN = ("FORBIDDEN", "403: the key may not do this, or the route is blocked.")
    MALFORMED_CALL = ("MALFORMED_CALL", "The provider could not read its own model's tool call.")
    NO_TOOL_USE_ENDPOINT = (
        "NO_TOOL_USE_ENDPOINT",
        "No endpoint behind the router serves this model with tools.",
    )
    NOT_FOUND = ("NOT_FOUND", "404: wrong URL, or no such model.")
    PAYMENT_REQUIRED = ("PAYMENT_REQUIRED", "402: the account is out of credit.")
    PROVIDER_ERROR = ("PROVIDER_ERROR", "The provider reports a failure of its own.")
    RATE_LIMIT = ("RATE_LIMIT", "429: too many requests.")
    REQUEST_TOO_LARGE = ("REQUEST_TOO_LARGE", "413: the request body is too large.")
    RESPONSE_TOO_LARGE = ("RESPONSE_TOO_LARGE", "The answer has too many bytes, values or calls.")
    TIMEOUT = ("TIMEOUT", "The endpoint took too long to connect, or to answer.")
    UNPROCESSABLE = ("UNPROCESSABLE", "422: the endpoint could not process the request.")
    UPSTREAM_5XX = ("UPSTREAM_5XX", "5xx: the endpoint, or the provider behind it, failed.")


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request failed: what the endpoint said, and what one can do about it."""

    code: ErrorCode
    message: str
    status: int | None = None
    provider: str | None = None
    hint: str | None = None
    retryable: bool = False
    retry_after: float | None = None
    body: str = ""

    def __str__(self) -> str:
        """Render as one line: code, status, message, then what to do."""
        status = f" (HTTP {self.status})" if self.status else ""
        provider = f" [{self.provider}]" if self.provider else ""
        stop = "" if self.message.endswith((".", "!", "?")) else "."
        hint = f"{stop} {self.hint}" if self.hint else ""
        wait = f" It asks to wait {self.retry_after:g} s." if self.retry_after else ""
        return f"{self.code}{status}{provider}: {self.message}{hint}{wait}"


class SurecallError(Exception):
    """The root of everything this package raises on purpose."""


class ConfigError(SurecallError, ValueError):
    """The caller's mistake: a bad name, value or combination, found before any request."""


class ToolError(SurecallError):
    """Raise this in a tool handler to tell the model what went wrong, in your own words.

    With `retry=False` the tool says that making the call again will not help: nothing demands it,
    and the model may say that it cannot be done.
    """

    def __init__(self, message: str, *, code: str | None = None, retry: bool = True) -> None:
        super().__init__(message)
        usual = ErrorCode.ARGUMENT_ERROR if retry else ErrorCode.TOOL_UNAVAILABLE
        self.code = usual if code is None else code
        self.retry = retry


class ProviderError(SurecallError):
    """One request failed for good; `fault` says how."""

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
        """The HTTP status, or the status named in the error body of a 200."""
        return self.fault.status

    @property
    def hint(self) -> str | None:
        """What to do about it."""
        return self.fault.hint


class ReplayDiverged(SurecallError):
    """A replay came to another point than the recording; `turn` says where."""

    def __init__(self, turn: int, message: str) -> None:
        super().__init__(f"turn {turn}: {message}")
        self.turn = turn
        self._message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.turn, self._message)
