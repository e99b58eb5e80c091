"""The matrix: what is chosen, in which order, what it means, and what cannot be."""

from collections import Counter
from typing import Any

import pytest

from surecall.eval.running.cells import Model
from surecall.eval.running.matrix import (
    Library,
    NothingSelected,
    Plan,
    chosen,
    in_shard,
    models_at,
    plan,
    select_models,
    strategies_of,
)
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.scenario import select_scenarios
from surecall.eval.settings.endpoint import OPENROUTER_URL, Endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.parse import Shard
from surecall.eval.storage.done import Done
from surecall.eval.storage.trial import Cell, Key
from surecall.settings.catalog import ModelCatalog
from surecall.settings.sampling import SamplingCatalog
from surecall.values.errors import ConfigError
from tests.support.spec import proves

CATALOG, PROFILES = ModelCatalog.builtin(), SamplingCatalog.builtin()
ROUTER = Endpoint(OPENROUTER_URL, "/v1", "openrouter")
OWN = Endpoint("http://localhost:8000", "/v1", "custom", explicit=True)
SIM = Endpoint("sim", "/v1", "sim", simulated=True)
PERSONAS = (
    Model("sim/clean", simulated=True, listed=False),
    Model("sim/like-grok", imitates="x-ai/grok-4.1-fast", simulated=True),
    Model("sim/like-gemini", imitates="google/gemini-2.5-flash:nitro", simulated=True),
)
HER = "minimax/minimax-m2-her"


def planned(endpoint: Endpoint = ROUTER, **changes: Any) -> Plan:
    settings = Settings(**changes)
    models = PERSONAS if endpoint.simulated else models_at(endpoint, CATALOG)
    scenarios = select_scenarios(settings.scenarios, SCENARIOS)
    return plan(settings, scenarios, Library(models, CATALOG, PROFILES), endpoint)


def models(expression: str, endpoint: Endpoint = ROUTER) -> list[str]:
    found = planned(endpoint, model_filter=expression, scenarios="chat_only").cells
    return [each.model.id for each in found]


@proves("C120")
def test_a_filter_keeps_the_order_of_the_catalog() -> None:
    assert models("google,!google/gemini-3-pro-preview:*") == [
        "google/gemini-2.5-flash:nitro",
        "google/gemini-3-flash-preview:nitro",
    ]
    assert models("openai/gpt-5.2,x_ai") == ["x-ai/grok-4.1-fast", "openai/gpt-5.2:nitro"]


@proves("I25")
def test_all_but_one_leaves_that_one_out() -> None:
    everything = models("all")

    assert len(everything) == 17
    assert models("all,!x_ai") == [name for name in everything if name != "x-ai/grok-4.1-fast"]


def test_an_unknown_model_is_not_the_same_as_an_empty_choice() -> None:
    with pytest.raises(ConfigError, match="did you mean") as unknown:
        models("gogle")
    with pytest.raises(NothingSelected, match="leaves nothing"):
        models("google,!google")
    with pytest.raises(ConfigError, match="empty") as blank:
        models(" , ")

    assert not isinstance(unknown.value, NothingSelected)
    assert not isinstance(blank.value, NothingSelected)


def test_an_unlisted_model_needs_the_address_of_its_endpoint() -> None:
    with pytest.raises(ConfigError, match="unknown model"):
        models("qwen/qwen9")

    router = Endpoint(OPENROUTER_URL, "/v1", "openrouter", explicit=True)
    assert models("qwen/qwen9,x_ai", router) == ["x-ai/grok-4.1-fast", "qwen/qwen9"]
    with pytest.raises(ConfigError, match="unknown model"):
        models("qwen/qwen9*", router)


def test_at_an_endpoint_of_ones_own_only_ids_count() -> None:
    assert models("llama3,qwen3:8b", OWN) == ["llama3", "qwen3:8b"]
    assert models("openai/gpt-5.2", OWN) == ["openai/gpt-5.2"]
    with pytest.raises(ConfigError, match="name one by its id"):
        models("stable", OWN)


def test_the_simulator_serves_likenesses_by_what_they_imitate_and_others_by_name() -> None:
    assert models("stable", SIM) == ["sim/like-gemini"]
    assert models("all", SIM) == ["sim/like-grok", "sim/like-gemini"]
    assert models("sim", SIM) == ["sim/like-grok", "sim/like-gemini"]
    assert models("sim/clean,grok", SIM) == ["sim/like-grok", "sim/clean"]
    assert models("sim/c*", SIM) == ["sim/clean"]
    with pytest.raises(ConfigError, match="unknown model"):
        models("gpt-5.2", SIM)


