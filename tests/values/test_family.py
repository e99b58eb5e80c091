"""Families of named functions, and the sentence about a name that nobody knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.errors import ConfigError
from surecall.values.family import Family, canonical_name, suggestion_text, unknown_name_message
from tests.support.timing import steps


def shout(text: str) -> str:
    """Write in capitals.

    More about it.
    """
    return text if text.isupper() else text.upper()


def trim_blanks(text: str) -> str:
    return text if text == text.strip() else text.strip()


def family() -> Family[str]:
    made: Family[str] = Family("habit")
    made.register(shout)
    made.register(trim_blanks)
    return made


def test_members_are_known_by_the_names_of_their_functions_in_order() -> None:
    assert family().names == ("shout", "trim_blanks")


def test_registering_gives_the_function_back() -> None:
    made: Family[str] = Family("habit")

    assert made.register(shout) is shout


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ConfigError, match="a habit named 'shout' is already registered"):
        family().register(shout)


def test_the_first_line_of_a_docstring_is_the_help_text() -> None:
    assert family().help("Shout") == "Write in capitals."
    assert family().help("trim-blanks") == ""


def test_a_member_is_found_by_any_spelling() -> None:
    assert family()[" Trim-Blanks "] is trim_blanks


def test_names_are_checked_folded_and_kept_once() -> None:
    assert family().check(["TRIM-BLANKS", "shout", "trim_blanks"]) == ("trim_blanks", "shout")


@pytest.mark.parametrize("name", ["shoot", " Shoot", "SHO-UT"])
def test_an_unknown_member_is_an_error_with_a_guess(name: str) -> None:
    sentence = f'unknown habit "{name}"; did you mean "shout"?'

    for look in (family().help, family().__getitem__, lambda given: family().check([given])):
        with pytest.raises(ConfigError) as failure:
            look(name)
        assert str(failure.value) == sentence


def test_a_value_goes_through_the_members_and_those_that_changed_it_are_noted() -> None:
    fired: list[str] = []

    assert family().apply(("shout", "trim_blanks"), " A ", fired) == "A"
    assert fired == ["trim_blanks"]


def test_without_names_a_value_comes_back_itself() -> None:
    value = " A "

    assert family().apply((), value, []) is value


@given(st.text())
def test_folding_a_name_twice_changes_nothing(name: str) -> None:
    assert canonical_name(canonical_name(name)) == canonical_name(name)


def test_an_unknown_name_like_no_other_is_answered_with_all_of_them_in_order() -> None:
    assert unknown_name_message("fruit", "zzz", {"pear", "apple"}) == (
        'unknown fruit "zzz"; known: "apple", "pear"'
    )


def test_where_nothing_is_known_the_sentence_says_so() -> None:
    assert unknown_name_message("fruit", "x", ()) == 'unknown fruit "x"; none are available'


def test_a_suggestion_ignores_case_hyphens_and_blanks_but_keeps_the_spelling() -> None:
    assert suggestion_text(" RED-APPLE ", ["Red_Apple1"]) == 'did you mean "Red_Apple1"?'


def test_a_very_long_name_is_not_compared_for_long() -> None:
    def suggested(length: int) -> object:
        return suggestion_text("ab" * length, ["ba" * 30, "ab" * 30])

    assert steps(lambda: suggested(500_000)) <= 2 * steps(lambda: suggested(500))
