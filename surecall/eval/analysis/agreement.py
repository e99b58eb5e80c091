"""Compares endpoints that serve the same model, call by call, on recorded requests.

    answered         share of requests with a reply, excluding infrastructure errors
    call or not      F1 of "the reply has a call", with the reference as ground truth
    same calls       F1 over calls: name and arguments, as JSON values, in any order
    calls fit        share of calls that match the schemas of their tools

Sampling makes a model differ from itself. The agreement of the reference with itself, between its
trials of one request, is therefore the most that another endpoint can reach. All pairs of replies
to a request are compared, and each request counts once, so the order of trials does not matter.

Figures are ratios of sums over requests (`RatioTerm`, `pooled_ratio`, `ratio_difference`). Replies
to one request are correlated, so the request is the unit: the interval is Wilson's on the effective
sample size, as in `stats.pooled_interval`. A percentile bootstrap over requests was rejected: its
coverage is too low for ratios near one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations, product
from math import hypot, sqrt
from typing import Any, Final, Literal, TypeAlias

import msgspec

from surecall.eval.analysis.stats import (
    MIN_CLUSTERS,
    Z95,
    student_quantile,
    two_sided_quantile,
    wilson_interval,
)
from surecall.eval.storage.trial import AddableCounts, Trial


class RatioTerm(msgspec.Struct, frozen=True):
    """One request's share of numerator (`above`) and denominator (`below`): 0 ≤ above ≤ below."""

    above: float
    below: float


class Ratio(msgspec.Struct, frozen=True):
    """A ratio over `n` requests with its interval. None: nothing was compared."""

    value: float | None
    low: float
    high: float
    n: int


UNKNOWN: Final = Ratio(None, 0.0, 1.0, 0)


def pooled_ratio(parts: Sequence[RatioTerm], z: float = Z95) -> Ratio:
    """Return the ratio over requests. If every denominator is zero, the ratio is 1."""
    n = len(parts)
    if not n:
        return UNKNOWN
    below = sum(part.below for part in parts)
    if not below:
        return Ratio(1.0, wilson_interval(n, n, z)[0], 1.0, n)
    value = sum(part.above for part in parts) / below
    active = [part for part in parts if part.below]
    size = below * below / sum(part.below**2 for part in active)
    if len(active) >= MIN_CLUSTERS:
        variance = _ratio_variance(_influences(active))
        z = student_quantile(z, len(active) - 1)
        size = value * (1 - value) / variance if variance else size
    return Ratio(value, *wilson_interval(value * size, size, z), n)


def ratio_difference(
    first: Sequence[RatioTerm], second: Sequence[RatioTerm], z: float = Z95
) -> Ratio:
    """Return the second ratio minus the first, over the same requests in the same order.

    The interval uses the variance of the per-request differences, with Student's quantile. Away
    from zero it is at least as wide as one combined from the intervals of both ratios, as in
    Newcombe's method, because the variance is zero if all observed requests agree. With too few
    requests to estimate the variance, the interval includes zero.
    """
    before, after = pooled_ratio(first, z), pooled_ratio(second, z)
    if before.value is None or after.value is None:
        return Ratio(None, -1.0, 1.0, 0)
    found = after.value - before.value
    down = hypot(after.value - after.low, before.high - before.value)
    up = hypot(after.high - after.value, before.value - before.low)
    if len(first) < MIN_CLUSTERS:
        down, up = max(down, found), max(up, -found)
    else:
        both = zip(_influences(second), _influences(first), strict=True)
        spread = _ratio_variance([one - other for one, other in both])
        # Zero variance is not certainty: use Wilson's width for unanimous successes as a minimum.
        least = abs(found) * z * z / (len(first) + z * z)
        reach = max(student_quantile(z, len(first) - 1) * sqrt(spread), least)
        down = reach if found > 0 else max(down, reach)
        up = reach if found < 0 else max(up, reach)
    return Ratio(found, max(-1.0, found - down), min(1.0, found + up), after.n)


def _influences(parts: Sequence[RatioTerm]) -> list[float]:
    """Return the influence of each request on the ratio."""
    below = sum(part.below for part in parts)
    if not below:
        return [0.0] * len(parts)
    value = sum(part.above for part in parts) / below
    return [(part.above - value * part.below) / below for part in parts]


def _ratio_variance(influences: Sequence[float]) -> float:
    return len(influences) / (len(influences) - 1) * sum(pull * pull for pull in influences)


Reply: TypeAlias = Counter[str]
Pairs: TypeAlias = Iterable[tuple[Reply, Reply]]
AgreementVerdict: TypeAlias = Literal["worse", "better", "no difference seen", "open"]
NO_DIFFERENCE: Final = "no difference seen"
ALPHA: Final = 0.05
COMPARED_FIGURES: Final = 4


