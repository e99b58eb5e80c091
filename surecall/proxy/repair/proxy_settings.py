"""The settings of a proxy, and the run configuration they produce for each model.

Turn limits, call caps, and loop guards are up to the client application, so they are off unless a
guard is set. Presets for the upstream and the model are on.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from surecall.parsing.budget import MAX_BYTES
from surecall.settings.capabilities import canonical_provider
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import PRESET, provider_defaults, raw, resolve
from surecall.settings.providers import provider_table
from surecall.values.errors import ConfigError
from surecall.values.family import unknown_name_message
from surecall.wire.chat_format import encode

Streaming: TypeAlias = Literal["live", "buffered"]

DEFAULT_REPAIRS: Final = 2
MAX_REPAIRS: Final = 8
_UNLIMITED: Final = 1_000_000_000
_MAX_SECONDS: Final = 3600.0
_CONFIG_CACHE_SIZE: Final = 1024
# The settings that each guard turns on.
GUARDS: Final[Mapping[str, tuple[str, ...]]] = {
    "turns": ("max_turns",),
    "calls": ("max_total_tool_calls",),
    "repeats": ("repeat_block_at",),
}
# Client applications have their own limits, so these are off unless a guard is set.
_BASE_CONFIG: Final = raw(
    max_total_tool_calls=_UNLIMITED,
    max_unknown_tool_calls=_UNLIMITED,
    max_tool_calls_per_turn=_UNLIMITED,
    repeat_note_at=_UNLIMITED,
    repeat_block_at=_UNLIMITED,
    repeat_stop_at=_UNLIMITED,
    max_tool_args_bytes=MAX_BYTES,
    run_deadline_s=_MAX_SECONDS,
    fix_empty_final_disable_tools=False,
)


_FIELD_TYPES: Final[dict[str, Any]] = {
    "provider": str,
    "presets": list | tuple,
    "repair": int,
    "guards": dict,
}


class ProxySettings(msgspec.Struct, frozen=True):
    """How a proxy repairs: the provider, presets, number of repair turns, guards, and streaming.

    `max_tools` is the maximum number of tools in a request, by default that of the provider.
    """

    provider: str = ""
    presets: Sequence[str] = ()
    repair: int = DEFAULT_REPAIRS
    guards: dict[str, int] = {}
    stream: Streaming = "live"
    max_tools: int | None = None

    def __post_init__(self) -> None:
        for name, kind in _FIELD_TYPES.items():
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, kind):
                raise ConfigError(f"{name} has the wrong type: {type(value).__name__}")
        msgspec.structs.force_setattr(self, "presets", PRESET.check(self.presets))
        # Reject a misspelled provider now, not on every request.
        provider_defaults(self.provider)
        if not 0 <= self.repair <= MAX_REPAIRS:
            raise ConfigError(f"repair must be from 0 to {MAX_REPAIRS}, not {self.repair}")
        if self.stream not in get_args(Streaming):
            raise ConfigError(unknown_name_message("stream", str(self.stream), get_args(Streaming)))
        _BASE_CONFIG.replace(max_tools_per_request=self.max_tools)  # raises if it is invalid
        for name, number in self.guards.items():
            if name not in GUARDS:
                raise ConfigError(unknown_name_message("guard", name, GUARDS))
            if number < 1:
                raise ConfigError(f"guard {name} must be at least 1, not {number}")

    def config_for(
        self, model: str, tool_choice: Any, turns: int, *, one_call: bool = False
    ) -> ToolCallingConfig:
        """Return the configuration for a request; guards count the given `turns`.

        `one_call` allows one call per turn, for requests with `parallel_tool_calls: false`.
        """
        key = (self.provider, tuple(self.presets), self.repair, tuple(self.guards.items()))
        config = _build_config(*key, model, encode(tool_choice or "auto"), turns)
        if self.max_tools is not None:
            config = config.replace(max_tools_per_request=self.max_tools)
        return config.replace(max_tool_calls_per_turn=1) if one_call else config


@lru_cache(maxsize=_CONFIG_CACHE_SIZE)
def _build_config(  # noqa: PLR0913, PLR0917  # the cache key
    provider: str,
    presets: tuple[str, ...],
    repair: int,
    guards: tuple[tuple[str, int], ...],
    model: str,
    tool_choice: bytes,
    turns: int,
) -> ToolCallingConfig:
    config = resolve(provider=provider, model=model)
    # The client decides how long replies are, and which calls it repeats.
    overrides = {"default_max_tokens": None, "block_repeated_success": False}
    if canonical_provider(provider) not in provider_table().by_name:
        overrides["name_tool_messages"] = False
    for name in presets:
        config = PRESET[name](config)
    limits = {field: number for name, number in guards for field in GUARDS[name]}
    max_turns = limits.pop("max_turns", _UNLIMITED)
    if "repeat_block_at" in limits:
        limits["repeat_note_at"] = limits["repeat_block_at"]
    return _BASE_CONFIG.replace(
        endpoint=config.endpoint,
        **overrides,
        **limits,
        tool_use_mode=config.tool_use_mode,
        call_protocol=config.call_protocol,
        tool_choice=msgspec.json.decode(tool_choice),
        max_turns=min(max_turns, turns + 1 + repair),
        fix_empty_final=repair > 0,
    )
