"""The words of refusals: every rule has some, and a provider may have its own."""

import pytest

from surecall.simulator.provider_rules import PROVIDER_RULES
from surecall.simulator.violations import WORDING, ProviderRules


def test_every_provider_words_only_rules_that_exist() -> None:
    for each in PROVIDER_RULES.values():
        assert each.words.keys() <= WORDING.keys()


@pytest.mark.parametrize("rules", PROVIDER_RULES.values(), ids=lambda rules: rules.name)
def test_every_refusal_can_be_worded(rules: ProviderRules) -> None:
    for rule in WORDING:
        said = rules.violation(rule, "messages[1]", "it")
        assert (said.rule, said.where) == (rule, "messages[1]")
        assert said.message
        assert "{" not in said.message.replace("{}", "")


def test_a_provider_speaks_for_itself_where_it_has_words() -> None:
    own, other = PROVIDER_RULES["zai"], PROVIDER_RULES["common"]

    assert own.violation("choice_refused", "x", "required").message == "Tool choice must be auto"
    assert "required" in other.violation("choice_refused", "x", "required").message
