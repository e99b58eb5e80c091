"""Tests of `surecall.settings.connection`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from surecall.settings.connection import (
    RetryPolicy,
    is_ip_address,
    is_loopback,
    parse_base_url,
    query_secrets,
    redact_url,
    resolve_api,
    split_api_path,
    split_host,
    url_origin,
)
from surecall.values.errors import ConfigError, ErrorCode, Fault
from tests.support.spec import proves

# Retries: a pure table of what is sent again, and after how long


def passing(retry_after: float | None = None) -> Fault:
    return Fault(ErrorCode.UPSTREAM_5XX, "busy", retryable=True, retry_after=retry_after)


@pytest.mark.parametrize(
    ("attempt", "jitter", "wait"),
    [
        (1, 1.0, 0.5),
        (1, 0.0, 0.25),
        (2, 1.0, 1.0),
        (3, 1.0, 2.0),
        (4, 1.0, 4.0),
        (5, 1.0, 8.0),
        (6, 1.0, 8.0),
        (6, 0.0, 4.0),
        (9_999, 1.0, 8.0),
    ],
)
@proves("G11")
def test_waits_double_up_to_a_bound(attempt: int, jitter: float, wait: float) -> None:
    assert RetryPolicy(attempts=10_000).wait(passing(), attempt, jitter) == wait


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        (7.0, 7.0),
        (0.25, 0.25),
        (120.0, 120.0),
        (120.5, None),
        (1e30, None),
        (float("nan"), 0.5),
        (0.0, 0.5),
        (-3.0, 0.5),
    ],
)
@proves("G11")
def test_a_servers_advice_is_followed_or_means_giving_up(
    retry_after: float, wait: float | None
) -> None:
    assert RetryPolicy().wait(passing(retry_after), 1, 1.0) == wait


@pytest.mark.parametrize(("attempts", "last"), [(0, 1), (1, 1), (3, 3)])
@proves("G11")
def test_the_first_attempt_counts(attempts: int, last: int) -> None:
    policy = RetryPolicy(attempts=attempts)
    assert policy.wait(passing(), last, 1.0) is None
    assert policy.wait(passing(1.0), last, 1.0) is None
    assert all(policy.wait(passing(), attempt, 1.0) for attempt in range(1, last))


@pytest.mark.parametrize("retry_after", [None, 1.0])
def test_a_fault_that_does_not_pass_is_not_tried_again(retry_after: float | None) -> None:
    fault = Fault(ErrorCode.AUTH, "who?", retry_after=retry_after)
    assert RetryPolicy().wait(fault, 1, 1.0) is None


@given(st.integers(1, 5_000), st.floats(0, 1), st.none() | st.floats())
def test_a_wait_is_above_zero_and_bounded(
    attempt: int, jitter: float, retry_after: float | None
) -> None:
    wait = RetryPolicy(attempts=4_000).wait(passing(retry_after), attempt, jitter)
    assert wait is None or 0 < wait <= 120


# An address: what a key is bound to, what of it may be shown, and what in it is a secret


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
    assert url_origin(url) == origin


@pytest.mark.parametrize("host", ["a\\b", "a^b", "a|b", "a{b}", "a;b", "a$b", "a'b", "a(b)"])
def test_a_host_that_two_readers_could_read_differently_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="character in its host"):
        parse_base_url(f"http://{host}.test")


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
        parse_base_url(text)

    said = f'base_url must start with http:// or https://, not "{text}"; write {meant}'
    assert str(caught.value) == said
    assert parse_base_url(meant).netloc


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
        parse_base_url(text)

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
    assert redact_url(url) == shown


@pytest.mark.parametrize(
    "query",
    ["a%2fb", "a%2Bb+c=d", "x=%7e%7E%41", "x=a'b(c)", "k=%C3%A9é", "a%3D==", "100%&ab%zé", "%4"],
)
def test_a_secret_is_also_known_as_the_library_sends_it(query: str) -> None:
    sent = URL(f"http://h/?{query}").raw_query_string

    assert sent in [secret.reveal() for secret in query_secrets(query)]


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
    assert [secret.reveal() for secret in query_secrets(query)] == secrets


# Addresses of this machine


def test_loopback_is_known_by_every_spelling() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("local host", "192.168.1.5", "::", "example.org", "")))


def test_an_address_is_told_from_a_name() -> None:
    assert is_ip_address("10.0.0.1")
    assert not is_ip_address("10.0.0.1.example.org")


@pytest.mark.parametrize(
    ("host", "name", "port"),
    [
        ("localhost:80", "localhost", 80),
        ("LocalHost", "localhost", 80),
        ("[::1]:8089", "::1", 8089),
        ("[::1]", "::1", 80),
        ("a:", "a", 0),
        ("a:b", "a", 0),
        ("a:٣", "a", 0),
        ("", "", 80),
    ],
)
def test_a_host_is_split_into_name_and_port(host: str, name: str, port: int) -> None:
    assert split_host(host) == (name, port)


# The API of an address


@pytest.mark.parametrize(
    ("url", "path", "api"),
    [
        ("https://h/v1", "/v1", ""),
        ("https://h/v1/chat/completions/", "/v1", "chat"),
        ("https://h/v1/responses", "/v1", "responses"),
        ("https://h/v1/messages?x=1", "/v1", "messages"),
        ("https://h/messages", "", "messages"),
        ("https://h/xmessages", "/xmessages", ""),
    ],
)
def test_an_address_may_name_its_api(url: str, path: str, api: str) -> None:
    parts, found = split_api_path(parse_base_url(url))
    assert (parts.path.rstrip("/"), found) == (path, api)


def test_the_api_of_the_address_must_be_the_given_one() -> None:
    assert resolve_api("auto", "") == "auto"
    assert resolve_api("auto", "messages") == resolve_api("messages", "messages") == "messages"
    with pytest.raises(ConfigError, match="remove one of them"):
        resolve_api("chat", "messages")
    with pytest.raises(ConfigError, match="responses"):
        resolve_api("response", "")
