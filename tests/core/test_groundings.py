"""Values that must have been seen: what is refused, what is offered, where a value came from."""

import json
from typing import Annotated, Any

import pytest

from surecall import (
    ConfigError,
    Contract,
    ErrorCode,
    From,
    Grounded,
    Need,
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolCallingConfig,
    ToolDefinition,
    ToolError,
    ToolLoopRunner,
    ToolRegistry,
    replay,
    tool,
)
from surecall.testing import ScriptedModel
from surecall.values.types import JSON
from tests.laws.test_early_answers import body
from tests.support.protocols import PROTOCOLS

ORDER: JSON = {
    "order_id": "O-7731",
    "customer": "Ada Lovelace",
    "total": "62.50 EUR",
    "items": [{"item_id": "i-1", "name": "lamp", "price": 20}, {"item_id": "i-2", "name": "desk"}],
}


class Shop:
    """Finds orders and refunds items."""

    def __init__(self, found: Any = None) -> None:
        self.refunded: list[tuple[str, str]] = []
        self.found = ORDER if found is None else found

    def tools(self) -> list[Any]:
        @tool(read_only=True)
        def find_order(customer: str) -> Any:
            """Find the newest order of a customer."""
            if customer == "Bob":
                raise ToolError(f"no order of {customer}; ask for Ada")
            return self.found

        @tool
        def refund(
            order_id: Annotated[str, Grounded("find_order")],
            item_id: Annotated[str, Grounded("find_order")],
        ) -> str:
            """Refund an item."""
            self.refunded.append((order_id, item_id))
            return "refunded"

        @tool(read_only=True, grounded=["order_id"])
        def track(order_id: str) -> str:
            """Track an order."""
            if order_id == "O-9":
                raise ToolError("no such order")
            return f"{order_id} is on its way with parcel P-55"

        @tool(grounded=["amount"])
        def pay(amount: int) -> str:
            """Pay."""
            return f"paid {amount}"

        return [find_order, refund, track, pay]


def ran(
    shop: Shop, protocol: Any, *decisions: Any, text: str = "Refund Ada's lamp.", **settings: Any
) -> tuple[RunResult, list[JSON]]:
    script = [body(protocol, decision) for decision in (*decisions, *["Done."] * 4)]
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model,
        model="m",
        tools=shop.tools(),
        config=ToolCallingConfig(call_protocol=protocol, **settings),
        retry=RetryPolicy(attempts=1),
    )
    try:
        result = runner.run_sync(text)
    except RunFailed as failed:
        result = failed.result
    assert replay(result.trace).run == result.run
    return result, model.requests


def told(result: RunResult, at: int = -1) -> str:
    return str(result.run.results[at].envelope["errors"][0]["message"])


FIND = ("find_order", {"customer": "Ada"})


def refund(order_id: str, item_id: str) -> tuple[str, JSON]:
    return "refund", {"order_id": order_id, "item_id": item_id}


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


def test_a_history_counts_and_so_does_text_that_is_json() -> None:
    shop = Shop(json.dumps(ORDER))
    result, _ = ran(shop, "native", FIND)
    runner = ToolLoopRunner(
        client=ScriptedModel(body("native", refund("O-7731", "i-2")), body("native", "Done.")),
        model="m",
        tools=shop.tools(),
        config=ToolCallingConfig(),
    )
    runner.run_sync("And the desk?", history=result.history)
    assert shop.refunded == [("O-7731", "i-2")]


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


def test_what_a_look_up_gives_back_is_no_news() -> None:
    shop = Shop()
    calls = [("find_order", {"customer": "Bob"}), ("track", {"order_id": "Bob"})]
    result, _ = ran(shop, "native", *calls, text="Go.")
    assert result.run.results[1].error_codes == ("ARGUMENT_NOT_SEEN",)

    shop.found = {"query": "X-1", "hits": []}
    calls = [("find_order", {"customer": "X-1"}), ("track", {"order_id": "X-1"})]
    result, _ = ran(shop, "native", *calls, text="Go.")
    assert result.run.results[1].error_codes == ("ARGUMENT_NOT_SEEN",)


def test_what_the_loop_said_itself_is_not_seen() -> None:
    contract = Contract(all_of=[Need("track", {"order_id": "O-1"})])
    decisions = ["Done.", ("track", {"order_id": "O-1"})]
    result, _ = ran(
        Shop(), "native", *decisions, text="Go.", contract=contract, final_ladder=("remind",)
    )
    assert "O-1" in str(result.run.messages[2])
    assert result.run.results[0].error_codes == ("ARGUMENT_NOT_SEEN",)


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


