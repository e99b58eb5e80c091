"""Numbers that no JSON holds become text, and spoil the arguments that hold them."""

import json
import math
from typing import Any

import pytest
from hypothesis import given

from surecall.wire.plain_json import finite, is_finite
from tests.support.strategies import FINITE_VALUES, JSON_VALUES


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "NaN"),
        ([math.inf, (-math.inf,)], ["Infinity", ["-Infinity"]]),
        ({"a": {"b": math.nan}}, {"a": {"b": "NaN"}}),
        ({"arguments": {"b": math.nan}}, {"arguments": '{"b": NaN}'}),
        ({"input": [{"args": {"b": math.nan}}]}, {"input": '[{"args": {"b": NaN}}]'}),
        (
            {"arguments": {"b": 1.5}, "args": math.inf},
            {"arguments": {"b": 1.5}, "args": "Infinity"},
        ),
    ],
)
def test_what_json_cannot_hold_becomes_text(value: Any, text: Any) -> None:
    assert finite(value) == text
    assert (is_finite(value), is_finite(text)) == (False, True)


@given(FINITE_VALUES)
def test_json_stays_as_it_is(value: Any) -> None:
    assert is_finite(value)
    assert finite(value) == value


@given(JSON_VALUES)
def test_what_comes_out_can_be_written_and_read(value: Any) -> None:
    made = finite(value)

    assert json.loads(json.dumps(made, allow_nan=False)) == made
