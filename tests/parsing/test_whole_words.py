"""Values among words, and numbers by their worth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.parsing.whole_words import numbers_in, stands_in, without, words_in


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
        (12.5, "about 12.50, or so", True),
        (1200, "1,200 of them", True),
        (-5, "at -5 degrees", True),
        (20, "120 or O-20 or 20th", False),
    ],
)
def test_a_value_stands_in_a_text_as_whole_words(
    value: str | float, text: str, *, stands: bool
) -> None:
    assert stands_in(value, text) is stands


def test_words_come_without_marks_and_values_can_be_blanked() -> None:
    assert list(words_in('He said: "O-1", (then) ...')) == ["He", "said", "O-1", "then"]
    assert without("no order 5 in O-5, 5!", [5]) == "no order   in O-5,  !"


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    assert all(isinstance(number, float) for number in numbers_in(text))
    assert all(word in text for word in words_in(text))
    assert len(without(text, ["a", "1"])) == len(text)
