"""Recommends a profile for each model, with a verdict and the reasons for it.

There are two rules:

    observed   best profile by rate, ties by lower p95; at least 97% is Yes, at least 90%
               Conditional, less is No
    interval   best profile by lower bound, and a decision about the threshold:
                   use, avoid      the whole interval lies on one side of the threshold
                   more trials     undecided; a known number of runs would decide at these rates
                   too close       undecided; more runs would not decide, or are not planned
                   not measured    no tool run was scored

For a simulated model the decision tells whether surecall handles its behavior, not whether to use
the model.

The verdict of a model and profile is that of its best strategy. The default is `production`, or the
most complete plain strategy that was run. The extended strategy with the highest lower bound
replaces it if that bound is higher. A less complete plain strategy replaces it only if it is
significantly better on the same conversations.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from surecall.eval.analysis.comparisons import EXTENDED_STRATEGIES, PLAIN_STRATEGIES
from surecall.eval.analysis.failure_causes import (
    count_missed_checks,
    main_cause_sentence,
    most_frequent,
)
from surecall.eval.analysis.stats import (
    EMPTY_RATE,
    FIXED_TRIALS,
    Interval,
    Rate,
    StoppingRule,
    pooled_interval,
    trials_to_decide,
)
from surecall.eval.analysis.summary import CellSummary, Figure, count_by, pooled_figure
from surecall.eval.report.config_snippet import added_presets, render_snippet
from surecall.eval.running.cells import BEST_EFFORT, split_strategy
from surecall.settings.catalog import ModelCatalog, SamplingCatalog
from surecall.settings.presets import Strategy
from surecall.values.types import JSON

IntervalDecision: TypeAlias = Literal["use", "avoid", "more trials", "too close", "not measured"]
VerdictLabels: TypeAlias = dict[IntervalDecision, tuple[str, str]]

_UNDECIDED_LABELS: Final[VerdictLabels] = {
    "more trials": ("?", "undecided"),
    "too close": ("≈", "too close to call"),
    "not measured": ("\N{EN DASH}", "not measured"),
}
VERDICT_LABELS: Final[VerdictLabels] = {
    "use": ("✓", "use"),
    "avoid": ("✗", "avoid"),
    **_UNDECIDED_LABELS,
}
SIMULATED_VERDICT_LABELS: Final[VerdictLabels] = {
    "use": ("✓", "handled"),
    "avoid": ("✗", "not handled"),
    **_UNDECIDED_LABELS,
}


def verdict_labels(*, simulated: bool) -> VerdictLabels:
    """Return the sign and word for each decision, for real or simulated models."""
    return SIMULATED_VERDICT_LABELS if simulated else VERDICT_LABELS


ObservedVerdict: TypeAlias = Literal["Yes", "Conditional", "No", "Unknown"]

DEFAULT_THRESHOLD: Final = 0.9
YES_THRESHOLD: Final = 0.97
CONDITIONAL_THRESHOLD: Final = 0.9
PRODUCTION: Final[Strategy] = "production"


class ProfileCandidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The counts of one model and profile on which a recommendation is based.

    `misses` (by scenario), `causes` (by error category), and `checks` (by unmet expectation) are
    about tool scenarios and may list only the most frequent ones. Infrastructure errors appear only
    in `causes`. `parts` are the rates by scenario, where known. `instead_of` is the plain strategy
    that this one replaces, and `instead` its rate; `significant` means that this one is
    significantly better. `at_limit` means that there are as many trials as `stopping` allows.
    """

    model: str
    profile: str
    strategy: str = PRODUCTION
    tool: Rate
    control: Rate = EMPTY_RATE
    p95_ms: int = 0
    misses: dict[str, int] = {}
    causes: dict[str, int] = {}
    checks: dict[str, int] = {}
    parts: tuple[Rate, ...] = ()
    infra: int = 0
    skipped: int = 0
    instead_of: str = ""
    instead: Rate = EMPTY_RATE
    significant: bool = False
    stopping: StoppingRule = FIXED_TRIALS
    at_limit: bool = False

    @property
    def tool_interval(self) -> Interval:
        """The interval of the tool rate."""
        return pooled_interval(self.parts or (self.tool,), sequential=self.stopping.sequential)

    @property
    def has_no_tools(self) -> bool:
        """Whether every tool scenario was skipped because tools are disabled for the model."""
        return not self.tool.n and self.skipped > 0


