"""Plans a comparison of one model at several endpoints (`--reference`, `--against`).

Each endpoint is one cell of an ordinary plan, so the comparison is run, stored, and resumed like
any evaluation. All endpoints get the same requests; only the model id may differ.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from surecall.eval.running.cells import PlannedCell
from surecall.eval.running.matrix import EvaluationPlan, ModelLibrary, SkippedScenario, build_plan
from surecall.eval.scenarios.recorded_scenarios import RecordedWorld
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.endpoint_keys import NamedEndpoint, redact_endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.value_parsers import AUTO, LOCAL
from surecall.values.errors import ConfigError

ENDPOINT_SEPARATOR: Final = "@"


class ComparedEndpoint(msgspec.Struct, frozen=True):
    """An endpoint to compare, with the models and profiles available there."""

    named_endpoint: NamedEndpoint
    endpoint: Endpoint
    library: ModelLibrary


def check_comparable(settings: Settings, scenarios: Sequence[Scenario]) -> None:
    """Raise `ConfigError` if endpoints cannot be compared with these scenarios and settings."""
    for scenario in scenarios:
        if not isinstance(scenario.begin("-"), RecordedWorld):
            raise ConfigError(
                f"--reference compares replies to recorded requests, but {scenario.id} is a "
                "conversation, which differs in every run; pass a .jsonl file with -s"
            )
    alternatives = {
        "a number of trials, not auto": settings.trials == AUTO,
        "no --shard: all endpoints are measured in one run": settings.shard is not None,
        f"--engine {LOCAL}": settings.engine != LOCAL,
        "no --gguf: pass the URL of a server": bool(settings.gguf),
    }
    for wanted, wrong in alternatives.items():
        if wrong:
            raise ConfigError(f"--reference requires {wanted}")


def endpoint_settings(settings: Settings, named: NamedEndpoint) -> Settings:
    """Return the settings of an evaluation at one endpoint."""
    model = named.model or settings.model_filter
    return msgspec.structs.replace(
        settings, base_url=named.url, api_key=named.api_key, model_filter=model
    )


def build_reference_plan(
    settings: Settings, scenarios: tuple[Scenario, ...], candidates: Sequence[ComparedEndpoint]
) -> EvaluationPlan:
    """Plan the same requests for each endpoint; the first is the reference."""
    check_comparable(settings, scenarios)
    cells: list[PlannedCell] = []
    skips: list[SkippedScenario] = []
    for each in candidates:
        own = build_plan(
            endpoint_settings(settings, each.named_endpoint), scenarios, each.library, each.endpoint
        )
        cell = _cell_at_endpoint(_require_single_cell(own.cells), each.named_endpoint.name)
        if cell.cell in {other.cell for other in cells}:
            raise ConfigError(
                f"{each.named_endpoint.name} is listed twice; remove one. -n 2 or more "
                "already measures how "
                "much an endpoint differs from itself"
            )
        cells.append(cell)
        skips += [msgspec.structs.replace(skip, cell=cell.cell) for skip in own.skips]
    addresses = [redact_endpoint(each.named_endpoint) for each in candidates]
    names = [cell.cell.model for cell in cells]
    plan_settings = msgspec.structs.replace(
        endpoint_settings(settings, candidates[0].named_endpoint),
        model_filter=settings.model_filter,
        reference=names[0],
        against=",".join(names[1:]),
    )
    endpoints = dict(zip(names, addresses, strict=True))
    return EvaluationPlan(plan_settings, tuple(cells), scenarios, tuple(skips), endpoints)


def _require_single_cell(cells: Sequence[PlannedCell]) -> PlannedCell:
    if len(cells) > 1:
        ways = ", ".join(" ".join(msgspec.structs.astuple(each.cell)) for each in cells[:3])
        raise ConfigError(
            "--reference takes one model, one profile, and one strategy; these settings select "
            f"{len(cells)} combinations: {ways}"
        )
    return cells[0]


def _cell_at_endpoint(planned: PlannedCell, name: str) -> PlannedCell:
    """Return the cell with the endpoint's name added to the model's name."""
    model = planned.model
    called = f"{model.name}{ENDPOINT_SEPARATOR}{name}"
    return msgspec.structs.replace(
        planned,
        cell=msgspec.structs.replace(planned.cell, model=called),
        model=msgspec.structs.replace(model, label=called, endpoint_name=called),
    )
