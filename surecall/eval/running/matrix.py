"""Builds the plan of an evaluation from settings and catalogs, and estimates its cost.

    models x profiles x strategies  =  cells, in catalog order
    trials x cells x scenarios      =  keys, in a fixed order

Keys are ordered by trial first, so an evaluation that ends early has run every model about equally
often, at about the same time.

The estimate:

    requests      3 for a scenario with tools (read, change, answer), 1 without, 1 if recorded
    prompt        system text, tools, and message at 4 characters per token in every request, plus
                  150 tokens for every earlier turn
    completion    120 tokens per request

Reasoning models write several times as much. A scenario's prompt that is not known in advance, such
as that of a function, counts as 100 tokens.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from surecall.eval.analysis.comparisons import EXTENDED_STRATEGIES
from surecall.eval.running.cells import (
    BEST_EFFORT,
    OPENROUTER,
    SIMULATED_PREFIX,
    MatrixColumn,
    Model,
    PlannedCell,
    is_chain,
    normalize_chains,
    parse_chain,
    plan_cell,
)
from surecall.eval.scenarios.scenario import Scenario, check_contract
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.resolution import result_settings
from surecall.eval.settings.value_parsers import AUTO, Shard
from surecall.eval.storage.store import run_identity
from surecall.eval.storage.trial import Cell, CellScenario, CompletedTrials, Key
from surecall.settings.catalog import (
    EVERYTHING,
    ModelCatalog,
    SamplingCatalog,
    SamplingProfile,
    matches_any,
    select,
)
from surecall.settings.config import ToolUseMode
from surecall.settings.presets import Strategy
from surecall.values.errors import ConfigError
from surecall.values.family import unknown_name_message
from surecall.values.types import JSON
from surecall.values.version import __version__
from surecall.wire.chat_format import encode

T = TypeVar("T")

TRIALS_PER_ROUND: Final = 10
MAX_TRIALS: Final = 100
_STRATEGY_NAMES: Final[dict[Strategy, tuple[str, ...]]] = {
    "raw": ("raw", "naked", "unoptimized"),
    "baseline": ("baseline", "base", "both"),
    "production": ("production", "prod", "recommended", "both"),
    "contract": ("contract", "contracted"),
    "guided": ("guided",),
    "guided_contract": ("guided_contract", "small_model"),
}


class NothingSelected(ConfigError):
    """All names in the filters are known, but their combination selects nothing."""


class SkippedScenario(msgspec.Struct, frozen=True):
    """A scenario that does not apply to a cell, and the reason."""

    cell: Cell
    scenario: str
    reason: str


class EvaluationPlan(msgspec.Struct, frozen=True):
    """Everything to run. `skips` are recorded, but not run.

    If several endpoints are compared, `endpoints` has their URLs by name, the reference first.
    """

    settings: Settings
    cells: tuple[PlannedCell, ...]
    scenarios: tuple[Scenario, ...]
    skips: tuple[SkippedScenario, ...] = ()
    endpoints: dict[str, str] = {}

    @property
    def has_automatic_trials(self) -> bool:
        """Whether each cell gets as many trials as its verdict needs."""
        return self.settings.trials == AUTO

    @property
    def threshold(self) -> float:
        """The pass rate that cells are compared with."""
        return self.settings.bar / 100

    @property
    def trials(self) -> int:
        """The minimum number of trials of each scenario."""
        return TRIALS_PER_ROUND if self.has_automatic_trials else int(self.settings.trials)

    @property
    def identity(self) -> JSON:
        """The identity of the run: the same plan resumes it, a different one starts a new run."""
        settings = result_settings(self.settings) | {"version": __version__}
        if self.endpoints:
            settings["endpoints"] = self.endpoints
        cells = (each.cell for each in self.cells)
        return run_identity(settings, cells, (scenario.id for scenario in self.scenarios))

    def keys(
        self, first: int = 1, last: int | None = None, only: Iterable[Cell] | None = None
    ) -> Iterator[Key]:
        """Generate the keys of the trials `first` to `last`, in order."""
        places, shard = tuple(self._cell_scenarios(only)), self.settings.shard
        for trial in range(first, (last or self.trials) + 1):
            for cell, scenario in places:
                key = Key(cell, scenario, trial)
                if in_shard(key, shard):
                    yield key

    def count_remaining(
        self,
        completed: CompletedTrials | None = None,
        first: int = 1,
        last: int | None = None,
        only: Iterable[Cell] | None = None,
    ) -> Counter[CellScenario]:
        """Count the same keys by cell and scenario, excluding completed ones."""
        found, shard, last = (
            completed or CompletedTrials(),
            self.settings.shard,
            last or self.trials,
        )
        if shard is None:
            return Counter(
                {
                    place: last - first + 1 - found.count_between(place, first, last)
                    for place in self._cell_scenarios(only)
                }
            )
        # Whether a key belongs to a shard is decided for each key.
        keys = (key for key in self.keys(first, last, only) if key not in found)
        return Counter((key.cell, key.scenario) for key in keys)

    def _cell_scenarios(self, only: Iterable[Cell] | None) -> Iterator[CellScenario]:
        """Generate the cells to run with each scenario that applies, in order."""
        skipped = {(skip.cell, skip.scenario) for skip in self.skips}
        wanted = None if only is None else frozenset(only)
        for each in self.cells:
            for scenario in self.scenarios if wanted is None or each.cell in wanted else ():
                if (each.cell, scenario.id) not in skipped:
                    yield each.cell, scenario.id

    @property
    def is_planned(self) -> Callable[[Key], bool]:
        """A function that returns whether a key is to be run or skipped by this plan."""
        cells = {each.cell for each in self.cells}
        names = {scenario.id for scenario in self.scenarios}

        def contains(key: Key) -> bool:
            """Whether the plan has a trial."""
            counts = self.has_automatic_trials or key.trial <= self.trials
            fits = key.cell in cells and key.scenario in names
            return counts and fits and in_shard(key, self.settings.shard)

        return contains

    def skipped_keys(self) -> Iterator[tuple[Key, str]]:
        """Generate the keys to skip, each with the reason."""
        for trial in range(1, self.trials + 1):
            for skip in self.skips:
                key = Key(skip.cell, skip.scenario, trial)
                if in_shard(key, self.settings.shard):
                    yield key, skip.reason


class ModelLibrary(msgspec.Struct, frozen=True):
    """The models and profiles to choose from."""

    models: tuple[Model, ...]
    catalog: ModelCatalog
    profiles: SamplingCatalog


def build_plan(
    settings: Settings, scenarios: tuple[Scenario, ...], library: ModelLibrary, endpoint: Endpoint
) -> EvaluationPlan:
    """Return the plan. Raise `ConfigError` for unknown names, `NothingSelected` if it is empty."""
    if settings.shard is not None and settings.trials == AUTO:
        raise ConfigError("--shard needs a number of trials, not auto: shards share no results")
    if settings.tool_allowlist:
        _check_allowlist(settings.tool_allowlist, scenarios)
    models = select_models(settings.model_filter, library, endpoint)
    cells = tuple(
        plan_cell(column, settings, library.catalog)
        for model in models
        for column in _matrix_columns(model, settings, library.profiles)
    )
    if any(each.contracted for each in cells):
        _check_contracts(scenarios, settings.tool_allowlist)
    skips = tuple(_skipped_scenarios(cells, scenarios, settings))
    planned = EvaluationPlan(settings, cells, scenarios, skips)
    if next(planned.keys(), None) is None:
        reason = skips[0].reason if skips else "this shard gets none of so few trials"
        raise NothingSelected(f"nothing to run: {reason}")
    return planned


def models_served_by(endpoint: Endpoint, catalog: ModelCatalog) -> tuple[Model, ...]:
    """Return the models known to be served: those of the catalog, whose ids are OpenRouter's."""
    if endpoint.is_simulated or endpoint.provider != OPENROUTER:
        return ()
    return tuple(Model(entry.id) for entry in catalog.models)


