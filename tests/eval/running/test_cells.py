"""Tests of `surecall.eval.running.cells`."""

from pathlib import Path
from typing import Any

import pytest

from surecall.eval.running.cells import (
    Model,
    PlannedCell,
    is_chain,
    normalize_chains,
    parse_chain,
    split_strategy,
)
from surecall.eval.running.trial_run import setup_for_cell
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.storage.trial import Cell, Trial
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import TAG_FALLBACK, resolve, without_text_calls
from surecall.values.errors import ConfigError
from tests.support.evaluations import (
    IMITATORS,
    OWN_ENDPOINT,
    ROUTER_ENDPOINT,
    SIM_ENDPOINT,
    evaluate_simulated,
    plan_at,
    plan_simulated,
    planned_models,
)
from tests.support.spec import proves

# Cells: what a model, a profile and a strategy mean together


def only_cell(endpoint: Endpoint = ROUTER_ENDPOINT, **changes: Any) -> PlannedCell:
    (found,) = plan_at(endpoint, **changes).cells
    return found


def config_of(**changes: Any) -> ToolCallingConfig:
    return only_cell(**changes).config


def test_a_likeness_is_filed_under_its_own_name() -> None:
    cell = only_cell(SIM_ENDPOINT, model_filter="google", sampling_profile_filter="creative")

    assert cell.cell == Cell("sim/like-gemini", "gemini_2_5_flash_creative", "production")
    assert cell.options == {"temperature": 1.5}
    assert cell.config.request_overrides == {"parallel_tool_calls": False}


def test_lanes_are_makers_behind_a_router_and_endpoints_elsewhere() -> None:
    assert Model("x-ai/grok-4.1-fast").lane == "x-ai"
    assert Model("llama3", "custom").lane == "custom"
    assert IMITATORS[0].lane == "sim/clean"


def test_raw_gets_no_preset_and_no_parallel_tool_calls() -> None:
    config = config_of(model_filter="qwen/qwen3-235b*", strategy_filter="raw", fallback_matrix=True)

    assert config.request_overrides == {}
    assert config.endpoint.response_transforms == ()
    assert config.tool_use_mode == "enforced"


@proves("C134")
def test_the_fallback_matrix_doubles_a_cell_and_leaves_out_the_models_own_workaround() -> None:
    off, on = plan_at(model_filter="qwen/qwen3-235b*", fallback_matrix=True).cells
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


# A chain of models in an evaluation: how it is written, what it means, who answered


def test_a_chain_is_one_model_with_links() -> None:
    (cell,) = plan_at(
        model_filter="x-ai/grok-4.1-fast > openai/gpt-5.2", scenarios="chat_only"
    ).cells

    assert cell.cell.model == cell.model.id == "x-ai/grok-4.1-fast>openai/gpt-5.2:nitro"
    assert cell.model.sent_id == "x-ai/grok-4.1-fast"
    assert cell.model.lane == "x-ai"
    assert [name for name, _ in cell.fallbacks] == ["openai/gpt-5.2:nitro"]


def test_every_model_of_a_chain_has_the_config_that_fits_it() -> None:
    alone = plan_at(model_filter="deepseek/deepseek-v3.2", scenarios="chat_only").cells[0]
    (cell,) = plan_at(
        model_filter="x-ai/grok-4.1-fast>deepseek/deepseek-v3.2", scenarios="chat_only"
    ).cells

    assert cell.fallbacks == ((alone.model.id, alone.config),)
    assert cell.config != alone.config
    assert resolve(
        provider="openrouter", model="x-ai/grok-4.1-fast"
    ).endpoint.message_transforms == (cell.config.endpoint.message_transforms)


def test_a_chain_stands_beside_other_models_and_globs_name_its_links() -> None:
    assert planned_models("sim/clean>sim/like-gem*,sim/clean", SIM_ENDPOINT) == [
        "sim/clean",
        "sim/clean>sim/like-gemini",
    ]
    assert planned_models("mine>yours", OWN_ENDPOINT) == ["mine>yours"]


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("x-ai/grok-4.1-fast>", "a name is missing"),
        (">", "a name is missing"),
        ("x-ai/grok-4.1-fast>google", '"google" matches several models'),
        ("x-ai/grok-4.1-fast>gogle", "did you mean"),
    ],
)
def test_a_chain_that_cannot_be_meant_is_refused(expression: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        planned_models(expression, ROUTER_ENDPOINT)


def test_real_and_simulated_models_make_no_chain() -> None:
    known = {"a": (Model("a"),), "b": (Model("b", simulated=True),)}
    with pytest.raises(ConfigError, match="mixes simulated and real"):
        parse_chain("a>b", lambda name: known[name])


def test_blanks_around_the_sign_do_not_count() -> None:
    assert normalize_chains("a > b , c") == "a>b , c"
    assert is_chain("a>b")
    assert not is_chain("a")


def test_a_trial_of_a_chain_says_who_answered(tmp_path: Path) -> None:
    what = plan_simulated(
        model_filter="sim/http-402>sim/clean,sim/clean", scenarios="happy_path", trials=1
    )
    _, trials = evaluate_simulated(tmp_path, what)
    by_model: dict[str, Trial] = {trial.key.cell.model: trial for trial in trials}
    chained = by_model["sim/http-402>sim/clean"]

    assert (chained.status, chained.models) == ("passed", ("sim/clean",))
    assert by_model["sim/clean"].models == ()
    assert setup_for_cell(what.cells[-1], what).fallbacks
