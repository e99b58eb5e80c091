"""Values that must have been seen: what is refused, and where a value came from."""

from typing import Any

import pytest

from surecall import (
    Contract,
    ToolLoopRunner,
    tool,
)
from surecall.core.guided.grounding import parameter_choices
from surecall.core.state import Run
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel
from surecall.values.types import Assistant, ToolCall, ToolResult, ToolSpec, User
from tests.support.prompted_runs import FIND, NEED, PROTOCOLS, Plain, Shop, body, ran, refund, told


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
    assert result.run.replies[1].calls[0].grounds == grounds


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
        assert result.run.replies[0].calls[0].grounds == {"order_id": "the user"}


@pytest.mark.parametrize(
    ("text", "amount", "fits"),
    [
        ("Pay 20.00 EUR.", 20, True),
        ("Pay €20!", 20, True),
        ("Pay 1,200.00 now", 1200, True),
        ("Pay 1,200 now", 1200, False),
        ("Pay 2,50 EUR", 250, False),
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


def chosen(kind: Any, data: str, name: str = "amount", *sources: str) -> Any:
    schema = {"type": "object", "properties": {name: {"type": kind}}}
    spec = ToolSpec("pay", "", schema, grounded={name: sources})
    found = ToolResult("c0", "find", ok=True, content=data, executed=True)
    messages = (User("Pay 7."), Assistant("", (ToolCall("c0", "find"),)), found)
    run = Run("r", "m", raw(), messages, tools=(spec,))
    return parameter_choices(run, spec, name).values


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("integer", (20, 3)),
        ("number", (20, 12.0, 3)),
        ("string", ("20", "3", "x")),
        ("boolean", None),
        (["integer", "null"], None),
    ],
)
def test_what_is_offered_fits_the_parameter(kind: Any, expected: Any) -> None:
    data = '{"ok":true,"data":{"a":20,"b":12.0,"c":3,"d":"x","e":"two\\nlines","f":null}}'
    assert chosen(kind, data, "amount", "find") == expected


def test_where_no_tool_is_named_only_names_of_things_can_be_listed() -> None:
    data = '{"ok":true,"data":{"text":"see A-1, 0 or 5","code":"plain","n":9}}'
    assert chosen("string", data, "text") is None
    assert chosen("string", data, "order_id") == ("A-1", "plain", "7")


def test_of_a_list_every_item_must_have_been_seen() -> None:
    @tool(grounded=["ids"])
    def pack(ids: list[str]) -> int:
        """Pack."""
        return len(ids)

    wishes = [["A-1", "B-2"], ["A-1", "C-3"], [{"a": 1}]]
    script = [body("native", ("pack", {"ids": ids})) for ids in wishes[:2]]
    config = raw(validate_arguments=False)
    model = ScriptedModel(*script, body("native", "Done."))
    runner = ToolLoopRunner(client=model, model="m", tools=[pack], config=config)
    result = runner.run_sync("Pack A-1 and B-2.")

    assert [item.ok for item in result.run.results] == [True, False]
    assert result.run.replies[0].calls[0].grounds == {"ids": "the user"}
    assert told(result) == (
        "ids must be a value that the user or a tool has named. Do not make one up."
    )
