"""Tests of `surecall.settings.overlay`."""

import copy
import json
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import ConfigError, EndpointProfile, ModelCatalog, ToolCallingConfig, presets
from surecall.settings.catalog import WORKAROUNDS, CatalogModel
from surecall.settings.config import SETTINGS, all_settings
from surecall.settings.endpoint_profile import FAMILIES
from surecall.settings.overlay import deep_merge, setting_docs
from surecall.settings.presets import PRESET, Strategy, raw, resolve
from surecall.settings.providers import provider_table
from surecall.values.types import JSON

# What you set is laid over what is recommended: it changes that field, and no other


# A valid value for each setting that is neither the default nor what any preset sets.
OTHER: JSON = {
    "tool_use_mode": "enforced",
    "tool_failure_policy": "tolerated",
    "tool_allowlist": ("a",),
    "tool_denylist": ("b",),
    "tool_choice": "required",
    "policy_error_mode": "raise",
    "verify_claims": "off",
    "call_protocol": "prompted",
    "validate_arguments": False,
    "event_context_keys": ("user",),
    "contract": {"all_of": ["a"]},
    "final_ladder": ("require",),
    "fix_empty_final": False,
    "fix_empty_final_user_text": "And?",
    "fix_empty_final_disable_tools": False,
    "max_turns": 20,
    "run_deadline_s": 7.0,
    "tool_timeout_s": 7.0,
    "max_tool_args_bytes": 7,
    "max_tool_output_bytes": 7,
    "max_tool_calls_per_turn": 7,
    "max_concurrent_tools": 7,
    "max_total_tool_calls": 7,
    "max_unknown_tool_calls": 7,
    "max_tools_left_running": 7,
    "repeat_note_at": 1,
    "repeat_block_at": 4,
    "repeat_stop_at": 7,
    "request_overrides": {"parallel_tool_calls": True, "seed": 7},
    "fallback_retry_count": 7,
    "default_max_tokens": 7,
    "unsupported_options": ("seed",),
    "tools_off_style": "tool_choice_none",
    "demand_by_name": False,
    "max_tools_per_request": 7,
    "max_tool_definitions_count": 7,
    "max_tool_definitions_bytes": 7,
    "keep_text_beside_calls": True,
    "echo_fields": ("x",),
    "echo_call_fields": False,
    "withheld_fields": (),
    "short_call_ids": True,
    "name_tool_messages": False,
    "bridge_user_after_tool": True,
    "text_calls": "off",
    "text_call_rules": (),
    "strip_thinking": False,
    "calls_in_order": False,
    "coerce_arguments": False,
    "decode_html_entities": True,
    "stringify_containers": True,
    "guided_thought": 7,
    "guided_fit_check": True,
    "choice_temperature": 0.7,
    "closing_reminder": True,
    "block_repeated_success": True,
    **dict.fromkeys(FAMILIES, ()),
    "message_transforms": ("assistant_tool_calls_content_null_if_blank",),
    "tool_transforms": ("openai_tools_untyped_to_any_type",),
    "tool_result_transforms": ("tool_result_compact_envelope",),
}
DEFAULTS = all_settings(ToolCallingConfig())
PLACES = [
    *((provider, "") for provider in (*provider_table().by_name, "")),
    *((provider, workaround) for provider in ("openrouter", "") for workaround in WORKAROUNDS),
]
STRATEGIES: tuple[Strategy, ...] = ("production", "baseline", "guided")


def catalog(workaround: str) -> ModelCatalog:
    return ModelCatalog((CatalogModel("m", (workaround,) if workaround else ()),))


def by_keyword(name: str, value: Any) -> ToolCallingConfig:
    if name in EndpointProfile.__struct_fields__:
        return ToolCallingConfig(endpoint=EndpointProfile(**{name: value}))
    return ToolCallingConfig(**{name: value})


def every_way(name: str, value: Any) -> list[ToolCallingConfig]:
    return [
        ToolCallingConfig.from_mapping({name: value}),
        by_keyword(name, value),
        ToolCallingConfig().replace(**{name: value}),
    ]


