"""What a stored run says about itself: its settings, its endpoint, and its advice."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from surecall.cli.target import library_at
from surecall.eval.analysis.recommend import Recommendation, candidates, original_row, recommend
from surecall.eval.analysis.summary import summarise
from surecall.eval.report.agreement import agreements_in
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
        candidates(summarise(store.trials(), stopping=sheet.stopping).cells),
        bar=settings.bar / 100,
        provider=_ROUTER if endpoint.simulated else endpoint.provider,
        catalog=library.catalog,
        profiles=library.profiles,
        simulated=sheet.simulated,
    )


def write_stored(
    store: Store, results: Results, directory: Path, *, filed: bool = False
) -> list[Path]:
    """Write all reports of a run; return where they are. `filed`: the trials are written, too."""
    rows = map(original_row, advice_of(store, results.sheet))
    agreed = agreements_in(results.sheet, store.trials())
    reports = write_reports(directory, results, store.meta, rows, filed=filed, agreed=agreed)
    return [*reports, write_report(store, directory)]


def changed_prompts(*runs: Iterable[Trial]) -> list[str]:
    """Name the scenarios whose prompts were not the same in all trials."""
    seen: dict[str, set[str]] = {}
    for trials in runs:
        for trial in trials:
            if trial.prompt_hash:
                seen.setdefault(trial.key.scenario, set()).add(trial.prompt_hash)
    return sorted(name for name, hashes in seen.items() if len(hashes) > 1)


def _settings_of(sheet: Sheet) -> Settings:
    try:
        return msgspec.convert(sheet.settings, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the settings of a run cannot be read: {error}") from None
