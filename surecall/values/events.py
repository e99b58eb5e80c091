"""Events: one small frozen value for each step of a run and each outcome.

    run_start
      (llm_request_start  [llm_request_error  llm_request_retry]*  llm_request_end
        tool_search* [calls_in_order] ([call_changed] tool_call_start  tool_call_end)*
        | text_call_asked
        | fix_empty_final | forced_continuation | final_objected
        | unsupported_claim | model_changed)*
    run_paused | [unsupported_claim] final | run_failed

A `Trace` (in `values.trace`) is a list of events. Replay and reports need no other data.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from surecall.values.decisions import Decision, WaitingCall
from surecall.values.errors import Fault
from surecall.values.types import (
    JSON,
    AnswerFormat,
    Message,
    Reply,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)

SCHEMA_VERSION = 1
ObjectionSource: TypeAlias = Literal["application", "schema", "type"]


class BaseEvent(
    msgspec.Struct, frozen=True, gc=False, tag_field="type", omit_defaults=True, kw_only=True
):
    """Fields of every event: run, turn, time (UTC seconds), and allowed context.

    If `redacted`, a secret was removed from the event when it was stored.
    """

    run_id: str
    turn: int
    at: float
    context: dict[str, str] = {}
    redacted: bool = False


# Defaults are stored here, because a version that is not stored cannot be rejected later.
class RunStartEvent(
    BaseEvent, frozen=True, gc=False, tag="run_start", kw_only=True, omit_defaults=False
):
    """A run started. Holds everything needed to start it again.

    If the run was resumed, `begun` are the calls that had started and have no recorded end.
    `endpoint` identifies the address without revealing it. `decisions` are the decisions about
    calls that needed human approval, `since` is the message at which this model took over in the
    fallback chain, and `output` is the format of the answer.
    """

    model: str
    config: JSON
    options: JSON
    tools: tuple[ToolSpec, ...]
    system: System | None
    messages: tuple[Message, ...]
    start: int
    version: str
    schema_version: int = SCHEMA_VERSION
    begun: tuple[str, ...] = ()
    endpoint: str = ""
    decisions: dict[str, Decision] = {}
    since: int = 0
    output: AnswerFormat | None = None


class LlmRequestStartEvent(BaseEvent, frozen=True, gc=False, tag="llm_request_start", kw_only=True):
    """A request is about to be sent. `request_hash` is the SHA-256 of its body.

    `reminder` is text that a text-based protocol added to the transcript.
    """

    tool_use_mode: str
    tool_failure_policy: str
    tools_enabled: bool
    tool_choice: str | JSON | None
    messages_count: int
    tools_count: int
    request_bytes: int
    request_hash: str
    attempt: int
    reminder: str = ""


class LlmRequestErrorEvent(BaseEvent, frozen=True, gc=False, tag="llm_request_error", kw_only=True):
    """A request failed. A retry may follow."""

    fault: Fault
    attempt: int
    elapsed_ms: int


class LlmRequestRetryEvent(BaseEvent, frozen=True, gc=False, tag="llm_request_retry", kw_only=True):
    """A failed request will be retried, after a wait or without tools."""

    attempt: int
    wait_s: float
    tools_enabled: bool
    dropped: str | None = None


class LlmRequestEndEvent(BaseEvent, frozen=True, gc=False, tag="llm_request_end", kw_only=True):
    """A reply arrived: the original `body` and the parsed `reply`."""

    reply: Reply
    body: Any
    request_hash: str
    attempt: int
    elapsed_ms: int
    response_bytes: int
    ignored_tool_calls: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    streamed: bool = False


class CallsInOrderEvent(BaseEvent, frozen=True, gc=False, tag="calls_in_order", kw_only=True):
    """The model made several calls where one was requested; they run one at a time."""

    calls: int


class ToolSearchEvent(BaseEvent, frozen=True, gc=False, tag="tool_search", kw_only=True):
    """The model searched for tools. `found` are exposed next; `error_codes` say why none are."""

    call_id: str
    query: str
    found: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()


class CallChangedEvent(BaseEvent, frozen=True, gc=False, tag="call_changed", kw_only=True):
    """The tool policy replaced the arguments of a call, which runs with the new ones."""

    call: ToolCall


class ToolCallStartEvent(BaseEvent, frozen=True, gc=False, tag="tool_call_start", kw_only=True):
    """A call is about to be processed. A call with a `problem` will not run.

    If the trace has no matching end event, the outcome of the call is unknown.
    """

    call: ToolCall


class ToolCallEndEvent(BaseEvent, frozen=True, gc=False, tag="tool_call_end", kw_only=True):
    """A call has a result."""

    result: ToolResult
    ok: bool
    elapsed_ms: int
    output_bytes: int
    output_replaced: bool
    error_codes: tuple[str, ...] = ()


class FixEmptyFinalEvent(BaseEvent, frozen=True, gc=False, tag="fix_empty_final", kw_only=True):
    """The reply was empty or only announced work; the model is re-prompted with `text`."""

    disable_tools: bool
    user_text_bytes: int
    text: str = ""


class ForcedContinuationEvent(
    BaseEvent, frozen=True, gc=False, tag="forced_continuation", kw_only=True
):
    """The answer was premature; the run escalated to `rung`, and `text` was sent."""

    rung: str
    code: str
    message: str
    text: str
    tools: tuple[str, ...] = ()


class TextCallAskedEvent(BaseEvent, frozen=True, gc=False, tag="text_call_asked", kw_only=True):
    """The text holds an ambiguous call, which did not run. `rule` says why; `text` was sent."""

    rule: str
    tools: tuple[str, ...]
    text: str


class FinalObjectedEvent(BaseEvent, frozen=True, gc=False, tag="final_objected", kw_only=True):
    """An answer was rejected. `text` is the prompt sent to the model, if any.

    `by` is the source of the objection: the `application`, the output's `schema`, or its `type`.
    """

    reason: str
    text: str = ""
    by: ObjectionSource = "application"


class UnsupportedClaimEvent(
    BaseEvent, frozen=True, gc=False, tag="unsupported_claim", kw_only=True
):
    """An answer claims actions or ids that no successful call supports.

    `claims` quotes them, and `text` is the prompt sent to the model, if any.
    """

    claims: tuple[str, ...]
    text: str = ""


class PolicyErrorEvent(BaseEvent, frozen=True, gc=False, tag="policy_error", kw_only=True):
    """The application's tool policy raised an exception."""

    stage: str
    message: str
    call_id: str | None = None
    name: str | None = None