def test_there_is_another_value_for_every_setting() -> None:
    assert OTHER.keys() == set(SETTINGS) == DEFAULTS.keys()
    plain = {name: ToolCallingConfig().replace(**{name: OTHER[name]}) for name in OTHER}
    assert all(all_settings(plain[name])[name] != DEFAULTS[name] for name in OTHER if OTHER[name])


@pytest.mark.parametrize(("provider", "workaround"), PLACES)
def test_setting_one_field_changes_that_field_and_nothing_else(
    provider: str, workaround: str
) -> None:
    known: Any = {"provider": provider, "model": "m", "catalog": catalog(workaround)}
    usual = all_settings(resolve(**known))
    for name in SETTINGS:
        for value in (OTHER[name], DEFAULTS[name]):
            configs = every_way(name, value)
            wanted = all_settings(configs[0])[name]
            if name == "request_overrides":
                wanted = deep_merge(usual[name], wanted)
            for config in configs:
                found = resolve(**known, config=config)
                assert found.explicit == config.explicit == {name}
                assert all_settings(found) == usual | {name: wanted}


@given(
    st.sets(st.sampled_from(SETTINGS), max_size=5),
    st.sampled_from([*provider_table().by_name, ""]),
    st.sampled_from([*WORKAROUNDS, ""]),
    st.sampled_from(STRATEGIES),
    st.lists(st.sampled_from(PRESET.names), max_size=3),
)
def test_no_preset_overwrites_what_was_set(
    names: set[str], provider: str, workaround: str, strategy: Strategy, more: list[str]
) -> None:
    chosen = {name: OTHER[name] for name in names}
    before = ToolCallingConfig.from_mapping(chosen)

    config = resolve(
        provider=provider, model="m", strategy=strategy, catalog=catalog(workaround), config=before
    )
    for name in more:
        config = PRESET[name](config)

    assert config.explicit == before.explicit == names
    for name in names - {"request_overrides"}:
        assert all_settings(config)[name] == all_settings(before)[name]
    for key, value in chosen.get("request_overrides", {}).items():
        assert config.request_overrides[key] == value


def stays(preset: str, field: str) -> bool:
    """Whether a preset sets a field to its default, which a provider may recommend to change."""
    return (preset, field) == ("mistral_compat", "name_tool_messages")


@pytest.mark.parametrize("name", PRESET.names)
def test_a_preset_that_you_call_wins_over_what_is_recommended_and_disables_nothing(
    name: str,
) -> None:
    for provider in (*provider_table().by_name, ""):
        given_ = PRESET[name](ToolCallingConfig())
        found = all_settings(resolve(provider=provider, model="deepseek/x", config=given_))
        usual = all_settings(resolve(provider=provider, model="deepseek/x"))
        for field, value in all_settings(given_).items():
            if value == DEFAULTS[field] and not stays(name, field):
                assert found[field] == usual[field]
            elif field in FAMILIES:
                assert set(found[field]) == {*usual[field], *value}
            else:
                assert found[field] == value


def test_a_preset_that_removes_transforms_removes_them_from_what_is_recommended() -> None:
    off = resolve(provider="deepseek", config=presets.without_text_calls())

    assert off == presets.without_text_calls(resolve(provider="deepseek"))


@pytest.mark.parametrize("provider", [*provider_table().by_name, ""])
def test_raw_stays_raw_whatever_is_recommended(provider: str) -> None:
    config = raw(max_turns=3)

    assert resolve(provider=provider, model="deepseek/x", config=config) is config
    assert all_settings(config) == all_settings(raw()) | {"max_turns": 3}


def test_a_resolved_config_stays_as_it_is_and_can_still_be_changed() -> None:
    config = resolve(provider="mistral")

    assert resolve(provider="openai", config=config) is config
    assert config.replace(max_turns=3).is_resolved
    assert presets.small_model(config).is_resolved
    assert not ToolCallingConfig().is_resolved


@pytest.mark.parametrize("config", [raw(max_turns=3), resolve(provider="mistral")])
def test_a_complete_mapping_needs_nothing_recommended(config: ToolCallingConfig) -> None:
    again = ToolCallingConfig.from_mapping(config.to_mapping())

    assert resolve(provider="openai", config=again) == config
    assert again.is_resolved


