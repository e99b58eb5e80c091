"""What a client knows and must not show: its key, its own headers, the query of its address."""

import asyncio

import pytest

from surecall.core.outcome import RunFailed
from surecall.runtime.runner import ToolLoopRunner
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import ProviderError
from tests.support.listening import Knock, Reply, listening

SECRET = "canary/47+11=abcdEF"
QUOTED = "canary%2F47%2B11%3DabcdEF"


def secrets_of(client: OpenAICompatible) -> list[str]:
    return [secret.reveal() for secret in client.secrets]


def test_the_key_the_headers_and_the_query_are_secrets() -> None:
    client = OpenAICompatible(
        f"http://h?code={QUOTED}", "sk-key", headers={"X-Api-Key": "header-key"}
    )
    found = secrets_of(client)

    assert found[:2] == ["sk-key", "header-key"]
    assert {f"code={QUOTED}", QUOTED, SECRET} <= set(found)
    assert QUOTED not in repr(client) + client.base_url


def test_what_a_header_says_to_everyone_is_no_secret() -> None:
    headers = {
        "X-Title": "My evaluation",
        "HTTP-Referer": "http://x",
        "X-OpenRouter-Metadata": "enabled",
    }

    assert secrets_of(OpenAICompatible("http://h", headers=headers)) == []


def test_a_token_in_a_header_for_everyone_is_a_secret_all_the_same() -> None:
    headers = {"X-Title": "4711-canary-in-a-title"}

    assert secrets_of(OpenAICompatible("http://h", headers=headers)) == ["4711-canary-in-a-title"]


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_endpoint_that_echoes_the_query_does_not_get_it_into_an_error(
    status: int, *, quoted: bool
) -> None:
    def echo(knock: Knock) -> Reply:
        said = knock.path if quoted else f"code was {SECRET}"
        return status, {"error": {"message": said, "metadata": {"raw": said}}}

    with listening(echo) as listener:
        client = OpenAICompatible(f"{listener.url}?code={QUOTED}")
        runner = ToolLoopRunner(client=client, model="m", tools=[], retry=RetryPolicy(attempts=1))
        with pytest.raises(ProviderError) as failure:
            asyncio.run(runner.run("hi"))

    assert "canary/47%2B11%3DabcdEF" in listener.heard[0].path  # as the library writes it
    assert isinstance(failure.value, RunFailed)
    told = f"{failure.value} {failure.value.fault!r} {failure.value.result!r}"
    assert [word for word in ("canary", "47", "abcdEF") if word in told] == []
