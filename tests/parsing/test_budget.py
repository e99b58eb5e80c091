"""What reading may cost: counted without a parse, whatever the bytes, and spent piece by piece."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.parsing.budget import MAX_VALUES, StreamBudget, has_too_many_values, value_count_bound
from tests.support.costly_inputs import DEPTHS, nested
from tests.support.generated import FINITE_VALUES

MANY = 1_000


def values_of(value: Any) -> int:
    """Count what parts values: one for each container, and one between two items."""
    match value:
        case dict():
            return 1 + max(0, len(value) - 1) + sum(map(values_of, value.values()))
        case list():
            return 1 + max(0, len(value) - 1) + sum(map(values_of, value))
        case _:
            return 0


@given(FINITE_VALUES)
def test_values_are_counted_as_a_reader_would_find_them(value: Any) -> None:
    data, count = json.dumps(value).encode(), values_of(value)

    assert has_too_many_values(data, count + 1) is False
    assert count == 0 or has_too_many_values(data, count)
    assert value_count_bound(data) >= count


@pytest.mark.parametrize(
    ("data", "is_too_much"),
    [
        (b'["' + b"," * MANY + b'"]', False),
        (rb'["\"' + rb",\"" * MANY + b'"]', False),
        (b'["' + rb"\"," * MANY, False),
        (b'["a' + b"\\", False),
        (b"[" * MANY, True),
        (b"{" * MANY, True),
        (b'["",' * MANY, True),
        (b"[" + b"0," * MANY, True),
        (b'"a,"' * 3 * MANY, True),
        (b"\xff[" * MANY, True),
    ],
)
def test_what_stands_in_a_string_is_no_value_and_what_is_no_json_is_counted_as_well(
    data: bytes, *, is_too_much: bool
) -> None:
    assert has_too_many_values(data, MANY) is is_too_much


@pytest.mark.parametrize("unit", [b'"ab",', b'{"a":0},', b"[],", b'"\\"', b'\\"', b'"'])
def test_counting_makes_no_copy(unit: bytes) -> None:
    data = b"[" + unit * (1_000_000 // len(unit))
    has_too_many_values(data, MANY)

    tracemalloc.start()
    try:
        has_too_many_values(data, 10 * MANY)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 10_000


def spent(*kept: Any, **limits: int) -> bool:
    budget = StreamBudget(**limits)
    for value in kept:
        budget.spend(value)
    return budget.is_exhausted


def test_a_budget_is_spent_by_bytes_and_by_values() -> None:
    assert not spent("abc", {"a": 1}, None, max_bytes=10)
    assert spent("abc", {"a": 1}, None, max_bytes=9)
    assert not spent([[], []], "a", max_values=5)
    assert spent([[], []], "a", max_values=4)


def test_what_says_nothing_costs_nothing() -> None:
    assert not spent(*[""] * (MAX_VALUES + 1), max_bytes=0)


@given(st.text(st.characters(codec=None)))
def test_any_value_can_be_spent(text: str) -> None:
    assert spent([text], max_bytes=1) is True


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_value_that_cannot_be_written_costs_nothing_for_it_is_refused_anyway(depth: int) -> None:
    deep = nested(depth)
    assert not spent(deep, max_bytes=0)
    assert not spent(["\ud800", deep], max_bytes=0)
