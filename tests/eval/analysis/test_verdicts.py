"""What decisions are called."""

from typing import get_args

from surecall.eval.analysis.verdicts import VERDICTS, Decision


def test_every_decision_has_a_sign_and_a_word_of_its_own() -> None:
    assert set(VERDICTS) == set(get_args(Decision))
    assert len(set(VERDICTS.values())) == len(VERDICTS)
    assert all(len(sign) == 1 and word for sign, word in VERDICTS.values())
