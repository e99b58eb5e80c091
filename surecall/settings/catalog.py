"""Catalogs of models and sampling profiles, loaded from TOML, and filters that select from them.

Models, sampling profiles, and scenarios share one filter language:

    google,qwen*           all entries named `google` or beginning with `qwen`
    all,!minimax           all entries except `minimax` (`all`, `full`, and `*` mean all)
    !minimax,!z-ai/*       exclusions alone start from all entries

Entries keep their order. A name that matches nothing, or a filter that selects nothing, is an
error.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from math import isfinite
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

from surecall.values.errors import ConfigError
from surecall.values.family import suggestion_text, unknown_name_message
from surecall.values.types import JSON
from surecall.wire.chat_format import RESERVED_OPTIONS

T = TypeVar("T")

EVERYTHING = frozenset({"*", "all", "full"})


def select(
    items: Sequence[T], expression: str, names: Callable[[T], Iterable[str]]
) -> tuple[T, ...]:
    """Return the items that a filter selects, in their own order."""
    table = [(item, tuple(names(item))) for item in items]
    tokens = [token for part in expression.split(",") if (token := part.strip())]
    if not tokens:
        raise ConfigError("the filter is empty; use `all` to select everything")
    wanted = [token for token in tokens if not token.startswith("!")]
    unwanted = [token[1:].strip() for token in tokens if token.startswith("!")]
    for token in (*wanted, *unwanted):
        _check_token_matches(token, [called for _, called in table])
    picked = tuple(
        item
        for item, called in table
        if (not wanted or _any_token_matches(wanted, called))
        and not _any_token_matches(unwanted, called)
    )
    if not picked:
        raise ConfigError(f'the filter "{expression}" selects nothing')
    return picked


def matches_any(token: str, names: Iterable[str]) -> bool:
    """Whether a token matches one of the names, as a glob and ignoring case."""
    pattern = token.casefold()
    return any(glob_matches(pattern, name.casefold()) for name in names)


def glob_matches(pattern: str, text: str) -> bool:
    """Whether a pattern matches a whole text. `*` matches any characters, including `/` and `:`."""
    head, *pieces = pattern.split("*")
    if not pieces:
        return head == text
    tail = pieces.pop()
    at, end = len(head), len(text) - len(tail)
    if at > end or not text.startswith(head) or not text.endswith(tail):
        return False
    # The leftmost match of each piece leaves most room for the next: no backtracking is needed.
    for piece in pieces:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


def parse_tables(text: str, kinds: Iterable[str]) -> JSON:
    """Decode TOML; top-level keys other than the given arrays of tables are errors."""
    # Loaded on demand: most programs never read a catalog, and the import takes milliseconds.
    import tomllib  # noqa: PLC0415 - see above

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"not valid TOML: {problem}") from problem
    expected = tuple(kinds)
    for key in document:
        if key not in expected:
            raise ConfigError(unknown_name_message("table", key, expected))
    return document


def parse_entries(document: JSON, kind: str, entry_type: type[T]) -> tuple[T, ...]:
    """Convert the `[[kind]]` tables of a document into values; unknown keys are errors."""
    tables = document.get(kind, [])
    if not isinstance(tables, list):
        raise ConfigError(f"`{kind}` must be an array of tables: write [[{kind}]]")
    return tuple(
        _parse_entry(table, f"{kind} {place}", entry_type) for place, table in enumerate(tables, 1)
    )


def merge_tables(first: Iterable[T], second: Iterable[T], key: Callable[[T], str]) -> tuple[T, ...]:
    """Merge two tables: entries with the same key are replaced in place, new ones are appended."""
    table = {key(item): item for item in first} | {key(item): item for item in second}
    return tuple(table.values())


def check_names(names: Iterable[str]) -> None:
    """Refuse names that a filter could not select."""
    for name in names:
        plain = name == name.strip() and name[:1] not in {"", "!"} and "," not in name
        if not plain or name.casefold() in EVERYTHING:
            raise ConfigError(
                f'invalid name "{name}": it must not be blank or "all", begin with a space or "!", '
                "or contain a comma"
            )


def check_unique(items: Iterable[T], key: Callable[[T], str]) -> None:
    """Refuse tables with duplicate keys."""
    seen: set[str] = set()
    for name in map(key, items):
        if name in seen:
            raise ConfigError(f'"{name}" is defined twice')
        seen.add(name)


def read_packaged(name: str) -> str:
    """Return the text of a data file that ships with the package."""
    # Loaded on demand, as tomllib; `importlib.resources` would take far longer.
    from pkgutil import get_data  # noqa: PLC0415 - see above

    data = get_data("surecall.settings", f"data/{name}")
    assert data is not None  # noqa: S101  # the package was imported, so it has a loader
    return data.decode("utf-8")


def _check_token_matches(token: str, names_by_item: Sequence[tuple[str, ...]]) -> None:
    """Raise `ConfigError` for a token that matches no name, with suggestions."""
    if any(_any_token_matches((token,), called) for called in names_by_item):
        return
    names = [name for called in names_by_item for name in called]
    hint = suggestion_text(
        token.strip("*"), names, [name for called in names_by_item for name in called[:1]]
    )
    raise ConfigError(f'nothing is named "{token}"; {hint}')


def _any_token_matches(tokens: Iterable[str], names: tuple[str, ...]) -> bool:
    return any(token.casefold() in EVERYTHING or matches_any(token, names) for token in tokens)


def _parse_entry(table: object, label: str, entry_type: type[T]) -> T:
    """Convert one table into a value; errors start with the label and the id."""
    named = f' ("{table["id"]}")' if isinstance(table, dict) and "id" in table else ""
    try:
        return msgspec.convert(table, entry_type)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"{label}{named}: {problem}") from problem


# The model catalog: known models and the workarounds that each needs.
#
# It is the only source of model workarounds. A listed model gets those of its entry, also under
# another `:suffix`; any other model gets those of the rules that match its name.

WORKAROUNDS: Final = (
    "deepseek_openrouter_compat",
    "gemini_openrouter_compat",
    "mistral_compat",
    "content_tag_tool_call_fallback",
    "tool_use_disabled",
)

_SYNONYMS: Final = {
    "content_tag_fallback": "content_tag_tool_call_fallback",
    "deepseek_compat": "deepseek_openrouter_compat",
    "disable_tool_use": "tool_use_disabled",
    "gemini_compat": "gemini_openrouter_compat",
    "tools_disabled": "tool_use_disabled",
}


class CatalogModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model: its workarounds, how well it calls tools, and its best sampling profiles."""

    id: str
    workarounds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    notes: str = ""
    recommended: Literal["", "yes", "conditional", "no"] = ""
    profiles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_names((self.id, *self.tags))
        msgspec.structs.force_setattr(self, "workarounds", _canonical_workarounds(self.workarounds))

    @property
    def base_id(self) -> str:
        """The id without its `:suffix`."""
        return self.id.partition(":")[0]

    @property
    def provider(self) -> str:
        """The part before the first slash; empty for an id without one."""
        provider, slash, _ = self.id.partition("/")
        return provider if slash else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a filter selects this model."""
        return tuple(name for name in (self.id, self.base_id, self.provider, *self.tags) if name)


class WorkaroundRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Workarounds for unlisted models whose ids match a glob, ignoring case.

    A rule without workarounds disables the packaged rule with the same pattern.
    """

    pattern: str
    workarounds: tuple[str, ...]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "workarounds", _canonical_workarounds(self.workarounds))


