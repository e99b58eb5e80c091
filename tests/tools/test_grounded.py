"""Grounds that are declared: what is refused before anything runs."""

from typing import Annotated, Any

import pytest

from surecall import (
    ConfigError,
    Contract,
    From,
    Grounded,
    Need,
    ToolCallingConfig,
    ToolDefinition,
    ToolRegistry,
    tool,
)
from surecall.settings.presets import raw
from tests.support.prompted_runs import NEED, Plain, ran


def test_what_comes_from_a_result_is_told_and_travels_as_data() -> None:
    config = raw(contract=Contract(all_of=[NEED]))
    assert ToolCallingConfig.from_mapping(config.to_mapping()) == config
    assert str(NEED) == "refund with item_id from find_order (items[*].item_id)"
    mixed = Need("refund", {"a": 1, "b": From("find_order")})
    assert str(mixed) == 'refund with {"a":1} and b from find_order'


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


def test_a_source_names_a_tool_and_stands_for_a_whole_argument() -> None:
    with pytest.raises(ConfigError, match="name the tool"):
        From(" ")
    with pytest.raises(ConfigError, match="whole value of an argument"):
        Contract(all_of=[Need("refund", {"x": [{"y": From("find_order")}]})])


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"type": "string"}, True),
        ({"type": ["integer", "null"]}, True),
        ({"type": "array", "items": {"type": "string"}}, True),
        ({"anyOf": [{"type": "null"}, {"type": "number"}]}, True),
        ({"type": "object"}, False),
        ({}, False),
    ],
)
def test_texts_numbers_and_lists_of_them_can_be_grounded(schema: Any, *, fits: bool) -> None:
    parameters = {"type": "object", "properties": {"x": schema}}
    declare = {"name": "t", "parameters": parameters, "grounded": ["x"]}
    if fits:
        assert ToolRegistry([declare]).grounds("t") == {"x": ()}
    else:
        with pytest.raises(ConfigError, match="cannot be grounded"):
            ToolRegistry([declare])


def test_a_mark_says_what_it_is_and_stands_beside_a_description() -> None:
    @tool
    def track(order_id: Annotated[str, "The order.", Grounded]) -> str:
        """Track."""
        return order_id

    assert track.spec.grounded == {"order_id": ()}
    assert track.spec.parameters["properties"]["order_id"]["description"] == "The order."
    assert repr(Grounded("a", "b")) == "Grounded('a', 'b')"
    with pytest.raises(ConfigError, match="grounded must be a list"):
        tool(grounded=7)(track.handler)  # type: ignore[call-overload]
