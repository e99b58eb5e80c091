"""What decisions are called."""

from typing import get_args

from surecall.eval.analysis.verdicts import SIMULATED_VERDICTS, VERDICTS, Decision, verdicts


def test_every_decision_has_a_sign_and_a_word_of_its_own() -> None:
    assert set(VERDICTS) == set(get_args(Decision))
    assert len(set(VERDICTS.values())) == len(VERDICTS)
    assert all(len(sign) == 1 and word for sign, word in VERDICTS.values())


def test_nothing_simulated_is_called_usable() -> None:
    words = {word for _, word in SIMULATED_VERDICTS.values()}

    assert set(SIMULATED_VERDICTS) == set(get_args(Decision))
    assert len(words) == len(SIMULATED_VERDICTS)
    assert not words & {"use", "avoid"}
    assert verdicts(simulated=True) is SIMULATED_VERDICTS
    assert verdicts(simulated=False) is VERDICTS
