"""The verdict of a whole evaluation, in one sentence."""

import pytest

from surecall.eval.analysis.candidate import Candidate
from surecall.eval.analysis.recommend import recommend
from surecall.eval.analysis.stats import Rate
from surecall.eval.analysis.verdict_sentence import grouped, verdict_sentence


def found(model: str, k: int, n: int = 40, p95_ms: int = 0) -> Candidate:
    return Candidate(model=model, profile="default", tool=Rate(k, n), p95_ms=p95_ms)


GOOD, BAD, CLOSE = found("a", 40), found("b", 10), found("c", 37)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((), ""),
        ((GOOD,), "Use a."),
        ((BAD,), "Avoid b."),
        ((CLOSE,), "c needs more trials."),
        ((BAD, CLOSE, GOOD), "Use a. Avoid b. c needs more trials."),
        ((CLOSE, found("d", 37)), "c and d need more trials."),
        ((CLOSE, found("d", 36)), "c needs more trials. d is too close to call."),
        ((found("d", 36), found("e", 36)), "d and e are too close to call."),
        ((found("d", 0, 0), GOOD), "Use a. d was not measured."),
        ((found("d", 0, 0), found("e", 0, 0)), "d and e were not measured."),
        ([found(name, 40) for name in "abcde"], "Use a, b, c, d and e."),
        ([found(name, 40) for name in "abcdef"], "Use a, b, c, d and 2 more."),
    ],
)
def test_it_names_each_group(rows: list[Candidate], said: str) -> None:
    assert verdict_sentence(recommend(rows)) == said


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((GOOD,), "Simulated: a is handled."),
        ((GOOD, found("d", 40), BAD), "Simulated: a and d are handled. b is not handled."),
        ((CLOSE,), "Simulated: c needs more trials."),
    ],
)
def test_a_simulated_model_is_handled_or_not_and_never_used(
    rows: tuple[Candidate, ...], said: str
) -> None:
    advice = recommend(rows, simulated={name: name for name in "abcd"})

    assert verdict_sentence(advice) == said
    assert not any(each.snippet for each in advice)
    assert all(each.label.startswith("Simulated: ") for each in advice)


def test_groups_are_best_first() -> None:
    rows = (found("slow", 40, p95_ms=9), found("fast", 40, p95_ms=1), found("more", 98, 100))

    assert [each.model for each in grouped(recommend(rows))["use"]] == ["fast", "slow", "more"]


def test_every_row_is_in_one_group() -> None:
    groups = grouped(recommend((found("none", 0, 0), found("even", 36), CLOSE, BAD, GOOD)))

    assert {decision: [each.model for each in rows] for decision, rows in groups.items()} == {
        "use": ["a"],
        "avoid": ["b"],
        "more trials": ["c"],
        "too close": ["even"],
        "not measured": ["none"],
    }
