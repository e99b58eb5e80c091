"""Which endpoint the settings mean, with which limits and headers."""

import pytest

from surecall.eval.settings.endpoint import (
    JOBS,
    OPENROUTER_URL,
    endpoint_of,
    headers_of,
    jobs_of,
    limits_of,
    serving_of,
)
from surecall.eval.settings.fields import Settings
from surecall.settings.connection import Limits
from surecall.values.errors import ConfigError
from surecall.values.types import Secret
from tests.eval.settings.test_load import KEY, settings


def test_without_key_and_address_there_is_the_simulator() -> None:
    assert endpoint_of(Settings()).simulated
    assert endpoint_of(settings(SURECALL_BASE_URL="sim", SURECALL_API_KEY=KEY)).simulated


def test_a_key_alone_means_openrouter() -> None:
    endpoint = endpoint_of(settings(OPENROUTER_API_KEY=KEY))

    assert (endpoint.base_url, endpoint.provider) == (OPENROUTER_URL, "openrouter")
    assert not endpoint.simulated
    assert not endpoint.explicit
    assert isinstance(endpoint.api_key, Secret)


@pytest.mark.parametrize(
    ("address", "provider"),
    [
        ("http://localhost:8000", "custom"),
        ("https://api.openai.com/v1", "openai"),
        ("https://notopenai.com/v1", "custom"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini"),
    ],
)
def test_the_address_tells_whose_presets_fit(address: str, provider: str) -> None:
    endpoint = endpoint_of(settings(SURECALL_BASE_URL=address))

    assert (endpoint.provider, endpoint.explicit) == (provider, True)
    named = settings(SURECALL_BASE_URL=address, SURECALL_ENDPOINT="Llama.cpp")
    assert endpoint_of(named).provider == "llama_cpp"


def test_openrouter_without_a_key_is_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match="OPENROUTER_API_KEY"):
        endpoint_of(settings(OPENROUTER_BASE_URL="https://openrouter.ai/api/v1"))


def test_time_limits_become_limits_of_the_connection() -> None:
    assert limits_of(Settings()) == Limits(connect_s=10.0, idle_s=120.0, total_s=120.0)
    endless = settings(OPENROUTER_CLIENT_TIMEOUT="0", OPENROUTER_OPEN_TIMEOUT="-1")
    assert limits_of(endless) == Limits(connect_s=86400.0, idle_s=86400.0, total_s=86400.0)
    patient = settings(OPENROUTER_READ_TIMEOUT="30", OPENROUTER_JOBS="200")
    assert limits_of(patient).idle_s == 30.0
    assert limits_of(patient).max_connections == 200


def test_headers_are_sent_as_asked_and_openrouter_is_asked_who_served() -> None:
    given = settings(OPENROUTER_API_KEY=KEY, OPENROUTER_X_TITLE="eval")
    own = settings(SURECALL_BASE_URL="http://localhost:1", OPENROUTER_HTTP_REFERER="http://x")

    assert headers_of(given, endpoint_of(given)) == {
        "X-Title": "eval",
        "X-OpenRouter-Metadata": "enabled",
    }
    assert headers_of(own, endpoint_of(own)) == {"HTTP-Referer": "http://x"}


def test_the_number_of_jobs_is_chosen_unless_it_is_given() -> None:
    assert jobs_of(Settings()) == JOBS
    assert jobs_of(settings(OPENROUTER_JOBS="3")) == 3


def test_a_file_is_served_with_the_threads_and_the_context_that_are_set() -> None:
    serving = serving_of(Settings(threads=3, context=4096))

    assert (serving.threads, serving.context) == (3, 4096)
