"""The rows of the providers: no two are mixed up, and all say only what can be said."""

import pytest

from surecall.settings.capabilities import Capabilities
from surecall.settings.providers import ROWS, Provider
from surecall.simulator.provider_rules import PROVIDER_RULES


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
