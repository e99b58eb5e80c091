"""Tests of `surecall.eval.storage.trial`."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.storage.trial import (
    BehaviorMetrics,
    Cell,
    CompletedTrials,
    IntegerRanges,
    Key,
    Miss,
    Score,
    SideEffects,
    Trial,
    Truth,
    parse_trial,
)
from tests.support.trials import trial

# The record of a trial


def test_a_record_that_knows_neither_is_read_as_none() -> None:
    old = msgspec.to_builtins(trial(requests=[{"turn": 0, "latency_ms": 1, "attempt": 1}]))
    del old["false_finals"], old["requests"][0]["build"]
    del old["truth"], old["after_no"], old["score"]["effects"], old["score"]["declined"]
    found = msgspec.convert(old, Trial)

    assert (found.false_finals, found.builds) == (0, ())
    assert (found.truth, found.score.effects, found.score.declined) == ("", None, None)
    assert BehaviorMetrics.of(found) == BehaviorMetrics()


def judged(truth: Truth = "right", effects: SideEffects | None = None, **rest: Any) -> Trial:
    status = rest.pop("status", "passed" if truth == "right" else "failed")
    score = Score(effects=effects or SideEffects())
    return trial(status=status, score=score, truth=truth, **rest)


def test_conduct_counts_runs_effects_and_what_they_took() -> None:
    served = [{"turn": 0, "latency_ms": 1, "attempt": 1}]
    runs = [
        judged(requests=served * 3, usage={"total_tokens": 30}),
        judged("silent", SideEffects(2, 1, 0)),
        judged("false_success", SideEffects(4, 1, 2), requests=served),
        judged("open", SideEffects(1, 0, 1), after_no=2),
        judged("", SideEffects(9, 9, 9), status="infra"),
    ]
    total = sum(map(BehaviorMetrics.of, runs), BehaviorMetrics())

    assert total == BehaviorMetrics(
        runs=4,
        right=1,
        silent_wrong=2,
        false_success=1,
        wrong_effects=2,
        repeated_effects=3,
        runs_with_such_effects=3,
        requests=4,
        tokens=30,
        requests_after_no=2,
    )
    assert (total.requests_per_run, total.tokens_per_run) == (1.0, 7.5)
    assert (BehaviorMetrics().requests_per_run, BehaviorMetrics().tokens_per_run) == (None, None)


def test_a_miss_is_told_in_a_sentence() -> None:
    miss = Miss('the answer is "Done."', '"Done."', '"All set."', turn=2)
    silent = Miss("ping() succeeds", "a call that succeeds")

    assert Score(misses=(miss, silent, Miss("the mail was sent twice"))).reasons == (
        'expected that the answer is "Done.", got "All set."',
        "expected that ping() succeeds: a call that succeeds, got nothing",
        "the mail was sent twice",
    )


def test_a_record_is_read_as_it_was_written() -> None:
    miss = Miss("the state is 1", "1", "2", turn=0, call_id="c")
    whole = trial("failed", score=Score(misses=(miss,)), draft={"reasons": []})

    assert parse_trial(msgspec.json.encode(whole).decode()) == whole
    assert not whole.score.ok


@pytest.mark.parametrize("reasons", [[], ["not Done.", "not bar"]])
def test_the_sentences_of_an_older_record_become_misses(reasons: list[str]) -> None:
    plain = msgspec.to_builtins(trial("failed"))
    del plain["score"]["misses"]
    plain["score"]["reasons"] = reasons
    found = parse_trial(msgspec.json.encode(plain).decode())

    assert found.score.misses == tuple(map(Miss, reasons))
    assert (found.score.reasons, found.score.ok) == (tuple(reasons), not reasons)


def test_a_record_with_other_things_in_place_of_a_score_is_refused() -> None:
    plain = msgspec.to_builtins(trial("failed")) | {"score": {"reasons": [1]}}

    with pytest.raises(msgspec.ValidationError):
        parse_trial(msgspec.json.encode(plain).decode())


# The keys of recorded trials as ranges: in every respect the set of keys that was put in


CELLS = (Cell("a"), Cell("a", "default", "raw"), Cell("b"))
KEYS = st.builds(
    Key, st.sampled_from(CELLS), st.sampled_from(["x", "y"]), st.integers(min_value=1, max_value=12)
)


@given(st.lists(KEYS), KEYS)
def test_what_was_added_is_in_it_and_nothing_else(keys: list[Key], other: Key) -> None:
    done = CompletedTrials(keys)

    assert all(key in done for key in keys)
    assert (other in done) == (other in set(keys))
    assert len(done) == len(set(keys))


@given(st.lists(KEYS), st.integers(0, 14), st.integers(0, 14))
def test_a_stretch_of_numbers_is_counted_as_one_by_one(
    keys: list[Key], first: int, last: int
) -> None:
    done = CompletedTrials(keys)
    for cell in CELLS:
        wanted = [Key(cell, "x", trial) for trial in range(first, last + 1)]
        if first <= last:
            assert done.count_between((cell, "x"), first, last) == sum(
                key in set(keys) for key in wanted
            )


@given(st.lists(KEYS), st.lists(KEYS))
def test_two_are_equal_if_they_hold_the_same_in_whatever_order(
    keys: list[Key], others: list[Key]
) -> None:
    assert CompletedTrials(keys) == CompletedTrials(reversed(keys))
    assert (CompletedTrials(keys) == CompletedTrials(others)) == (set(keys) == set(others))


def test_it_is_equal_to_nothing_of_another_kind() -> None:
    key = Key(Cell("a"), "x", 1)
    assert CompletedTrials([key]) != {key}
    assert CompletedTrials([key])._ranges[key.cell, "x"] != [1]


def test_trials_in_order_are_one_range_however_many() -> None:
    done = CompletedTrials(Key(Cell("a"), "x", trial) for trial in range(1, 10_001))

    (ranges,) = done._ranges.values()
    assert (list(ranges.firsts), list(ranges.lasts)) == ([1], [10_000])


def test_very_large_numbers_are_numbers_like_others() -> None:
    largest = Key(Cell("a"), "x", 2**63 - 1)

    assert largest in CompletedTrials([largest])
    assert len(CompletedTrials([largest, Key(Cell("a"), "x", 1)])) == 2


# Whole numbers as ranges: in every respect the set of numbers that was put in


NUMBERS = st.lists(st.integers(1, 15))


@given(NUMBERS)
def test_it_holds_what_was_added_in_order_and_once(numbers: list[int]) -> None:
    found = IntegerRanges(numbers)

    assert list(found) == sorted(set(numbers))
    assert len(found) == len(set(numbers))
    assert [number in found for number in range(17)] == [n in numbers for n in range(17)]


@given(NUMBERS, NUMBERS)
def test_what_two_have_in_common_is_counted(first: list[int], second: list[int]) -> None:
    assert IntegerRanges(first).count_common(IntegerRanges(second)) == len(set(first) & set(second))


@given(NUMBERS, st.integers(-1, 17))
def test_what_is_not_larger_is_counted(numbers: list[int], last: int) -> None:
    assert IntegerRanges(numbers).count_up_to(last) == sum(
        number <= last for number in set(numbers)
    )


@given(NUMBERS, NUMBERS)
def test_two_are_equal_if_they_hold_the_same(first: list[int], second: list[int]) -> None:
    assert (IntegerRanges(first) == IntegerRanges(second)) == (set(first) == set(second))
    assert IntegerRanges(first) != first


def test_numbers_in_a_row_are_one_range_however_many() -> None:
    found = IntegerRanges(range(1, 10_001))

    assert (list(found.firsts), list(found.lasts)) == ([1], [10_000])
