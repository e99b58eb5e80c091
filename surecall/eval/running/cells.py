"""What a cell of the matrix is made of: a model, a profile, a strategy, and the config they mean.

presets of the strategy, over the evaluation's own settings  ─►  config
profile, over it the settings for sampling                   ─►  options of every request
"""

from typing import Final, Literal, TypeAlias

import msgspec

from surecall.eval.settings.fields import Settings
from surecall.eval.settings.load import llm_options
from surecall.eval.storage.trial import Cell
from surecall.settings.catalog import ModelCatalog
from surecall.settings.config import ToolCallingConfig, ToolFailurePolicy, ToolUseMode
from surecall.settings.presets import (
    CONTRACTED,
    Strategy,
    content_tag_tool_call_fallback,
    openrouter_routing,
    resolve,
    without_text_calls,
)
from surecall.settings.sampling import SamplingProfile
from surecall.values.types import JSON

Fallback: TypeAlias = Literal["best_effort", "fallback_off", "fallback_on"]
BEST_EFFORT: Final[Fallback] = "best_effort"
ROUTER: Final = "openrouter"
# Ids of simulated models begin so, wherever they are served.
SIMULATED: Final = "sim/"
_UNLIMITED_S: Final = 86_400.0


class Model(msgspec.Struct, frozen=True):
    """A model that can be asked: what is sent as its id, and what is shown in reports.

    `provider` says whose presets fit. A simulated model may imitate one of the catalog and then
    gets its workarounds and profiles. One that is not `listed` must be selected by name. `tags` are
    names of groups that it belongs to beside those of the catalog. A chain has `links`: the models
    that are asked, one after the other. `at` names the endpoint, where there are several.
    """

    id: str
    provider: str = ROUTER
    shown: str = ""
    imitates: str = ""
    simulated: bool = False
    listed: bool = True
    tags: tuple[str, ...] = ()
    links: tuple["Model", ...] = ()
    at: str = ""

    @property
    def asked(self) -> str:
        """The id that is sent; of a chain, that of the first."""
        return self.links[0].id if self.links else self.id

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.shown or self.id

    @property
    def maker(self) -> str:
        """The part of its id before the first slash."""
        return self.id.partition("/")[0]

    @property
    def subject(self) -> str:
        """The id that workarounds and profiles are looked up by."""
        return self.imitates or self.asked

    @property
    def lane(self) -> str:
        """Whose rate limits it shares: behind a router, those of its maker."""
        if self.at:
            return self.at
        if self.simulated:
            return self.id
        return self.maker if self.provider == ROUTER else self.provider


class PlannedCell(msgspec.Struct, frozen=True):
    """One cell: what its trials are filed under, and everything that they need.

    Of a chain, `fallbacks` are the ids and configs of all models but the first.
    """

    cell: Cell
    model: Model
    config: ToolCallingConfig
    options: JSON
    fallbacks: tuple[tuple[str, ToolCallingConfig], ...] = ()

    @property
    def without_tools(self) -> bool:
        """Whether the model is offered no tools."""
        return self.config.tool_use_mode is ToolUseMode.DISABLED

    @property
    def contracted(self) -> bool:
        """Whether the contracts of scenarios are in force."""
        return split_strategy(self.cell.strategy)[0] in CONTRACTED


class Column(msgspec.Struct, frozen=True):
    """A choice from each dimension of the matrix."""

    model: Model
    profile: SamplingProfile
    strategy: Strategy
    fallback: Fallback = BEST_EFFORT

    @property
    def cell(self) -> Cell:
        """What its trials are filed under; the fallback is named only when it was chosen."""
        plain = self.fallback == BEST_EFFORT
        label = self.strategy if plain else f"{self.strategy}+{self.fallback}"
        return Cell(self.model.name, self.profile.id, label)


def split_strategy(label: str) -> tuple[str, str]:
    """Return the strategy and the fallback that a cell's label means."""
    strategy, _, fallback = label.partition("+")
    return strategy, fallback or BEST_EFFORT


def planned_cell(column: Column, settings: Settings, catalog: ModelCatalog) -> PlannedCell:
    """Work out what a cell means under some settings."""
    options = column.profile.options | llm_options(settings)

    def config_of(model: Model) -> ToolCallingConfig:
        config = resolve(
            provider=model.provider,
            model=model.subject,
            strategy=column.strategy,
            catalog=catalog,
            config=_base(settings, _requires_parameters(settings, model, options)),
        )
        if config.tool_use_mode is not ToolUseMode.DISABLED:
            config = config.replace(tool_use_mode=settings.tool_use_mode)
        return config if column.strategy == "raw" else _with_fallback(config, column, settings)

    others = tuple((link.id, config_of(link)) for link in column.model.links[1:])
    return PlannedCell(column.cell, column.model, config_of(column.model), options, others)


def _base(settings: Settings, require_parameters: bool) -> ToolCallingConfig:  # noqa: FBT001
    """Return the settings that are laid over the presets; what presets say of tools stays."""
    config = ToolCallingConfig(
        tool_failure_policy=ToolFailurePolicy(settings.tool_failure_policy),
        tool_allowlist=settings.tool_allowlist,
        fallback_retry_count=settings.tool_calling_fallback_retry_count,
        fix_empty_final=settings.fix_empty_final,
        run_deadline_s=settings.timeout or _UNLIMITED_S,
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
    """Whether a router must leave out providers that ignore the sampling values."""
    if settings.require_parameters is not None:
        return settings.require_parameters
    return bool(options) and model.provider == ROUTER and not model.simulated


def _with_fallback(
    config: ToolCallingConfig, column: Column, settings: Settings
) -> ToolCallingConfig:
    if column.fallback == "fallback_on":
        return content_tag_tool_call_fallback(config)
    if column.fallback == "fallback_off":
        return without_text_calls(config)
    forced = settings.enable_content_tag_tool_call_fallback
    return content_tag_tool_call_fallback(config) if forced else config
