"""Where an evaluation is sent: to an endpoint, to a file that is served here, or the simulator."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from surecall.eval.running.cells import Model
from surecall.eval.running.matrix import Library, Plan, models_at
from surecall.eval.scenarios.builtin import SCENARIOS
from surecall.eval.scenarios.work import WORK
from surecall.eval.settings.endpoint import (
    Endpoint,
    endpoint_of,
    gguf_of,
    headers_of,
    limits_of,
    serving_of,
)
from surecall.eval.settings.fields import Settings
from surecall.runtime.transport import OpenAICompatible
from surecall.settings.catalog import ModelCatalog
from surecall.settings.sampling import SamplingCatalog
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.values.types import Secret

BUILT_IN: Final = frozenset(scenario.id for scenario in (*SCENARIOS, *WORK))
LISTED: Final = frozenset({"clean", "shown"})
SIMULATED = "The models are simulated: no network, no key, no real model is being measured."
SERVED_SIMULATED = "The models are simulated: no real model is being measured."
OF_YOUR_OWN = (
    "Their scripts follow the built-in tasks and cannot be expected to solve scenarios of your "
    "own: run those with a real model."
)


class Target(msgspec.Struct, frozen=True):
    """An endpoint, what can be chosen there, and the client that reaches it.

    Where several are held against each other, it is the reference, and `others` has all of them, by
    the name that models there have as their `at`.
    """

    endpoint: Endpoint
    library: Library
    client: OpenAICompatible
    others: "dict[str, Target]" = {}

    @property
    def every(self) -> "tuple[Target, ...]":
        """Every endpoint that takes part."""
        return tuple(self.others.values()) or (self,)

    @property
    def simulated(self) -> bool:
        """Whether every endpoint is the simulator of this process."""
        return all(each.endpoint.simulated for each in self.every)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What must not be written anywhere."""
        return tuple(secret for each in self.every for secret in each.client.secrets)

    def at(self, model: Model) -> "Target":
        """Return where a model is asked."""
        return self.others.get(model.at, self)


def simulation_notes(planned: Plan, target: Target) -> Iterator[str]:
    """Say, if the models are simulated, that they are, and what they cannot do."""
    if not any(each.model.simulated for each in planned.cells):
        return
    yield SIMULATED if target.simulated else SERVED_SIMULATED
    if not {scenario.id for scenario in planned.scenarios} <= BUILT_IN:
        yield OF_YOUR_OWN


def library_at(endpoint: Endpoint) -> Library:
    """Return the models and profiles that can be chosen at an endpoint."""
    catalog = ModelCatalog.builtin()
    if endpoint.simulated:
        models = simulated_models()
    elif endpoint.local:
        models = (Model(endpoint.model, endpoint.provider),) if endpoint.model else ()
    else:
        models = models_at(endpoint, catalog)
    return Library(models, catalog, SamplingCatalog.builtin())


def simulated_models() -> tuple[Model, ...]:
    """Return the personas; listed are those that are named by what they do."""
    return tuple(
        Model(
            persona.id,
            persona.provider,
            imitates=persona.imitates,
            simulated=True,
            listed=persona.kind in LISTED,
            tags=("stable",) if persona.kind in LISTED else (),
        )
        for persona in PERSONAS.values()
    )


@contextmanager
def open_target(settings: Settings) -> Iterator[Target]:
    """Open the target of the settings; a server of our own lives as long as the block."""
    endpoint = endpoint_of(settings)
    library = library_at(endpoint)
    limits = limits_of(settings)
    if endpoint.local:
        # Imported here, like the simulator below: a list of models needs no server.
        from surecall.cli.local import LocalClient, served  # noqa: PLC0415 - see above

        quiet = settings.verbose <= 0
        with served(gguf_of(settings), serving_of(settings), quiet=quiet) as server:
            known = msgspec.structs.replace(endpoint, build=server.build)
            yield Target(known, library, LocalClient(server, limits))
        return
    if not endpoint.simulated:
        client = OpenAICompatible(
            endpoint.base_url,
            endpoint.api_key,
            api_prefix=endpoint.api_prefix,
            headers=headers_of(settings, endpoint),
            limits=limits,
        )
        yield Target(endpoint, library, client)
        return
    from surecall.simulator.server import Simulator  # noqa: PLC0415 - see above

    with Simulator(seed=settings.seed) as simulator:
        yield Target(endpoint, library, OpenAICompatible(simulator.url, limits=limits))
