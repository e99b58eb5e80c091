"""Events: one small frozen value for each move of a run and each outcome.

    run_start
      (llm_request_start  [llm_request_error  llm_request_retry]*  llm_request_end
        [calls_in_order] ([call_changed] tool_call_start  tool_call_end)* | text_call_asked
        | fix_empty_final | forced_continuation | final_objected | model_changed)*
    run_paused | final | run_failed

A `Trace` (in `values.trace`) is their list: all that replay needs, and all that a report reads.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from surecall.values.decisions import Decision, WaitingCall
from surecall.values.errors import Fault
from surecall.values.types import (
    JSON,
    AnswerForm,
    Message,
    Reply,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)

SCHEMA_VERSION = 1
Objector: TypeAlias = Literal["application", "schema", "type"]


class Stamped(
    msgspec.Struct, frozen=True, gc=False, tag_field="type", omit_defaults=True, kw_only=True
):
    """What every event carries: whose, which turn, when (UTC seconds), and allowed context.

    `redacted` says that a secret was taken out of it when it was written down.
    """

    run_id: str
    turn: int
    at: float
    context: dict[str, str] = {}
    redacted: bool = False


# Nothing is left out of this one: a version that is not written down cannot be refused later.
class RunStartEvent(
    Stamped, frozen=True, gc=False, tag="run_start", kw_only=True, omit_defaults=False
):
    """A run began: everything that is needed to begin it again.

    Of a run that is resumed, `begun` are the calls that had begun and have no recorded end.
    `endpoint` stands for the address, without telling it. `decisions` are what was decided about
    calls that waited for a person, `since` is where the model took over from another of its chain,
    and `output` is what the answer must be.
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
    output: AnswerForm | None = None


class LlmRequestStartEvent(Stamped, frozen=True, gc=False, tag="llm_request_start", kw_only=True):
    """A request is about to leave. `request_hash` is the SHA-256 of its body.

    `reminder` is what was said in it beside the transcript, where a protocol speaks in words.
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


class LlmRequestErrorEvent(Stamped, frozen=True, gc=False, tag="llm_request_error", kw_only=True):
    """A request failed. A retry may follow."""

    fault: Fault
    attempt: int
    elapsed_ms: int


class LlmRequestRetryEvent(Stamped, frozen=True, gc=False, tag="llm_request_retry", kw_only=True):
    """A failed request will be sent again after a wait, or again without tools."""

    attempt: int
    wait_s: float
    tools_enabled: bool
    dropped: str | None = None


class LlmRequestEndEvent(Stamped, frozen=True, gc=False, tag="llm_request_end", kw_only=True):
    """A reply was heard: as it came (`body`), and as it was read (`reply`)."""

    reply: Reply
    body: Any
    request_hash: str
    attempt: int
    elapsed_ms: int
    response_bytes: int
    ignored_tool_calls: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()
    streamed: bool = False


class CallsInOrderEvent(Stamped, frozen=True, gc=False, tag="calls_in_order", kw_only=True):
    """One call was asked for, several came and are taken at their word: one after the other."""

    calls: int


class CallChangedEvent(Stamped, frozen=True, gc=False, tag="call_changed", kw_only=True):
    """The tool policy gave a call other arguments; it is answered with them."""

    call: ToolCall


class ToolCallStartEvent(Stamped, frozen=True, gc=False, tag="tool_call_start", kw_only=True):
    """A call is about to be answered. With a `problem` on it, it will not run.

    Without an end that was recorded, nobody knows what came of it.
    """

    call: ToolCall


class ToolCallEndEvent(Stamped, frozen=True, gc=False, tag="tool_call_end", kw_only=True):
    """A call was answered."""

    result: ToolResult
    ok: bool
    elapsed_ms: int
    output_bytes: int
    output_replaced: bool
    error_codes: tuple[str, ...] = ()


class FixEmptyFinalEvent(Stamped, frozen=True, gc=False, tag="fix_empty_final", kw_only=True):
    """The reply had nothing usable, and is asked for once more: `text` was said."""

    disable_tools: bool
    user_text_bytes: int
    text: str = ""


class ForcedContinuationEvent(
    Stamped, frozen=True, gc=False, tag="forced_continuation", kw_only=True
):
    """An answer came too early; the next step of the ladder was taken. `text` was said."""

    rung: str
    code: str
    message: str
    text: str
    tools: tuple[str, ...] = ()


class TextCallAskedEvent(Stamped, frozen=True, gc=False, tag="text_call_asked", kw_only=True):
    """The text holds a call that is not sure enough to run: `rule` says why, `text` was said."""

    rule: str
    tools: tuple[str, ...]
    text: str


class FinalObjectedEvent(Stamped, frozen=True, gc=False, tag="final_objected", kw_only=True):
    """An answer was not accepted. `text` was said to the model, if anything was.

    `by` says who objected: the `application`, the `schema` of the output, or its `type`.
    """

    reason: str
    text: str = ""
    by: Objector = "application"


class PolicyErrorEvent(Stamped, frozen=True, gc=False, tag="policy_error", kw_only=True):
    """The application's tool policy raised."""

    stage: str
    message: str
    call_id: str | None = None
    name: str | None = None


class ObserverErrorEvent(Stamped, frozen=True, gc=False, tag="observer_error", kw_only=True):
    """An observer raised; it gets no further events of this run."""

    observer: str
    message: str


class RequestRefusedEvent(Stamped, frozen=True, gc=False, tag="run_refused", kw_only=True):
    """The loop was told that a request failed for good, or that time ran out."""

    fault: Fault


class RunPausedEvent(Stamped, frozen=True, gc=False, tag="run_paused", kw_only=True):
    """A run stopped, because a person must decide about calls before it can go on."""

    waiting: tuple[WaitingCall, ...]
    usage: Usage
    false_finals: int = 0


class ModelChangedEvent(Stamped, frozen=True, gc=False, tag="model_changed", kw_only=True):
    """Another model of the chain goes on with the run, with all that it is told; `before` failed.

    `fault` says how. If `before` `rests`, it was not asked: it had failed a short while ago.
    """

    before: str
    model: str
    config: JSON
    options: JSON
    fault: Fault
    endpoint: str = ""
    rests: bool = False


class FinalEvent(Stamped, frozen=True, gc=False, tag="final", kw_only=True):
    """A run ended with an answer. `repairs` were needed to read it, if it has a type."""

    text: str
    stop_reason: str
    usage: Usage
    any_tool_calls_seen: bool
    any_tool_success_seen: bool
    false_finals: int = 0
    repairs: tuple[str, ...] = ()


class RunFailedEvent(Stamped, frozen=True, gc=False, tag="run_failed", kw_only=True):
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
    | CallsInOrderEvent
    | CallChangedEvent
    | ToolCallStartEvent
    | ToolCallEndEvent
    | FixEmptyFinalEvent
    | ForcedContinuationEvent
    | TextCallAskedEvent
    | FinalObjectedEvent
    | PolicyErrorEvent
    | ObserverErrorEvent
    | RequestRefusedEvent
    | RunPausedEvent
    | ModelChangedEvent
    | FinalEvent
    | RunFailedEvent
)
