"""One model behind several endpoints: what they share, beside what the first does with itself."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.agreement import (
    UNSEEN,
    Agreement,
    Answers,
    Side,
    Tally,
    agreements,
    call_text,
    decision,
    same_calls,
    side_of,
)
from surecall.eval.analysis.ratios import UNKNOWN
from surecall.eval.storage.trial import Cell, Trial
from surecall.values.types import JSON
from tests.support.trials import trial

Calls = Sequence[str]
REPLIES = st.lists(st.lists(st.sampled_from("ab"), max_size=3).map(tuple), max_size=4)
SIDES = st.dictionaries(st.sampled_from("pqrstuvwxyz"), REPLIES, max_size=11)


def side(replies: Mapping[str, Sequence[Calls]]) -> Side:
    """Make a side of the names of its calls; those in capitals do not fit."""
    return {
        name: Answers(
            tuple(Counter(calls) for calls in each),
            sum(call.islower() for calls in each for call in calls),
        )
        for name, each in replies.items()
    }


def compared(reference: Side, other: Side) -> Agreement:
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

    assert found.verdict in {"open", UNSEEN, "better", "worse"}
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

    assert decision(one, Counter("b")) == Tally(both=1)
    assert decision(one, none) == Tally(lacking=1)
    assert decision(none, one) == Tally(extra=1)
    assert decision(none, none) == Tally()


def test_calls_are_the_same_in_any_order_but_not_more_often() -> None:
    assert same_calls(Counter("ab"), Counter("ba")) == Tally(both=2)
    assert same_calls(Counter("aa"), Counter("ab")) == Tally(1, 1, 1)
    assert same_calls(Counter("a"), Counter("aab")) == Tally(1, 2, 0)


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
    texts = [call_text({"name": "f", "arguments": each}) for each in (first, second)]

    assert (texts[0] == texts[1]) is same


def test_a_call_that_could_not_be_read_is_not_one_without_arguments() -> None:
    plain = {"name": "f", "arguments": {}}

    assert call_text(plain | {"unread": True}) != call_text(plain)
    assert call_text(plain) != call_text({"name": "g", "arguments": {}})


def test_what_was_answered_is_read_from_trials_and_no_failure_is_lost() -> None:
    call = {"name": "f", "arguments": {"n": 1}, "fits": True}
    found = side_of(
        [
            answered(1, call, call | {"fits": False}),
            answered(2, status="failed"),
            answered(3, status="failed", requests=[], category="BAD_REQUEST"),
            answered(4, status="infra", category="TIMEOUT"),
            answered(5, status="skipped"),
            answered(1, call, name="r2"),
        ]
    )

    text = call_text(call)
    assert found["r1"] == Answers((Counter({text: 2}), Counter()), 1, 1, ("TIMEOUT",))
    assert found["r2"] == Answers((Counter([text]),), 1)
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
    assert good.verdict == UNSEEN
    assert good.calls.value.low <= 0.82 <= good.calls.value.high
    assert good.calls.reference.low <= 0.82 <= good.calls.reference.high
    assert bad.verdict == bad.decision.verdict == bad.calls.verdict == "worse"
    assert bad.recall.low <= 0.7 <= bad.recall.high
    assert (bad.precision.value, bad.fits.verdict) == (1.0, UNSEEN)


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
    found = compared(whole, {**whole} | {name: Answers(refused=2) for name in names[:12]})

    assert (found.requests, found.answered.verdict, found.verdict) == (18, "worse", "worse")
    assert found.answered.value.value == pytest.approx(0.6)
    assert found.calls.verdict == UNSEEN


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
    found = compared(side({"x": ["a", "a"]}), {"x": Answers(errors=("AUTH",))})

    assert (found.requests, found.verdict, found.calls.value) == (0, "open", UNKNOWN)
    assert found.counts.errors == {"AUTH": 1}
    assert agreements("A", {"A": side({})}) == ()
