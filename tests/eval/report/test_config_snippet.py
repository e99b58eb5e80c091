"""Snippets: the Python that builds the configuration that was judged."""

from typing import Any

import pytest

from surecall import presets
from surecall.eval.analysis.recommendations import PRODUCTION, Recommendation
from surecall.eval.running.cells import FallbackMode, MatrixColumn, Model, plan_cell
from surecall.eval.settings.fields import Settings
from surecall.settings.catalog import ModelCatalog, SamplingProfile
from tests.support.reports import ADVICE, advise, candidate


def run(snippet: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(snippet, names)  # noqa: S102 - it is what users will do with it
    return names


@pytest.mark.parametrize("advice", ADVICE.values(), ids=ADVICE)
def test_a_snippet_builds_the_configuration_that_was_judged(advice: Recommendation) -> None:
    built = run(advice.snippet)

    assert built["config"] == presets.resolve(provider="openrouter", model=advice.model)
    assert built.get("llm_options_defaults", {}) == advice.options
    assert all(name in advice.snippet for name in advice.workarounds)
    assert "strategy" not in advice.snippet


def test_a_snippet_of_a_chain_builds_every_model_of_it() -> None:
    advice = advise(candidate(model="a/b>deepseek/deepseek-v3.2", strategy="guided_contract"))
    built = run(advice.snippet.replace("your_tool", "pay"))["model"]

    assert [link.model for link in built] == ["a/b", "deepseek/deepseek-v3.2"]
    for link in built:
        wanted = presets.resolve(
            provider="openrouter", model=link.model, strategy="guided_contract"
        )
        assert link.config.replace(contract=None) == wanted


def test_a_snippet_names_another_strategy_and_provider() -> None:
    model = 'a"b\\\n"); raise SystemExit  #'
    advice = advise(candidate(model=model, strategy="baseline"), provider="groq")

    assert advice.workarounds == ()
    assert run(advice.snippet)["config"] == presets.resolve(
        provider="groq", model=model, strategy="baseline"
    )


@pytest.mark.parametrize("fallback", ["fallback_on", "fallback_off"])
def test_a_snippet_builds_the_fallback_that_was_judged(fallback: FallbackMode) -> None:
    model, strategy = "deepseek/deepseek-chat-v3-0324:nitro", PRODUCTION
    column = MatrixColumn(Model(model), SamplingProfile("default"), strategy, fallback)
    judged = plan_cell(column, Settings(timeout=None), ModelCatalog.builtin()).config

    advice = advise(candidate(model=model, strategy=f"{strategy}+{fallback}"))
    config = run(advice.snippet)["config"]

    assert config.endpoint.response_transforms == judged.endpoint.response_transforms
    assert config.endpoint.text_calls == judged.endpoint.text_calls
    assert advice.workarounds
