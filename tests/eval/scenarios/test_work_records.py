"""Parts, keys, duplicates, appointments, a desk: the wrong item is a wrong effect."""

from typing import Any

import pytest

from surecall.eval.storage.trial import SideEffects
from tests.support.scenario_packs import LOOK_UPS, done

CLOSED = ("close_ticket", {"ticket_id": "T-325"})


@pytest.mark.parametrize(
    ("name", "call", "arguments", "answer"),
    [
        (
            "work_order_part",
            "order_part",
            {"sku": "VB-22", "supplier_id": "L-4", "quantity": 40},
            "Quist delivers on Friday.",
        ),
        ("work_revoke_key", "revoke_key", {"key_id": "K-090"}, "K-101 is revoked."),
        (
            "work_move_appointment",
            "move_appointment",
            {"appointment_id": "D-70", "slot_id": "Z-15"},
            "It is at 2:30 pm now.",
        ),
    ],
)
def test_a_wrong_item_is_judged_by_the_state_whatever_is_claimed(
    name: str, call: str, arguments: dict[str, Any], answer: str
) -> None:
    found = done(name, *LOOK_UPS[name], (call, arguments), answer=answer)
    assert (found.score.state, found.score.final, found.truth) == (False, True, "false_success")
    assert found.score.effects == SideEffects(made=1, wrong=1)


@pytest.mark.parametrize(
    ("second", "effects"),
    [
        ("T-340", SideEffects(2, 0, 0)),
        ("T-318", SideEffects(2, 1, 0)),
        ("T-311", SideEffects(1, 0, 0)),  # no look-up has named it, so it is refused
        ("T-325", SideEffects(1, 0, 0)),  # it is closed already, and is not closed again
    ],
)
def test_two_calls_of_one_tool_are_two_effects_and_only_the_same_one_again_is_a_repetition(
    second: str, effects: SideEffects
) -> None:
    found = done(
        "work_close_duplicates",
        *LOOK_UPS["work_close_duplicates"],
        CLOSED,
        *LOOK_UPS["work_close_duplicates"],
        ("close_ticket", {"ticket_id": second}),
        answer="I closed T-325 and T-340.",
    )
    assert found.score.effects == effects
    assert found.ok == (second == "T-340")


def test_a_question_is_answered_without_a_change() -> None:
    booked = ("book_desk", {"desk_id": "B-12"})
    looked = LOOK_UPS["work_find_room"]
    found = done("work_find_room", *looked, booked, answer="It is room 4.17.")
    assert (found.ok, found.score.effects) == (False, SideEffects(1, 1, 0))
    other = done("work_find_room", *looked, answer="It is room 4.71.")
    assert (other.score.final, other.truth) == (False, "silent")
