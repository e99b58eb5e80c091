"""Tests of `surecall.eval.settings.endpoint_keys`."""

import re

import pytest

from surecall.eval.settings.endpoint import OPENROUTER_URL, resolve_endpoint
from surecall.eval.settings.endpoint_keys import (
    EnvironmentVariables,
    NamedEndpoint,
    find_endpoint,
    find_endpoints,
    redact_endpoint,
)
from surecall.eval.settings.resolution import EffectiveSettings, resolve_settings
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

# Endpoints that are held against each other: how they are named, and which key goes where


NOWHERE = EnvironmentVariables({}, {})
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

    assert find_endpoint(text, EnvironmentVariables(keys, keys)) == NamedEndpoint(name, url, model)


def test_a_name_has_its_address_and_its_key_in_variables_of_its_own() -> None:
    found = find_endpoint(" cheap-host=x/y ", EnvironmentVariables({URL: THERE, KEY: "secret"}, {}))

    assert (found.name, found.url, found.model) == ("cheap-host", THERE, "x/y")
    assert revealed(found) == "secret"
    assert "secret" not in repr(found)
    assert revealed(find_endpoint("cheap-host", EnvironmentVariables({URL: THERE}, {}))) is None


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
    found = find_endpoint("cheap_host", EnvironmentVariables(environ, dotenv))

    assert found.url == THERE
    assert (revealed(found), bool(found.warning)) == ("k" if sent else None, not sent)
    assert found.key is not None
    if not sent:
        assert "https://cheap.example:443" in found.warning
        assert "CHEAP_HOST_API_KEY of the environment is not sent to " in found.warning


def test_the_key_of_openrouter_goes_to_openrouter_or_to_the_address_beside_it() -> None:
    own = EnvironmentVariables({"OPENROUTER_API_KEY": "o"}, {})
    both = EnvironmentVariables({"OPENROUTER_API_KEY": "o", "OPENROUTER_BASE_URL": THERE}, {})
    planted = EnvironmentVariables({"OPENROUTER_API_KEY": "o"}, {"OPENROUTER_BASE_URL": THERE})

    assert find_endpoint("openrouter", own).url == OPENROUTER_URL
    assert revealed(find_endpoint("openrouter", own)) == "o"
    assert revealed(find_endpoint(OPENROUTER_URL, own)) == "o"
    assert revealed(find_endpoint(OPENROUTER_URL, NOWHERE)) is None
    assert revealed(find_endpoint(THERE, own)) is None
    found = find_endpoint("openrouter", both)
    assert (found.url, revealed(found), found.warning) == (THERE, "o", "")
    found = find_endpoint("openrouter", planted)
    assert (found.url, revealed(found)) == (THERE, None)
    assert "OPENROUTER_API_KEY of the environment is not sent to " in found.warning


