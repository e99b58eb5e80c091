"""Models that call in text alone: they pass every scenario, and nobody asks them anything."""

import asyncio

import pytest

from surecall.simulator.personas.catalogue import PERSONAS
from surecall.simulator.server import Simulator
from surecall.wire.dialects import WRITERS
from tests.eval.running.test_trial_run import BY_ID, trials

DIALECTS = [f"sim/dialect-{row.lower()}" for row in WRITERS]


def requests_of(simulator: Simulator, names: list[str]) -> dict[str, list[int]]:
    """Let models hold every scenario; return how many requests each took, and see that all pass."""
    models = [PERSONAS[name] for name in names]
    scenarios = [name for name, scenario in BY_ID.items() if not scenario.is_control]
    held = asyncio.run(trials(simulator.url, models, "production", scenarios=scenarios))
    assert [(trial.key, trial.category) for _, trial in held if not trial.ok] == []
    counted: dict[str, list[int]] = {}
    for persona, trial in held:
        counted.setdefault(persona.id, []).append(len(trial.requests))
    return counted


@pytest.mark.slow
def test_a_model_that_never_calls_natively_needs_no_request_more(simulator: Simulator) -> None:
    counted = requests_of(simulator, ["sim/clean", *DIALECTS])
    clean = counted.pop("sim/clean")

    assert {name: requests for name, requests in counted.items() if requests != clean} == {}
    assert len(counted) == len(WRITERS)
