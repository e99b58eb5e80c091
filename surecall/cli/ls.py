"""`surecall ls`: list models, scenarios, other choices, and runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
import msgspec

from surecall.cli.console import (
    ExitCode,
    F,
    print_columns,
    print_document,
    print_note,
    rate_with_interval,
)
from surecall.cli.options import GroupedCommand, load_settings, setting_option, settings_options
from surecall.cli.tables import model_heading
from surecall.cli.target import SIMULATED_NOTE, endpoint_from_settings, model_library
from surecall.eval.analysis.summary import Figure
from surecall.eval.analysis.verdict_text import headline_strategy, headline_totals
from surecall.eval.report.report_files import incomplete_notice, load_results
from surecall.eval.running.cells import Model
from surecall.eval.running.matrix import ModelLibrary, NothingSelected, apply_filter, select_models
from surecall.eval.scenarios.plugins import choose_scenarios, load_installed
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.fields import FIELDS
from surecall.eval.settings.resolution import DEFAULT, EffectiveSettings
from surecall.eval.storage.run_directories import run_directories
from surecall.eval.storage.store import open_for_reading
from surecall.settings.capabilities import CUSTOM
from surecall.settings.catalog import WORKAROUNDS, CatalogModel
from surecall.settings.presets import PRESET
from surecall.settings.providers import Provider, provider_table
from surecall.simulator.personas.persona_catalog import PERSONAS
from surecall.values.errors import ConfigError
from surecall.values.family import canonical_name, unknown_name_message
from surecall.values.types import JSON

_EVERYTHING: Final = "all"
_YES: Final = "yes"
_NOTHING: Final = "-"
_MODELS, _PROFILES, _SCENARIOS = "model_filter", "sampling_profile_filter", "scenarios"
Rows: TypeAlias = list[JSON]


def _filter_option(name: str) -> Callable[[F], F]:
    """Return the option for a filter without its default, because lists show everything."""
    return setting_option(FIELDS[name], shows_default=False)


@click.command(cls=GroupedCommand)
@click.argument("kind", metavar="models|profiles|scenarios|presets|faults|endpoints|runs")
@_filter_option(_MODELS)
@_filter_option(_PROFILES)
@_filter_option(_SCENARIOS)
@settings_options("base_url", "endpoint", "output_dir")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(*, kind: str, as_json: bool, **flags: Any) -> ExitCode:
    """List models, profiles, scenarios, presets, faults, endpoints, or runs.

    Models are those of the endpoint that eval would use: without a key and an address, the
    simulator's. Lists are complete unless you pass a filter.
    """
    name = canonical_name(kind)
    if name not in _ROWS_BY_KIND:
        raise ConfigError(unknown_name_message("list", kind, _ROWS_BY_KIND))
    rows = _ROWS_BY_KIND[name](load_settings(flags))
    if as_json:
        print_document({name: rows})
    elif rows:
        _print_list(rows)
    return 0


def _print_list(rows: Rows) -> None:
    """Print a list as a table; for models, without empty columns."""
    columns = {name: [_cell_text(row[name]) for row in rows] for name in rows[0]}
    if "model" in columns:
        simulated = set(columns.pop("simulated")) == {_YES}
        columns = {model_heading(simulated=simulated): columns.pop("model"), **columns}
        columns = {name: texts for name, texts in columns.items() if {*texts} != {_NOTHING}}
    print_columns([*columns], zip(*columns.values(), strict=True))


def _cell_text(value: Any) -> str:
    match value:
        case bool():
            return _YES if value else "no"
        case str() | list() | tuple() | dict() if not value:
            return _NOTHING
        case Figure():
            return rate_with_interval(value.k, value.n, (value.low, value.high)) or _NOTHING
        case datetime():
            return f"{value.astimezone():%Y-%m-%d %H:%M}"
        case list() | tuple():
            return ", ".join(map(str, value))
        case dict():
            return " ".join(f"{key}={_value_text(item)}" for key, item in value.items())
        case _:
            return str(value)


def _value_text(value: Any) -> str:
    """Return text unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _active_filter(effective: EffectiveSettings, name: str) -> str | None:
    """Return the filter if it was set; print its source unless that is a flag."""
    source = effective.sources[name]
    if source == DEFAULT:
        return None
    expression: str = getattr(effective.settings, name)
    if source not in FIELDS[name].flags:
        print_note(f'only "{expression}", from {source}')
    return expression


def _endpoint_and_library(effective: EffectiveSettings) -> tuple[Endpoint, ModelLibrary]:
    endpoint = endpoint_from_settings(effective.settings)
    return endpoint, model_library(endpoint)


def _model_rows(effective: EffectiveSettings) -> Rows:
    endpoint, library = _endpoint_and_library(effective)
    expression = _active_filter(effective, _MODELS)
    if expression is not None:
        found = select_models(expression, library, endpoint)
    else:
        found = tuple(model for model in library.models if model.listed)
    if not found:
        raise NothingSelected("no models are listed for this endpoint: pass a model id with -m")
    if endpoint.is_simulated:
        print_note(SIMULATED_NOTE)
        if hidden := len(library.models) - len(found) if expression is None else 0:
            print_note(
                f"{hidden} more have one fault each or imitate a model; list them: -m 'sim/*'"
            )
    return [_model_row(model, library) for model in found]


