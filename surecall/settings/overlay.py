"""Settings that record which fields were set, so that one set can be laid over another.

A field that you set stays as you set it. Presets change only the others, and so does whatever is
recommended for an endpoint. `explicit` lists the fields that were set, even those set to their
default.
"""

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import msgspec

from surecall.values.errors import ConfigError
from surecall.values.family import canonical, unknown
from surecall.values.types import JSON

T = TypeVar("T")
Item = TypeVar("Item")


class Unset(msgspec.Struct, frozen=True):
    """Marks a field that was not set; `value` is its default."""

    value: Any


def default(value: T) -> T:
    """Declare the default of a field."""
    return cast("T", Unset(value))


class SettingsMeta(msgspec.StructMeta):
    """Passes keyword arguments through `accept` before an object is built."""

    if not TYPE_CHECKING:  # pragma: no branch  # a type checker knows the fields

        def __call__(cls, *args: Any, **given: Any) -> Any:  # noqa: N805 - its self is a class
            """Build settings; a misspelt name is refused with a guess."""
            return super().__call__(*args, **cls.accept(given))


# `dict` leaves room for what is recorded beside the values. It is not part of the value.
class Settings(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    dict=True,
    metaclass=SettingsMeta,
):
    """Immutable, validated settings that record which of them were set."""

    # Mappings that merge with what is below them, and lists of names that unite with it.
    MERGED: ClassVar[frozenset[str]] = frozenset()
    UNITED: ClassVar[frozenset[str]] = frozenset()
    # Fields that take certain words, lists that may be written as comma-separated text, numbers.
    WORDS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    LISTS: ClassVar[frozenset[str]] = frozenset()
    POSITIVE: ClassVar[tuple[str, ...]] = ()
    NOT_NEGATIVE: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Validate what was set, fill in the rest."""
        explicit = []
        for name, unset in unset_fields(type(self)).items():
            value = getattr(self, name)
            if value is unset:
                value = unset.value
                _set(self, name, deepcopy(value) if isinstance(value, dict) else value)
            else:
                explicit.append(name)
                if value is not unset.value:
                    _set(self, name, self.validate(name, value))
        self.__dict__["explicit"] = frozenset(explicit)
        self.check()

    def check(self) -> None:
        """Refuse values that do not fit each other."""

    @classmethod
    def accept(cls, given: JSON) -> JSON:
        """Return keyword arguments by the names of the fields."""
        for name in given:
            if name not in cls.__struct_fields__:
                raise TypeError(f"{cls.__name__}: {unknown('field', name, cls.__struct_fields__)}")
        return given

    @classmethod
    def validate(cls, name: str, value: Any) -> Any:
        """Return a value in its field's type; a wrong type, word or number is an error."""
        words = cls.WORDS.get(name)
        if words and value not in words:
            raise ConfigError(unknown(name, str(value), words))
        try:
            valid = msgspec.convert(value, field_types(cls)[name])
        except msgspec.ValidationError as error:
            raise ConfigError(f"{name}: {error}") from None
        if name in cls.POSITIVE and valid is not None and not 0 < valid < math.inf:
            raise ConfigError(f"{name} must be a positive number, not {valid!r}")
        if name in cls.NOT_NEGATIVE and (valid or 0) < 0:
            raise ConfigError(f"{name} cannot be negative")
        return valid

    @classmethod
    def read(cls, mapping: Mapping[str, Any]) -> Self:
        """Build settings from plain data; unknown keys, words and types are errors."""
        for key in mapping:
            if key not in cls.__struct_fields__:
                raise ConfigError(unknown("configuration key", str(key), cls.__struct_fields__))
        return cls(**cls.read_words(mapping))

    @classmethod
    def read_words(cls, mapping: Mapping[str, Any]) -> JSON:
        """Accept how people write settings: words in any case, lists as comma-separated text."""
        return {key: cls._read_word(key, value) for key, value in mapping.items()}

    @classmethod
    def _read_word(cls, key: str, value: Any) -> Any:
        if key in cls.WORDS and isinstance(value, str):
            return canonical(value)
        if key in cls.LISTS and isinstance(value, str):
            return names_in(value)
        if isinstance(value, list | tuple):
            stripped = (item.strip() if isinstance(item, str) else item for item in value)
            return [item for item in stripped if item != ""]
        return value

    @property
    def explicit(self) -> frozenset[str]:
        """The fields that were set."""
        fields: frozenset[str] = self.__dict__["explicit"]
        return fields

    def __repr__(self) -> str:
        """Show what differs from the defaults."""
        shown = (
            f"{name}={getattr(self, name)!r}"
            for name, unset in unset_fields(type(self)).items()
            if name in self.explicit or getattr(self, name) != unset.value
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), values_of(self), self.__dict__)