@proves("C129")
def test_profiles_go_only_to_the_models_they_are_meant_for() -> None:
    expression = "openai/gpt-5.2:*,qwen/qwen3-30b*,google/gemini-2.5*"
    cells = planned(model_filter=expression, sampling_profile_filter="default,recommended").cells

    assert [(each.model.id, each.cell.profile) for each in cells] == [
        ("google/gemini-2.5-flash:nitro", "default"),
        ("openai/gpt-5.2:nitro", "default"),
        ("qwen/qwen3-30b-a3b-instruct-2507:nitro", "default"),
        ("qwen/qwen3-30b-a3b-instruct-2507:nitro", "qwen_recommended"),
    ]


def test_applicability_can_be_ignored() -> None:
    cells = planned(
        model_filter="x_ai",
        sampling_profile_filter="qwen",
        sampling_profile_enforce_applicability=False,
    ).cells

    assert [each.cell.profile for each in cells] == ["qwen_recommended"]


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="profiles: nothing is called"):
        planned(sampling_profile_filter="recomended")


def test_production_may_take_the_recommended_profile_in_place_of_the_default() -> None:
    cells = planned(
        model_filter="x_ai,anthropic",
        strategy_filter="both",
        production_auto_sampling_profile=True,
    ).cells

    assert [(each.model.maker, each.cell.profile, each.cell.strategy) for each in cells] == [
        ("x-ai", "default", "baseline"),
        ("x-ai", "grok_default", "production"),
        ("anthropic", "default", "baseline"),
        ("anthropic", "default", "production"),
    ]


@pytest.mark.parametrize(
    ("changes", "strategies"),
    [
        ({}, ("production",)),
        ({"strategy_filter": "both"}, ("baseline", "production")),
        ({"strategy_filter": "production,raw"}, ("raw", "production")),
        ({"strategy_filter": "all,!raw,!contract,!guided*"}, ("baseline", "production")),
        ({"strategy_filter": "raw", "strategy_matrix": True}, ("baseline", "production")),
    ],
)
def test_strategies_are_chosen_by_name_or_as_a_matrix(
    changes: dict[str, Any], strategies: tuple[str, ...]
) -> None:
    assert strategies_of(Settings(**changes)) == strategies


def test_an_id_of_the_simulator_is_simulated_wherever_it_is_served() -> None:
    library = Library((), CATALOG, PROFILES)

    found = select_models("sim/clean,sim/lazy", library, OWN)
    assert [(model.id, model.simulated) for model in found] == [
        ("sim/clean", True),
        ("sim/lazy", True),
    ]
    assert not select_models("a/b", library, OWN)[0].simulated
    with pytest.raises(ConfigError, match="are simulated, the others are not"):
        select_models("sim/clean,a/b", library, OWN)


def test_a_misspelt_strategy_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match='did you mean "production"'):
        planned(strategy_filter="prodution")


def test_a_tool_that_no_scenario_has_is_refused() -> None:
    with pytest.raises(ConfigError, match='did you mean "state_get"'):
        planned(tool_allowlist=("stategt",))


def test_a_model_without_tools_skips_tool_scenarios_in_production_only() -> None:
    both = planned(model_filter=HER, strategy_filter="both", scenarios="simple", trials=2)

    assert [(skip.cell.strategy, skip.scenario) for skip in both.skips] == [
        ("production", "happy_path")
    ]
    assert list(both.skipped_keys()) == [
        (Key(Cell(HER), "happy_path", trial), f"tools are off for {HER} in this strategy")
        for trial in (1, 2)
    ]
    assert [key.scenario for key in both.keys(only=[Cell(HER)])] == ["chat_only"] * 2


def test_with_tools_off_everywhere_only_the_control_is_left() -> None:
    off = planned(model_filter="x_ai", tool_use_mode="disabled", trials=1)

    assert list(off.keys()) == [Key(Cell("x-ai/grok-4.1-fast"), "chat_only", 1)]
    with pytest.raises(NothingSelected, match="tools are off for the whole evaluation"):
        planned(tool_use_mode="disabled", scenarios="happy_path")


