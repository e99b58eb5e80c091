"""Endpoints that are held against each other: how they are named, and which key goes where."""

import re

import pytest

from surecall.eval.settings.endpoint import OPENROUTER_URL
from surecall.eval.settings.endpoints import (
    NamedEndpoint,
    Variables,
    endpoint_named,
    endpoints_in,
    shown,
)
from surecall.values.errors import ConfigError

NOWHERE = Variables({}, {})
URL, KEY = "CHEAP_HOST_BASE_URL", "CHEAP_HOST_API_KEY"
THERE = "https://cheap.example/v1"


def revealed(found: NamedEndpoint) -> str | None:
    return found.api_key.reveal() if found.api_key else None


@pytest.mark.parametrize(
    ("text", "name", "url", "model"),
    [
        ("sim", "sim", "sim", ""),
        ("Simulator=sim/clean", "sim", "sim", "sim/clean"),
        ("http://127.0.0.1:8000/", "127.0.0.1:8000", "http://127.0.0.1:8000/", ""),
        ("https://a.example/v1=b/c", "a.example/v1", "https://a.example/v1", "b/c"),
        ("https://a.example/v1?k=s", "a.example/v1", "https://a.example/v1?k=s", ""),
    ],
)
def test_an_address_stands_for_itself_and_has_no_key(
    text: str, name: str, url: str, model: str
) -> None:
    keys = {"SURECALL_API_KEY": "s", "OPENROUTER_API_KEY": "o", "SIM_API_KEY": "i"}

    assert endpoint_named(text, Variables(keys, keys)) == NamedEndpoint(name, url, model)


def test_a_name_has_its_address_and_its_key_in_variables_of_its_own() -> None:
    found = endpoint_named(" cheap-host=x/y ", Variables({URL: THERE, KEY: "secret"}, {}))

    assert (found.name, found.url, found.model) == ("cheap-host", THERE, "x/y")
    assert revealed(found) == "secret"
    assert "secret" not in repr(found)
    assert revealed(endpoint_named("cheap-host", Variables({URL: THERE}, {}))) is None


@pytest.mark.parametrize(
    ("environ", "dotenv", "sent"),
    [
        ({URL: THERE, KEY: "k"}, {}, True),
        ({}, {URL: THERE, KEY: "k"}, True),
        ({URL: THERE}, {KEY: "k"}, True),
        ({KEY: "k"}, {URL: THERE}, False),
        ({URL: THERE, KEY: "k"}, {URL: "https://evil.example"}, True),
    ],
)
def test_a_file_never_says_where_a_key_of_the_environment_goes(
    environ: dict[str, str],
    dotenv: dict[str, str],
    sent: bool,  # noqa: FBT001
) -> None:
    found = endpoint_named("cheap_host", Variables(environ, dotenv))

    assert found.url == THERE
    assert (revealed(found), bool(found.warning)) == ("k" if sent else None, not sent)
    assert found.key is not None
    if not sent:
        assert "https://cheap.example:443" in found.warning
        assert "CHEAP_HOST_API_KEY of the environment is not sent there" in found.warning


def test_the_key_of_openrouter_goes_to_openrouter_or_to_the_address_beside_it() -> None:
    own = Variables({"OPENROUTER_API_KEY": "o"}, {})
    both = Variables({"OPENROUTER_API_KEY": "o", "OPENROUTER_BASE_URL": THERE}, {})
    planted = Variables({"OPENROUTER_API_KEY": "o"}, {"OPENROUTER_BASE_URL": THERE})

    assert endpoint_named("openrouter", own).url == OPENROUTER_URL
    assert revealed(endpoint_named("openrouter", own)) == "o"
    assert revealed(endpoint_named(OPENROUTER_URL, own)) == "o"
    assert revealed(endpoint_named(OPENROUTER_URL, NOWHERE)) is None
    assert revealed(endpoint_named(THERE, own)) is None
    found = endpoint_named("openrouter", both)
    assert (found.url, revealed(found), found.warning) == (THERE, "o", "")
    found = endpoint_named("openrouter", planted)
    assert (found.url, revealed(found)) == (THERE, None)
    assert "OPENROUTER_API_KEY of the environment is not sent there" in found.warning


def test_a_key_does_not_go_to_the_simulator() -> None:
    found = endpoint_named("mine", Variables({"MINE_BASE_URL": "sim", "MINE_API_KEY": "k"}, {}))

    assert (found.url, revealed(found)) == ("sim", None)
    assert "not sent to the simulator" in found.warning


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        ("moonshot", {}, "moonshot: where is it? Set MOONSHOT_BASE_URL, and MOONSHOT_API_KEY if"),
        ("moonshot", {"MOONSHOT_BASE_URL": "ftp://x"}, "MOONSHOT_BASE_URL: base_url must start"),
        ("moon shot", {}, "an endpoint is an address, sim, or a name"),
        ("=model", {}, "an endpoint is an address, sim, or a name"),
        ("mönd", {}, "an endpoint is an address, sim, or a name"),
        ("sim=", {}, "followed by = and the id of the model"),
        ("https://user:hunter2@x", {}, "base_url holds a user name or password"),
    ],
)
def test_what_names_no_endpoint_is_refused(
    text: str, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as refusal:
        endpoint_named(text, Variables(environ, {}))
    assert "hunter2" not in str(refusal.value)


def test_the_reference_is_first_and_needs_others() -> None:
    found = endpoints_in("sim=a", "sim=b, http://x ,", NOWHERE)

    assert [(each.name, each.model) for each in found] == [("sim", "a"), ("sim", "b"), ("x", "")]
    with pytest.raises(ConfigError, match="name them with --against"):
        endpoints_in("sim", " , ", NOWHERE)


def test_what_is_kept_of_an_address_holds_no_secret() -> None:
    assert shown(NamedEndpoint("x", "https://x/v1?key=s")) == "https://x/v1?..."
    assert shown(NamedEndpoint("sim", "sim")) == "sim"
