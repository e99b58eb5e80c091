"""A file that is served here: what it settles, and what it cannot be combined with."""

from typing import Any

import msgspec
import pytest

from surecall.cli.stored import endpoint_named
from surecall.cli.target import library_at
from surecall.eval.report.common import sheet_for
from surecall.eval.settings.endpoint import (
    JOBS,
    Endpoint,
    address_of,
    endpoint_of,
    gguf_of,
    jobs_of,
    limits_of,
)
from surecall.eval.settings.fields import FIELDS, Settings
from surecall.eval.settings.load import load, shaping
from surecall.values.errors import ConfigError
from surecall.values.types import Secret
from tests.support.eval_fakes import ENDPOINT, planned

FILE = {"SURECALL_GGUF": "models/Tiny-1B.gguf"}
KEY = {"OPENROUTER_API_KEY": "sk-or-v1-made-up"}


def settings(flags: dict[str, Any] | None = None, /, **environ: str) -> Settings:
    return load(flags or {}, environ).settings


def test_a_file_alone_means_a_local_server_with_the_presets_of_llama_cpp() -> None:
    endpoint = endpoint_of(settings(**FILE))

    assert endpoint.local
    assert (endpoint.base_url, endpoint.provider, endpoint.model) == (
        "local",
        "llama_cpp",
        "Tiny-1B",
    )
    assert not endpoint.explicit
    assert not Endpoint("http://127.0.0.1:1", "/v1", "llama_cpp").local


def test_no_key_goes_to_a_local_server() -> None:
    assert endpoint_of(settings(**FILE, **KEY)).api_key is None


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
    assert shaping(found) == shaping(settings(**FILE))
    assert shaping(found)["base_url"] == "local"


def test_which_file_it_is_belongs_to_the_model_and_not_to_the_run() -> None:
    assert shaping(settings(**FILE)) == shaping(settings(SURECALL_GGUF="other.gguf"))
    assert not FIELDS["gguf"].shapes


def test_a_model_that_was_asked_for_stays_asked_for() -> None:
    assert settings({"model_filter": "Tiny*"}, **FILE).model_filter == "Tiny*"
    assert settings().model_filter == "stable"


def test_other_upstream_providers_stay_what_they_are() -> None:
    assert settings({"provider_only": "Groq,local"}).provider_only == ("Groq", "local")


def test_one_slot_means_one_conversation_and_a_processor_takes_its_time() -> None:
    assert jobs_of(settings(**FILE)) == 1
    assert jobs_of(settings({"jobs": 3}, **FILE)) == 3
    assert jobs_of(settings()) == JOBS
    assert limits_of(settings(**FILE)).total_s == 600.0
    assert limits_of(settings({"client_timeout": 120}, **FILE)).total_s == 120.0
    assert settings({"client_timeout": -1}, **FILE).client_timeout is None
    assert (settings().client_timeout, FIELDS["client_timeout"].default) == (120.0, 120.0)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ({"gguf": "a.gguf", "base_url": "http://127.0.0.1:9"}, "leave out one of them"),
        ({"gguf": "a.gguf", "base_url": "sim"}, "leave out one of them"),
        ({"endpoint": "local", "base_url": "http://127.0.0.1:9"}, "--endpoint llama_cpp names"),
        ({"gguf": "a.gguf", "endpoint": "vllm"}, "can only be local or llama_cpp"),
    ],
)
def test_a_local_server_has_no_address_of_its_own(flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as problem:
        endpoint_of(settings(flags))
    assert complaint in str(problem.value)


def test_without_a_file_there_is_nothing_to_serve_but_something_to_talk_about() -> None:
    nameless = settings({"provider_only": "local"})

    assert address_of(nameless) == "local"
    assert endpoint_of(nameless).model == ""
    with pytest.raises(ConfigError, match="name its file with --gguf"):
        gguf_of(nameless)
    assert gguf_of(settings(**FILE)) == "models/Tiny-1B.gguf"


def test_its_one_model_is_all_there_is_to_choose_from() -> None:
    (found,) = library_at(endpoint_of(settings(**FILE))).models

    assert (found.id, found.provider, found.simulated) == ("Tiny-1B", "llama_cpp", False)
    assert library_at(endpoint_of(settings({"endpoint": "local"}))).models == ()


def test_what_is_stored_of_a_run_leads_to_the_same_place() -> None:
    endpoint = endpoint_of(settings(**FILE))
    stored = msgspec.structs.replace(settings(**FILE), base_url=endpoint.base_url)

    assert endpoint_named(stored) == endpoint
    shown = Settings(base_url="local", endpoint="local", api_key=Secret("-"))
    assert endpoint_of(shown).provider == "llama_cpp"


def test_the_build_that_served_is_part_of_what_is_stored() -> None:
    built = msgspec.structs.replace(ENDPOINT, build="llama.cpp b1")

    assert sheet_for(planned(), built).settings["served_by"] == "llama.cpp b1"
    assert "served_by" not in sheet_for(planned(), ENDPOINT).settings
