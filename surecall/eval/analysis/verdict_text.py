"""Summary sentences of an evaluation: its verdict, and the gain of each strategy."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, get_args

import msgspec

from surecall.eval.analysis.comparisons import Comparison, Comparisons
from surecall.eval.analysis.recommendations import (
    IntervalDecision,
    Recommendation,
    default_strategy,
    verdict_labels,
)
from surecall.eval.analysis.summary import Summary, Totals
from surecall.values.types import JSON

# Longer lists end in "and N more".
MAX_NAMES: Final = 4
# With more combinations of strategy and profile, each model names its own.
_MAX_SETTINGS: Final = 3
DECISIONS: Final[tuple[IntervalDecision, ...]] = get_args(IntervalDecision)


def group_by_decision(
    advice: Iterable[Recommendation],
) -> dict[IntervalDecision, list[Recommendation]]:
    """Group recommendations by decision, each group sorted by rate, p95, and name."""
    found: dict[IntervalDecision, list[Recommendation]] = {decision: [] for decision in DECISIONS}
    for each in sorted(advice, key=_advice_sort_key):
        found[each.decision].append(each)
    return found


class SentencePart(msgspec.Struct, frozen=True):
    """The sentence about one group of models: the text before and after their names.

    The last name may be a count, such as `3 more`.
    """

    decision: IntervalDecision
    before: str
    names: tuple[str, ...]
    after: str

    @property
    def text(self) -> str:
        """The complete sentence."""
        return f"{self.before}{join_names(self.names, len(self.names))}{self.after}"


def verdict_sentence(advice: Sequence[Recommendation], max_names: int = MAX_NAMES) -> str:
    """Return the verdict on all models, with the strategy and profile that it is for.

    Every report and the terminal show this sentence. For simulated models it states which are
    handled. Blank without recommendations.
    """
    parts = [part.text for part in verdict_parts(advice, max_names)]
    return " ".join(["Simulated:", *parts] if any(each.simulated for each in advice) else parts)


def verdict_parts(
    advice: Sequence[Recommendation], max_names: int = MAX_NAMES
) -> tuple[SentencePart, ...]:
    """Return the verdict as one part for each decision, strategy, and profile."""
    return tuple(
        part
        for decision, rows in group_by_decision(advice).items()
        if rows
        for part in _decision_parts(decision, rows, max_names)
    )


def verdict_json(advice: Sequence[Recommendation]) -> JSON:
    """Return the verdict as JSON: the sentence on all models, then each model."""
    return {
        "sentence": verdict_sentence(advice),
        "models": [
            {
                "model": each.model,
                "verdict": verdict_labels(simulated=each.simulated)[each.decision][1],
                "strategy": each.decided_strategy,
                "sampling_profile": each.decided_profile,
                "sentence": verdict_sentence([each]),
                "tool_ok": each.decided_tool.k,
                "tool_runs": each.decided_tool.n,
                "tool_ok_interval": [each.decided_tool.low, each.decided_tool.high]
                if each.decided_tool.n
                else None,
                "more_trials": each.more_trials,
                "simulated": each.simulated,
            }
            for rows in group_by_decision(advice).values()
            for each in rows
        ],
    }


def _decision_parts(
    decision: IntervalDecision, rows: Sequence[Recommendation], max_names: int
) -> Iterator[SentencePart]:
    """Yield the parts about models with one decision, by strategy and profile."""
    by_setting: dict[tuple[str, str], list[Recommendation]] = {}
    for each in rows:
        by_setting.setdefault((each.decided_strategy, each.decided_profile), []).append(each)
    if decision == "not measured":
        yield _sentence_part(rows, [each.model for each in rows], "", max_names)
    elif len(by_setting) > _MAX_SETTINGS:
        names = [
            f"{each.model} ({each.decided_strategy}, profile {each.decided_profile})"
            for each in rows
        ]
        yield _sentence_part(rows, names, "", max_names)
    else:
        for (strategy, profile), own in by_setting.items():
            setting = f"with {strategy} (profile {profile})"
            yield _sentence_part(own, [each.model for each in own], setting, max_names)


def _sentence_part(
    rows: Sequence[Recommendation], models: Sequence[str], setting: str, max_names: int
) -> SentencePart:
    """Return the sentence about models with one decision; `setting` ends it."""
    decision, simulated = rows[0].decision, any(each.simulated for each in rows)
    one, names = len(rows) == 1, shorten_names(models, max_names)
    # No strategy did better.
    even = ", even " if decision == "avoid" else " "
    after = f"{even}{setting}." if setting else "."
    if decision == "more trials":
        return SentencePart(
            decision, "", names, f" {'needs' if one else 'need'} more trials{after}"
        )
    if decision == "not measured":
        return SentencePart(decision, "", names, f" {'was' if one else 'were'} not measured{after}")
    word = verdict_labels(simulated=simulated)[decision][1]
    if simulated or decision == "too close":
        return SentencePart(decision, "", names, f" {'is' if one else 'are'} {word}{after}")
    return SentencePart(decision, f"{word.capitalize()} ", names, after)


def shorten_names(names: Sequence[str], max_names: int = MAX_NAMES) -> tuple[str, ...]:
    """Return the first names, with two or more remaining ones as a count."""
    if len(names) <= max_names + 1:
        return tuple(names)
    return (*names[:max_names], f"{len(names) - max_names} more")


def join_names(names: Sequence[str], max_names: int = MAX_NAMES) -> str:
    """Return names joined with commas and "and", shortened if there are many."""
    *first, last = shorten_names(names, max_names)
    comma = "," if len(first) > 1 else ""
    return f"{', '.join(first)}{comma} and {last}" if first else last


def _advice_sort_key(advice: Recommendation) -> tuple[float, int, str]:
    rate = advice.decided_tool.rate
    return (1.0 if rate is None else -rate), advice.p95_ms, advice.model


class ModelGain(msgspec.Struct, frozen=True):
    """The gain of one model and profile from strategy to strategy.

    `steps` compare each strategy with the next; `whole` compares the first with the last.
    """

    model: str
    profile: str
    steps: tuple[Comparison, ...]
    whole: Comparison

    @property
    def has_changes(self) -> bool:
        """Whether any conversation was fixed or broken."""
        return any(step.fixed or step.broken for step in (*self.steps, self.whole))


def compared_strategies(comparisons: Comparisons) -> tuple[str, ...]:
    """Return the compared strategies in order."""
    return tuple(
        dict.fromkeys(name for row in comparisons.overall for name in (row.first, row.second))
    )


def model_gains(comparisons: Comparisons) -> tuple[ModelGain, ...]:
    """Return the gains of all models with comparable runs, largest first."""
    names = compared_strategies(comparisons)
    if not names:
        return ()
    steps = set(itertools.pairwise(names))
    ends = (names[0], names[-1])
    by_model: dict[tuple[str, str], list[Comparison]] = {}
    for row in comparisons.rows:
        if row.pairs:
            by_model.setdefault((row.model, row.profile), []).append(row)
    made = [
        ModelGain(
            model,
            profile,
            tuple(row for row in rows if (row.first, row.second) in steps),
            next((row for row in rows if (row.first, row.second) == ends), rows[0]),
        )
        for (model, profile), rows in by_model.items()
    ]
    return tuple(sorted(made, key=lambda gain: -(gain.whole.difference or 0.0)))


def gain_over_first(
    comparisons: Comparisons, model: str, profile: str, strategy: str
) -> Comparison | None:
    """Return the gain of a cell over the first strategy; None for that one, or without pairs."""
    wanted = (model, profile, *compared_strategies(comparisons)[:1], strategy)
    rows = (row for row in comparisons.rows if row.pairs)
    return next(
        (row for row in rows if (row.model, row.profile, row.first, row.second) == wanted), None
    )


def steps_sentence(comparisons: Comparisons, max_names: int = MAX_NAMES) -> str:
    """Return which models and profiles each step helped or harmed; blank with one strategy."""
    names = compared_strategies(comparisons)
    profiles = len({row.profile for row in comparisons.rows}) > 1
    return " ".join(
        _step_sentence(
            [row for row in comparisons.rows if (row.first, row.second) == step],
            *step,
            max_names,
            profiles=profiles,
        )
        for step in itertools.pairwise(names)
    )


def _format_points(difference: float) -> str:
    """Return a difference of two shares in whole points, with its sign."""
    return f"{100 * difference:+.0f}".replace("-", "\N{MINUS SIGN}")


def _step_sentence(
    rows: Sequence[Comparison], first: str, second: str, max_names: int, *, profiles: bool
) -> str:
    """Return which models the step between two strategies helped or harmed."""
    better = _name_models(
        [row for row in rows if row.verdict() == "better"], max_names, sign=-1, profiles=profiles
    )
    worse = _name_models(
        [row for row in rows if row.verdict() == "worse"], max_names, sign=1, profiles=profiles
    )
    if not better and not worse:
        return f"{second} over {first}: no significant difference."
    effects = [f"helps {better}"] if better else []
    effects += [f"harms {worse}"] if worse else []
    return f"{second} over {first}: {', '.join(effects)}."


def _name_models(rows: Iterable[Comparison], max_names: int, *, sign: int, profiles: bool) -> str:
    """List each model once with its changes, largest first; `profiles` adds the profiles.

    Only the first change names the unit.
    """
    by_model: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: sign * (row.difference or 0.0)):
        unit = "" if by_model else " points"
        where = f" with {row.profile}" if profiles else ""
        change = f"{_format_points(row.difference or 0.0)}{unit}{where}"
        by_model.setdefault(row.model, []).append(change)
    names = [f"{model} ({', '.join(changes)})" for model, changes in by_model.items()]
    return join_names(names, max_names) if names else ""


# Figures of several strategies are never combined, so a headline is about one strategy.


def headline_strategy(summary: Summary) -> str:
    """Return the strategy that others are compared with; blank without any."""
    return default_strategy(summary.cells)


def headline_totals(summary: Summary) -> Totals:
    """Return the figures of the headline strategy, or of all trials if there is none."""
    return summary.strategies.get(headline_strategy(summary), summary.totals)
