"""Counts the causes of failed runs.

The cause of a run is each unmet expectation, counted by its wording. A run that ended for another
reason, such as a limit or a refused request, has one sentence as its cause. Its unmet expectations
are then consequences and are left out, except those about a call that the model made.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Final, TypeVar

import msgspec

from surecall.eval.analysis.classification import ASSERTION_FAILED, category_meaning
from surecall.eval.storage.trial import CellScenario, IntegerRanges, Key, Miss, Trial
from surecall.values.errors import ErrorCode
from surecall.values.text import truncate

T = TypeVar("T", bound=Any)
MAX_TEXTS: Final = 5
MAX_RUNS: Final = 20


class Cause(msgspec.Struct, frozen=True):
    """One cause of a failed trial: an unmet expectation, or a sentence with blank `expected`.

    `code` is the category of the trial, and `infra` marks infrastructure errors. `turn` and
    `call_id` locate the failure.
    """

    check: str
    expected: str = ""
    got: str = ""
    turn: int | None = None
    call_id: str = ""
    code: str = ""
    infra: bool = False


class CauseCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of runs with one cause, by scenario and by model.

    `times` is the number of runs and `runs` the first of them in key order. `expected` and `got`
    map the most frequent values to run counts, and `further_expected` and `further_got` count the
    remaining values. `code` is the most frequent one.
    """

    check: str
    expected: dict[str, int]
    code: str
    infra: bool
    got: dict[str, int]
    scenarios: dict[str, int]
    models: dict[str, int]
    times: int
    runs: tuple[Key, ...]
    further_expected: int = 0
    further_got: int = 0

    @property
    def heading(self) -> str:
        """The cause in words. A bare expectation would read as if it had been met."""
        return f"Not met: {self.check}" if self.expected else self.check


def causes_of(trial: Trial) -> tuple[Cause, ...]:
    """Return the causes of a failed trial, the deciding one first; empty for other trials."""
    if trial.status in {"passed", "skipped"}:
        return ()
    if trial.status == "infra":
        return (_cause_of_ending(trial),)
    misses = trial.score.misses
    if misses and _is_judged(trial):
        return tuple(_cause_of_miss(miss, trial) for miss in misses)
    return (
        _cause_of_ending(trial),
        *(_cause_of_miss(miss, trial) for miss in misses if miss.call_id),
    )


def _is_judged(trial: Trial) -> bool:
    """Whether the run ended with an answer, and expectations decided the result."""
    if trial.category != ErrorCode.NO_TOOL_CALLS:
        return trial.category == ASSERTION_FAILED
    # If no call is required, an answer without one is judged by the expectations.
    return trial.turn is None and any(miss.expected for miss in trial.score.misses)


def _cause_of_miss(miss: Miss, trial: Trial) -> Cause:
    return Cause(miss.check, miss.expected, miss.got, miss.turn, miss.call_id, trial.category)


def _cause_of_ending(trial: Trial) -> Cause:
    """Return the cause of a run that ended without an answer: the category in words."""
    error = truncate(trial.error.removeprefix(f"{trial.category}: "), 160)
    sentence = category_meaning(trial.category)
    infra = trial.status == "infra"
    return Cause(sentence, "", error, trial.turn, trial.call_id, trial.category, infra)


def count_causes(tallies: Iterable["CauseTally"]) -> tuple[CauseCount, ...]:
    """Return causes by wording, most frequent first, infrastructure errors last.

    A cause counts once per run. Among equally frequent causes, those about a call come first.
    """
    pooled: dict[tuple[bool, str], _PooledCause] = {}
    for tally in tallies:
        for (infra, check, _), seen in tally.by_cell.items():
            pooled.setdefault((infra, check), _PooledCause()).add(seen)
    counts = [
        (pool.has_call, pool.cause_count(check, infra=infra))
        for (infra, check), pool in pooled.items()
    ]
    counts.sort(key=lambda one: (one[1].infra, -one[1].times, not one[0], one[1].check))
    return tuple(count for _, count in counts)


def count_missed_checks(causes: Iterable[CauseCount], scenarios: Iterable[str]) -> dict[str, int]:
    """Return the number of runs of these scenarios by unmet expectation."""
    names = tuple(scenarios)
    unmet = (cause for cause in causes if cause.expected)
    return {cause.check: sum(cause.scenarios.get(name, 0) for name in names) for cause in unmet}


