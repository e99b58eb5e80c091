"""Finish reasons: every upstream has its own words, and each belongs to a family."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.wire.finish_reasons import (
    MAX_REASON_LENGTH,
    FinishKind,
    finish_kind,
    worst_finish_reason,
)
from tests.support.replies import FINISH_REASONS


@pytest.mark.parametrize(("ending", "word"), FINISH_REASONS)
def test_a_word_belongs_to_its_family_in_every_spelling(ending: FinishKind, word: str) -> None:
    spellings = (word, word.upper(), word.title(), word.replace("_", "-"), word.replace("_", " "))

    assert {finish_kind(spelling) for spelling in spellings} == {ending}


@pytest.mark.parametrize("nothing", [None, 1, {}, ["length"]])
def test_what_is_no_word_is_a_normal_end(nothing: object) -> None:
    assert finish_kind(nothing) is FinishKind.COMPLETE


@given(st.text())
def test_no_word_raises_and_only_its_beginning_counts(word: str) -> None:
    assert finish_kind(word[:MAX_REASON_LENGTH]) is finish_kind(
        word[:MAX_REASON_LENGTH] + "." * MAX_REASON_LENGTH
    )


@pytest.mark.parametrize(
    ("given", "native", "told"),
    [
        ("stop", "MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
        ("tool_calls", "STOP", "tool_calls"),
        ("length", "MAX_TOKENS", "length"),
        ("content_filter", "length", "content_filter"),
        (None, "length", "length"),
        (None, "stop", None),
        ("stop", None, "stop"),
        (7, None, None),
    ],
)
def test_of_two_reasons_the_worse_one_counts(given: object, native: object, told: object) -> None:
    assert worst_finish_reason({"finish_reason": given, "native_finish_reason": native}) == told
