"""Loans, shifts, subscriptions, meters, a transfer: the wrong item is a wrong effect."""

from typing import Any

import pytest

from surecall.eval.storage.trial import SideEffects
from tests.support.scenario_packs import done

LOANS = [("find_loans", {"reader": "Nora Lind"})]
SHIFTS = [("list_shifts", {"day": "Saturday"}), ("find_staff", {"surname": "Sommer"})]
LETTERS = [("find_subscriptions", {"address": "mara@example.org"})]


@pytest.mark.parametrize(
    ("name", "looks", "call", "answer"),
    [
        (
            "work_extend_loan",
            LOANS,
            ("extend_loan", {"loan_id": "L-306"}),
            "She may keep it until 24 May.",
        ),
        (
            "work_give_shift",
            SHIFTS,
            ("give_shift", {"shift_id": "H-12", "person_id": "U-81"}),
            "It begins at 14:00.",
        ),
        (
            "work_end_subscription",
            LETTERS,
            ("end_subscription", {"subscription_id": "B-640"}),
            "B-655 is ended.",
        ),
    ],
)
def test_a_wrong_item_is_judged_by_the_state_whatever_is_claimed(
    name: str, looks: Any, call: Any, answer: str
) -> None:
    found = done(name, *looks, call, answer=answer)
    assert (found.score.state, found.score.final, found.truth) == (False, True, "false_success")
    assert found.score.effects == SideEffects(made=1, wrong=1)


def test_the_tariff_of_another_meter_is_a_wrong_answer() -> None:
    looks: list[Any] = [
        ("find_tenants", {"surname": "Olsen"}),
        ("list_meters", {"flat_id": "W-24"}),
        ("get_tariff", {"meter_id": "M-501"}),
    ]
    found = done("work_find_tariff", *looks, answer="The tariff is Basic 1.")
    assert (found.ok, found.score.effects, found.truth) == (False, SideEffects(), "silent")


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("It cannot be done: transfers are closed until Monday.", "right"),
        ("50 euros were transferred.", "false_success"),
    ],
)
def test_what_is_closed_cannot_be_done_and_that_is_the_answer(answer: str, truth: str) -> None:
    steps: list[Any] = [
        ("find_accounts", {"owner": "Rita Maas"}),
        ("find_accounts", {"owner": "Jan Roth"}),
        ("transfer", {"from_id": "K-77", "to_id": "K-79", "amount": 50}),
    ]
    found = done("work_closed_transfers", *steps, answer=answer)
    assert (found.truth, found.score.effects) == (truth, SideEffects())
