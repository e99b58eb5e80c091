"""Sampling profiles: which ones a model gets, and what a profile may not say."""

import datetime as dt
import math

import pytest

from surecall.settings.catalog import SamplingCatalog, SamplingProfile
from surecall.values.errors import ConfigError
from surecall.wire.chat_format import RESERVED_OPTIONS

BUILTIN = SamplingCatalog.builtin()


def ids(profiles: tuple[SamplingProfile, ...]) -> list[str]:
    return [profile.id for profile in profiles]


def options_of(profile_id: str) -> dict[str, object]:
    (profile,) = BUILTIN.select(profile_id)
    return profile.options


def test_the_packaged_profiles_are_read_once() -> None:
    assert SamplingCatalog.builtin() is BUILTIN
    assert len(BUILTIN.profiles) == 16


def test_a_catalog_and_its_profiles_cannot_be_changed() -> None:
    assert BUILTIN.__struct_config__.frozen
    assert BUILTIN.profiles[0].__struct_config__.frozen


def test_the_default_profile_changes_nothing() -> None:
    default = BUILTIN.profiles[0]

    assert (default.id, default.options, default.applies_to) == ("default", {}, ())


@pytest.mark.parametrize(
    ("profile_id", "options"),
    [
        ("deepseek_v3_2_creative_writing", {"temperature": 1.5, "top_p": 0.95}),
        ("grok_default", {"temperature": 0.3}),
        ("minimax_m2_1_recommended", {"temperature": 1.0, "top_p": 0.95, "top_k": 40}),
        ("qwen_recommended", {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0}),
        ("glm_4_7_flash_tool_calling", {"temperature": 0.7, "top_p": 1.0}),
        ("kimi_k2_5_instant", {"temperature": 0.6, "top_p": 0.95}),
    ],
)
def test_a_packaged_profile_has_its_published_options(
    profile_id: str, options: dict[str, object]
) -> None:
    assert options_of(profile_id) == options


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("qwen/qwen3-30b-a3b-instruct-2507:nitro", ["default", "qwen_recommended"]),
        ("anthropic/claude-opus-4.6:nitro", ["default"]),
        ("google/gemini-2.5-flash:nitro", ["default"]),
        ("z-ai/glm-4.7:nitro", ["default", "glm_4_7_recommended"]),
        ("z-ai/glm-4.7", ["default", "glm_4_7_recommended"]),
        ("z-ai/glm-4.7-flash:nitro", ["default"]),
        ("Qwen/Qwen3-30B", ["default"]),
    ],
)
def test_a_model_gets_the_selected_profiles_that_are_meant_for_it(
    model_id: str, expected: list[str]
) -> None:
    assert ids(BUILTIN.for_model(model_id, "default,recommended")) == expected


def test_without_a_filter_a_model_gets_the_default_profile() -> None:
    assert ids(BUILTIN.for_model("qwen/qwen3-30b")) == ["default"]


def test_a_model_that_no_selected_profile_is_meant_for_gets_the_default() -> None:
    assert ids(BUILTIN.for_model("acme/rocket", "recommended")) == ["default"]


def test_a_catalog_without_a_default_still_has_one_to_fall_back_on() -> None:
    catalog = SamplingCatalog((SamplingProfile("hot", applies_to=("a/*",)),))

    assert catalog.for_model("b/c", "hot") == (SamplingProfile("default"),)


def test_a_default_of_ones_own_is_the_one_to_fall_back_on() -> None:
    own = SamplingProfile("default", options={"temperature": 0})
    catalog = BUILTIN.extended_by(SamplingCatalog((own,)))

    assert catalog.for_model("acme/rocket", "grok_default") == (own,)


def test_profiles_are_picked_by_id_or_tag_with_exclusions() -> None:
    assert ids(BUILTIN.select("glm,!flash")) == ["glm_4_7_recommended", "glm_4_7_t0_85"]
    assert len(BUILTIN.select("all,!default")) == 15


def test_a_mistyped_profile_is_answered_with_near_names() -> None:
    with pytest.raises(ConfigError, match='"recommendd"; did you mean "recommended"'):
        BUILTIN.for_model("acme/rocket", "recommendd")


def test_profiles_of_ones_own_extend_the_packaged_ones() -> None:
    text = """
        [[profile]]
        id = "frozen"
        tags = ["recommended"]
        applies_to = ["acme/*", "*-test"]
        options = { temperature = 0, seed = 7, stop = ["END"], extra = { deep = true } }
    """
    extended = BUILTIN.extended_by(SamplingCatalog.from_toml(text))

    (profile,) = extended.for_model("other/model-test", "recommended")
    assert profile == extended.profiles[-1]
    assert profile.options["stop"] == ["END"]
    assert len(extended.profiles) == 17


@pytest.mark.parametrize("key", sorted(RESERVED_OPTIONS))
def test_what_the_loop_decides_is_not_for_a_profile(key: str) -> None:
    with pytest.raises(ConfigError, match=f"a profile cannot set reserved options: {key}"):
        SamplingProfile("a", options={key: None, "temperature": 1})


def test_the_reserved_options_are_those_the_loop_writes() -> None:
    named = "model messages tools tool_choice response_format stream stream_options"

    assert set(named.split()) == RESERVED_OPTIONS


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, [math.nan], {"a": [math.inf]}, dt.date(2000, 1, 1), {1, 2}],
)
def test_an_option_that_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="option `x` cannot be written as JSON"):
        SamplingProfile("a", options={"x": value})


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "a", [], {}, [{"a": [1, None]}]])
def test_an_option_may_be_any_json(value: object) -> None:
    assert SamplingProfile("a", options={"x": value}).options == {"x": value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('[[profile]]\nid = "a"\noptiont = {}', "unknown field `optiont`", id="key"),
        pytest.param('[[profile]]\nid = "a"\noptions = 1', "Expected `object`", id="type"),
        pytest.param(
            '[[profile]]\nid = "a"\noptions = { stream = true }',
            r'profile 1 \("a"\): a profile cannot set reserved options: stream',
            id="reserved",
        ),
        pytest.param('[[profile]]\nid = "a"\n' * 2, '"a" is defined twice', id="twice"),
        pytest.param(
            '[[profile]]\nid = "a"\n[[profile]]\nid = "A"', '"a" is defined twice', id="case"
        ),
        pytest.param('[[profile]]\nid = "all"', "invalid name", id="name"),
        pytest.param('[[model]]\nid = "a"', 'unknown table "model"', id="table"),
    ],
)
def test_a_bent_catalog_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SamplingCatalog.from_toml(text)
