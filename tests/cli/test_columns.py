"""Columns: they fit, they stay aligned, and nothing is lost that a program would read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.cli.columns import (
    column_lines,
    remarked,
    rows_of,
    shortened,
    shorter,
    width_of,
    without,
)
from tests.support.terminals import assert_aligned, assert_fits, assert_whole

HEADS = ("name", "kind", "summary")
ROWS = (
    ("first", "a", "what it does, in a sentence that is long enough to be broken"),
    ("second_one", "-", ""),
)
WORDS = st.text("abcdefghij_", min_size=1, max_size=20)
SENTENCES = st.lists(WORDS, max_size=12).map(" ".join)


def test_columns_are_as_wide_as_their_longest_text() -> None:
    assert column_lines(("name", "note"), [("a", "x y"), ("longer", "")]) == [
        "name    note",
        "a       x y",
        "longer",
    ]


def test_sentences_are_broken_within_their_column() -> None:
    assert column_lines(HEADS, ROWS, 50) == [
        "name        kind  summary",
        "first       a     what it does, in a sentence that",
        "                  is long enough to be broken",
        "second_one  -",
    ]


def test_where_that_leaves_too_little_room_the_name_and_the_sentence_are_kept() -> None:
    rows = [(*row[:1], row[1] * 20, row[2]) for row in ROWS]

    assert column_lines(HEADS, rows, 50) == [
        "name        summary",
        "first       what it does, in a sentence that is",
        "            long enough to be broken",
        "    kind: aaaaaaaaaaaaaaaaaaaa",
        "second_one",
        "    kind: --------------------",
    ]


def test_without_sentences_the_columns_that_fit_are_kept() -> None:
    found = column_lines(("name", "one", "two"), [("n", "o" * 30, "t  t"), ("m", "-", "-")], 40)

    assert found == [f"name  {'one':30}".rstrip(), f"n     {'o' * 30}", "    two: t t", "m     -"]


def test_a_name_that_is_too_long_is_shortened() -> None:
    assert column_lines(("name", "one"), [("n" * 50, "o")], 40) == [
        "name",
        "n" * 39 + "…",
        "    one: o",
    ]
    assert shorter("short", 5) == "short"
    assert shorter("a\x1b[2J", 9) == "a\\x1b[2J"


@given(
    st.lists(st.tuples(WORDS, WORDS, SENTENCES), min_size=1, max_size=5),
    st.sampled_from([("name", "kind", "summary"), ("name", "kind", "other")]),
    st.integers(40, 120),
)
def test_whatever_is_in_them_they_fit_and_no_word_is_lost(
    rows: list[tuple[str, str, str]], heads: tuple[str, ...], width: int
) -> None:
    whole = "\n".join(column_lines(heads, rows))
    found = "\n".join(column_lines(heads, rows, width))

    assert_fits(found, width)
    assert_whole(found, whole)
    assert_whole(whole, found + " kind other summary -")
    assert_aligned(found)


def test_optional_columns_go_first_and_then_names_are_cut() -> None:
    columns = {"name": ["name", "n" * 30], "more": ["more", "m" * 10], "z": ["z", "l"]}

    assert width_of(columns) == 45
    assert [*without(columns, 45, ("more",))] == ["name", "more", "z"]
    assert [*without(columns, 40, ("more", "z"))] == ["name", "z"]
    assert shortened(columns, 40, ("name",))["name"][1] == "n" * 24 + "…"
    assert shortened(columns, 9, ("other", "name"))["name"][1] == "n" * 11 + "…"
    assert rows_of(without(columns, 9, ("more", "z"))) == ["name", "n" * 30]


@pytest.mark.parametrize("width", [None, 20])
def test_remarks_are_beside_their_lines_if_all_of_them_fit(width: int | None) -> None:
    assert remarked(["a", "bb"], ["x", ""], width) == ["a   x", "bb"]


def test_remarks_are_below_their_lines_if_one_does_not_fit() -> None:
    assert remarked(["a", "bb", "c"], ["x", "yyy zzz", ""], 9) == [
        "a",
        "    x",
        "bb",
        "    yyy",
        "    zzz",
        "c",
    ]
