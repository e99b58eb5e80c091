"""What changed between two columns of the same conversations."""

from surecall.eval.analysis.gain import change_sentence, gains_of, points
from surecall.eval.analysis.outcomes import Outcomes
from surecall.eval.analysis.paired import Comparisons, compare_runs, compare_strategies
from surecall.eval.storage.trial import Cell, Trial
from tests.support.trials import series

RAW, PRODUCTION, GUIDED = (Cell("m", "default", each) for each in ("raw", "production", "guided"))


def compared(*trials: list[Trial]) -> Comparisons:
    return compare_strategies(Outcomes(each for some in trials for each in some))


def test_the_first_is_compared_with_the_last() -> None:
    found = compared(
        series("x" * 12, cell=RAW),
        series("x" * 6 + "." * 6, cell=PRODUCTION),
        series("." * 12, cell=GUIDED),
    )
    gained = gains_of(found)["m", "default"]

    assert (gained.first, gained.second, gained.fixed) == ("raw", "guided", 12)
    assert change_sentence(gained) == (
        "From raw to guided: 0 of 12 runs passed, then 12; +100 points (12 fixed, 0 broken); "
        "this is more than chance."
    )


def test_what_may_be_chance_is_called_so() -> None:
    found = compared(series("x..", cell=RAW), series("..x", cell=PRODUCTION))

    said = change_sentence(gains_of(found)["m", "default"])
    assert said.endswith("+0 points (1 fixed, 1 broken); this may be chance.")


def test_where_every_conversation_ended_the_same_there_is_no_difference() -> None:
    found = compared(series("x..", cell=RAW), series("x..", cell=PRODUCTION))

    assert change_sentence(gains_of(found)["m", "default"]) == (
        "From raw to production: 2 of 3 runs passed, then 2; no difference."
    )


def test_one_strategy_gains_nothing() -> None:
    assert gains_of(compared(series("..", cell=RAW))) == {}


def test_two_runs_are_named_with_the_strategy() -> None:
    (row,) = compare_runs(
        Outcomes(series("." * 8, cell=RAW)), Outcomes(series("x" * 8, cell=RAW)), ("A", "B")
    ).overall

    assert points(row) == "-100 points"
    assert change_sentence(row).startswith("From A to B with raw: 8 of 8 runs passed, then 0; ")
