"""The models that a runner may ask: what each is given, and which mistakes are found at once."""

from typing import Any

import pytest

from surecall import (
    ConfigError,
    Fallback,
    OpenAICompatible,
    ToolLoopRunner,
    ToolUseMode,
    presets,
)
from surecall.runtime.candidates import ModelCandidate, SharedSettings, model_candidates
from surecall.settings.capabilities import Capabilities
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel

HERE = "http://127.0.0.1:9"
NOTHING = SharedSettings(None, {}, None)


def listed(client: Any, model: Any, given: SharedSettings = NOTHING) -> tuple[ModelCandidate, ...]:
    return model_candidates(client, model, given)


def test_one_model_is_a_list_of_one() -> None:
    (only,) = listed(HERE, "a")

    assert only.model == "a"
    assert only.config == presets.resolve(model="a")


def test_a_name_is_asked_at_the_runners_client_and_a_fallback_at_its_own() -> None:
    first, second, third = listed(HERE, ["a", "b", Fallback("c", client="http://127.0.0.1:8")])

    assert first.client is second.client
    assert str(getattr(third.client, "base_url", "")) == "http://127.0.0.1:8/v1"
    assert first.endpoint == second.endpoint != third.endpoint


def test_several_clients_serve_one_model() -> None:
    first, second = listed([HERE, ScriptedModel()], "a")

    assert first.model == second.model == "a"
    assert first.client is not second.client


def test_a_client_without_an_address_is_known_by_its_place() -> None:
    one, other = ScriptedModel(), ScriptedModel()
    places = [each.endpoint for each in listed(one, ["a", Fallback("b", client=other), "c"])]

    assert places == ["client 1", "client 2", "client 1"]


def test_everyone_gets_the_config_that_fits_unless_one_was_given() -> None:
    links = ["a", Fallback("b", provider="mistral"), Fallback("c", config={"max_turns": 3})]
    plain, mistral, own = listed(HERE, links)
    given = raw(max_turns=4)
    same = listed(HERE, links, SharedSettings(given, {}, None))

    assert plain.config == presets.resolve(model="a")
    assert mistral.config == presets.resolve(provider="mistral", model="b")
    assert own.config == presets.resolve(model="c").replace(max_turns=3)
    assert [each.config.max_turns for each in same] == [4, 4, 3]


def test_options_and_capabilities_of_the_runner_hold_for_all_others() -> None:
    able, small = Capabilities(), Capabilities(context_window_tokens=9)
    given = SharedSettings(None, {"temperature": 0, "seed": 1}, able)
    links = ["a", Fallback("b", options={"temperature": 1}, capabilities=small)]
    first, second = listed(HERE, links, given)

    assert (first.options["temperature"], first.options["seed"]) == (0, 1)
    assert (second.options["temperature"], second.options["seed"]) == (1, 1)
    assert (first.capabilities, second.capabilities) == (able, small)


def test_a_model_without_tools_goes_on_without_them_unless_one_must_be_called() -> None:
    links = ["a", Fallback("b", capabilities=Capabilities(tools=False))]
    assert listed(HERE, links)[1].config.tool_use_mode is ToolUseMode.DISABLED
    enforced = SharedSettings({"tool_use_mode": "enforced"}, {}, None)
    with pytest.raises(ConfigError, match="does not support tools, but tool_use_mode is enforced"):
        listed(HERE, links, enforced)


def test_a_provider_at_another_address_needs_a_client_of_its_own() -> None:
    client = OpenAICompatible("https://api.openai.com", "sk-key")
    with pytest.raises(
        ConfigError, match="would go to openai, not to mistral; pass its own client"
    ):
        listed(client, ["a", Fallback("b", provider="mistral")])

    assert listed(client, ["a", Fallback("b", provider="OpenAI")])[1].client is client


@pytest.mark.parametrize(
    ("client", "model", "sentence"),
    [
        (HERE, [], "must not be empty lists"),
        ([], "a", "must not be empty lists"),
        ([HERE], ["a"], "both be lists"),
        (HERE, ["a", 7], "model must be a name or a Fallback, not int"),
        (HERE, ["a", ""], "model is blank"),
        (HERE, ["a", None], "model is blank"),
        (HERE, 7, "model must be a name, or a list of names, not int"),
        (HERE, {"a", "b"}, "a list of names, not set"),
        (HERE, Fallback("a"), "a list of names, not Fallback"),
        ([HERE, None], "a", "an item of the list is None"),
        ([HERE, 7], "a", "client must be an OpenAICompatible"),
        (HERE, ["a", Fallback("b", client=7)], "client must be an OpenAICompatible"),
        (None, "a", "client must be an OpenAICompatible"),
    ],
)
def test_a_mistake_is_found_before_anything_is_sent(client: Any, model: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        listed(client, model)


def test_a_runner_shows_the_first_model_and_names_all() -> None:
    runner = ToolLoopRunner(client=HERE, model=["a", Fallback("b")])

    assert (runner.model, runner.models) == ("a", ("a", "b"))
    assert ToolLoopRunner(client=HERE, model="a").models == ("a",)


def test_a_list_of_one_is_that_one() -> None:
    runner = ToolLoopRunner(client=HERE, model=["a"])

    assert (runner.model, runner.models) == ("a", ("a",))