def test_a_key_does_not_go_to_the_simulator() -> None:
    found = find_endpoint(
        "mine", EnvironmentVariables({"MINE_BASE_URL": "sim", "MINE_API_KEY": "k"}, {})
    )

    assert (found.url, revealed(found)) == ("sim", None)
    assert "not sent to the simulator" in found.warning


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        ("moonshot", {}, "moonshot has no URL: set MOONSHOT_BASE_URL, and MOONSHOT_API_KEY if"),
        ("moonshot", {"MOONSHOT_BASE_URL": "ftp://x"}, "MOONSHOT_BASE_URL: base_url must start"),
        ("moon shot", {}, "an endpoint is a URL, sim, or a name"),
        ("=model", {}, "an endpoint is a URL, sim, or a name"),
        ("mönd", {}, "an endpoint is a URL, sim, or a name"),
        ("sim=", {}, "the model id after = is missing"),
        ("https://user:hunter2@x", {}, "base_url contains a user name or password"),
    ],
)
def test_what_names_no_endpoint_is_refused(
    text: str, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as refusal:
        find_endpoint(text, EnvironmentVariables(environ, {}))
    assert "hunter2" not in str(refusal.value)


def test_the_reference_is_first_and_needs_others() -> None:
    found = find_endpoints("sim=a", "sim=b, http://x ,", NOWHERE)

    assert [(each.name, each.model) for each in found] == [("sim", "a"), ("sim", "b"), ("x", "")]
    with pytest.raises(ConfigError, match="pass them with --against"):
        find_endpoints("sim", " , ", NOWHERE)


def test_what_is_kept_of_an_address_holds_no_secret() -> None:
    assert redact_endpoint(NamedEndpoint("x", "https://x/v1?key=s")) == "https://x/v1?..."
    assert redact_endpoint(NamedEndpoint("sim", "sim")) == "sim"


# A key goes only where its owner sends it: not where a file of the directory says


OWN_KEY, OTHER = "sk-own-0123456789abcdef", "sk-other-0123456789abcdef"
ROUTER_KEY = "sk-or-v1-0123456789abcdef"
STRANGER = "http://127.0.0.1:18811"
ENVIRONMENT = {"SURECALL_API_KEY": OWN_KEY}
TOML = f'base_url = "{STRANGER}"'
PROJECT = f'[tool.surecall]\nbase_url = "{STRANGER}"'
DOTENV = f"SURECALL_BASE_URL={STRANGER}\n"
FILES = [
    pytest.param((TOML, None, ""), id="surecall.toml"),
    pytest.param((None, PROJECT, ""), id="pyproject.toml"),
    pytest.param((None, None, DOTENV), id="env-file"),
    pytest.param((None, None, DOTENV.replace("SURECALL_", "OPENROUTER_")), id="router-variable"),
    pytest.param((None, None, f"export {DOTENV}"), id="exported"),
    pytest.param((TOML.replace("base_url", "Base-URL"), None, ""), id="spelling"),
]


def sent(effective: EffectiveSettings) -> str:
    key = resolve_endpoint(effective.settings).api_key
    return "" if key is None else key.reveal()


def revealed_keys(keys: tuple[Secret, ...]) -> list[str]:
    return [key.reveal() for key in keys]


@pytest.mark.parametrize("files", FILES)
def test_a_file_of_the_directory_does_not_get_the_key_of_the_environment(
    files: tuple[str | None, str | None, str],
) -> None:
    found = resolve_settings({}, ENVIRONMENT, *files)

    assert sent(found) == ""
    told = found.key_warning
    assert f"SURECALL_API_KEY is not sent to {STRANGER}" in told
    assert "surecall trust" in told
    assert "--base-url" in told
    assert OWN_KEY not in told
    assert revealed_keys(found.secrets) == [OWN_KEY]  # it is still taken out of whatever is written


@pytest.mark.parametrize("files", FILES)
def test_a_consent_or_the_command_line_sends_it_there(
    files: tuple[str | None, str | None, str],
) -> None:
    trusted = resolve_settings({}, ENVIRONMENT, *files, {STRANGER})
    named = resolve_settings({"base_url": STRANGER}, ENVIRONMENT, *files)

    assert (sent(trusted), sent(named)) == (OWN_KEY, OWN_KEY)
    assert trusted.key_warning == named.key_warning == ""


def test_an_address_from_the_environment_gets_the_key_of_the_environment() -> None:
    found = resolve_settings(
        {}, ENVIRONMENT | {"SURECALL_BASE_URL": STRANGER}, 'base_url = "http://evil.test"'
    )

    assert sent(found) == OWN_KEY
    assert found.settings.base_url == STRANGER


def test_a_stronger_variable_in_a_file_does_not_take_the_key_of_the_environment() -> None:
    environ = ENVIRONMENT | {"OPENROUTER_BASE_URL": "https://gateway.test"}

    assert sent(resolve_settings({}, environ, dotenv_text=DOTENV)) == ""


def test_a_key_in_a_file_goes_to_the_address_in_the_same_file() -> None:
    complete = f"{DOTENV}SURECALL_API_KEY={OTHER}\n"

    assert sent(resolve_settings({}, {}, dotenv_text=complete)) == OTHER
    both = resolve_settings({}, ENVIRONMENT, dotenv_text=complete)
    assert (sent(both), both.key_warning) == (OTHER, "")


def test_a_key_in_one_file_does_not_go_to_the_address_in_another_which_may_be_shared() -> None:
    found = resolve_settings({}, {}, TOML, dotenv_text=f"SURECALL_API_KEY={OTHER}")

    assert sent(found) == ""
    assert "SURECALL_API_KEY in .env is not sent to " in found.key_warning
    assert (
        sent(resolve_settings({}, {}, TOML, None, f"SURECALL_API_KEY={OTHER}", {STRANGER})) == OTHER
    )


def test_a_key_in_a_file_goes_where_the_user_says() -> None:
    dotenv = f"SURECALL_API_KEY={OTHER}"

    assert sent(resolve_settings({"base_url": STRANGER}, {}, dotenv_text=dotenv)) == OTHER
    assert sent(resolve_settings({}, {"SURECALL_BASE_URL": STRANGER}, dotenv_text=dotenv)) == OTHER


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:18812",
        "https://127.0.0.1:18811",
        "http://127.0.0.1",
        "http://127.0.0.1.:18811",
        "http://localhost:18811",
        "http://127.1:18811",
        "http://[::1]:18811",
        "http://[::ffff:127.0.0.1]:18811",
        "http://127.0.0.1.evil.test:18811",
    ],
)
def test_a_consent_is_for_one_scheme_host_and_port(address: str) -> None:
    assert (
        sent(resolve_settings({}, ENVIRONMENT, f'base_url = "{address}"', None, "", {STRANGER}))
        == ""
    )


