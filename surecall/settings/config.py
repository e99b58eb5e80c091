"""Run configuration: an immutable, validated, JSON-serializable struct.

`ToolCallingConfig` says what a run may do; its `endpoint` says how to talk to the endpoint and
model. Each default is written here or in `endpoint_profile`, and nowhere else. Whatever you set is
laid over the settings that presets recommend for the endpoint and model.
"""

from collections.abc import Mapping
from copy import deepcopy
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import msgspec

from surecall.settings.contract import Contract
from surecall.settings.endpoint_profile import EndpointProfile
from surecall.settings.overlay import Settings, adjust_fields, copy_with, default
from surecall.values.errors import ConfigError
from surecall.values.family import unknown
from surecall.values.nesting import encode_json
from surecall.values.types import JSON
from surecall.wire.call_styles import CallProtocol
from surecall.wire.messages import RESERVED_OPTIONS, encode
from surecall.wire.plain_json import is_finite

PolicyErrorMode: TypeAlias = Literal["deny", "allow", "raise"]
# What follows a premature answer: a reminder of what is missing, then a required call.
Step: TypeAlias = Literal["remind", "require"]
REMIND: Final[Step] = "remind"
REQUIRE: Final[Step] = "require"

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


class ToolCallingConfig(Settings, frozen=True, kw_only=True):
    """What a run may do. Fields that you leave out have the recommended values."""

    # Tools
    tool_use_mode: ToolUseMode = default(ToolUseMode.RELAXED)
    """`enforced` requires at least one call, `relaxed` allows calls, `disabled` sends no tools."""
    tool_failure_policy: ToolFailurePolicy = default(ToolFailurePolicy.FATAL)
    """In `enforced` mode: `fatal` fails the run if a tool failure is not followed by a success;
    `tolerated` requires one success."""
    tool_allowlist: tuple[str, ...] | None = default(None)
    """The only tools to send and run; null means all, an empty list none."""
    tool_denylist: tuple[str, ...] = default(())
    """Tools that are neither sent nor run; takes precedence over the allow list."""
    tool_choice: str | JSON = default("auto")
    """`tool_choice` of requests that send tools."""
    policy_error_mode: PolicyErrorMode = default("deny")
    """What to do when your tool policy raises: `deny`, `allow` or `raise`."""
    call_protocol: CallProtocol = default("native")
    """How the model calls tools: `native` uses the endpoint's tool calling; `guided` constrains
    replies to a JSON schema of the allowed calls; `prompted` describes a format in the prompt."""
    validate_arguments: bool = default(True)
    """Validate arguments against the tool's schema before it runs."""
    event_context_keys: tuple[str, ...] = default(())
    """Keys of the run's context to include in events."""

    # Final answers
    contract: Contract | None = default(None)
    """Calls that must have succeeded before a final answer counts (`all_of`, `any_of`, `in_order`);
    null requires none."""
    final_ladder: tuple[Step, ...] = default((REMIND, REQUIRE))
    """Responses to a premature answer, in order: `remind` says what is missing, `require` also
    requires a call; after the last step the run fails."""
    fix_empty_final: bool = default(True)
    """Re-prompt once when a reply is empty or announces a call that is not there; otherwise the
    blank answer is returned with the stop reason `empty_final`."""
    fix_empty_final_user_text: str = default(FINAL_ANSWER_REQUEST)
    """The prompt that follows an empty answer after tool calls."""
    fix_empty_final_disable_tools: bool = default(True)
    """Send no tools when re-prompting after an empty answer."""

    # Limits
    max_turns: int = default(12)
    """Maximum number of replies in a run."""
    run_deadline_s: float = default(600.0)
    """Maximum duration of a run, in seconds."""
    tool_timeout_s: float = default(60.0)
    """Maximum duration of a tool call, in seconds, unless the tool has its own timeout."""
    max_tool_args_bytes: int = default(200_000)
    """Maximum size of a call's arguments; larger ones are refused before the tool runs."""
    max_tool_output_bytes: int = default(200_000)
    """Maximum size of a tool result; a larger one is replaced by an error that says the tool
    ran."""
    max_tool_calls_per_turn: int | None = default(None)
    """Maximum number of calls to run from one reply; null means all, or one where
    `parallel_tool_calls` is false and the model complies."""
    max_concurrent_tools: int = default(8)
    """Maximum number of tools running at once where `parallel_tool_calls` is true; otherwise one
    at a time."""
    max_total_tool_calls: int = default(100)
    """Maximum number of calls in a run."""
    max_unknown_tool_calls: int = default(3)
    """Maximum number of turns that call tools that do not exist."""
    max_tools_left_running: int = default(32)
    """Maximum number of timed-out tools still running in the background; blocking tools and
    coroutines are counted separately."""
    repeat_note_at: int = default(2)
    """From this many identical calls in a row on, the result carries a note to the model."""
    repeat_block_at: int = default(3)
    """From this many identical calls in a row on, the call does not run."""
    repeat_stop_at: int = default(6)
    """This many identical calls in a row end the run."""

    # Requests
    request_overrides: JSON = default({"parallel_tool_calls": False})
    """Merged into every request body; keys that the runner owns are rejected."""
    fallback_retry_count: int = default(0)
    """In `relaxed` mode: how often to retry a request without tools after the endpoint rejected
    the tools."""
    endpoint: EndpointProfile = default(EndpointProfile())
    """How to talk to the endpoint and model; presets fill it in."""

    MERGED: ClassVar = frozenset({"request_overrides"})
    WORDS: ClassVar = {
        "tool_use_mode": tuple(ToolUseMode),
        "tool_failure_policy": tuple(ToolFailurePolicy),
        "policy_error_mode": get_args(PolicyErrorMode),
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
        """Refuse values that do not fit each other, and blank texts."""
        if not self.repeat_note_at <= self.repeat_block_at <= self.repeat_stop_at:
            raise ConfigError("repeat_note_at, repeat_block_at, repeat_stop_at must not decrease")
        if not self.fix_empty_final_user_text.strip():
            raise ConfigError("fix_empty_final_user_text is blank")
        if isinstance(self.tool_choice, str) and not self.tool_choice.strip():
            raise ConfigError("tool_choice is blank")

    def __post_init__(self) -> None:
        """Validate what was set; a config in which everything was set is resolved."""
        super().__post_init__()
        if self.explicit.issuperset(SETTINGS):
            self.__dict__["resolved"] = True

    @classmethod
    def accept(cls, given: JSON) -> JSON:
        """Return keyword arguments by the names of the fields; those of the endpoint go there."""
        try:
            own, quirks = _split(given)
        except ConfigError as problem:
            raise TypeError(f"{cls.__name__}: {problem}") from None
        return _with_endpoint(own, quirks, EndpointProfile())

    @classmethod
    def validate(cls, name: str, value: Any) -> Any:
        """Return a value in its field's type; options that the runner owns are errors."""
        if name == "endpoint":
            return EndpointProfile.read(value) if isinstance(value, Mapping) else _profile(value)
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
        """Whether a runner uses this config unchanged: `presets.resolve` or `raw` returned it."""
        return "resolved" in self.__dict__

    @property
    def demands_nothing(self) -> bool:
        """Whether every answer counts: there is no contract, and no tool must be called."""
        return self.contract is None and self.tool_use_mode is not ToolUseMode.ENFORCED

    def replace(self, **changes: Any) -> "ToolCallingConfig":
        """Return a copy with fields set. Fields of the endpoint are accepted by name as well."""
        own = _with_endpoint(*_split(changes), self.endpoint)
        return copy_with(self, own, own)

    def to_mapping(self) -> JSON:
        """Return one flat mapping of plain data, which `from_mapping` reads.

        It holds what was set or changed by a preset; of a resolved config it holds everything.
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
        """Build a config from plain data; unknown keys, words and types are errors.

        Fields of the endpoint may stand beside the others or in a mapping of their own. A mapping
        with every field is resolved.
        """
        if not isinstance(mapping, Mapping):
            raise ConfigError(_no_config(mapping))
        own, quirks = _split({str(key): value for key, value in mapping.items()})
        return cls(**cls.read_words(own), **EndpointProfile.read_words(quirks))


def adjust(config: ToolCallingConfig, **changes: Any) -> ToolCallingConfig:
    """Change settings as a preset does: fields that were set stay, and none is marked as set."""
    own, quirks = _split(changes)
    if quirks:
        own["endpoint"] = adjust_fields(config.endpoint, quirks)
    return adjust_fields(config, own)


def all_settings(config: ToolCallingConfig) -> JSON:
    """Return every setting as plain data, those of the endpoint beside the others."""
    plain: JSON = msgspec.to_builtins(config)
    quirks: JSON = plain.pop("endpoint")
    return plain | quirks


def mark_resolved(config: ToolCallingConfig, *, is_resolved: bool = True) -> ToolCallingConfig:
    """Return a copy that a runner uses unchanged, or one that it lays over what is recommended."""
    copy = copy_with(config, {})
    copy.__dict__.pop("resolved", None)
    if is_resolved:
        copy.__dict__["resolved"] = True
    return copy


def _split(changes: Mapping[str, Any]) -> tuple[JSON, JSON]:
    """Tell the fields of a config from those of its endpoint."""
    own: JSON = {}
    quirks: JSON = {}
    for key, value in changes.items():
        if key in ToolCallingConfig.__struct_fields__:
            own[key] = value
        elif key in EndpointProfile.__struct_fields__:
            quirks[key] = value
        else:
            raise ConfigError(unknown("configuration key", key, SETTINGS))
    return own, quirks


def _with_endpoint(own: JSON, quirks: JSON, below: EndpointProfile) -> JSON:
    """Return the fields of a config, with those of its endpoint set in it."""
    if not quirks:
        return own
    endpoint = ToolCallingConfig.validate("endpoint", own.get("endpoint", below))
    return own | {"endpoint": copy_with(endpoint, quirks, quirks)}


def _no_config(given: Any) -> str:
    """Say why something is no config, and what to pass instead."""
    name = getattr(given, "__name__", "")
    hint = f": call {name}()" if callable(given) and name else ""
    kind = name or type(given).__name__
    wanted = 'config must be a ToolCallingConfig or a mapping such as {"max_turns": 20}'
    return f"{wanted}, not {kind}{hint}"


def _profile(value: Any) -> EndpointProfile:
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
    """Refuse request options that another layer owns."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"{where} must be a mapping, not {type(options).__name__}")
    taken = sorted(RESERVED_OPTIONS & options.keys())
    if taken:
        raise ConfigError(
            f"{where} cannot set {', '.join(taken)}: the runner owns these keys. "
            "Use the runner's own parameters instead."
        )
    check_json(options, where)
    if not isinstance(parallel := options.get("parallel_tool_calls", False), bool):
        raise ConfigError(f"{where}: parallel_tool_calls must be true or false, not {parallel!r}")


def check_json(value: Mapping[str, Any], where: str) -> None:
    """Refuse what cannot be written as JSON, or could not be read again."""
    try:
        encode_json(dict(value), encode)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where} cannot be written as JSON: {error}") from None
    if not is_finite(dict(value)):
        raise ConfigError(f"{where} cannot be written as JSON: NaN and infinity are no numbers")
