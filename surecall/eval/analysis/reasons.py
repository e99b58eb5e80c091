"""Why: the sentences beside a verdict. They are made of the figures alone."""

from collections.abc import Iterable, Sequence
from typing import Final

from surecall.eval.analysis.candidate import (
    CONDITIONAL_FROM,
    Candidate,
    Verdict,
    observed_verdict,
)
from surecall.eval.analysis.causes import main_cause, most_frequent
from surecall.eval.analysis.stats import Rate
from surecall.eval.analysis.verdicts import Decision

TOOLS_OFF: Final = "tool_use_disabled"
RANKS: Final[tuple[Verdict, ...]] = ("Unknown", "No", "Conditional", "Yes")


def reason_of(candidate: Candidate) -> str:
    """Give the figures that a verdict rests on."""
    rate = candidate.tool.rate
    if rate is None:
        return "No run with tools was judged."
    low, high = candidate.bounds
    return (
        f"{candidate.tool.k} of {candidate.tool.n} runs with tools passed: {_percent(rate)} "
        f"[{100 * low:.1f}, {100 * high:.1f}]."
    )


def notes_of(
    best: Candidate,
    group: Sequence[Candidate],
    surest: Candidate,
    workarounds: Sequence[str],
) -> tuple[str, ...]:
    """Say what stands out: where runs failed and why, other profiles, a surer choice."""
    off = best.has_no_tools or TOOLS_OFF in workarounds
    return (
        *(["Tools are switched off for this model."] if off else []),
        *([_instead(best)] if best.instead_of else []),
        *_hardest(best),
        *main_cause(best.checks, best.causes, best.tool.n - best.tool.k + best.infra),
        *([_spoiled(best)] if best.infra else []),
        *(
            f"With {each.profile} it was only {_percent(each.tool.rate or 0.0)}."
            for each in group
            if each.tool.n and _rank(each) < _rank(best)
        ),
        *(
            [f"The surer choice, by lower bound, is {surest.profile}."]
            if surest is not best
            else []
        ),
    )


def still_open(surest: Candidate, decision: Decision) -> tuple[str, ...]:
    """Say why it ends without a decision, if it is too close to call."""
    if decision != "too close":
        return ()
    if surest.at_limit:
        return (f"{surest.tool.n} runs did not decide, and no more are planned.",)
    return ("No number of further runs would decide if the rates stay.",)


def cautions_of(best: Candidate) -> tuple[str, ...]:
    """Say what a verdict about tools is not about."""
    control = best.control
    if not is_brittle(control):
        return ()
    return (f"Beside tools: the control, an exact answer, passed only {control.k} of {control.n}.",)


def _instead(best: Candidate) -> str:
    rate, plain = best.tool, best.instead
    return (
        f"With {best.strategy} it is significantly better than with {best.instead_of}: "
        f"{rate.k} of {rate.n} instead of {plain.k} of {plain.n}."
    )


def _rank(candidate: Candidate) -> int:
    return RANKS.index(observed_verdict(candidate))


def _hardest(candidate: Candidate) -> Iterable[str]:
    missed = candidate.tool.n - candidate.tool.k
    scenario, count = most_frequent(candidate.misses)
    if count and count == missed:
        yield f"Every miss was in {scenario}." if missed > 1 else f"The one miss was in {scenario}."
    elif 2 * count > missed:
        yield f"Most misses were in {scenario} ({count} of {missed})."


def _spoiled(candidate: Candidate) -> str:
    was = "run with tools was" if candidate.infra == 1 else "runs with tools were"
    more = " more" if candidate.tool.n else ""
    return f"{candidate.infra}{more} {was} spoiled by infrastructure and not judged."


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f} %"


def is_brittle(control: Rate) -> bool:
    """Whether a control, if there was any, failed too often to be passed over."""
    return control.rate is not None and control.rate < CONDITIONAL_FROM
