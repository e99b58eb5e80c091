"""Calls held against those that are wanted, as the Berkeley leaderboard does it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.scenarios.accepted_calls import (
    COUNT_CHECK,
    MADE_CHECK,
    WantedCall,
    call_mismatch,
    call_misses,
    format_wanted_call,
    is_accepted,
)
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Problem, ToolCall
from tests.support.generated import FINITE_VALUES

TEXT: JSON = {"type": "string"}
WHOLE: JSON = {"type": "integer"}
NUMBER: JSON = {"type": "number"}
TRUTH: JSON = {"type": "boolean"}
OBJECT: JSON = {"type": "object"}
TEXTS: JSON = {"type": "array", "items": TEXT}
NUMBERS: JSON = {"type": "array", "items": NUMBER}
OBJECTS: JSON = {"type": "array", "items": OBJECT}
AREA: JSON = {
    "type": "object",
    "properties": {"base": WHOLE, "height": WHOLE, "unit": TEXT},
    "required": ["base", "height"],
}
WANTED = WantedCall("area", {"base": [10], "height": [5, 6], "unit": ["cm", ""]})


def call(name: str, problem: Problem | None = None, **arguments: Any) -> ToolCall:
    return ToolCall("call_1", name, arguments, problem)


def fits(accepted: list[Any], schema: Any, *values: Any) -> list[bool]:
    return [is_accepted(accepted, schema, value) for value in values]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (call("area", base=10, height=5), ""),
        (call("area", base=10, height=6, unit="CM"), ""),
        (call("volume", base=10, height=5), "not area"),
        (call("area", base=10), "height is missing"),
        (call("area", base=10, height=7), "height is 7"),
        (call("area", base=10, height=5, depth=1), "depth is not expected"),
        (call("area", base=10, height=5, unit="inch"), 'unit is "inch"'),
        (
            call("area", Problem(ErrorCode.ARGUMENTS_JSON_PARSE_ERROR, "?"), base=10, height=5),
            "its arguments cannot be read",
        ),
        (call("area", Problem(ErrorCode.ARGUMENT_ERROR, "enum"), base=10, height=5), ""),
    ],
)
def test_a_call_is_the_wanted_one_or_there_is_a_reason_why_not(made: ToolCall, reason: str) -> None:
    assert call_mismatch(WANTED, AREA, made) == reason


def test_what_is_optional_in_the_schema_may_still_be_wanted() -> None:
    wanted = WantedCall("area", {"base": [10], "height": [5], "unit": ["cm"]})
    assert call_mismatch(wanted, AREA, call("area", base=10, height=5)) == "unit is missing"


def test_an_argument_that_only_one_side_knows_is_not_expected() -> None:
    wanted = WantedCall("area", {"base": [10], "height": [5], "colour": ["red"]})
    unit = call("area", base=10, height=5, unit="cm")
    colour = call("area", base=10, height=5, colour="red")
    assert call_mismatch(wanted, AREA, unit) == "unit is not expected"
    assert call_mismatch(wanted, AREA, colour) == "colour is not expected"


def test_texts_are_compared_without_case_blanks_and_marks() -> None:
    near = ("april 1 2024", "April 1, 2024", "APRIL-1_2024", "april/1.2024*^")
    assert fits(["April 1, 2024"], TEXT, *near) == [True] * 4
    assert fits(["April 1, 2024"], TEXT, "April 1: 2024", "April 2024", 1, None) == [False] * 4
    assert fits(["it's"], TEXT, 'it"s') == [True]


def test_numbers_are_compared_by_value_and_an_integer_may_stand_for_a_number() -> None:
    assert fits([5.0, 2], NUMBER, 5, 5.0, 2, 2.0) == [True] * 4
    assert fits([5], NUMBER, *[5, 5.0, "5", True, 10**400]) == [True, True, False, False, False]
    assert fits([5], WHOLE, *[5, 5.0, "5", True]) == [True, False, False, False]
    assert fits([True], TRUTH, *[True, False, 1, "true"]) == [True, False, False, False]


def test_a_value_of_another_type_than_the_schema_s_stands_for_itself() -> None:
    assert fits(["user.age"], WHOLE, "user.age", "userage", 7) == [True, False, False]
    assert fits([7], TEXT, 7, "7") == [True, False]


def test_items_have_the_type_of_the_schema_or_of_an_accepted_list() -> None:
    assert fits([["a", "b c"]], TEXTS, ["A", "bc"], ["bc", "A"], ["A"], [1, 2], "a") == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert fits([[1.0, 2.5]], NUMBERS, [1.0, 2.5], [1, 2.5]) == [True, False]
    assert fits([[1, 2.5]], NUMBERS, [1, 2.5], [1.0, 2.5]) == [True, True]
    assert fits([[1, "two"]], {"type": "array"}, [1, "Two"], ["1", "two"]) == [True, False]
    assert fits([["a"], ""], TEXTS, [], ["a"], ["b"]) == [True, True, False]
    assert fits([["a"], 7], TEXTS, ["a"], [7]) == [True, False]


def test_an_object_lists_the_accepted_values_of_its_keys() -> None:
    accepted: list[Any] = ["", {"size": ["large", "L"], "milk": ["oat", ""]}]
    right: list[JSON] = [{"size": "Large"}, {"size": "l", "milk": "OAT"}]
    wrong: list[JSON] = [{"milk": "oat"}, {"size": "small"}, {"size": "L", "sugar": 1}, {}]
    assert fits(accepted, OBJECT, *right) == [True, True]
    assert fits(accepted, OBJECT, *wrong) == [False] * 4
    assert fits([{"size": "large"}], OBJECT, {"size": "large"}, {"size": "l"}) == [True, False]


def test_objects_in_a_list_are_compared_in_their_order() -> None:
    accepted = [[{"id": [1]}, {"id": [2]}], 7]
    assert fits(accepted, OBJECTS, [{"id": 1}, {"id": 2}]) == [True]
    wrong: list[list[Any]] = [[{"id": 2}, {"id": 1}], [{"id": 1}], [], [{"id": 1}, 2]]
    assert fits(accepted, OBJECTS, *wrong) == [False] * 4
    assert fits([[{"id": [1]}], "x"], OBJECTS, [7], [{"id": 1}]) == [False, True]


def test_where_a_schema_names_no_type_a_text_is_meant() -> None:
    for schema in ({}, True, {"type": ["string", "null"]}, {"type": "any"}):
        assert fits(["Say hi"], schema, "say-hi", 1) == [True, False]


def test_as_many_calls_as_wanted_in_any_order() -> None:
    wanted = [WantedCall("area", {"base": [n], "height": [5]}) for n in (1, 2)]
    first, second = (call("area", base=n, height=5) for n in (1, 2))

    def missed(*made: ToolCall) -> list[str]:
        found = call_misses(wanted, [(0, one) for one in made], {"area": AREA}, 3)
        return [f"{miss.check}: {miss.got}" for miss in found]

    assert missed(first, second) == missed(second, first) == []
    assert missed() == [f"{COUNT_CHECK}: no call"]
    assert missed(first) == [f"{COUNT_CHECK}: 1: area(base=1, height=5)"]
    assert missed(first, first) == [f"{MADE_CHECK}: base is 1: area(base=1, height=5)"]
    assert len(missed(call("volume"), call("volume"))) == 2


def test_a_miss_says_what_was_wanted_and_which_turn_decided() -> None:
    (few,) = call_misses([WANTED], [], {"area": AREA}, 3)
    assert (few.expected, few.turn) == ('1: area(base=10, height=5, unit="cm")', 3)
    (wrong,) = call_misses([WANTED], [(2, call("area"))], {"area": AREA}, 3)
    assert (wrong.expected, wrong.turn, wrong.call_id) == (format_wanted_call(WANTED), 2, "call_1")
    assert format_wanted_call(WantedCall("stop", {"now": []})) == 'stop(now="")'


@given(
    st.lists(FINITE_VALUES, max_size=3),
    st.sampled_from([TEXT, WHOLE, NUMBER, TRUTH, OBJECT, TEXTS, NUMBERS, OBJECTS, {}]),
    FINITE_VALUES,
)
def test_whatever_is_accepted_and_given_there_is_a_verdict(
    accepted: list[Any], schema: JSON, value: Any
) -> None:
    assert is_accepted(accepted, schema, value) in {True, False}


@given(st.permutations([("a", 1), ("a", 2), ("b", 1)]))
def test_the_order_of_calls_does_not_matter_but_each_of_them_does(
    order: list[tuple[str, int]],
) -> None:
    schema = {"properties": {"n": WHOLE}, "required": ["n"]}
    schemas = {"a": schema, "b": schema}
    wanted = [WantedCall(name, {"n": [n]}) for name, n in [("a", 1), ("a", 2), ("b", 1)]]
    made = [(0, call(name, n=n)) for name, n in order]
    assert not list(call_misses(wanted, made, schemas, 0))
    assert list(call_misses(wanted, made[:-1], schemas, 0))
    assert list(call_misses(wanted, [*made, made[0]], schemas, 0))
    assert list(call_misses(wanted, [made[0], *made[:-1]], schemas, 0))
