"""The provider table, documented facts with their sources, and the table of refusals.

All are files in `data/`, loaded at first use, so importing a runner loads no TOML parser.
"""

from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import Final

import msgspec

from surecall.settings.catalog import matches_any, parse_entries, parse_tables, read_packaged
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


class UpstreamApiRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The API of a provider's models, where it is not chat completions. `models` are patterns."""

    provider: str
    models: tuple[str, ...]
    api: str
    only_with_tools: bool = False


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
    upstream_apis: tuple[UpstreamApiRule, ...]
    by_name: dict[str, Provider]
    by_alias: dict[str, str]
    by_domain: dict[str, str]
    by_local_port: dict[int, str]


@cache
def provider_table() -> ProviderTable:
    """Return the providers that ship with the package."""
    names = ("provider", "openrouter_model", "upstream_api")
    tables = parse_tables(read_packaged("providers.toml"), names)
    rows = parse_entries(tables, "provider", Provider)
    return ProviderTable(
        rows,
        parse_entries(tables, "openrouter_model", OpenRouterModel),
        parse_entries(tables, "upstream_api", UpstreamApiRule),
        {row.name: row for row in rows},
        {alias: row.name for row in rows for alias in (row.name.replace("_", ""), *row.aliases)},
        {domain: row.name for row in rows for domain in row.domains},
        {row.local_port: row.name for row in rows if row.local_port},
    )


def upstream_api_rules(provider: str) -> tuple[UpstreamApiRule, ...]:
    """Return the rules of a provider about the APIs of its models."""
    return tuple(rule for rule in provider_table().upstream_apis if rule.provider == provider)


def upstream_api(rules: tuple[UpstreamApiRule, ...], model: str, *, has_tools: bool) -> str:
    """Return the API for a request, by the first rule that fits; `chat` without one."""
    fitting = (
        rule.api
        for rule in rules
        if (has_tools or not rule.only_with_tools)
        and any(matches_any(pattern, (model,)) for pattern in rule.models)
    )
    return next(fitting, "chat")


class _RequestHead(msgspec.Struct):
    """What of a chat request selects its API."""

    model: str = ""
    tools: list[msgspec.Raw] | None = None


_HEAD_DECODER: Final = msgspec.json.Decoder(_RequestHead)
# The lesson that a model needs another API, followed by its name.
_API_LESSON: Final = "api:"


def api_for_request(
    rules: tuple[UpstreamApiRule, ...], lessons: Mapping[str, tuple[str, ...]], body: bytes
) -> str:
    """Return the API for a chat request, by the lessons of its model or by the rules."""
    if not rules and not any(map(_learned_api, lessons.values())):
        return "chat"
    try:
        head = _HEAD_DECODER.decode(body)
    except ValueError:  # the endpoint says what is wrong with it
        head = _RequestHead()
    learned = _learned_api(lessons.get(head.model, ()))
    return learned or upstream_api(rules, head.model, has_tools=bool(head.tools))


def _learned_api(lessons: tuple[str, ...]) -> str:
    found = (lesson for lesson in reversed(lessons) if lesson.startswith(_API_LESSON))
    return next(found, "").removeprefix(_API_LESSON)


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