def observed_verdict(candidate: ProfileCandidate) -> ObservedVerdict:
    """Return the verdict of the observed rule."""
    rate = candidate.tool.rate
    if rate is None:
        return "No" if candidate.has_no_tools else "Unknown"
    if rate >= YES_THRESHOLD:
        return "Yes"
    return "Conditional" if rate >= CONDITIONAL_THRESHOLD else "No"


def interval_decision(
    candidate: ProfileCandidate, threshold: float = DEFAULT_THRESHOLD
) -> IntervalDecision:
    """Return the decision of the interval rule."""
    if candidate.has_no_tools:
        return "avoid"
    if not candidate.tool.n:
        return "not measured"
    low, high = candidate.tool_interval
    if low >= threshold:
        return "use"
    if high < threshold:
        return "avoid"
    return "too close" if trials_needed(candidate, threshold) is None else "more trials"


def trials_needed(candidate: ProfileCandidate, threshold: float = DEFAULT_THRESHOLD) -> int | None:
    """Return how many more runs would decide at these rates.

    None means that no number of runs would decide, or that no more are allowed.
    """
    if candidate.has_no_tools:
        return 0
    sequential = candidate.stopping.sequential
    found = trials_to_decide(
        candidate.tool, threshold, parts=candidate.parts, sequential=sequential
    )
    return None if found and candidate.at_limit else found


VERDICT_RANKS: Final[tuple[ObservedVerdict, ...]] = ("Unknown", "No", "Conditional", "Yes")


def rate_sentence(candidate: ProfileCandidate) -> str:
    """Return a sentence with the rate and interval behind a verdict."""
    rate = candidate.tool.rate
    if rate is None:
        return "No tool run was scored."
    low, high = candidate.tool_interval
    return (
        f"{candidate.tool.k} of {candidate.tool.n} tool runs passed: {_format_percent(rate)} "
        f"[{100 * low:.1f}, {100 * high:.1f}]."
    )


def explanatory_notes(
    best: ProfileCandidate,
    group: Sequence[ProfileCandidate],
    surest: ProfileCandidate,
    workarounds: Sequence[str],
) -> tuple[str, ...]:
    """Return notes: where and why runs failed, worse profiles, a safer choice."""
    off = best.has_no_tools or "tool_use_disabled" in workarounds
    return (
        *(["Tools are disabled for this model."] if off else []),
        *([_replacement_note(best)] if best.instead_of else []),
        *_hardest_scenario_notes(best),
        *main_cause_sentence(best.checks, best.causes, best.tool.n - best.tool.k + best.infra),
        *([_infra_note(best)] if best.infra else []),
        *(
            f"With the profile {each.profile}, only "
            f"{_format_percent(each.tool.rate or 0.0)} passed."
            for each in group
            if each.tool.n and _verdict_rank(each) < _verdict_rank(best)
        ),
        *(
            [f"By its lower bound, {surest.profile} is the safer choice."]
            if surest is not best
            else []
        ),
    )


def undecided_notes(surest: ProfileCandidate, decision: IntervalDecision) -> tuple[str, ...]:
    """Return a note on why there is no decision, if it is too close to call."""
    if decision != "too close":
        return ()
    if surest.at_limit:
        return (f"Undecided after {surest.tool.n} runs, and no more are planned.",)
    return ("More runs would not decide if the rates stay the same.",)


def control_cautions(best: ProfileCandidate) -> tuple[str, ...]:
    """Return a caution if the control failed, which the verdict does not include."""
    control = best.control
    if not is_control_unreliable(control):
        return ()
    return (
        f"The control (an exact answer without tools) passed only {control.k} of {control.n} runs.",
    )


