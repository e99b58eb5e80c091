"""What advice is made from: a few counts for each cell, and the two verdicts that follow from them.

Runs of today and figures that survive only as a table are judged alike.
"""

from typing import Final, Literal, TypeAlias

import msgspec

from surecall.eval.analysis.stats import (
    CHOSEN,
    NOTHING,
    Interval,
    Rate,
    Stopping,
    interval,
    trials_to_decide,
)
from surecall.eval.analysis.verdicts import Decision
from surecall.settings.presets import Strategy

Verdict: TypeAlias = Literal["Yes", "Conditional", "No", "Unknown"]

BAR: Final = 0.9
YES_FROM: Final = 0.97
CONDITIONAL_FROM: Final = 0.9
PRODUCTION: Final[Strategy] = "production"


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of one model under one profile: all that advice is made from.

    `misses` (by scenario), `causes` (by error category) and `checks` (by expectation that was not
    met) are about tool scenarios; they may list the most frequent only. Runs that infrastructure
    spoiled are among the causes alone. `parts` are the rates by scenario, where known. `instead_of`
    names the plain strategy whose place it takes, and `instead` is that one's rate. `stopping` says
    how the number of trials came about; `at_limit` that there are as many as that allows.
    """

    model: str
    profile: str
    strategy: str = PRODUCTION
    tool: Rate
    control: Rate = NOTHING
    p95_ms: int = 0
    misses: dict[str, int] = {}
    causes: dict[str, int] = {}
    checks: dict[str, int] = {}
    parts: tuple[Rate, ...] = ()
    infra: int = 0
    skipped: int = 0
    instead_of: str = ""
    instead: Rate = NOTHING
    stopping: Stopping = CHOSEN
    at_limit: bool = False

    @property
    def bounds(self) -> Interval:
        """The interval of the tool rate."""
        return interval(self.parts or (self.tool,), sequential=self.stopping.sequential)

    @property
    def has_no_tools(self) -> bool:
        """Whether every tool scenario was skipped: the model is not offered any."""
        return not self.tool.n and self.skipped > 0


def observed_verdict(candidate: Candidate) -> Verdict:
    """Judge by the observed rate alone."""
    rate = candidate.tool.rate
    if rate is None:
        return "No" if candidate.has_no_tools else "Unknown"
    if rate >= YES_FROM:
        return "Yes"
    return "Conditional" if rate >= CONDITIONAL_FROM else "No"


def decide(candidate: Candidate, bar: float = BAR) -> Decision:
    """Judge by the interval: only what holds at both of its ends."""
    if candidate.has_no_tools:
        return "avoid"
    if not candidate.tool.n:
        return "not measured"
    low, high = candidate.bounds
    if low >= bar:
        return "use"
    if high < bar:
        return "avoid"
    return "too close" if more_trials(candidate, bar) is None else "more trials"


def more_trials(candidate: Candidate, bar: float = BAR) -> int | None:
    """Say how many more runs would decide if the rates stay; None if none would, or may be made."""
    if candidate.has_no_tools:
        return 0
    sequential = candidate.stopping.sequential
    found = trials_to_decide(candidate.tool, bar, parts=candidate.parts, sequential=sequential)
    return None if found and candidate.at_limit else found
