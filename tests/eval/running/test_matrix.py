"""Tests of `surecall.eval.running.matrix`."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from surecall import presets
from surecall.eval.analysis.comparisons import (
    EXTENDED_STRATEGIES,
    PLAIN_STRATEGIES,
    STRATEGIES,
    Comparisons,
    sort_strategies,
)
from surecall.eval.analysis.recommendations import profile_candidates, recommend, recommendation_row
from surecall.eval.analysis.stats import Rate
from surecall.eval.analysis.summary import Summary, summarize
from surecall.eval.running.matrix import (
    CostEstimate,
    ModelLibrary,
    ModelPrice,
    NothingSelected,
    TrialLoad,
    apply_filter,
    estimate_cost,
    estimate_load,
    in_shard,
    select_models,
    selected_strategies,
)
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.function_scenarios import scenario as written_as_a_function
from surecall.eval.scenarios.plugins import load_scenarios
from surecall.eval.scenarios.scenario import select_scenarios
from surecall.eval.settings.endpoint import OPENROUTER_URL, Endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.value_parsers import Shard
from surecall.eval.storage.trial import Cell, CompletedTrials, Key
from surecall.settings.catalog import ModelCatalog
from surecall.settings.contract import Contract
from surecall.settings.presets import Strategy
from surecall.values.errors import ConfigError
from surecall.values.types import JSON
from surecall.wire.chat_format import encode
from tests.support.evaluations import (
    CATALOG,
    OWN_ENDPOINT,
    PROFILES,
    SIM_ENDPOINT,
    plan_at,
    planned,
    planned_models,
)
from tests.support.spec import proves
from tests.support.trials import GUIDED_HELPS, strategy_trials

# The matrix: what is chosen, in which order, what it means, and what cannot be


HER = "minimax/minimax-m2-her"


@proves("C120")
def test_a_filter_keeps_the_order_of_the_catalog() -> None:
    assert planned_models("google,!google/gemini-3-pro-preview:*") == [
        "google/gemini-2.5-flash:nitro",
        "google/gemini-3-flash-preview:nitro",
    ]
    assert planned_models("openai/gpt-5.2,x_ai") == ["x-ai/grok-4.1-fast", "openai/gpt-5.2:nitro"]


@proves("I25")
def test_all_but_one_leaves_that_one_out() -> None:
    everything = planned_models("all")

    assert len(everything) == 17
    assert planned_models("all,!x_ai") == [
        name for name in everything if name != "x-ai/grok-4.1-fast"
    ]


def test_an_unknown_model_is_not_the_same_as_an_empty_choice() -> None:
    with pytest.raises(ConfigError, match="did you mean") as unknown:
        planned_models("gogle")
    with pytest.raises(NothingSelected, match="selects nothing"):
        planned_models("google,!google")
    with pytest.raises(ConfigError, match="empty") as blank:
        planned_models(" , ")

    assert not isinstance(unknown.value, NothingSelected)
    assert not isinstance(blank.value, NothingSelected)


def test_an_unlisted_model_needs_the_address_of_its_endpoint() -> None:
    with pytest.raises(ConfigError, match="unknown model"):
        planned_models("qwen/qwen9")

    router = Endpoint(OPENROUTER_URL, "/v1", "openrouter", is_explicit=True)
    assert planned_models("qwen/qwen9,x_ai", router) == ["x-ai/grok-4.1-fast", "qwen/qwen9"]
    with pytest.raises(ConfigError, match="unknown model"):
        planned_models("qwen/qwen9*", router)


def test_at_an_endpoint_of_ones_own_only_ids_count() -> None:
    assert planned_models("llama3,qwen3:8b", OWN_ENDPOINT) == ["llama3", "qwen3:8b"]
    assert planned_models("openai/gpt-5.2", OWN_ENDPOINT) == ["openai/gpt-5.2"]
    with pytest.raises(ConfigError, match="pass a model id with -m"):
        planned_models("stable", OWN_ENDPOINT)


def test_the_simulator_serves_likenesses_by_what_they_imitate_and_others_by_name() -> None:
    assert planned_models("stable", SIM_ENDPOINT) == ["sim/like-gemini"]
    assert planned_models("all", SIM_ENDPOINT) == ["sim/like-grok", "sim/like-gemini"]
    assert planned_models("sim", SIM_ENDPOINT) == ["sim/like-grok", "sim/like-gemini"]
    assert planned_models("sim/clean,grok", SIM_ENDPOINT) == ["sim/like-grok", "sim/clean"]
    assert planned_models("sim/c*", SIM_ENDPOINT) == ["sim/clean"]
    with pytest.raises(ConfigError, match="unknown model"):
        planned_models("gpt-5.2", SIM_ENDPOINT)


@proves("C129")
def test_profiles_go_only_to_the_models_they_are_meant_for() -> None:
    expression = "openai/gpt-5.2:*,qwen/qwen3-30b*,google/gemini-2.5*"
    cells = plan_at(model_filter=expression, sampling_profile_filter="default,recommended").cells

    assert [(each.model.id, each.cell.profile) for each in cells] == [
        ("google/gemini-2.5-flash:nitro", "default"),
        ("openai/gpt-5.2:nitro", "default"),
        ("qwen/qwen3-30b-a3b-instruct-2507:nitro", "default"),
        ("qwen/qwen3-30b-a3b-instruct-2507:nitro", "qwen_recommended"),
    ]


def test_applicability_can_be_ignored() -> None:
    cells = plan_at(
        model_filter="x_ai",
        sampling_profile_filter="qwen",
        sampling_profile_enforce_applicability=False,
    ).cells

    assert [each.cell.profile for each in cells] == ["qwen_recommended"]


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="profiles: nothing is named"):
        plan_at(sampling_profile_filter="recomended")


def test_production_may_take_the_recommended_profile_in_place_of_the_default() -> None:
    cells = plan_at(
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
    assert selected_strategies(Settings(**changes)) == strategies


def test_an_id_of_the_simulator_is_simulated_wherever_it_is_served() -> None:
    library = ModelLibrary((), CATALOG, PROFILES)

    found = select_models("sim/clean,sim/lazy", library, OWN_ENDPOINT)
    assert [(model.id, model.simulated) for model in found] == [
        ("sim/clean", True),
        ("sim/lazy", True),
    ]
    assert not select_models("a/b", library, OWN_ENDPOINT)[0].simulated
    with pytest.raises(ConfigError, match="run simulated models"):
        select_models("sim/clean,a/b", library, OWN_ENDPOINT)


def test_a_misspelt_strategy_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match='did you mean "production"'):
        plan_at(strategy_filter="prodution")


def test_a_tool_that_no_scenario_has_is_refused() -> None:
    with pytest.raises(ConfigError, match='did you mean "state_get"'):
        plan_at(tool_allowlist=("stategt",))


def test_a_model_without_tools_skips_tool_scenarios_in_production_only() -> None:
    both = plan_at(model_filter=HER, strategy_filter="both", scenarios="simple", trials=2)

    assert [(skip.cell.strategy, skip.scenario) for skip in both.skips] == [
        ("production", "happy_path")
    ]
    assert list(both.skipped_keys()) == [
        (Key(Cell(HER), "happy_path", trial), f"tools are off for {HER} in this strategy")
        for trial in (1, 2)
    ]
    assert [key.scenario for key in both.keys(only=[Cell(HER)])] == ["chat_only"] * 2


def test_with_tools_off_everywhere_only_the_control_is_left() -> None:
    off = plan_at(model_filter="x_ai", tool_use_mode="disabled", trials=1)

    assert list(off.keys()) == [Key(Cell("x-ai/grok-4.1-fast"), "chat_only", 1)]
    with pytest.raises(NothingSelected, match="tools are off for the whole evaluation"):
        plan_at(tool_use_mode="disabled", scenarios="happy_path")


def test_keys_come_trial_by_trial_in_a_fixed_order() -> None:
    found = plan_at(model_filter="x_ai,anthropic", scenarios="simple", trials=2)
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
    found = plan_at(
        model_filter=HER, strategy_filter="both", scenarios="simple", trials=20, shard=shard
    )
    every = list(found.keys(3, 15))
    some, cell = every[::3], every[0].cell

    assert found.count_remaining(None, 3, 15) == Counter((key.cell, key.scenario) for key in every)
    assert found.count_remaining(CompletedTrials(some), 3, 15, [cell]) == Counter(
        (key.cell, key.scenario) for key in every if key not in some and key.cell == cell
    )
    assert found.count_remaining().total() == len(list(found.keys()))


def test_an_open_number_of_trials_begins_with_ten() -> None:
    automatic = plan_at(trials="auto")

    assert automatic.has_automatic_trials
    assert automatic.trials == 10
    assert not plan_at().has_automatic_trials


def test_shards_share_all_keys_among_them_and_keep_them_when_there_are_more() -> None:
    whole = plan_at(model_filter="all", trials=3)
    parts = [plan_at(model_filter="all", trials=3, shard=Shard(i, 4)) for i in (1, 2, 3, 4)]
    shared = [key for part in parts for key in (*part.keys(), *dict(part.skipped_keys()))]
    larger = plan_at(model_filter="all", trials=5, shard=Shard(2, 4))

    assert sorted(shared) == sorted((*whole.keys(), *dict(whole.skipped_keys())))
    assert set(parts[1].keys()) <= set(larger.keys())
    assert in_shard(Key(Cell("m"), "s", 1), Shard(1, 1))


def test_a_shard_without_a_part_has_nothing_to_run() -> None:
    few: dict[str, Any] = {"model_filter": "x_ai", "scenarios": "chat_only", "trials": 1}
    (key,) = plan_at(**few).keys()
    with_part, without = sorted(
        (Shard(1, 2), Shard(2, 2)), key=lambda part: not in_shard(key, part)
    )

    assert list(plan_at(**few, shard=with_part).keys()) == [key]
    with pytest.raises(NothingSelected, match="gets none of so few trials"):
        plan_at(**few, shard=without)


def test_a_shard_needs_a_number_of_trials() -> None:
    with pytest.raises(ConfigError, match="needs a number of trials"):
        plan_at(trials="auto", shard=Shard(1, 2))


def test_a_plan_belongs_to_the_run_of_its_matrix_whatever_the_number_of_trials() -> None:
    few = plan_at(model_filter="x_ai,anthropic", scenarios="simple", trials=10)
    same = plan_at(
        model_filter="anthropic,x-ai/*", scenarios="chat_only,happy_path", trials=20, jobs=3
    )
    shard = plan_at(model_filter="x_ai,anthropic", scenarios="simple", shard=Shard(1, 2))
    others = [
        plan_at(model_filter="x_ai", scenarios="simple"),
        plan_at(model_filter="x_ai,anthropic", scenarios="happy_path"),
        plan_at(model_filter="x_ai,anthropic", scenarios="simple", strategy_filter="raw"),
        plan_at(model_filter="x_ai,anthropic", scenarios="simple", temperature=0.5),
    ]

    assert few.identity == same.identity == shard.identity
    assert all(other.identity != few.identity for other in others)
    assert few.identity["version"]


def test_choosing_anything_tells_unknown_names_from_an_empty_choice() -> None:
    def choose(expression: str) -> tuple[Any, ...]:
        return select_scenarios(expression, SCENARIOS)

    assert [
        each.id for each in apply_filter("scenarios", "default,happy_path_parallel", choose)
    ] == [
        "happy_path",
        "missing_workspace_id",
        "type_error_recovery",
        "happy_path_parallel",
        "long_arguments_guard",
        "injected_quote",
        "chat_only",
    ]
    with pytest.raises(NothingSelected):
        apply_filter("scenarios", "simple,!all", choose)


# The six strategies: their order, what each means, and when one beyond production is advised


ORDER = ("raw", "baseline", "production", "contract", "guided", "guided_contract")
GLM = "z-ai/glm-4.7-flash:nitro"


def strategies(expression: str) -> tuple[Strategy, ...]:
    return selected_strategies(Settings(strategy_filter=expression))


def test_there_are_six_in_this_order() -> None:
    assert strategies("all") == STRATEGIES == (*PLAIN_STRATEGIES, *EXTENDED_STRATEGIES) == ORDER


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("contracted", ("contract",)),
        ("guided", ("guided",)),
        ("small_model", ("guided_contract",)),
        ("guided_contract,prod,raw", ("raw", "production", "guided_contract")),
        ("guided*", ("guided", "guided_contract")),
        ("both", ("baseline", "production")),
        ("all,!guided*", ("raw", "baseline", "production", "contract")),
    ],
)
def test_each_has_names_to_be_chosen_by(expression: str, found: tuple[str, ...]) -> None:
    assert strategies(expression) == found


def test_a_cell_means_what_its_strategy_says() -> None:
    cells = {
        each.cell.strategy: each
        for each in plan_at(model_filter="x_ai", strategy_filter="all").cells
    }

    protocols = {name: each.config.call_protocol for name, each in cells.items()}
    assert [name for name in ORDER if protocols[name] == "guided"] == ["guided", "guided_contract"]
    assert [name for name in ORDER if cells[name].contracted] == ["contract", "guided_contract"]
    assert cells["contract"].config == cells["production"].config
    assert cells["guided"].config == cells["guided_contract"].config


@pytest.mark.parametrize("strategy", ORDER[2:])
def test_where_production_has_no_tools_nothing_beyond_it_has_any(strategy: str) -> None:
    found = plan_at(model_filter=HER, scenarios="simple", strategy_filter=strategy)

    assert [each.tools_disabled for each in found.cells] == [True]
    assert [skip.scenario for skip in found.skips] == ["happy_path"]
    assert {key.scenario for key in found.keys()} == {"chat_only"}  # noqa: SIM118  # a method


def test_what_goes_beyond_production_takes_the_recommended_profile_as_well() -> None:
    cells = plan_at(
        model_filter="x_ai", strategy_filter="all", production_auto_sampling_profile=True
    ).cells

    assert [each.cell.profile for each in cells] == ["default"] * 2 + ["grok_default"] * 4


def test_a_contract_that_the_allowed_tools_cannot_meet_is_refused_before_anything_is_sent() -> None:
    changes: JSON = {"model_filter": "x_ai", "tool_allowlist": ("state_get",)}

    assert plan_at(**changes).cells
    enough = ("state_get", "state_patch", "file_read")
    assert plan_at(**changes | {"tool_allowlist": enough}, strategy_filter="contract").cells
    with pytest.raises(ConfigError, match=r"contract of happy_path requires .*: state_patch"):
        plan_at(**changes, strategy_filter="production,guided_contract")


def advised(summary: Summary, **settings: Any) -> Any:
    (advice,) = recommend(profile_candidates(summary.cells), **settings)
    return advice


def test_labels_stand_in_the_order_of_their_strategies() -> None:
    labels = ("guided+fallback_on", "production+fallback_on", "production", "raw", "own", "a+b")

    assert sort_strategies(labels) == (
        "raw",
        "production",
        "production+fallback_on",
        "guided+fallback_on",
    )
    trials = [each for name in labels for each in strategy_trials(name, "..")]
    assert tuple(summarize(trials).strategies) == (*sort_strategies(labels), "a+b", "own")


def test_a_cell_knows_which_strategies_its_own_beats() -> None:
    trials = [
        *GUIDED_HELPS,
        *strategy_trials("raw", "." * 40),
        *strategy_trials("production", "." * 40, "other"),
    ]
    found = {each.cell: each.better_than for each in summarize(trials).cells}

    assert found == {
        Cell("m", strategy="production"): (),
        Cell("m", strategy="guided_contract"): ("production",),
        Cell("m", strategy="raw"): ("production",),
        Cell("other", strategy="production"): (),
    }
    assert Comparisons().strategies_beaten_by(Cell("m")) == ()


def test_a_strategy_beyond_production_is_advised_where_it_is_significantly_better() -> None:
    advice = advised(summarize(GUIDED_HELPS), threshold=0.8)

    assert (advice.strategy, advice.decided_strategy) == ("guided_contract", "guided_contract")
    assert (advice.decision, advice.tool.k, advice.label) == ("use", 38, "Conditional")
    assert advice.notes[0] == (
        "guided_contract is significantly better than production: "
        "38 of 40 runs passed instead of 0 of 40."
    )
    row = recommendation_row(advice)
    assert (row[2], row[5]) == ("small_model", "use with guided_contract")


@pytest.mark.parametrize(("production", "guided"), [(".", "."), ("." * 40, "x" * 40)])
def test_what_is_no_better_leaves_production(production: str, guided: str) -> None:
    trials = [
        *strategy_trials("production", production),
        *strategy_trials("guided_contract", guided),
    ]
    advice = advised(summarize(trials))

    assert (advice.strategy, advice.workarounds) == ("production", ())
    assert "with" not in recommendation_row(advice)[5]


def test_the_best_of_several_is_advised_and_each_model_for_itself() -> None:
    trials = [
        *GUIDED_HELPS,
        *strategy_trials("contract", "." * 20 + "x" * 20),
        *strategy_trials("guided", "." * 30 + "x" * 10),
        *strategy_trials("production", "." * 40, "other"),
        *strategy_trials("guided_contract", "." * 40, "other"),
    ]
    found = {each.model: each for each in profile_candidates(summarize(trials).cells)}

    assert found["m"].strategy == "guided_contract"
    assert (found["m"].instead_of, found["m"].instead) == ("production", Rate(0, 40))
    assert (found["other"].strategy, found["other"].instead_of) == ("production", "")


def test_each_profile_has_the_strategy_that_serves_it_best() -> None:
    trials = [*GUIDED_HELPS, *strategy_trials("production", "." * 39 + "x", profile="warm")]
    advice = advised(summarize(trials))

    assert (advice.profile, advice.strategy) == ("warm", "production")
    assert "With the profile default, only 95.0% passed." in advice.notes


@pytest.mark.parametrize(
    ("run", "base"),
    [
        (("raw", "guided"), "raw"),
        (("raw", "baseline", "guided_contract"), "baseline"),
        (("guided_contract", "guided", "contract"), "contract"),
        (("guided_contract",), "guided_contract"),
        (("production+fallback_off", "production+fallback_on", "guided+fallback_on"),
         "production+fallback_on"),
    ],
)  # fmt: skip
def test_the_fullest_plain_strategy_is_what_others_are_held_against(
    run: tuple[str, ...], base: str
) -> None:
    trials = [each for name in run for each in strategy_trials(name, "....")]

    assert {each.strategy for each in profile_candidates(summarize(trials).cells)} == {base}


def built(snippet: str) -> JSON:
    names: JSON = {}
    exec(snippet, names)  # noqa: S102 - it is what users will do with it
    return names


@pytest.mark.parametrize("strategy", ORDER)
def test_a_snippet_builds_the_config_of_every_strategy(strategy: Strategy) -> None:
    advice = advised(summarize(strategy_trials(strategy, "....", GLM)))
    config = built(advice.snippet)["config"]
    wanted = presets.resolve(provider="openrouter", model=GLM, strategy=strategy)

    contracted = strategy in presets.CONTRACT_STRATEGIES
    assert config == wanted.replace(
        contract=Contract(all_of=("your_tool",)) if contracted else None
    )
    known = ModelCatalog.builtin().workarounds_for(GLM)
    plain = strategy in {"raw", "baseline"}
    own = ("small_model",) if strategy.startswith("guided") else ()
    assert advice.workarounds == (*(() if plain else known), *own)


# What an evaluation takes, roughly: by the formula that is written down, and not far off


BY_ID = {scenario.id: scenario for scenario in SCENARIOS}


def test_a_scenario_with_tools_takes_three_requests_that_grow() -> None:
    happy = BY_ID["happy_path"]
    tools = [tool.spec for tool in happy.begin("-").registry.definitions]
    first = (len(happy.system) + len(happy.user) + len(encode(tools))) // 4
    load = estimate_load(happy)

    assert (load.requests, load.prompt_tokens) == (3, 3 * first + 150 + 300)
    assert load.completion_tokens == 360


def test_a_scenario_without_tools_takes_one_request_of_its_text() -> None:
    chat = BY_ID["chat_only"]
    load = estimate_load(chat)

    assert (load.requests, load.completion_tokens) == (1, 120)
    assert load.prompt_tokens == (len(chat.system) + len(chat.user)) // 4


def test_text_that_only_a_function_knows_has_a_size_of_its_own() -> None:
    @written_as_a_function(tags=["mine"])
    async def asks(run: object) -> None:
        """Ask something."""

    assert estimate_load(asks).prompt_tokens == 100


def test_the_cost_is_known_when_every_price_is_known() -> None:
    found = planned(model_filter="x_ai,anthropic", scenarios="simple", trials=10)
    grok, claude = (each.model.id for each in found.cells)
    prices = {grok: ModelPrice(0.2, 0.5), claude: ModelPrice(5.0, 25.0)}
    loads = [estimate_load(scenario) for scenario in found.scenarios]
    read = 20 * sum(load.prompt_tokens for load in loads)
    written = 20 * sum(load.completion_tokens for load in loads)

    assert estimate_cost(found, found.count_remaining()) == CostEstimate(
        40, 80, read, written, None
    )
    assert estimate_cost(found, found.count_remaining(), {grok: prices[grok]}).cost is None
    known = estimate_cost(found, found.count_remaining(), prices).cost
    assert known == pytest.approx((read * 5.2 + written * 25.5) / 2e6)
    assert estimate_cost(found, {}, prices) == CostEstimate()


def test_a_recorded_request_is_sent_once_and_is_all_in_its_line(tmp_path: Path) -> None:
    line = '{"messages": [{"role": "user", "content": "' + "x" * 800 + '"}]}'
    path = tmp_path / "log.jsonl"
    path.write_text(line)
    (one,) = load_scenarios(str(path))

    assert estimate_load(one) == TrialLoad(1, len(line) // 4, 120)


def test_estimates_of_several_endpoints_add_up_unless_a_price_is_unknown() -> None:
    one = CostEstimate(1, 2, 3, 4, 0.5)

    assert one + one == CostEstimate(2, 4, 6, 8, 1.0)
    assert (one + CostEstimate(cost=None)).cost is None
