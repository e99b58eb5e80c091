"""The runs of a report as columns of small numbers: 100,000 of them fit into a page.

A run is one place in every column. Repeated texts are kept once, in a table beside the columns,
and the columns hold their places there.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, get_args

import msgspec

from surecall.eval.analysis.category import shortened
from surecall.eval.analysis.causes import causes_of
from surecall.eval.analysis.figures import Times
from surecall.eval.storage.trial import Cell, Key, Kind, Status, Trial

STATUSES: Final[tuple[Status, ...]] = ("passed", "failed", "infra", "skipped")
# The whole text is in the trace. This much tells what it is about, 100,000 times over.
_ERROR_CHARS: Final = 200
_MICRO: Final = 1_000_000


class Runs(msgspec.Struct, frozen=True):
    """All runs, column by column. `micros` is the cost in millionths of a dollar, -1 if unknown.

    `missed` is the place of a run's causes among the `sets`, each of which has places in `causes`;
    `unmet` are the places of those that are expectations, and no sentence.
    """

    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    unmet: tuple[int, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    # One triple of model, profile and strategy for each cell.
    cells: tuple[tuple[int, int, int], ...] = ()
    cell: tuple[int, ...] = ()
    scenario: tuple[int, ...] = ()
    trial: tuple[int, ...] = ()
    status: tuple[int, ...] = ()
    code: tuple[int, ...] = ()
    error: tuple[int, ...] = ()
    ms: tuple[int, ...] = ()
    turns: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    micros: tuple[int, ...] = ()
    provider: tuple[int, ...] = ()
    repaired: tuple[int, ...] = ()
    missed: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many runs there are."""
        return len(self.cell)

    def key(self, place: int) -> Key:
        """Return which trial is at a place."""
        model, profile, strategy = self.cells[self.cell[place]]
        cell = Cell(self.models[model], self.profiles[profile], self.strategies[strategy])
        return Key(cell, self.scenarios[self.scenario[place]], self.trial[place])


_COLUMNS: Final = Runs.__struct_fields__[Runs.__struct_fields__.index("cell") :]


class _Table:
    """Texts in the order in which they first came, and the place of each."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.places: dict[str, int] = {}
        for text in known:
            self.place(text)

    def place(self, text: str) -> int:
        return self.places.setdefault(text, len(self.places))

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self.places)


class Gatherer:
    """Turns trials into columns while they pass by on their way to the summary."""

    def __init__(self, cells: Sequence[Cell] = (), scenarios: Sequence[str] = ()) -> None:
        self._models = _Table(cell.model for cell in cells)
        self._profiles = _Table(cell.profile for cell in cells)
        self._strategies = _Table(cell.strategy for cell in cells)
        self._scenarios = _Table(scenarios)
        self._codes = _Table([""])
        self._providers = _Table([""])
        self._errors = _Table([""])
        self._causes = _Table()
        self._unmet: set[int] = set()
        self._sets: dict[tuple[int, ...], int] = {}
        self._cells: dict[Cell, int] = {}
        self._columns: tuple[list[int], ...] = tuple([] for _ in _COLUMNS)
        self.run_ms: dict[Kind, Times] = {kind: Times() for kind in get_args(Kind)}
        self.request_ms = Times()

    def watch(self, trials: Iterable[Trial]) -> Iterator[Trial]:
        """Hand on each trial, and take down what the page needs of it."""
        for trial in trials:
            self.add(trial)
            yield trial

    def add(self, trial: Trial) -> None:
        """Take down one trial."""
        cost = trial.usage.cost
        row = (
            self._cells.setdefault(trial.key.cell, len(self._cells)),
            self._scenarios.place(trial.key.scenario),
            trial.key.trial,
            STATUSES.index(trial.status),
            self._codes.place(trial.category),
            self._errors.place(shortened(trial.error, _ERROR_CHARS)),
            trial.elapsed_ms,
            len(trial.requests),
            trial.usage.total_tokens,
            -1 if cost is None else round(cost * _MICRO),
            self._providers.place(served_by(trial)),
            int(bool(trial.fired)),
            self._sets.setdefault(self._missed(trial), len(self._sets)),
        )
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)
        if trial.status in {"passed", "failed"}:
            self.run_ms[trial.kind].add(trial.elapsed_ms)
        if trial.status != "skipped":
            self.request_ms.add(*(request.latency_ms for request in trial.requests))

    def _missed(self, trial: Trial) -> tuple[int, ...]:
        causes = causes_of(trial)
        places = tuple(dict.fromkeys(self._causes.place(cause.check) for cause in causes))
        self._unmet.update(self._causes.place(cause.check) for cause in causes if cause.expected)
        return places

    @property
    def runs(self) -> Runs:
        """The columns of all trials so far."""
        cells = tuple(
            (
                self._models.place(cell.model),
                self._profiles.place(cell.profile),
                self._strategies.place(cell.strategy),
            )
            for cell in self._cells
        )
        texts = (
            self._models,
            self._profiles,
            self._strategies,
            self._scenarios,
            self._codes,
            self._providers,
            self._errors,
            self._causes,
        )
        # The fields of `Runs` in their order.
        values: list[Any] = [
            *(table.texts for table in texts),
            tuple(sorted(self._unmet)),
            tuple(self._sets),
            cells,
            *map(tuple, self._columns),
        ]
        return Runs(*values)


def served_by(trial: Trial) -> str:
    """Name the provider that served the last request, if it said who it is."""
    return trial.requests[-1].provider if trial.requests else ""
