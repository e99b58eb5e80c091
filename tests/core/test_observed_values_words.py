"""Values among words, and numbers by their worth."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.core.observed_values import (
    blank_out_values,
    is_same_number,
    is_value_in,
    normalized_value,
    numbers_in,
    words_in,
)


@pytest.mark.parametrize(
    ("value", "text", "stands"),
    [
        ("O-7731", "about O-7731.", True),
        ("O-77", "about O-7731.", False),
        ("7731", "about O-7731.", False),
        ("Ada Lovelace", "Ada Lovelace's order", True),
        ("a", "ba ab a", True),
        ("", "anything", False),
        (20, "20.00 EUR", True),
        (500, "Pay 2 500 EUR", False),
        (2, "Pay 2 500 EUR", False),
        (2500, "Pay 2 500 EUR", False),
        ("500", "Pay 2 500 EUR", False),
        (500, "Pay 1 500 500 EUR", False),
        *((500, f"Pay 2{space}500 EUR", False) for space in "\xa0\u2002\u200a\u202f\u205f\u3000"),
        (12, "12 34", True),
        (5, "5 apples", True),
        (7, "7 1234", True),
        (1234, "7 1234", True),
        (500, "2  500", True),
        (500, "2,5 500", True),
        (12.5, "about 12.50, or so", True),
        (-5, "at -5 degrees", True),
        (20, "120 or O-20 or 20th", False),
        (0.5, "at .5", True),
        (5, "at .5", False),
        (1200.5, "1,200.50", True),
        (1200.5, "1.200,50", True),
        (1234567890123456789, "post 1234567890123456789", True),
        (1234567890123456768, "post 1234567890123456789", False),
        (1234567890123456789.0, "post 1234567890123456789", False),
        (0.1, "0.10000000000000000001", True),
        (10**400, "0.5", False),
        (9007199254740993, "9007199254740993.00", True),
        (9007199254740992, "9007199254740993.0", False),
        (5, "9" * 2000, False),
    ],
)
def test_a_value_stands_in_a_text_as_whole_words(
    value: str | float, text: str, *, stands: bool
) -> None:
    assert is_value_in(value, text) is stands


@pytest.mark.parametrize(
    "text",
    ["1,200", "1.200", "2,50", "1,2,3", "101,102,103", "1\xa0200", "1'200", "1_200", "7e9999"],
)
def test_a_number_with_an_ambiguous_separator_is_no_number(text: str) -> None:
    assert list(numbers_in(f"Pay {text} now")) == []
    assert not is_value_in("200", text)


def test_an_integer_is_never_the_same_as_a_float_that_may_be_its_neighbor() -> None:
    assert is_same_number(2**53 - 1, float(2**53 - 1))
    assert not is_same_number(2**53, float(2**53))
    assert is_same_number(float(2**53), float(2**53))
    assert not is_same_number(10**400, 1.5)


@pytest.mark.parametrize(
    "value", [666, 666.0, "666", " 0666", "#666", "666.00", "\uff16\uff16\uff16"]
)
def test_a_plain_form_has_no_spelling(value: str | float) -> None:
    assert normalized_value(value) == "666"
    assert normalized_value(f"order {value}") == normalized_value(f"ORDER-{value}")


def test_words_come_without_marks_and_values_can_be_blanked() -> None:
    assert list(words_in('He said: "O-1", (then) ...')) == ["He", "said", "O-1", "then"]
    assert blank_out_values("no order 5 in O-5, 5!", [5]) == "no order   in O-5,  !"


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    assert all(isinstance(number, Decimal) for number in numbers_in(text))
    assert normalized_value(text) is not None
    assert all(word in text for word in words_in(text))
    assert len(blank_out_values(text, ["a", "1"])) == len(text)
