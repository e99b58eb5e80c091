"""How often `-n auto` is wrong, and how many runs it takes: ten thousand cells of each kind.

    python bench/looks.py

Each cell gets the looks that the harness makes: after ten trials of each scenario, and after every
ten more, up to a hundred. Where the true rate is exactly the bar, every decision is an error. The
present rule is held against the one that looks at a plain 95 % interval each time.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, TypeAlias

from surecall.eval.analysis.recommendations import DEFAULT_THRESHOLD
from surecall.eval.analysis.stats import (
    EMPTY_RATE,
    MIN_CLUSTERS,
    Rate,
    pooled_interval,
    wilson_interval,
)
from surecall.eval.running.matrix import MAX_TRIALS, TRIALS_PER_ROUND

Rates: TypeAlias = Sequence[float]
Draw: TypeAlias = Callable[[random.Random], Rates]

CELLS: Final = 10_000
SEED: Final = 18
LOOKS: Final = MAX_TRIALS // TRIALS_PER_ROUND


def same(rate: float, scenarios: int = 5) -> Draw:
    """All scenarios have one rate."""
    return lambda _: (rate,) * scenarios


def drawn(scenarios: int) -> Draw:
    """Every cell has other scenarios; their rates have the bar for a mean, but only on average."""
    return lambda draw: [draw.betavariate(9, 1) for _ in range(scenarios)]


AT_THE_BAR: Final[dict[str, Draw]] = {
    "5 scenarios, all 90 %": same(DEFAULT_THRESHOLD),
    "5 scenarios: 100, 100, 100, 100, 50 %": lambda _: (1.0, 1.0, 1.0, 1.0, 0.5),
    "5 scenarios: 80, 85, 90, 95, 100 %": lambda _: (0.8, 0.85, 0.9, 0.95, 1.0),
    "1 scenario, 90 %": same(DEFAULT_THRESHOLD, 1),
    "10 scenarios, all 90 %": same(DEFAULT_THRESHOLD, 10),
    "10 scenarios, five 80 % and five 100 %": lambda _: (0.8,) * 5 + (1.0,) * 5,
    "10 other scenarios each time, 90 % on average": drawn(10),
    "5 other scenarios each time, 90 % on average": drawn(5),
}
ELSEWHERE: Final = (0.99, 0.97, 0.95, 0.85, 0.8, 0.5)


@cache
def decision(parts: tuple[Rate, ...], *, sequential: bool) -> str:
    """Judge what one look shows."""
    low, high = pooled_interval(parts, sequential=sequential)
    return "use" if low >= DEFAULT_THRESHOLD else "avoid" if high < DEFAULT_THRESHOLD else ""


def batch(rates: Rates, draw: random.Random) -> Iterator[Rate]:
    """Run the trials between two looks."""
    for rate in rates:
        yield Rate(sum(draw.random() < rate for _ in range(TRIALS_PER_ROUND)), TRIALS_PER_ROUND)


def one_cell(rates: Rates, draw: random.Random) -> dict[bool, tuple[str, int]]:
    """Run a cell to its limit; return what each rule says of it, and after how many runs."""
    parts = [EMPTY_RATE] * len(rates)
    found: dict[bool, tuple[str, int]] = {}
    for _ in range(LOOKS):
        parts = [old + new for old, new in zip(parts, batch(rates, draw), strict=True)]
        total = sum(parts, EMPTY_RATE)
        # Few scenarios are not told apart; so far fewer looks differ from each other.
        seen = tuple(parts) if len(parts) >= MIN_CLUSTERS else (total,)
        for sequential in (True, False):
            if sequential not in found and (word := decision(seen, sequential=sequential)):
                found[sequential] = word, total.n
        if len(found) == len((True, False)):
            break
    limit = MAX_TRIALS * len(rates)
    return {rule: found.get(rule, ("", limit)) for rule in (True, False)}


def cells(kind: Draw) -> dict[bool, tuple[Counter[str], int]]:
    """Run all cells of a kind; return for each rule what it said, and how many runs it took."""
    draw = random.Random(SEED)  # noqa: S311 - repeatable
    words: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    runs: Counter[bool] = Counter()
    for _ in range(CELLS):
        for rule, (word, taken) in one_cell(kind(draw), draw).items():
            words[rule][word] += 1
            runs[rule] += taken
    return {rule: (words[rule], round(runs[rule] / CELLS)) for rule in words}


def share(count: int) -> str:
    """Write a share of all cells with its interval."""
    low, high = wilson_interval(count, CELLS)
    return f"{count / CELLS:.2%} [{100 * low:.2f}, {100 * high:.2f}]"


def main() -> None:
    """Print both tables."""
    print("| the truth is exactly the bar | wrong: use | wrong: avoid | wrong at all | before |")
    print("|---|---|---|---|---|")
    for name, kind in AT_THE_BAR.items():
        found = cells(kind)
        words = found[True][0]
        wrong, before = (CELLS - found[rule][0][""] for rule in (True, False))
        each = f"{words['use'] / CELLS:.2%} | {words['avoid'] / CELLS:.2%}"
        print(f"| {name} | {each} | {share(wrong)} | {before / CELLS:.1%} |")
    print("\n| true rate, 5 scenarios | decided | runs | decided before | runs before |")
    print("|---|---|---|---|---|")
    for rate in ELSEWHERE:
        found = cells(same(rate))
        right = "use" if rate >= DEFAULT_THRESHOLD else "avoid"
        shares = [f"{words[right] / CELLS:.1%} | {runs}" for words, runs in found.values()]
        print(f"| {rate:.0%} | {' | '.join(shares)} |")


if __name__ == "__main__":
    main()