def select_models(expression: str, library: ModelLibrary, endpoint: Endpoint) -> tuple[Model, ...]:
    """Return the models that ids, globs, makers, or tags select, in catalog order.

    An endpoint with an explicit URL may serve models that no catalog lists, so an id that matches
    nothing is used literally. The simulator serves only its personas. Fallback chains are written
    as `a>b`.
    """
    expression = normalize_chains(expression)
    tokens = [token.strip() for token in expression.split(",") if token.strip()]
    wanted = [token for token in tokens if token[0] != "!" and token.casefold() not in EVERYTHING]

    def names(model: Model) -> tuple[str, ...]:
        """Return the names by which a filter can select a model."""
        return filter_names(model, library.catalog)

    def pick(name: str) -> tuple[Model, ...]:
        """Return the models with a name."""
        return select_models(name, library, endpoint)

    called = [
        model
        for model in library.models
        if model.listed or any(matches_any(token, names(model)[:1]) for token in wanted)
    ]
    strangers = [parse_chain(each, pick) for each in dict.fromkeys(wanted) if is_chain(each)]
    strangers += _unlisted_models(wanted, library, endpoint)
    if not called and not strangers:
        raise ConfigError("models: no models are known at this endpoint; pass a model id with -m")
    _check_known_names(wanted, [names(model) for model in (*library.models, *strangers)])
    everything = sorted(
        (*called, *strangers), key=lambda model: _catalog_position(model, library.catalog)
    )
    found = apply_filter("models", expression, lambda part: select(everything, part, names))
    if len({model.simulated for model in found}) > 1:
        raise ConfigError(
            f"models: run simulated models ({SIMULATED_PREFIX}…) and real ones separately"
        )
    return found


