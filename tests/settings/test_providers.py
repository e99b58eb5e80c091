"""Tests of `surecall.settings.providers`."""

import pytest

from surecall.settings.capabilities import Capabilities
from surecall.settings.connection import UPSTREAM_APIS
from surecall.settings.providers import (
    Provider,
    ProviderFact,
    api_for_request,
    facts_by_provider,
    provider_table,
    upstream_api,
    upstream_api_rules,
)
from surecall.simulator.provider_rules import PROVIDER_RULES

# The rows of the providers: no two are mixed up, and all say only what can be said


ROWS = provider_table().rows


def test_no_two_providers_share_a_name_or_an_address() -> None:
    names = [name for row in ROWS for name in (row.name.replace("_", ""), *row.aliases)]
    domains = [domain for row in ROWS for domain in row.domains]

    assert len(set(names)) == len(names)
    assert len(set(domains)) == len(domains)
    assert all(name.isalnum() and name == name.casefold() for name in names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_tells_only_differences_from_the_careful_default(row: Provider) -> None:
    careful = Capabilities()
    for field, value in row.takes.items():
        assert getattr(careful, field) is not value, field


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_refused_option_is_refused_by_the_strict_profile_too(row: Provider) -> None:
    rules = PROVIDER_RULES.get(row.name)
    if rules is not None:
        refused = "parallel_tool_calls" in rules.refused_options
        assert refused is not row.takes.get("parallel_tool_calls", True)


# What is known of providers: each fact is a sentence and has a source


KNOWN = facts_by_provider()
FACTS = [fact for facts in KNOWN.values() for fact in facts]
FIRST = ("bedrock", "azure", "anthropic", "xai", "cerebras", "sambanova")
BY_ISSUES = (*FIRST, "nebius", "deepinfra", "moonshot", "zai", "minimax", "dashscope")


def is_source(text: str) -> bool:
    """Whether a text is an issue, `owner/repository#number`, or `who: what document`."""
    repository, mark, number = text.partition("#")
    if mark:
        return number.isdecimal() and len(repository.split("/")) == 2
    who, _, document = text.partition(": ")
    return bool(who and document)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.says[:50])
def test_every_fact_is_a_sentence_with_a_source(fact: ProviderFact) -> None:
    assert fact.says.endswith(".")
    assert fact.sources
    assert all(map(is_source, fact.sources)), fact.sources


def test_facts_are_told_of_known_providers_in_the_order_of_the_rows() -> None:
    assert list(KNOWN) == [name for name in provider_table().by_name if name in KNOWN]
    assert set(BY_ISSUES) <= KNOWN.keys()


@pytest.mark.parametrize(
    ("provider", "model", "has_tools", "api"),
    [
        ("anthropic", "claude-opus-4-8", False, "messages"),
        ("openai", "gpt-5.6-terra", True, "responses"),
        ("openai", "gpt-5.6-terra", False, "chat"),
        ("openai", "gpt-5.2", True, "chat"),
        ("openai", "gpt-5.1-codex-max", False, "responses"),
        ("bedrock", "openai.gpt-5.5", False, "responses"),
        ("bedrock", "openai.gpt-oss-120b", True, "chat"),
        ("custom", "gpt-5.6", True, "chat"),
    ],
)
def test_some_models_need_another_api(
    provider: str, model: str, *, has_tools: bool, api: str
) -> None:
    rules = upstream_api_rules(provider)
    assert upstream_api(rules, model, has_tools=has_tools) == api


def test_the_rules_about_apis_name_known_providers_and_apis() -> None:
    table = provider_table()
    for rule in table.upstream_apis:
        assert rule.provider in table.by_name
        assert rule.api in UPSTREAM_APIS


def test_a_lesson_about_the_api_of_a_model_comes_before_the_rules() -> None:
    rules = upstream_api_rules("openai")
    body = b'{"model":"gpt-5.6","tools":[{}]}'
    assert api_for_request(rules, {}, body) == "responses"
    assert api_for_request(rules, {}, b"{") == "chat"
    lessons = {"gpt-5.6": ("stream", "api:chat", "api:messages", "top_p"), "other": ()}
    assert api_for_request(rules, lessons, body) == "messages"
    assert api_for_request((), {"gpt-5.6": ("stream",)}, body) == "chat"
