"""The verdict of a whole evaluation in one sentence, best models first."""

from collections.abc import Iterable, Sequence
from typing import Final, get_args

import msgspec

from surecall.eval.analysis.recommend import Recommendation
from surecall.eval.analysis.verdicts import Decision, verdicts

# After this many names the others are counted.
MOST: Final = 4
GROUPS: Final[tuple[Decision, ...]] = get_args(Decision)


def grouped(advice: Iterable[Recommendation]) -> dict[Decision, list[Recommendation]]:
    """Sort advice into groups, each best first: by rate, then time, then name."""
    found: dict[Decision, list[Recommendation]] = {decision: [] for decision in GROUPS}
    for each in sorted(advice, key=_rank):
        found[each.decision].append(each)
    return found


class Part(msgspec.Struct, frozen=True):
    """What is said of one group: its names, the last of which may count others, between words."""

    decision: Decision
    before: str
    names: tuple[str, ...]
    after: str

    @property
    def text(self) -> str:
        """The part as a sentence."""
        return f"{self.before}{listed(self.names, len(self.names))}{self.after}"


def verdict_sentence(advice: Sequence[Recommendation], most: int = MOST) -> str:
    """Say what to use, what to avoid, and what is not known; blank without any advice.

    About simulated models it says what is handled and what is not.
    """
    said = [part.text for part in verdict_parts(advice, most)]
    return " ".join(["Simulated:", *said] if any(each.simulated for each in advice) else said)


def verdict_parts(advice: Sequence[Recommendation], most: int = MOST) -> tuple[Part, ...]:
    """Return the sentence in its parts, one for each group that has a model."""
    simulated = any(each.simulated for each in advice)
    return tuple(
        _part(decision, rows, most, simulated=simulated)
        for decision, rows in grouped(advice).items()
        if rows
    )


def _part(
    decision: Decision, rows: Sequence[Recommendation], most: int, *, simulated: bool
) -> Part:
    names = shortened([each.model for each in rows], most)
    one = len(rows) == 1
    if decision == "more trials":
        return Part(decision, "", names, f" {'needs' if one else 'need'} more trials.")
    if decision == "not measured":
        return Part(decision, "", names, f" {'was' if one else 'were'} not measured.")
    word = verdicts(simulated=simulated)[decision][1]
    if simulated or decision == "too close":
        return Part(decision, "", names, f" {'is' if one else 'are'} {word}.")
    return Part(decision, f"{word.capitalize()} ", names, ".")


def shortened(names: Sequence[str], most: int = MOST) -> tuple[str, ...]:
    """Keep the first names; where there are too many, the last ones are counted, at least two."""
    if len(names) <= most + 1:
        return tuple(names)
    return (*names[:most], f"{len(names) - most} more")


def listed(names: Sequence[str], most: int = MOST) -> str:
    """List names, or the first of them."""
    *first, last = shortened(names, most)
    return f"{', '.join(first)} and {last}" if first else last


def _rank(each: Recommendation) -> tuple[float, int, str]:
    rate = each.decided_tool.rate
    return (1.0 if rate is None else -rate), each.p95_ms, each.model
