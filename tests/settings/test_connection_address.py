"""An address: what a key is bound to, what of it may be shown, and what in it is a secret."""

import pytest
from yarl import URL

from surecall.settings.connection import checked_url, origin_of, secrets_in, shown_url
from surecall.values.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://api.test/v1", "https://api.test:443"),
        (" HTTP://API.Test:8000/?k=v ", "http://api.test:8000"),
        ("http://api.test:", "http://api.test:80"),
        ("http://api.test:080", "http://api.test:80"),
        ("https://api.test.", "https://api.test.:443"),
        ("http://[::1]:8080/v1", "http://[::1]:8080"),
        ("http://[FE80::1]", "http://[fe80::1]:80"),
        ("sim", ""),
        ("http://", ""),
        ("http://api.test:99999", ""),
        ("http://me:pass@api.test", ""),
        ("https://good.test\\@evil.test", ""),
        ("https://evil.test\\.good.test", ""),
    ],
)
def test_a_key_is_bound_to_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize("host", ["a\\b", "a^b", "a|b", "a{b}", "a;b", "a$b", "a'b", "a(b)"])
def test_a_host_that_two_readers_could_read_differently_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="character in its host"):
        checked_url(f"http://{host}.test")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("localhost:1234", "http://localhost:1234"),
        ("localhost", "http://localhost"),
        ("127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("10.0.0.7", "http://10.0.0.7"),
        ("my-server:8000", "http://my-server:8000"),
        ("api.test/v1", "https://api.test/v1"),
        ("openrouter.ai/api", "https://openrouter.ai/api"),
    ],
)
def test_an_address_without_a_scheme_is_told_with_the_one_that_may_be_meant(
    text: str, meant: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        checked_url(text)

    said = f'base_url must start with http:// or https://, not "{text}"; write {meant}'
    assert str(caught.value) == said
    assert checked_url(meant).netloc


@pytest.mark.parametrize(
    "text",
    [
        "gsk0123456789abcdef0123456789abcdef",
        "sk-0123456789abcdef.test",
        "me:secret@api.test",
        "api.test?key=secret",
        "eyJhbGciOi.eyJzdWIiOi.SflKxwRJSM",
        "0123456789abcdef.QmFzZTY0",
        "ftp://api.test",
        f"{'a' * 61}.test",
    ],
)
def test_what_may_be_a_secret_is_not_quoted_in_place_of_an_address(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        checked_url(text)

    said = "base_url must start with http:// or https://, as in http://localhost:8000"
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://api.test/v1", "https://api.test/v1"),
        ("https://api.test/v1?key=abc", "https://api.test/v1?..."),
        ("https://api.test?abc#def", "https://api.test?..."),
        ("https://me:pass@api.test:8/", "https://api.test:8/"),
        ("sim", "sim"),
        ("", ""),
    ],
)
def test_what_can_hold_a_secret_is_not_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "query",
    ["a%2fb", "a%2Bb+c=d", "x=%7e%7E%41", "x=a'b(c)", "k=%C3%A9é", "a%3D==", "100%&ab%zé", "%4"],
)
def test_a_secret_is_also_known_as_the_library_sends_it(query: str) -> None:
    sent = URL(f"http://h/?{query}").raw_query_string

    assert sent in [secret.reveal() for secret in secrets_in(query)]


@pytest.mark.parametrize(
    ("query", "secrets"),
    [
        ("", []),
        ("key=abc", ["key=abc", "abc"]),
        ("token", ["token"]),
        ("token=", ["token=", "token"]),
        ("k=a%2Bb+c", ["k=a%2Bb+c", "k=a+b+c", "k=a+b c", "a%2Bb+c", "a+b+c", "a+b c"]),
        ("a%2f%3d", ["a%2f%3d", "a/%3D", "a/="]),
        ("a=one;b=two", ["a=one;b=two", "one", "two"]),
        ("api-version=2024-06-01-preview", []),
        ("API-Version=2024-06-01&sig=abc", ["abc"]),
        ("api-version=secret", ["api-version=secret", "secret"]),
    ],
)
def test_every_value_of_a_query_is_a_secret_but_not_a_version(
    query: str, secrets: list[str]
) -> None:
    assert [secret.reveal() for secret in secrets_in(query)] == secrets
