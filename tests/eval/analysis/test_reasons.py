"""Why: sentences that come from the figures alone."""

import pytest

from surecall.eval.analysis.candidate import Candidate
from surecall.eval.analysis.reasons import is_brittle
from surecall.eval.analysis.stats import Rate, Stopping
from tests.eval.analysis.test_recommend import ADVICE, advise, candidate


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (candidate(36, misses={"a": 4}), "Every miss was in a."),
        (candidate(39, misses={"a": 1}), "The one miss was in a."),
        (candidate(35, misses={"b": 3, "a": 2}), "Most misses were in b (3 of 5)."),
        (candidate(37, causes={"TIMEOUT": 3}), "The main cause: timeouts (3 of 3)."),
        (
            candidate(38, causes={"NO_TOOL_CALLS": 2, "TIMEOUT": 1}, infra=1),
            "The main cause: the model never called a tool (2 of 3).",
        ),
        (candidate(infra=1), "1 more run with tools was spoiled by infrastructure and not judged."),
        (
            candidate(infra=3),
            "3 more runs with tools were spoiled by infrastructure and not judged.",
        ),
        (candidate(0, 0, skipped=4), "Tools are switched off for this model."),
        (candidate(0, model="minimax/minimax-m2-her"), "Tools are switched off for this model."),
    ],
)
def test_notes_come_from_the_figures(found: Candidate, note: str) -> None:
    assert note in advise(found).notes


@pytest.mark.parametrize(
    "found",
    [
        candidate(40),
        candidate(40, control=Rate(0, 10)),
        candidate(38, misses={"a": 1, "b": 1}, causes={"X": 1, "Y": 1}),
        candidate(35, misses={"a": 2, "b": 2, "c": 1}, causes={"X": 2, "Y": 2, "Z": 1}),
    ],
)
def test_where_nothing_stands_out_there_is_no_note(found: Candidate) -> None:
    assert advise(found).notes == ()


def test_profiles_that_do_worse_are_named() -> None:
    notes = ADVICE["qwen/qwen3-235b-a22b-2507:nitro"].notes

    assert notes == ("With qwen_recommended it was only 75.0 %.",)
    assert "timeouts (3 of 3)" in " ".join(ADVICE["x-ai/grok-4.1-fast"].notes)


def test_the_reason_gives_counts_rate_and_interval() -> None:
    assert advise(candidate(39)).reason == "39 of 40 runs with tools passed: 97.5 % [87.1, 99.6]."
    assert advise(candidate(0, 0)).reason == "No run with tools was judged."


def test_a_verdict_is_never_explained_by_the_control() -> None:
    advice = advise(candidate(40, control=Rate(0, 10)))

    assert advice.decision == "use"
    assert advice.why == ("All 40 runs with tools passed.",)
    assert advice.cautions == ("Beside tools: the control, an exact answer, passed only 0 of 10.",)
    assert advise(candidate(39, control=Rate(9, 10))).cautions == ()
    assert advise(candidate(39, misses={"a": 1})).why == ("The one miss was in a.",)


def test_a_control_is_brittle_below_ninety_percent() -> None:
    assert is_brittle(Rate(8, 10))
    assert not is_brittle(Rate(9, 10))
    assert not is_brittle(Rate(0, 0))


def test_what_is_too_close_to_call_says_why_it_ends() -> None:
    many = candidate(450, 500, stopping=Stopping(sequential=True, most=100), at_limit=True)

    assert advise(many).notes[0] == "500 runs did not decide, and no more are planned."
    assert advise(candidate(36)).notes == (
        "No number of further runs would decide if the rates stay.",
    )