class _Index(NamedTuple):
    """The models of a catalog by id and by base id, in lower case."""

    by_id: dict[str, CatalogModel]
    by_base_id: dict[str, CatalogModel]


class ModelCatalog(msgspec.Struct, frozen=True, dict=True):
    """Models in a fixed order, and rules for unlisted ones.

    The index of models is built at first use. It is not part of equality, hash, or serialization.
    """

    models: tuple[CatalogModel, ...] = ()
    rules: tuple[WorkaroundRule, ...] = ()

    def __post_init__(self) -> None:
        check_unique(self.models, _model_key)
        check_unique(self.rules, _rule_key)

    @staticmethod
    @cache
    def builtin() -> "ModelCatalog":
        """Return the catalog that ships with the package."""
        return ModelCatalog.from_toml(read_packaged("models.toml"))

    @classmethod
    def from_toml(cls, text: str) -> "ModelCatalog":
        """Parse a catalog of `[[model]]` and `[[rule]]` tables; anything else is an error."""
        document = parse_tables(text, ("model", "rule"))
        return cls(
            parse_entries(document, "model", CatalogModel),
            parse_entries(document, "rule", WorkaroundRule),
        )

    def extended_by(self, other: "ModelCatalog") -> "ModelCatalog":
        """Return this catalog extended by another, which replaces equal ids and patterns."""
        return ModelCatalog(
            merge_tables(self.models, other.models, _model_key),
            merge_tables(self.rules, other.rules, _rule_key),
        )

    def select(self, expression: str) -> tuple[CatalogModel, ...]:
        """Return the models that a filter selects by id, base id, provider, or tag."""
        return select(self.models, expression, lambda model: model.names)

    def find(self, model_id: str) -> CatalogModel | None:
        """Return the entry of a model, else one of the same model with another suffix or none."""
        wanted = model_id.casefold()
        base = wanted.partition(":")[0]
        index = self._index
        return index.by_id.get(wanted) or index.by_id.get(base) or index.by_base_id.get(base)

    def workarounds_for(self, model_id: str) -> tuple[str, ...]:
        """Return the workarounds of a model: its entry's, else those of all matching rules."""
        entry = self.find(model_id)
        if entry is not None:
            return entry.workarounds
        fitting = (rule for rule in self.rules if matches_any(rule.pattern, (model_id,)))
        # Rules hold canonical names, so equal workarounds have equal names.
        return tuple(dict.fromkeys(name for rule in fitting for name in rule.workarounds))

    @cached_property
    def _index(self) -> "_Index":
        by_id = {_model_key(model): model for model in self.models}
        # Of several models with the same base id, the first wins.
        by_base_id = {model.base_id.casefold(): model for model in reversed(self.models)}
        return _Index(by_id, by_base_id)


