"""The model catalog: which models are known, and which workarounds each one needs.

It is the only source of model workarounds. A model that is listed gets what its entry says,
also under another `:suffix`; any other model gets what the rules for its name say.
"""

from collections.abc import Iterable
from functools import cache, cached_property
from typing import Final, Literal, NamedTuple

import msgspec

from surecall.settings.filters import (
    check_names,
    check_unique,
    matches,
    merged,
    packaged,
    parse_entries,
    parse_tables,
    select,
)
from surecall.values.errors import ConfigError
from surecall.values.family import suggest

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
    """One model: what it needs, how well it calls tools, and how it is best sampled."""

    id: str
    workarounds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    notes: str = ""
    recommended: Literal["", "yes", "conditional", "no"] = ""
    profiles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_names((self.id, *self.tags))
        msgspec.structs.force_setattr(self, "workarounds", _canonical(self.workarounds))

    @property
    def base_id(self) -> str:
        """The id without its routing suffix."""
        return self.id.partition(":")[0]

    @property
    def provider(self) -> str:
        """The part before the first slash; empty for an id without one."""
        provider, slash, _ = self.id.partition("/")
        return provider if slash else ""

    @property
    def names(self) -> tuple[str, ...]:
        """What a filter may call this model."""
        return tuple(name for name in (self.id, self.base_id, self.provider, *self.tags) if name)


class WorkaroundRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What models need that are not listed, judging by a glob over their id, whatever the case.

    A rule without workarounds takes the place of a packaged one and so turns it off.
    """

    pattern: str
    workarounds: tuple[str, ...]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "workarounds", _canonical(self.workarounds))


class _Index(NamedTuple):
    """The models of a catalog by id and by base id, in lower case."""

    by_id: dict[str, CatalogModel]
    by_base_id: dict[str, CatalogModel]


class ModelCatalog(msgspec.Struct, frozen=True, dict=True):
    """Models in a fixed order, and rules for those it does not list.

    The index of its models is built once, when it is first needed, and kept beside the fields: it
    is no part of equality, of the hash or of what is serialized.
    """

    models: tuple[CatalogModel, ...] = ()
    rules: tuple[WorkaroundRule, ...] = ()

    def __post_init__(self) -> None:
        check_unique(self.models, _key)
        check_unique(self.rules, _rule_key)

    @staticmethod
    @cache
    def builtin() -> "ModelCatalog":
        """Return the catalog that ships with the package."""
        return ModelCatalog.from_toml(packaged("models.toml"))

    @classmethod
    def from_toml(cls, text: str) -> "ModelCatalog":
        """Read a catalog of `[[model]]` and `[[rule]]` tables; anything else is an error."""
        document = parse_tables(text, ("model", "rule"))
        return cls(
            parse_entries(document, "model", CatalogModel),
            parse_entries(document, "rule", WorkaroundRule),
        )

    def extended(self, other: "ModelCatalog") -> "ModelCatalog":
        """Return this catalog with another laid over it: same ids and patterns are replaced."""
        return ModelCatalog(
            merged(self.models, other.models, _key),
            merged(self.rules, other.rules, _rule_key),
        )

    def select(self, expression: str) -> tuple[CatalogModel, ...]:
        """Return the models a filter picks by id, base id, provider or tag."""
        return select(self.models, expression, lambda model: model.names)

    def find(self, model_id: str) -> CatalogModel | None:
        """Return the entry for a model: its own, else one for the same model without suffix."""
        wanted = model_id.casefold()
        base = wanted.partition(":")[0]
        index = self._index
        return index.by_id.get(wanted) or index.by_id.get(base) or index.by_base_id.get(base)

    def workarounds_for(self, model_id: str) -> tuple[str, ...]:
        """Return the workarounds a model needs: its entry's, else those of all rules that fit."""
        entry = self.find(model_id)
        if entry is not None:
            return entry.workarounds
        fitting = (rule for rule in self.rules if matches(rule.pattern, (model_id,)))
        # Rules hold canonical names, so only duplicates can be left.
        return tuple(dict.fromkeys(name for rule in fitting for name in rule.workarounds))

    @cached_property
    def _index(self) -> "_Index":
        by_id = {_key(model): model for model in self.models}
        # Of several models with the same base id, the first counts.
        by_base_id = {model.base_id.casefold(): model for model in reversed(self.models)}
        return _Index(by_id, by_base_id)


def canonical_workaround(name: str) -> str:
    """Return the preset name a workaround is known by; synonyms, case and hyphens are accepted."""
    folded = "_".join(name.casefold().replace("-", " ").split())
    canonical = _SYNONYMS.get(folded, folded)
    if canonical not in WORKAROUNDS:
        raise ConfigError(f'unknown workaround "{name}"; {suggest(folded, WORKAROUNDS)}')
    return canonical


def _canonical(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(canonical_workaround, names)))


def _key(model: CatalogModel) -> str:
    return model.id.casefold()


def _rule_key(rule: WorkaroundRule) -> str:
    return rule.pattern.casefold()