@pytest.mark.parametrize("address", ["HTTP://Api.Test", "http://api.test:80/", "http://api.test:"])
def test_another_spelling_of_the_same_origin_is_the_same(address: str) -> None:
    found = resolve_settings(
        {}, ENVIRONMENT, f'base_url = "{address}"', None, "", {"http://api.test:80"}
    )

    assert sent(found) == OWN_KEY


@pytest.mark.parametrize(
    "address",
    [
        "http://openrouter.ai",
        "http://openrouter.ai:443",
        "http://openrouter.ai:18811",
        "https://openrouter.ai:8443/api",
        "https://openrouter.ai.:443/api",
        "https://openrouter.ai.evil.test/api",
        "https://evil-openrouter.ai/api",
        "https://evil.openrouter.ai/api",
        "https://openrouter.аi/api",  # noqa: RUF001  # a Cyrillic letter
    ],
)
@pytest.mark.parametrize("place", ["flag", "environment", "file"])
def test_only_its_own_host_on_the_encrypted_port_is_the_home_of_the_router_key(
    address: str, place: str
) -> None:
    flags = {"base_url": address if place == "flag" else None}
    environ = {"OPENROUTER_API_KEY": ROUTER_KEY}
    environ |= {"SURECALL_BASE_URL": address} if place == "environment" else {}
    toml = f'base_url = "{address}"' if place == "file" else None
    everywhere = {STRANGER, "http://openrouter.ai:18811", "http://openrouter.ai:80"}

    assert sent(resolve_settings(flags, environ, toml, None, "", everywhere)) == ""


@pytest.mark.parametrize("address", ["https://openrouter.ai/api", "HTTPS://OpenRouter.AI:443/api"])
@pytest.mark.parametrize("name", ["SURECALL_API_KEY", "OPENROUTER_API_KEY"])
def test_a_file_may_name_the_home_of_a_key(address: str, name: str) -> None:
    found = resolve_settings({}, {name: OWN_KEY}, f'base_url = "{address}"')

    assert (sent(found), found.key_warning) == (OWN_KEY, "")


def test_the_own_key_that_stays_here_does_not_make_way_for_that_of_the_router() -> None:
    found = resolve_settings({}, ENVIRONMENT | {"OPENROUTER_API_KEY": ROUTER_KEY}, TOML)

    assert sent(found) == ""
    assert revealed_keys(found.secrets) == [OWN_KEY, ROUTER_KEY]
    assert "SURECALL_API_KEY is not sent to " in found.key_warning