def canonical_workaround(name: str) -> str:
    """Return the preset name of a workaround, in any accepted spelling."""
    folded = "_".join(name.casefold().replace("-", " ").split())
    canonical = _SYNONYMS.get(folded, folded)
    if canonical not in WORKAROUNDS:
        raise ConfigError(f'unknown workaround "{name}"; {suggestion_text(folded, WORKAROUNDS)}')
    return canonical


def _canonical_workarounds(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(canonical_workaround, names)))


def _model_key(model: CatalogModel) -> str:
    return model.id.casefold()


def _rule_key(rule: WorkaroundRule) -> str:
    return rule.pattern.casefold()


# Sampling profiles: named request options, and the models that each applies to.


class SamplingProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Named request options. `applies_to` are globs over model ids; empty means all models."""

    id: str
    tags: tuple[str, ...] = ()
    applies_to: tuple[str, ...] = ()
    options: JSON = {}

    def __post_init__(self) -> None:
        check_names(self.names)
        reserved = sorted(RESERVED_OPTIONS & self.options.keys())
        if reserved:
            raise ConfigError(f"a profile cannot set reserved options: {', '.join(reserved)}")
        for key, value in self.options.items():
            if not _is_json(value):
                raise ConfigError(f"option `{key}` cannot be written as JSON: {value!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a filter selects this profile."""
        return (self.id, *self.tags)

    def applies(self, model_id: str) -> bool:
        """Whether this profile applies to a model."""
        return not self.applies_to or any(
            glob_matches(pattern, model_id) for pattern in self.applies_to
        )


DEFAULT_PROFILE: Final = SamplingProfile("default")


class SamplingCatalog(msgspec.Struct, frozen=True):
    """Profiles in a fixed order."""

    profiles: tuple[SamplingProfile, ...] = ()

    def __post_init__(self) -> None:
        check_unique(self.profiles, _profile_key)

    @staticmethod
    @cache
    def builtin() -> "SamplingCatalog":
        """Return the profiles that ship with the package."""
        return SamplingCatalog.from_toml(read_packaged("profiles.toml"))

    @classmethod
    def from_toml(cls, text: str) -> "SamplingCatalog":
        """Parse a catalog of `[[profile]]` tables; anything else is an error."""
        return cls(parse_entries(parse_tables(text, ("profile",)), "profile", SamplingProfile))

    def extended_by(self, other: "SamplingCatalog") -> "SamplingCatalog":
        """Return this catalog extended by another, which replaces profiles with equal ids."""
        return SamplingCatalog(merge_tables(self.profiles, other.profiles, _profile_key))

    def select(self, expression: str) -> tuple[SamplingProfile, ...]:
        """Return the profiles that a filter selects by id or tag."""
        return select(self.profiles, expression, lambda profile: profile.names)

    def for_model(self, model_id: str, expression: str = "default") -> tuple[SamplingProfile, ...]:
        """Return the selected profiles that apply to a model; the default one if none does."""
        fitting = tuple(profile for profile in self.select(expression) if profile.applies(model_id))
        return fitting or (self._default(),)

    def _default(self) -> SamplingProfile:
        """Return the profile named `default`, or the built-in one."""
        named = (
            profile for profile in self.profiles if _profile_key(profile) == DEFAULT_PROFILE.id
        )
        return next(named, DEFAULT_PROFILE)


def _profile_key(profile: SamplingProfile) -> str:
    return profile.id.casefold()


def _is_json(value: object) -> bool:
    """Whether a value can be encoded as JSON."""
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