def _check_known_names(tokens: Iterable[str], names_by_model: Sequence[tuple[str, ...]]) -> None:
    """Raise `ConfigError` for an unknown name, suggesting unlisted models as well."""
    known = [name for names in names_by_model for name in names]
    for token in tokens:
        if known and not matches_any(token, known):
            raise ConfigError(f"models: {unknown_name_message('model', token, known)}")


def _unlisted_models(
    tokens: Iterable[str], library: ModelLibrary, endpoint: Endpoint
) -> list[Model]:
    """Return models for ids in no catalog that the endpoint may serve."""
    if endpoint.is_simulated or not endpoint.is_explicit:
        return []
    known = [name for model in library.models for name in filter_names(model, library.catalog)]
    # A tag is not a model id, even if the endpoint serves none of its models.
    known += [name for entry in library.catalog.models for name in (entry.provider, *entry.tags)]
    return [
        Model(token, endpoint.provider, simulated=token.startswith(SIMULATED_PREFIX))
        for token in dict.fromkeys(tokens)
        if "*" not in token and not is_chain(token) and not matches_any(token, known)
    ]


def _catalog_position(model: Model, catalog: ModelCatalog) -> int:
    """Return the position of a model in the catalog; unlisted models come last."""
    entry = catalog.find(model.catalog_id)
    return len(catalog.models) if entry is None else catalog.models.index(entry)


def filter_names(model: Model, catalog: ModelCatalog) -> tuple[str, ...]:
    """Return the names that select a model in a filter, its id first."""
    base = model.id.partition(":")[0]
    entry = catalog.find(model.catalog_id)
    known = () if entry is None else entry.names
    return tuple(dict.fromkeys((model.id, model.name, base, model.maker, *known, *model.tags)))


def selected_strategies(settings: Settings) -> tuple[Strategy, ...]:
    """Return the strategies to run; the strategy matrix overrides the filter."""
    if settings.strategy_matrix:
        return "baseline", "production"
    return apply_filter(
        "strategies",
        settings.strategy_filter,
        lambda expression: select(tuple(_STRATEGY_NAMES), expression, _STRATEGY_NAMES.__getitem__),
    )


def in_shard(key: Key, shard: Shard | None) -> bool:
    """Whether a key belongs to a shard; adding trials or models moves no key."""
    if shard is None or shard.count == 1:
        return True
    parts = (key.cell.model, key.cell.profile, key.cell.strategy, key.scenario, str(key.trial))
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])
    return number % shard.count == shard.index - 1


def apply_filter(
    label: str, expression: str, select_matching: Callable[[str], tuple[T, ...]]
) -> tuple[T, ...]:
    """Apply a filter. Raise `ConfigError` for an unknown name, `NothingSelected` for no match."""
    try:
        return select_matching(expression)
    except ConfigError as problem:
        tokens = [token.strip().removeprefix("!") for token in expression.split(",")]
        known = all(_matches_any(select_matching, token) for token in tokens if token)
        kind = NothingSelected if known and any(tokens) else ConfigError
        raise kind(f"{label}: {problem}") from None


def _matches_any(select_matching: Callable[[str], Sequence[object]], token: str) -> bool:
    """Whether a filter with this token alone selects anything."""
    try:
        return bool(select_matching(token))
    except ConfigError:
        return False


def _matrix_columns(
    model: Model, settings: Settings, profiles: SamplingCatalog
) -> Iterator[MatrixColumn]:
    """Yield the columns of a model: its profiles, with each strategy and fallback mode."""
    for profile in _selected_profiles(model, settings, profiles):
        for strategy in selected_strategies(settings):
            replaced = _replaces_default_profile(settings, strategy)
            fitting = _recommended_profile(model, profiles, profile) if replaced else profile
            apart = settings.fallback_matrix and strategy != "raw"
            for fallback in ("fallback_off", "fallback_on") if apart else (BEST_EFFORT,):
                yield MatrixColumn(model, fitting, strategy, fallback)


def _selected_profiles(
    model: Model, settings: Settings, profiles: SamplingCatalog
) -> tuple[SamplingProfile, ...]:
    selected = apply_filter("profiles", settings.sampling_profile_filter, profiles.select)
    if not settings.sampling_profile_enforce_applicability:
        return selected
    return profiles.for_model(model.catalog_id, settings.sampling_profile_filter)


def _replaces_default_profile(settings: Settings, strategy: Strategy) -> bool:
    """Whether a strategy runs the model's recommended profile instead of the default one."""
    only_default = settings.sampling_profile_filter.strip().casefold() == "default"
    full = strategy == "production" or strategy in EXTENDED_STRATEGIES
    return settings.production_auto_sampling_profile and full and only_default


