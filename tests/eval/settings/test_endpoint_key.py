"""OpenRouter's key goes to OpenRouter, and to no address that only a flag names."""

import pytest

from surecall.eval.settings.endpoint import endpoint_of
from surecall.eval.settings.load import Effective, load
from surecall.values.types import Secret

KEY, OWN_KEY = "sk-or-v1-0123456789abcdef", "sk-own-0123456789abcdef"
ELSEWHERE = "https://api.example.com/v1"


def effective(base_url: str | None, **environ: str) -> Effective:
    return load({"base_url": base_url}, environ)


def revealed(key: Secret | None) -> str:
    return "" if key is None else key.reveal()


@pytest.mark.parametrize(
    "base_url",
    [
        ELSEWHERE,
        "http://localhost:8000",
        "https://openrouter.ai.example.com",
        "https://notopenrouter.ai",
    ],
)
def test_the_router_key_is_left_out_at_another_address_and_that_is_told(base_url: str) -> None:
    found = effective(base_url, OPENROUTER_API_KEY=KEY)

    assert endpoint_of(found.settings).api_key is None
    assert found.sources["api_key"] == "default"
    told = found.withheld
    assert told.startswith("OPENROUTER_API_KEY is not sent to another address (--base-url)")
    assert told.endswith("set SURECALL_API_KEY")


def test_the_name_of_an_endpoint_does_not_open_the_way_for_the_key() -> None:
    flags = {"base_url": ELSEWHERE, "endpoint": "openrouter"}
    found = load(flags, {}, dotenv_text=f"OPENROUTER_API_KEY={KEY}")

    assert found.settings.api_key is None
    assert found.withheld.startswith("OPENROUTER_API_KEY in .env is not sent")


@pytest.mark.parametrize(
    ("base_url", "key"),
    [(None, KEY), ("https://openrouter.ai/api/v1", KEY), ("https://eu.openrouter.ai/api", KEY)],
)
def test_the_router_key_is_used_at_home(base_url: str | None, key: str) -> None:
    found = effective(base_url, OPENROUTER_API_KEY=KEY)

    assert revealed(endpoint_of(found.settings).api_key) == key
    assert found.withheld == ""


def test_ones_own_key_goes_wherever_one_says() -> None:
    found = effective(ELSEWHERE, OPENROUTER_API_KEY=KEY, SURECALL_API_KEY=OWN_KEY)

    assert revealed(endpoint_of(found.settings).api_key) == OWN_KEY
    assert found.withheld == ""


def test_the_simulator_needs_no_note_about_keys() -> None:
    found = effective("sim", OPENROUTER_API_KEY=KEY)

    assert endpoint_of(found.settings).api_key is None
    assert found.withheld == ""
