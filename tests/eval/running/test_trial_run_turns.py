"""Which turn of a run decided, as far as no expectation did."""

from surecall.testing import failure, says
from tests.eval.running.test_trial_run import GET, GOOD, PATCH, scripted


def test_a_record_knows_the_turn_in_which_a_run_ended_without_an_answer() -> None:
    early = says("Done.")
    one = scripted(*[early] * 9)
    assert (one.category, one.turn) == ("NO_TOOL_CALLS", len(one.requests) - 1)
    judged = scripted(GET, PATCH, says("All set."))
    assert (judged.category, judged.turn) == ("ASSERTION_FAILED", None)
    assert [miss.turn for miss in judged.score.misses] == [2]
    refused = scripted(GET, failure(400, "no"))
    assert (refused.status, refused.turn, scripted(*GOOD).turn) == ("failed", 1, None)
