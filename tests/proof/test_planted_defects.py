"""Every claim can fail: a planted defect is reported.

`make prove` shows that the claims hold. Here each row of a table plants one defect, in surecall or
in what a claim observed, and names a part of the report that must follow.
"""

from pathlib import Path

import pytest

import proof.__main__ as command
from proof.catalogue import CLAIMS
from proof.claims import Claim, Outcome
from tests.proof import loop_defects, proxy_defects
from tests.proof.planting import DEFECTS, Defect

# Importing them fills the table.
TABLES = (loop_defects, proxy_defects)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_reported(
    defect: Defect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    problems = [*defect.plant(monkeypatch, tmp_path)]

    assert any(defect.reported in problem for problem in problems), problems[:5]


def test_every_claim_has_a_planted_defect() -> None:
    planted = {row.values[0].claim for row in DEFECTS}

    assert sorted({claim.id for claim in CLAIMS} ^ planted) == []


@pytest.mark.parametrize(
    "outcome",
    [Outcome("nothing was tried", 0), Outcome("texts", 300, ("seed 7 raised",))],
    ids=["no cases", "a failure"],
)
def test_a_claim_without_cases_or_with_a_failure_does_not_hold(outcome: Outcome) -> None:
    assert not outcome.holds
    assert outcome.bound == "-"


def test_an_attempt_that_raises_is_a_claim_that_does_not_hold() -> None:
    def attempt(_size: int, _seed: int) -> Outcome:
        raise RuntimeError("no such thing")

    row = command.tried(Claim("D0", "it works", attempt, (1, 1, 1)), "ci", 7)

    assert not row.outcome.holds
    assert row.outcome.failures == ("RuntimeError: no such thing",)


def test_a_claim_that_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["D99"]) == 2
    assert "there is no claim D99" in capsys.readouterr().err
