"""What reports are made of: the results of a run in their order, and what to call each of them.

    Store ─► trials, Sheet ─► Results ─► summary.json, Markdown, JUnit, …   (`render_*`, all pure)

A `Sheet` says what the trials cannot: which cells were planned, in which order, and what each of
them means. It is kept in the store beside the trials, so every report can be made from the store
alone, at any time.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

import msgspec

from surecall.eval.analysis.stats import Stopping
from surecall.eval.running.cells import PlannedCell, split_strategy
from surecall.eval.running.matrix import MOST_TRIALS, Plan
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.parse import AUTO
from surecall.eval.storage.trial import Cell, Conduct, Key, Kind, Miss, Status, Trial
from surecall.settings.config import all_settings
from surecall.settings.connection import shown_url
from surecall.settings.endpoint_profile import FAILED_GENERATION
from surecall.settings.presets import TAG_FALLBACK
from surecall.values.errors import ConfigError
from surecall.values.types import JSON

H = TypeVar("H", bound=Hashable)

SHEET: Final = "sheet"
# What a command asks for. Commands of one run may differ in it; the other settings of a run that
# change results are the same in all of them.
ASKED: Final = (
    "model_filter",
    "sampling_profile_filter",
    "scenarios",
    "strategy_filter",
    "strategy_matrix",
    "fallback_matrix",
    "trials",
    "shard",
)
_DEFAULT_PROFILE: Final = "default"
_NOT_IN_FILE_NAMES: Final = re.compile("[^A-Za-z0-9_.-]+")
# File systems take 255 bytes; there must be room for the trial and the suffix.
_LONGEST_STEM: Final = 200
_HASH_CHARS: Final = 12


class Column(msgspec.Struct, frozen=True):
    """One planned cell and what it means: the options of its requests, its whole config.

    `imitates` is the model that a simulated one imitates. Older stores do not say it.
    """

    cell: Cell
    options: JSON = {}
    config: JSON = {}
    simulated: bool = False
    imitates: str = ""

    @property
    def strategy(self) -> str:
        """The strategy, without the fallback that may be named with it."""
        return split_strategy(self.cell.strategy)[0]

    @property
    def fallback(self) -> str:
        """How calls in plain text are treated."""
        return split_strategy(self.cell.strategy)[1]

    @property
    def tool_use_mode(self) -> str:
        """How tools are used, unless a scenario sets another mode."""
        return str(self.config.get("tool_use_mode", ""))

    @property
    def reads_tags(self) -> bool:
        """Whether calls are read from tags in the text."""
        return TAG_FALLBACK in self.config.get("response_transforms", ())

    @property
    def readers(self) -> tuple[str, ...]:
        """Where calls were looked for: where they belong first, then in text. Blank if unknown."""
        if not self.config:
            return ()
        protocol = str(self.config.get("call_protocol", "native"))
        mode = self.config.get("text_calls", "off")
        marked = mode != "off" or self.reads_tags or protocol != "native"
        salvaged = FAILED_GENERATION in self.config.get("body_transforms", ())
        found = {
            protocol: True,
            "tags in text": marked,
            "any form in text": mode == "any",
            "failed generations": salvaged,
        }
        return tuple(name for name, on in found.items() if on)


class Sheet(msgspec.Struct, frozen=True):
    """What was planned: cells and scenarios in their order, and the settings, without the key.

    `asked` is kept where several commands made a run: what each of them asked for.
    """

    columns: tuple[Column, ...] = ()
    scenarios: tuple[str, ...] = ()
    settings: JSON = {}
    asked: tuple[JSON, ...] = ()

    @property
    def commands(self) -> tuple[JSON, ...]:
        """What each command asked for, oldest first."""
        return self.asked or ({name: self.settings.get(name) for name in ASKED},)

    @property
    def simulated(self) -> dict[str, str]:
        """The simulated models, each with the model that it imitates, or its own id."""
        simulated = [column for column in self.columns if column.simulated]
        return {column.cell.model: column.imitates or column.cell.model for column in simulated}

    @property
    def endpoints(self) -> dict[str, str]:
        """The addresses of endpoints that are held against each other, by name; else none."""
        return dict(self.settings.get("endpoints") or {})

    @property
    def stopping(self) -> Stopping:
        """How the number of trials came about.

        Who asks for another number than before has seen what the first ones showed.
        """
        asked = {command["trials"] for command in self.commands}
        most = MOST_TRIALS if self.settings.get("trials") == AUTO else 0
        return Stopping(AUTO in asked or len(asked) > 1, most)


def sheet_for(plan: Plan, endpoint: Endpoint) -> Sheet:
    """Describe a plan, for the store."""
    settings = msgspec.structs.asdict(plan.settings)
    del settings["api_key"]
    settings |= {"base_url": shown_url(endpoint.base_url), "api_prefix": endpoint.api_prefix}
    if endpoint.build:
        settings["served_by"] = endpoint.build
    if plan.endpoints:
        settings["endpoints"] = plan.endpoints
    columns = tuple(map(_described, plan.cells))
    scenarios = tuple(scenario.id for scenario in plan.scenarios)
    return Sheet(columns, scenarios, msgspec.to_builtins(settings))


def _described(planned: PlannedCell) -> Column:
    model = planned.model
    return Column(
        planned.cell,
        planned.options,
        all_settings(planned.config),
        simulated=model.simulated,
        imitates=model.imitates,
    )


def sheet_in(configs: Iterable[Mapping[str, Any]]) -> Sheet:
    """Read the sheet from the configs of the commands that made a run, oldest first.

    A run that was extended has the cells of the last command first, in its order, then those
    that only earlier ones had.
    """
    sheets = [_read_sheet(config.get(SHEET, {})) for config in configs][::-1] or [Sheet()]
    columns = {column.cell: column for sheet in sheets[::-1] for column in sheet.columns}
    order = dict.fromkeys(column.cell for sheet in sheets for column in sheet.columns)
    scenarios = dict.fromkeys(name for sheet in sheets for name in sheet.scenarios)
    commands = [command for sheet in sheets[::-1] for command in sheet.commands]
    asked = [each for at, each in enumerate(commands) if each not in commands[:at]]
    shown = tuple(columns[cell] for cell in order)
    several = tuple(asked) if len(asked) > 1 else ()
    return Sheet(shown, tuple(scenarios), sheets[0].settings, several)


def _read_sheet(plain: Any) -> Sheet:
    try:
        return msgspec.convert(plain, Sheet)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the description of a run cannot be read: {error}") from None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One trial in brief: what every report needs of it. There may be a hundred thousand."""

    key: Key
    status: Status
    category: str = ""
    error: str = ""
    hint: str = ""
    http_status: int | None = None
    elapsed_ms: int = 0
    attempts: int = 1
    first_ok: bool = False
    false_finals: int = 0
    builds: tuple[str, ...] = ()
    conduct: Conduct = Conduct()
    misses: tuple[Miss, ...] = ()
    turn: int | None = None
    call_id: str = ""
    kind: Kind = "tool"

    @property
    def ok(self) -> bool:
        """Whether the trial passed."""
        return self.status == "passed"