def main_cause_sentence(
    checks: Mapping[str, int], categories: Mapping[str, int], failed: int
) -> Iterator[str]:
    """Yield one sentence about the cause that most failed runs share; nothing if none does."""
    # Ties are resolved by input order, which is more meaningful than the alphabet.
    check, missed = max(checks.items(), key=itemgetter(1), default=("", 0))
    category, count = most_frequent(categories)
    if missed and 2 * missed > failed:
        yield f"Most frequent unmet expectation: {check} ({missed} of {failed})."
    elif count and 2 * count > failed:
        why = "timeouts" if "TIMEOUT" in category else category_meaning(category).removesuffix(".")
        yield f"Main cause: {why[:1].lower()}{why[1:]} ({count} of {failed})."


def most_frequent(counts: Mapping[str, int]) -> tuple[str, int]:
    """Return the name with the largest count, and that count; blank and zero if empty."""
    return max(sorted(counts.items()), key=itemgetter(1), default=("", 0))


class CauseTally:
    """Causes of failed trials, by wording, cell, and scenario."""

    def __init__(self, found: Iterable[tuple[Key, Iterable[Cause]]] = ()) -> None:
        self.by_cell: dict[tuple[bool, str, CellScenario], _CauseInCell] = {}
        for key, causes in found:
            self.add(key, causes)

    def add(self, key: Key, causes: Iterable[Cause]) -> None:
        """Add the causes of one trial. Each counts once per trial."""
        met: dict[tuple[bool, str], list[Cause]] = {}
        for cause in causes:
            met.setdefault((cause.infra, cause.check), []).append(cause)
        place = (key.cell, key.scenario)
        for (infra, check), same in met.items():
            self.by_cell.setdefault((infra, check, place), _CauseInCell(place)).add(key.trial, same)


class _CauseInCell:
    """The trials of one cell and scenario with a cause, and the texts seen with it."""

    def __init__(self, place: CellScenario) -> None:
        self.cell, self.scenario = place
        self.trials = IntegerRanges()
        self.texts = {field: Counter[str]() for field in ("expected", "got", "code")}
        self.has_call = False

    def add(self, trial: int, causes: Sequence[Cause]) -> None:
        """Add the causes of one trial."""
        self.trials.add(trial)
        self.has_call |= any(cause.call_id for cause in causes)
        for field, counts in self.texts.items():
            counts.update({text for cause in causes if (text := getattr(cause, field))})

    def runs(self) -> Iterator[Key]:
        """Yield the keys of the trials with this cause."""
        return (Key(self.cell, self.scenario, trial) for trial in self.trials)


class _PooledCause:
    """A cause over all cells and scenarios."""

    def __init__(self) -> None:
        self._parts: list[_CauseInCell] = []

    def add(self, part: _CauseInCell) -> None:
        """Add the trials of one cell and scenario."""
        self._parts.append(part)

    @property
    def has_call(self) -> bool:
        """Whether a call decided any of the runs."""
        return any(seen.has_call for seen in self._parts)

    def cause_count(self, check: str, *, infra: bool) -> CauseCount:
        """Return the totals over all cells and scenarios, for reports."""
        expected, got = self._count_texts("expected"), self._count_texts("got")
        ordered = sorted(self._parts, key=lambda seen: (seen.cell, seen.scenario))
        return CauseCount(
            check=check,
            expected=_first_texts(expected),
            code=next(iter(self._count_texts("code")), ""),
            infra=infra,
            got=_first_texts(got),
            scenarios=rank_counts(self._count_by(lambda seen: seen.scenario)),
            models=rank_counts(self._count_by(lambda seen: seen.cell.model)),
            times=sum(len(seen.trials) for seen in self._parts),
            runs=tuple(islice((key for seen in ordered for key in seen.runs()), MAX_RUNS)),
            further_expected=len(expected) - len(_first_texts(expected)),
            further_got=len(got) - len(_first_texts(got)),
        )

    def _count_texts(self, field: str) -> dict[str, int]:
        """Return how often each text of a field occurred, most frequent first."""
        counts: Counter[str] = Counter()
        for seen in self._parts:
            counts.update(seen.texts[field])
        return rank_counts(counts)

    def _count_by(self, group_of: Callable[[_CauseInCell], str]) -> Counter[str]:
        """Return the number of runs in each group."""
        counts: Counter[str] = Counter()
        for seen in self._parts:
            counts[group_of(seen)] += len(seen.trials)
        return counts


def _first_texts(counts: dict[str, int]) -> dict[str, int]:
    """Return the first texts, each with its count."""
    return dict(list(counts.items())[:MAX_TEXTS])


def rank_counts(counts: Mapping[T, int]) -> dict[T, int]:
    """Return counts sorted by size, largest first, then by key."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
