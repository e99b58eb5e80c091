"""Immutable values shared by every layer: messages, calls, results, plans, and replies.

All are frozen, compare by value, and convert to JSON and back with `msgspec`. The transcript is a
tuple of `Message`; every fact about a run is derived from it.
"""

from typing import Any, Final, TypeAlias

import msgspec

from surecall.values.errors import ErrorCode, Fault

JSON: TypeAlias = dict[str, Any]
UNMATCHED_RESULT: Final = "unmatched_result"
# A float this large or larger may stand for several integers.
FIRST_INEXACT_FLOAT: Final = 2**53


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 digest of `data`."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL

    return hashlib.sha256(data).digest()


def object_or_empty(value: Any) -> JSON:
    """Return a JSON object unchanged, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


class Secret:
    """An API key that cannot be printed, logged, or pickled by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself. Only the transport calls this, just before sending."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret('…')"

    __str__ = __repr__

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a Secret cannot be serialized")


class Problem(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a call cannot run, as the message that is sent to the model."""

    code: ErrorCode
    message: str
    data: JSON = {}


class AmbiguousCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An ambiguous call in text, which does not run: the tool it names, and the rule it matched.

    If `alone`, the text has no other content, so it cannot be an answer. If `retold`, untrusted
    text retells the call but has no copy of it, so the model may repeat the call if it means it.
    """

    name: str
    rule: str
    alone: bool = False
    retold: bool = False


class ToolCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call with parsed `arguments`. A call with a `problem` must not run.

    `from_text` calls were parsed from the model's text. `first_id` is the original id of a call
    whose id was already taken by an earlier call of the conversation. `grounds` maps grounded
    parameters to the places where their values were observed.
    """

    id: str
    name: str
    arguments: JSON = {}
    problem: Problem | None = None
    warnings: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    asked: str | None = None
    arguments_bytes: int = 0
    extra: JSON = {}
    from_text: bool = False
    first_id: str | None = None
    grounds: dict[str, str] = {}

    def with_copied_arguments(self) -> "ToolCall":
        """Return the call with a copy of its arguments, for code that might modify them."""
        return msgspec.structs.replace(self, arguments=msgspec.to_builtins(self.arguments))

    @property
    def is_runnable(self) -> bool:
        """Whether the call has no problem."""
        return self.problem is None

    @property
    def is_ignored(self) -> bool:
        """Whether the call exceeded the limit of calls per turn."""
        return self.problem is not None and self.problem.code is ErrorCode.TOOL_CALL_NOT_EXECUTED


class System(msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="system"):
    """Instructions from the application."""

    text: str


class User(msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="user", omit_defaults=True):
    """A message of the user or, if `nudge`, a prompt that the loop sends in the user's role.

    `rung` is the escalation step for a premature answer, or `UNMATCHED_RESULT` for a tool result
    that matches no call and holds no text of the user.
    """

    content: str | list[Any]
    nudge: bool = False
    rung: str = ""

    @property
    def is_final_request(self) -> bool:
        """Whether the loop re-prompts for a final answer, after an empty one."""
        return self.nudge and not self.rung


class Assistant(
    msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="assistant", omit_defaults=True
):
    """A reply of the model. `dropped` calls were made while no tools were exposed.

    `claims` are ambiguous calls in the text: the model is asked about them, and they do not run.
    `extra` is provider state, and `origin` the model and endpoint that it came from and is sent
    back to, blank if unknown.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    dropped: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    extra: JSON = {}
    claims: tuple[AmbiguousCall, ...] = ()
    origin: str = ""

    @property
    def ignored_calls(self) -> tuple[ToolCall, ...]:
        """Calls that were recorded but not run."""
        return (*(call for call in self.calls if call.is_ignored), *self.dropped)


class ToolResult(
    msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="tool", omit_defaults=True
):
    """The result of one call. `content` is the envelope that is sent to the model.

    If `retry` is false, the tool reported that retrying the call will not help. `execution` is the
    id of the execution with an unknown outcome that this call or an identical one started. `found`
    are the tools that a search for tools found; None for the calls of all other tools.
    """

    call_id: str
    name: str
    ok: bool
    content: str
    executed: bool = False
    replaced: bool = False
    error_codes: tuple[str, ...] = ()
    elapsed_ms: int = 0
    detail: str | None = None
    retry: bool = True
    execution: str = ""
    found: tuple[str, ...] | None = None

    @property
    def envelope(self) -> JSON:
        """The content, decoded."""
        decoded: JSON = msgspec.json.decode(self.content)
        return decoded


class Refusal(msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="refusal"):
    """A request that failed permanently. Part of the transcript, but never sent."""

    fault: Fault


Message: TypeAlias = System | User | Assistant | ToolResult | Refusal


class ToolSpec(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool as the model sees it, plus the properties that the loop needs.

    Calls of a `destructive` tool are never parsed from text. A `read_only` or `idempotent` tool may
    run again if the outcome of its call is unknown. `grounded` maps each parameter whose values
    must have been observed to the tools whose results may hold them; an empty tuple means anywhere.
    """

    name: str
    description: str
    parameters: JSON
    repeatable: bool = False
    destructive: bool = False
    read_only: bool = False
    idempotent: bool = False
    grounded: dict[str, tuple[str, ...]] = {}

    @property
    def may_repeat(self) -> bool:
        """Whether running a call twice has the same effect as running it once."""
        return self.read_only or self.idempotent


class AnswerFormat(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The format of a final answer: JSON that matches a schema.

    If `bound`, the endpoint enforces the schema; otherwise the model is instructed to follow it.
    """

    schema: JSON
    bound: bool = False


class Plan(msgspec.Struct, frozen=True, gc=False):
    """The content of one request, before it is encoded.

    `tools` are exposed now; `known_tools` are all tools of the run, for protocols that describe
    them in text. `may_answer` is false while a final answer would be rejected, and `reminder` tells
    the model why. `give_up_reasons` are the errors of calls that failed permanently; the model may
    give up for one of them. `origin` identifies model and endpoint, and `lessons` are the features
    of earlier turns that this endpoint does not accept. `other_model_span` is the range of messages
    by another model of the fallback chain. `output` is the schema of the final answer.
    `required_tools` are the names of the tools that must be exposed even if there are too many.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str | JSON | None = None
    response_format: JSON | None = None
    options: JSON = {}
    known_tools: tuple[ToolSpec, ...] = ()
    may_answer: bool = True
    give_up_reasons: tuple[str, ...] = ()
    reminder: str = ""
    origin: str = ""
    lessons: tuple[str, ...] = ()
    other_model_span: tuple[int, int] = (0, 0)
    output: JSON | None = None
    required_tools: tuple[str, ...] = ()


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Token counts and cost of one reply or of a whole run."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Add field by field; the cost is known if either side has one."""
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.total_tokens + other.total_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            sum(known) if known else None,
        )


class Reply(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One reply of the model, parsed and repaired. `fired` are the names of the repairs."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    fired: tuple[str, ...] = ()
    extra: JSON = {}
    claims: tuple[AmbiguousCall, ...] = ()


class HttpResponse(msgspec.Struct, frozen=True, gc=False):
    """An HTTP response, unparsed. Header names are in lower case.

    `waited_s` is how long the client delayed the request before sending it.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    waited_s: float = 0.0


def is_blank(text: str) -> bool:
    """Whether a text is empty or whitespace; unlike `strip`, this makes no copy."""
    return not text or text.isspace()
