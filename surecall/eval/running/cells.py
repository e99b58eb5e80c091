"""The cells of an evaluation matrix: a model, a profile, and a strategy, with their config."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from surecall.eval.settings.fields import Settings
from surecall.eval.settings.resolution import llm_options
from surecall.eval.storage.trial import Cell
from surecall.settings.catalog import ModelCatalog, SamplingProfile
from surecall.settings.config import ToolCallingConfig, ToolFailurePolicy, ToolUseMode
from surecall.settings.presets import (
    CONTRACT_STRATEGIES,
    Strategy,
    content_tag_tool_call_fallback,
    openrouter_routing,
    resolve,
    without_text_calls,
)
from surecall.values.errors import ConfigError
from surecall.values.types import JSON

# presets of the strategy, overridden by the evaluation settings  ─►  config
# sampling profile, overridden by the sampling settings           ─►  options of every request

FallbackMode: TypeAlias = Literal["best_effort", "fallback_off", "fallback_on"]
BEST_EFFORT: Final[FallbackMode] = "best_effort"
OPENROUTER: Final = "openrouter"
# The prefix of the ids of simulated models, wherever they are served.
SIMULATED_PREFIX: Final = "sim/"


class Model(msgspec.Struct, frozen=True):
    """A model to evaluate.

    `provider` selects the presets. A simulated model that `imitates` a catalog model gets its
    workarounds and profiles. A model that is not `listed` must be selected by name. `tags` are
    groups in addition to those of the catalog. A fallback chain has `links`, its models in order.
    `endpoint_name` is set when several endpoints are compared.
    """

    id: str
    provider: str = OPENROUTER
    label: str = ""
    imitates: str = ""
    simulated: bool = False
    listed: bool = True
    tags: tuple[str, ...] = ()
    links: tuple["Model", ...] = ()
    endpoint_name: str = ""

    @property
    def sent_id(self) -> str:
        """The id sent to the endpoint; for a chain, that of its first model."""
        return self.links[0].id if self.links else self.id

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.label or self.id

    @property
    def maker(self) -> str:
        """The part of the id before the first slash."""
        return self.id.partition("/")[0]

    @property
    def catalog_id(self) -> str:
        """The id for looking up workarounds and profiles."""
        return self.imitates or self.sent_id

    @property
    def lane(self) -> str:
        """The group of models that shares its rate limits: behind a router, its maker's."""
        if self.endpoint_name:
            return self.endpoint_name
        if self.simulated:
            return self.id
        return self.maker if self.provider == OPENROUTER else self.provider


class PlannedCell(msgspec.Struct, frozen=True):
    """A cell with everything its trials need.

    For a fallback chain, `fallbacks` has the ids and configs of all models after the first.
    """

    cell: Cell
    model: Model
    config: ToolCallingConfig
    options: JSON
    fallbacks: tuple[tuple[str, ToolCallingConfig], ...] = ()

    @property
    def tools_disabled(self) -> bool:
        """Whether no tools are exposed to the model."""
        return self.config.tool_use_mode is ToolUseMode.DISABLED

    @property
    def contracted(self) -> bool:
        """Whether the contracts of scenarios apply."""
        return split_strategy(self.cell.strategy)[0] in CONTRACT_STRATEGIES


class MatrixColumn(msgspec.Struct, frozen=True):
    """One choice from each dimension of the matrix."""

    model: Model
    profile: SamplingProfile
    strategy: Strategy
    fallback: FallbackMode = BEST_EFFORT

    @property
    def cell(self) -> Cell:
        """The cell of its trials; the label includes the fallback mode only if one was chosen."""
        plain = self.fallback == BEST_EFFORT
        label = self.strategy if plain else f"{self.strategy}+{self.fallback}"
        return Cell(self.model.name, self.profile.id, label)


def split_strategy(label: str) -> tuple[str, str]:
    """Return the strategy and the fallback mode of a cell's label."""
    strategy, _, fallback = label.partition("+")
    return strategy, fallback or BEST_EFFORT


