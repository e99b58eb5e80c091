"""The configuration of a run: complete, frozen, checked when it is built, made of plain data.

Every default is here and nowhere else. Presets are functions from a config to a config.
"""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec

from surecall.settings.contract import Contract
from surecall.values.errors import ConfigError
from surecall.values.family import Family, canonical, unknown
from surecall.values.types import JSON
from surecall.wire.call_styles import TEXT_CALL_RULES, CallProtocol, TextCallRule, TextCalls
from surecall.wire.messages import RESERVED_OPTIONS, WireStyle, encode
from surecall.wire.plain_json import is_finite
from surecall.wire.transforms import BODY, MESSAGE, RESPONSE, TOOL, TOOL_CALL, TOOL_RESULT

PolicyErrorMode: TypeAlias = Literal["deny", "allow", "raise"]
ToolsOffStyle: TypeAlias = Literal["omit", "tool_choice_none"]
# The steps after an early answer: say what is missing; demand a call of what is missing.
Step: TypeAlias = Literal["remind", "require"]
REMIND: Final[Step] = "remind"
REQUIRE: Final[Step] = "require"

FINAL_ANSWER_REQUEST = "Please give your final answer now, as plain text."


class ToolUseMode(StrEnum):
    """Whether tools are offered, and whether one must be called."""

    ENFORCED = "enforced"
    RELAXED = "relaxed"
    DISABLED = "disabled"


class ToolFailurePolicy(StrEnum):
    """What failed tools mean for an enforced run."""

    FATAL = "fatal"
    TOLERATED = "tolerated"


class ToolCallingConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a run; the text below each says what it does."""

    # Modes and policies
    tool_use_mode: ToolUseMode = ToolUseMode.RELAXED
    """`enforced`: at least one call must be made; `relaxed`: calls are welcome; `disabled`: tools
    are never sent."""
    tool_failure_policy: ToolFailurePolicy = ToolFailurePolicy.FATAL
    """In `enforced` mode: `fatal` fails the run when a tool failure was not followed by a success;
    `tolerated` asks for one success."""
    tool_allowlist: tuple[str, ...] | None = None
    """Only these tools are sent and may run; null means all, an empty list none."""
    tool_denylist: tuple[str, ...] = ()
    """These tools are neither sent nor run. Wins over the allow list."""
    tool_choice: str | JSON = "auto"
    """Sent as it is while tools are available."""
    policy_error_mode: PolicyErrorMode = "deny"
    """What happens when the application's tool policy raises: `deny`, `allow` or `raise`."""
    call_protocol: CallProtocol = "native"
    """How calls are asked for: `native` uses the endpoint's tools; `guided` binds the reply to a
    JSON schema of the calls that are allowed now; `prompted` describes a form in words."""

    guided_thought: int = 0
    """How many characters a guided reply may think before its next step, once there are results; it
    is kept in the trace, and never sent again. Zero asks for no thought."""
    guided_fit_check: bool = False
    """Where a guided reply may call a tool or answer immediately: let it say first what is asked
    for, and whether the closest tool gives that. It may call only if it does. Not under a
    contract, nor where a tool must be called."""
    choice_temperature: float | None = None
    """The `temperature` of guided replies in which a value is chosen among several that were seen,
    whatever the options say: such a choice is no matter of chance. None leaves it as it is."""
    closing_reminder: bool = False
    """Before the final answer of a contract that is met, repeat what was written and what was
    asked for; in `guided` and `prompted` only."""

    # An early answer
    contract: Contract | None = None
    """What must have succeeded before a final answer counts: `all_of`, `any_of`, `in_order` list
    tools, each with arguments if they matter; null demands nothing."""
    final_ladder: tuple[Step, ...] = ()
    """How an early answer is handled, step by step: `remind` says what is missing, `require` also
    demands a call of that. After the last step the run fails."""
    demand_by_name: bool = True
    """Where one tool is left to demand, name it in `tool_choice`; off for endpoints that refuse or
    ignore that, it is `required` with this tool alone."""

    # An empty final answer
    fix_empty_final: bool = True
    """Ask once more when a reply has nothing usable: it is empty, or announces a call that is not
    there. Without it a blank answer is returned, with the stop reason `empty_final`."""
    fix_empty_final_user_text: str = FINAL_ANSWER_REQUEST
    """What is said to a model whose answer after tool calls is empty."""
    fix_empty_final_disable_tools: bool = True
    """Whether an empty answer after tool calls is asked for once more without tools."""
    tools_off_style: ToolsOffStyle = "omit"
    """How tools are switched off for a turn: `omit` them, or send them with `tool_choice_none` for
    routes that refuse tool messages without tools."""

    # Guards
    max_turns: int = 12
    """How many replies a run may take."""
    max_tool_args_bytes: int = 200_000
    """Larger arguments are refused before the tool runs."""
    max_tool_output_bytes: int = 200_000
    """Larger results are replaced by a small failure, which says that the tool ran."""
    max_tool_calls_per_turn: int | None = None
    """How many calls of one reply may run, whatever happens. Null means all; where
    `parallel_tool_calls` is false it means one, until a model that was told so sends several again:
    from then on all run, one after the other."""
    calls_in_order: bool = False
    """Where `parallel_tool_calls` is false and a reply has several calls nevertheless: run all, one
    after the other, from the first turn on. For endpoints that do not pass the wish on."""
    max_concurrent_tools: int = 8
    """How many tools may run at the same time, where `parallel_tool_calls` is true; otherwise calls
    run one after the other."""
    max_total_tool_calls: int = 100
    """How many calls may run in one run."""
    max_unknown_tool_calls: int = 3
    """How many turns with calls of tools that do not exist a run survives."""
    repeat_note_at: int = 2
    """The same call this often in a row runs, with a note to the model."""
    repeat_block_at: int = 3
    """The same call this often in a row does not run."""
    repeat_stop_at: int = 6
    """The same call this often in a row ends the run."""
    block_repeated_success: bool = False
    """A call that has just succeeded does not run a second time; a look-up not while nothing else
    has been changed."""
    tool_timeout_s: float = 60.0
    """Seconds a tool may take, unless it has a timeout of its own."""
    max_tools_left_running: int = 32
    """How many tools that timed out may still be at work in the background before further calls are
    refused; blocking tools and coroutines are counted apart."""
    run_deadline_s: float = 600.0
    """Seconds a run may take."""
    max_tool_definitions_count: int = 128
    """How many tools may be offered."""
    max_tool_definitions_bytes: int = 200_000
    """How many bytes the definitions of all tools may take together."""
    validate_arguments: bool = True
    """Check arguments against the tool's schema before it runs."""

    # Reading
    text_calls: TextCalls = "off"
    """Whether calls that came as text are read: `marked` believes marks that mean nothing else,
    `any` also naked JSON and the like, for known tools."""
    text_call_rules: tuple[TextCallRule, ...] = TEXT_CALL_RULES
    """What must hold before a call in text runs; where a rule fails, the model is asked instead.
    `whole`: nothing of it is broken; `marked`: its marks mean nothing else; `own_words`: it stands
    in no tool result and no user text;
    `last_words`: nothing follows it; `only_way`: the model has made no native call yet;
    `not_destructive`: the tool is not marked destructive."""
    strip_thinking: bool = True
    """Keep what is in `<think>` and its kind out of the answer; it goes to the reply's
    reasoning."""
    coerce_arguments: bool = False
    """Fit arguments to the tool's schema, and a typed answer to its own, before they are checked,
    where that loses nothing: `"2"` becomes 2 for an integer, a null for an optional is dropped."""
    decode_html_entities: bool = False
    """Read `&amp;` and its kind in arguments as the characters they stand for, before anything
    checks them. Wrong for tools that take HTML."""
    stringify_containers: bool = False
    """Write an object or a list as JSON text where the schema wants a string."""

    # The request
    default_max_tokens: int | None = None
    """Sent as `max_tokens` where no other option limits a reply; null sends nothing."""
    request_overrides: JSON = {}
    """Merged into every request body. Keys that the runner owns are refused."""
    unsupported_options: tuple[str, ...] = ()
    """Options that are planned but not sent, for endpoints that refuse them."""
    fallback_retry_count: int = 0
    """In `relaxed` mode: how often a request that was refused because of its tools is sent again
    without them."""
    keep_text_beside_calls: bool = False
    """Send text that stood beside calls back to the model."""
    echo_fields: tuple[str, ...] | None = None
    """Fields of an assistant message, such as reasoning, that are sent back as they came; null
    means all. Only the endpoint and model that sent them get them back."""
    echo_call_fields: bool = True
    """Whether unknown fields of a call and of its function, such as signatures, are sent back."""
    withheld_fields: tuple[str, ...] = ("annotations", "audio", "images", "image_url")
    """Fields of a message, a call or a function, and types of content parts, that are never sent
    back: endpoints are known to refuse what they sent there."""
    short_call_ids: bool = False
    """Send call ids of nine letters and digits, the only ones Mistral accepts."""
    name_tool_messages: bool = False
    """Send the tool's name with each tool message, which Gemini demands."""
    bridge_user_after_tool: bool = False
    """Put a short assistant message between a tool message and a user message, for endpoints that
    refuse that order."""

    # Transforms, by name
    message_transforms: tuple[str, ...] = ()
    """Applied to each outgoing message, in order."""
    tool_transforms: tuple[str, ...] = ()
    """Applied to each outgoing tool definition."""
    body_transforms: tuple[str, ...] = ()
    """Applied to each incoming answer as a whole."""
    response_transforms: tuple[str, ...] = ()
    """Applied to each incoming assistant message."""
    tool_call_transforms: tuple[str, ...] = ()
    """Applied to each incoming call."""
    tool_result_transforms: tuple[str, ...] = ()
    """Applied to each tool result before it is sent."""

    # Events
    event_context_keys: tuple[str, ...] = ()
    """Keys of the run's context that may appear in events."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, while the caller still sees where it came from."""
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value is not default:  # defaults are right, and most values are defaults
                msgspec.structs.force_setattr(self, name, _checked(name, value))
        _check_numbers(self)
        if not self.repeat_note_at <= self.repeat_block_at <= self.repeat_stop_at:
            raise ConfigError("repeat_note_at, repeat_block_at, repeat_stop_at must not decrease")
        if not self.fix_empty_final_user_text.strip():
            raise ConfigError("fix_empty_final_user_text is blank")
        if isinstance(self.tool_choice, str) and not self.tool_choice.strip():
            raise ConfigError("tool_choice is blank")
        check_options(self.request_overrides, "request_overrides")

    @property
    def demands_nothing(self) -> bool:
        """Whether every answer counts: there is no contract, and no tool must be called."""
        return self.contract is None and self.tool_use_mode is not ToolUseMode.ENFORCED

    @property
    def wire_style(self) -> WireStyle:
        """How earlier assistant turns are written."""
        return WireStyle(
            self.keep_text_beside_calls,
            self.echo_fields,
            self.echo_call_fields,
            self.short_call_ids,
            self.name_tool_messages,
            self.withheld_fields,
        )

    def but(self, **changes: Any) -> "ToolCallingConfig":
        """Return a copy with some fields changed, checked like any other config."""
        for key in changes:
            if key not in self.__struct_fields__:
                raise ConfigError(unknown("configuration key", key, self.__struct_fields__))
        return msgspec.structs.replace(self, **changes)

    def to_mapping(self) -> JSON:
        """Return plain data that `from_mapping` reads back."""
        plain: JSON = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "ToolCallingConfig":
        """Build a config from plain data; unknown keys, words and types are errors."""
        if not isinstance(mapping, Mapping):
            raise ConfigError(f"the configuration must be a mapping, not {type(mapping).__name__}")
        for key in mapping:
            if key not in cls.__struct_fields__:
                raise ConfigError(unknown("configuration key", str(key), cls.__struct_fields__))
        return cls(**{key: _plain(key, value) for key, value in mapping.items()})


