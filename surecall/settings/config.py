"""Run configuration: an immutable, validated, JSON-serializable struct.

`ToolCallingConfig` sets the rules of a run; its `endpoint` sets how to talk to the endpoint and
model. All defaults are defined here and in `endpoint_profile`. Your settings override those that
presets recommend for the endpoint and model.
"""

from collections.abc import Mapping
from copy import deepcopy
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import msgspec

from surecall.settings.contract import Contract
from surecall.settings.endpoint_profile import EndpointProfile
from surecall.settings.overlay import LayeredSettings, adjust_fields, copy_with, default
from surecall.values.errors import ConfigError
from surecall.values.family import unknown_name_message
from surecall.values.nesting import encode_json
from surecall.values.types import JSON
from surecall.wire.call_styles import CallProtocol
from surecall.wire.chat_format import RESERVED_OPTIONS, encode, is_finite

PolicyErrorMode: TypeAlias = Literal["deny", "allow", "raise"]
ClaimCheck: TypeAlias = Literal["report", "ask", "off"]
# What follows a premature answer: a reminder of what is missing, then a required call.
LadderStep: TypeAlias = Literal["remind", "require"]
REMIND: Final[LadderStep] = "remind"
REQUIRE: Final[LadderStep] = "require"

FINAL_ANSWER_REQUEST = "Please give your final answer now, as plain text."


class ToolUseMode(StrEnum):
    """Whether tools are sent, and whether the model must call one."""

    ENFORCED = "enforced"
    RELAXED = "relaxed"
    DISABLED = "disabled"


class ToolFailurePolicy(StrEnum):
    """What failed tools mean for an enforced run."""

    FATAL = "fatal"
    TOLERATED = "tolerated"


