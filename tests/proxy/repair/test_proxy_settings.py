"""What a proxy is told, and the configuration that follows from it."""

from typing import Any

import pytest

from surecall.proxy.repair.proxy_settings import ProxySettings
from surecall.values.errors import ConfigError


def test_the_guards_of_the_application_are_not_ours() -> None:
    config = ProxySettings().config_for("m", None, 0)

    assert config.max_turns == 3
    assert config.max_total_tool_calls >= 1_000_000
    assert config.repeat_block_at >= 1_000_000
    assert config.final_ladder == ()
    assert config.contract is None
    assert config.request_overrides == {}
    assert config.tool_choice == "auto"
    assert not config.endpoint.name_tool_messages


def test_presets_by_upstream_and_model_are_on() -> None:
    assert ProxySettings("mistral").config_for("m", None, 0).endpoint.short_call_ids
    assert ProxySettings("gemini").config_for("m", None, 0).endpoint.name_tool_messages
    assert (
        ProxySettings(presets=("guided_calls",)).config_for("m", None, 0).call_protocol == "guided"
    )


def test_guards_can_be_turned_on() -> None:
    guarded = ProxySettings(guards={"turns": 5, "calls": 7, "repeats": 3})
    config = guarded.config_for("m", "required", 4)

    assert (config.max_turns, config.max_total_tool_calls, config.repeat_block_at) == (5, 7, 3)
    assert config.tool_choice == "required"
    assert guarded.config_for("m", "required", 1).max_turns == 4


def test_the_number_of_tools_may_be_limited() -> None:
    assert ProxySettings().config_for("m", None, 0).endpoint.max_tools_per_request is None
    limited = ProxySettings("openai").config_for("m", None, 0).endpoint
    assert limited.max_tools_per_request == 128
    config = ProxySettings("openai", max_tools=20).config_for("m", None, 0, one_call=True)
    assert config.endpoint.max_tools_per_request == 20
    assert config.max_tool_calls_per_turn == 1


def test_without_repairs_an_empty_reply_is_passed_on() -> None:
    config = ProxySettings(repair=0).config_for("m", None, 0)
    assert (config.max_turns, config.fix_empty_final) == (1, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"presets": ("nope",)},
        {"repair": -1},
        {"repair": 99},
        {"guards": {"speed": 1}},
        {"guards": {"turns": 0}},
        {"stream": "fast"},
        {"max_tools": 0},
        {"max_tools": True},
        {"max_tools": "many"},
        {"provider": "openruter"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_told_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ProxySettings(**wrong)
