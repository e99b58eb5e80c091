"""From figures to advice: for each model the best profile, a verdict, and why.

There are two rules, because they answer different questions:

    observed   what was seen: best profile by rate, ties by lower p95; at least 97 % is Yes,
               at least 90 % Conditional, less is No
    interval   what is known: best profile by lower bound; the whole interval at or above the bar
               means use, below it avoid, anything else more trials

Advice is about `production`, or the fullest of the plain strategies that were run. One that goes
beyond it takes its place where it is significantly better on the same conversations.

Advice is made from a few counts for each cell, so that runs of today and figures that survive
only as a table are judged alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from surecall.eval.analysis.causes import checks_in, main_cause, most_frequent
from surecall.eval.analysis.paired import BEYOND, PLAIN
from surecall.eval.analysis.stats import NOTHING, Interval, Rate, interval, trials_to_decide
from surecall.eval.analysis.summary import CellSummary, Figure, count_by, figure
from surecall.eval.analysis.verdicts import Decision, verdicts
from surecall.eval.report.snippet import presets_beside, snippet
from surecall.eval.running.cells import BEST_EFFORT, split_strategy
from surecall.eval.storage.trial import CONTROL
from surecall.settings.catalog import ModelCatalog
from surecall.settings.presets import Strategy
from surecall.settings.sampling import SamplingCatalog
from surecall.values.types import JSON

Verdict: TypeAlias = Literal["Yes", "Conditional", "No", "Unknown"]

BAR: Final = 0.9
YES_FROM: Final = 0.97
CONDITIONAL_FROM: Final = 0.9
PRODUCTION: Final[Strategy] = "production"
TOOLS_OFF: Final = "tool_use_disabled"
RANKS: Final[tuple[Verdict, ...]] = ("Unknown", "No", "Conditional", "Yes")
# The fullest of the plain ones first; what goes beyond them needs a reason.
_STRATEGIES: Final = (*PLAIN[::-1], *BEYOND)
_FALLBACKS: Final = ("fallback_on", BEST_EFFORT, "fallback_off")


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of one model under one profile: all that advice is made from.

    `misses` (by scenario), `causes` (by error category) and `checks` (by expectation that was not
    met) are about tool scenarios; they may list the most frequent only. Runs that infrastructure
    spoiled are among the causes alone. `parts` are the rates by scenario, where known. `instead_of`
    names the plain strategy whose place it takes, and `instead` is that one's rate.
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

    @property
    def bounds(self) -> Interval:
        """The interval of the tool rate."""
        return interval(self.parts or (self.tool,))

    @property
    def has_no_tools(self) -> bool:
        """Whether every tool scenario was skipped: the model is not offered any."""
        return not self.tool.n and self.skipped > 0


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """Advice about one model. The figures are those of `profile`, the observed rule's choice.

    `decided_tool` is the rate of `decided_profile` under `decided_strategy`, the interval rule's
    choice.
    A `simulated` model has no `snippet`: there is nothing to configure.
    `more_trials` is how many more runs of tool scenarios would settle the decision of the
    interval rule: none when it is settled, None when they never would. `snippet` is Python that
    builds the configuration that was judged.
    """

    model: str
    strategy: str
    profile: str
    options: JSON
    workarounds: tuple[str, ...]
    verdict: Verdict
    label: str
    decided_profile: str
    decided_strategy: str
    decided_tool: Figure
    decision: Decision
    more_trials: int | None
    tool: Figure
    control: Figure
    p95_ms: int
    reason: str
    notes: tuple[str, ...]
    snippet: str
    simulated: bool = False


def candidates(cells: Iterable[CellSummary], strategy: str | None = None) -> tuple[Candidate, ...]:
    """Return the cells of one strategy as candidates.

    Without a strategy they are those of the fullest plain one present; a cell of another takes the
    place of one that it is significantly better than.
    """
    known = tuple(cells)
    if strategy is not None:
        return tuple(_candidate(each) for each in known if each.cell.strategy == strategy)
    base = min((each.cell.strategy for each in known), key=_by_fullness, default="")
    return tuple(_best_of(each, known) for each in known if each.cell.strategy == base)


def _best_of(plain: CellSummary, cells: Iterable[CellSummary]) -> Candidate:
    cell, found = plain.cell, _candidate(plain)
    better = [
        _candidate(each)
        for each in cells
        if (each.cell.model, each.cell.profile) == (cell.model, cell.profile)
        and split_strategy(each.cell.strategy)[0] in BEYOND
        and cell.strategy in each.better_than
    ]
    if not better:
        return found
    best = min(better, key=_by_rate)
    return msgspec.structs.replace(best, instead_of=cell.strategy, instead=found.tool)


def recommend(
    found: Iterable[Candidate],
    *,
    bar: float = BAR,
    provider: str = "openrouter",
    catalog: ModelCatalog | None = None,
    profiles: SamplingCatalog | None = None,
    simulated: Mapping[str, str] | None = None,
) -> tuple[Recommendation, ...]:
    """Advise on each model, in the order in which they come.

    `simulated` names those that are no models, each with the id that its workarounds go by.
    """
    by_model: dict[str, list[Candidate]] = {}
    for each in found:
        by_model.setdefault(each.model, []).append(each)
    kit = _Kit(
        bar,
        provider,
        catalog or ModelCatalog.builtin(),
        profiles or SamplingCatalog.builtin(),
        simulated or {},
    )
    return tuple(_advice(group, kit) for group in by_model.values())


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
    low, high = candidate.bounds
    if low >= bar:
        return "use"
    return "avoid" if high < bar else "more trials"


def original_row(advice: Recommendation) -> tuple[str, ...]:
    """Return the columns of the original's table: model, profile, preset, verdict, notes.

    The interval rule's follow: the decision, and how many more runs would settle it.
    """
    decision = verdicts(simulated=advice.simulated)[advice.decision][1]
    if split_strategy(advice.decided_strategy)[0] in BEYOND:
        decision = f"{decision} with {advice.decided_strategy}"
    if advice.decided_profile != advice.profile:
        decision = f"{decision} ({advice.decided_profile})"
    options = " ".join(f"{key}={value}" for key, value in advice.options.items())
    return (
        advice.model,
        f"{advice.profile} ({options or 'no overrides'})",
        ", ".join(advice.workarounds) or "-",
        advice.label,
        " ".join((advice.reason, *advice.notes)),
        decision,
        "?" if advice.more_trials is None else f"+{advice.more_trials}",
    )


class _Kit(msgspec.Struct, frozen=True):
    """What every piece of advice is made with."""

    bar: float
    provider: str
    catalog: ModelCatalog
    profiles: SamplingCatalog
    simulated: Mapping[str, str]

    def options(self, profile: str) -> JSON:
        return next((each.options for each in self.profiles.profiles if each.id == profile), {})


def _candidate(each: CellSummary) -> Candidate:
    totals = each.totals
    tools = [scenario for scenario in totals.scenarios if scenario.scenario != CONTROL]
    failures = [failure for failure in totals.failures if failure.scenario != CONTROL]
    return Candidate(
        model=each.cell.model,
        profile=each.cell.profile,
        strategy=each.cell.strategy,
        tool=totals.tool.counts,
        control=totals.control.counts,
        p95_ms=totals.latency.runs.p95,
        misses=count_by((one for one in failures if not one.infra), "scenario"),
        causes=count_by(failures, "category"),
        checks=checks_in(totals.causes),
        parts=tuple(scenario.rate.counts for scenario in tools),
        infra=sum(scenario.infra for scenario in tools),
        skipped=sum(scenario.skipped for scenario in tools),
    )


def _advice(group: Sequence[Candidate], kit: _Kit) -> Recommendation:
    best = min(group, key=_by_rate)
    surest = min(group, key=_by_lower_bound)
    known = kit.simulated.get(best.model, best.model)
    workarounds = presets_beside(best.strategy, known, kit.catalog)
    options = kit.options(best.profile)
    simulated = best.model in kit.simulated
    code = snippet(known, best.strategy, kit.provider, options, workarounds)
    return Recommendation(
        model=best.model,
        strategy=best.strategy,
        profile=best.profile,
        options=options,
        workarounds=workarounds,
        verdict=observed_verdict(best),
        label=f"Simulated: {_label(best)}" if simulated else _label(best),
        decided_profile=surest.profile,
        decided_strategy=surest.strategy,
        decided_tool=_tool(surest),
        decision=decide(surest, kit.bar),
        more_trials=_more_trials(surest, kit.bar),
        tool=_tool(best),
        control=figure((best.control,)),
        p95_ms=best.p95_ms,
        reason=_reason(best),
        notes=_notes(best, group, surest, workarounds),
        snippet="" if simulated else code,
        simulated=simulated,
    )


def _tool(candidate: Candidate) -> Figure:
    return figure(candidate.parts or (candidate.tool,))


def _by_fullness(label: str) -> tuple[int, int, str]:
    strategy, fallback = split_strategy(label)
    return _place(strategy, _STRATEGIES), _place(fallback, _FALLBACKS), label


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _by_rate(candidate: Candidate) -> tuple[float, int]:
    return _descending(candidate.tool.rate), candidate.p95_ms


def _by_lower_bound(candidate: Candidate) -> tuple[float, float, int]:
    # Where the lower bound cannot tell, as among zeros, the rate decides.
    return -candidate.bounds[0], _descending(candidate.tool.rate), candidate.p95_ms


def _descending(rate: float | None) -> float:
    return 1.0 if rate is None else -rate


def _more_trials(candidate: Candidate, bar: float) -> int | None:
    if candidate.has_no_tools:
        return 0
    return trials_to_decide(candidate.tool, bar, parts=candidate.parts)


def _label(candidate: Candidate) -> str:
    verdict = observed_verdict(candidate)
    if verdict == "Yes" and _is_brittle(candidate.control):
        return "Yes (tool scenarios)"
    return "No (for tool calling)" if verdict == "No" else verdict


def _is_brittle(control: Rate) -> bool:
    return control.rate is not None and control.rate < CONDITIONAL_FROM


def _reason(candidate: Candidate) -> str:
    rate = candidate.tool.rate
    if rate is None:
        return "No run with tools was judged."
    low, high = candidate.bounds
    return (
        f"{candidate.tool.k} of {candidate.tool.n} runs with tools passed: {_percent(rate)} "
        f"[{100 * low:.1f}, {100 * high:.1f}]."
    )


def _notes(
    best: Candidate,
    group: Sequence[Candidate],
    surest: Candidate,
    workarounds: Sequence[str],
) -> tuple[str, ...]:
    off = best.has_no_tools or TOOLS_OFF in workarounds
    control = best.control
    return (
        *(["Tools are switched off for this model."] if off else []),
        *([_instead(best)] if best.instead_of else []),
        *_hardest(best),
        *main_cause(best.checks, best.causes, best.tool.n - best.tool.k + best.infra),
        *([_spoiled(best)] if best.infra else []),
        *(
            [f"The control, an exact answer without tools, passed {control.k} of {control.n}."]
            if _is_brittle(control)
            else []
        ),
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
