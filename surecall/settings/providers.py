"""The provider table, documented facts with their sources, and the table of refusals.

All are files in `data/`, loaded at first use, so importing a runner loads no TOML parser.
"""

from functools import cache
from itertools import groupby

import msgspec

from surecall.settings.catalog import parse_entries, parse_tables, read_packaged
from surecall.values.types import JSON


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One provider: its names and domains, and how requests to it differ from the default."""

    name: str
    aliases: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    local_port: int = 0
    takes: JSON = {}
    workaround: str = ""
    settings: dict[str, bool | int | str | tuple[str, ...]] = {}


class OpenRouterModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Capabilities that differ for OpenRouter models whose ids begin with a prefix."""

    prefix: str
    takes: JSON


class ProviderFact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One documented fact about an endpoint, with its sources."""

    provider: str
    says: str
    sources: tuple[str, ...]


class RefusalRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a rejected request says, and the lessons that it teaches.

    A rejection matches if it has a phrase of each group in `says`, and none of `unless`.
    """

    lessons: tuple[str, ...]
    says: tuple[tuple[str, ...], ...]
    examples: tuple[str, ...]
    sources: tuple[str, ...]
    unless: tuple[str, ...] = ()


class ProviderTable(msgspec.Struct, frozen=True):
    """All providers, indexed by name, alias, domain, and local port."""

    rows: tuple[Provider, ...]
    models: tuple[OpenRouterModel, ...]
    by_name: dict[str, Provider]
    by_alias: dict[str, str]
    by_domain: dict[str, str]
    by_local_port: dict[int, str]


@cache
def provider_table() -> ProviderTable:
    """Return the providers that ship with the package."""
    tables = parse_tables(read_packaged("providers.toml"), ("provider", "openrouter_model"))
    rows = parse_entries(tables, "provider", Provider)
    return ProviderTable(
        rows,
        parse_entries(tables, "openrouter_model", OpenRouterModel),
        {row.name: row for row in rows},
        {alias: row.name for row in rows for alias in (row.name.replace("_", ""), *row.aliases)},
        {domain: row.name for row in rows for domain in row.domains},
        {row.local_port: row.name for row in rows if row.local_port},
    )


@cache
def facts_by_provider() -> dict[str, tuple[ProviderFact, ...]]:
    """Return the facts that public issues and documents report; used by docs, not by runs."""
    tables = parse_tables(read_packaged("provider_facts.toml"), ("fact",))
    facts = parse_entries(tables, "fact", ProviderFact)
    return {name: tuple(group) for name, group in groupby(facts, lambda fact: fact.provider)}


@cache
def refusal_rows() -> tuple[RefusalRow, ...]:
    """Return the table of refusals; read only when a request was rejected."""
    tables = parse_tables(read_packaged("refusals.toml"), ("refusal",))
    return parse_entries(tables, "refusal", RefusalRow)
