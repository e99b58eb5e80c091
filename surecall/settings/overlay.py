"""Layered settings: objects that record which fields you set, and the docs of their fields."""

import ast
import inspect
import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import msgspec

from surecall.values.errors import ConfigError
from surecall.values.family import canonical_name, unknown_name_message
from surecall.values.types import JSON

# Settings record which fields were set, so that they can be laid over recommended values.
#
# Presets and recommended values change only fields that you did not set. `explicit` lists the
# fields that were set, even to their default.

T = TypeVar("T")
Item = TypeVar("Item")


class FieldDefault(msgspec.Struct, frozen=True):
    """Marks an unset field; `value` is its default."""

    value: Any


def default(value: T) -> T:
    """Declare the default of a settings field, and mark it as not set by the user.

    Typed as the value, for type checkers; it returns a marker that the class resolves.
    """
    return cast("T", FieldDefault(value))


class LayeredSettingsMeta(msgspec.StructMeta):
    """Passes keyword arguments through `accept` before it builds an object."""

    if not TYPE_CHECKING:  # pragma: no branch  # a type checker knows the fields

        def __call__(cls, *args: Any, **given: Any) -> Any:  # noqa: N805 - its self is a class
            """Build settings; the error for an unknown name suggests a known one."""
            return super().__call__(*args, **cls.accept(given))


# `dict` makes room for the recorded names, which are not part of equality or serialization.
class LayeredSettings(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    dict=True,
    metaclass=LayeredSettingsMeta,
):
    """Immutable, validated settings that record which of them were set."""

    # Mappings that merge with the layer below, and lists of names that unite with it.
    MERGED: ClassVar[frozenset[str]] = frozenset()
    UNITED: ClassVar[frozenset[str]] = frozenset()
    # Allowed words by field; lists that may be written as comma-separated text; ranges of numbers.
    WORDS: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    LISTS: ClassVar[frozenset[str]] = frozenset()
    POSITIVE: ClassVar[tuple[str, ...]] = ()
    NOT_NEGATIVE: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        """Validate the fields that were set, and fill in the others."""
        explicit = []
        for name, unset in field_defaults(type(self)).items():
            value = getattr(self, name)
            if value is unset:
                value = unset.value
                _force_set(self, name, deepcopy(value) if isinstance(value, dict) else value)
            else:
                explicit.append(name)
                if value is not unset.value:
                    _force_set(self, name, self.validate(name, value))
        self.__dict__["explicit"] = frozenset(explicit)
        self.check()

    def check(self) -> None:
        """Refuse contradictory values."""

    @classmethod
    def accept(cls, given: JSON) -> JSON:
        """Return keyword arguments by the names of the fields."""
        for name in given:
            if name not in cls.__struct_fields__:
                raise TypeError(
                    f"{cls.__name__}: {unknown_name_message('field', name, cls.__struct_fields__)}"
                )
        return given

    @classmethod
    def validate(cls, name: str, value: Any) -> Any:
        """Return a value converted to its field's type; an invalid one is an error."""
        words = cls.WORDS.get(name)
        if words and value not in words:
            raise ConfigError(unknown_name_message(name, str(value), words))
        try:
            valid = msgspec.convert(value, field_types(cls)[name])
        except msgspec.ValidationError as error:
            raise ConfigError(f"{name}: {error}") from None
        if name in cls.POSITIVE and valid is not None and not 0 < valid < math.inf:
            raise ConfigError(f"{name} must be a positive number, not {valid!r}")
        if name in cls.NOT_NEGATIVE and (valid or 0) < 0:
            raise ConfigError(f"{name} cannot be negative, but is {valid!r}")
        return valid

    @classmethod
    def parse(cls, mapping: Mapping[str, Any]) -> Self:
        """Build settings from plain data; unknown keys, values, and types are errors."""
        for key in mapping:
            if key not in cls.__struct_fields__:
                raise ConfigError(
                    unknown_name_message("configuration key", str(key), cls.__struct_fields__)
                )
        return cls(**cls.parse_words(mapping))

    @classmethod
    def parse_words(cls, mapping: Mapping[str, Any]) -> JSON:
        """Normalize handwritten settings: words in any case, lists as comma-separated text."""
        return {key: cls._parse_word(key, value) for key, value in mapping.items()}

    @classmethod
    def _parse_word(cls, key: str, value: Any) -> Any:
        """Normalize one handwritten setting."""
        if key in cls.WORDS and isinstance(value, str):
            return canonical_name(value)
        if key in cls.LISTS and isinstance(value, str):
            return split_names(value)
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
        """Show the fields that were set or differ from the default."""
        shown = (
            f"{name}={getattr(self, name)!r}"
            for name, unset in field_defaults(type(self)).items()
            if name in self.explicit or getattr(self, name) != unset.value
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), setting_values(self), self.__dict__)


