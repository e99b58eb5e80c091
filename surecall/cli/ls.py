"""`surecall ls`: what there is to choose from, and the runs that were made."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
import msgspec

from surecall.cli.common import note
from surecall.cli.listing import rate_words, say_columns, say_document
from surecall.cli.options import F, GroupedCommand, joined, settled, with_settings
from surecall.cli.stored import endpoint_named
from surecall.cli.target import SIMULATED, library_at
from surecall.eval.analysis.figures import Figure
from surecall.eval.analysis.headline import headline, headline_strategy
from surecall.eval.report.files import missing_from, results_in
from surecall.eval.report.summary_json import figures
from surecall.eval.running.cells import Model
from surecall.eval.running.matrix import Library, NothingSelected, chosen, select_models
from surecall.eval.scenarios.plugins import choose, installed
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.fields import FIELDS
from surecall.eval.settings.load import DEFAULT, Effective
from surecall.eval.storage.run_directories import runs
from surecall.eval.storage.store import open_for_reading
from surecall.settings.capabilities import CUSTOM
from surecall.settings.catalog import WORKAROUNDS, CatalogModel
from surecall.settings.presets import PRESET
from surecall.settings.providers import ROWS, Provider
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.values.errors import ConfigError
from surecall.values.family import canonical, unknown
from surecall.values.types import JSON

_EVERYTHING: Final = "all"
_YES: Final = "yes"
_NOTHING: Final = "-"
_MODELS, _PROFILES, _SCENARIOS = "model_filter", "sampling_profile_filter", "scenarios"
Rows: TypeAlias = list[JSON]


def _filter_option(name: str) -> Callable[[F], F]:
    """Offer a filter without the default that it has elsewhere: a list shows everything."""
    field = FIELDS[name]
    flags = (*field.flags, name)
    return click.option(
        *flags, metavar=field.metavar, help=field.help, multiple=True, callback=joined
    )


@click.command(cls=GroupedCommand)
@click.argument("kind", metavar="models|profiles|scenarios|presets|faults|endpoints|runs")
@_filter_option(_MODELS)
@_filter_option(_PROFILES)
@_filter_option(_SCENARIOS)
@with_settings("base_url", "endpoint", "output_dir")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(*, kind: str, as_json: bool, **flags: Any) -> int:
    """List models, profiles, scenarios, presets, faults, endpoints or runs.

    Models are those of the endpoint that an evaluation would go to: without a key and without an
    address, the simulator's. A list holds everything unless a filter is given.
    """
    name = canonical(kind)
    if name not in _LISTS:
        raise ConfigError(unknown("list", kind, _LISTS))
    rows = _LISTS[name](settled(flags))
    if as_json:
        say_document({name: rows})
    elif rows:
        _say_list(rows)
    return 0


def _say_list(rows: Rows) -> None:
    """Print a list for people. Of models, only the columns in which one of them has something."""
    columns = {name: [_words(row[name]) for row in rows] for name in rows[0]}
    if "model" in columns:
        simulated = set(columns.pop("simulated")) == {_YES}
        columns = {"simulated model" if simulated else "model": columns.pop("model"), **columns}
        columns = {name: texts for name, texts in columns.items() if {*texts} != {_NOTHING}}
    say_columns([*columns], zip(*columns.values(), strict=True))


def _words(value: Any) -> str:
    match value:
        case bool():
            return _YES if value else "no"
        case str() | list() | tuple() | dict() if not value:
            return _NOTHING
        case Figure():
            return rate_words(value.k, value.n, (value.low, value.high)) or _NOTHING
        case datetime():
            return f"{value.astimezone():%Y-%m-%d %H:%M}"
        case list() | tuple():
            return ", ".join(map(str, value))
        case dict():
            return " ".join(f"{key}={_written(item)}" for key, item in value.items())
        case _:
            return str(value)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _filter(effective: Effective, name: str) -> str | None:
    """Return the filter if it was set; mention it if it was not set by a flag."""
    source = effective.sources[name]
    if source == DEFAULT:
        return None
    expression: str = getattr(effective.settings, name)
    if source not in FIELDS[name].flags:
        note(f'only "{expression}", from {source}')
    return expression


def _place(effective: Effective) -> tuple[Endpoint, Library]:
    endpoint = endpoint_named(effective.settings)
    return endpoint, library_at(endpoint)


def _models(effective: Effective) -> Rows:
    endpoint, library = _place(effective)
    expression = _filter(effective, _MODELS)
    if expression is not None:
        found = select_models(expression, library, endpoint)
    else:
        found = tuple(model for model in library.models if model.listed)
    if not found:
        raise NothingSelected("no model is known at this endpoint; name one by its id, with -m")
    if endpoint.simulated:
        note(SIMULATED)
        if hidden := len(library.models) - len(found) if expression is None else 0:
            note(f"{hidden} more have one fault each, or imitate a model: -m 'sim/*' lists them")
    return [_model(model, library) for model in found]


def _model(model: Model, library: Library) -> JSON:
    entry = library.catalog.find(model.subject)
    return {
        "model": model.name,
        "simulated": model.simulated,
        **_quality(model, entry),
        "profiles": () if entry is None else entry.profiles,
        "workarounds": library.catalog.workarounds_for(model.subject),
        "tags": () if entry is None else entry.tags,
        **({"summary": _summary(model)} if model.simulated else {}),
    }


def _quality(model: Model, entry: CatalogModel | None) -> JSON:
    """Say how good a model is; of a simulated one, only which model it imitates."""
    if model.simulated:
        return {"imitates": model.imitates}
    return {"recommended": "" if entry is None else entry.recommended}


def _summary(model: Model) -> str:
    """Say what a simulated model does; one that imitates another does what that one does."""
    return "" if model.imitates else PERSONAS[model.id].summary


def _profiles(effective: Effective) -> Rows:
    endpoint, library = _place(effective)
    wanted = _filter(effective, _PROFILES) or _EVERYTHING
    found = chosen("profiles", wanted, library.profiles.select)
    if (expression := _filter(effective, _MODELS)) is not None:
        models = select_models(expression, library, endpoint)
        found = tuple(one for one in found if any(one.applies(model.subject) for model in models))
    return [
        {
            "profile": profile.id,
            "options": profile.options,
            "applies_to": profile.applies_to,
            "tags": profile.tags,
        }
        for profile in found
    ]


def _scenarios(effective: Effective) -> Rows:
    wanted = _filter(effective, _SCENARIOS) or _EVERYTHING
    return [
        {
            "scenario": scenario.id,
            "groups": scenario.tags,
            "tools": scenario.uses_tools,
            "control": scenario.is_control,
            "summary": scenario.summary,
        }
        for scenario in choose(wanted, installed())
    ]


def _presets(_: Effective) -> Rows:
    return [
        {"preset": name, "workaround": name in WORKAROUNDS, "summary": PRESET.help(name)}
        for name in PRESET.names
    ]


def _faults(_: Effective) -> Rows:
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


def _endpoints(_: Effective) -> Rows:
    note(f"--endpoint takes each name and alias; {CUSTOM} is any other endpoint")
    providers = [
        {"endpoint": row.name, "aliases": row.aliases, "addresses": _addresses(row)} for row in ROWS
    ]
    return [*providers, {"endpoint": CUSTOM, "aliases": (), "addresses": ()}]


def _addresses(row: Provider) -> tuple[str, ...]:
    """Return the addresses that tell the provider, so that it need not be named."""
    local = (f"localhost:{row.local_port}",) if row.local_port else ()
    return (*row.domains, *local)


def _runs(effective: Effective) -> Rows:
    base = Path(effective.settings.output_dir)
    found = list(_read_runs(runs(base)))
    if not found:
        note(f"there are no runs in {base}")
    return found


def _read_runs(directories: Sequence[Path]) -> Iterator[JSON]:
    for directory in directories:
        try:
            yield _run(directory)
        except (ConfigError, ValueError) as error:
            note(f"{directory.name} cannot be read: {error}")


def _run(directory: Path) -> JSON:
    with open_for_reading(directory) as store:
        results, meta = results_in(store), store.meta
    found = figures(results)
    infra = sum(entry.status == "infra" for entry in results.all)
    return {
        "begun": datetime.fromisoformat(meta.created),
        "run": directory.name,
        "trials": len(results.all),
        "tool_pass": headline(found).tool,
        "strategy": headline_strategy(found),
        "infra": infra,
        "partial": bool(missing_from(results, meta)),
        "simulated": results.simulated,
    }


_LISTS: Final[Mapping[str, Callable[[Effective], Rows]]] = {
    "models": _models,
    "profiles": _profiles,
    "scenarios": _scenarios,
    "presets": _presets,
    "faults": _faults,
    "endpoints": _endpoints,
    "runs": _runs,
}
