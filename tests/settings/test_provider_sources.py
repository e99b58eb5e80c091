"""What is known of providers: each fact is a sentence and has a source."""

import pytest

from surecall.settings.capabilities import PROVIDERS
from surecall.settings.provider_sources import KNOWN, Known

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
def test_every_fact_is_a_sentence_with_a_source(fact: Known) -> None:
    assert fact.says.endswith(".")
    assert fact.sources
    assert all(map(is_source, fact.sources)), fact.sources


def test_facts_are_told_of_known_providers_in_the_order_of_the_rows() -> None:
    assert list(KNOWN) == [name for name in PROVIDERS if name in KNOWN]
    assert set(BY_ISSUES) <= KNOWN.keys()
