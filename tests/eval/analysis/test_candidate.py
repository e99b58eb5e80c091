"""The two rules: what was seen, and what is known. Every state of the second has one name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.candidate import BAR, Candidate, decide, more_trials
from surecall.eval.analysis.stats import Rate, Stopping, always_valid
from tests.eval.analysis.test_recommend import advise, candidate

LOOKING = Stopping(sequential=True, most=100)


@pytest.mark.parametrize(
    ("found", "verdict", "decision"),
    [
        (candidate(40), "Yes", "use"),
        (candidate(39), "Yes", "more trials"),
        (candidate(97, 100), "Yes", "use"),
        (candidate(96, 100), "Conditional", "use"),
        (candidate(38), "Conditional", "more trials"),
        (candidate(36), "Conditional", "too close"),
        (candidate(89, 100), "No", "more trials"),
        (candidate(30), "No", "avoid"),
        (candidate(3, 3), "Yes", "more trials"),
        (candidate(0, 0, infra=4), "Unknown", "not measured"),
        (candidate(0, 0, skipped=1), "No", "avoid"),
    ],
)
def test_the_two_rules(found: Candidate, verdict: str, decision: str) -> None:
    advice = advise(found)

    assert (advice.verdict, advice.decision) == (verdict, decision)


def test_the_bar_moves_the_interval_rule_only() -> None:
    strict = advise(candidate(40), bar=0.95)

    assert (strict.verdict, strict.decision, strict.more_trials) == ("Yes", "more trials", 33)
    assert decide(candidate(40), 0.95) == "more trials"


@pytest.mark.parametrize(
    ("found", "more"),
    [
        (candidate(40), 0),
        (candidate(39), 22),
        (candidate(36), None),
        (candidate(0, 0, skipped=4), 0),
        (candidate(0, 0, infra=4), None),
    ],
)
def test_it_says_how_many_more_trials_would_decide(found: Candidate, more: int | None) -> None:
    assert advise(found).more_trials == more


@pytest.mark.parametrize(
    ("found", "decision"),
    [
        # By one look at 40 of 40 or at 97 of 100 it would be decided.
        (candidate(40, stopping=LOOKING), "more trials"),
        (candidate(50, 50, stopping=LOOKING), "use"),
        (candidate(97, 100, stopping=LOOKING), "more trials"),
        (candidate(30, stopping=LOOKING), "more trials"),
        (candidate(20, stopping=LOOKING), "avoid"),
    ],
)
def test_who_looks_many_times_must_see_more(found: Candidate, decision: str) -> None:
    assert decide(found) == decision
    assert found.bounds[0] <= always_valid(found.tool.k, found.tool.n)[0]


def test_at_the_limit_it_is_too_close_to_call() -> None:
    before = candidate(460, 500, stopping=LOOKING)
    there = candidate(460, 500, stopping=LOOKING, at_limit=True)

    assert decide(before) == "more trials"
    assert (more_trials(before) or 0) > 0
    assert decide(there) == "too close"
    assert more_trials(there) is None
    assert decide(candidate(500, 500, stopping=LOOKING, at_limit=True)) == "use"
    assert more_trials(candidate(500, 500, stopping=LOOKING, at_limit=True)) == 0


@given(
    st.integers(0, 300),
    st.integers(0, 300),
    st.sampled_from([(Stopping(), False), (LOOKING, False), (LOOKING, True)]),
    st.integers(0, 2),
    st.sampled_from([0.5, BAR, 0.97]),
)
def test_each_state_means_one_thing(
    k: int, missed: int, limits: tuple[Stopping, bool], skipped: int, bar: float
) -> None:
    stopping, at_limit = limits
    found = candidate(k, k + missed, stopping=stopping, at_limit=at_limit, skipped=skipped)
    decision, more = decide(found, bar), more_trials(found, bar)

    assert (decision in {"use", "avoid"}) == (more == 0)
    assert (decision == "more trials") == (more is not None and more > 0)
    assert (decision in {"too close", "not measured"}) == (more is None)
    assert (decision == "not measured") == (not found.tool.n and not skipped)


def test_what_would_decide_does_decide() -> None:
    found = candidate(96, 100, stopping=LOOKING, parts=(Rate(48, 50), Rate(48, 50)))
    more = more_trials(found) or 0
    grown = candidate(96 + round(0.96 * more), 100 + more, stopping=LOOKING)

    assert more > 0
    assert decide(grown) == "use"
