"""A claim, how much of it is tried at each tier, and what came of trying."""

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import msgspec

Tier: TypeAlias = Literal["ci", "hour", "release"]
TIERS: tuple[Tier, ...] = get_args(Tier)
SHOWN_FAILURES = 5


class Outcome(msgspec.Struct, frozen=True):
    """What was tried: how many cases, which of them broke the claim, and what else to know.

    `every` says that there are no other cases, `is_score` that some may fail; otherwise the cases
    are a sample of endlessly many.
    `failures` tell what happened and how to see it again. `figures` is for the reader.
    """

    ran: str
    cases: int
    failures: tuple[str, ...] = ()
    every: bool = False
    figures: str = ""
    is_score: bool = False

    @property
    def holds(self) -> bool:
        """Whether the claim stands: something was tried, and nothing broke it."""
        return self.cases > 0 and not self.failures

    @property
    def bound(self) -> str:
        """How often it may still fail, with 95 % confidence (the rule of three)."""
        if not self.holds or self.is_score:
            return "-"
        return "every case" if self.every else f"≤ {3 / self.cases:.1e}"


Attempt: TypeAlias = Callable[[int, int], Outcome]


class Claim(msgspec.Struct, frozen=True):
    """One sentence, and a function of size and seed that tries to break it.

    `sizes` are for the tiers, from the smallest on; 0 leaves the claim out of a tier. `alone` is
    for what measures the machine: nothing else runs beside it. What is `long` begins first, so
    that nothing is waited for in the end.
    """

    id: str
    sentence: str
    attempt: Attempt
    sizes: tuple[int, int, int]
    alone: bool = False
    long: bool = False

    def size(self, tier: Tier) -> int:
        """How much is tried at a tier."""
        return self.sizes[TIERS.index(tier)]


class Row(msgspec.Struct, frozen=True):
    """A claim that was tried."""

    id: str
    sentence: str
    seed: int
    seconds: float
    outcome: Outcome


def gathered(failures: list[str]) -> tuple[str, ...]:
    """Return the first failures, and how many more there are."""
    more = len(failures) - SHOWN_FAILURES
    shown = failures[:SHOWN_FAILURES]
    return (*shown, f"and {more} more") if more > 0 else tuple(shown)