class ToolCallingConfig(LayeredSettings, frozen=True, kw_only=True):
    """The rules of a run. Fields that you omit have the recommended values."""

    # Tools
    tool_use_mode: ToolUseMode = default(ToolUseMode.RELAXED)
    """`enforced` requires at least one call, `relaxed` allows calls, `disabled` sends no tools."""
    tool_failure_policy: ToolFailurePolicy = default(ToolFailurePolicy.FATAL)
    """In `enforced` mode: `fatal` fails the run if a tool failure is not followed by a success;
    `tolerated` requires one success."""
    tool_allowlist: tuple[str, ...] | None = default(None)
    """The only tools to send and run; null means all, an empty list none."""
    tool_denylist: tuple[str, ...] = default(())
    """Tools that are neither sent nor run; takes precedence over `tool_allowlist`."""
    tool_choice: str | JSON = default("auto")
    """Value of `tool_choice` in requests with tools."""
    policy_error_mode: PolicyErrorMode = default("deny")
    """What to do when your tool policy raises: `deny`, `allow`, or `raise`."""
    call_protocol: CallProtocol = default("native")
    """How the model calls tools: `native` uses the endpoint's tool calling; `guided` constrains
    replies to a JSON schema of the allowed calls; `prompted` describes a format in the prompt."""
    validate_arguments: bool = default(True)
    """Validate arguments against the schema before the tool runs."""
    event_context_keys: tuple[str, ...] = default(())
    """Keys of the run's context to include in events."""

    # Final answers
    contract: Contract | None = default(None)
    """Calls that must have succeeded before a final answer counts (`all_of`, `any_of`, `in_order`);
    null requires none."""
    final_ladder: tuple[LadderStep, ...] = default((REMIND, REQUIRE))
    """Responses to premature answers, in order: `remind` names what is missing, `require` also
    requires a call. After the last step the run fails."""
    fix_empty_final: bool = default(True)
    """Re-prompt once when a reply is empty, or announces a call or work and ends; if false, a blank
    answer is returned with the stop reason `empty_final`."""
    fix_empty_final_user_text: str = default(FINAL_ANSWER_REQUEST)
    """The prompt that follows an empty answer after tool calls."""
    fix_empty_final_disable_tools: bool = default(True)
    """Send no tools when re-prompting after an empty answer."""
    verify_claims: ClaimCheck = default("report")
    """What to do when an answer claims an action that no successful call supports: `report` it in
    the result and the trace, also `ask` the model once, or `off`."""

    # Limits
    max_turns: int = default(12)
    """Maximum number of replies in a run."""
    run_deadline_s: float = default(600.0)
    """Maximum duration of a run, in seconds."""
    tool_timeout_s: float = default(60.0)
    """Maximum duration of a tool call, in seconds, unless the tool has its own timeout."""
    max_tool_args_bytes: int = default(200_000)
    """Maximum size of a call's arguments, in bytes; larger ones are refused before the tool
    runs."""
    max_tool_output_bytes: int = default(200_000)
    """Maximum size of a tool result, in bytes; a larger one is replaced by an error that says
    the tool ran."""
    max_tool_calls_per_turn: int | None = default(None)
    """Maximum number of calls to run from one reply; null means all, or one if
    `parallel_tool_calls` is false and `calls_in_order` is off."""
    max_concurrent_tools: int = default(8)
    """Maximum number of tools running at once where `parallel_tool_calls` is true; otherwise one
    at a time."""
    max_total_tool_calls: int = default(100)
    """Maximum number of calls in a run."""
    max_unknown_tool_calls: int = default(3)
    """Maximum number of turns that call tools that do not exist."""
    max_tools_left_running: int = default(32)
    """Maximum number of timed-out tools that still run in the background, counted separately for
    blocking tools and coroutines."""
    repeat_note_at: int = default(2)
    """Number of identical calls in a row from which the result carries a note to the model."""
    repeat_block_at: int = default(3)
    """Number of identical calls in a row from which the call does not run."""
    repeat_stop_at: int = default(6)
    """Number of identical calls in a row that ends the run."""

    # Requests
    request_overrides: JSON = default({"parallel_tool_calls": False})
    """Options merged into every request body; keys that the runner sets itself are rejected."""
    fallback_retry_count: int = default(0)
    """In `relaxed` mode: maximum number of retries without tools after the endpoint rejected the
    tools."""
    endpoint: EndpointProfile = default(EndpointProfile())
    """Settings for the endpoint and model; usually derived by presets."""

    MERGED: ClassVar = frozenset({"request_overrides"})
    WORDS: ClassVar = {
        "tool_use_mode": tuple(ToolUseMode),
        "tool_failure_policy": tuple(ToolFailurePolicy),
        "policy_error_mode": get_args(PolicyErrorMode),
        "verify_claims": get_args(ClaimCheck),
        "call_protocol": get_args(CallProtocol),
    }
    LISTS: ClassVar = frozenset(
        {"tool_allowlist", "tool_denylist", "event_context_keys", "final_ladder"}
    )
    POSITIVE: ClassVar = (
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
    )
    NOT_NEGATIVE: ClassVar = ("fallback_retry_count", "max_unknown_tool_calls")

    def check(self) -> None:
        """Refuse contradictory values and blank texts."""
        if not self.repeat_note_at <= self.repeat_block_at <= self.repeat_stop_at:
            limits = self.repeat_note_at, self.repeat_block_at, self.repeat_stop_at
            raise ConfigError(
                "repeat_note_at, repeat_block_at, repeat_stop_at must not decrease, "
                f"but are {', '.join(map(str, limits))}"
            )
        if not self.fix_empty_final_user_text.strip():
            raise ConfigError("fix_empty_final_user_text is blank; set a prompt or omit it")
        if isinstance(self.tool_choice, str) and not self.tool_choice.strip():
            raise ConfigError('tool_choice is blank; set a value such as "auto"')

    def __post_init__(self) -> None:
        """Validate the fields that were set; a config with every field set is resolved."""
        super().__post_init__()
        if self.explicit.issuperset(SETTINGS):
            self.__dict__["resolved"] = True

    @classmethod
    def accept(cls, given: JSON) -> JSON:
        """Return keyword arguments by field; those of the endpoint are moved into `endpoint`."""
        try:
            own, endpoint_fields = _split_fields(given)
        except ConfigError as problem:
            raise TypeError(f"{cls.__name__}: {problem}") from None
        return _with_endpoint(own, endpoint_fields, EndpointProfile())

    @classmethod
    def validate(cls, name: str, value: Any) -> Any:
        """Return a value converted to its field's type; options that the runner owns are errors."""
        if name == "endpoint":
            return (
                EndpointProfile.parse(value)
                if isinstance(value, Mapping)
                else _require_profile(value)
            )
        if name == "request_overrides" and isinstance(value, Mapping):
            check_options(value, name)
        if name == "tool_choice" and isinstance(value, Mapping):
            check_json(value, name)
        valid = super().validate(name, value)
        return deepcopy(valid) if isinstance(valid, dict) else valid

    @property
    def explicit(self) -> frozenset[str]:
        """The fields that were set, those of the endpoint included."""
        return super().explicit.difference({"endpoint"}) | self.endpoint.explicit

    @property
    def is_resolved(self) -> bool:
        """Whether a runner uses the config unchanged: `presets.resolve` or `raw` returned it."""
        return "resolved" in self.__dict__

    @property
    def demands_nothing(self) -> bool:
        """Whether every answer counts: no contract, and no required call."""
        return self.contract is None and self.tool_use_mode is not ToolUseMode.ENFORCED

    def replace(self, **changes: Any) -> "ToolCallingConfig":
        """Return a copy with fields set, including those of the endpoint."""
        own = _with_endpoint(*_split_fields(changes), self.endpoint)
        return copy_with(self, own, own)

    def to_mapping(self) -> JSON:
        """Return a flat mapping of plain data for `from_mapping`.

        It contains the fields that you or a preset changed; for a resolved config, all fields.
        """
        values = all_settings(self)
        if self.is_resolved:
            return values
        usual = all_settings(_DEFAULT)
        return {
            name: value
            for name, value in values.items()
            if name in self.explicit or value != usual[name]
        }

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "ToolCallingConfig":
        """Build a config from plain data; unknown keys, values, and types are errors.

        Fields of the endpoint may be at the top level or in an `endpoint` mapping. A mapping with
        every field is resolved.
        """
        if not isinstance(mapping, Mapping):
            raise ConfigError(_config_type_message(mapping))
        own, endpoint_fields = _split_fields({str(key): value for key, value in mapping.items()})
        return cls(**cls.parse_words(own), **EndpointProfile.parse_words(endpoint_fields))


