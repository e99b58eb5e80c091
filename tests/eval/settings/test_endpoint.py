"""Tests of `surecall.eval.settings.endpoint`."""

from typing import Any

import msgspec
import pytest

from surecall.cli.target import endpoint_from_settings, model_library
from surecall.eval.report.run_results import make_sheet
from surecall.eval.settings.endpoint import (
    DEFAULT_JOBS,
    OPENROUTER_URL,
    Endpoint,
    connection_limits,
    endpoint_address,
    job_count,
    request_headers,
    require_gguf,
    resolve_endpoint,
    serving_options,
)
from surecall.eval.settings.fields import FIELDS, Settings
from surecall.eval.settings.resolution import EffectiveSettings, resolve_settings, result_settings
from surecall.settings.connection import Limits
from surecall.values.errors import ConfigError
from surecall.values.types import Secret
from tests.support.evaluations import ENDPOINT, planned

KEY = "sk-or-v1-made-up"


def settings(flags: dict[str, Any] | None = None, /, **environ: str) -> Settings:
    return resolve_settings(flags or {}, environ).settings


# Which endpoint the settings mean, with which limits and headers


def test_without_key_and_address_there_is_the_simulator() -> None:
    assert resolve_endpoint(Settings()).is_simulated
    assert resolve_endpoint(settings(SURECALL_BASE_URL="sim", SURECALL_API_KEY=KEY)).is_simulated


def test_a_key_alone_means_openrouter() -> None:
    endpoint = resolve_endpoint(settings(OPENROUTER_API_KEY=KEY))

    assert (endpoint.base_url, endpoint.provider) == (OPENROUTER_URL, "openrouter")
    assert not endpoint.is_simulated
    assert not endpoint.is_explicit
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
    endpoint = resolve_endpoint(settings(SURECALL_BASE_URL=address))

    assert (endpoint.provider, endpoint.is_explicit) == (provider, True)
    named = settings(SURECALL_BASE_URL=address, SURECALL_ENDPOINT="Llama.cpp")
    assert resolve_endpoint(named).provider == "llama_cpp"


def test_openrouter_without_a_key_is_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match="OPENROUTER_API_KEY"):
        resolve_endpoint(settings(OPENROUTER_BASE_URL="https://openrouter.ai/api/v1"))


def test_time_limits_become_limits_of_the_connection() -> None:
    assert connection_limits(Settings()) == Limits(connect_s=10.0, idle_s=120.0, total_s=120.0)
    endless = settings(OPENROUTER_CLIENT_TIMEOUT="0", OPENROUTER_OPEN_TIMEOUT="-1")
    assert connection_limits(endless) == Limits(connect_s=86400.0, idle_s=86400.0, total_s=86400.0)
    patient = settings(OPENROUTER_READ_TIMEOUT="30", OPENROUTER_JOBS="200")
    assert connection_limits(patient).idle_s == 30.0
    assert connection_limits(patient).max_connections == 200


def test_headers_are_sent_as_asked_and_openrouter_is_asked_who_served() -> None:
    given = settings(OPENROUTER_API_KEY=KEY, OPENROUTER_X_TITLE="eval")
    own = settings(SURECALL_BASE_URL="http://localhost:1", OPENROUTER_HTTP_REFERER="http://x")

    assert request_headers(given, resolve_endpoint(given)) == {
        "X-Title": "eval",
        "X-OpenRouter-Metadata": "enabled",
    }
    assert request_headers(own, resolve_endpoint(own)) == {"HTTP-Referer": "http://x"}


def test_the_number_of_jobs_is_chosen_unless_it_is_given() -> None:
    assert job_count(Settings()) == DEFAULT_JOBS
    assert job_count(settings(OPENROUTER_JOBS="3")) == 3


def test_a_file_is_served_with_the_threads_and_the_context_that_are_set() -> None:
    serving = serving_options(Settings(threads=3, context=4096))

    assert (serving.threads, serving.context) == (3, 4096)


# A file that is served here: what it settles, and what it cannot be combined with


FILE = {"SURECALL_GGUF": "models/Tiny-1B.gguf"}
LOCAL_KEY = {"OPENROUTER_API_KEY": KEY}


def test_a_file_alone_means_a_local_server_with_the_presets_of_llama_cpp() -> None:
    endpoint = resolve_endpoint(settings(**FILE))

    assert endpoint.is_local
    assert (endpoint.base_url, endpoint.provider, endpoint.model) == (
        "local",
        "llama_cpp",
        "Tiny-1B",
    )
    assert not endpoint.is_explicit
    assert not Endpoint("http://127.0.0.1:1", "/v1", "llama_cpp").is_local


def test_no_key_goes_to_a_local_server() -> None:
    assert resolve_endpoint(settings(**FILE, **LOCAL_KEY)).api_key is None


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"endpoint": "local"},
        {"endpoint": "Llama.cpp"},
        {"provider_only": "local"},
        {"provider_only": " Local ", "endpoint": "local"},
    ],
)
def test_every_way_to_say_that_it_is_local_is_the_same_run(flags: dict[str, Any]) -> None:
    found = settings(flags, **FILE)

    assert (found.endpoint, found.provider_only, found.model_filter) == ("local", (), "all")
    assert result_settings(found) == result_settings(settings(**FILE))
    assert result_settings(found)["base_url"] == "local"


def test_which_file_it_is_belongs_to_the_model_and_not_to_the_run() -> None:
    assert result_settings(settings(**FILE)) == result_settings(
        settings(SURECALL_GGUF="other.gguf")
    )
    assert not FIELDS["gguf"].shapes


