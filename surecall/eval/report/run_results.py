"""The results of a run, prepared for all report formats.

    RunStore ─► trials, Sheet ─► RunResults ─► summary.json, Markdown, JUnit, …

A `Sheet` records the plan: cells, their order, and their settings. It is stored with the trials, so
every report can be generated from the store alone.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from surecall.eval.analysis.stats import StoppingRule
from surecall.eval.analysis.summary import Summary, Totals, summarize
from surecall.eval.running.cells import PlannedCell, split_strategy
from surecall.eval.running.matrix import MAX_TRIALS, EvaluationPlan
from surecall.eval.settings.endpoint import Endpoint
from surecall.eval.settings.value_parsers import AUTO
from surecall.eval.storage.trial import Cell, Key, ScenarioKind, Status, Trial
from surecall.settings.config import all_settings
from surecall.settings.connection import redact_url
from surecall.settings.endpoint_profile import FAILED_GENERATION
from surecall.settings.presets import TAG_FALLBACK
from surecall.values.errors import ConfigError
from surecall.values.types import JSON
from surecall.wire.chat_format import encode

T = TypeVar("T")
_INDENT = b"  "


class LazyRows(Sequence[JSON], Generic[T]):
    """A list of JSON objects, each created on access."""

    def __init__(self, items: Sequence[T], make: Callable[[T], JSON]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, place: Any) -> Any:
        found = self._items[place]
        return list(map(self._make, found)) if isinstance(place, slice) else self._make(found)


def pretty_json(value: Any) -> Iterator[bytes]:
    """Yield indented JSON in pieces, so that long lists are never held as text.

    Objects and lists may contain `LazyRows`.
    """
    yield from _encode_pieces(value, b"\n")
    yield b"\n"


def _encode_pieces(value: Any, line_start: bytes) -> Iterator[bytes]:
    """Yield a value. `line_start` is the line break and indentation of the line it starts on."""
    inner = line_start + _INDENT
    match value:
        case dict():
            named = (
                (encode(key) + b": ", _encode_pieces(item, inner)) for key, item in value.items()
            )
            yield from _wrap_items(b"{", named, b"}", line_start)
        case list():
            listed = ((b"", _encode_pieces(item, inner)) for item in value)
            yield from _wrap_items(b"[", listed, b"]", line_start)
        case LazyRows():
            rows = ((b"", (_encode_plain(item, inner),)) for item in value)
            yield from _wrap_items(b"[", rows, b"]", line_start)
        case _:
            yield _encode_plain(value, line_start)


def _wrap_items(
    opening: bytes,
    items: Iterable[tuple[bytes, Iterable[bytes]]],
    closing: bytes,
    line_start: bytes,
) -> Iterator[bytes]:
    """Yield items between brackets, one on each line."""
    inner, before = line_start + _INDENT, opening
    for begun, pieces in items:
        yield before + inner + begun
        yield from pieces
        before = b","
    yield opening + closing if before == opening else line_start + closing


def _encode_plain(value: Any, line_start: bytes) -> bytes:
    """Return indented JSON whose lines start with `line_start`."""
    # JSON strings contain no raw line feeds, so every one is between values.
    return msgspec.json.format(encode(value)).replace(b"\n", line_start)


H = TypeVar("H", bound=Hashable)

SHEET_KEY: Final = "sheet"
# Settings in which commands of the same run may differ. All others that affect results are equal.
COMMAND_SETTINGS: Final = (
    "model_filter",
    "sampling_profile_filter",
    "scenarios",
    "strategy_filter",
    "strategy_matrix",
    "fallback_matrix",
    "trials",
    "shard",
)
_UNSAFE_IN_FILE_NAMES: Final = re.compile("[^A-Za-z0-9_.-]+")
# File systems allow 255 bytes, which must include the trial number and the suffix.
_MAX_STEM_CHARS: Final = 200


class SheetColumn(msgspec.Struct, frozen=True):
    """A planned cell with the options of its requests and its full config.

    `imitates` is the model that a simulated one imitates; blank in older stores.
    """

    cell: Cell
    options: JSON = {}
    config: JSON = {}
    simulated: bool = False
    imitates: str = ""

    @property
    def strategy(self) -> str:
        """The strategy, without the fallback in its label."""
        return split_strategy(self.cell.strategy)[0]

    @property
    def fallback(self) -> str:
        """The handling of calls in plain text."""
        return split_strategy(self.cell.strategy)[1]

    @property
    def tool_use_mode(self) -> str:
        """The tool use mode, unless a scenario sets another one."""
        return str(self.config.get("tool_use_mode", ""))

    @property
    def parses_tags(self) -> bool:
        """Whether calls are parsed from tags in the text."""
        return TAG_FALLBACK in self.config.get("response_transforms", ())

    @property
    def call_sources(self) -> tuple[str, ...]:
        """The places from which calls are parsed, in order. Empty if unknown."""
        if not self.config:
            return ()
        protocol = str(self.config.get("call_protocol", "native"))
        mode = self.config.get("text_calls", "off")
        marked = mode != "off" or self.parses_tags or protocol != "native"
        salvaged = FAILED_GENERATION in self.config.get("body_transforms", ())
        found = {
            protocol: True,
            "tags in text": marked,
            "any form in text": mode == "any",
            "failed generations": salvaged,
        }
        return tuple(name for name, on in found.items() if on)


class Sheet(msgspec.Struct, frozen=True):
    """The plan of a run: cells and scenarios in order, and the settings without the API key.

    `asked` holds the settings of each command, if several commands made the run.
    """

    columns: tuple[SheetColumn, ...] = ()
    scenarios: tuple[str, ...] = ()
    settings: JSON = {}
    asked: tuple[JSON, ...] = ()

    @property
    def commands(self) -> tuple[JSON, ...]:
        """The command-specific settings (`COMMAND_SETTINGS`) of each command, oldest first."""
        return self.asked or ({name: self.settings.get(name) for name in COMMAND_SETTINGS},)

    @property
    def simulated_models(self) -> dict[str, str]:
        """The simulated models, mapped to the model that each imitates, or its own id."""
        simulated = [column for column in self.columns if column.simulated]
        return {column.cell.model: column.imitates or column.cell.model for column in simulated}

    @property
    def endpoints(self) -> dict[str, str]:
        """The URLs of compared endpoints by name; empty if none are compared."""
        return dict(self.settings.get("endpoints") or {})

    @property
    def stopping(self) -> StoppingRule:
        """How the number of trials was determined.

        It is sequential if it was automatic, or if a later command changed it after seeing results.
        """
        numbers = {command["trials"] for command in self.commands}
        most = MAX_TRIALS if self.settings.get("trials") == AUTO else 0
        return StoppingRule(AUTO in numbers or len(numbers) > 1, most)


def make_sheet(plan: EvaluationPlan, endpoint: Endpoint) -> Sheet:
    """Return the sheet of a plan, for the store."""
    settings = msgspec.structs.asdict(plan.settings)
    del settings["api_key"]
    settings |= {"base_url": redact_url(endpoint.base_url), "api_prefix": endpoint.api_prefix}
    if endpoint.build:
        settings["served_by"] = endpoint.build
    if plan.endpoints:
        settings["endpoints"] = plan.endpoints
    columns = tuple(map(_sheet_column, plan.cells))
    scenarios = tuple(scenario.id for scenario in plan.scenarios)
    return Sheet(columns, scenarios, msgspec.to_builtins(settings))


def _sheet_column(planned_cell: PlannedCell) -> SheetColumn:
    model = planned_cell.model
    return SheetColumn(
        planned_cell.cell,
        planned_cell.options,
        all_settings(planned_cell.config),
        simulated=model.simulated,
        imitates=model.imitates,
    )


def merge_sheets(configs: Iterable[Mapping[str, Any]]) -> Sheet:
    """Return the combined sheet from the configs of a run's commands, oldest first.

    The cells of the last command come first, then those that only earlier commands had.
    """
    sheets = [_parse_sheet(config.get(SHEET_KEY, {})) for config in configs][::-1] or [Sheet()]
    columns = {column.cell: column for sheet in sheets[::-1] for column in sheet.columns}
    order = dict.fromkeys(column.cell for sheet in sheets for column in sheet.columns)
    scenarios = dict.fromkeys(name for sheet in sheets for name in sheet.scenarios)
    commands = [command for sheet in sheets[::-1] for command in sheet.commands]
    distinct = [each for at, each in enumerate(commands) if each not in commands[:at]]
    shown = tuple(columns[cell] for cell in order)
    several = tuple(distinct) if len(distinct) > 1 else ()
    return Sheet(shown, tuple(scenarios), sheets[0].settings, several)


def _parse_sheet(config: Any) -> Sheet:
    """Parse a stored sheet, also of an older version."""
    try:
        return msgspec.convert(config, Sheet)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the plan stored with this run is invalid: {error}") from None


class TrialBrief(msgspec.Struct, frozen=True, gc=False):
    """The fields of a trial that all reports need. Compact, because a run may have 100,000."""

    key: Key
    status: Status
    category: str = ""
    error: str = ""
    hint: str = ""
    http_status: int | None = None
    elapsed_ms: int = 0
    attempts: int = 1
    false_finals: int = 0
    builds: tuple[str, ...] = ()
    kind: ScenarioKind = "tool"

    @property
    def ok(self) -> bool:
        """Whether the trial passed."""
        return self.status == "passed"


class RunResults(msgspec.Struct, frozen=True):
    """All trials of a run in brief, by cell in the order of the sheet, with labels and figures.

    `scenarios` lists the scenarios that have trials, in order.
    """

    sheet: Sheet
    scenarios: tuple[str, ...]
    entries: dict[Cell, tuple[TrialBrief, ...]]
    columns: dict[Cell, SheetColumn]
    labels: dict[Cell, str]
    file_stems: dict[tuple[Cell, str], str]
    summary: Summary

    @property
    def totals_by_cell(self) -> dict[Cell, Totals]:
        """The figures of each cell."""
        return {each.cell: each.totals for each in self.summary.cells}

    def file_name(self, key: Key) -> str:
        """Return the file name of a trial, safe as a path component."""
        return f"{self.file_stems[key.cell, key.scenario]}__trial_{key.trial:02d}.json"

    @property
    def all_entries(self) -> tuple[TrialBrief, ...]:
        """All trials, cell by cell."""
        return tuple(entry for entries in self.entries.values() for entry in entries)

    @property
    def is_simulated(self) -> bool:
        """Whether any model is simulated."""
        return any(self.columns[cell].simulated for cell in self.entries)


def collect_results(sheet: Sheet, trials: Iterable[Trial]) -> RunResults:
    """Return the results of trials, which are read once and may come in any order."""
    found: dict[Cell, list[TrialBrief]] = {}
    planned = {column.cell: column for column in sheet.columns}
    summary = summarize(
        _collect_briefs(trials, found),
        # A generator, evaluated after the trials are read: cells without trials are omitted.
        cells=(cell for cell in planned if cell in found),
        scenarios=sheet.scenarios,
        stopping=sheet.stopping,
    )
    cells = [each.cell for each in summary.cells]
    scenarios = tuple(each.scenario for each in summary.totals.scenarios)
    places = {name: place for place, name in enumerate(scenarios)}

    def place(entry: TrialBrief) -> tuple[int, int]:
        """Return the trial number and the position of the scenario, to sort by."""
        return entry.key.trial, places[entry.key.scenario]

    columns = {cell: planned.get(cell, SheetColumn(cell)) for cell in cells}
    labels = _cell_labels(columns)
    return RunResults(
        sheet,
        scenarios,
        {cell: tuple(sorted(found[cell], key=place)) for cell in cells},
        columns,
        labels,
        _file_stems(
            {(cell, name): f"{labels[cell]}__{name}" for cell in cells for name in scenarios}
        ),
        summary,
    )


def _collect_briefs(
    trials: Iterable[Trial], briefs: dict[Cell, list[TrialBrief]]
) -> Iterator[Trial]:
    """Yield each trial and collect its brief."""
    once = _Interner()
    for trial in trials:
        briefs.setdefault(trial.key.cell, []).append(_make_brief(trial, once))
        yield trial


class _Interner:
    """Returns one shared object for equal values: most trials differ only in a few numbers."""

    def __init__(self) -> None:
        self._known: dict[object, object] = {}

    def __call__(self, value: H) -> H:
        return cast("H", self._known.setdefault(value, value))


def _make_brief(trial: Trial, interner: _Interner) -> TrialBrief:
    return TrialBrief(
        Key(interner(trial.key.cell), interner(trial.key.scenario), trial.key.trial),
        interner(trial.status),
        interner(trial.category),
        interner(trial.error),
        interner(trial.hint),
        trial.http_status,
        trial.elapsed_ms,
        trial.attempts,
        trial.false_finals,
        interner(trial.builds),
        trial.kind,
    )


def _cell_labels(columns: Mapping[Cell, SheetColumn]) -> dict[Cell, str]:
    """Label each cell by its model and by what else distinguishes the cells of this run."""
    shown = columns.values()
    profiles = any(column.cell.profile != "default" for column in shown)
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


def _file_stems(names: Mapping[tuple[Cell, str], str]) -> dict[tuple[Cell, str], str]:
    """Return unique file name stems for labels."""
    plain = {pair: safe_name(name) for pair, name in names.items()}
    # Some file systems are case-insensitive.
    counts = Counter(stem.casefold() for stem in plain.values())
    return {
        pair: stem
        if counts[stem.casefold()] == 1 and len(stem) <= _MAX_STEM_CHARS
        else f"{stem[:_MAX_STEM_CHARS]}__{_file_stem_hash(*pair)}"
        for pair, stem in plain.items()
    }


def safe_name(text: str) -> str:
    """Return a text as a safe part of a file name: not hidden, no path separators."""
    return _UNSAFE_IN_FILE_NAMES.sub("__", text).lstrip(".")


def _file_stem_hash(cell: Cell, scenario: str) -> str:
    parts = (cell.model, cell.profile, cell.strategy, scenario)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
