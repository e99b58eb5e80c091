"""Where an evaluation is sent, and which models can be chosen there."""

import pytest

from surecall.cli.target import library_at, open_target, simulated_models
from surecall.eval.settings.endpoint import OPENROUTER_URL, Endpoint
from surecall.eval.settings.fields import Settings
from surecall.settings.catalog import ModelCatalog
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.values.types import Secret

CATALOG = ModelCatalog.builtin()


def test_the_simulator_offers_its_personas_and_lists_those_named_by_what_they_do() -> None:
    found = simulated_models()

    assert [model.id for model in found] == list(PERSONAS)
    assert all(model.simulated for model in found)
    listed = [model for model in found if model.listed]
    assert listed == [model for model in found if "stable" in model.tags]
    assert {"sim/clean", "sim/stops-early"} < {model.id for model in listed}
    assert not any(model.imitates or "like-" in model.id for model in listed)


@pytest.mark.parametrize(
    ("endpoint", "models"),
    [
        (Endpoint("local", "/v1", "llama_cpp", model="tiny"), ["tiny"]),
        (Endpoint("local", "/v1", "llama_cpp"), []),
        (Endpoint("http://localhost", "/v1", "custom"), []),
        (Endpoint(OPENROUTER_URL, "/v1", "openrouter"), [entry.id for entry in CATALOG.models]),
    ],
)
def test_an_endpoint_offers_the_models_that_it_is_known_to_serve(
    endpoint: Endpoint, models: list[str]
) -> None:
    assert [model.id for model in library_at(endpoint).models] == models


def test_without_a_key_the_target_is_the_simulator_in_this_process() -> None:
    with open_target(Settings()) as target:
        assert target.endpoint.simulated
        assert target.client.url("/x").startswith("http://127.0.0.1:")


def test_with_an_address_the_target_is_that_endpoint() -> None:
    settings = Settings(base_url="http://localhost:9/a", api_key=Secret("k"))
    with open_target(settings) as target:
        assert not target.endpoint.simulated
        assert target.client.url("/x").startswith("http://localhost:9/a")
