"""The filter language and the strict reading of tables, seen from outside."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.settings.catalog import (
    check_names,
    check_unique,
    glob_matches,
    matches_any,
    merge_tables,
    parse_entries,
    parse_tables,
    read_packaged,
    select,
)
from surecall.values.errors import ConfigError
from surecall.values.family import suggestion_text
from tests.support.spec import proves

FRUIT = {
    "apple/red:sweet": ("apple", "round"),
    "apple/green:sour": ("apple", "round", "sour"),
    "pear/long": ("pear",),
    "lemon/yellow": ("lemon", "sour"),
}


class Thing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of a made-up table."""

    id: str
    size: int = 0


def pick(expression: str) -> list[str]:
    return list(select(list(FRUIT), expression, lambda name: (name, *FRUIT[name])))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("pear", "pear/long", id="tag"),
        pytest.param("PEAR/Long", "pear/long", id="any-case"),
        pytest.param(" lemon , ,pear,", "pear/long lemon/yellow", id="blanks-and-own-order"),
        pytest.param("apple*sweet", "apple/red:sweet", id="glob-crosses-separators"),
        pytest.param("apple,!sour", "apple/red:sweet", id="exclusion"),
        pytest.param("!apple", "pear/long lemon/yellow", id="only-exclusions"),
        pytest.param("! round, !LEMON", "pear/long", id="exclusion-with-blank-and-case"),
        pytest.param("lemon,!pear", "lemon/yellow", id="exclusion-of-something-unpicked"),
        pytest.param("!*/l*", "apple/red:sweet apple/green:sour lemon/yellow", id="glob-exclusion"),
    ],
)
def test_a_filter_picks_by_name_and_keeps_the_order_of_the_items(
    expression: str, expected: str
) -> None:
    assert pick(expression) == expected.split()


@proves("I25")
@pytest.mark.parametrize("word", ["all", "FULL", "*"])
def test_everything_can_be_asked_for_and_exclusions_still_apply(word: str) -> None:
    assert pick(word) == list(FRUIT)
    assert pick(f"{word},!apple") == ["pear/long", "lemon/yellow"]
    assert pick(f"!apple,{word}") == ["pear/long", "lemon/yellow"]


@proves("I25")
@pytest.mark.parametrize("expression", ["", "  ", ",", " , ,"])
def test_an_empty_filter_is_an_error_and_never_everything(expression: str) -> None:
    with pytest.raises(ConfigError, match="the filter is empty; use `all`"):
        pick(expression)


@pytest.mark.parametrize("expression", ["pear,!pear", "!all", "all,!*", "apple,!round"])
def test_a_filter_that_leaves_nothing_is_an_error(expression: str) -> None:
    with pytest.raises(ConfigError, match="selects nothing"):
        pick(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param("aple", 'nothing is named "aple"; did you mean "apple"', id="typo"),
        pytest.param("all,!Lemmon", '"Lemmon"; did you mean "lemon"', id="excluded-typo"),
        pytest.param("pear,pear/lng", '"pear/lng"; did you mean "pear/long"', id="second-token"),
        pytest.param("lemmon*", r'"lemmon\*"; did you mean "lemon"', id="glob"),
        pytest.param("pear,!!pear", '"!pear"; did you mean "pear"', id="double-negation"),
        pytest.param("pear,!", '"".*; known: ', id="nothing-after-the-mark"),
        pytest.param("[ap]*", "nothing is named", id="brackets-are-not-special"),
        pytest.param("pea?", "nothing is named", id="question-marks-are-not-special"),
    ],
)
def test_a_token_that_matches_nothing_is_named_with_the_nearest_names(
    expression: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        pick(expression)


def test_a_token_like_no_name_is_answered_with_one_name_of_each_item() -> None:
    with pytest.raises(ConfigError) as failure:
        pick("zzz")

    listed = ", ".join(f'"{name}"' for name in FRUIT)
    assert str(failure.value) == f'nothing is named "zzz"; known: {listed}'


def test_nothing_can_be_picked_from_nothing() -> None:
    with pytest.raises(ConfigError, match='"all"; none are available'):
        select([], "all", lambda name: (name,))


def test_an_item_without_names_is_reached_by_everything_alone() -> None:
    assert select([1, 2], "all", lambda _: ()) == (1, 2)
    with pytest.raises(ConfigError, match="none are available"):
        select([1, 2], "one", lambda _: ())


def test_a_long_list_of_known_names_is_cut() -> None:
    hint = suggestion_text("zzz", map(str, range(31)))

    assert hint.endswith('"29", …')
    assert not suggestion_text("zzz", map(str, range(30))).endswith("…")


def test_at_most_three_names_are_suggested_in_their_own_spelling() -> None:
    assert suggestion_text("APPLX", ["Apple1", "Apple2", "Apple3", "Apple4"]).count("Apple") == 3


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a", "a", True),
        ("a", "A", False),
        ("a", "ab", False),
        ("", "", True),
        ("*", "", True),
        ("*", "a/b:c", True),
        ("a*", "a", True),
        ("a*", "ba", False),
        ("*a", "ba", True),
        ("*a", "ab", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c", False),
        ("a*bc*c", "abc", False),
        ("*b*b*", "ab", False),
        ("*b*b*", "abb", True),
        ("a**b", "ab", True),
        ("a.c", "abc", False),
        ("[a]", "a", False),
        ("qwen/qwen3-*", "qwen/qwen3-30b:nitro", True),
        ("Qwen/*", "qwen/qwen3-30b", False),
    ],
)
def test_only_the_star_is_special_in_a_glob(pattern: str, text: str, *, expected: bool) -> None:
    assert glob_matches(pattern, text) is expected