def _replacement_note(best: ProfileCandidate) -> str:
    """Return a note on why a strategy replaces the default one."""
    rate, plain = best.tool, best.instead
    if best.significant:
        return (
            f"{best.strategy} is significantly better than {best.instead_of}: "
            f"{rate.k} of {rate.n} runs passed instead of {plain.k} of {plain.n}."
        )
    if not plain.n:
        return f"{best.strategy} is the best strategy; no run with {best.instead_of} was scored."
    return (
        f"{best.strategy} is the best strategy: {rate.k} of {rate.n} runs passed instead of "
        f"{plain.k} of {plain.n} with {best.instead_of}; the difference is not significant after "
        "correction."
    )


def _verdict_rank(candidate: ProfileCandidate) -> int:
    return VERDICT_RANKS.index(observed_verdict(candidate))


def _hardest_scenario_notes(candidate: ProfileCandidate) -> Iterable[str]:
    missed = candidate.tool.n - candidate.tool.k
    scenario, count = most_frequent(candidate.misses)
    if count and count == missed:
        yield (
            f"All failures were in {scenario}."
            if missed > 1
            else f"The only failure was in {scenario}."
        )
    elif 2 * count > missed:
        yield f"Most failures were in {scenario} ({count} of {missed})."


def _infra_note(candidate: ProfileCandidate) -> str:
    runs = "tool run was" if candidate.infra == 1 else "tool runs were"
    more = " more" if candidate.tool.n else ""
    return f"{candidate.infra}{more} {runs} not scored because of infrastructure errors."


def _format_percent(rate: float) -> str:
    return f"{100 * rate:.1f}%"


def is_control_unreliable(control: Rate) -> bool:
    """Whether the control ran and failed often enough for a caution."""
    return control.rate is not None and control.rate < CONDITIONAL_THRESHOLD


# Most complete plain strategy first; extended strategies need evidence.
_STRATEGY_ORDER: Final = (*PLAIN_STRATEGIES[::-1], *EXTENDED_STRATEGIES)
_FALLBACK_ORDER: Final = ("fallback_on", BEST_EFFORT, "fallback_off")


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """The recommendation for one model.

    `profile`, `tool`, `control`, and `p95_ms` are the choice of the observed rule; `decided_*` are
    that of the interval rule. `more_trials` is the number of tool runs that would decide at these
    rates: zero if decided, None if too close to call or not measured. `reason` and `notes` explain
    the verdict; `cautions` name what it does not cover. `snippet` is Python code for the evaluated
    configuration; blank for simulated models and without scored tool runs.
    """

    model: str
    strategy: str
    profile: str
    options: JSON
    workarounds: tuple[str, ...]
    verdict: ObservedVerdict
    label: str
    decided_profile: str
    decided_strategy: str
    decided_tool: Figure
    decision: IntervalDecision
    more_trials: int | None
    tool: Figure
    control: Figure
    p95_ms: int
    reason: str
    notes: tuple[str, ...]
    cautions: tuple[str, ...]
    snippet: str
    simulated: bool = False

    @property
    def explanation(self) -> tuple[str, ...]:
        """The notes, preceded by a success note, for displays without the `reason`."""
        all_passed = self.tool.n and self.tool.k == self.tool.n
        return (*([f"All {self.tool.n} tool runs passed."] if all_passed else []), *self.notes)


def profile_candidates(
    cells: Iterable[CellSummary], strategy: str | None = None
) -> tuple[ProfileCandidate, ...]:
    """Return a candidate for each model and profile: its best strategy, or the given one.

    Profiles that only less complete strategies ran are left out.
    """
    known = tuple(cells)
    if strategy is not None:
        return tuple(_candidate_from_cell(each) for each in known if each.cell.strategy == strategy)
    by_model: dict[str, list[CellSummary]] = {}
    for each in known:
        by_model.setdefault(each.cell.model, []).append(each)
    base = {model: default_strategy(own) for model, own in by_model.items()}
    return tuple(
        _best_candidate(each, by_model[each.cell.model])
        for each in known
        if each.cell.strategy == base[each.cell.model]
    )


