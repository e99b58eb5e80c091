"""Tests of `surecall.settings.presets`."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import ConfigError, ModelCatalog, ToolCallingConfig, ToolUseMode, presets
from surecall.settings.capabilities import capabilities_for
from surecall.settings.catalog import WORKAROUNDS, CatalogModel
from surecall.settings.config import all_settings
from surecall.settings.endpoint_profile import FAILED_GENERATION, FAMILIES, RESPONSE_NORMALIZERS
from surecall.settings.presets import (
    PRESET,
    content_tag_tool_call_fallback,
    default_tool_calling,
    merge,
    raw,
    resolve,
    without_text_calls,
)
from surecall.settings.providers import provider_table
from surecall.values.types import JSON
from tests.support.spec import proves

# Presets: each changes what it is about and nothing else, in any order, as often as you like


RAW = raw()
# A config in which nothing is as it comes out of the box.
UNUSUAL = ToolCallingConfig.from_mapping(
    {
        "tool_use_mode": "enforced",
        "tool_failure_policy": "tolerated",
        "fix_empty_final": False,
        "fallback_retry_count": 2,
        "max_turns": 3,
        "tool_denylist": "danger",
        "unsupported_options": "seed",
        "request_overrides": {"parallel_tool_calls": True, "seed": 1},
        "message_transforms": "assistant_tool_calls_content_null_if_blank",
        "tool_result_transforms": "tool_result_compact_envelope",
    }
)
TAGS = "assistant_content_tool_call_tags_to_tool_calls"
BLANK = ("assistant_tool_calls_arguments_blank_to_empty_object",)
NULL = "assistant_tool_calls_content_null_if_blank"
REASONING = "assistant_tool_calls_reasoning_content_empty_if_missing"
SIGNATURE = "assistant_tool_calls_signature_skip_validator_if_missing"
READING = {"body_transforms", "response_transforms", "tool_call_transforms"}
READING |= {"coerce_arguments", "text_calls"}
IDS = "call_ids_short_if_odd"
SPACE = "assistant_tool_calls_reasoning_content_space_if_blank"
TEXT = "content_text_parts_to_text"
COMPATS = (
    "anthropic_compat",
    "azure_compat",
    "bedrock_compat",
    "deepseek_openrouter_compat",
    "gemini_openrouter_compat",
    "sambanova_compat",
)
ABOUT = {
    "default_tool_calling": READING | {"request_overrides", "final_ladder"},
    **{name: {"message_transforms"} for name in COMPATS},
    "mistral_compat": {"short_call_ids", "name_tool_messages", "bridge_user_after_tool"},
    "llama_cpp_compat": {"tool_transforms", "demand_by_name"},
    "moonshot_compat": {"message_transforms", "tool_transforms", "demand_by_name"},
    "content_tag_tool_call_fallback": {"response_transforms", "text_calls"},
    "decode_html_entities": {"decode_html_entities"},
    "stringify_containers": {"stringify_containers"},
    "forced_continuation": {"final_ladder"},
    "guided_calls": {"call_protocol"},
    "small_model": {"call_protocol", "final_ladder"}
    | {"block_repeated_success", "default_max_tokens", "guided_thought", "closing_reminder"}
    | {"choice_temperature", "guided_fit_check"},
    "tool_use_disabled": {"tool_use_mode"},
}
PROVIDER_FIELDS = ABOUT["default_tool_calling"] | ABOUT["mistral_compat"]
PROVIDER_FIELDS |= ABOUT["llama_cpp_compat"]
PROVIDER_FIELDS |= {"message_transforms", "unsupported_options", "echo_fields", "echo_call_fields"}
PROVIDER_FIELDS |= {"calls_in_order", "max_tools_per_request"}


def changed(before: ToolCallingConfig, after: ToolCallingConfig) -> set[str]:
    """Name the fields in which two configs differ."""
    old, new = all_settings(before), all_settings(after)
    return {name for name in old if old[name] != new[name]}


def unordered(config: ToolCallingConfig) -> JSON:
    """Return the settings with the order of transforms forgotten."""
    return {
        key: sorted(value) if key in FAMILIES else value
        for key, value in all_settings(config).items()
    }


def spellings(name: str) -> set[str]:
    return {name, name.upper(), name.title(), f" {name} ", name.replace("_", "-")} | {
        name.replace("_", joint) for joint in (" ", ".", "")
    }


@proves("I21")
def test_every_preset_says_what_it_is_about() -> None:
    assert ABOUT.keys() == set(PRESET.names)
    assert all(PRESET.help(name).endswith(".") for name in PRESET.names)
    assert set(WORKAROUNDS) <= ABOUT.keys()


@proves("I21")
@pytest.mark.parametrize("config", [RAW, UNUSUAL], ids=["raw", "unusual"])
@pytest.mark.parametrize("name", PRESET.names)
def test_a_preset_changes_nothing_but_what_it_is_about(
    name: str, config: ToolCallingConfig
) -> None:
    after = PRESET[name](config)

    assert changed(config, after) <= ABOUT[name]
    for field in FAMILIES:
        assert set(getattr(config.endpoint, field)) <= set(getattr(after.endpoint, field))


@proves("I21")
@pytest.mark.parametrize("name", PRESET.names)
def test_a_preset_does_change_something(name: str) -> None:
    assert changed(RAW, PRESET[name](RAW)) == ABOUT[name]


@pytest.mark.parametrize("name", PRESET.names)
def test_a_preset_twice_is_a_preset_once(name: str) -> None:
    once = PRESET[name](UNUSUAL)

    assert PRESET[name](once) == once


@given(st.permutations(PRESET.names))
def test_presets_compose_in_any_order(order: list[str]) -> None:
    straight = shuffled = UNUSUAL
    for name, other in zip(PRESET.names, order, strict=True):
        straight, shuffled = PRESET[name](straight), PRESET[other](shuffled)

    assert unordered(straight) == unordered(shuffled)


@given(st.lists(st.sampled_from(PRESET.names), max_size=8))
def test_any_series_of_presets_is_stable(names: list[str]) -> None:
    config = UNUSUAL
    for name in names:
        config = PRESET[name](config)
    for name in names:
        assert PRESET[name](config) == config


def test_a_misspelt_preset_is_one_clear_error() -> None:
    with pytest.raises(ConfigError) as failure:
        PRESET["defualt-tool-calling"]

    assert str(failure.value) == (
        'unknown preset "defualt-tool-calling"; did you mean "default_tool_calling"?'
    )


@proves("C105")
def test_the_default_preset_reads_every_common_shape_of_a_call() -> None:
    config = presets.default_tool_calling()

    assert set(RESPONSE_NORMALIZERS) == set(FAMILIES["response_transforms"].names) - {TAGS}
    assert (config.endpoint.response_transforms, config.endpoint.tool_call_transforms) == (
        RESPONSE_NORMALIZERS,
        BLANK,
    )
    assert (config.tool_use_mode, config.fix_empty_final) == (ToolUseMode.RELAXED, True)
    assert (config.fix_empty_final_disable_tools, config.fallback_retry_count) == (True, 0)


@proves("C106")
@pytest.mark.parametrize("provider", ["openrouter", "Open-Router", "openai", "OpenAI"])
def test_openrouter_and_openai_are_asked_for_one_call_at_a_time(provider: str) -> None:
    config = presets.provider_defaults(provider)

    assert config.request_overrides == {"parallel_tool_calls": False}
    assert config.endpoint.unsupported_options == ()
    assert config.endpoint.response_transforms == RESPONSE_NORMALIZERS


@proves("C107")
def test_the_tag_preset_adds_exactly_the_tag_transform() -> None:
    config = presets.content_tag_tool_call_fallback(RAW)

    assert changed(RAW, config) == {"response_transforms", "text_calls"}
    assert config.endpoint.response_transforms == (TAGS,)
    assert config.endpoint.text_calls == "any"


@proves("C107")
def test_the_reliability_preset_can_add_the_tag_transform_at_the_end() -> None:
    plain = presets.openai_compatible_reliability()
    tagged = presets.openai_compatible_reliability(enable_content_tag_fallback=True)

    assert plain.endpoint.response_transforms == RESPONSE_NORMALIZERS
    assert tagged.endpoint.response_transforms == (*RESPONSE_NORMALIZERS, TAGS)
    assert presets.openai_compatible_reliability(RAW).request_overrides == {}


@pytest.mark.parametrize("parallel", [True, False])
def test_the_reliability_preset_can_say_whether_calls_come_in_parallel(*, parallel: bool) -> None:
    config = presets.openai_compatible_reliability(UNUSUAL, parallel_tool_calls=parallel)

    assert config.request_overrides == {"parallel_tool_calls": parallel, "seed": 1}
    assert UNUSUAL.request_overrides["parallel_tool_calls"] is True


@proves("C104")
@pytest.mark.parametrize(
    ("model", "field", "expected"),
    [
        ("minimax/minimax-m2-her", "tool_use_mode", ToolUseMode.DISABLED),
        ("deepseek/deepseek-v3.2:nitro", "message_transforms", (NULL, REASONING)),
        ("deepseek/deepseek-v9", "message_transforms", (NULL, REASONING)),
        ("google/gemini-3-pro-preview", "message_transforms", (NULL, SIGNATURE)),
        ("google/gemini-9", "message_transforms", (NULL, SIGNATURE)),
        ("qwen/qwen3-235b-a22b-2507", "response_transforms", (*RESPONSE_NORMALIZERS, TAGS)),
    ],
)
def test_production_adds_what_the_catalog_knows_about_a_model(
    model: str, field: str, expected: object
) -> None:
    baseline = resolve(provider="openrouter", model=model, strategy="baseline")
    production = resolve(provider="openrouter", model=model)

    assert all_settings(production)[field] == expected
    assert changed(baseline, production) == {"text_calls", "body_transforms", field}


def test_production_with_a_catalog_of_ones_own_asks_no_other() -> None:
    model = "deepseek/deepseek-v3.2"
    own = ModelCatalog((CatalogModel(model, ("tools_disabled",)),))

    bare = resolve(provider="x", model=model, catalog=ModelCatalog())
    assert bare.endpoint.message_transforms == ()
    assert resolve(provider="x", model=model, catalog=own).tool_use_mode is ToolUseMode.DISABLED


@proves("I22")
@pytest.mark.parametrize("config", [RAW, UNUSUAL], ids=["raw", "unusual"])
@pytest.mark.parametrize("provider", [*provider_table().by_name, "acme"])
def test_raw_repairs_nothing_and_keeps_what_was_set(
    provider: str, config: ToolCallingConfig
) -> None:
    model = "deepseek/deepseek-v3.2"

    found = resolve(provider=provider, model=model, strategy="raw", config=config)

    assert found == raw(config)
    assert not changed(config, found) & config.explicit
    assert not changed(RAW, found) - config.explicit


@pytest.mark.parametrize("provider", provider_table().by_name)
@pytest.mark.parametrize("strategy", ["baseline", "production"])
def test_a_provider_is_known_by_every_spelling(provider: str, strategy: Any) -> None:
    expected = resolve(provider=provider, strategy=strategy)

    for spelling in spellings(provider):
        assert resolve(provider=spelling, strategy=strategy) == expected, spelling


@proves("I21")
@pytest.mark.parametrize("provider", [*provider_table().by_name, "acme"])
def test_a_provider_changes_only_the_shape_of_requests_and_replies(provider: str) -> None:
    after = resolve(provider=provider, config=UNUSUAL)

    assert changed(UNUSUAL, after) <= PROVIDER_FIELDS
    assert after.request_overrides == UNUSUAL.request_overrides
    assert not changed(UNUSUAL, after) & UNUSUAL.explicit
    assert resolve(provider=provider, config=after) == after


@proves("C85")
@pytest.mark.parametrize("provider", [*provider_table().by_name, "acme", ""])
def test_only_who_takes_the_parallel_flag_is_sent_it(provider: str) -> None:
    config = resolve(provider=provider)

    assert config.request_overrides == {"parallel_tool_calls": False}
    sent = "parallel_tool_calls" not in config.endpoint.unsupported_options
    assert sent is capabilities_for(provider).parallel_tool_calls


@pytest.mark.parametrize("own", ["My Own Server", ""])
def test_the_recommended_settings_for_an_unknown_provider_are_the_defaults(own: str) -> None:
    assert resolve(provider=own) == presets.default_tool_calling() == ToolCallingConfig()


@pytest.mark.parametrize(
    ("provider", "echo_fields", "echo_call_fields", "message_transforms"),
    [
        ("openai", (), True, ()),
        ("mistral", (), False, ()),
        ("groq", (), True, ()),
        ("fireworks", ("reasoning_content",), True, ()),
        ("cerebras", ("reasoning",), True, ()),
        ("azure", (), True, (IDS,)),
        ("anthropic", RAW.endpoint.echo_fields, True, (NULL, IDS)),
        ("bedrock", RAW.endpoint.echo_fields, True, (NULL, IDS)),
        ("moonshot", RAW.endpoint.echo_fields, True, (SPACE, TEXT)),
        ("sambanova", RAW.endpoint.echo_fields, True, (TEXT,)),
        ("zai", RAW.endpoint.echo_fields, True, (NULL,)),
        ("minimax", RAW.endpoint.echo_fields, True, (NULL,)),
        ("xai", RAW.endpoint.echo_fields, True, ()),
        ("nebius", RAW.endpoint.echo_fields, True, ()),
        ("deepinfra", RAW.endpoint.echo_fields, True, ()),
        ("dashscope", RAW.endpoint.echo_fields, True, ()),
        ("deepseek", RAW.endpoint.echo_fields, True, (REASONING,)),
        ("gemini", RAW.endpoint.echo_fields, True, (SIGNATURE,)),
        ("openrouter", RAW.endpoint.echo_fields, True, (NULL,)),
    ],
)
def test_a_provider_sees_of_earlier_turns_what_it_accepts(
    provider: str, echo_fields: object, message_transforms: object, *, echo_call_fields: bool
) -> None:
    config = resolve(provider=provider)

    assert config.endpoint.echo_fields == echo_fields
    assert config.endpoint.echo_call_fields is echo_call_fields
    assert config.endpoint.message_transforms == message_transforms


@pytest.mark.parametrize("provider", ["cerebras", "deepinfra", "moonshot", "zai", "ollama"])
def test_who_knows_no_named_tool_is_not_sent_its_name(provider: str) -> None:
    assert not resolve(provider=provider).endpoint.demand_by_name


@pytest.mark.parametrize(
    ("strategy", "guess"),
    [
        ("prodction", 'did you mean "production"?'),
        ("RAW!", 'did you mean "raw"?'),
        (None, 'known: "baseline", "contract", "guided", "guided_contract", "production", "raw"'),
    ],
)
def test_a_misspelt_strategy_is_one_clear_error(strategy: Any, guess: str) -> None:
    with pytest.raises(ConfigError) as failure:
        resolve(provider="openai", strategy=strategy)

    assert str(failure.value) == f'unknown strategy "{strategy}"; {guess}'


def test_openrouter_routing_says_only_what_was_chosen() -> None:
    before = RAW.replace(request_overrides={"provider": {"sort": "price", "only": ["a"]}})

    after = presets.openrouter_routing(
        before, route="fallback", transforms=[], provider_only=["b"], provider_order=["b", "c"]
    )

    assert changed(before, after) == {"request_overrides"}
    assert after.request_overrides == {
        "provider": {"sort": "price", "only": ["b"], "order": ["b", "c"]},
        "route": "fallback",
        "transforms": [],
    }


def test_openrouter_routing_without_choices_changes_nothing() -> None:
    assert presets.openrouter_routing(UNUSUAL) == UNUSUAL
    ignoring = presets.openrouter_routing(provider_ignore=["x"])
    assert ignoring.request_overrides["provider"] == {"ignore": ["x"]}


def test_tool_calling_changes_what_it_is_told_and_nothing_else() -> None:
    after = presets.tool_calling(UNUSUAL, max_turns=5, max_tool_calls_per_turn=2)

    assert changed(UNUSUAL, after) == {"max_turns", "max_tool_calls_per_turn"}
    with pytest.raises(ConfigError, match='"max_turn"; did you mean "max_turns"'):
        presets.tool_calling(max_turn=5)


STEPS: list[Callable[[ToolCallingConfig], ToolCallingConfig]] = [
    *(PRESET[name] for name in PRESET.names),
    presets.openai_compatible_reliability,
    presets.openrouter_routing,
    presets.tool_calling,
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_every_preset_starts_from_the_recommended_config_by_default(step: Any) -> None:
    assert step() == step(ToolCallingConfig())


def test_baseline_reads_no_calls_from_text_unless_it_is_told_to() -> None:
    config = resolve(provider="groq", strategy="baseline")
    told = resolve(strategy="baseline", config=ToolCallingConfig().replace(text_calls="any"))

    assert config.endpoint.text_calls == "off"
    assert config == without_text_calls(config)
    assert changed(config, resolve(provider="groq", model="unknown")) == {
        "text_calls",
        "body_transforms",
    }
    assert told.endpoint.text_calls == "any"


def test_without_text_calls_nothing_else_changes() -> None:
    config = content_tag_tool_call_fallback(default_tool_calling())
    off = without_text_calls(config)

    assert changed(config, off) == {"text_calls", "response_transforms", "body_transforms"}
    before, after = all_settings(config), all_settings(off)
    assert set(before["response_transforms"]) - set(after["response_transforms"]) == {TAGS}
    assert set(before["body_transforms"]) - set(after["body_transforms"]) == {FAILED_GENERATION}


# Merging settings: overrides in depth, name lists united, and what cannot be merged


@proves("C102")
def test_merge_joins_overrides_in_depth_and_unites_name_lists() -> None:
    merged = merge(
        {"request_overrides": {"provider": {"only": ["a"]}}, "tool_allowlist": ["x", "y"]},
        {"request_overrides": {"provider": {"order": ["b"]}}, "tool_allowlist": " y , z "},
        {"max_turns": 3, "tool_denylist": ("q",)},
        {"max_turns": 4, "request_overrides": None, "tool_allowlist": None},
    )

    assert merged == {
        "request_overrides": {"provider": {"only": ["a"], "order": ["b"]}},
        "tool_allowlist": ["x", "y", "z"],
        "tool_denylist": ["q"],
        "max_turns": 4,
    }


@proves("C103")
@pytest.mark.parametrize("field", [*FAMILIES, "tool_allowlist", "tool_denylist"])
def test_lists_unite_in_order_and_an_empty_one_clears(field: str) -> None:
    assert merge({field: ["b", "a"]}, {field: "a, c"}) == {field: ["b", "a", "c"]}
    empties: tuple[Any, ...] = ([], (), "", " , ")
    for empty in empties:
        assert merge({field: ["a"]}, {field: empty}) == {field: []}
        assert merge({field: ["a"]}, {field: empty}, {field: ["b"]}) == {field: ["b"]}


@proves("C103")
def test_what_was_merged_is_read_as_a_config() -> None:
    merged = merge(
        {"response_transforms": RESPONSE_NORMALIZERS}, {"response_transforms": TAGS.upper()}
    )

    config = ToolCallingConfig.from_mapping(merged)
    assert config.endpoint.response_transforms == (*RESPONSE_NORMALIZERS, TAGS)


def test_merge_leaves_its_arguments_alone() -> None:
    first: JSON = {"request_overrides": {"provider": {"only": ["a"]}}, "tool_denylist": ["x"]}
    second: JSON = {"request_overrides": {"provider": {"only": ["b"]}}, "tool_denylist": ["y"]}

    merge(first, second, second)

    assert first == {"request_overrides": {"provider": {"only": ["a"]}}, "tool_denylist": ["x"]}
    assert merge() == {}


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"request_overrides": 3}, "request_overrides must be a mapping, not int"),
        ({"request_overrides": {"model": "x"}}, "request_overrides cannot set model"),
        ({"tool_denylist": 3}, "tool_denylist must be a list of names, not int"),
    ],
)
def test_merge_refuses_what_cannot_be_merged(mapping: JSON, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        merge({"max_turns": 3}, mapping)
