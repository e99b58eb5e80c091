"""The verdict of a whole evaluation in one sentence, best models first."""

from collections.abc import Iterable, Sequence
from typing import Final, get_args

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


def verdict_sentence(advice: Sequence[Recommendation], most: int = MOST) -> str:
    """Say what to use, what to avoid, and what is not known; blank without any advice.

    About simulated models it says what is handled and what is not.
    """
    if not advice:
        return ""
    groups = grouped(advice)
    simulated = any(each.simulated for each in advice)
    said = [
        _part(decision, groups[decision], most, simulated=simulated)
        for decision in GROUPS
        if groups[decision]
    ]
    return " ".join(["Simulated:", *said] if simulated else said)


def _part(decision: Decision, rows: Sequence[Recommendation], most: int, *, simulated: bool) -> str:
    names = _listed([each.model for each in rows], most)
    one = len(rows) == 1
    if decision == "more trials":
        return f"{names} {'needs' if one else 'need'} more trials."
    if decision == "not measured":
        return f"{names} {'was' if one else 'were'} not measured."
    word = verdicts(simulated=simulated)[decision][1]
    if simulated or decision == "too close":
        return f"{names} {'is' if one else 'are'} {word}."
    return f"{word.capitalize()} {names}."


def _listed(names: Sequence[str], most: int) -> str:
    """List names; where there are too many, the last ones are counted, at least two of them."""
    if len(names) == 1:
        return names[0]
    shown = names if len(names) <= most + 1 else names[:most]
    left = len(names) - len(shown)
    *first, last = (*shown, f"{left} more") if left else shown
    return f"{', '.join(first)} and {last}"


def _rank(each: Recommendation) -> tuple[float, int, str]:
    rate = each.decided_tool.rate
    return (1.0 if rate is None else -rate), each.p95_ms, each.model