def test_keys_come_trial_by_trial_in_a_fixed_order() -> None:
    found = planned(model_filter="x_ai,anthropic", scenarios="simple", trials=2)
    expected = [
        Key(Cell(model), scenario, trial)
        for trial in (1, 2)
        for model in ("x-ai/grok-4.1-fast", "anthropic/claude-opus-4.6:nitro")
        for scenario in ("happy_path", "chat_only")
    ]

    assert list(found.keys()) == expected
    assert list(found.keys(2, 2)) == expected[4:]


@pytest.mark.parametrize("shard", [None, Shard(1, 3)])
def test_what_is_left_is_counted_like_the_keys_that_are_not_done(shard: Shard | None) -> None:
    found = planned(
        model_filter=HER, strategy_filter="both", scenarios="simple", trials=20, shard=shard
    )
    every = list(found.keys(3, 15))
    some, cell = every[::3], every[0].cell

    assert found.left(None, 3, 15) == Counter((key.cell, key.scenario) for key in every)
    assert found.left(Done(some), 3, 15, [cell]) == Counter(
        (key.cell, key.scenario) for key in every if key not in some and key.cell == cell
    )
    assert found.left().total() == len(list(found.keys()))


def test_an_open_number_of_trials_begins_with_ten() -> None:
    automatic = planned(trials="auto")

    assert automatic.automatic
    assert automatic.trials == 10
    assert not planned().automatic


def test_shards_share_all_keys_among_them_and_keep_them_when_there_are_more() -> None:
    whole = planned(model_filter="all", trials=3)
    parts = [planned(model_filter="all", trials=3, shard=Shard(i, 4)) for i in (1, 2, 3, 4)]
    shared = [key for part in parts for key in (*part.keys(), *dict(part.skipped_keys()))]
    larger = planned(model_filter="all", trials=5, shard=Shard(2, 4))

    assert sorted(shared) == sorted((*whole.keys(), *dict(whole.skipped_keys())))
    assert set(parts[1].keys()) <= set(larger.keys())
    assert in_shard(Key(Cell("m"), "s", 1), Shard(1, 1))


def test_a_shard_without_a_part_has_nothing_to_run() -> None:
    few: dict[str, Any] = {"model_filter": "x_ai", "scenarios": "chat_only", "trials": 1}
    (key,) = planned(**few).keys()
    with_part, without = sorted(
        (Shard(1, 2), Shard(2, 2)), key=lambda part: not in_shard(key, part)
    )

    assert list(planned(**few, shard=with_part).keys()) == [key]
    with pytest.raises(NothingSelected, match="no part"):
        planned(**few, shard=without)


def test_a_shard_needs_a_number_of_trials() -> None:
    with pytest.raises(ConfigError, match="give a number of trials"):
        planned(trials="auto", shard=Shard(1, 2))


def test_a_plan_belongs_to_the_run_of_its_matrix_whatever_the_number_of_trials() -> None:
    few = planned(model_filter="x_ai,anthropic", scenarios="simple", trials=10)
    same = planned(
        model_filter="anthropic,x-ai/*", scenarios="chat_only,happy_path", trials=20, jobs=3
    )
    shard = planned(model_filter="x_ai,anthropic", scenarios="simple", shard=Shard(1, 2))
    others = [
        planned(model_filter="x_ai", scenarios="simple"),
        planned(model_filter="x_ai,anthropic", scenarios="happy_path"),
        planned(model_filter="x_ai,anthropic", scenarios="simple", strategy_filter="raw"),
        planned(model_filter="x_ai,anthropic", scenarios="simple", temperature=0.5),
    ]

    assert few.identity == same.identity == shard.identity
    assert all(other.identity != few.identity for other in others)
    assert few.identity["version"]


def test_choosing_anything_tells_unknown_names_from_an_empty_choice() -> None:
    def choose(expression: str) -> tuple[Any, ...]:
        return select_scenarios(expression, SCENARIOS)

    assert [each.id for each in chosen("scenarios", "default,happy_path_parallel", choose)] == [
        "happy_path",
        "missing_workspace_id",
        "type_error_recovery",
        "happy_path_parallel",
        "long_arguments_guard",
        "injected_quote",
        "chat_only",
    ]
    with pytest.raises(NothingSelected):
        chosen("scenarios", "simple,!all", choose)