def _recommended_profile(
    model: Model, profiles: SamplingCatalog, default: SamplingProfile
) -> SamplingProfile:
    fitting = (
        profile
        for profile in profiles.profiles
        if "recommended" in profile.tags and profile.applies(model.catalog_id)
    )
    return next(fitting, default)


def _check_allowlist(names: Iterable[str], scenarios: Iterable[Scenario]) -> None:
    """Raise `ConfigError` for a tool that no scenario has: it would hide all tools."""
    worlds = (scenario.begin("-") for scenario in scenarios)
    known = {tool.name for world in worlds for tool in world.registry.definitions}
    for name in names:
        if name not in known:
            raise ConfigError(f"tool_allowlist: {unknown_name_message('tool', name, known)}")


def _check_contracts(scenarios: Iterable[Scenario], allowed: Sequence[str] | None) -> None:
    """Raise `ConfigError` for a contract that requires a tool outside the allowlist."""
    for scenario in scenarios:
        tools = (tool.name for tool in scenario.begin("-").registry.definitions)
        offered = [name for name in tools if allowed is None or name in allowed]
        check_contract(scenario.id, scenario.contract, offered)


def _skipped_scenarios(
    cells: Iterable[PlannedCell], scenarios: Sequence[Scenario], settings: Settings
) -> Iterator[SkippedScenario]:
    everywhere = settings.tool_use_mode == ToolUseMode.DISABLED
    for planned in cells:
        who = "the whole evaluation" if everywhere else f"{planned.model.name} in this strategy"
        for scenario in scenarios:
            if planned.tools_disabled and scenario.uses_tools:
                yield SkippedScenario(planned.cell, scenario.id, f"tools are off for {who}")


_REQUESTS_PER_TRIAL: Final = {True: 3, False: 1}
_CHARS_PER_TOKEN: Final = 4
_TURN_TOKENS: Final = 150
_UNKNOWN_PROMPT_TOKENS: Final = 100
_COMPLETION_TOKENS: Final = 120


class ModelPrice(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    prompt: float
    completion: float


class CostEstimate(msgspec.Struct, frozen=True):
    """The estimated load of some trials. `cost` is None unless every model has a price."""

    trials: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: "CostEstimate") -> "CostEstimate":
        known = self.cost is not None and other.cost is not None
        return CostEstimate(
            self.trials + other.trials,
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            (self.cost or 0.0) + (other.cost or 0.0) if known else None,
        )

    def with_trials(
        self, trials: int, load: "TrialLoad", price: ModelPrice | None
    ) -> "CostEstimate":
        """Return the estimate with more trials of one load."""
        return self + CostEstimate(
            trials,
            trials * load.requests,
            trials * load.prompt_tokens,
            trials * load.completion_tokens,
            None if price is None else trials * load.cost(price),
        )


class TrialLoad(msgspec.Struct, frozen=True):
    """The estimated requests and tokens of one trial of a scenario."""

    requests: int
    prompt_tokens: int
    completion_tokens: int

    def cost(self, price: ModelPrice) -> float:
        """Return the cost in dollars."""
        read, written = self.prompt_tokens, self.completion_tokens
        return (read * price.prompt + written * price.completion) / 1e6


def estimate_load(scenario: Scenario) -> TrialLoad:
    """Estimate one trial of a scenario; a recorded request is estimated from its source."""
    if scenario.config.get("max_turns") == 1 and scenario.source:
        return TrialLoad(1, len(scenario.source) // _CHARS_PER_TOKEN, _COMPLETION_TOKENS)
    requests = _REQUESTS_PER_TRIAL[scenario.uses_tools]
    tools = [tool.spec for tool in scenario.begin("-").registry.definitions]
    chars = len(scenario.system) + len(scenario.user) + (len(encode(tools)) if tools else 0)
    first = chars // _CHARS_PER_TOKEN + (0 if scenario.user else _UNKNOWN_PROMPT_TOKENS)
    grown = _TURN_TOKENS * requests * (requests - 1) // 2
    return TrialLoad(requests, first * requests + grown, _COMPLETION_TOKENS * requests)


def estimate_cost(
    plan: EvaluationPlan,
    remaining: Mapping[CellScenario, int],
    prices: Mapping[str, ModelPrice] | None = None,
) -> CostEstimate:
    """Estimate the remaining trials, with model prices by id."""
    loads = {scenario.id: estimate_load(scenario) for scenario in plan.scenarios}
    known = {each.cell: (prices or {}).get(each.model.sent_id) for each in plan.cells}
    guess = CostEstimate()
    for (cell, scenario), trials in remaining.items():
        if trials:
            guess = guess.with_trials(trials, loads[scenario], known[cell])
    return guess
