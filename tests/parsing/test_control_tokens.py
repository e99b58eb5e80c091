# ruff: noqa: RUF001 (the wide bars are what models write)
"""Control tokens: what has their form, and how they come off a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.parsing.control_tokens import (
    is_control_token,
    is_noise,
    without_control_tokens,
    without_first_token,
    without_last_token,
)
from tests.support.steps import LINEAR, growth

TOKENS = [
    *("<|im_end|>", "<｜tool▁call▁end｜>", "<turn|>", "<|tool_call>", '<|"|>', "<|tool_call:end|>"),
    *("</s>", "</tool_call>", "</minimax:tool_call>", "[/TOOL_CALLS]", "[ARGS]"),
    *("<end_of_turn>", "<eos>", "<tool_sep>"),
]


@pytest.mark.parametrize("mark", TOKENS)
def test_a_token_is_known_by_its_form(mark: str) -> None:
    assert is_control_token(mark)
    assert without_control_tokens(f"\u200b{mark} x {mark}\n{mark}\ufeff") == "x"


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

    assert without_control_tokens(f"a{long}") == f"a{long}"
    assert without_control_tokens(f"{long}a") == f"{long}a"


def test_noise_may_hold_words_that_are_named() -> None:
    assert is_noise("<|channel|>commentary <|constrain|>json", frozenset({"commentary", "json"}))
    assert not is_noise("<|channel|>commentary", frozenset({"json"}))
    assert is_noise("} ]<|call|>}", frozenset("}]"))


def test_tokens_come_off_one_by_one_from_either_end() -> None:
    assert without_last_token("[ARGS]x<|a|></s>") == "[ARGS]x<|a|>"
    assert without_first_token("[ARGS]x<|a|></s>") == "x<|a|></s>"
    assert without_last_token("x") == without_first_token("x") == "x"
    assert without_last_token("") == without_first_token("") == ""


@given(st.lists(st.sampled_from([*TOKENS, " ", "<", "[", ">", "]", "a", "|"])).map("".join))
def test_what_is_left_is_a_part_of_the_text_and_the_rest_is_noise(text: str) -> None:
    inside = without_control_tokens(text)
    starts = [at for at in range(len(text) + 1) if text.startswith(inside, at)]

    assert any(is_noise(text[:at]) and is_noise(text[at + len(inside) :]) for at in starts)
    assert without_control_tokens(inside) == inside


@pytest.mark.parametrize("unit", [*TOKENS, "<", "[", "<|", ">", "|>", "]", " "])
def test_many_tokens_take_linear_time(unit: str) -> None:
    assert growth(lambda size: without_control_tokens(unit * (size // len(unit))), 2_000) < LINEAR
    assert growth(lambda size: is_noise(unit * (size // len(unit))), 2_000) < LINEAR