# What a guided reply may hold


def forms(request: JSON) -> dict[str, list[JSON]]:
    schema = request["response_format"]["json_schema"]["schema"]
    found: dict[str, list[JSON]] = {}
    for step in schema.get("anyOf", [schema]):
        if "tool" in step["properties"]:
            name = step["properties"]["tool"]["const"]
            found.setdefault(name, []).append(step["properties"]["arguments"]["properties"])
    return found


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


# From, and constants of a contract

NEED = Need("refund", {"item_id": From("find_order", "items[*].item_id")})


class Plain(Shop):
    """The same shop, without a word about grounds."""

    def tools(self) -> list[Any]:
        @tool
        def refund(item_id: str, reason: str = "") -> str:
            """Refund."""
            self.refunded.append((item_id, reason))
            return "refunded"

        return [super().tools()[0], refund]


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


def test_in_a_guided_reply_it_is_an_enum_and_what_a_need_names_a_constant() -> None:
    need = Need("refund", {"item_id": From("find_order", "items[*].item_id"), "reason": "broken"})
    _, requests = ran(Plain(), "guided", FIND, contract=Contract(all_of=[need]))

    assert forms(requests[0]).keys() == {"find_order"}
    assert forms(requests[1])["refund"] == [
        {"item_id": {"enum": ["i-1", "i-2"]}, "reason": {"const": "broken"}}
    ]


def test_what_comes_from_a_result_is_told_and_travels_as_data() -> None:
    config = ToolCallingConfig(contract=Contract(all_of=[NEED]))
    assert ToolCallingConfig.from_mapping(config.to_mapping()) == config
    assert str(NEED) == "refund with item_id from find_order (items[*].item_id)"
    mixed = Need("refund", {"a": 1, "b": From("find_order")})
    assert str(mixed) == 'refund with {"a":1} and b from find_order'


# What is declared is checked


@pytest.mark.parametrize(
    ("grounded", "told"),
    [
        (["ordr_id"], "unknown grounded parameter"),
        ("order_id", "grounded must be a list of parameters"),
        ({"order_id": "find_ordr"}, "unknown grounding tool"),
        (["flag"], "'flag' cannot be grounded"),
    ],
)
def test_grounds_that_do_not_exist_are_the_callers_error(grounded: Any, told: str) -> None:
    properties = {"order_id": {"type": "string"}, "flag": {"type": "boolean"}}
    schema = {"type": "object", "properties": properties}
    with pytest.raises(ConfigError, match=told):
        ToolRegistry([ToolDefinition("refund", parameters=schema, grounded=grounded)])


def test_tools_that_wait_for_each_other_are_the_callers_error() -> None:
    @tool
    def first(x: Annotated[str, Grounded("second")]) -> str:
        """One."""
        return x

    @tool
    def second(x: Annotated[list[str], Grounded("first")]) -> str:
        """Two."""
        return x[0]

    with pytest.raises(ConfigError, match="first, second can never be called"):
        ToolRegistry([first, second])


@pytest.mark.parametrize(
    "contract",
    [
        Contract(in_order=[NEED, "find_order"]),
        Contract(all_of=[Need("refund", {"item_id": From("refund")})]),
    ],
)
def test_a_contract_that_waits_for_itself_is_the_callers_error(contract: Contract) -> None:
    with pytest.raises(ConfigError, match="can never be called"):
        ran(Plain(), "native", contract=contract)


def test_a_source_that_does_not_exist_is_the_callers_error() -> None:
    need = Need("refund", {"item_id": From("find_ordr", "id")})
    with pytest.raises(ConfigError, match="find_ordr"):
        ran(Plain(), "native", contract=Contract(all_of=[need]))


@pytest.mark.parametrize("path", ["items[", "a..b", "a[x]", "a]", "[*", "a[-1]"])
def test_a_path_that_cannot_be_read_is_the_callers_error(path: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        From("find_order", path)


def test_a_source_names_a_tool_and_stands_for_a_whole_argument() -> None:
    with pytest.raises(ConfigError, match="name the tool"):
        From(" ")
    with pytest.raises(ConfigError, match="a whole argument"):
        Contract(all_of=[Need("refund", {"x": [{"y": From("find_order")}]})])


def test_the_code_is_told() -> None:
    assert ErrorCode.ARGUMENT_NOT_SEEN.meaning.endswith("The tool did not run.")