def _model_row(model: Model, library: ModelLibrary) -> JSON:
    entry = library.catalog.find(model.catalog_id)
    return {
        "model": model.name,
        "simulated": model.simulated,
        **_quality_columns(model, entry),
        "profiles": () if entry is None else entry.profiles,
        "workarounds": library.catalog.workarounds_for(model.catalog_id),
        "tags": () if entry is None else entry.tags,
        **({"summary": _persona_summary(model)} if model.simulated else {}),
    }


def _quality_columns(model: Model, entry: CatalogModel | None) -> JSON:
    """Return the recommendation of a model, or the model that a simulated one imitates."""
    if model.simulated:
        return {"imitates": model.imitates}
    return {"recommended": "" if entry is None else entry.recommended}


def _persona_summary(model: Model) -> str:
    """Return what a simulated model does; blank if it imitates a real model."""
    return "" if model.imitates else PERSONAS[model.id].summary


def _profile_rows(effective: EffectiveSettings) -> Rows:
    endpoint, library = _endpoint_and_library(effective)
    wanted = _active_filter(effective, _PROFILES) or _EVERYTHING
    found = apply_filter("profiles", wanted, library.profiles.select)
    if (expression := _active_filter(effective, _MODELS)) is not None:
        models = select_models(expression, library, endpoint)
        found = tuple(
            one for one in found if any(one.applies(model.catalog_id) for model in models)
        )
    return [
        {
            "profile": profile.id,
            "options": profile.options,
            "applies_to": profile.applies_to,
            "tags": profile.tags,
        }
        for profile in found
    ]


def _scenario_rows(effective: EffectiveSettings) -> Rows:
    wanted = _active_filter(effective, _SCENARIOS) or _EVERYTHING
    return [
        {
            "scenario": scenario.id,
            "groups": scenario.tags,
            "tools": scenario.uses_tools,
            "control": scenario.is_control,
            "summary": scenario.summary,
        }
        for scenario in choose_scenarios(wanted, load_installed())
    ]


def _preset_rows(_: EffectiveSettings) -> Rows:
    return [
        {"preset": name, "workaround": name in WORKAROUNDS, "summary": PRESET.help(name)}
        for name in PRESET.names
    ]


def _fault_rows(_: EffectiveSettings) -> Rows:
    return [
        {
            "fault": persona.faults[0][0],
            "kind": persona.kind,
            "persona": persona.id,
            "outcome": persona.outcome,
            "summary": persona.summary,
            "sources": persona.sources,
        }
        for persona in PERSONAS.values()
        if len(persona.faults) == 1 and not persona.imitates
    ]


def _endpoint_rows(_: EffectiveSettings) -> Rows:
    print_note(f"--endpoint accepts each name and alias; {CUSTOM} is any other endpoint")
    rows = [
        {"endpoint": row.name, "aliases": row.aliases, "addresses": _addresses(row)}
        for row in provider_table().rows
    ]
    return [*rows, {"endpoint": CUSTOM, "aliases": (), "addresses": ()}]


def _addresses(row: Provider) -> tuple[str, ...]:
    """Return the addresses from which the provider is inferred."""
    local = (f"localhost:{row.local_port}",) if row.local_port else ()
    return (*row.domains, *local)


def _run_rows(effective: EffectiveSettings) -> Rows:
    base = Path(effective.settings.output_dir)
    found = list(_readable_runs(run_directories(base)))
    if not found:
        print_note(f"there are no runs in {base}")
    return found


def _readable_runs(directories: Sequence[Path]) -> Iterator[JSON]:
    """Yield the rows of the runs that can be read; print which cannot."""
    for directory in directories:
        try:
            yield _run_row(directory)
        except (ConfigError, ValueError) as error:
            print_note(f"{directory.name} cannot be read: {error}")


def _run_row(directory: Path) -> JSON:
    with open_for_reading(directory) as store:
        results, meta = load_results(store), store.meta
    found = results.summary
    return {
        "begun": datetime.fromisoformat(meta.created_at),
        "run": directory.name,
        "trials": found.totals.trials,
        "tool_pass": headline_totals(found).tool,
        "strategy": headline_strategy(found),
        "infra": found.totals.infra,
        "partial": bool(incomplete_notice(results.totals_by_cell, meta)),
        "simulated": results.is_simulated,
        "models": tuple(dict.fromkeys(cell.model for cell in results.columns)),
    }


_ROWS_BY_KIND: Final[Mapping[str, Callable[[EffectiveSettings], Rows]]] = {
    "models": _model_rows,
    "profiles": _profile_rows,
    "scenarios": _scenario_rows,
    "presets": _preset_rows,
    "faults": _fault_rows,
    "endpoints": _endpoint_rows,
    "runs": _run_rows,
}