class Results(msgspec.Struct, frozen=True):
    """All trials of a run in brief, cell by cell in the order of the sheet; and their names.

    `scenarios` are those that were tried, in order.
    """

    sheet: Sheet
    scenarios: tuple[str, ...]
    entries: dict[Cell, tuple[Entry, ...]]
    columns: dict[Cell, Column]
    labels: dict[Cell, str]
    stems: dict[tuple[Cell, str], str]

    def file_name(self, key: Key) -> str:
        """Return the name of a trial's own file, safe as a path component."""
        return f"{self.stems[key.cell, key.scenario]}__trial_{key.trial:02d}.json"

    @property
    def all(self) -> tuple[Entry, ...]:
        """Every trial, cell by cell."""
        return tuple(entry for entries in self.entries.values() for entry in entries)

    @property
    def simulated(self) -> bool:
        """Whether any of the models is not a real one."""
        return any(self.columns[cell].simulated for cell in self.entries)


def results_of(sheet: Sheet, trials: Iterable[Trial]) -> Results:
    """Sort trials, which may come in any order, one at a time. Only the brief form is kept."""
    found: dict[Cell, list[Entry]] = {}
    once = _Once()
    for trial in trials:
        entry = _brief(trial, once)
        found.setdefault(entry.key.cell, []).append(entry)
    planned = {column.cell: column for column in sheet.columns}
    cells = [cell for cell in planned if cell in found]
    cells += sorted(cell for cell in found if cell not in planned)
    tried = {entry.key.scenario for entries in found.values() for entry in entries}
    scenarios = _in_order(tried, sheet.scenarios)
    places = {name: place for place, name in enumerate(scenarios)}

    def place(entry: Entry) -> tuple[int, int]:
        return entry.key.trial, places[entry.key.scenario]

    columns = {cell: planned.get(cell, Column(cell)) for cell in cells}
    labels = _labels(columns)
    return Results(
        sheet,
        scenarios,
        {cell: tuple(sorted(found[cell], key=place)) for cell in cells},
        columns,
        labels,
        _stems({(cell, name): f"{labels[cell]}__{name}" for cell in cells for name in scenarios}),
    )


