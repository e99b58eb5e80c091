"""The values everything else is made of: messages, calls, results, plans, replies.

All are frozen, compare by value, and turn into JSON and back with `msgspec`. The transcript is a
tuple of `Message`; every fact about a run is derived from it.
"""

from typing import Any, Final, TypeAlias

import msgspec

from surecall.values.errors import ErrorCode, Fault

JSON: TypeAlias = dict[str, Any]
UNMATCHED_RESULT: Final = "unmatched_result"


class Secret:
    """A key that can be used but not printed, logged, pickled or copied by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the key itself. Only the transport's last step calls this."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret('…')"

    __str__ = __repr__

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a Secret is not serialised")


class Problem(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a call cannot run, in the words the model will read."""

    code: ErrorCode
    message: str
    data: JSON = {}


class Claim(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A call in text that is not sure enough to run: the tool it names, the rule that says so.

    `alone` says that the text holds nothing else, and no quotation: it cannot be an answer.
    """

    name: str
    rule: str
    alone: bool = False


class ToolCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call, read and judged: `arguments` are parsed; a `problem` means it must not run.

    `from_text` says that it was read from the model's text. `first_id` is the id that it came with,
    if an earlier call of the conversation already had that one. `grounds` says where the values of
    grounded parameters were seen.
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

    def private(self) -> "ToolCall":
        """Return the same call with arguments of its own, for eyes that might change them."""
        return msgspec.structs.replace(self, arguments=msgspec.to_builtins(self.arguments))

    @property
    def may_run(self) -> bool:
        """Whether nothing is wrong with this call."""
        return self.problem is None

    @property
    def ignored(self) -> bool:
        """Whether this call was one too many in its turn."""
        return self.problem is not None and self.problem.code is ErrorCode.TOOL_CALL_NOT_EXECUTED


class System(msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="system"):
    """Instructions from the application."""

    text: str


class User(msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="user", omit_defaults=True):
    """What the user said, or (`nudge`) what the loop said in the user's place.

    `rung` is the step of the ladder that an early answer led to, or `UNMATCHED_RESULT` for a tool
    result that answers no call: it holds no words of the user.
    """

    content: str | list[Any]
    nudge: bool = False
    rung: str = ""

    @property
    def asks(self) -> bool:
        """Whether the loop asks for a final answer here, after an empty one."""
        return self.nudge and not self.rung


class Assistant(
    msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="assistant", omit_defaults=True
):
    """What the model said. `dropped` calls came when no tools were on offer.

    `claims` are calls in the text that are asked about instead of run. `extra` is opaque state,
    and `origin` the model and endpoint that it came from and goes back to, blank if nobody knows.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    dropped: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    extra: JSON = {}
    claims: tuple[Claim, ...] = ()
    origin: str = ""

    @property
    def ignored(self) -> tuple[ToolCall, ...]:
        """Calls that were counted and traced, but not run."""
        return (*(call for call in self.calls if call.ignored), *self.dropped)


class ToolResult(
    msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="tool", omit_defaults=True
):
    """The answer to one call. `content` is the envelope as the model sees it.

    Without `retry` the tool has said that making the call again will not help.
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

    @property
    def envelope(self) -> JSON:
        """The content, decoded."""
        decoded: JSON = msgspec.json.decode(self.content)
        return decoded


class Refusal(msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="refusal"):
    """A request that failed for good. Part of the transcript, never sent."""

    fault: Fault


Message: TypeAlias = System | User | Assistant | ToolResult | Refusal


class ToolSpec(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool as the model sees it, plus what the loop must know about it.

    A call of a `destructive` tool is never taken from text. A tool that is `read_only` or
    `idempotent` may run again when nobody knows what came of its call. What is not said is not
    known: such a tool is treated as none of these. `grounded` are the parameters whose values must
    have been seen, each with the tools whose results may hold them; none means anywhere.
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
        """Whether running a call twice does no more than running it once."""
        return self.read_only or self.idempotent


class AnswerForm(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a final answer must be: JSON that fits a schema.

    Where the endpoint is known to bind a reply to a schema it is `bound`; else it is asked for.
    """

    schema: JSON
    bound: bool = False


class Plan(msgspec.Struct, frozen=True, gc=False):
    """Everything one request is made of, before it becomes bytes.

    `tools` are on offer now; `known_tools` are all of the run's, for protocols that describe them
    in words. `may_answer` is off while a final answer would be refused; `reminder` says why, where
    the model seems not to know. `way_out` is what tools said when a call failed for good: one of it
    may be the reason why the model gives up. `origin` names model and endpoint, and `lessons` what
    of an earlier turn this endpoint does not take. `foreign` is the range of messages in which
    another model of the chain spoke. `output` is the schema of the final answer.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str | JSON | None = None
    response_format: JSON | None = None
    options: JSON = {}
    known_tools: tuple[ToolSpec, ...] = ()
    may_answer: bool = True
    way_out: tuple[str, ...] = ()
    reminder: str = ""
    origin: str = ""
    lessons: tuple[str, ...] = ()
    foreign: tuple[int, int] = (0, 0)
    output: JSON | None = None


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens and money, of one reply or of a whole run."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        """Sum field by field; a cost is known when either side knows one."""
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
    """One answer of the model, healed and judged."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    fired: tuple[str, ...] = ()
    extra: JSON = {}
    claims: tuple[Claim, ...] = ()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What came back over HTTP, untouched. Header names are in lower case.

    `waited_s` is how long a client held the request back before it was sent.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    waited_s: float = 0.0


def is_blank(text: str) -> bool:
    """Whether there is nothing in a text but blanks; unlike `strip` it makes no copy."""
    return not text or text.isspace()
