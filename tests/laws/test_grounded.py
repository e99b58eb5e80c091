"""A grounded value is always one that was seen, whatever the model makes up, in any protocol."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.protocols import PROTOCOLS
from tests.support.shops import FIND, ORDER, Shop, ran, refund

IDS = st.sampled_from(["O-7731", "O-77", "7731", "12345", "i-1", "i-2", "i-22", "lamp", "Ada", ""])
CALLS = st.one_of(
    st.just(FIND),
    st.builds(refund, IDS, IDS),
    st.builds(lambda one: ("track", {"order_id": one}), IDS),
    st.builds(lambda one: ("pay", {"amount": one}), st.sampled_from([20, 62.5, 7731, 2, 5])),
    st.just("Hm."),
)
TEXTS = st.sampled_from(["Refund Ada's lamp.", "Track O-77, then pay 5.", "Go."])


@given(st.lists(CALLS, max_size=7), TEXTS, st.sampled_from(PROTOCOLS))
def test_a_grounded_value_is_always_one_that_was_seen(
    decisions: list[Any], text: str, protocol: Any
) -> None:
    shop = Shop()
    result, _ = ran(shop, protocol, *decisions, text=text)

    shown = text
    for call, answer in result.run.answered_calls:
        if answer.executed and call.name in {"refund", "track", "pay"}:
            assert all(str(value) in shown for value in call.arguments.values())
            assert call.grounds.keys() == call.arguments.keys()
        shown += answer.content if answer.executed else ""
    known = json.dumps(ORDER)
    assert all(order in known and item in known for order, item in shop.refunded)


@given(st.lists(CALLS, max_size=4), st.sampled_from(PROTOCOLS))
def test_no_grounds_no_difference(decisions: list[Any], protocol: Any) -> None:
    _, requests = ran(Shop(), protocol, *decisions)
    if protocol == "native":
        offers = {json.dumps(request["tools"]) for request in requests}
        assert len(offers) == 1, "what is sent does not change with what was seen"
