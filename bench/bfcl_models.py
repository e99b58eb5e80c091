"""The table of docs/study.md: how models handle the Berkeley leaderboard's cases, by strategy.

    python bench/bfcl_models.py RUN …

Each run is the directory of an evaluation of packed cases (`surecall pack bfcl`). A cell has the
cases that came out right with n and the 95 % interval (Wilson), the replies with any call, and the
means of tokens and of the time of a reply. Where two strategies were asked the same cases, the
second table has the difference between them, paired, with its interval (Newcombe) and the exact
p-value of McNemar. Who ran out of time, or was not answered, is counted as `infra` and is not in n.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

from surecall.eval.analysis.stats import mcnemar_p, newcombe_interval, wilson_interval
from surecall.eval.storage.store import open_for_reading
from surecall.eval.storage.trial import Trial

PACK: Final = "bfcl_"
ORDER: Final = ("raw", "baseline", "production", "guided")


class Place(NamedTuple):
    """Where a trial belongs: one cell of the table."""

    model: str
    cases: str
    strategy: str


def place_of(trial: Trial) -> Place:
    """Say where a trial belongs; the number of the case is the last part of its name."""
    cases = trial.key.scenario.removeprefix(PACK).rpartition("_")[0]
    return Place(trial.key.cell.model, cases, trial.key.cell.strategy)


def read(runs: Iterable[Path]) -> dict[Place, list[Trial]]:
    """Read the trials of runs, by cell."""
    found: dict[Place, list[Trial]] = defaultdict(list)
    for run in runs:
        with open_for_reading(run) as store:
            for trial in store.trials():
                found[place_of(trial)].append(trial)
    return dict(sorted(found.items(), key=lambda item: _rank(item[0])))


def _rank(place: Place) -> tuple[str, str, int, str]:
    known = ORDER.index(place.strategy) if place.strategy in ORDER else len(ORDER)
    return place.model, place.cases, known, place.strategy


def _percent(bounds: tuple[float, float]) -> str:
    low, high = bounds
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def row(place: Place, trials: list[Trial]) -> str:
    """Write one cell of the table as a row."""
    judged = [trial for trial in trials if trial.status != "infra"]
    right, n = sum(trial.ok for trial in judged), len(judged)
    called = sum(bool(trial.score.facts.get("tool_call")) for trial in judged)
    if not n:
        return f"| {place.cases} | `{place.strategy}` | 0/0 | | | | | {len(trials)} |"
    read_, written = (
        mean(each or 0 for each in counts)
        for counts in zip(
            *((t.usage.prompt_tokens, t.usage.completion_tokens) for t in judged), strict=True
        )
    )
    seconds = mean(trial.elapsed_ms for trial in judged) / 1000
    return (
        f"| {place.cases} | `{place.strategy}` | {right}/{n} | "
        f"{_percent(wilson_interval(right, n))} "
        f"| {called}/{n} | {read_:.0f} + {written:.0f} | {seconds:.1f} s | {len(trials) - n} |"
    )


def pairs(found: dict[Place, list[Trial]]) -> Iterator[str]:
    """Write how guided calls differ from the others, on the cases that both were asked."""
    for place, trials in found.items():
        other = found.get(place._replace(strategy="guided"))
        if place.strategy == "guided" or other is None:
            continue
        before = {trial.key.scenario: trial.ok for trial in trials if trial.status != "infra"}
        after = {trial.key.scenario: trial.ok for trial in other if trial.status != "infra"}
        both = before.keys() & after.keys()
        counts: Counter[tuple[bool, bool]] = Counter()
        for case in both:
            counts[before[case], after[case]] += 1
        fixed, broken = counts[False, True], counts[True, False]
        low, high = newcombe_interval(counts[True, True], fixed, broken, counts[False, False])
        yield (
            f"| {place.cases} | `{place.strategy}` | {len(both)} | {fixed} | {broken} "
            f"| {100 * low:+.0f} to {100 * high:+.0f} points | {mcnemar_p(fixed, broken):.3f} |"
        )


def main(runs: list[str]) -> None:
    """Print both tables, for each model."""
    found = read(map(Path, runs))
    for model in dict.fromkeys(place.model for place in found):
        own = {place: trials for place, trials in found.items() if place.model == model}
        builds = sorted({build for trials in own.values() for t in trials for build in t.builds})
        print(f"\n{model}, served by {', '.join(builds) or 'a build that does not say'}\n")
        print("| cases | strategy | right | 95 % | with a call | tokens | time | infra |")
        print("|---|---|---|---|---|---|---|---|")
        print(*(row(place, trials) for place, trials in own.items()), sep="\n")
        print(
            "\n| cases | guided against | n | only guided right | only the other | difference | p |"
        )
        print("|---|---|---|---|---|---|---|")
        print(*pairs(own), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
