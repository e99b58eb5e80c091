"""Tests of `surecall.eval.analysis.agreement`."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.agreement import (
    NO_DIFFERENCE,
    UNKNOWN,
    Agreement,
    EndpointReplies,
    OverlapCounts,
    Ratio,
    RatioTerm,
    RepliesByRequest,
    agreement_sentence,
    agreements,
    canonical_call,
    compare_calls,
    compare_decisions,
    format_difference,
    format_ratio,
    pooled_ratio,
    ratio_difference,
    replies_by_request,
)
from surecall.eval.analysis.stats import wilson_interval
from surecall.eval.storage.trial import Cell, Trial
from surecall.values.types import JSON
from tests.support.trials import trial

# One model behind several endpoints: what they share, beside what the first does with itself


Calls = Sequence[str]
REPLIES = st.lists(st.lists(st.sampled_from("ab"), max_size=3).map(tuple), max_size=4)
SIDES = st.dictionaries(st.sampled_from("pqrstuvwxyz"), REPLIES, max_size=11)


def side(replies: Mapping[str, Sequence[Calls]]) -> RepliesByRequest:
    """Make a side of the names of its calls; those in capitals do not fit."""
    return {
        name: EndpointReplies(
            tuple(Counter(calls) for calls in each),
            sum(call.islower() for calls in each for call in calls),
        )
        for name, each in replies.items()
    }


def compared(reference: RepliesByRequest, other: RepliesByRequest) -> Agreement:
    (found,) = agreements("A", {"A": reference, "B": other})
    return found


def answered(number: int, *calls: JSON, name: str = "r1", **fields: Any) -> Trial:
    served = [{"turn": 0, "latency_ms": 1, "attempt": 1}]
    about = {"requests": served, "draft": {"calls": list(calls)}} | fields
    return trial(about.pop("status", "passed"), number, name, Cell("m@A"), **about)


@given(SIDES)
def test_a_side_agrees_with_the_same_replies_as_it_agrees_with_itself_or_better(
    replies: dict[str, list[Calls]],
) -> None:
    found = compared(side(replies), side({name: each[:1] for name, each in replies.items()}))

    assert found.verdict in {"open", NO_DIFFERENCE, "better", "worse"}
    once = {name: each[:1] for name, each in replies.items()}
    same = compared(side(once), side(once))
    wanted = 1.0 if any(once.values()) else None
    assert (same.decision.value.value, same.calls.value.value) == (wanted, wanted)
    assert same.verdict == "open"


@given(SIDES, SIDES)
def test_every_figure_is_a_share_and_f1_does_not_know_who_is_the_reference(
    first: dict[str, list[Calls]], second: dict[str, list[Calls]]
) -> None:
    there, back = compared(side(first), side(second)), compared(side(second), side(first))

    for figure in (*there.figures, *back.figures):
        for each in (figure.value, figure.reference):
            assert each.value is None or 0 <= each.low <= each.value <= each.high <= 1
    for one, other in ((there.decision, back.decision), (there.calls, back.calls)):
        assert one.value.value == pytest.approx(other.value.value)
    assert there.precision.value == pytest.approx(back.recall.value)
    assert there.requests == back.requests


@given(SIDES, SIDES, st.randoms(use_true_random=False))
def test_the_order_of_trials_does_not_matter(
    first: dict[str, list[Calls]], second: dict[str, list[Calls]], draw: random.Random
) -> None:
    shuffled = {name: draw.sample(each, len(each)) for name, each in second.items()}

    plain, other = compared(side(first), side(second)), compared(side(first), side(shuffled))

    for one, another in zip(plain.figures, other.figures, strict=True):
        assert one.value.value == pytest.approx(another.value.value)
        assert one.gap.low == pytest.approx(another.gap.low)
        assert one.verdict == another.verdict


def test_the_decision_to_call_is_held_against_that_of_the_reference() -> None:
    one, none = Counter("a"), Counter[str]()

    assert compare_decisions(one, Counter("b")) == OverlapCounts(both=1)
    assert compare_decisions(one, none) == OverlapCounts(lacking=1)
    assert compare_decisions(none, one) == OverlapCounts(extra=1)
    assert compare_decisions(none, none) == OverlapCounts()


def test_calls_are_the_same_in_any_order_but_not_more_often() -> None:
    assert compare_calls(Counter("ab"), Counter("ba")) == OverlapCounts(both=2)
    assert compare_calls(Counter("aa"), Counter("ab")) == OverlapCounts(1, 1, 1)
    assert compare_calls(Counter("a"), Counter("aab")) == OverlapCounts(1, 2, 0)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"n": 1, "of": {"a": 1.0}}, {"of": {"a": 1}, "n": 1.0}, True),
        ({"n": 1}, {"n": True}, False),
        ({"n": [1, 2]}, {"n": [2, 1]}, False),
        ({"n": "1"}, {"n": 1}, False),
        ({"n": None}, {}, False),
        ({"n": 1.5}, {"n": 1.5}, True),
    ],
)
def test_arguments_are_compared_as_json_values(first: JSON, second: JSON, same: bool) -> None:  # noqa: FBT001
    texts = [canonical_call({"name": "f", "arguments": each}) for each in (first, second)]

    assert (texts[0] == texts[1]) is same


def test_a_call_that_could_not_be_read_is_not_one_without_arguments() -> None:
    plain = {"name": "f", "arguments": {}}

    assert canonical_call(plain | {"unread": True}) != canonical_call(plain)
    assert canonical_call(plain) != canonical_call({"name": "g", "arguments": {}})


def test_what_was_answered_is_read_from_trials_and_no_failure_is_lost() -> None:
    call = {"name": "f", "arguments": {"n": 1}, "fits": True}
    found = replies_by_request(
        [
            answered(1, call, call | {"fits": False}),
            answered(2, status="failed"),
            answered(3, status="failed", requests=[], category="BAD_REQUEST"),
            answered(4, status="infra", category="TIMEOUT"),
            answered(5, status="skipped"),
            answered(1, call, name="r2"),
        ]
    )

    text = canonical_call(call)
    assert found["r1"] == EndpointReplies((Counter({text: 2}), Counter()), 1, 1, ("TIMEOUT",))
    assert found["r2"] == EndpointReplies((Counter([text]),), 1)
    again = compared(found, found)
    assert again.counts.asked == 5
    assert (again.counts.answered, again.counts.refused) == (3, 1)
    assert (again.counts.errors, again.counts.calls) == ({"TIMEOUT": 1}, 3)


def test_a_drawn_side_that_drops_calls_is_worse_by_about_what_it_drops() -> None:
    draw = random.Random(5)  # noqa: S311 - any numbers will do
    names = [str(number) for number in range(200)]

    def reply(drop: float) -> Calls:
        first = "a" if draw.random() < 0.9 else "b"
        return () if draw.random() < drop else (first,)

    honest, same, bent = (
        side({name: [reply(drop) for _ in range(2)] for name in names}) for drop in (0, 0, 0.3)
    )
    found = {each.name: each for each in agreements("A", {"A": honest, "B": same, "C": bent})}

    good, bad = found["B"], found["C"]
    assert good.verdict == NO_DIFFERENCE
    assert good.calls.value.low <= 0.82 <= good.calls.value.high
    assert good.calls.reference.low <= 0.82 <= good.calls.reference.high
    assert bad.verdict == bad.decision.verdict == bad.calls.verdict == "worse"
    assert bad.recall.low <= 0.7 <= bad.recall.high
    assert (bad.precision.value, bad.fits.verdict) == (1.0, NO_DIFFERENCE)


def test_calls_that_do_not_fit_are_the_fault_of_the_side_that_makes_them() -> None:
    names = [str(number) for number in range(30)]
    found = compared(
        side({name: ["a"] for name in names}),
        side({name: ["A" if name < "2" else "a"] for name in names}),
    )

    assert found.fits.value.value == pytest.approx(18 / 30)
    assert (found.fits.reference.value, found.fits.verdict) == (1.0, "worse")
    assert (found.verdict, found.calls.verdict) == ("worse", "open")


def test_a_side_that_refuses_requests_is_worse_even_if_its_answers_are_right() -> None:
    names = [str(number) for number in range(30)]
    whole = side({name: ["a", "a"] for name in names})
    found = compared(whole, {**whole} | {name: EndpointReplies(refused=2) for name in names[:12]})

    assert (found.requests, found.answered.verdict, found.verdict) == (18, "worse", "worse")
    assert found.answered.value.value == pytest.approx(0.6)
    assert found.calls.verdict == NO_DIFFERENCE


def test_who_calls_where_the_reference_never_does_is_worse() -> None:
    names = [str(number) for number in range(20)]
    found = compared(
        side({name: [(), ()] for name in names}), side({name: ["a", "a"] for name in names})
    )

    assert (found.decision.value.value, found.decision.reference.value) == (0.0, 1.0)
    assert (found.verdict, found.fits.reference, found.recall) == ("worse", UNKNOWN, UNKNOWN)


def test_a_side_that_varies_less_than_the_reference_is_no_worse() -> None:
    names = [str(number) for number in range(60)]
    found = compared(
        side({name: ["a", "a", "b"] for name in names}), side({name: ["a", "a"] for name in names})
    )

    assert (found.calls.verdict, found.verdict) == ("better", "better")


def test_without_a_common_answer_the_verdict_is_open() -> None:
    found = compared(side({"x": ["a", "a"]}), {"x": EndpointReplies(errors=("AUTH",))})

    assert (found.requests, found.verdict, found.calls.value) == (0, "open", UNKNOWN)
    assert found.counts.errors == {"AUTH": 1}
    assert agreements("A", {"A": side({})}) == ()


# Ratios over requests: their intervals, and differences on the same requests


YES, NO, SILENT = RatioTerm(2, 2), RatioTerm(0, 2), RatioTerm(0, 0)
ANY_PART = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(
    lambda pair: RatioTerm(*sorted(pair))
)
ANY_PARTS = st.lists(ANY_PART, max_size=30)


def inside(found: Ratio) -> bool:
    return found.value is None or found.low <= found.value <= found.high


@given(ANY_PARTS)
def test_a_ratio_lies_between_nothing_and_one_and_in_its_interval(parts: list[RatioTerm]) -> None:
    found = pooled_ratio(parts)

    assert 0 <= found.low <= found.high <= 1
    assert inside(found)
    assert found.n == len(parts)
    assert (found.value is None) == (not parts)


@given(ANY_PARTS, st.randoms(use_true_random=False))
def test_the_order_of_requests_does_not_matter(parts: list[RatioTerm], draw: random.Random) -> None:
    shuffled = draw.sample(parts, len(parts))

    assert _rounded(pooled_ratio(shuffled)) == _rounded(pooled_ratio(parts))


@given(st.lists(st.tuples(ANY_PART, ANY_PART), max_size=30))
def test_a_difference_the_other_way_round_is_its_mirror(
    pairs: list[tuple[RatioTerm, RatioTerm]],
) -> None:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    there, back = ratio_difference(first, second), ratio_difference(second, first)

    assert inside(there)
    assert -1 <= there.low <= there.high <= 1
    if there.value is not None and back.value is not None and pairs:
        assert (there.value, there.low, there.high) == pytest.approx(
            (-back.value, -back.high, -back.low), abs=1e-9
        )


def _rounded(found: Ratio) -> tuple[object, ...]:
    value = None if found.value is None else round(found.value, 9)
    return value, round(found.low, 9), round(found.high, 9), found.n


def test_where_nothing_could_disagree_nothing_did() -> None:
    assert pooled_ratio([]) == UNKNOWN
    assert pooled_ratio([SILENT] * 20) == Ratio(1.0, wilson_interval(20, 20)[0], 1.0, 20)


def test_few_requests_count_as_trials_of_a_rate() -> None:
    found = pooled_ratio([YES, YES, NO, SILENT])

    assert found.value == pytest.approx(2 / 3)
    assert (found.low, found.high) == pytest.approx(wilson_interval(2, 3))


def test_a_request_that_adds_much_makes_less_known() -> None:
    even = pooled_ratio([YES, YES, YES, NO])
    uneven = pooled_ratio([RatioTerm(30, 30), YES, YES, NO])

    assert uneven.low < even.low


def test_many_requests_that_agree_are_as_good_as_their_number_and_no_better() -> None:
    found = pooled_ratio([YES] * 40)

    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.907, abs=0.001)


def test_requests_that_are_alike_in_themselves_tell_more_than_those_that_are_not() -> None:
    alike = pooled_ratio([RatioTerm(9, 10)] * 20 + [RatioTerm(8, 10)] * 20)
    apart = pooled_ratio([YES] * 34 + [NO] * 6)

    assert alike.value == apart.value == pytest.approx(0.85)
    assert alike.high - alike.low < apart.high - apart.low


def test_a_loss_in_some_of_many_requests_is_seen_beside_a_side_that_never_fails() -> None:
    found = ratio_difference([YES] * 40, [YES] * 31 + [NO] * 9)

    assert found.value == pytest.approx(-0.225)
    assert found.low < -0.3
    assert -0.12 < found.high < 0


def test_sides_that_never_differ_may_still_differ_elsewhere() -> None:
    found = ratio_difference([YES] * 40, [YES] * 40)

    assert found.value == 0
    assert (found.low, found.high) == pytest.approx((-0.093, 0.093), abs=0.001)


def test_few_requests_decide_nothing_even_if_all_of_them_differ() -> None:
    for requests, decides in ((1, False), (7, False), (8, True)):
        worse = ratio_difference([YES] * requests, [NO] * requests)
        better = ratio_difference([NO] * requests, [YES] * requests)
        assert (worse.high < 0, better.low > 0) == (decides, decides)


def test_nothing_is_known_where_one_side_has_nothing() -> None:
    assert ratio_difference([], []).value is None


def _drawn(draw: random.Random, chance: float, requests: int) -> Sequence[RatioTerm]:
    return [YES if draw.random() < chance else NO for _ in range(requests)]


def test_the_intervals_hold_the_truth_about_as_often_as_they_promise() -> None:
    draw = random.Random(3)  # noqa: S311 - any numbers will do
    held = differs = 0
    for _ in range(300):
        first, second = (_drawn(draw, chance, 60) for chance in (0.9, 0.9))
        found, gap = pooled_ratio(second), ratio_difference(first, second)
        held += found.low <= 0.9 <= found.high
        differs += gap.high < 0 or gap.low > 0

    assert held >= 0.92 * 300
    assert differs <= 0.08 * 300


# The verdict on an endpoint, in one sentence


NAMES = [str(number) for number in range(60)]
WHOLE = side({name: ["a", "a"] for name in NAMES})


def of(other: RepliesByRequest, reference: RepliesByRequest = WHOLE) -> Agreement:
    (found,) = agreements("A", {"A": reference, "B": other})
    return found


@pytest.mark.parametrize(
    ("found", "begin", "parts"),
    [
        (
            of(WHOLE),
            "No difference between B and A was found: B's calls match A's with an F1 of 100%",
            ("100% [93.7, 100] for A itself", "(n = 60 requests)", "cannot be ruled out"),
        ),
        (
            of(side({name: ["A", "A"] for name in NAMES})),
            "B is worse than A: its calls match A's with an F1 of 0.0%",
            (
                "0.0% [0.0, 6.3] of its calls match their schemas",
                "compared with 100% [93.7, 100] for A",
            ),
        ),
        (
            of(side({name: [(), ()] for name in NAMES})),
            "B is worse than A: its decision whether to call matches A's with an F1 of 0.0%",
            ("for A itself",),
        ),
        (
            of({**WHOLE} | {name: EndpointReplies(refused=2) for name in NAMES[:30]}),
            "B is worse than A: it answers 50.0% [37.4, 62.6] of the requests, compared with 100%",
            ("100% [93.7, 100] for A (n = 60 requests).",),
        ),
        (
            of(WHOLE, side({name: ["a", "a", "b"] for name in NAMES})),
            "B is no worse than A: B's calls match A's with an F1 of 66.7%",
            ("compared with 33.3%", "for A itself"),
        ),
        (
            of(side({"1": ["a"]}), side({"1": ["a"]})),
            "Open: B's calls match A's with an F1 of 100%",
            ("(n = 1 request), but one trial does not show how well A agrees", "-n 2"),
        ),
        (
            of(side({"1": ["a", "a"]}), side({"1": ["a", "a"]})),
            "Open: B's calls match A's with an F1 of 100%",
            ("(n = 1 request), but a verdict needs at least 8 requests",),
        ),
        (
            of(*[side({name: [(), ()] for name in NAMES})] * 2),
            "Open: neither B nor A made a call (n = 60 requests).",
            (),
        ),
        (of({}), "Open: no request was answered by both B and A.", ()),
    ],
)
def test_the_sentence_says_what_was_seen_and_what_it_rests_on(
    found: Agreement, begin: str, parts: tuple[str, ...]
) -> None:
    sentence = agreement_sentence(found)

    assert sentence.startswith(begin)
    assert all(part in sentence for part in parts), sentence


def test_figures_are_written_with_their_intervals() -> None:
    assert format_ratio(Ratio(0.8123, 0.7, 1.0, 9)) == "81.2% [70.0, 100]"
    assert format_difference(Ratio(-0.028, -1.0, 0.025, 9)) == "-2.8 [-100, +2.5]"
    assert (format_ratio(UNKNOWN), format_difference(UNKNOWN)) == ("unknown", "")
