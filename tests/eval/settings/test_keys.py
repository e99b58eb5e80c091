"""A key goes only where its owner sends it: not where a file of the directory says."""

import pytest

from surecall.eval.settings.endpoint import endpoint_of
from surecall.eval.settings.load import Effective, load
from surecall.values.types import Secret

KEY, OTHER = "sk-own-0123456789abcdef", "sk-other-0123456789abcdef"
ROUTER_KEY = "sk-or-v1-0123456789abcdef"
STRANGER = "http://127.0.0.1:18811"
ENVIRONMENT = {"SURECALL_API_KEY": KEY}
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


def sent(effective: Effective) -> str:
    key = endpoint_of(effective.settings).api_key
    return "" if key is None else key.reveal()


def revealed(keys: tuple[Secret, ...]) -> list[str]:
    return [key.reveal() for key in keys]


@pytest.mark.parametrize("files", FILES)
def test_a_file_of_the_directory_does_not_get_the_key_of_the_environment(
    files: tuple[str | None, str | None, str],
) -> None:
    found = load({}, ENVIRONMENT, *files)

    assert sent(found) == ""
    told = found.withheld
    assert f"names {STRANGER}, and SURECALL_API_KEY is not sent there" in told
    assert "surecall trust" in told
    assert "--base-url" in told
    assert KEY not in told
    assert revealed(found.secrets) == [KEY]  # it is still taken out of whatever is written


@pytest.mark.parametrize("files", FILES)
def test_a_consent_or_the_command_line_sends_it_there(
    files: tuple[str | None, str | None, str],
) -> None:
    trusted = load({}, ENVIRONMENT, *files, {STRANGER})
    named = load({"base_url": STRANGER}, ENVIRONMENT, *files)

    assert (sent(trusted), sent(named)) == (KEY, KEY)
    assert trusted.withheld == named.withheld == ""


def test_an_address_from_the_environment_gets_the_key_of_the_environment() -> None:
    found = load({}, ENVIRONMENT | {"SURECALL_BASE_URL": STRANGER}, 'base_url = "http://evil.test"')

    assert sent(found) == KEY
    assert found.settings.base_url == STRANGER


def test_a_stronger_variable_in_a_file_does_not_take_the_key_of_the_environment() -> None:
    environ = ENVIRONMENT | {"OPENROUTER_BASE_URL": "https://gateway.test"}

    assert sent(load({}, environ, dotenv_text=DOTENV)) == ""


def test_a_key_in_a_file_goes_to_the_address_in_the_same_file() -> None:
    complete = f"{DOTENV}SURECALL_API_KEY={OTHER}\n"

    assert sent(load({}, {}, dotenv_text=complete)) == OTHER
    both = load({}, ENVIRONMENT, dotenv_text=complete)
    assert (sent(both), both.withheld) == (OTHER, "")


def test_a_key_in_one_file_does_not_go_to_the_address_in_another_which_may_be_shared() -> None:
    found = load({}, {}, TOML, dotenv_text=f"SURECALL_API_KEY={OTHER}")

    assert sent(found) == ""
    assert "SURECALL_API_KEY in .env is not sent there" in found.withheld
    assert sent(load({}, {}, TOML, None, f"SURECALL_API_KEY={OTHER}", {STRANGER})) == OTHER


def test_a_key_in_a_file_goes_where_the_user_says() -> None:
    dotenv = f"SURECALL_API_KEY={OTHER}"

    assert sent(load({"base_url": STRANGER}, {}, dotenv_text=dotenv)) == OTHER
    assert sent(load({}, {"SURECALL_BASE_URL": STRANGER}, dotenv_text=dotenv)) == OTHER


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
    assert sent(load({}, ENVIRONMENT, f'base_url = "{address}"', None, "", {STRANGER})) == ""


@pytest.mark.parametrize("address", ["HTTP://Api.Test", "http://api.test:80/", "http://api.test:"])
def test_another_spelling_of_the_same_origin_is_the_same(address: str) -> None:
    found = load({}, ENVIRONMENT, f'base_url = "{address}"', None, "", {"http://api.test:80"})

    assert sent(found) == KEY


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

    assert sent(load(flags, environ, toml, None, "", everywhere)) == ""


@pytest.mark.parametrize("address", ["https://openrouter.ai/api", "HTTPS://OpenRouter.AI:443/api"])
@pytest.mark.parametrize("name", ["SURECALL_API_KEY", "OPENROUTER_API_KEY"])
def test_a_file_may_name_the_home_of_a_key(address: str, name: str) -> None:
    found = load({}, {name: KEY}, f'base_url = "{address}"')

    assert (sent(found), found.withheld) == (KEY, "")


def test_the_own_key_that_stays_here_does_not_make_way_for_that_of_the_router() -> None:
    found = load({}, ENVIRONMENT | {"OPENROUTER_API_KEY": ROUTER_KEY}, TOML)

    assert sent(found) == ""
    assert revealed(found.secrets) == [KEY, ROUTER_KEY]
    assert "SURECALL_API_KEY is not sent there" in found.withheld


PAIR = {"OPENROUTER_API_KEY": ROUTER_KEY, "OPENROUTER_BASE_URL": STRANGER}
PAIR_IN_FILE = f"OPENROUTER_API_KEY={OTHER}\nOPENROUTER_BASE_URL={STRANGER}\n"


def test_the_router_key_goes_to_the_address_that_the_user_set_beside_it() -> None:
    found = load({}, PAIR)

    assert (sent(found), found.settings.base_url) == (ROUTER_KEY, STRANGER)
    assert (found.withheld, found.warnings) == ("", ())


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
    found = load({}, environ, dotenv_text=dotenv)

    assert (sent(found), found.settings.base_url) == (key, STRANGER)


def test_the_router_key_of_the_environment_needs_a_consent_for_the_address_of_a_file() -> None:
    environ = {"OPENROUTER_API_KEY": ROUTER_KEY}
    dotenv = f"OPENROUTER_BASE_URL={STRANGER}"
    found = load({}, environ, dotenv_text=dotenv)

    assert sent(found) == ""
    assert f"OPENROUTER_BASE_URL in .env names {STRANGER}, and OPENROUTER" in found.withheld
    assert "run `surecall trust`" in found.withheld
    assert found.withheld.endswith("or set OPENROUTER_BASE_URL in the environment")
    assert sent(load({}, environ, None, None, dotenv, {STRANGER})) == ROUTER_KEY
    assert sent(load({}, environ, None, None, dotenv, {"http://127.0.0.1:18812"})) == ""


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
    found = load(flags, PAIR | more, *files, {"http://other.test:80"})

    assert (sent(found), found.settings.base_url) == ("", "http://other.test")
    assert found.withheld.startswith("OPENROUTER_API_KEY is not sent to another address")


def test_nothing_in_a_file_stands_for_a_variable() -> None:
    dotenv = 'SURECALL_X_TITLE="${SURECALL_API_KEY}"\nSURECALL_BASE_URL=http://$SURECALL_API_KEY/\n'
    toml = 'http_referer = "${SURECALL_API_KEY} $SURECALL_API_KEY"'
    found = load({"base_url": STRANGER}, ENVIRONMENT, toml, dotenv_text=dotenv)

    assert found.settings.x_title == "${SURECALL_API_KEY}"
    assert KEY not in found.settings.http_referer


def test_without_any_key_there_is_nothing_to_tell() -> None:
    found = load({}, {}, TOML)

    assert (sent(found), found.withheld, found.secrets) == ("", "", ())
