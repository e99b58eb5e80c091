"""What a proxy is told, and the configuration that follows from it for each model.

Turn limits, call caps and loop guards belong to the application behind the proxy: they are off
unless a guard is named. Presets by upstream and model are on.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from surecall.parsing.budget import MAX_BYTES
from surecall.settings.capabilities import PROVIDERS, canonical_provider
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import PRESET, provider_defaults, raw, resolve
from surecall.values.errors import ConfigError
from surecall.values.family import unknown
from surecall.wire.messages import encode

Streaming: TypeAlias = Literal["live", "buffered"]

REPAIRS: Final = 2
MOST_REPAIRS: Final = 8
_NEVER: Final = 1_000_000_000
_LONGEST_S: Final = 3600.0
_MOST_CONFIGS: Final = 1024
# A guard and the settings that it turns on.
GUARDS: Final[Mapping[str, tuple[str, ...]]] = {
    "turns": ("max_turns",),
    "calls": ("max_total_tool_calls",),
    "repeats": ("repeat_block_at",),
}
# The application behind the proxy has its own limits: none of ours applies unless a guard is named.
_POLICY: Final = raw(
    max_total_tool_calls=_NEVER,
    max_unknown_tool_calls=_NEVER,
    max_tool_calls_per_turn=_NEVER,
    repeat_note_at=_NEVER,
    repeat_block_at=_NEVER,
    repeat_stop_at=_NEVER,
    max_tool_args_bytes=MAX_BYTES,
    run_deadline_s=_LONGEST_S,
    fix_empty_final_disable_tools=False,
)


_KINDS: Final[dict[str, Any]] = {
    "provider": str,
    "presets": list | tuple,
    "repair": int,
    "guards": dict,
}


class ProxySettings(msgspec.Struct, frozen=True):
    """How a proxy heals: for which provider, with which presets, how often, under which guards."""

    provider: str = ""
    presets: Sequence[str] = ()
    repair: int = REPAIRS
    guards: dict[str, int] = {}
    stream: Streaming = "live"

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            if isinstance(value := getattr(self, name), bool) or not isinstance(value, kind):
                raise ConfigError(f"{name} has the wrong type: {type(value).__name__}")
        msgspec.structs.force_setattr(self, "presets", PRESET.check(self.presets))
        # Refuses what looks like a typo now, and not with every request.
        provider_defaults(self.provider)
        if not 0 <= self.repair <= MOST_REPAIRS:
            raise ConfigError(f"repair must be from 0 to {MOST_REPAIRS}, not {self.repair}")
        if self.stream not in get_args(Streaming):
            raise ConfigError(unknown("stream", str(self.stream), get_args(Streaming)))
        for name, number in self.guards.items():
            if name not in GUARDS:
                raise ConfigError(unknown("guard", name, GUARDS))
            if number < 1:
                raise ConfigError(f"guard {name} must be a whole number from 1, not {number}")

    def config(self, model: str, tool_choice: Any, turns: int) -> ToolCallingConfig:
        """Return the configuration of a request; `turns` are those that the guards count."""
        key = (self.provider, tuple(self.presets), self.repair, tuple(self.guards.items()))
        return _config(*key, model, encode(tool_choice or "auto"), turns)


@lru_cache(maxsize=_MOST_CONFIGS)
def _config(  # noqa: PLR0913, PLR0917  # the parts of the key
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
    named = {"default_max_tokens": None, "block_repeated_success": False}
    if canonical_provider(provider) not in PROVIDERS:
        named["name_tool_messages"] = False
    for name in presets:
        config = PRESET[name](config)
    limits = {field: number for name, number in guards for field in GUARDS[name]}
    most = limits.pop("max_turns", _NEVER)
    if "repeat_block_at" in limits:
        limits["repeat_note_at"] = limits["repeat_block_at"]
    return _POLICY.replace(
        endpoint=config.endpoint,
        **named,
        **limits,
        tool_use_mode=config.tool_use_mode,
        call_protocol=config.call_protocol,
        tool_choice=msgspec.json.decode(tool_choice),
        max_turns=min(most, turns + 1 + repair),
        fix_empty_final=repair > 0,
    )