class ObserverErrorEvent(BaseEvent, frozen=True, gc=False, tag="observer_error", kw_only=True):
    """An observer raised an exception; it gets no further events of this run."""

    observer: str
    message: str


class RequestRefusedEvent(BaseEvent, frozen=True, gc=False, tag="run_refused", kw_only=True):
    """A request failed permanently, or the deadline passed."""

    fault: Fault


class RunPausedEvent(BaseEvent, frozen=True, gc=False, tag="run_paused", kw_only=True):
    """A run paused, because calls need human approval before it can continue."""

    waiting: tuple[WaitingCall, ...]
    usage: Usage
    false_finals: int = 0


class ModelChangedEvent(BaseEvent, frozen=True, gc=False, tag="model_changed", kw_only=True):
    """Another model of the fallback chain continues the run, after `fault` of model `before`.

    If `rests`, model `before` was skipped because it had failed recently.
    """

    before: str
    model: str
    config: JSON
    options: JSON
    fault: Fault
    endpoint: str = ""
    rests: bool = False


class FinalEvent(BaseEvent, frozen=True, gc=False, tag="final", kw_only=True):
    """A run ended with an answer. `repairs` are those of a typed answer."""

    text: str
    stop_reason: str
    usage: Usage
    any_tool_calls_seen: bool
    any_tool_success_seen: bool
    false_finals: int = 0
    repairs: tuple[str, ...] = ()


class RunFailedEvent(BaseEvent, frozen=True, gc=False, tag="run_failed", kw_only=True):
    """A run ended without a usable answer."""

    code: str
    message: str
    usage: Usage
    details: JSON = {}
    false_finals: int = 0


Event: TypeAlias = (
    RunStartEvent
    | LlmRequestStartEvent
    | LlmRequestErrorEvent
    | LlmRequestRetryEvent
    | LlmRequestEndEvent
    | ToolSearchEvent
    | CallsInOrderEvent
    | CallChangedEvent
    | ToolCallStartEvent
    | ToolCallEndEvent
    | FixEmptyFinalEvent
    | ForcedContinuationEvent
    | TextCallAskedEvent
    | FinalObjectedEvent
    | UnsupportedClaimEvent
    | PolicyErrorEvent
    | ObserverErrorEvent
    | RequestRefusedEvent
    | RunPausedEvent
    | ModelChangedEvent
    | FinalEvent
    | RunFailedEvent
)
