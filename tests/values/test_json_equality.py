"""When two JSON values are equal: as JSON Schema has it, and as a tool in Python sees them."""

from typing import Any

import pytest

from surecall.values.json_equality import equality_key, is_same_json

NAN = float("nan")


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (10**20, 1e20, True),
        (10**20, 10**20 + 1, False),
        (True, 1, False),
        (False, 0, False),
        (None, 0, False),
        ("1", 1, False),
        (1.5, 1.5, True),
        (NAN, float("nan"), True),
        ({"a": 1, "b": [True]}, {"b": [True], "a": 1.0}, True),
        ({"b": [True]}, {"b": [1]}, False),
        ([1, 2], [2, 1], False),
        ([], {}, False),
        ((1,), [1], True),
    ],
)
def test_values_compare_as_in_json_schema(one: Any, other: Any, *, is_equal: bool) -> None:
    assert (equality_key(one) == equality_key(other)) is is_equal


def test_chosen_integers_do_not_share_a_hash() -> None:
    integers = [number * (2**61 - 1) for number in range(1_000)]

    assert len(set(map(hash, integers))) == 1
    assert len({hash(equality_key(number)) for number in integers}) > 990


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": 2}, False),
        ({"a": "\ud800"}, {"a": "\ud800"}, True),
    ],
)
def test_types_of_numbers_make_another_value(one: Any, other: Any, *, is_same: bool) -> None:
    assert is_same_json(one, other) is is_same