def test_a_model_that_was_asked_for_stays_asked_for() -> None:
    assert settings({"model_filter": "Tiny*"}, **FILE).model_filter == "Tiny*"
    assert settings().model_filter == "stable"


def test_other_upstream_providers_stay_what_they_are() -> None:
    assert settings({"provider_only": "Groq,local"}).provider_only == ("Groq", "local")


def test_one_slot_means_one_conversation_and_a_processor_takes_its_time() -> None:
    assert job_count(settings(**FILE)) == 1
    assert job_count(settings({"jobs": 3}, **FILE)) == 3
    assert job_count(settings()) == DEFAULT_JOBS
    assert connection_limits(settings(**FILE)).total_s == 600.0
    assert connection_limits(settings({"client_timeout": 120}, **FILE)).total_s == 120.0
    assert settings({"client_timeout": -1}, **FILE).client_timeout is None
    assert (settings().client_timeout, FIELDS["client_timeout"].default) == (120.0, 120.0)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"gguf": "a.gguf", "base_url": "http://127.0.0.1:9"}, "leave out one of them"),
        ({"gguf": "a.gguf", "base_url": "sim"}, "leave out one of them"),
        ({"endpoint": "local", "base_url": "http://127.0.0.1:9"}, "with --endpoint llama_cpp"),
        ({"gguf": "a.gguf", "endpoint": "vllm"}, "must be local or llama_cpp"),
    ],
)
def test_a_local_server_has_no_address_of_its_own(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as problem:
        resolve_endpoint(settings(flags))
    assert complaint in str(problem.value)


def test_without_a_file_there_is_nothing_to_serve_but_something_to_talk_about() -> None:
    nameless = settings({"provider_only": "local"})

    assert endpoint_address(nameless) == "local"
    assert resolve_endpoint(nameless).model == ""
    with pytest.raises(ConfigError, match="pass it with --gguf"):
        require_gguf(nameless)
    assert require_gguf(settings(**FILE)) == "models/Tiny-1B.gguf"


def test_its_one_model_is_all_there_is_to_choose_from() -> None:
    (found,) = model_library(resolve_endpoint(settings(**FILE))).models

    assert (found.id, found.provider, found.simulated) == ("Tiny-1B", "llama_cpp", False)
    assert model_library(resolve_endpoint(settings({"endpoint": "local"}))).models == ()


def test_what_is_stored_of_a_run_leads_to_the_same_place() -> None:
    endpoint = resolve_endpoint(settings(**FILE))
    stored = msgspec.structs.replace(settings(**FILE), base_url=endpoint.base_url)

    assert endpoint_from_settings(stored) == endpoint
    shown = Settings(base_url="local", endpoint="local", api_key=Secret("-"))
    assert resolve_endpoint(shown).provider == "llama_cpp"


def test_the_build_that_served_is_part_of_what_is_stored() -> None:
    built = msgspec.structs.replace(ENDPOINT, build="llama.cpp b1")

    assert make_sheet(planned(), built).settings["served_by"] == "llama.cpp b1"
    assert "served_by" not in make_sheet(planned(), ENDPOINT).settings


# OpenRouter's key goes to OpenRouter, and to no address that only a flag names


ROUTER_KEY, OWN_KEY = "sk-or-v1-0123456789abcdef", "sk-own-0123456789abcdef"
ELSEWHERE = "https://api.example.com/v1"


def effective(base_url: str | None, **environ: str) -> EffectiveSettings:
    return resolve_settings({"base_url": base_url}, environ)


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
    found = effective(base_url, OPENROUTER_API_KEY=ROUTER_KEY)

    assert resolve_endpoint(found.settings).api_key is None
    assert found.sources["api_key"] == "default"
    told = found.key_warning
    assert told.startswith(
        "OPENROUTER_API_KEY is not sent to the URL in --base-url, only to OpenRouter"
    )
    assert told.endswith("set SURECALL_API_KEY")


def test_the_name_of_an_endpoint_does_not_open_the_way_for_the_key() -> None:
    flags = {"base_url": ELSEWHERE, "endpoint": "openrouter"}
    found = resolve_settings(flags, {}, dotenv_text=f"OPENROUTER_API_KEY={ROUTER_KEY}")

    assert found.settings.api_key is None
    assert found.key_warning.startswith("OPENROUTER_API_KEY in .env is not sent")


@pytest.mark.parametrize(
    ("base_url", "key"),
    [
        (None, ROUTER_KEY),
        ("https://openrouter.ai/api/v1", ROUTER_KEY),
        ("https://eu.openrouter.ai/api", ROUTER_KEY),
    ],
)
def test_the_router_key_is_used_at_home(base_url: str | None, key: str) -> None:
    found = effective(base_url, OPENROUTER_API_KEY=ROUTER_KEY)

    assert revealed(resolve_endpoint(found.settings).api_key) == key
    assert found.key_warning == ""


def test_ones_own_key_goes_wherever_one_says() -> None:
    found = effective(ELSEWHERE, OPENROUTER_API_KEY=ROUTER_KEY, SURECALL_API_KEY=OWN_KEY)

    assert revealed(resolve_endpoint(found.settings).api_key) == OWN_KEY
    assert found.key_warning == ""


def test_the_simulator_needs_no_note_about_keys() -> None:
    found = effective("sim", OPENROUTER_API_KEY=ROUTER_KEY)

    assert resolve_endpoint(found.settings).api_key is None
    assert found.key_warning == ""
