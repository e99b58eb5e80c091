"""Sampling profiles: named request options, and the models each one is meant for."""

from functools import cache
from math import isfinite
from typing import Final

import msgspec

from surecall.settings.filters import (
    check_names,
    check_unique,
    glob,
    merged,
    packaged,
    parse_entries,
    parse_tables,
    select,
)
from surecall.values.errors import ConfigError
from surecall.values.types import JSON
from surecall.wire.messages import RESERVED_OPTIONS


class SamplingProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request options under a name. `applies_to` are globs over model ids; none means all."""

    id: str
    tags: tuple[str, ...] = ()
    applies_to: tuple[str, ...] = ()
    options: JSON = {}

    def __post_init__(self) -> None:
        check_names(self.names)
        reserved = sorted(RESERVED_OPTIONS & self.options.keys())
        if reserved:
            raise ConfigError(f"reserved, so not for a profile: {', '.join(reserved)}")
        for key, value in self.options.items():
            if not _is_json(value):
                raise ConfigError(f"option `{key}` cannot be written as JSON: {value!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """What a filter may call this profile."""
        return (self.id, *self.tags)

    def applies(self, model_id: str) -> bool:
        """Say whether this profile is meant for a model."""
        return not self.applies_to or any(glob(pattern, model_id) for pattern in self.applies_to)


DEFAULT_PROFILE: Final = SamplingProfile("default")


class SamplingCatalog(msgspec.Struct, frozen=True):
    """Profiles in a fixed order."""

    profiles: tuple[SamplingProfile, ...] = ()

    def __post_init__(self) -> None:
        check_unique(self.profiles, _key)

    @staticmethod
    @cache
    def builtin() -> "SamplingCatalog":
        """Return the profiles that ship with the package."""
        return SamplingCatalog.from_toml(packaged("profiles.toml"))

    @classmethod
    def from_toml(cls, text: str) -> "SamplingCatalog":
        """Read a catalog of `[[profile]]` tables; anything else is an error."""
        return cls(parse_entries(parse_tables(text, ("profile",)), "profile", SamplingProfile))

    def extended(self, other: "SamplingCatalog") -> "SamplingCatalog":
        """Return this catalog with another laid over it: profiles of the same id are replaced."""
        return SamplingCatalog(merged(self.profiles, other.profiles, _key))

    def select(self, expression: str) -> tuple[SamplingProfile, ...]:
        """Return the profiles a filter picks by id or tag."""
        return select(self.profiles, expression, lambda profile: profile.names)

    def for_model(self, model_id: str, expression: str = "default") -> tuple[SamplingProfile, ...]:
        """Return the selected profiles meant for a model; when there are none, the default."""
        fitting = tuple(profile for profile in self.select(expression) if profile.applies(model_id))
        return fitting or (self._default(),)

    def _default(self) -> SamplingProfile:
        named = (profile for profile in self.profiles if _key(profile) == DEFAULT_PROFILE.id)
        return next(named, DEFAULT_PROFILE)


def _key(profile: SamplingProfile) -> str:
    return profile.id.casefold()


def _is_json(value: object) -> bool:
    match value:
        case str() | int() | None:
            return True
        case float():
            return isfinite(value)
        case list():
            return all(map(_is_json, value))
        case dict():
            return all(map(_is_json, value.values()))
        case _:
            return False