PAIR = {"OPENROUTER_API_KEY": ROUTER_KEY, "OPENROUTER_BASE_URL": STRANGER}
PAIR_IN_FILE = f"OPENROUTER_API_KEY={OTHER}\nOPENROUTER_BASE_URL={STRANGER}\n"


def test_the_router_key_goes_to_the_address_that_the_user_set_beside_it() -> None:
    found = resolve_settings({}, PAIR)

    assert (sent(found), found.settings.base_url) == (ROUTER_KEY, STRANGER)
    assert (found.key_warning, found.warnings) == ("", ())


@pytest.mark.parametrize(
    ("environ", "dotenv", "key"),
    [
        pytest.param({}, PAIR_IN_FILE, OTHER, id="both-in-the-file"),
        pytest.param(PAIR, PAIR_IN_FILE, ROUTER_KEY, id="both-in-both"),
        pytest.param(
            {"OPENROUTER_BASE_URL": STRANGER}, PAIR_IN_FILE, OTHER, id="address-of-the-environment"
        ),
        pytest.param(PAIR, "OPENROUTER_BASE_URL=http://evil.test", ROUTER_KEY, id="overridden"),
    ],
)
def test_a_file_beside_the_pair_of_the_router_decides_nothing_about_the_users_own(
    environ: dict[str, str], dotenv: str, key: str
) -> None:
    found = resolve_settings({}, environ, dotenv_text=dotenv)

    assert (sent(found), found.settings.base_url) == (key, STRANGER)


def test_the_router_key_of_the_environment_needs_a_consent_for_the_address_of_a_file() -> None:
    environ = {"OPENROUTER_API_KEY": ROUTER_KEY}
    dotenv = f"OPENROUTER_BASE_URL={STRANGER}"
    found = resolve_settings({}, environ, dotenv_text=dotenv)

    assert sent(found) == ""
    assert (
        f"OPENROUTER_API_KEY is not sent to {STRANGER}, the URL in OPENROUTER_BASE"
        in found.key_warning
    )
    assert "run `surecall trust`" in found.key_warning
    assert found.key_warning.endswith("or set OPENROUTER_BASE_URL in the environment")
    assert sent(resolve_settings({}, environ, None, None, dotenv, {STRANGER})) == ROUTER_KEY
    assert sent(resolve_settings({}, environ, None, None, dotenv, {"http://127.0.0.1:18812"})) == ""


@pytest.mark.parametrize(
    ("flags", "more", "files"),
    [
        pytest.param({"base_url": "http://other.test"}, {}, (None, None, ""), id="flag"),
        pytest.param({}, {"SURECALL_BASE_URL": "http://other.test"}, (None, None, ""), id="own"),
        pytest.param({}, {}, (None, None, "SURECALL_BASE_URL=http://other.test"), id="env-file"),
    ],
)
def test_an_address_that_overrides_that_of_the_router_does_not_get_its_key(
    flags: dict[str, str], more: dict[str, str], files: tuple[str | None, str | None, str]
) -> None:
    found = resolve_settings(flags, PAIR | more, *files, {"http://other.test:80"})

    assert (sent(found), found.settings.base_url) == ("", "http://other.test")
    assert found.key_warning.startswith("OPENROUTER_API_KEY is not sent to the URL")


def test_nothing_in_a_file_stands_for_a_variable() -> None:
    dotenv = 'SURECALL_X_TITLE="${SURECALL_API_KEY}"\nSURECALL_BASE_URL=http://$SURECALL_API_KEY/\n'
    toml = 'http_referer = "${SURECALL_API_KEY} $SURECALL_API_KEY"'
    found = resolve_settings({"base_url": STRANGER}, ENVIRONMENT, toml, dotenv_text=dotenv)

    assert found.settings.x_title == "${SURECALL_API_KEY}"
    assert OWN_KEY not in found.settings.http_referer


def test_without_any_key_there_is_nothing_to_tell() -> None:
    found = resolve_settings({}, {}, TOML)

    assert (sent(found), found.key_warning, found.secrets) == ("", "", ())
