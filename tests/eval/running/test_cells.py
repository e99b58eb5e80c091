"""Cells: what a model, a profile and a strategy mean together."""

from typing import Any

import pytest

from surecall.eval.running.cells import Model, PlannedCell, split_strategy
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.storage.trial import Cell
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import TAG_FALLBACK, without_text_calls
from tests.eval.running.test_matrix import PERSONAS, ROUTER, SIM, planned
from tests.support.spec import proves


def only_cell(endpoint: Endpoint = ROUTER, **changes: Any) -> PlannedCell:
    (found,) = planned(endpoint, **changes).cells
    return found


def config_of(**changes: Any) -> ToolCallingConfig:
    return only_cell(**changes).config


def test_a_likeness_is_filed_under_its_own_name() -> None:
    cell = only_cell(SIM, model_filter="google", sampling_profile_filter="creative")

    assert cell.cell == Cell("sim/like-gemini", "gemini_2_5_flash_creative", "production")
    assert cell.options == {"temperature": 1.5}
    assert cell.config.request_overrides == {"parallel_tool_calls": False}


def test_lanes_are_makers_behind_a_router_and_endpoints_elsewhere() -> None:
    assert Model("x-ai/grok-4.1-fast").lane == "x-ai"
    assert Model("llama3", "custom").lane == "custom"
    assert PERSONAS[0].lane == "sim/clean"


def test_raw_gets_no_preset_and_no_parallel_tool_calls() -> None:
    config = config_of(model_filter="qwen/qwen3-235b*", strategy_filter="raw", fallback_matrix=True)

    assert config.request_overrides == {}
    assert config.endpoint.response_transforms == ()
    assert config.tool_use_mode == "enforced"


@proves("C134")
def test_the_fallback_matrix_doubles_a_cell_and_leaves_out_the_models_own_workaround() -> None:
    off, on = planned(model_filter="qwen/qwen3-235b*", fallback_matrix=True).cells
    usual = only_cell(model_filter="qwen/qwen3-235b*")

    assert [split_strategy(each.cell.strategy) for each in (off, on, usual)] == [
        ("production", "fallback_off"),
        ("production", "fallback_on"),
        ("production", "best_effort"),
    ]
    assert off.config == without_text_calls(usual.config) != usual.config
    assert off.config.endpoint.text_calls == "off"
    assert on.config == usual.config


def test_text_calls_can_be_read_for_every_model() -> None:
    usual = config_of(model_filter="x_ai")
    forced = config_of(model_filter="x_ai", enable_content_tag_tool_call_fallback=True)

    assert TAG_FALLBACK not in usual.endpoint.response_transforms
    assert TAG_FALLBACK in forced.endpoint.response_transforms


def test_settings_for_tools_reach_the_config_and_presets_do_not_undo_them() -> None:
    config = config_of(
        model_filter="deepseek/deepseek-v3.2*",
        tool_use_mode="relaxed",
        tool_failure_policy="tolerated",
        tool_calling_fallback_retry_count=2,
        fix_empty_final=False,
        tool_allowlist=("state_get",),
        timeout=None,
    )

    assert (config.tool_use_mode, config.tool_failure_policy) == ("relaxed", "tolerated")
    assert (config.fallback_retry_count, config.fix_empty_final) == (2, False)
    assert config.tool_allowlist == ("state_get",)
    assert config.run_deadline_s == 86_400


def test_routing_is_sent_and_the_users_json_stands_above_it() -> None:
    config = config_of(
        model_filter="x_ai",
        route="fallback",
        transforms=(),
        provider_only=("Groq",),
        request_overrides={"route": "other"},
    )

    assert config.request_overrides == {
        "provider": {"only": ["Groq"]},
        "route": "other",
        "transforms": [],
        "parallel_tool_calls": False,
    }


@pytest.mark.parametrize(
    ("changes", "required"),
    [
        ({}, False),
        ({"sampling_profile_filter": "grok_default"}, True),
        ({"temperature": 0.5}, True),
        ({"temperature": 0.5, "require_parameters": False}, False),
        ({"require_parameters": True}, True),
    ],
)
def test_providers_must_honour_sampling_values_where_there_are_any(
    changes: dict[str, Any], *, required: bool
) -> None:
    overrides = config_of(model_filter="x_ai", **changes).request_overrides

    assert ("require_parameters" in overrides.get("provider", {})) is required


def test_sampling_settings_stand_above_the_profile() -> None:
    cell = only_cell(
        model_filter="x_ai", sampling_profile_filter="grok_default", temperature=1.0, top_k=3
    )

    assert cell.options == {"temperature": 1.0, "top_k": 3}