@cache
def field_defaults(kind: type[LayeredSettings]) -> dict[str, FieldDefault]:
    """Return the default of each field."""
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


@cache
def field_types(kind: type[LayeredSettings]) -> dict[str, Any]:
    """Return the type of each field."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def setting_values(settings: LayeredSettings) -> JSON:
    """Return all values by name."""
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


S = TypeVar("S", bound=LayeredSettings)


def copy_with(settings: S, changes: Mapping[str, Any], explicit: Iterable[str] = ()) -> S:
    """Return a validated copy with some values changed; `explicit` lists the fields to mark."""
    valid = {name: settings.validate(name, value) for name, value in changes.items()}
    recorded: frozenset[str] = settings.__dict__["explicit"]
    return _copy(settings, valid, {**settings.__dict__, "explicit": recorded.union(explicit)})


def _copy(settings: S, values: Mapping[str, Any], recorded: Mapping[str, Any]) -> S:
    """Return a checked copy with other values, and `recorded` as the record of set fields."""
    copy: S = msgspec.Struct.__copy__(settings)  # type: ignore[attr-defined]  # it is written in C
    for name in settings.MERGED:
        _force_set(copy, name, deepcopy(getattr(settings, name)))
    for name, value in values.items():
        _force_set(copy, name, value)
    copy.__dict__.update(recorded)
    copy.check()
    return copy


def adjust_fields(settings: S, changes: Mapping[str, Any]) -> S:
    """Change fields as a preset: fields that were set stay, and none is marked as set."""
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
    """Lay settings over recommended ones: fields that you set or a preset changed win."""
    values = {name: _overlay_field(name, base, given) for name in base.__struct_fields__}
    return _copy(base, values, given.__dict__)


def _overlay_field(name: str, base: LayeredSettings, given: LayeredSettings) -> Any:
    """Return a field's value after settings were laid over recommended ones."""
    value, below = getattr(given, name), getattr(base, name)
    usual = field_defaults(type(base))[name].value
    if isinstance(value, LayeredSettings):
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
    """Merge mappings recursively; any other value, including a list, is replaced by `over`."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = deep_merge(old, value) if both else value  # type: ignore[arg-type]  # `both` says so
    return merged


def union(first: Iterable[Item], second: Iterable[Item]) -> tuple[Item, ...]:
    """Return the items of both lists without duplicates, in order."""
    return tuple(dict.fromkeys((*first, *second)))


def split_names(text: str) -> list[str]:
    """Split a comma-separated list; blank items are ignored."""
    return [name for part in text.split(",") if (name := part.strip())]


def _restore(kind: type[S], values: JSON, recorded: JSON) -> S:
    """Rebuild unpickled settings, with the names of the fields that were set."""
    settings = kind(**values)
    settings.__dict__.update(recorded)
    return settings


def _force_set(settings: LayeredSettings, name: str, value: Any) -> None:
    msgspec.structs.force_setattr(settings, name, value)


# The documentation of a setting is the string below its field, which editors show.
#
# Python discards it, so it is parsed from the source, for the generated reference only.


@cache
def setting_docs(kind: type[LayeredSettings]) -> dict[str, str]:
    """Return the documentation of each setting of a class, on one line, in field order."""
    (source,) = ast.parse(inspect.getsource(kind)).body
    docs: dict[str, str] = {}
    for field, below in pairwise(ast.iter_child_nodes(source)):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                docs[name] = " ".join(text.split())
            case _:
                pass
    return docs
