"""`python -m proof` tries claims in processes of their own and tells what came of it."""

import pytest

from proof import __main__ as command
from proof.claims import Claim, Outcome


def _broken(_size: int, _seed: int) -> Outcome:
    raise RuntimeError("no such thing")


def test_an_attempt_that_raises_is_a_claim_that_does_not_hold() -> None:
    row = command.tried(Claim("D0", "it works", _broken, (1, 1, 1)), "ci", 7)
    assert not row.outcome.holds
    assert row.outcome.failures == ("RuntimeError: no such thing",)


def test_size_and_seed_reach_the_attempt() -> None:
    claim = Claim("D0", "it works", lambda size, seed: Outcome(f"seed {seed}", size), (5, 6, 7))
    row = command.tried(claim, "hour", 42)
    assert (row.seed, row.outcome.cases, row.outcome.ran) == (42, 6, "seed 42")


def test_a_claim_that_nobody_made_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["D99"]) == 2
    assert "there is no claim D99" in capsys.readouterr().err
