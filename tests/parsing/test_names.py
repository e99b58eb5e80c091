"""Tests of `surecall.parsing.names`."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.parsing.names import (
    bare_spellings,
    fold_name,
    is_control_token,
    is_legal_name,
    is_noise,
    legalized_name,
    nearest_names,
    spellings,
    strip_control_tokens,
    strip_first_token,
    strip_last_token,
)
from tests.support.timing import LINEAR, growth

# Tool names as models write them: which spellings count, and which must never match


LEGAL = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=64)
KELVIN, LONG_S, FULLWIDTH_A = "\u212a", "\u017f", "\uff21"


@pytest.mark.parametrize("name", ["a", "state_get", "State-Get2", "_", "-", "x" * 64])
def test_letters_digits_underscore_and_hyphen_are_legal(name: str) -> None:
    assert is_legal_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 65,
        "a\n",
        " a",
        "a b",
        "a.b",
        "a/b",
        "a:b",
        "é",
        KELVIN,
        FULLWIDTH_A,
        "a\u200b",
        "٣",
    ],
)
def test_everything_else_is_illegal(name: str) -> None:
    assert not is_legal_name(name)


def test_folding_ignores_ascii_case_and_the_kind_of_separator() -> None:
    assert fold_name("State-Get.ALL_9") == "state_get_all_9"


@pytest.mark.parametrize(
    ("name", "like"),
    [(KELVIN, "k"), (LONG_S, "s"), (FULLWIDTH_A, "a"), ("a\u200b", "a"), ("É", "é"), ("İ", "i")],
)
def test_folding_leaves_letters_beyond_ascii_alone(name: str, like: str) -> None:
    assert fold_name(name) == name
    assert fold_name(name) != fold_name(like)


@given(st.text())
def test_folding_twice_is_folding_once_and_keeps_the_length(name: str) -> None:
    assert fold_name(fold_name(name)) == fold_name(name)
    assert len(fold_name(name)) == len(name)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param("view", ("view",), id="clean"),
        pytest.param(" view\r\n\t", ("view",), id="blanks"),
        pytest.param("\u00a0view", ("\u00a0view",), id="blanks-beyond-ascii-stay"),
        pytest.param("functions.view", ("functions.view", "view"), id="functions-dot"),
        pytest.param("functions:view", ("functions:view", "view"), id="functions-colon"),
        pytest.param("function.view", ("function.view", "view"), id="function"),
        pytest.param("tools.view", ("tools.view", "view"), id="tools"),
        pytest.param("tool.view", ("tool.view", "view"), id="tool"),
        pytest.param("default_api.view", ("default_api.view", "view"), id="default-api-dot"),
        pytest.param("default_api:view", ("default_api:view", "view"), id="default-api-colon"),
        pytest.param("google:view", ("google:view", "view"), id="google"),
        pytest.param("creating: view", ("creating: view", "view"), id="creating"),
        pytest.param(
            "view<|channel|>commentary", ("view<|channel|>commentary", "view"), id="control-token"
        ),
        pytest.param(
            "functions.view <|a|><|b|>",
            ("functions.view <|a|><|b|>", "view <|a|><|b|>", "functions.view", "view"),
            id="prefix-and-control-token",
        ),
        pytest.param("view<|channel|>x", ("view<|channel|>x",), id="unknown-channel"),
        pytest.param("functions.", ("functions.",), id="only-a-prefix"),
        pytest.param("<|channel|>view", ("<|channel|>view",), id="only-a-control-token"),
        pytest.param("Functions.view", ("Functions.view",), id="prefixes-are-exact"),
        pytest.param(
            "functions.functions.view",
            ("functions.functions.view", "functions.view"),
            id="one-prefix-only",
        ),
        pytest.param("tool:execute_terminal", ("tool:execute_terminal",), id="unknown-prefix"),
        pytest.param(
            "google:tool:shell:index:0",
            ("google:tool:shell:index:0", "tool:shell:index:0"),
            id="nothing-is-found-inside",
        ),
        pytest.param("", (), id="nothing"),
        pytest.param(" \n", (), id="blank"),
    ],
)
def test_spellings_are_the_text_and_then_the_text_without_known_noise(
    asked: str, expected: tuple[str, ...]
) -> None:
    assert spellings(asked) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param("view()", ("view",), id="empty-parentheses"),
        pytest.param("view(x)", ("view(x)",), id="parentheses-with-arguments"),
        pytest.param("functions.view:0", ("functions.view", "view"), id="number"),
        pytest.param("view:\u0663", ("view:\u0663",), id="a-number-beyond-ascii"),
        pytest.param("view[ARGS]", ("view",), id="separator"),
        pytest.param("[TOOL_CALLS]view", ("view",), id="opener"),
        pytest.param("view\n<tool_sep>", ("view",), id="line-and-token"),
        pytest.param("view</tool_call>", ("view",), id="closing-tag"),
        pytest.param("view<|im_end|>()", ("view",), id="two-layers"),
        pytest.param('"view"', ("view",), id="quotation-marks"),
        pytest.param("`view", ("`view",), id="half-a-quotation"),
        pytest.param(
            "<|start|>assistant<|channel|>commentary to=functions.view<|constrain|>json",
            ("functions.view", "view"),
            id="harmony-header",
        ),
        pytest.param("a sentence to=view", ("a sentence to=view",), id="words-before-a-recipient"),
        pytest.param("<|channel|>view", (), id="a-channel"),
        pytest.param("view<path>", ("view<path>",), id="a-tag-that-opens-something"),
        pytest.param("view\u200b", ("view\u200b",), id="nothing-beyond-ascii"),
        pytest.param('view<|m|>{"a":1}', ('view<|m|>{"a":1}',), id="arguments-behind"),
        pytest.param("view" * 200, (), id="endless"),
        pytest.param("", (), id="nothing"),
    ],
)
def test_bare_spellings_have_lost_what_is_no_part_of_a_name(
    asked: str, expected: tuple[str, ...]
) -> None:
    assert bare_spellings(asked) == expected


@given(LEGAL)
def test_a_legal_name_has_one_spelling_and_stands_for_itself(name: str) -> None:
    assert spellings(name) == bare_spellings(name) == (name,)
    assert legalized_name(name) == name


@given(st.text())
def test_spellings_are_distinct_parts_of_what_was_asked(asked: str) -> None:
    for found in (spellings(asked), bare_spellings(asked)):
        assert len(set(found)) == len(found)
        assert all(spelling and spelling in asked for spelling in found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.b c/d:é", "a_b_c_d__"),
        (" view\n", "view"),
        ("x" * 100, "x" * 64),
        ("", "unknown_tool"),
        (" \t", "unknown_tool"),
        ("read<arg_key>", "read_arg_key_"),
    ],
)
def test_an_illegal_name_gets_a_legal_stand_in(name: str, expected: str) -> None:
    assert legalized_name(name) == expected


@given(st.text(st.characters()))
def test_every_stand_in_is_legal(name: str) -> None:
    assert is_legal_name(legalized_name(name))


def test_the_nearest_names_come_best_first_and_as_they_are_registered() -> None:
    names = ["State-Patch", "state_get", "state_set", "unrelated"]

    assert nearest_names("state.gett", names) == ("state_get", "state_set", "State-Patch")
    assert nearest_names("state.gett", names, limit=1) == ("state_get",)
    assert nearest_names(" STATE_PATCHES", names)[0] == "State-Patch"


def test_names_that_fold_alike_are_all_offered() -> None:
    assert nearest_names("state_get", ["state.get", "State_Get"]) == ("state.get", "State_Get")


def test_no_more_names_are_offered_than_wanted() -> None:
    names = [f"tool_{n}" for n in range(9)]

    assert [len(nearest_names("tool", names, limit)) for limit in (3, 1, 0, -1)] == [3, 1, 0, 0]


@pytest.mark.parametrize("asked", ["", "zzz", "\ud800"])
def test_nothing_is_offered_when_nothing_is_near(asked: str) -> None:
    assert nearest_names(asked, ["state_get", "state_patch"]) == ()


def test_only_the_beginning_of_an_endless_name_is_compared() -> None:
    assert nearest_names("state_get" * 200_000, ["state_get_" * 6, "other"]) == ("state_get_" * 6,)


# Control tokens: what has their form, and how they come off a text


# ruff: noqa: RUF001 (the wide bars are what models write)


TOKENS = [
    *("<|im_end|>", "<｜tool▁call▁end｜>", "<turn|>", "<|tool_call>", '<|"|>', "<|tool_call:end|>"),
    *("</s>", "</tool_call>", "</minimax:tool_call>", "[/TOOL_CALLS]", "[ARGS]"),
    *("<end_of_turn>", "<eos>", "<tool_sep>"),
]


@pytest.mark.parametrize("mark", TOKENS)
def test_a_token_is_known_by_its_form(mark: str) -> None:
    assert is_control_token(mark)
    assert strip_control_tokens(f"\u200b{mark} x {mark}\n{mark}\ufeff") == "x"


@pytest.mark.parametrize(
    "mark",
    [
        *("", "<", "<>", "</>", "[]", "[/]", "[A]", "[a]", "[1]", "[AB", "<path>", "<tool_call>"),
        *("<a|b>", "<|a{b|>", "x", "<|im_end|", "</a b>"),
    ],
)
def test_anything_else_is_none(mark: str) -> None:
    assert not is_control_token(mark)
    assert not is_noise(mark) or mark == ""


def test_a_token_of_more_than_64_characters_is_none() -> None:
    long = f"<|{'x' * 80}|>"

    assert strip_control_tokens(f"a{long}") == f"a{long}"
    assert strip_control_tokens(f"{long}a") == f"{long}a"


def test_noise_may_hold_words_that_are_named() -> None:
    assert is_noise("<|channel|>commentary <|constrain|>json", frozenset({"commentary", "json"}))
    assert not is_noise("<|channel|>commentary", frozenset({"json"}))
    assert is_noise("} ]<|call|>}", frozenset("}]"))


def test_tokens_come_off_one_by_one_from_either_end() -> None:
    assert strip_last_token("[ARGS]x<|a|></s>") == "[ARGS]x<|a|>"
    assert strip_first_token("[ARGS]x<|a|></s>") == "x<|a|></s>"
    assert strip_last_token("x") == strip_first_token("x") == "x"
    assert strip_last_token("") == strip_first_token("") == ""


@given(st.lists(st.sampled_from([*TOKENS, " ", "<", "[", ">", "]", "a", "|"])).map("".join))
def test_what_is_left_is_a_part_of_the_text_and_the_rest_is_noise(text: str) -> None:
    inside = strip_control_tokens(text)
    starts = [at for at in range(len(text) + 1) if text.startswith(inside, at)]

    assert any(is_noise(text[:at]) and is_noise(text[at + len(inside) :]) for at in starts)
    assert strip_control_tokens(inside) == inside


@pytest.mark.parametrize("unit", [*TOKENS, "<", "[", "<|", ">", "|>", "]", " "])
def test_many_tokens_take_linear_time(unit: str) -> None:
    assert growth(lambda size: strip_control_tokens(unit * (size // len(unit))), 2_000) < LINEAR
    assert growth(lambda size: is_noise(unit * (size // len(unit))), 2_000) < LINEAR