def test_a_config_keeps_what_was_set_when_it_is_copied_and_pickled() -> None:
    config = ToolCallingConfig(max_turns=12, endpoint={"short_call_ids": False})  # type: ignore[arg-type]  # plain data is accepted

    for same in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):  # noqa: S301 - our own bytes
        assert same == config
        assert same.explicit == {"max_turns", "short_call_ids"}
    assert pickle.loads(pickle.dumps(raw())).is_resolved  # noqa: S301 - our own bytes


def test_a_config_shows_what_is_not_the_default() -> None:
    assert repr(ToolCallingConfig()) == "ToolCallingConfig()"
    config = ToolCallingConfig(max_turns=12).replace(short_call_ids=True)
    assert repr(config) == (
        "ToolCallingConfig(max_turns=12, endpoint=EndpointProfile(short_call_ids=True))"
    )


def test_an_endpoint_may_be_given_as_a_profile_as_a_mapping_or_flat() -> None:
    profile = EndpointProfile(echo_fields=("x",), short_call_ids=True)
    nested = {"endpoint": {"echo_fields": "x", "short_call_ids": True}}
    mixed = {"endpoint": {"echo_fields": "x"}, "short_call_ids": True}
    flat = {"echo_fields": "x", "short_call_ids": True}

    for mapping in (nested, mixed, flat, {"endpoint": profile}):
        config = ToolCallingConfig.from_mapping(mapping)
        assert config.endpoint == profile
        assert config.explicit == {"echo_fields", "short_call_ids"}
    assert ToolCallingConfig().replace(endpoint=profile, short_call_ids=False).endpoint == (
        EndpointProfile(echo_fields=("x",))
    )


def test_a_field_of_the_endpoint_may_be_a_keyword_of_the_config() -> None:
    given: Any = {"short_call_ids": True, "max_turns": 3}
    config = ToolCallingConfig(**given)

    assert config == ToolCallingConfig.from_mapping(given)
    assert config.explicit == {"short_call_ids", "max_turns"}
    mixed: Any = {"endpoint": EndpointProfile(echo_fields=("x",)), "short_call_ids": True}
    assert ToolCallingConfig(**mixed).explicit == {"echo_fields", "short_call_ids"}


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        (
            ToolCallingConfig,
            "max_turn",
            'ToolCallingConfig: unknown configuration key "max_turn"; ',
        ),
        (EndpointProfile, "short_ids", 'EndpointProfile: unknown field "short_ids"; did you mean'),
        (EndpointProfile, "max_turns", 'EndpointProfile: unknown field "max_turns"; '),
    ],
)
def test_a_misspelt_field_is_refused_with_a_guess(kind: Any, name: str, sentence: str) -> None:
    with pytest.raises(TypeError) as failure:
        kind(**{name: 3})
    assert str(failure.value).startswith(sentence)


@pytest.mark.parametrize("provider", [*provider_table().by_name, ""])
def test_a_partial_config_stays_partial_as_plain_data(provider: str) -> None:
    partial = presets.stringify_containers(ToolCallingConfig(max_turns=12, tool_denylist=("a",)))
    plain = json.loads(json.dumps(partial.to_mapping()))

    assert plain == {"max_turns": 12, "tool_denylist": ["a"], "stringify_containers": True}
    again = ToolCallingConfig.from_mapping(plain)
    assert again == partial
    assert resolve(provider=provider, config=again) == resolve(provider=provider, config=partial)


@pytest.mark.parametrize("provider", [*provider_table().by_name, ""])
def test_a_resolved_config_is_complete_as_plain_data_and_as_json(provider: str) -> None:
    config = resolve(provider=provider, model="m", config=ToolCallingConfig(max_turns=3))

    assert config.to_mapping() == all_settings(config)
    assert ToolCallingConfig.from_mapping(config.to_mapping()) == config
    decoded = msgspec.json.decode(msgspec.json.encode(config), type=ToolCallingConfig)
    assert resolve(provider="mistral", config=decoded) is decoded == config


def test_a_config_that_no_place_was_named_for_is_open_to_what_is_recommended() -> None:
    open_one = resolve(config=ToolCallingConfig(max_turns=3))

    assert not open_one.is_resolved
    assert resolve(provider="mistral", config=open_one) == resolve(
        provider="mistral", config=ToolCallingConfig(max_turns=3)
    )