class OverlapCounts(AddableCounts, frozen=True):
    """Number of items in both sides, only in the other side, and only in the reference."""

    both: float = 0.0
    extra: float = 0.0
    lacking: float = 0.0

    def averaged_over(self, pairs: int) -> "OverlapCounts":
        """Return the mean over a number of pairs."""
        return OverlapCounts(self.both / pairs, self.extra / pairs, self.lacking / pairs)

    @property
    def f1(self) -> RatioTerm:
        """The term of F1."""
        return RatioTerm(2 * self.both, 2 * self.both + self.extra + self.lacking)

    @property
    def precision(self) -> RatioTerm:
        """The term of the precision."""
        return RatioTerm(self.both, self.both + self.extra)

    @property
    def recall(self) -> RatioTerm:
        """The term of the recall."""
        return RatioTerm(self.both, self.both + self.lacking)


class EndpointReplies(msgspec.Struct, frozen=True):
    """The replies of one endpoint to one request.

    `fitting` counts the calls that match their schemas. `refused` counts trials refused because
    of the request's content; `errors` are the codes of infrastructure errors.
    """

    replies: tuple[Reply, ...] = ()
    fitting: int = 0
    refused: int = 0
    errors: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        """Number of calls in the replies."""
        return sum(reply.total() for reply in self.replies)


RepliesByRequest: TypeAlias = Mapping[str, EndpointReplies]


class RequestCounts(msgspec.Struct, frozen=True):
    """Outcomes of the requests to one endpoint."""

    asked: int
    answered: int
    refused: int
    errors: dict[str, int]
    calls: int


class AgreementFigure(msgspec.Struct, frozen=True):
    """A figure of an endpoint, the same figure of the reference, and their difference.

    For agreement, the reference's figure is its agreement with itself. The interval of the
    difference is corrected for multiple comparisons; the others are 95% intervals.
    """

    value: Ratio
    reference: Ratio = UNKNOWN
    gap: Ratio = UNKNOWN

    @property
    def verdict(self) -> AgreementVerdict:
        """Whether the endpoint is worse or better than the reference."""
        if self.gap.value is None:
            return "open"
        if self.gap.high < 0:
            return "worse"
        return "better" if self.gap.low > 0 else NO_DIFFERENCE


class Agreement(msgspec.Struct, frozen=True):
    """Comparison of an endpoint with the reference, on requests that both answered."""

    name: str
    reference: str
    requests: int
    counts: RequestCounts
    reference_counts: RequestCounts
    answered: AgreementFigure
    decision: AgreementFigure
    precision: Ratio
    recall: Ratio
    calls: AgreementFigure
    fits: AgreementFigure

    @property
    def figures(self) -> tuple[AgreementFigure, AgreementFigure, AgreementFigure, AgreementFigure]:
        """The figures that are compared."""
        return self.answered, self.decision, self.calls, self.fits

    @property
    def missing_data(self) -> Literal["", "answers", "a floor", "requests", "calls"]:
        """The kind of data that is insufficient for a verdict; blank if none is."""
        if not self.requests:
            return "answers"
        if "open" in {self.decision.verdict, self.calls.verdict}:
            return "a floor"
        if self.requests < MIN_CLUSTERS:
            return "requests"
        return "" if self.counts.calls or self.reference_counts.calls else "calls"

    @property
    def verdict(self) -> AgreementVerdict:
        """The overall verdict. One worse figure decides; otherwise insufficient data means open."""
        verdicts = {figure.verdict for figure in self.figures}
        if "worse" in verdicts:
            return "worse"
        if self.missing_data:
            return "open"
        return "better" if "better" in verdicts else NO_DIFFERENCE


def replies_by_request(trials: Iterable[Trial]) -> RepliesByRequest:
    """Return the replies of an endpoint by request, from trials of recorded requests."""
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.status != "skipped":
            found.setdefault(trial.key.scenario, []).append(trial)
    return {name: _endpoint_replies(own) for name, own in found.items()}


def _endpoint_replies(trials: Sequence[Trial]) -> EndpointReplies:
    valid = [trial for trial in trials if trial.status != "infra"]
    answered = [trial.draft.get("calls", ()) for trial in valid if trial.requests]
    return EndpointReplies(
        replies=tuple(Counter(map(canonical_call, calls)) for calls in answered),
        fitting=sum(bool(call.get("fits")) for calls in answered for call in calls),
        refused=len(valid) - len(answered),
        errors=tuple(trial.category for trial in trials if trial.status == "infra"),
    )