@cache
def unset_fields(kind: type[Settings]) -> dict[str, Unset]:
    """Return the default of each field."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


@cache
def field_types(kind: type[Settings]) -> dict[str, Any]:
    """Return the type of each field."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def values_of(settings: Settings) -> JSON:
    """Return all values by name."""
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


S = TypeVar("S", bound=Settings)


def copy_with(settings: S, changes: Mapping[str, Any], explicit: Iterable[str] = ()) -> S:
    """Return a validated copy with some values changed; `explicit` lists the fields to mark."""
    valid = {name: settings.validate(name, value) for name, value in changes.items()}
    recorded: frozenset[str] = settings.__dict__["explicit"]
    return _copy(settings, valid, {**settings.__dict__, "explicit": recorded.union(explicit)})


def _copy(settings: S, values: Mapping[str, Any], recorded: Mapping[str, Any]) -> S:
    """Return a copy with other values, which are valid, and what is recorded of them."""
    copy: S = msgspec.Struct.__copy__(settings)  # type: ignore[attr-defined]  # it is written in C
    for name in settings.MERGED:
        _set(copy, name, deepcopy(getattr(settings, name)))
    for name, value in values.items():
        _set(copy, name, value)
    copy.__dict__.update(recorded)
    copy.check()
    return copy


def adjust_fields(settings: S, changes: Mapping[str, Any]) -> S:
    """Change fields as a preset does: fields that were set stay, and none is marked as set."""
    allowed: JSON = {}
    for name, value in changes.items():
        if name not in settings.explicit:
            allowed[name] = value
        elif name in settings.MERGED:
            allowed[name] = deep_merge(value, getattr(settings, name))
    if not allowed:
        return settings
    adjusted = copy_with(settings, allowed)
    adjusted.__dict__["adjusted"] = settings.__dict__.get("adjusted", frozenset()).union(allowed)
    return adjusted


def overlay(base: S, given: S) -> S:
    """Lay settings over recommended ones: what was set, or changed by a preset, wins."""
    values = {name: _combine(name, base, given) for name in base.__struct_fields__}
    return _copy(base, values, given.__dict__)


def _combine(name: str, base: Settings, given: Settings) -> Any:
    value, below = getattr(given, name), getattr(base, name)
    usual = unset_fields(type(base))[name].value
    if isinstance(value, Settings):
        return overlay(below, value)
    is_explicit = name in given.__dict__["explicit"]
    is_adjusted = name in given.__dict__.get("adjusted", ())
    if not (is_explicit or is_adjusted) and (value is usual or value == usual):
        return deepcopy(below) if name in base.MERGED else below
    if name in base.MERGED:
        return deep_merge(below, value)
    if is_explicit or name not in base.UNITED:
        return value
    removed = set(usual).difference(value)
    return union((each for each in below if each not in removed), value)


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> JSON:
    """Merge mappings recursively; anything else, lists too, is replaced by the right side."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = deep_merge(old, value) if both else value  # type: ignore[arg-type]  # `both` says so
    return merged


def union(first: Iterable[Item], second: Iterable[Item]) -> tuple[Item, ...]:
    """Join two lists without repeating anything; the order stays."""
    return tuple(dict.fromkeys((*first, *second)))


def names_in(text: str) -> list[str]:
    """Split a comma-separated list; blanks do not count."""
    return [name for part in text.split(",") if (name := part.strip())]


def _restore(kind: type[S], values: JSON, recorded: JSON) -> S:
    settings = kind(**values)
    settings.__dict__.update(recorded)
    return settings


def _set(settings: Settings, name: str, value: Any) -> None:
    msgspec.structs.force_setattr(settings, name, value)