def test_a_new_endpoint_takes_the_place_of_the_old_one() -> None:
    config = ToolCallingConfig().replace(short_call_ids=True).replace(endpoint=EndpointProfile())

    assert config.explicit == frozenset()
    assert config == ToolCallingConfig()


@pytest.mark.parametrize(
    ("endpoint", "sentence"),
    [
        ({"short_ids": True}, 'unknown configuration key "short_ids"'),
        (3, "endpoint must be an EndpointProfile, not int"),
        ({"short_call_ids": 1}, "short_call_ids: Expected `bool`, got `int`"),
    ],
)
def test_a_wrong_endpoint_is_one_clear_error(endpoint: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as failure:
        ToolCallingConfig(endpoint=endpoint)
    assert str(failure.value).startswith(sentence)


def test_no_config_shares_the_mapping_of_another() -> None:
    ToolCallingConfig().request_overrides["seed"] = 7

    assert ToolCallingConfig().request_overrides == {"parallel_tool_calls": False}


def test_the_origin_of_every_setting_is_known() -> None:
    config = ToolCallingConfig(max_turns=20, endpoint=EndpointProfile(short_call_ids=False))
    known: Any = {
        "provider": "Open-Router",
        "model": "m",
        "catalog": catalog("mistral_compat"),
        "strategy": "guided",
        "config": presets.stringify_containers(config),
    }
    found = presets.origins(**known)

    assert found["max_turns"] == found["short_call_ids"] == "config"
    assert found["stringify_containers"] == "config"
    assert found["message_transforms"] == "provider openrouter"
    assert found["bridge_user_after_tool"] == "model workaround mistral_compat"
    assert found["call_protocol"] == "strategy guided"
    resolved = all_settings(resolve(**known))
    assert {name for name in DEFAULTS if resolved[name] != DEFAULTS[name]} <= found.keys()


def test_a_strategy_may_be_an_origin_too() -> None:
    assert presets.origins() == {}
    assert presets.origins(strategy="baseline")["text_calls"] == "strategy baseline"
    assert presets.origins(strategy="raw")["coerce_arguments"] == "strategy raw"


def test_a_preset_stays_in_force_where_it_sets_a_field_to_its_default() -> None:
    for provider in ("openai", "openrouter", "groq"):
        found = resolve(provider=provider, config=presets.mistral_compat())
        assert found.endpoint.name_tool_messages
    assert not resolve(provider="openai").endpoint.name_tool_messages


def test_nothing_inside_a_config_is_shared_with_the_caller_or_a_copy() -> None:
    given_: Any = {"provider": {"order": ["x"]}}
    choice: Any = {"type": "function", "function": {"name": "a"}}
    config = ToolCallingConfig(request_overrides=given_, tool_choice=choice)
    copies = [config.replace(max_turns=3), resolve(provider="openai", config=config)]
    given_["provider"]["order"].append("y")
    choice["function"]["name"] = "b"
    config.request_overrides["provider"]["order"].append("z")

    for each in copies:
        assert each.request_overrides["provider"] == {"order": ["x"]}
    assert config.tool_choice == {"type": "function", "function": {"name": "a"}}


def test_a_tool_choice_that_is_no_json_is_refused() -> None:
    loop: Any = {}
    loop["a"] = loop
    for choice in (loop, {"a": float("nan")}, {"a": object()}):
        with pytest.raises(ConfigError, match="tool_choice cannot be written as JSON"):
            ToolCallingConfig(tool_choice=choice)


# The texts below the settings: every setting has one


def test_every_setting_is_explained_where_it_is_declared() -> None:
    for kind in (ToolCallingConfig, EndpointProfile):
        assert tuple(setting_docs(kind)) == kind.__struct_fields__


TEXTS = setting_docs(ToolCallingConfig) | setting_docs(EndpointProfile)


@pytest.mark.parametrize("name", TEXTS)
def test_an_explanation_is_a_line_that_ends_with_a_full_stop(name: str) -> None:
    sentence = TEXTS[name]

    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "  " not in sentence