def plan_cell(column: MatrixColumn, settings: Settings, catalog: ModelCatalog) -> PlannedCell:
    """Return the planned cell of a matrix column under these settings."""
    options = column.profile.options | llm_options(settings)

    def config_of(model: Model) -> ToolCallingConfig:
        config = resolve(
            provider=model.provider,
            model=model.catalog_id,
            strategy=column.strategy,
            catalog=catalog,
            config=_base_config(settings, _requires_parameters(settings, model, options)),
        )
        if config.tool_use_mode is not ToolUseMode.DISABLED:
            config = config.replace(tool_use_mode=settings.tool_use_mode)
        return config if column.strategy == "raw" else _with_fallback_mode(config, column, settings)

    others = tuple((link.id, config_of(link)) for link in column.model.links[1:])
    return PlannedCell(column.cell, column.model, config_of(column.model), options, others)


def _base_config(settings: Settings, require_parameters: bool) -> ToolCallingConfig:  # noqa: FBT001
    """Return the settings that override the presets; the presets' tool mode is kept."""
    config = ToolCallingConfig(
        tool_failure_policy=ToolFailurePolicy(settings.tool_failure_policy),
        tool_allowlist=settings.tool_allowlist,
        fallback_retry_count=settings.tool_calling_fallback_retry_count,
        fix_empty_final=settings.fix_empty_final,
        run_deadline_s=settings.timeout or 86_400.0,
        request_overrides={},
    )
    routed = openrouter_routing(
        config,
        route=settings.route or None,
        transforms=None if settings.transforms is None else list(settings.transforms),
        provider_only=list(settings.provider_only),
        provider_order=list(settings.provider_order),
        provider_ignore=list(settings.provider_ignore),
        require_parameters=require_parameters,
    )
    return routed.replace(request_overrides=routed.request_overrides | settings.request_overrides)


def _requires_parameters(settings: Settings, model: Model, options: JSON) -> bool:
    """Whether the router must skip providers that ignore the sampling parameters."""
    if settings.require_parameters is not None:
        return settings.require_parameters
    return bool(options) and model.provider == OPENROUTER and not model.simulated


def _with_fallback_mode(
    config: ToolCallingConfig, column: MatrixColumn, settings: Settings
) -> ToolCallingConfig:
    """Set whether calls in text are parsed: by the column's fallback mode, else by the settings."""
    if column.fallback == "fallback_on":
        return content_tag_tool_call_fallback(config)
    if column.fallback == "fallback_off":
        return without_text_calls(config)
    forced = settings.enable_content_tag_tool_call_fallback
    return content_tag_tool_call_fallback(config) if forced else config


# Fallback chains, evaluated as one model: `a>b` falls back to b when a fails.
#
# All models of a chain are served by the same endpoint. Every trial starts with the first.

CHAIN_SEPARATOR: Final = ">"


def normalize_chains(expression: str) -> str:
    """Return a filter without spaces around the chain separator."""
    return CHAIN_SEPARATOR.join(part.strip() for part in expression.split(CHAIN_SEPARATOR))


def is_chain(token: str) -> bool:
    """Whether a filter token names a fallback chain."""
    return CHAIN_SEPARATOR in token


def chain_model_ids(model: str) -> tuple[str, ...]:
    """Return the model ids of a fallback chain; none for a single model."""
    return tuple(model.split(CHAIN_SEPARATOR)) if is_chain(model) else ()


def parse_chain(token: str, find_models: Callable[[str], Sequence[Model]]) -> Model:
    """Return a fallback chain as a model; `find_models` resolves each of its names."""
    links = tuple(_resolve_chain_link(name, find_models) for name in token.split(CHAIN_SEPARATOR))
    if len({link.simulated for link in links}) > 1:
        raise ConfigError(f'models: the chain "{token}" mixes simulated and real models')
    first = links[0]
    return Model(
        CHAIN_SEPARATOR.join(link.id for link in links),
        first.provider,
        imitates=first.imitates,
        simulated=first.simulated,
        links=links,
    )


def _resolve_chain_link(name: str, find_models: Callable[[str], Sequence[Model]]) -> Model:
    """Return the one model that a link of a chain names."""
    if not name:
        raise ConfigError(f"models: write a chain as a{CHAIN_SEPARATOR}b; a name is missing")
    found = find_models(name)
    if len(found) != 1:
        raise ConfigError(f'models: "{name}" matches several models; name one in a chain')
    return found[0]
