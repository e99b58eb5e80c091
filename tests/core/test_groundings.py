"""Values that must have been seen: what is refused, and where a value came from."""

import pytest

from surecall import (
    Contract,
)
from tests.support.protocols import PROTOCOLS
from tests.support.shops import FIND, NEED, Plain, Shop, ran, refund, told


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_invented_value_is_refused_before_anything_runs(protocol: str) -> None:
    shop = Shop()
    result, _ = ran(shop, protocol, refund("12345", "i-1"), FIND, refund("12345", "i-1"))

    assert shop.refunded == []
    assert [item.error_codes for item in result.run.results] == [
        ("ARGUMENT_NOT_SEEN",),
        (),
        ("ARGUMENT_NOT_SEEN",),
    ]
    assert told(result, 0) == "There is no value for order_id yet: call find_order first."
    assert told(result, 2) == "order_id must be one of: O-7731. It comes from find_order."


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_value_that_was_seen_runs_and_the_call_says_where_it_was(protocol: str) -> None:
    shop = Shop()
    result, _ = ran(shop, protocol, FIND, refund("O-7731", "i-1"))

    assert shop.refunded == [("O-7731", "i-1")]
    grounds = {"order_id": "find_order", "item_id": "find_order"}
    assert result.run.said[1].calls[0].grounds == grounds


@pytest.mark.parametrize(
    ("text", "value", "fits"),
    [
        ("Where is O-7731?", "O-7731", True),
        ("Where is order O-7731-B?", "O-7731", False),
        ("Where is (O-7731)?", "O-7731", True),
        ("Where is O-77310?", "O-7731", False),
        ("Where is O-7731?", "7731", False),
        ("Where is Ada's order?", "Ada", False),
        ("Where is Ada's order?", "12345", False),
        ("Where is Ada's order?", "", False),
    ],
)
def test_what_names_a_thing_is_a_whole_word_that_can_name_one(
    text: str, value: str, *, fits: bool
) -> None:
    result, _ = ran(Shop(), "native", ("track", {"order_id": value}), text=text)
    assert result.run.results[0].ok is fits
    if fits:
        assert result.run.said[0].calls[0].grounds == {"order_id": "the user"}


@pytest.mark.parametrize(
    ("text", "amount", "fits"),
    [
        ("Pay 20.00 EUR.", 20, True),
        ("Pay €20!", 20, True),
        ("Pay 1,200 now", 1200, True),
        ("Pay 120 EUR.", 20, False),
        ("Pay order O-20.", 20, False),
        ("Pay a lot.", 20, False),
    ],
)
def test_numbers_are_compared_as_numbers(text: str, amount: int, *, fits: bool) -> None:
    result, _ = ran(Shop(), "native", ("pay", {"amount": amount}), text=text)
    assert result.run.results[0].ok is fits


def test_values_of_different_rows_do_not_go_together() -> None:
    rows = [
        {"order_id": "O-1", "items": [{"item_id": "i-1"}]},
        {"order_id": "O-2", "items": [{"item_id": "i-2"}]},
    ]
    shop = Shop(rows)
    result, _ = ran(shop, "native", FIND, refund("O-1", "i-2"), refund("O-2", "i-2"))
    assert shop.refunded == [("O-2", "i-2")]
    assert told(result, 1) == (
        "order_id and item_id do not belong together. These do: "
        "order_id O-1, item_id i-1; order_id O-2, item_id i-2."
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_need_may_want_what_an_earlier_result_holds(protocol: str) -> None:
    shop = Plain()
    contract = Contract(all_of=[NEED])
    calls = [("refund", {"item_id": "i-1"}), FIND, ("refund", {"item_id": "lamp"})]
    right = ("refund", {"item_id": "i-2"})
    result, _ = ran(shop, protocol, *calls, right, contract=contract)

    assert [room for room, _ in shop.refunded] == ["i-2"]
    assert result.stop_reason == "final"
    assert told(result, 0) == "There is no value for item_id yet: call find_order first."
    assert told(result, 2) == "item_id must be one of: i-1, i-2. It comes from find_order."
