"""Parcels, tickets, invoices, folders: right work, and each kind of wrong work, judged as such."""

from typing import Any

import pytest

from surecall.eval.storage.trial import SideEffects
from surecall.testing import calls, says
from tests.support.scenario_packs import LOOK_UPS, done, scripted

FIND = calls("find_parcels", recipient="Irene Okafor", call_id="a")
POINTS = calls("find_pickup_points", place="Market Square", call_id="b")


def redirect(parcel: str, point: str = "S-17", call_id: str = "c") -> Any:
    return calls("redirect_parcel", parcel_id=parcel, point_id=point, call_id=call_id)


def test_the_wrong_item_is_a_wrong_effect_that_nobody_is_told_of() -> None:
    claim = says("Parcel P-4478 was redirected to Market Square.")
    found = scripted("work_redirect_parcel", FIND, POINTS, redirect("P-4411"), claim)

    assert (found.category, found.truth) == ("ASSERTION_FAILED", "false_success")
    assert found.score.effects == SideEffects(made=1, wrong=1)
    first = found.score.misses[0]
    assert first.expected == 'redirect_parcel(parcel_id="P-4478", point_id="S-17")'
    assert first.got == 'redirect_parcel(parcel_id="P-4411", point_id="S-17")'
    assert (first.turn, first.call_id) == (2, "c")


def test_an_invented_id_has_no_effect_and_the_error_is_in_the_open() -> None:
    begun = redirect("12345", "S-1", "a")
    found = scripted("work_redirect_parcel", begun, says("I could not find the parcel."))

    assert (found.status, found.truth, found.score.effects) == ("failed", "open", SideEffects())


def test_a_write_that_is_repeated_takes_effect_once() -> None:
    again = [redirect("P-4478", call_id=f"c{at}") for at in range(3)]
    look = [calls("find_parcels", recipient="Okafor", call_id=f"d{at}") for at in range(2)]
    script = (FIND, POINTS, again[0], look[0], again[1], look[1], again[2])
    found = scripted("work_redirect_parcel", *script, says("P-4478 goes to Market Square."))

    assert found.score.effects == SideEffects(made=1)
    assert found.truth == "right"


def test_the_right_work_with_a_wrong_report_is_wrong_in_silence() -> None:
    script = (FIND, POINTS, redirect("P-4478"), says("P-4411 goes to Market Square."))
    found = scripted("work_redirect_parcel", *script)

    assert (found.score.state, found.score.final, found.truth) == (True, False, "silent")


def test_a_no_to_what_can_be_done_is_a_failure_in_the_open() -> None:
    found = scripted("work_redirect_parcel", FIND, says("It cannot be done."))
    assert (found.status, found.truth, found.score.state) == ("failed", "open", False)


def test_the_state_of_a_task_is_in_its_record() -> None:
    script = (FIND, POINTS, redirect("P-4478"), says("P-4478 goes there."))
    assert scripted("work_redirect_parcel", *script).draft["redirected"] == {"P-4478": "S-17"}


@pytest.mark.parametrize(
    ("name", "call", "arguments", "answer"),
    [
        (
            "work_assign_ticket",
            "assign_ticket",
            {"ticket_id": "T-214", "person_id": "U-31"},
            "Milan Reyes has the ticket.",
        ),
        (
            "work_pay_invoice",
            "pay_invoice",
            {"invoice_id": "INV-902", "account_id": "A-1", "amount": 386.2},
            "I paid 386.20.",
        ),
        (
            "work_share_folder",
            "grant_right",
            {"folder_id": "F-3", "person_id": "U-58", "right": "read"},
            "She may read F-3 now.",
        ),
    ],
)
def test_a_wrong_item_is_judged_by_the_state_whatever_is_claimed(
    name: str, call: str, arguments: dict[str, Any], answer: str
) -> None:
    found = done(name, *LOOK_UPS[name], (call, arguments), answer=answer)
    assert (found.score.state, found.score.final, found.truth) == (False, True, "false_success")
    assert found.score.effects == SideEffects(made=1, wrong=1)


def test_to_grant_the_same_right_twice_changes_nothing() -> None:
    right = {"folder_id": "F-3", "person_id": "U-51", "right": "read"}
    look = ("find_folders", {"folder_name": "minutes"})
    found = done(
        "work_share_folder",
        *LOOK_UPS["work_share_folder"],
        ("grant_right", right),
        look,
        ("grant_right", right),
        answer="It is F-3.",
    )
    assert (found.ok, found.score.effects, found.draft["rights"]) == (True, SideEffects(1), [right])
