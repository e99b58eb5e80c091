"""Why runs failed: the expectations that were not met, counted by their words.

A run that ended for another reason, such as a limit or a refused request, has one plain sentence in
their place. What such a run lacks besides follows from it; what it did wrong does not.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

import msgspec

from surecall.eval.analysis.category import ASSERTION_FAILED, meaning, shortened
from surecall.eval.storage.done import Place
from surecall.eval.storage.ranges import Ranges
from surecall.eval.storage.trial import Key, Miss, Trial
from surecall.values.errors import ErrorCode

MOST_TEXTS: Final = 5
MOST_RUNS: Final = 20
_TEXTS: Final = ("expected", "got", "code")
_MAX_GOT: Final = 160


class Cause(msgspec.Struct, frozen=True):
    """One reason why a trial failed: an expectation that was not met, or a plain sentence.

    `code` is the category of the trial, and `infra` whether the infrastructure spoiled it; `turn`
    and `call_id` are where it was decided. `expected` is blank in a sentence.
    """

    check: str
    expected: str = ""
    got: str = ""
    turn: int | None = None
    call_id: str = ""
    code: str = ""
    infra: bool = False


class CauseCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often one cause was met: in so many runs, by scenario and by model.

    `times` says in how many runs, and `runs` which: the first of them, in the order of their keys.
    `expected` and `got` are the most frequent ones, each with the number of runs; of further ones
    it is only known how many there are. `code` is the most frequent.
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
        """The cause in words: an expectation alone would read as if it had been met."""
        return f"Not met: {self.check}" if self.expected else self.check


def causes_of(trial: Trial) -> tuple[Cause, ...]:
    """Return why a trial failed, what decided first; nothing if it passed or was skipped."""
    if trial.status in {"passed", "skipped"}:
        return ()
    if trial.status == "infra":
        return (_ending(trial),)
    misses = trial.score.misses
    if misses and _is_judged(trial):
        return tuple(_of_miss(miss, trial) for miss in misses)
    return (_ending(trial), *(_of_miss(miss, trial) for miss in misses if miss.call_id))


def _is_judged(trial: Trial) -> bool:
    """Whether it ended with an answer that expectations decided about."""
    if trial.category != ErrorCode.NO_TOOL_CALLS:
        return trial.category == ASSERTION_FAILED
    # Where no call is demanded, an answer without one is judged like any other.
    return trial.turn is None and any(miss.expected for miss in trial.score.misses)


def _of_miss(miss: Miss, trial: Trial) -> Cause:
    return Cause(miss.check, miss.expected, miss.got, miss.turn, miss.call_id, trial.category)


def _ending(trial: Trial) -> Cause:
    told = shortened(trial.error.removeprefix(f"{trial.category}: "), _MAX_GOT)
    sentence = meaning(trial.category)
    infra = trial.status == "infra"
    return Cause(sentence, "", told, trial.turn, trial.call_id, trial.category, infra)


def count_causes(found: Iterable["CauseTally"]) -> tuple[CauseCount, ...]:
    """Count causes by their words, the most frequent first; those of the infrastructure last.

    A cause counts once in a run. Of causes that were met as often as each other, what a call did
    comes before what an answer lacks.
    """
    pooled: dict[tuple[bool, str], _Pooled] = {}
    for tally in found:
        for (infra, check, _), seen in tally.seen.items():
            pooled.setdefault((infra, check), _Pooled()).add(seen)
    counts = [
        (pool.called, pool.count(check, infra=infra)) for (infra, check), pool in pooled.items()
    ]
    ranked = sorted(counts, key=lambda one: (one[1].infra, -one[1].times, not one[0], one[1].check))
    return tuple(count for _, count in ranked)


def checks_in(causes: Iterable[CauseCount], scenarios: Iterable[str]) -> dict[str, int]:
    """Count the runs of some scenarios by the expectations that were not met in them."""
    names = tuple(scenarios)
    judged = (cause for cause in causes if cause.expected)
    return {cause.check: sum(cause.scenarios.get(name, 0) for name in names) for cause in judged}


def main_cause(
    checks: Mapping[str, int], categories: Mapping[str, int], failed: int
) -> Iterator[str]:
    """Say what most of some failed runs have in common, if anything."""
    # In their own order, which says more than the alphabet.
    check, missed = max(checks.items(), key=itemgetter(1), default=("", 0))
    category, count = most_frequent(categories)
    if missed and 2 * missed > failed:
        yield f"Most often not met: {check} ({missed} of {failed})."
    elif count and 2 * count > failed:
        why = "timeouts" if "TIMEOUT" in category else meaning(category).removesuffix(".")
        yield f"The main cause: {why[:1].lower()}{why[1:]} ({count} of {failed})."


def most_frequent(counts: Mapping[str, int]) -> tuple[str, int]:
    """Return the name that was counted most, and how often; blank without any."""
    return max(sorted(counts.items()), key=itemgetter(1), default=("", 0))


class CauseTally:
    """Why trials failed: by the words of a cause, and by cell and scenario."""

    def __init__(self, found: Iterable[tuple[Key, Iterable[Cause]]] = ()) -> None:
        self.seen: dict[tuple[bool, str, Place], _Seen] = {}
        for key, causes in found:
            self.add(key, causes)

    def add(self, key: Key, causes: Iterable[Cause]) -> None:
        """Add the causes of one trial; everything is counted once in a trial."""
        met: dict[tuple[bool, str], list[Cause]] = {}
        for cause in causes:
            met.setdefault((cause.infra, cause.check), []).append(cause)
        place = (key.cell, key.scenario)
        for (infra, check), same in met.items():
            self.seen.setdefault((infra, check, place), _Seen(place)).add(key.trial, same)


class _Seen:
    """In which trials of one cell and scenario a cause was met, and with which texts."""

    def __init__(self, place: Place) -> None:
        self.cell, self.scenario = place
        self.trials = Ranges()
        self.texts: dict[str, Counter[str]] = {field: Counter() for field in _TEXTS}
        self.called = False

    def add(self, trial: int, causes: Sequence[Cause]) -> None:
        self.trials.add(trial)
        self.called |= any(cause.call_id for cause in causes)
        for field, counts in self.texts.items():
            counts.update({text for cause in causes if (text := getattr(cause, field))})

    def runs(self) -> Iterator[Key]:
        return (Key(self.cell, self.scenario, trial) for trial in self.trials)


class _Pooled:
    """A cause in all the cells and scenarios in which it was met."""

    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def add(self, seen: _Seen) -> None:
        self._seen.append(seen)

    @property
    def called(self) -> bool:
        """Whether a call decided, in any run."""
        return any(seen.called for seen in self._seen)

    def count(self, check: str, *, infra: bool) -> CauseCount:
        expected, got = self._texts("expected"), self._texts("got")
        ordered = sorted(self._seen, key=lambda seen: (seen.cell, seen.scenario))
        return CauseCount(
            check=check,
            expected=_first(expected),
            code=next(iter(self._texts("code")), ""),
            infra=infra,
            got=_first(got),
            scenarios=_ranked(self._by(lambda seen: seen.scenario)),
            models=_ranked(self._by(lambda seen: seen.cell.model)),
            times=sum(len(seen.trials) for seen in self._seen),
            runs=tuple(islice((key for seen in ordered for key in seen.runs()), MOST_RUNS)),
            further_expected=len(expected) - len(_first(expected)),
            further_got=len(got) - len(_first(got)),
        )

    def _texts(self, field: str) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for seen in self._seen:
            counts.update(seen.texts[field])
        return _ranked(counts)

    def _by(self, name: Callable[[_Seen], str]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for seen in self._seen:
            counts[name(seen)] += len(seen.trials)
        return counts


def _first(counts: dict[str, int]) -> dict[str, int]:
    return dict(list(counts.items())[:MOST_TEXTS])


def _ranked(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