def default_strategy(cells: Iterable[CellSummary]) -> str:
    """Return the most complete plain strategy of the cells; blank without any."""
    return min((each.cell.strategy for each in cells), key=_strategy_sort_key, default="")


def _best_candidate(default_cell: CellSummary, cells: Iterable[CellSummary]) -> ProfileCandidate:
    """Return the candidate of the best strategy, given the default one; see the module."""
    base, found = default_cell.cell.strategy, _candidate_from_cell(default_cell)
    others = [
        msgspec.structs.replace(
            _candidate_from_cell(each),
            instead_of=base,
            instead=found.tool,
            significant=base in each.better_than,
        )
        for each in cells
        if each.cell.profile == default_cell.cell.profile and each is not default_cell
    ]
    allowed = [each for each in others if each.significant or _is_extended_strategy(each.strategy)]
    # The first of equals is the default.
    return min((found, *allowed), key=lambda each: _lower_bound_sort_key(each)[:2])


def _is_extended_strategy(strategy_label: str) -> bool:
    return split_strategy(strategy_label)[0] in EXTENDED_STRATEGIES


def recommend(
    candidates: Iterable[ProfileCandidate],
    *,
    threshold: float = DEFAULT_THRESHOLD,
    provider: str = "openrouter",
    catalog: ModelCatalog | None = None,
    profiles: SamplingCatalog | None = None,
    simulated: Mapping[str, str] | None = None,
) -> tuple[Recommendation, ...]:
    """Return a recommendation for each model, in input order.

    `simulated` maps each simulated model to the model id that selects its workarounds.
    """
    by_model: dict[str, list[ProfileCandidate]] = {}
    for each in candidates:
        by_model.setdefault(each.model, []).append(each)
    kit = _AdviceContext(
        threshold,
        provider,
        catalog or ModelCatalog.builtin(),
        profiles or SamplingCatalog.builtin(),
        simulated or {},
    )
    return tuple(_recommendation(group, kit) for group in by_model.values())


def recommendation_row(advice: Recommendation) -> tuple[str, ...]:
    """Return a row of the recommendation table.

    The columns of the original harness (model, profile, preset, verdict, notes) are followed by
    the decision of the interval rule and the number of runs that would settle it. Simulated models
    are not recommended, so their row has no observed verdict.
    """
    decision = _decision_label(advice.decision, simulated=advice.simulated)
    if _is_extended_strategy(advice.decided_strategy):
        decision = f"{decision} with {advice.decided_strategy}"
    if advice.decided_profile != advice.profile:
        decision = f"{decision} ({advice.decided_profile})"
    options = " ".join(f"{key}={value}" for key, value in advice.options.items())
    return (
        advice.model,
        f"{advice.profile} ({options or 'no overrides'})",
        ", ".join(advice.workarounds) or "-",
        *(() if advice.simulated else (advice.label,)),
        " ".join((advice.reason, *advice.notes, *advice.cautions)),
        decision,
        f"+{advice.more_trials}" if advice.decision == "more trials" else "-",
    )


def recommendation_json(advice: Recommendation) -> JSON:
    """Return a recommendation as JSON.

    For a simulated model, `decision` and `verdict` tell whether its behavior was handled, and its
    workarounds move to `on`: they were active, but are not recommended.
    """
    row: JSON = msgspec.to_builtins(advice)
    if advice.simulated:
        word = _decision_label(advice.decision, simulated=True)
        on = list(advice.workarounds)
        row |= {"decision": word, "verdict": word, "workarounds": [], "on": on}
    return row


def _decision_label(decision: IntervalDecision, *, simulated: bool) -> str:
    return verdict_labels(simulated=simulated)[decision][1]


