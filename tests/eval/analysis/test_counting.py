"""What the trials of one scenario in one cell add up to; `test_summary` tests the rest."""

from surecall.eval.analysis.causes import count_causes
from surecall.eval.analysis.counting import Count
from surecall.eval.analysis.stats import Rate
from surecall.eval.storage.trial import Miss, Score
from tests.support.trials import trial


def test_causes_are_kept_with_the_run_that_they_are_of() -> None:
    count = Count()
    missed = trial("failed", 2, score=Score(misses=(Miss("the state is 1", "1", "2"),)))
    for one in (trial(), missed, trial("skipped", 3)):
        count.add(one)

    (cause,) = count_causes([count.causes])
    assert (cause.runs, cause.times, cause.check) == ((missed.key,), 1, "the state is 1")


def test_what_was_spoiled_is_in_the_end_to_end_rate_alone() -> None:
    count = Count()
    for one in (trial(), trial("infra", 2), trial("failed", 3)):
        count.add(one)

    assert (count.judged, count.end_to_end) == (Rate(1, 2), Rate(1, 3))
    assert (count.first_attempt, count.part("state")) == (Rate(1, 2), Rate(0, 0))
