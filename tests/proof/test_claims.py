"""A claim holds if something was tried and nothing broke it."""

from proof.claims import TIERS, Claim, Outcome, Row, gathered
from proof.table import markdown


def _outcome(*failures: str, cases: int = 300, every: bool = False) -> Outcome:
    return Outcome("texts", cases, failures, every)


def test_a_claim_without_cases_does_not_hold() -> None:
    assert not _outcome(cases=0).holds


def test_a_claim_with_a_failure_does_not_hold_and_has_no_bound() -> None:
    broken = _outcome("seed 7 raised")
    assert not broken.holds
    assert broken.bound == "-"


def test_the_bound_is_the_rule_of_three_unless_every_case_was_tried() -> None:
    assert _outcome().bound == "≤ 1.0e-02"
    assert _outcome(every=True).bound == "every case"
    assert Outcome("mistakes", 20, is_score=True).bound == "-"


def test_each_tier_has_its_size() -> None:
    claim = Claim("D0", "it works", lambda size, _: Outcome("it", size), (1, 20, 300))
    assert [claim.size(tier) for tier in TIERS] == [1, 20, 300]


def test_of_many_failures_the_first_are_shown_and_the_others_counted() -> None:
    assert gathered(["a", "b"]) == ("a", "b")
    assert gathered([str(number) for number in range(9)]) == ("0", "1", "2", "3", "4", "and 4 more")


def test_a_pipe_and_a_line_break_cannot_break_the_table() -> None:
    row = Row("D0", "a|b\nc", 1, 0.1, _outcome("x\n|y"))
    lines = markdown([row], "ci", "").splitlines()
    assert [line for line in lines if line.startswith("| D0")] == [
        "| D0 a\\|b c | texts | 300 | 1 | - | **does not hold** |"
    ]
    assert "- x \\|y" in lines
