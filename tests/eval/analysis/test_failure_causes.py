"""Why runs failed: by expectation, and in a plain sentence where there was none."""

import random
from typing import Any

import msgspec
import pytest

from surecall.eval.analysis.classification import MEANINGS
from surecall.eval.analysis.failure_causes import (
    MAX_RUNS,
    MAX_TEXTS,
    Cause,
    CauseCount,
    CauseTally,
    causes_of,
    count_causes,
    count_missed_checks,
    main_cause_sentence,
)
from surecall.eval.storage.trial import CONTROL, Cell, Key, Miss, Score, Trial
from tests.support.trials import trial

DONE = Miss('the answer is "Done."', '"Done."', '"Hm."', turn=2)
BAR = Miss('draft.foo is "bar"', '"bar"', '"baz"', turn=1, call_id="c")


def failed(*misses: Miss, category: str = "ASSERTION_FAILED", **fields: Any) -> Trial:
    return trial("failed", score=Score(misses=misses), category=category, **fields)


def test_expectations_that_were_not_met_are_the_causes() -> None:
    assert causes_of(failed(BAR, DONE)) == (
        Cause(BAR.check, '"bar"', '"baz"', 1, "c", "ASSERTION_FAILED"),
        Cause(DONE.check, '"Done."', '"Hm."', 2, "", "ASSERTION_FAILED"),
    )


def test_a_run_that_ended_otherwise_has_a_sentence_and_what_it_did_wrong() -> None:
    found = failed(
        DONE,
        BAR,
        category="MAX_TURNS_EXCEEDED",
        error="MAX_TURNS_EXCEEDED: no final answer after 9 turns",
        turn=8,
    )
    first, second = causes_of(found)
    assert first.check == "No final answer within max_turns turns."
    assert (first.expected, first.got) == ("", "no final answer after 9 turns")
    assert (first.turn, first.code, first.infra) == (8, "MAX_TURNS_EXCEEDED", False)
    assert (second.check, second.code) == (BAR.check, "MAX_TURNS_EXCEEDED")


def test_an_answer_that_may_come_without_a_call_is_judged_by_what_was_expected() -> None:
    (judged,) = causes_of(failed(DONE, category="NO_TOOL_CALLS"))
    assert judged.check == DONE.check
    (stopped,) = causes_of(failed(DONE, category="NO_TOOL_CALLS", turn=3))
    assert stopped.check == MEANINGS["NO_TOOL_CALLS"]
    (older,) = causes_of(failed(Miss("not Done."), category="NO_TOOL_CALLS"))
    assert older.check == MEANINGS["NO_TOOL_CALLS"]


def test_older_records_and_unknown_codes_have_causes_too() -> None:
    (older,) = causes_of(failed(Miss("not Done.")))
    assert (older.check, older.expected, older.turn) == ("not Done.", "", None)
    (nothing,) = causes_of(failed())
    assert nothing.check == MEANINGS["ASSERTION_FAILED"]
    (unknown,) = causes_of(failed(category="HTTP_418", error=f"HTTP_418: {'tea' * 99}"))
    assert unknown.check == "The run ended with HTTP_418."
    assert unknown.got.startswith("teatea")
    assert unknown.got.endswith("…")


def test_what_passed_has_none_and_what_was_spoiled_says_so() -> None:
    assert causes_of(trial()) == causes_of(trial("skipped")) == ()
    (spoiled,) = causes_of(
        trial(
            "infra",
            category="RATE_LIMIT",
            error="RATE_LIMIT: slow down",
            score=Score(misses=(BAR,)),
        )
    )
    assert (spoiled.check, spoiled.got, spoiled.infra) == (
        "429: too many requests.",
        "slow down",
        True,
    )


def key(number: int, scenario: str = "one", model: str = "m1") -> Key:
    return Key(Cell(model), scenario, number)


def cause(check: str = "c", got: str = "g", expected: str = "e", code: str = "X") -> Cause:
    return Cause(check, expected, got, code=code)