def adjust(config: ToolCallingConfig, **changes: Any) -> ToolCallingConfig:
    """Change settings as a preset does: fields that were set stay, and none is marked as set."""
    own, endpoint_fields = _split_fields(changes)
    if endpoint_fields:
        own["endpoint"] = adjust_fields(config.endpoint, endpoint_fields)
    return adjust_fields(config, own)


def all_settings(config: ToolCallingConfig) -> JSON:
    """Return every setting as plain data, with those of the endpoint at the top level."""
    plain: JSON = msgspec.to_builtins(config)
    endpoint_fields: JSON = plain.pop("endpoint")
    return plain | endpoint_fields


def mark_resolved(config: ToolCallingConfig, *, is_resolved: bool = True) -> ToolCallingConfig:
    """Return a copy marked as resolved (used unchanged) or not (laid over recommended settings)."""
    copy = copy_with(config, {})
    copy.__dict__.pop("resolved", None)
    if is_resolved:
        copy.__dict__["resolved"] = True
    return copy


def _split_fields(changes: Mapping[str, Any]) -> tuple[JSON, JSON]:
    """Separate the fields of a config from those of its endpoint."""
    own: JSON = {}
    endpoint_fields: JSON = {}
    for key, value in changes.items():
        if key in ToolCallingConfig.__struct_fields__:
            own[key] = value
        elif key in EndpointProfile.__struct_fields__:
            endpoint_fields[key] = value
        else:
            raise ConfigError(unknown_name_message("configuration key", key, SETTINGS))
    return own, endpoint_fields


def _with_endpoint(config_fields: JSON, endpoint_fields: JSON, base: EndpointProfile) -> JSON:
    """Return the fields of a config, with `endpoint` built from its fields."""
    if not endpoint_fields:
        return config_fields
    endpoint = ToolCallingConfig.validate("endpoint", config_fields.get("endpoint", base))
    return config_fields | {"endpoint": copy_with(endpoint, endpoint_fields, endpoint_fields)}


def _config_type_message(value: Any) -> str:
    """Return the error for a value that is not a config."""
    name = getattr(value, "__name__", "")
    hint = f": call {name}()" if callable(value) and name else ""
    kind = name or type(value).__name__
    wanted = 'config must be a ToolCallingConfig or a mapping such as {"max_turns": 20}'
    return f"{wanted}, not {kind}{hint}"


def _require_profile(value: Any) -> EndpointProfile:
    if not isinstance(value, EndpointProfile):
        raise ConfigError(f"endpoint must be an EndpointProfile, not {type(value).__name__}")
    return value


# All settings by name, those of the endpoint included.
SETTINGS: Final = (
    *(name for name in ToolCallingConfig.__struct_fields__ if name != "endpoint"),
    *EndpointProfile.__struct_fields__,
)
_DEFAULT: Final = ToolCallingConfig()


def check_options(options: Mapping[str, Any], where: str) -> None:
    """Refuse request options that the runner sets itself."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"{where} must be a mapping, not {type(options).__name__}")
    taken = sorted(RESERVED_OPTIONS & options.keys())
    if taken:
        raise ConfigError(
            f"{where} cannot set {', '.join(taken)}: the runner owns these keys. "
            "Use the runner's own parameters instead."
        )
    if options:
        check_json(options, where)
    if not isinstance(parallel := options.get("parallel_tool_calls", False), bool):
        raise ConfigError(f"{where}: parallel_tool_calls must be true or false, not {parallel!r}")


def check_json(value: Mapping[str, Any], where: str) -> None:
    """Refuse values that cannot be written as JSON or parsed again."""
    try:
        encode_json(dict(value), encode)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where} cannot be written as JSON: {error}") from None
    if not is_finite(dict(value)):
        raise ConfigError(f"{where} cannot be written as JSON: it contains NaN or infinity")
