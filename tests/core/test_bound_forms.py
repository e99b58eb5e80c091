"""What a guided reply may hold: values that were seen, and what the contract names."""

from surecall import (
    Contract,
    From,
    Need,
)
from tests.support.shops import FIND, NEED, Plain, Shop, forms, ran


def test_a_tool_that_waits_for_a_value_is_not_on_offer() -> None:
    _, requests = ran(Shop(), "guided", FIND)

    first, second = map(forms, requests[:2])
    assert first.keys() == {"find_order", "pay"}, "no id was named, but an amount is only checked"
    assert second["refund"] == [
        {"order_id": {"const": "O-7731"}, "item_id": {"enum": ["i-1", "i-2"]}}
    ]
    assert second["track"] == [{"order_id": {"const": "O-7731"}}]


def test_linked_values_are_chosen_together_the_first_one_first() -> None:
    rows = [
        {"order_id": order, "items": [{"item_id": f"{order}-{item}"} for item in "ab"]}
        for order in ("O-1", "O-2")
    ]
    _, requests = ran(Shop(rows), "guided", FIND)
    assert forms(requests[1])["refund"] == [
        {"order_id": {"const": "O-1"}, "item_id": {"enum": ["O-1-a", "O-1-b"]}},
        {"order_id": {"const": "O-2"}, "item_id": {"enum": ["O-2-a", "O-2-b"]}},
    ]


def test_a_value_that_failed_or_was_looked_up_leaves_the_enum_until_something_changes() -> None:
    track = [("track", {"order_id": value}) for value in ("O-9", "O-1")]
    done = [*track, ("pay", {"amount": 1})]
    _, requests = ran(Shop(), "guided", *done, text="Track O-9, O-1 and O-2, then pay 1.")

    offered = [forms(request).get("track") for request in requests]
    assert offered[0] == [{"order_id": {"enum": ["O-9", "O-1", "O-2", "1"]}}]
    assert offered[1] == [{"order_id": {"enum": ["O-1", "O-2", "1"]}}]
    assert offered[2] == [{"order_id": {"enum": ["P-55", "O-2", "1"]}}]
    assert "O-1" in offered[3][0]["order_id"]["enum"]  # type: ignore[index]


def test_results_that_were_cut_and_lists_that_are_too_long_are_only_checked() -> None:
    plain = [{"order_id": {"type": "string"}, "item_id": {"type": "string"}}]
    _, requests = ran(Shop({"order_id": "x" * 900}), "guided", FIND, max_tool_output_bytes=400)
    assert forms(requests[1])["refund"] == plain

    many = [{"order_id": f"O-{number}", "item_id": "i-1"} for number in range(201)]
    _, requests = ran(Shop(many), "guided", FIND)
    assert forms(requests[1])["refund"][0]["order_id"] == {"type": "string"}


def test_in_a_guided_reply_it_is_an_enum_and_what_a_need_names_a_constant() -> None:
    need = Need("refund", {"item_id": From("find_order", "items[*].item_id"), "reason": "broken"})
    _, requests = ran(Plain(), "guided", FIND, contract=Contract(all_of=[need]))

    assert forms(requests[0]).keys() == {"find_order"}
    assert forms(requests[1])["refund"] == [
        {"item_id": {"enum": ["i-1", "i-2"]}, "reason": {"const": "broken"}}
    ]


def test_what_a_path_leads_to_is_offered_only_if_it_fits() -> None:
    found = {"items": [{"item_id": True}, {"item_id": "i-1"}, {"item_id": {"deep": 1}}]}
    _, requests = ran(Plain(found), "guided", FIND, contract=Contract(all_of=[NEED]))
    assert forms(requests[1])["refund"][0]["item_id"] == {"const": "i-1"}
