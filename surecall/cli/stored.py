"""What a stored run says about itself: its settings, its endpoint, and its advice."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from surecall.cli.target import library_at
from surecall.eval.analysis.recommend import Recommendation, candidates, original_row, recommend
from surecall.eval.analysis.summary import summarise
from surecall.eval.report.common import Results, Sheet
from surecall.eval.report.files import write_reports
from surecall.eval.report.page.files import write_report
from surecall.eval.settings.endpoint import Endpoint, endpoint_of
from surecall.eval.settings.fields import Settings
from surecall.eval.storage.run_directories import find_run, typed_errors
from surecall.eval.storage.store import Store, open_for_reading
from surecall.eval.storage.trial import Trial
from surecall.values.errors import ConfigError
from surecall.values.types import Secret

_ANY_KEY = Secret("-")
_ROUTER = "openrouter"


def opened(base: str, name: str) -> Store:
    """Open a run to read it, by any name that `find_run` accepts."""
    with typed_errors(Path(name)):
        directory = find_run(Path(base), name)
    return open_for_reading(directory)


def endpoint_named(settings: Settings) -> Endpoint:
    """Return the endpoint of some settings. Only a request to it takes a key."""
    key = settings.api_key or (_ANY_KEY if settings.base_url else None)
    return endpoint_of(msgspec.structs.replace(settings, api_key=key))


def advice_of(store: Store, sheet: Sheet) -> tuple[Recommendation, ...]:
    """Return the advice for each model of a run, from the store alone."""
    settings = _settings_of(sheet)
    endpoint = endpoint_named(settings)
    library = library_at(endpoint)
    return recommend(
        candidates(summarise(store.trials()).cells),
        bar=settings.bar / 100,
        provider=_ROUTER if endpoint.simulated else endpoint.provider,
        catalog=library.catalog,
        profiles=library.profiles,
        simulated=sheet.simulated,
    )


def write_stored(store: Store, results: Results, directory: Path) -> list[Path]:
    """Write all reports of a run; return where they are."""
    rows = map(original_row, advice_of(store, results.sheet))
    return [*write_reports(directory, results, store.meta, rows), write_report(store, directory)]


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Say in which settings two runs differ, one line for each."""
    names = sorted(name for name in first.keys() | second.keys() if not _same(name, first, second))
    return [f"{name}: {_written(first, name)} and {_written(second, name)}" for name in names]


def changed_prompts(*runs: Iterable[Trial]) -> list[str]:
    """Name the scenarios whose prompts were not the same in all trials."""
    seen: dict[str, set[str]] = {}
    for trials in runs:
        for trial in trials:
            if trial.prompt_hash:
                seen.setdefault(trial.key.scenario, set()).add(trial.prompt_hash)
    return sorted(name for name, hashes in seen.items() if len(hashes) > 1)


def _same(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    return name in first and name in second and bool(first[name] == second[name])


def _written(identity: Mapping[str, Any], name: str) -> str:
    return msgspec.json.encode(identity[name]).decode() if name in identity else "nothing"


def _settings_of(sheet: Sheet) -> Settings:
    try:
        return msgspec.convert(sheet.settings, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the settings of a run cannot be read: {error}") from None