def canonical_call(call: Mapping[str, Any]) -> str:
    """Return a call as canonical text, equal exactly for equal names and JSON values."""
    parts = [call.get("name"), _canonical_value(call.get("arguments")), bool(call.get("unread"))]
    return msgspec.json.encode(parts, order="deterministic").decode()


def _canonical_value(value: Any) -> Any:
    """Normalize numbers: 1.0 equals 1 in JSON."""
    match value:
        case dict():
            return {key: _canonical_value(item) for key, item in value.items()}
        case list():
            return [_canonical_value(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def agreements(reference: str, sides: Mapping[str, RepliesByRequest]) -> tuple[Agreement, ...]:
    """Compare every other endpoint with the reference, in order."""
    truth = sides[reference]
    others = {name: side for name, side in sides.items() if name != reference}
    z = two_sided_quantile(ALPHA / (COMPARED_FIGURES * max(1, len(others))))
    return tuple(
        _compare_with_reference(reference, truth, name, side, z) for name, side in others.items()
    )


def _compare_with_reference(
    reference_name: str, reference: RepliesByRequest, name: str, replies: RepliesByRequest, z: float
) -> Agreement:
    """Compare one endpoint with the reference, on requests that both answered."""
    shared = [each for each in reference if each in replies]
    common = [each for each in shared if reference[each].replies and replies[each].replies]
    decided = _overlap_with_reference(reference, replies, common, compare_decisions)
    return Agreement(
        name=name,
        reference=reference_name,
        requests=len(common),
        counts=_request_counts(replies),
        reference_counts=_request_counts(reference),
        answered=_share_figure(reference, replies, shared, _answered_term, z),
        decision=_f1_figure(reference, replies, common, compare_decisions, z),
        precision=_ratio_or_unknown([tally.precision for tally in decided]),
        recall=_ratio_or_unknown([tally.recall for tally in decided]),
        calls=_f1_figure(reference, replies, common, compare_calls, z),
        fits=_share_figure(reference, replies, common, _fitting_term, z),
    )


def _request_counts(replies: RepliesByRequest) -> RequestCounts:
    every = replies.values()
    errors = Counter(code for each in every for code in each.errors)
    answered = sum(len(each.replies) for each in every)
    refused = sum(each.refused for each in every)
    total = answered + refused + errors.total()
    return RequestCounts(total, answered, refused, dict(errors), sum(each.calls for each in every))


def compare_decisions(truth: Reply, other: Reply) -> OverlapCounts:
    """Compare whether the replies have a call."""
    return OverlapCounts(
        bool(truth and other), bool(other and not truth), bool(truth and not other)
    )


def compare_calls(truth: Reply, other: Reply) -> OverlapCounts:
    """Compare the calls of two replies, in any order."""
    both = (truth & other).total()
    return OverlapCounts(both, other.total() - both, truth.total() - both)


Comparator: TypeAlias = Callable[[Reply, Reply], OverlapCounts]


def _average_overlap(pairs: Pairs, compare: Comparator) -> OverlapCounts:
    """Return the mean overlap of pairs of replies to one request."""
    tallies = [compare(truth, other) for truth, other in pairs]
    return sum(tallies, OverlapCounts()).averaged_over(len(tallies))


def _overlap_with_reference(
    reference: RepliesByRequest,
    endpoint: RepliesByRequest,
    requests: Sequence[str],
    compare: Comparator,
) -> list[OverlapCounts]:
    """Return the mean overlap between an endpoint and the reference, for each request."""
    return [
        _average_overlap(product(reference[name].replies, endpoint[name].replies), compare)
        for name in requests
    ]


def _f1_figure(
    reference: RepliesByRequest,
    endpoint: RepliesByRequest,
    requests: Sequence[str],
    compare: Comparator,
    z: float,
) -> AgreementFigure:
    """Compare the calls of an endpoint with the reference; its floor is the self-agreement."""
    value = pooled_ratio(
        [tally.f1 for tally in _overlap_with_reference(reference, endpoint, requests, compare)]
    )
    # Self-agreement needs at least two replies to a request.
    twice = [name for name in requests if len(reference[name].replies) > 1]
    pairs = (permutations(reference[name].replies, 2) for name in twice)
    floor = [_average_overlap(each, compare).f1 for each in pairs]
    there = [tally.f1 for tally in _overlap_with_reference(reference, endpoint, twice, compare)]
    return AgreementFigure(value, pooled_ratio(floor), ratio_difference(floor, there, z))


def _share_figure(
    reference: RepliesByRequest,
    endpoint: RepliesByRequest,
    requests: Sequence[str],
    share: Callable[[EndpointReplies], RatioTerm],
    z: float,
) -> AgreementFigure:
    """Compare a share that each side has on its own; unknown if a side has no cases."""
    first, second = ([share(each[name]) for name in requests] for each in (reference, endpoint))
    value, floor = _ratio_or_unknown(second), _ratio_or_unknown(first)
    both = value is not UNKNOWN and floor is not UNKNOWN
    return AgreementFigure(value, floor, ratio_difference(first, second, z) if both else UNKNOWN)


def _ratio_or_unknown(parts: Sequence[RatioTerm]) -> Ratio:
    """Return the ratio over requests; unknown if every denominator is zero."""
    return pooled_ratio(parts) if any(part.below for part in parts) else UNKNOWN


def _answered_term(replies: EndpointReplies) -> RatioTerm:
    """Return a request's term of `answered`."""
    answered = len(replies.replies)
    return RatioTerm(answered, answered + replies.refused)


def _fitting_term(replies: EndpointReplies) -> RatioTerm:
    """Return a request's term of `calls fit`."""
    return RatioTerm(replies.fitting, replies.calls)


_WORSE: Final = {
    "answered": "it answers {value} of the requests, compared with {floor} for {reference}",
    "decision": (
        "its decision whether to call matches {reference}'s with an F1 of {value}, compared with "
        "{floor} for {reference} itself"
    ),
    "calls": (
        "its calls match {reference}'s with an F1 of {value}, compared with {floor} for "
        "{reference} itself"
    ),
    "fits": "{value} of its calls match their schemas, compared with {floor} for {reference}",
}


def agreement_sentence(agreement: Agreement) -> str:
    """Return a sentence with the verdict on an endpoint and its evidence."""
    name, reference = agreement.name, agreement.reference
    if agreement.verdict == "worse":
        return f"{name} is worse than {reference}: {'; '.join(_worse_figure_clauses(agreement))}."
    if agreement.missing_data == "answers":
        return f"Open: no request was answered by both {name} and {reference}."
    n = _sample_size_text(agreement.requests)
    if agreement.missing_data == "calls":
        return f"Open: neither {name} nor {reference} made a call {n}."
    agrees = (
        f"{name}'s calls match {reference}'s with an F1 of {format_ratio(agreement.calls.value)}"
    )
    if agreement.missing_data == "a floor":
        return (
            f"Open: {agrees} {n}, but one trial does not show how well {reference} agrees with "
            "itself. Use -n 2 to measure it."
        )
    if agreement.missing_data == "requests":
        return f"Open: {agrees} {n}, but a verdict needs at least {MIN_CLUSTERS} requests."
    lead = f"No difference between {name} and {reference} was found"
    if agreement.verdict == "better":
        lead = f"{name} is no worse than {reference}"
    lost = max(-figure.gap.low for figure in agreement.figures if figure.gap.value is not None)
    itself = f"compared with {format_ratio(agreement.calls.reference)} for {reference} itself"
    return (
        f"{lead}: {agrees}, {itself} {n}. A loss of up to {100 * lost:.1f} points in one of the "
        "figures cannot be ruled out."
    )


def _worse_figure_clauses(agreement: Agreement) -> list[str]:
    figures: dict[str, AgreementFigure] = {name: getattr(agreement, name) for name in _WORSE}
    return [
        _WORSE[name].format(
            value=format_ratio(figure.value),
            floor=format_ratio(figure.reference),
            reference=agreement.reference,
        )
        + f" {_sample_size_text(figure.value.n)}"
        for name, figure in figures.items()
        if figure.verdict == "worse"
    ]


def _sample_size_text(requests: int) -> str:
    return f"(n = {requests} request{'' if requests == 1 else 's'})"


def format_ratio(ratio: Ratio) -> str:
    """Return a ratio with its interval as text: `81.2% [74.1, 87.0]`."""
    if ratio.value is None:
        return "unknown"
    return (
        f"{_format_percent(ratio.value)}% [{_format_percent(ratio.low)}, "
        f"{_format_percent(ratio.high)}]"
    )


def format_difference(difference: Ratio) -> str:
    """Return a difference with its interval, in points: `-2.8 [-8.1, +2.5]`."""
    if difference.value is None:
        return ""
    value, low, high = (
        _format_percent(each, "+") for each in (difference.value, difference.low, difference.high)
    )
    return f"{value} [{low}, {high}]"


def _format_percent(share: float, sign: str = "") -> str:
    # Omit ".0" from 100 to keep tables within the width of a terminal.
    return f"{100 * share:{sign}.1f}".replace("100.0", "100")
