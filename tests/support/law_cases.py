"""How many cases the generated laws make, from which seed, and how a failure is told.

SURECALL_LAW_CASES=10    ten times as many cases as in an ordinary run
SURECALL_LAW_SEED=7      other cases than in an ordinary run
"""

import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import pytest

TIMES: Final = float(os.environ.get("SURECALL_LAW_CASES", "1"))
SEED: Final = os.environ.get("SURECALL_LAW_SEED", "2026")
_EXAMPLES = 2
_LONGEST = 700
_MOST_KINDS = 60


class Broken(NamedTuple):
    """One case that breaks a law: what to count it by, what it is, and what came of it."""

    kind: str
    text: str
    outcome: str


def many(count: int) -> int:
    """Scale a number of cases."""
    return max(1, round(count * TIMES))


def dice(*about: object) -> random.Random:
    """Return the source of chance of one test, which depends on the seed and the test alone."""
    return random.Random("/".join(map(str, (SEED, *about))))  # noqa: S311  # not for secrets


def spread(rng: random.Random, items: Sequence[str], count: int) -> list[str]:
    """Take that many of the items, in a random order, and each before any comes again."""
    taken: list[str] = []
    while len(taken) < count:
        taken += rng.sample(items, len(items))
    return taken[:count]


def check(broken: Iterable[Broken], cases: int) -> None:
    """Fail if there is a broken case: with the counts, the shortest ones and the seed."""
    found = sorted(broken, key=lambda case: len(case.text))
    if not found:
        return
    kinds = Counter(case.kind for case in found).most_common(_MOST_KINDS)
    counts = ", ".join(f"{kind}: {count}" for kind, count in kinds)
    examples = "\n\n".join(
        f"{case.text[:_LONGEST]}\n=> {case.outcome[:_LONGEST]}" for case in found[:_EXAMPLES]
    )
    pytest.fail(
        f"{len(found)} of {cases} cases (SURECALL_LAW_SEED={SEED}): {counts}\n\n{examples}",
        pytrace=False,
    )