def backtracking(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(backtracking(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return text[:1] == pattern[0] and backtracking(pattern[1:], text[1:])


@given(st.text("ab*", max_size=7), st.text("ab", max_size=7))
def test_a_glob_agrees_with_trying_every_possibility(pattern: str, text: str) -> None:
    assert glob_matches(pattern, text) is backtracking(pattern, text)


def test_a_name_matches_whatever_its_case() -> None:
    assert matches_any("QWEN*", ["other", "qwen/qwen3"])
    assert matches_any("qwen", ["Qwen"])
    assert not matches_any("qwen", ["qwen3", "q"])
    assert not matches_any("qwen", [])


def test_entries_are_read_in_order_and_a_missing_table_is_empty() -> None:
    document = parse_tables('[[thing]]\nid = "a"\n[[thing]]\nid = "b"\nsize = 2', ("thing", "x"))

    assert parse_entries(document, "thing", Thing) == (Thing("a"), Thing("b", 2))
    assert parse_entries(document, "x", Thing) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("thing = ", "not valid TOML", id="syntax"),
        pytest.param("[[thin]]", 'unknown table "thin"; did you mean "thing"', id="table"),
        pytest.param('thing = "a"', r"write \[\[thing\]\]", id="not-an-array"),
        pytest.param('thing = ["a"]', "thing 1: Expected `object`", id="not-a-table"),
        pytest.param("[[thing]]", "thing 1: .*missing required field `id`", id="no-id"),
        pytest.param(
            '[[thing]]\nid = "a"\n[[thing]]\nid = "b"\nsze = 1',
            r'thing 2 \("b"\): .*unknown field `sze`',
            id="unknown-key",
        ),
        pytest.param(
            '[[thing]]\nid = "a"\nsize = "1"', r'thing 1 \("a"\): .*`int`, got `str`', id="type"
        ),
    ],
)
def test_a_bent_table_is_refused_and_the_entry_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_entries(parse_tables(text, ("thing",)), "thing", Thing)


def test_a_later_entry_replaces_in_place_and_a_new_one_follows() -> None:
    first, second = [Thing("a"), Thing("b")], [Thing("c"), Thing("a", 1)]

    together = merge_tables(first, second, lambda thing: thing.id)

    assert together == (Thing("a", 1), Thing("b"), Thing("c"))


def test_two_entries_of_one_name_are_refused() -> None:
    check_unique(["a", "b"], str)
    with pytest.raises(ConfigError, match='"a" is defined twice'):
        check_unique(["a", "b", "a"], str)


@pytest.mark.parametrize("name", ["", " ", "a ", " a", "!a", "a,b", "all", "Full", "*"])
def test_a_name_that_no_filter_could_address_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="invalid name"):
        check_names(["fine", name])


def test_ordinary_names_can_be_addressed() -> None:
    check_names(["a", "a/b:c", "all_of_it", "wow!"])


def test_the_package_brings_its_data() -> None:
    assert read_packaged("models.toml").startswith("# The model catalog.")