FAMILIES: dict[str, Family[JSON]] = {
    "message_transforms": MESSAGE,
    "tool_transforms": TOOL,
    "body_transforms": BODY,
    "response_transforms": RESPONSE,
    "tool_call_transforms": TOOL_CALL,
    "tool_result_transforms": TOOL_RESULT,
}
_POSITIVE = (
    "max_turns",
    "max_tool_args_bytes",
    "max_tool_output_bytes",
    "max_tool_calls_per_turn",
    "max_concurrent_tools",
    "max_total_tool_calls",
    "repeat_note_at",
    "tool_timeout_s",
    "max_tools_left_running",
    "run_deadline_s",
    "max_tool_definitions_count",
    "max_tool_definitions_bytes",
    "default_max_tokens",
)
_NOT_NEGATIVE = (
    "fallback_retry_count",
    "max_unknown_tool_calls",
    "guided_thought",
    "choice_temperature",
)
_TYPES = {field.name: field.type for field in msgspec.structs.fields(ToolCallingConfig)}
_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(ToolCallingConfig)}
_WORDS: dict[str, tuple[str, ...]] = {
    "tool_use_mode": tuple(ToolUseMode),
    "tool_failure_policy": tuple(ToolFailurePolicy),
    "policy_error_mode": get_args(PolicyErrorMode),
    "tools_off_style": get_args(ToolsOffStyle),
    "call_protocol": get_args(CallProtocol),
}
_LISTS = (
    *FAMILIES,
    "tool_allowlist",
    "tool_denylist",
    "unsupported_options",
    "echo_fields",
    "withheld_fields",
    "event_context_keys",
    "final_ladder",
    "text_call_rules",
)


