"""From figures to advice: for each model the best profile, a verdict, and why.

There are two rules, because they answer different questions:

    observed   what was seen: best profile by rate, ties by lower p95; at least 97 % is Yes,
               at least 90 % Conditional, less is No
    interval   what is known: best profile by lower bound; the whole interval at or above the bar
               means use, below it avoid, anything else is undecided (see `verdicts`)

Advice is about `production`, or the fullest of the plain strategies that were run. One that goes
beyond it takes its place where it is significantly better on the same conversations.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from surecall.eval.analysis.candidate import (
    BAR,
    Candidate,
    Verdict,
    decide,
    more_trials,
    observed_verdict,
)
from surecall.eval.analysis.causes import checks_in
from surecall.eval.analysis.figures import Figure, figure
from surecall.eval.analysis.paired import BEYOND, PLAIN
from surecall.eval.analysis.reasons import cautions_of, is_brittle, notes_of, reason_of, still_open
from surecall.eval.analysis.summary import CellSummary, count_by
from surecall.eval.analysis.verdicts import Decision, verdicts
from surecall.eval.report.snippet import presets_beside, snippet
from surecall.eval.running.cells import BEST_EFFORT, split_strategy
from surecall.settings.catalog import ModelCatalog
from surecall.settings.sampling import SamplingCatalog
from surecall.values.types import JSON

# The fullest of the plain ones first; what goes beyond them needs a reason.
_STRATEGIES: Final = (*PLAIN[::-1], *BEYOND)
_FALLBACKS: Final = ("fallback_on", BEST_EFFORT, "fallback_off")


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """Advice about one model. The figures are those of `profile`, the observed rule's choice.

    `decided_tool` is the rate of `decided_profile` under `decided_strategy`, the interval rule's
    choice.
    A `simulated` model has no `snippet`: there is nothing to configure. Nor has one of which no run
    with tools was judged.
    `more_trials` is how many more runs of tool scenarios would settle the decision of the
    interval rule if the rates stay: zero when it is settled, None when it is too close to call, or
    nothing was measured. `reason` and `notes` explain the verdict; `cautions` say what it is not
    about. `snippet` is Python that builds the configuration that was judged.
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
    cautions: tuple[str, ...]
    snippet: str
    simulated: bool = False

    @property
    def why(self) -> tuple[str, ...]:
        """What explains the verdict, for places that do not show the `reason`."""
        done = self.tool.n and self.tool.k == self.tool.n
        return (*([f"All {self.tool.n} runs with tools passed."] if done else []), *self.notes)


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


def original_row(advice: Recommendation) -> tuple[str, ...]:
    """Return the columns of the original's table: model, profile, preset, verdict, notes.

    The interval rule's follow: the decision, and how many more runs would settle it. Nothing that
    is simulated is recommended: its row has no verdict of the observed rule.
    """
    decision = _word(advice.decision, simulated=advice.simulated)
    if split_strategy(advice.decided_strategy)[0] in BEYOND:
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


def plain_row(advice: Recommendation) -> JSON:
    """Return advice as JSON; about a simulated model it says how it was handled, and no more.

    What its workarounds would be is called `on`: it was in force, and is not recommended.
    """
    row: JSON = msgspec.to_builtins(advice)
    if advice.simulated:
        word = _word(advice.decision, simulated=True)
        on = list(advice.workarounds)
        row |= {"decision": word, "verdict": word, "workarounds": [], "on": on}
    return row


def _word(decision: Decision, *, simulated: bool) -> str:
    return verdicts(simulated=simulated)[decision][1]


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
    tools = [scenario for scenario in totals.scenarios if scenario.kind == "tool"]
    names = {scenario.scenario for scenario in tools}
    failures = [failure for failure in totals.failures if failure.scenario in names]
    return Candidate(
        model=each.cell.model,
        profile=each.cell.profile,
        strategy=each.cell.strategy,
        tool=totals.tool.counts,
        control=totals.control.counts,
        p95_ms=totals.latency.tool.p95,
        misses=count_by((one for one in failures if not one.infra), "scenario"),
        causes=count_by(failures, "category"),
        checks=checks_in(totals.causes, names),
        parts=tuple(scenario.rate.counts for scenario in tools),
        infra=sum(scenario.infra for scenario in tools),
        skipped=sum(scenario.skipped for scenario in tools),
        stopping=each.stopping,
        at_limit=each.at_limit,
    )


def _advice(group: Sequence[Candidate], kit: _Kit) -> Recommendation:
    best = min(group, key=_by_rate)
    surest = min(group, key=_by_lower_bound)
    known = kit.simulated.get(best.model, best.model)
    workarounds = presets_beside(best.strategy, known, kit.catalog)
    options = kit.options(best.profile)
    simulated = best.model in kit.simulated
    code = snippet(known, best.strategy, kit.provider, options, workarounds)
    decision = decide(surest, kit.bar)
    return Recommendation(
        model=best.model,
        strategy=best.strategy,
        profile=best.profile,
        options=options,
        workarounds=workarounds,
        verdict=observed_verdict(best),
        label=f"Simulated: {_word(decision, simulated=True)}" if simulated else _label(best),
        decided_profile=surest.profile,
        decided_strategy=surest.strategy,
        decided_tool=_tool(surest),
        decision=decision,
        more_trials=more_trials(surest, kit.bar),
        tool=_tool(best),
        control=figure((best.control,)),
        p95_ms=best.p95_ms,
        reason=reason_of(best),
        notes=(*still_open(surest, decision), *notes_of(best, group, surest, workarounds)),
        cautions=cautions_of(best),
        snippet="" if simulated or not best.tool.n else code,
        simulated=simulated,
    )


def _tool(candidate: Candidate) -> Figure:
    return figure(candidate.parts or (candidate.tool,), candidate.stopping)


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


def _label(candidate: Candidate) -> str:
    verdict = observed_verdict(candidate)
    if verdict == "Yes" and is_brittle(candidate.control):
        return "Yes (tool scenarios)"
    return "No (for tool calling)" if verdict == "No" else verdict
