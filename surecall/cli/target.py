"""What a command works with: an endpoint, a stored run, and the engine that runs trials."""

import importlib.util
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from surecall.cli.options import trusted_origins
from surecall.eval.analysis.recommendations import (
    Recommendation,
    profile_candidates,
    recommend,
)
from surecall.eval.analysis.summary import Summary, summarize
from surecall.eval.report.markdown import compare_endpoints
from surecall.eval.report.page.page_files import write_report
from surecall.eval.report.report_files import write_reports
from surecall.eval.report.run_results import RunResults, Sheet
from surecall.eval.running.cells import OPENROUTER, Model
from surecall.eval.running.harness import LocalEngine, TrialEngine
from surecall.eval.running.matrix import EvaluationPlan, ModelLibrary, models_served_by
from surecall.eval.running.trial_run import run_trial
from surecall.eval.scenarios.builtin_scenarios import SCENARIOS
from surecall.eval.scenarios.work import WORK
from surecall.eval.settings.endpoint import (
    Endpoint,
    connection_limits,
    request_headers,
    require_gguf,
    resolve_endpoint,
    serving_options,
)
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.value_parsers import DASK, LOCAL
from surecall.eval.storage.run_directories import find_run, translate_os_errors
from surecall.eval.storage.store import RunStore, open_for_reading
from surecall.eval.storage.trial import Trial
from surecall.runtime.transport import Client, OpenAICompatible
from surecall.settings.catalog import ModelCatalog, SamplingCatalog
from surecall.settings.connection import is_loopback
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

BUILT_IN: Final = frozenset(scenario.id for scenario in (*SCENARIOS, *WORK))
LISTED_KINDS: Final = frozenset({"clean", "shown"})
SIMULATED_NOTE = "Using the built-in simulator instead of a real model: no key, no network."
SERVED_SIMULATED_NOTE = "The models are simulated: no real model is measured."
OWN_SCENARIOS_NOTE = (
    "Simulated models follow scripts for the built-in scenarios. Use a real model for your own "
    "scenarios."
)


