"""A chain of models in an evaluation: how it is written, what it means, who answered."""

from pathlib import Path

import pytest

from surecall.eval.running.cells import Model
from surecall.eval.running.chains import chain_of, is_chain, spelt
from surecall.eval.running.guarded_trial import setup_of
from surecall.eval.storage.trial import Trial
from surecall.settings.presets import resolve
from surecall.values.errors import ConfigError
from tests.eval.running.test_harness_sim import evaluated
from tests.eval.running.test_harness_sim import planned as planned_at_the_simulator
from tests.eval.running.test_matrix import OWN, ROUTER, SIM, models, planned


def test_a_chain_is_one_model_with_links() -> None:
    (cell,) = planned(
        model_filter="x-ai/grok-4.1-fast > openai/gpt-5.2", scenarios="chat_only"
    ).cells

    assert cell.cell.model == cell.model.id == "x-ai/grok-4.1-fast>openai/gpt-5.2:nitro"
    assert cell.model.asked == "x-ai/grok-4.1-fast"
    assert cell.model.lane == "x-ai"
    assert [name for name, _ in cell.fallbacks] == ["openai/gpt-5.2:nitro"]


def test_every_model_of_a_chain_has_the_config_that_fits_it() -> None:
    alone = planned(model_filter="deepseek/deepseek-v3.2", scenarios="chat_only").cells[0]
    (cell,) = planned(
        model_filter="x-ai/grok-4.1-fast>deepseek/deepseek-v3.2", scenarios="chat_only"
    ).cells

    assert cell.fallbacks == ((alone.model.id, alone.config),)
    assert cell.config != alone.config
    assert resolve(
        provider="openrouter", model="x-ai/grok-4.1-fast"
    ).endpoint.message_transforms == (cell.config.endpoint.message_transforms)


def test_a_chain_stands_beside_other_models_and_globs_name_its_links() -> None:
    assert models("sim/clean>sim/like-gem*,sim/clean", SIM) == [
        "sim/clean",
        "sim/clean>sim/like-gemini",
    ]
    assert models("mine>yours", OWN) == ["mine>yours"]


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("x-ai/grok-4.1-fast>", "there is a name missing"),
        (">", "there is a name missing"),
        ("x-ai/grok-4.1-fast>google", '"google" is more than one model'),
        ("x-ai/grok-4.1-fast>gogle", "did you mean"),
    ],
)
def test_a_chain_that_cannot_be_meant_is_refused(expression: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        models(expression, ROUTER)


def test_real_and_simulated_models_make_no_chain() -> None:
    known = {"a": (Model("a"),), "b": (Model("b", simulated=True),)}
    with pytest.raises(ConfigError, match="some are simulated"):
        chain_of("a>b", lambda name: known[name])


def test_blanks_around_the_sign_do_not_count() -> None:
    assert spelt("a > b , c") == "a>b , c"
    assert is_chain("a>b")
    assert not is_chain("a")


def test_a_trial_of_a_chain_says_who_answered(tmp_path: Path) -> None:
    what = planned_at_the_simulator(
        model_filter="sim/http-402>sim/clean,sim/clean", scenarios="happy_path", trials=1
    )
    _, trials = evaluated(tmp_path, what)
    by_model: dict[str, Trial] = {trial.key.cell.model: trial for trial in trials}
    chained = by_model["sim/http-402>sim/clean"]

    assert (chained.status, chained.models) == ("passed", ("sim/clean",))
    assert by_model["sim/clean"].models == ()
    assert setup_of(what.cells[-1], what).fallbacks
