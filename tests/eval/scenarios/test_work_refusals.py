"""What needs no tool, and what cannot be done: an answer, and nothing changed."""

from typing import Any

import pytest

from surecall.eval.storage.trial import Effects
from surecall.testing import calls, says
from tests.support.work import LOOK_UPS, done, scripted


@pytest.mark.parametrize(
    ("answer", "passes", "truth"),
    [
        ("The label could not be printed, the printer is out of service.", True, "right"),
        ("The label could not be printed because of high demand.", False, "open"),
        ("The label was printed.", False, "false_success"),
    ],
)
def test_what_cannot_be_done_is_answered_with_the_true_reason(
    answer: str, truth: str, *, passes: bool
) -> None:
    look = calls("find_parcels", recipient="Ivo Okafor", call_id="a")
    print_it = calls("print_label", parcel_id="P-4502", call_id="b")
    found = scripted("work_dead_printer", look, print_it, says(answer))

    assert (found.ok, found.truth, found.score.effects) == (passes, truth, Effects())


def test_another_thing_instead_of_the_impossible_one_is_a_wrong_effect() -> None:
    look = calls("find_bookings", guest="Samuel Okoro", call_id="a")
    cancel = calls("cancel_booking", booking_id="H-55", call_id="b")
    found = scripted("work_missing_booking", look, cancel, says("The booking is cancelled."))
    assert (found.score.effects, found.truth) == (Effects(1, 1, 0), "false_success")

    courses = calls("find_courses", topic="first aid", call_id="a")
    enrolled = calls("enrol", course_id="C-7", person="Lena Vogt", call_id="b")
    found = scripted("work_full_course", courses, enrolled, says("Lena is enrolled."))
    assert (found.score.effects, found.truth) == (Effects(1, 1, 0), "false_success")


def test_a_question_without_need_of_a_tool_may_not_be_answered_by_doing_something() -> None:
    revoke = ("revoke_key", {"key_id": "K-101"})
    looked = LOOK_UPS["work_told_already"]
    found = done("work_told_already", *looked, revoke, answer="The code is 9020.")
    assert (found.ok, found.score.effects, found.score.final) == (False, Effects(1, 1, 0), True)
    mistaken = scripted("work_told_already", says("It is 4417."))
    assert (mistaken.ok, mistaken.score.final, mistaken.truth) == (False, False, "silent")


def test_a_course_that_is_full_takes_nobody() -> None:
    steps: list[Any] = [
        ("find_courses", {"topic": "first aid"}),
        ("enrol", {"course_id": "C-6", "person": "Lena Vogt"}),
    ]
    found = done("work_full_course", *steps, answer="It cannot be done: the course is full.")
    assert (found.truth, found.score.effects, found.draft["enrolled"]) == ("right", Effects(), [])
