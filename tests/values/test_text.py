"""Tests of `surecall.values.text`."""

import pytest

from surecall.values.text import (
    escape_html,
    html_entity,
    join_surrogates,
    occurrences,
    quantity,
    truncate,
    unescape_html,
)

# Operations on text that every layer shares


@pytest.mark.parametrize(
    ("torn", "whole"),
    [
        ("plain", "plain"),
        ("héllo 😀", "héllo 😀"),
        ("\ud83c\udf78", "🍸"),
        ("a\ud83c", "a\ufffd"),
        ("\udf78b", "\ufffdb"),
        ("\ufeff\ud83c", "\ufeff\ufffd"),
    ],
)
def test_surrogate_pairs_are_joined_and_a_lone_half_is_replaced(torn: str, whole: str) -> None:
    assert join_surrogates(torn) == whole


@pytest.mark.parametrize(("length", "shown"), [(79, 79), (80, 80), (81, 80), (500, 80)])
def test_a_truncated_text_has_at_most_the_limit_and_says_that_it_was_cut(
    length: int, shown: int
) -> None:
    text = truncate("x" * length, 80)

    assert (len(text), text.endswith("…")) == (shown, length > shown)


def test_every_occurrence_is_found_also_where_two_overlap() -> None:
    assert list(occurrences("aaab", "aa")) == [0, 1]
    assert list(occurrences("aaab", "c")) == []


@pytest.mark.parametrize(("number", "words"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_a_number_of_things_is_singular_only_for_one(number: int, words: str) -> None:
    assert quantity(number, "run") == words


# Entities of HTML: read, written, and looked up by name


@pytest.mark.parametrize("text", ["", "a < b", "a & b", '<x y="&lt;">', "&amp;gt;"])
def test_what_was_written_with_entities_is_read_without_them(text: str) -> None:
    assert unescape_html(escape_html(text)) == text


def test_a_text_without_an_ampersand_stays_the_same_object() -> None:
    text = "nothing to read here"

    assert unescape_html(text) is text


def test_an_entity_is_found_by_its_name_and_a_word_that_is_none_is_not() -> None:
    assert html_entity("gt;") == ">"
    assert html_entity("gadget;") is None