class _Once:
    """Keeps one of all values that are equal: most trials differ in a few numbers alone."""

    def __init__(self) -> None:
        self._known: dict[object, object] = {}

    def __call__(self, value: H) -> H:
        return cast("H", self._known.setdefault(value, value))


def _brief(trial: Trial, once: _Once) -> Entry:
    return Entry(
        Key(once(trial.key.cell), once(trial.key.scenario), trial.key.trial),
        once(trial.status),
        once(trial.category),
        once(trial.error),
        once(trial.hint),
        trial.http_status,
        trial.elapsed_ms,
        trial.attempts,
        trial.first_ok,
        trial.false_finals,
        once(trial.builds),
        once(Conduct.of(trial)),
        once(trial.score.misses),
        trial.turn,
        once(trial.call_id),
        trial.kind,
    )


def _in_order(names: Iterable[str], planned: Iterable[str]) -> tuple[str, ...]:
    present = set(names)
    known = [name for name in planned if name in present]
    return (*known, *sorted(present.difference(known)))


def _labels(columns: Mapping[Cell, Column]) -> dict[Cell, str]:
    """Name each cell by its model, and by whatever else tells cells of this run apart."""
    shown = columns.values()
    profiles = any(column.cell.profile != _DEFAULT_PROFILE for column in shown)
    strategies = len({column.strategy for column in shown}) > 1
    fallbacks = len({column.fallback for column in shown}) > 1
    return {
        cell: ":".join(
            (
                cell.model,
                *([cell.profile] if profiles else []),
                *([column.strategy] if strategies else []),
                *([column.fallback] if fallbacks else []),
            )
        )
        for cell, column in columns.items()
    }


def _stems(names: Mapping[tuple[Cell, str], str]) -> dict[tuple[Cell, str], str]:
    """Turn names into beginnings of file names, each different from all others."""
    plain = {pair: safe_name(name) for pair, name in names.items()}
    # Some file systems do not tell upper case from lower.
    counts = Counter(stem.casefold() for stem in plain.values())
    return {
        pair: stem
        if counts[stem.casefold()] == 1 and len(stem) <= _LONGEST_STEM
        else f"{stem[:_LONGEST_STEM]}__{_hashed(*pair)}"
        for pair, stem in plain.items()
    }


def safe_name(text: str) -> str:
    """Return a text as part of a file name that is not hidden and leads nowhere else."""
    return _NOT_IN_FILE_NAMES.sub("__", text).lstrip(".")


def _hashed(cell: Cell, scenario: str) -> str:
    parts = (cell.model, cell.profile, cell.strategy, scenario)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_HASH_CHARS]
