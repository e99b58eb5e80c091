"""One model behind several endpoints: whether they serve it alike.

    answered         how many requests got a reply, of those that were not spoiled on the way
    call or not      F1 of "there is a call", with the reference as the truth
    same calls       F1 over calls: name and arguments, as JSON values, in any order
    calls fit        how many calls fit the schemas of their tools

Models are sampled, so the reference differs from itself: what it agrees with itself, between the
trials of one request, is the most that can be asked of another endpoint. All pairs of replies to a
request are compared, and each request counts once, so the order of trials does not matter.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations, product
from typing import Any, Final, Literal, TypeAlias

import msgspec

from surecall.eval.analysis.ratios import UNKNOWN, Part, Ratio, difference, ratio
from surecall.eval.analysis.stats import CLUSTERED_FROM, two_sided
from surecall.eval.storage.trial import Trial

Reply: TypeAlias = Counter[str]
Pairs: TypeAlias = Iterable[tuple[Reply, Reply]]
Verdict: TypeAlias = Literal["worse", "better", "no difference seen", "open"]
UNSEEN: Final = "no difference seen"
ALPHA: Final = 0.05
FIGURES: Final = 4


class Tally(msgspec.Struct, frozen=True):
    """How the things of two sides compare: in both, only in the other, only in the reference."""

    both: float = 0.0
    extra: float = 0.0
    lacking: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.both + other.both, self.extra + other.extra, self.lacking + other.lacking)

    def over(self, pairs: int) -> "Tally":
        """Return the average of so many pairs."""
        return Tally(self.both / pairs, self.extra / pairs, self.lacking / pairs)

    @property
    def f1(self) -> Part:
        """What it adds to F1."""
        return Part(2 * self.both, 2 * self.both + self.extra + self.lacking)

    @property
    def precision(self) -> Part:
        """What it adds to the precision."""
        return Part(self.both, self.both + self.extra)

    @property
    def recall(self) -> Part:
        """What it adds to the recall."""
        return Part(self.both, self.both + self.lacking)


class Answers(msgspec.Struct, frozen=True):
    """What one endpoint answered to one request: its replies, how many calls in them fit.

    `refused` requests got none because of what was in them; `errors` are those that were spoiled
    on the way, by code.
    """

    replies: tuple[Reply, ...] = ()
    fitting: int = 0
    refused: int = 0
    errors: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        """How many calls there are in the replies."""
        return sum(reply.total() for reply in self.replies)


Side: TypeAlias = Mapping[str, Answers]


class Counts(msgspec.Struct, frozen=True):
    """What became of the requests to one endpoint."""

    asked: int
    answered: int
    refused: int
    errors: dict[str, int]
    calls: int


class Figure(msgspec.Struct, frozen=True):
    """One figure of an endpoint, beside that of the reference, and the difference.

    For agreement, that of the reference is with itself: the floor. The interval of the difference
    is corrected for the number of comparisons; the others are 95 %.
    """

    value: Ratio
    reference: Ratio = UNKNOWN
    gap: Ratio = UNKNOWN

    @property
    def verdict(self) -> Verdict:
        """Say in words whether the endpoint is worse than the reference."""
        if self.gap.value is None:
            return "open"
        if self.gap.high < 0:
            return "worse"
        return "better" if self.gap.low > 0 else UNSEEN


class Agreement(msgspec.Struct, frozen=True):
    """How one endpoint compares with the reference, on the requests that both answered."""

    name: str
    reference: str
    requests: int
    counts: Counts
    reference_counts: Counts
    answered: Figure
    decision: Figure
    precision: Ratio
    recall: Ratio
    calls: Figure
    fits: Figure

    @property
    def figures(self) -> tuple[Figure, Figure, Figure, Figure]:
        """The figures that are compared."""
        return self.answered, self.decision, self.calls, self.fits

    @property
    def lacking(self) -> Literal["", "answers", "a floor", "requests", "calls"]:
        """What there is too little of to see any difference; blank if there is enough."""
        if not self.requests:
            return "answers"
        if "open" in {self.decision.verdict, self.calls.verdict}:
            return "a floor"
        if self.requests < CLUSTERED_FROM:
            return "requests"
        return "" if self.counts.calls or self.reference_counts.calls else "calls"

    @property
    def verdict(self) -> Verdict:
        """Worse in one figure is worse; where too little was seen, nothing else can be said."""
        verdicts = {figure.verdict for figure in self.figures}
        if "worse" in verdicts:
            return "worse"
        if self.lacking:
            return "open"
        return "better" if "better" in verdicts else UNSEEN


def side_of(trials: Iterable[Trial]) -> Side:
    """Read what an endpoint answered out of the trials of recorded requests."""
    found: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.status != "skipped":
            found.setdefault(trial.key.scenario, []).append(trial)
    return {name: _answers(own) for name, own in found.items()}


def _answers(trials: Sequence[Trial]) -> Answers:
    judged = [trial for trial in trials if trial.status != "infra"]
    heard = [trial.draft.get("calls", ()) for trial in judged if trial.requests]
    return Answers(
        replies=tuple(Counter(map(call_text, calls)) for calls in heard),
        fitting=sum(bool(call.get("fits")) for calls in heard for call in calls),
        refused=len(judged) - len(heard),
        errors=tuple(trial.category for trial in trials if trial.status == "infra"),
    )


def call_text(call: Mapping[str, Any]) -> str:
    """Write a call so that two are equal exactly if their names and JSON values are."""
    parts = [call.get("name"), _plain(call.get("arguments")), bool(call.get("unread"))]
    return msgspec.json.encode(parts, order="deterministic").decode()


def _plain(value: Any) -> Any:
    """Write equal numbers alike: 1.0 is 1 in JSON."""
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def agreements(reference: str, sides: Mapping[str, Side]) -> tuple[Agreement, ...]:
    """Hold every other side against the reference, in their order."""
    truth = sides[reference]
    others = {name: side for name, side in sides.items() if name != reference}
    z = two_sided(ALPHA / (FIGURES * max(1, len(others))))
    return tuple(_agreement(reference, truth, name, side, z) for name, side in others.items())


def _agreement(reference: str, truth: Side, name: str, side: Side, z: float) -> Agreement:
    asked = [each for each in truth if each in side]
    common = [each for each in asked if truth[each].replies and side[each].replies]
    decided = _between(truth, side, common, decision)
    return Agreement(
        name=name,
        reference=reference,
        requests=len(common),
        counts=_counts(side),
        reference_counts=_counts(truth),
        answered=_shares(truth, side, asked, _answered, z),
        decision=_figure(truth, side, common, decision, z),
        precision=_known([tally.precision for tally in decided]),
        recall=_known([tally.recall for tally in decided]),
        calls=_figure(truth, side, common, same_calls, z),
        fits=_shares(truth, side, common, _fitting, z),
    )


def _counts(side: Side) -> Counts:
    every = side.values()
    errors = Counter(code for each in every for code in each.errors)
    answered = sum(len(each.replies) for each in every)
    refused = sum(each.refused for each in every)
    asked = answered + refused + errors.total()
    return Counts(asked, answered, refused, dict(errors), sum(each.calls for each in every))


def decision(truth: Reply, other: Reply) -> Tally:
    """Compare whether there is a call at all."""
    return Tally(bool(truth and other), bool(other and not truth), bool(truth and not other))


def same_calls(truth: Reply, other: Reply) -> Tally:
    """Compare the calls, in any order."""
    both = (truth & other).total()
    return Tally(both, other.total() - both, truth.total() - both)


Compare: TypeAlias = Callable[[Reply, Reply], Tally]


def _averaged(pairs: Pairs, compare: Compare) -> Tally:
    tallies = [compare(truth, other) for truth, other in pairs]
    return sum(tallies, Tally()).over(len(tallies))


def _between(truth: Side, side: Side, names: Sequence[str], compare: Compare) -> list[Tally]:
    return [_averaged(product(truth[name].replies, side[name].replies), compare) for name in names]


def _within(side: Side, names: Sequence[str], compare: Compare) -> list[Tally]:
    return [_averaged(permutations(side[name].replies, 2), compare) for name in names]


def _figure(truth: Side, side: Side, names: Sequence[str], compare: Compare, z: float) -> Figure:
    value = ratio([tally.f1 for tally in _between(truth, side, names, compare)])
    # Only what was asked twice can disagree with itself.
    twice = [name for name in names if len(truth[name].replies) > 1]
    floor = [tally.f1 for tally in _within(truth, twice, compare)]
    there = [tally.f1 for tally in _between(truth, side, twice, compare)]
    return Figure(value, ratio(floor), difference(floor, there, z))


def _shares(
    truth: Side, side: Side, names: Sequence[str], share: Callable[[Answers], Part], z: float
) -> Figure:
    """Compare a share that each side has by itself; nothing is known of one without cases."""
    first, second = ([share(each[name]) for name in names] for each in (truth, side))
    value, floor = _known(second), _known(first)
    both = value is not UNKNOWN and floor is not UNKNOWN
    return Figure(value, floor, difference(first, second, z) if both else UNKNOWN)


def _known(parts: Sequence[Part]) -> Ratio:
    return ratio(parts) if any(part.below for part in parts) else UNKNOWN


def _answered(answers: Answers) -> Part:
    heard = len(answers.replies)
    return Part(heard, heard + answers.refused)


def _fitting(answers: Answers) -> Part:
    return Part(answers.fitting, answers.calls)
