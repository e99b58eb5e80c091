"""One model behind several endpoints: a plan with a cell for each of them.

It is a plan as any other, so it is run, kept and continued like one. Every endpoint gets the same
requests; only what the model is called may differ.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from surecall.eval.running.cells import PlannedCell
from surecall.eval.running.matrix import Library, Plan, Skip, plan
from surecall.eval.scenarios.recorded import RecordedWorld
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.endpoints import NamedEndpoint, shown
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.parse import AUTO, LOCAL
from surecall.values.errors import ConfigError

AT: Final = "@"


class Candidate(msgspec.Struct, frozen=True):
    """An endpoint that takes part: as it was named, what it is, and what can be chosen there."""

    named: NamedEndpoint
    endpoint: Endpoint
    library: Library


def check_reference(settings: Settings, scenarios: Sequence[Scenario]) -> None:
    """Refuse what a comparison of endpoints cannot be made of."""
    for scenario in scenarios:
        if not isinstance(scenario.begin("-"), RecordedWorld):
            raise ConfigError(
                f"endpoints are compared by their replies to recorded requests, and {scenario.id} "
                "is a conversation, which takes another course each time; name a .jsonl file "
                "with -s"
            )
    alternatives = {
        "a number of trials, not auto": settings.trials == AUTO,
        "no --shard: both endpoints must be asked in one run": settings.shard is not None,
        f"--engine {LOCAL}": settings.engine != LOCAL,
        "no --gguf: name the address of a server": bool(settings.gguf),
    }
    for wanted, wrong in alternatives.items():
        if wrong:
            raise ConfigError(f"--reference takes {wanted}")


def settings_at(settings: Settings, named: NamedEndpoint) -> Settings:
    """Return the settings of an evaluation at one of the endpoints."""
    model = named.model or settings.model_filter
    return msgspec.structs.replace(
        settings, base_url=named.url, api_key=named.api_key, model_filter=model
    )


def plan_reference(
    settings: Settings, scenarios: tuple[Scenario, ...], candidates: Sequence[Candidate]
) -> Plan:
    """Plan the same requests for each endpoint; the first is the reference."""
    check_reference(settings, scenarios)
    cells: list[PlannedCell] = []
    skips: list[Skip] = []
    for each in candidates:
        own = plan(settings_at(settings, each.named), scenarios, each.library, each.endpoint)
        cell = _at(_only(own.cells), each.named.name)
        if cell.cell in {other.cell for other in cells}:
            raise ConfigError(
                f"{each.named.name} is named twice; how much an endpoint differs from itself is "
                "measured anyway, with -n 2 or more"
            )
        cells.append(cell)
        skips += [msgspec.structs.replace(skip, cell=cell.cell) for skip in own.skips]
    addresses = [shown(each.named) for each in candidates]
    names = [cell.cell.model for cell in cells]
    kept = msgspec.structs.replace(
        settings_at(settings, candidates[0].named),
        model_filter=settings.model_filter,
        reference=names[0],
        against=",".join(names[1:]),
    )
    endpoints = dict(zip(names, addresses, strict=True))
    return Plan(kept, tuple(cells), scenarios, tuple(skips), endpoints)


def _only(cells: Sequence[PlannedCell]) -> PlannedCell:
    if len(cells) > 1:
        ways = ", ".join(" ".join(msgspec.structs.astuple(each.cell)) for each in cells[:3])
        raise ConfigError(
            "--reference compares endpoints by one model, one profile and one strategy; these "
            f"settings mean {len(cells)}: {ways}"
        )
    return cells[0]


def _at(planned: PlannedCell, name: str) -> PlannedCell:
    """File the trials of a cell under the endpoint as well."""
    model = planned.model
    called = f"{model.name}{AT}{name}"
    return msgspec.structs.replace(
        planned,
        cell=msgspec.structs.replace(planned.cell, model=called),
        model=msgspec.structs.replace(model, shown=called, at=called),
    )