class Target(msgspec.Struct, frozen=True):
    """An endpoint, its models and profiles, and its client.

    If several endpoints are compared, this is the reference, and `others` maps the `at` of models
    to all of them.
    """

    endpoint: Endpoint
    library: ModelLibrary
    client: OpenAICompatible
    others: "dict[str, Target]" = {}

    @property
    def all_targets(self) -> "tuple[Target, ...]":
        """All endpoints of the evaluation."""
        return tuple(self.others.values()) or (self,)

    @property
    def is_simulated(self) -> bool:
        """Whether every endpoint is the built-in simulator."""
        return all(each.endpoint.is_simulated for each in self.all_targets)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The secrets of all endpoints, for redaction."""
        return tuple(secret for each in self.all_targets for secret in each.client.secrets)

    def target_for(self, model: Model) -> "Target":
        """Return the endpoint of a model."""
        return self.others.get(model.endpoint_name, self)


def simulation_notes(plan: EvaluationPlan, target: Target) -> Iterator[str]:
    """Yield notes for simulated models: that they are simulated, and what they cannot do."""
    if not any(each.model.simulated for each in plan.cells):
        return
    yield SIMULATED_NOTE if target.is_simulated else SERVED_SIMULATED_NOTE
    if not {scenario.id for scenario in plan.scenarios} <= BUILT_IN:
        yield OWN_SCENARIOS_NOTE


def model_library(endpoint: Endpoint) -> ModelLibrary:
    """Return the models and profiles that are available at an endpoint."""
    catalog = ModelCatalog.builtin()
    if endpoint.is_simulated:
        models = simulated_models()
    elif endpoint.is_local:
        models = (Model(endpoint.model, endpoint.provider),) if endpoint.model else ()
    else:
        models = models_served_by(endpoint, catalog)
    return ModelLibrary(models, catalog, SamplingCatalog.builtin())


def simulated_models() -> tuple[Model, ...]:
    """Return the personas as models."""
    return tuple(
        Model(
            persona.id,
            persona.provider,
            imitates=persona.imitates,
            simulated=True,
            listed=persona.kind in LISTED_KINDS,
            tags=("stable",) if persona.kind in LISTED_KINDS else (),
        )
        for persona in PERSONAS.values()
    )


@contextmanager
def open_target(settings: Settings) -> Iterator[Target]:
    """Open the target of the settings; a local server or simulator stops with the block."""
    endpoint = resolve_endpoint(settings)
    library = model_library(endpoint)
    limits = connection_limits(settings)
    if endpoint.is_local:
        # Imported here, like the simulator below: most commands need no server.
        from surecall.cli.local import LocalClient, serve_gguf  # noqa: PLC0415 - see above

        quiet = settings.verbose <= 0
        with serve_gguf(require_gguf(settings), serving_options(settings), quiet=quiet) as server:
            known = msgspec.structs.replace(endpoint, build=server.build)
            yield Target(known, library, LocalClient(server, limits))
        return
    if not endpoint.is_simulated:
        client = OpenAICompatible(
            endpoint.base_url,
            endpoint.api_key,
            api=endpoint.api,
            api_prefix=endpoint.api_prefix,
            headers=request_headers(settings, endpoint),
            limits=limits,
        )
        yield Target(endpoint, library, client)
        return
    from surecall.simulator.server import Simulator  # noqa: PLC0415 - see above

    with Simulator(seed=settings.seed) as simulator:
        client = OpenAICompatible(simulator.url, api=endpoint.api, limits=limits)
        yield Target(endpoint, library, client)


def open_stored_run(base: str, name: str) -> RunStore:
    """Open a stored run for reading, by any name that `find_run` accepts."""
    with translate_os_errors(Path(name)):
        directory = find_run(Path(base), name)
    return open_for_reading(directory)


def endpoint_from_settings(settings: Settings) -> Endpoint:
    """Return the endpoint of the settings, which need no key because nothing is sent."""
    key = settings.api_key or (Secret("-") if settings.base_url else None)
    return resolve_endpoint(msgspec.structs.replace(settings, api_key=key))


def stored_advice(store: RunStore, sheet: Sheet) -> tuple[Recommendation, ...]:
    """Return the advice for each model of a stored run."""
    settings = _stored_settings(sheet)
    endpoint = endpoint_from_settings(settings)
    summary = summarize(store.trials(), stopping=sheet.stopping)
    return build_advice(
        summary, settings.bar / 100, endpoint, model_library(endpoint), sheet.simulated_models
    )


def build_advice(
    summary: Summary,
    bar: float,
    endpoint: Endpoint,
    library: ModelLibrary,
    simulated: dict[str, str],
) -> tuple[Recommendation, ...]:
    """Return the advice for each model of a summary."""
    return recommend(
        profile_candidates(summary.cells),
        threshold=bar,
        provider=OPENROUTER if endpoint.is_simulated else endpoint.provider,
        catalog=library.catalog,
        profiles=library.profiles,
        simulated=simulated,
    )


def write_run_reports(
    store: RunStore, results: RunResults, directory: Path, *, filed: bool = False
) -> list[Path]:
    """Write all reports of a run and return their paths; with `filed`, trials were written too."""
    advice = stored_advice(store, results.sheet)
    agreed = compare_endpoints(results.sheet, store.trials())
    reports = write_reports(
        directory, results, store.meta, advice, has_trial_files=filed, agreements=agreed
    )
    return [*reports, write_report(store, directory)]


def changed_prompts(*runs: Iterable[Trial]) -> list[str]:
    """Return the scenarios whose prompts differ between trials."""
    seen: dict[str, set[str]] = {}
    for trials in runs:
        for trial in trials:
            if trial.prompt_hash:
                seen.setdefault(trial.key.scenario, set()).add(trial.prompt_hash)
    return sorted(name for name, hashes in seen.items() if len(hashes) > 1)


def _stored_settings(sheet: Sheet) -> Settings:
    try:
        return msgspec.convert(sheet.settings, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the settings of the run are invalid: {error}") from None


# Trials run in this process, in local worker processes, or on a Dask cluster. A key is sent to the
# workers of a cluster only if the connection is encrypted or local, or the user has allowed it with
# `surecall trust --engine`.

DASK_INSTALL = "pip install 'surecall[dask]'"


def engine_for(settings: Settings, target: Target) -> TrialEngine:
    """Return the engine of the settings; raise if it may not receive the key."""
    if settings.engine == LOCAL:
        return LocalEngine(run_trial, lambda model: target.target_for(model).client)
    _check_key_stays_private(settings, target)
    # Imported here: Dask is optional and slow to import.
    from surecall.eval.running.cluster.dask_cluster import (  # noqa: PLC0415 - see above
        connect_cluster,
        start_cluster,
    )
    from surecall.eval.running.cluster.dask_engine import DaskEngine  # noqa: PLC0415 - see above

    own = settings.engine == DASK
    cluster = start_cluster if own else partial(connect_cluster, settings.engine)
    return DaskEngine(cluster, run_trial, open_client, target.endpoint.api_key)


def check_engine(settings: Settings) -> None:
    """Raise for an engine that is not installed or cannot be used with the settings."""
    if settings.engine == LOCAL:
        return
    if settings.gguf:
        raise ConfigError(
            "a --gguf model serves one conversation at a time: leave out "
            f"--engine {settings.engine}"
        )
    if importlib.util.find_spec("distributed") is None:
        raise ConfigError(f"--engine {settings.engine} needs Dask: {DASK_INSTALL}")


def _check_key_stays_private(settings: Settings, target: Target) -> None:
    """Raise if the key would be sent over an unencrypted connection without consent."""
    if settings.engine == DASK or not target.client.secrets:
        return
    if is_unencrypted(settings.engine) and settings.engine not in trusted_origins(Path.cwd()):
        raise ConfigError(
            f"{settings.engine} is not encrypted, and your key would be sent to its workers: use "
            f"tls://, or run `surecall trust --engine {settings.engine}` in this directory"
        )


def is_unencrypted(address: str) -> bool:
    """Whether the connection to a cluster is neither encrypted nor local."""
    parts = urlsplit(address)
    return parts.scheme != "tls" and not is_loopback(parts.hostname or "")


@contextmanager
def open_client(settings: Settings) -> Iterator[Client]:
    """Open the client of the settings; called in a worker, which received the key."""
    with open_target(settings) as target:
        yield target.client