class _AdviceContext(msgspec.Struct, frozen=True):
    """Settings shared by all recommendations."""

    threshold: float
    provider: str
    catalog: ModelCatalog
    profiles: SamplingCatalog
    simulated: Mapping[str, str]

    def options(self, profile: str) -> JSON:
        """Return the request options of a profile."""
        return next((each.options for each in self.profiles.profiles if each.id == profile), {})


def _candidate_from_cell(cell: CellSummary) -> ProfileCandidate:
    totals = cell.totals
    tools = totals.tool_scenarios
    names = {scenario.scenario for scenario in tools}
    failures = [failure for failure in totals.failures if failure.scenario in names]
    return ProfileCandidate(
        **msgspec.structs.asdict(cell.cell),
        tool=totals.tool.as_rate,
        control=totals.control.as_rate,
        p95_ms=totals.latency.tool.p95,
        misses=count_by((one for one in failures if not one.infra), "scenario"),
        causes=count_by(failures, "category"),
        checks=count_missed_checks(totals.causes, names),
        parts=tuple(scenario.rate.as_rate for scenario in tools),
        infra=sum(scenario.infra for scenario in tools),
        skipped=sum(scenario.skipped for scenario in tools),
        stopping=cell.stopping,
        at_limit=cell.at_limit,
    )


def _recommendation(
    candidates: Sequence[ProfileCandidate], context: _AdviceContext
) -> Recommendation:
    """Return the recommendation for one model from its profiles."""
    best = min(candidates, key=_rate_sort_key)
    surest = min(candidates, key=_lower_bound_sort_key)
    known = context.simulated.get(best.model, best.model)
    workarounds = added_presets(best.strategy, known, context.catalog)
    options = context.options(best.profile)
    simulated = best.model in context.simulated
    code = render_snippet(known, best.strategy, context.provider, options, workarounds)
    decision = interval_decision(surest, context.threshold)
    return Recommendation(
        model=best.model,
        strategy=best.strategy,
        profile=best.profile,
        options=options,
        workarounds=workarounds,
        verdict=observed_verdict(best),
        label=f"Simulated: {_decision_label(decision, simulated=True)}"
        if simulated
        else _verdict_label(best),
        decided_profile=surest.profile,
        decided_strategy=surest.strategy,
        decided_tool=_tool_figure(surest),
        decision=decision,
        more_trials=trials_needed(surest, context.threshold),
        tool=_tool_figure(best),
        control=pooled_figure((best.control,)),
        p95_ms=best.p95_ms,
        reason=rate_sentence(best),
        notes=(
            *undecided_notes(surest, decision),
            *explanatory_notes(best, candidates, surest, workarounds),
        ),
        cautions=control_cautions(best),
        snippet="" if simulated or not best.tool.n else code,
        simulated=simulated,
    )


def _tool_figure(candidate: ProfileCandidate) -> Figure:
    return pooled_figure(candidate.parts or (candidate.tool,), candidate.stopping)


def _strategy_sort_key(strategy_label: str) -> tuple[int, int, str]:
    strategy, fallback = split_strategy(strategy_label)
    return (
        _position_or_last(strategy, _STRATEGY_ORDER),
        _position_or_last(fallback, _FALLBACK_ORDER),
        strategy_label,
    )


def _position_or_last(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _rate_sort_key(candidate: ProfileCandidate) -> tuple[float, int]:
    return _descending_rate(candidate.tool.rate), candidate.p95_ms


def _lower_bound_sort_key(candidate: ProfileCandidate) -> tuple[float, float, int]:
    # The rate breaks ties of the lower bound, for example among zeros.
    return -candidate.tool_interval[0], _descending_rate(candidate.tool.rate), candidate.p95_ms


def _descending_rate(rate: float | None) -> float:
    """Sort key for rates, highest first and unknown last."""
    return 1.0 if rate is None else -rate


def _verdict_label(candidate: ProfileCandidate) -> str:
    """Return the observed verdict, with its limitation in parentheses."""
    verdict = observed_verdict(candidate)
    if verdict == "Yes" and is_control_unreliable(candidate.control):
        return "Yes (tool scenarios)"
    return "No (for tool calling)" if verdict == "No" else verdict
