"""The six strategies: their order, what each means, and when one beyond production is advised."""

from typing import Any

import pytest

from surecall import presets
from surecall.eval.analysis.paired import BEYOND, PLAIN, STRATEGIES, Comparisons, by_strategy
from surecall.eval.analysis.recommend import candidates, original_row, recommend
from surecall.eval.analysis.stats import Rate
from surecall.eval.analysis.summary import Summary, summarise
from surecall.eval.running.matrix import strategies_of
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.trial import Cell, Trial
from surecall.settings.catalog import ModelCatalog
from surecall.settings.contract import Contract
from surecall.settings.presets import Strategy
from surecall.values.errors import ConfigError
from surecall.values.types import JSON
from tests.eval.running.test_matrix import HER, planned
from tests.support.trials import series

ORDER = ("raw", "baseline", "production", "contract", "guided", "guided_contract")
GLM = "z-ai/glm-4.7-flash:nitro"


def strategies(expression: str) -> tuple[Strategy, ...]:
    return strategies_of(Settings(strategy_filter=expression))


def test_there_are_six_in_this_order() -> None:
    assert strategies("all") == STRATEGIES == (*PLAIN, *BEYOND) == ORDER


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
        for each in planned(model_filter="x_ai", strategy_filter="all").cells
    }

    protocols = {name: each.config.call_protocol for name, each in cells.items()}
    assert [name for name in ORDER if protocols[name] == "guided"] == ["guided", "guided_contract"]
    assert [name for name in ORDER if cells[name].contracted] == ["contract", "guided_contract"]
    assert cells["contract"].config == cells["production"].config
    assert cells["guided"].config == cells["guided_contract"].config


@pytest.mark.parametrize("strategy", ORDER[2:])
def test_where_production_has_no_tools_nothing_beyond_it_has_any(strategy: str) -> None:
    found = planned(model_filter=HER, scenarios="simple", strategy_filter=strategy)

    assert [each.without_tools for each in found.cells] == [True]
    assert [skip.scenario for skip in found.skips] == ["happy_path"]
    assert {key.scenario for key in found.keys()} == {"chat_only"}  # noqa: SIM118  # a method


def test_what_goes_beyond_production_takes_the_recommended_profile_as_well() -> None:
    cells = planned(
        model_filter="x_ai", strategy_filter="all", production_auto_sampling_profile=True
    ).cells

    assert [each.cell.profile for each in cells] == ["default"] * 2 + ["grok_default"] * 4


def test_a_contract_that_the_allowed_tools_cannot_meet_is_refused_before_anything_is_sent() -> None:
    changes: JSON = {"model_filter": "x_ai", "tool_allowlist": ("state_get",)}

    assert planned(**changes).cells
    enough = ("state_get", "state_patch", "file_read")
    assert planned(**changes | {"tool_allowlist": enough}, strategy_filter="contract").cells
    with pytest.raises(ConfigError, match=r"contract of happy_path needs .*: state_patch"):
        planned(**changes, strategy_filter="production,guided_contract")


def under(strategy: str, pattern: str, model: str = "m", profile: str = "default") -> list[Trial]:
    return series(pattern, cell=Cell(model, profile, strategy))


GUIDED_HELPS = [*under("production", "x" * 40), *under("guided_contract", "." * 38 + "xx")]


def advised(summary: Summary, **settings: Any) -> Any:
    (advice,) = recommend(candidates(summary.cells), **settings)
    return advice


def test_labels_stand_in_the_order_of_their_strategies() -> None:
    labels = ("guided+fallback_on", "production+fallback_on", "production", "raw", "own", "a+b")

    assert by_strategy(labels) == (
        "raw",
        "production",
        "production+fallback_on",
        "guided+fallback_on",
    )
    trials = [each for name in labels for each in under(name, "..")]
    assert tuple(summarise(trials).strategies) == (*by_strategy(labels), "a+b", "own")


def test_a_cell_knows_which_strategies_its_own_beats() -> None:
    trials = [*GUIDED_HELPS, *under("raw", "." * 40), *under("production", "." * 40, "other")]
    found = {each.cell: each.better_than for each in summarise(trials).cells}

    assert found == {
        Cell("m", strategy="production"): (),
        Cell("m", strategy="guided_contract"): ("production",),
        Cell("m", strategy="raw"): ("production",),
        Cell("other", strategy="production"): (),
    }
    assert Comparisons().beaten_by(Cell("m")) == ()


def test_a_strategy_beyond_production_is_advised_where_it_is_significantly_better() -> None:
    advice = advised(summarise(GUIDED_HELPS), bar=0.8)

    assert (advice.strategy, advice.decided_strategy) == ("guided_contract", "guided_contract")
    assert (advice.decision, advice.tool.k, advice.label) == ("use", 38, "Conditional")
    assert advice.notes[0] == (
        "With guided_contract it is significantly better than with production: "
        "38 of 40 instead of 0 of 40."
    )
    row = original_row(advice)
    assert (row[2], row[5]) == ("small_model", "use with guided_contract")


@pytest.mark.parametrize(
    ("production", "guided"),
    [
        (".", "."),
        # Better, but it may be noise.
        ("." * 35 + "x" * 5, "." * 38 + "xx"),
        ("." * 40, "x" * 40),
        # What infrastructure spoiled is no evidence.
        ("i" * 40, "." * 40),
    ],
)
def test_without_evidence_production_stays(production: str, guided: str) -> None:
    trials = [*under("production", production), *under("guided_contract", guided)]
    advice = advised(summarise(trials))

    assert (advice.strategy, advice.workarounds) == ("production", ())
    assert "with" not in original_row(advice)[5]


def test_the_best_of_several_is_advised_and_each_model_for_itself() -> None:
    trials = [
        *GUIDED_HELPS,
        *under("contract", "." * 20 + "x" * 20),
        *under("guided", "." * 30 + "x" * 10),
        *under("production", "." * 40, "other"),
        *under("guided_contract", "." * 40, "other"),
    ]
    found = {each.model: each for each in candidates(summarise(trials).cells)}

    assert found["m"].strategy == "guided_contract"
    assert (found["m"].instead_of, found["m"].instead) == ("production", Rate(0, 40))
    assert (found["other"].strategy, found["other"].instead_of) == ("production", "")


def test_each_profile_has_the_strategy_that_serves_it_best() -> None:
    trials = [*GUIDED_HELPS, *under("production", "." * 39 + "x", profile="warm")]
    advice = advised(summarise(trials))

    assert (advice.profile, advice.strategy) == ("warm", "production")
    assert "With default it was only 95.0 %." in advice.notes


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
    trials = [each for name in run for each in under(name, "....")]

    assert {each.strategy for each in candidates(summarise(trials).cells)} == {base}


def built(snippet: str) -> JSON:
    names: JSON = {}
    exec(snippet, names)  # noqa: S102 - it is what users will do with it
    return names


@pytest.mark.parametrize("strategy", ORDER)
def test_a_snippet_builds_the_config_of_every_strategy(strategy: Strategy) -> None:
    advice = advised(summarise(under(strategy, "....", GLM)))
    config = built(advice.snippet)["config"]
    wanted = presets.resolve(provider="openrouter", model=GLM, strategy=strategy)

    contracted = strategy in presets.CONTRACTED
    assert config == wanted.replace(
        contract=Contract(all_of=("your_tool",)) if contracted else None
    )
    known = ModelCatalog.builtin().workarounds_for(GLM)
    plain = strategy in {"raw", "baseline"}
    own = ("small_model",) if strategy.startswith("guided") else ()
    assert advice.workarounds == (*(() if plain else known), *own)
