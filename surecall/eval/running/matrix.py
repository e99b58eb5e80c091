"""The matrix: settings and catalogs in, a plan of what to run out. Nothing is run here.

    models x profiles x strategies  =  cells, in the order of the catalog
    trials x cells x scenarios      =  keys, in an order that does not depend on anything else

Trials come first in the order of keys, so that an evaluation that ends early has asked every model
about as often, and at about the same time.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from surecall.eval.analysis.paired import BEYOND
from surecall.eval.running.cells import (
    BEST_EFFORT,
    ROUTER,
    SIMULATED,
    Column,
    Fallback,
    Model,
    PlannedCell,
    planned_cell,
)
from surecall.eval.running.chains import chain_of, is_chain, spelt
from surecall.eval.scenarios.scenario import Scenario, check_contract
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.fields import Settings
from surecall.eval.settings.load import shaping
from surecall.eval.settings.parse import AUTO, Shard
from surecall.eval.storage.done import Done, Place
from surecall.eval.storage.identity import with_matrix
from surecall.eval.storage.trial import Cell, Key
from surecall.settings.catalog import ModelCatalog
from surecall.settings.config import ToolUseMode
from surecall.settings.filters import EVERYTHING, matches, select
from surecall.settings.presets import Strategy
from surecall.settings.sampling import SamplingCatalog, SamplingProfile
from surecall.values.errors import ConfigError
from surecall.values.family import unknown
from surecall.values.types import JSON
from surecall.values.version import __version__

T = TypeVar("T")

FIRST_TRIALS: Final = 10
MOST_TRIALS: Final = 100
RECOMMENDED: Final = "recommended"
_STRATEGIES: Final[dict[Strategy, tuple[str, ...]]] = {
    "raw": ("raw", "naked", "unoptimized"),
    "baseline": ("baseline", "base", "both"),
    "production": ("production", "prod", "recommended", "both"),
    "contract": ("contract", "contracted"),
    "guided": ("guided",),
    "guided_contract": ("guided_contract", "small_model"),
}
_MATRIX: Final[tuple[Strategy, ...]] = ("baseline", "production")
_FALLBACKS: Final[tuple[Fallback, ...]] = ("fallback_off", "fallback_on")


class NothingSelected(ConfigError):
    """Every name is known, but together they leave nothing to run."""


class Skip(msgspec.Struct, frozen=True):
    """A scenario that cannot apply to a cell, and why."""

    cell: Cell
    scenario: str
    reason: str


class Plan(msgspec.Struct, frozen=True):
    """Everything to run. `skips` are recorded, but not run.

    `endpoints` has the addresses by name, where there are several, the reference first.
    """

    settings: Settings
    cells: tuple[PlannedCell, ...]
    scenarios: tuple[Scenario, ...]
    skips: tuple[Skip, ...] = ()
    endpoints: dict[str, str] = {}

    @property
    def automatic(self) -> bool:
        """Whether each cell gets as many trials as it takes to decide about it."""
        return self.settings.trials == AUTO

    @property
    def bar(self) -> float:
        """The rate that cells are held against."""
        return self.settings.bar / 100

    @property
    def trials(self) -> int:
        """How many trials each scenario gets, at least."""
        return FIRST_TRIALS if self.automatic else int(self.settings.trials)

    @property
    def identity(self) -> JSON:
        """Which run its trials belong to: the same plan continues a run, another begins one."""
        settings = shaping(self.settings) | {"version": __version__}
        if self.endpoints:
            settings["endpoints"] = self.endpoints
        cells = (each.cell for each in self.cells)
        return with_matrix(settings, cells, (scenario.id for scenario in self.scenarios))

    def keys(
        self, first: int = 1, last: int | None = None, only: Iterable[Cell] | None = None
    ) -> Iterator[Key]:
        """Return the keys of some trials to run, in order, made as they are asked for."""
        places, shard = tuple(self._places(only)), self.settings.shard
        for trial in range(first, (last or self.trials) + 1):
            for cell, scenario in places:
                key = Key(cell, scenario, trial)
                if in_shard(key, shard):
                    yield key

    def left(
        self,
        done: Done | None = None,
        first: int = 1,
        last: int | None = None,
        only: Iterable[Cell] | None = None,
    ) -> Counter[Place]:
        """Count the same keys by cell and scenario, without those that are done."""
        found, shard, last = done or Done(), self.settings.shard, last or self.trials
        if shard is None:
            return Counter(
                {
                    place: last - first + 1 - found.within(place, first, last)
                    for place in self._places(only)
                }
            )
        # A shard picks its keys one by one.
        keys = (key for key in self.keys(first, last, only) if key not in found)
        return Counter((key.cell, key.scenario) for key in keys)

    def _places(self, only: Iterable[Cell] | None) -> Iterator[Place]:
        """Return the cells to run with the scenarios that apply to them, in order."""
        skipped = {(skip.cell, skip.scenario) for skip in self.skips}
        wanted = None if only is None else frozenset(only)
        for each in self.cells:
            for scenario in self.scenarios if wanted is None or each.cell in wanted else ():
                if (each.cell, scenario.id) not in skipped:
                    yield each.cell, scenario.id

    @property
    def wants(self) -> Callable[[Key], bool]:
        """Whether a key is one of those to run or to skip; of open numbers of trials, any."""
        cells = {each.cell for each in self.cells}
        names = {scenario.id for scenario in self.scenarios}

        def wanted(key: Key) -> bool:
            counts = self.automatic or key.trial <= self.trials
            fits = key.cell in cells and key.scenario in names
            return counts and fits and in_shard(key, self.settings.shard)

        return wanted

    def skipped_keys(self) -> Iterator[tuple[Key, str]]:
        """Return the keys that cannot apply, each with the reason."""
        for trial in range(1, self.trials + 1):
            for skip in self.skips:
                key = Key(skip.cell, skip.scenario, trial)
                if in_shard(key, self.settings.shard):
                    yield key, skip.reason


class Library(msgspec.Struct, frozen=True):
    """The models and profiles there are to choose from."""

    models: tuple[Model, ...]
    catalog: ModelCatalog
    profiles: SamplingCatalog


def plan(
    settings: Settings, scenarios: tuple[Scenario, ...], library: Library, endpoint: Endpoint
) -> Plan:
    """Choose what to run. Unknown names are a `ConfigError`, an empty choice `NothingSelected`."""
    if settings.shard is not None and settings.trials == AUTO:
        raise ConfigError("a shard does not see what the others find: give a number of trials")
    if settings.tool_allowlist:
        _check_tools(settings.tool_allowlist, scenarios)
    models = select_models(settings.model_filter, library, endpoint)
    cells = tuple(
        planned_cell(column, settings, library.catalog)
        for model in models
        for column in _columns(model, settings, library.profiles)
    )
    if any(each.contracted for each in cells):
        _check_contracts(scenarios, settings.tool_allowlist)
    skips = tuple(_skips(cells, scenarios, settings))
    planned = Plan(settings, cells, scenarios, skips)
    if next(planned.keys(), None) is None:
        reason = skips[0].reason if skips else "this shard has no part in so few trials"
        raise NothingSelected(f"nothing to run: {reason}")
    return planned


def models_at(endpoint: Endpoint, catalog: ModelCatalog) -> tuple[Model, ...]:
    """Return the models that an endpoint is known to serve: the catalog's ids are OpenRouter's."""
    if endpoint.simulated or endpoint.provider != ROUTER:
        return ()
    return tuple(Model(entry.id) for entry in catalog.models)


def select_models(expression: str, library: Library, endpoint: Endpoint) -> tuple[Model, ...]:
    """Pick models by id, glob, maker or tag, in the order of the catalog.

    An endpoint whose address was given may serve models that no catalog lists, so there an id
    that matches nothing is taken literally. A simulator serves its personas and nothing else.
    Chains of models are written as `a>b`.
    """
    expression = spelt(expression)
    tokens = [token.strip() for token in expression.split(",") if token.strip()]
    wanted = [token for token in tokens if token[0] != "!" and token.casefold() not in EVERYTHING]

    def names(model: Model) -> tuple[str, ...]:
        return names_of(model, library.catalog)

    def pick(name: str) -> tuple[Model, ...]:
        return select_models(name, library, endpoint)

    called = [
        model
        for model in library.models
        if model.listed or any(matches(token, names(model)[:1]) for token in wanted)
    ]
    strangers = [chain_of(each, pick) for each in dict.fromkeys(wanted) if is_chain(each)]
    strangers += _strangers(wanted, library, endpoint)
    if not called and not strangers:
        raise ConfigError("models: none is known at this endpoint; name one by its id, with -m")
    _check_known(wanted, [names(model) for model in (*library.models, *strangers)])
    everything = sorted((*called, *strangers), key=lambda model: _place(model, library.catalog))
    found = chosen("models", expression, lambda part: select(everything, part, names))
    if len({model.simulated for model in found}) > 1:
        raise ConfigError(f"models: {SIMULATED}… are simulated, the others are not: ask apart")
    return found


def _check_known(wanted: Iterable[str], called: Sequence[tuple[str, ...]]) -> None:
    """Refuse an unknown name; suggestions include the models that must be selected by name."""
    known = [name for names in called for name in names]
    for token in wanted:
        if known and not matches(token, known):
            raise ConfigError(f"models: {unknown('model', token, known)}")


def _strangers(wanted: Iterable[str], library: Library, endpoint: Endpoint) -> list[Model]:
    """Return models for ids that no catalog knows, where the endpoint may serve them."""
    if endpoint.simulated or not endpoint.explicit:
        return []
    known = [name for model in library.models for name in names_of(model, library.catalog)]
    # A tag stays a tag, also where none of its models are served.
    known += [name for entry in library.catalog.models for name in (entry.provider, *entry.tags)]
    return [
        Model(token, endpoint.provider, simulated=token.startswith(SIMULATED))
        for token in dict.fromkeys(wanted)
        if "*" not in token and not is_chain(token) and not matches(token, known)
    ]


def _place(model: Model, catalog: ModelCatalog) -> int:
    entry = catalog.find(model.subject)
    return len(catalog.models) if entry is None else catalog.models.index(entry)


def names_of(model: Model, catalog: ModelCatalog) -> tuple[str, ...]:
    """Return what a filter may call a model, its own id first."""
    base = model.id.partition(":")[0]
    entry = catalog.find(model.subject)
    known = () if entry is None else entry.names
    return tuple(dict.fromkeys((model.id, model.name, base, model.maker, *known, *model.tags)))


def strategies_of(settings: Settings) -> tuple[Strategy, ...]:
    """Return the strategies to compare; the matrix overrides the filter."""
    if settings.strategy_matrix:
        return _MATRIX
    return chosen(
        "strategies",
        settings.strategy_filter,
        lambda expression: select(tuple(_STRATEGIES), expression, _STRATEGIES.__getitem__),
    )


def in_shard(key: Key, shard: Shard | None) -> bool:
    """Whether a key belongs to a shard; more trials or models move no key to another."""
    if shard is None or shard.count == 1:
        return True
    parts = (key.cell.model, key.cell.profile, key.cell.strategy, key.scenario, str(key.trial))
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])
    return number % shard.count == shard.index - 1


def chosen(what: str, expression: str, choose: Callable[[str], tuple[T, ...]]) -> tuple[T, ...]:
    """Apply a filter, and tell a `ConfigError` (an unknown name) from `NothingSelected`."""
    try:
        return choose(expression)
    except ConfigError as problem:
        tokens = [token.strip().removeprefix("!") for token in expression.split(",")]
        known = all(_knows(choose, token) for token in tokens if token)
        kind = NothingSelected if known and any(tokens) else ConfigError
        raise kind(f"{what}: {problem}") from None


def _knows(choose: Callable[[str], Sequence[object]], token: str) -> bool:
    try:
        return bool(choose(token))
    except ConfigError:
        return False


def _columns(model: Model, settings: Settings, profiles: SamplingCatalog) -> Iterator[Column]:
    for profile in _profiles(model, settings, profiles):
        for strategy in strategies_of(settings):
            replaced = _is_auto(settings, strategy)
            fitting = _recommended(model, profiles, profile) if replaced else profile
            apart = settings.fallback_matrix and strategy != "raw"
            for fallback in _FALLBACKS if apart else (BEST_EFFORT,):
                yield Column(model, fitting, strategy, fallback)


def _profiles(
    model: Model, settings: Settings, profiles: SamplingCatalog
) -> tuple[SamplingProfile, ...]:
    selected = chosen("profiles", settings.sampling_profile_filter, profiles.select)
    if not settings.sampling_profile_enforce_applicability:
        return selected
    return profiles.for_model(model.subject, settings.sampling_profile_filter)


def _is_auto(settings: Settings, strategy: Strategy) -> bool:
    only_default = settings.sampling_profile_filter.strip().casefold() == "default"
    full = strategy == "production" or strategy in BEYOND
    return settings.production_auto_sampling_profile and full and only_default


def _recommended(
    model: Model, profiles: SamplingCatalog, otherwise: SamplingProfile
) -> SamplingProfile:
    fitting = (
        profile
        for profile in profiles.profiles
        if RECOMMENDED in profile.tags and profile.applies(model.subject)
    )
    return next(fitting, otherwise)


def _check_tools(names: Iterable[str], scenarios: Iterable[Scenario]) -> None:
    """Refuse the name of a tool that no scenario has: it would hide all tools."""
    worlds = (scenario.begin("-") for scenario in scenarios)
    known = {tool.name for world in worlds for tool in world.registry.definitions}
    for name in names:
        if name not in known:
            raise ConfigError(f"tool_allowlist: {unknown('tool', name, known)}")


def _check_contracts(scenarios: Iterable[Scenario], allowed: Sequence[str] | None) -> None:
    for scenario in scenarios:
        tools = (tool.name for tool in scenario.begin("-").registry.definitions)
        offered = [name for name in tools if allowed is None or name in allowed]
        check_contract(scenario.id, scenario.contract, offered)


def _skips(
    cells: Iterable[PlannedCell], scenarios: Sequence[Scenario], settings: Settings
) -> Iterator[Skip]:
    everywhere = settings.tool_use_mode == ToolUseMode.DISABLED
    for planned in cells:
        who = "the whole evaluation" if everywhere else f"{planned.model.name} in this strategy"
        for scenario in scenarios:
            if planned.without_tools and scenario.uses_tools:
                yield Skip(planned.cell, scenario.id, f"tools are off for {who}")