def test_causes_are_counted_by_their_words_once_in_a_run() -> None:
    found = [
        (key(1), [cause(got="a"), cause(got="b"), cause("d")]),
        (key(2, "two"), [cause(got="b", code="Y")]),
        (key(3, "two", "m2"), [cause(got="b", code="Y", expected="")]),
        (key(4), []),
        (key(5), [Cause("c", code="DOWN", infra=True)]),
    ]
    first, second, spoiled = count_causes([CauseTally(found)])

    assert first == CauseCount(
        check="c",
        expected={"e": 2},
        code="Y",
        infra=False,
        got={"b": 3, "a": 1},
        scenarios={"two": 2, "one": 1},
        models={"m1": 2, "m2": 1},
        times=3,
        runs=(key(1), key(2, "two"), key(3, "two", "m2")),
    )
    assert (first.times, second.check, second.times) == (3, "d", 1)
    assert (first.heading, spoiled.heading) == ("Not met: c", "c")
    assert (spoiled.infra, spoiled.code, spoiled.expected, spoiled.got) == (True, "DOWN", {}, {})


def test_only_the_most_frequent_texts_are_kept_and_the_first_runs() -> None:
    (found,) = count_causes([CauseTally((key(at), [cause(got=f"g{at}")]) for at in range(30))])
    assert (found.times, len(found.got)) == (30, MAX_TEXTS)
    assert found.runs == tuple(map(key, range(MAX_RUNS)))
    assert (found.further_got, found.further_expected) == (30 - MAX_TEXTS, 0)


def test_the_counts_do_not_depend_on_the_order_of_the_runs() -> None:
    chance = random.Random(5)  # noqa: S311 - any order will do
    found = [(key(at), [cause(chance.choice("ab"), chance.choice("xyz"))]) for at in range(50)]
    counted = count_causes([CauseTally(found)])
    chance.shuffle(found)
    assert count_causes([CauseTally(found)]) == counted
    assert msgspec.json.decode(msgspec.json.encode(counted), type=tuple[CauseCount, ...]) == counted


def test_checks_are_expectations_in_runs_of_some_scenarios() -> None:
    found = [
        (key(1), [cause()]),
        (key(2, CONTROL), [cause(), cause("chat")]),
        (key(3), [cause("a sentence", expected="")]),
    ]
    counted = count_causes(CauseTally([each]) for each in found)
    assert count_missed_checks(counted, {key(1).scenario}) == {"c": 1, "chat": 0}


@pytest.mark.parametrize(
    ("checks", "categories", "note"),
    [
        (
            {DONE.check: 4},
            {"ASSERTION_FAILED": 4},
            'Most frequent unmet expectation: the answer is "Done." (4 of 4).',
        ),
        (
            {},
            {"ASSERTION_FAILED": 3},
            "Main cause: the conversation ended with a wrong result (3 of 4).",
        ),
        ({DONE.check: 2}, {"TIMEOUT": 3}, "Main cause: timeouts (3 of 4)."),
        ({DONE.check: 2}, {"X": 2}, ""),
        ({}, {}, ""),
    ],
)
def test_what_most_runs_have_in_common_is_told_in_words(
    checks: dict[str, int], categories: dict[str, int], note: str
) -> None:
    assert "".join(main_cause_sentence(checks, categories, 4)) == note


def test_what_a_call_did_comes_before_what_an_answer_lacks() -> None:
    lacks = Miss('the answer contains "a"', '"a"', '"b"', turn=2)
    runs = [(failed().key, causes_of(failed(lacks, BAR)))]

    assert [one.check for one in count_causes([CauseTally(runs)])] == [BAR.check, lacks.check]
    checks = count_missed_checks(count_causes([CauseTally(runs)]), [failed().key.scenario])
    assert list(main_cause_sentence(checks, {}, 1)) == [
        f"Most frequent unmet expectation: {BAR.check} (1 of 1)."
    ]