def _check_numbers(config: ToolCallingConfig) -> None:
    for name in _POSITIVE:
        value = getattr(config, name)
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(f"{name} must be a positive number, not {value!r}")
    for name in _NOT_NEGATIVE:
        if (getattr(config, name) or 0) < 0:
            raise ConfigError(f"{name} cannot be negative")


def _checked(name: str, value: Any) -> Any:
    """Return a value in its field's own type; a wrong type, word or name is an error."""
    words = _WORDS.get(name)
    if words and value not in words:
        raise ConfigError(unknown(name, str(value), words))
    try:
        converted = msgspec.convert(value, _TYPES[name])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {error}") from None
    family = FAMILIES.get(name)
    return converted if family is None else family.check(converted)


def _plain(key: str, value: Any) -> Any:
    """Accept how people write settings: words in any case, lists as comma-separated text."""
    if key in _WORDS and isinstance(value, str):
        return canonical(value)
    if key in _LISTS and isinstance(value, str):
        return names_in(value)
    if isinstance(value, list | tuple):
        stripped = (item.strip() if isinstance(item, str) else item for item in value)
        return [item for item in stripped if item != ""]
    return value


def names_in(text: str) -> list[str]:
    """Split a comma-separated list; blanks do not count."""
    return [name for part in text.split(",") if (name := part.strip())]


def check_options(options: Mapping[str, Any], where: str) -> None:
    """Refuse request options that another layer owns."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"{where} must be a mapping, not {type(options).__name__}")
    taken = sorted(RESERVED_OPTIONS & options.keys())
    if taken:
        raise ConfigError(
            f"{where} cannot set {', '.join(taken)}: the runner owns these keys. "
            "Use the runner's own parameters instead."
        )
    try:
        encode(dict(options))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where} cannot be written as JSON: {error}") from None
    if not is_finite(dict(options)):
        raise ConfigError(f"{where} cannot be written as JSON: NaN and infinity are no numbers")
    parallel = options.get("parallel_tool_calls", False)
    if not isinstance(parallel, bool):
        raise ConfigError(f"{where}: parallel_tool_calls must be true or false, not {parallel!r}")


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> JSON:
    """Merge mappings recursively; anything else, lists too, is replaced by the right side."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = deep_merge(old, value) if both else value  # type: ignore[arg-type]  # `both` says so
    return merged


Item = TypeVar("Item")


def union(first: Iterable[Item], second: Iterable[Item]) -> tuple[Item, ...]:
    """Join two lists without repeating anything; the order stays."""
    return tuple(dict.fromkeys((*first, *second)))
