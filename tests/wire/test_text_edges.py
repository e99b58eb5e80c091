"""The edges of an answer: what is trimmed, what stays, and what may still be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.wire.text_edges import (
    END_TOKENS,
    INVISIBLE,
    TRIMMED_TOKENS,
    is_without_content,
    starts_with_content,
    trim_edges,
)
from tests.support.timing import LINEAR, growth

JUNK = st.sampled_from([*END_TOKENS, *INVISIBLE, " ", "\n"])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Done.<|im_end|>", "Done."),
        ("Done.<|IM_END|>\n", "Done."),
        ("Done. </s>", "Done."),
        ("Done\n\n<|eot_id|><|eot_id|>\u200b", "Done"),
        ("\ufeffDone.", "Done."),
        ("<|im_end|>\nDone.", "Done."),
        ("<|im_end|>Done.", "Done."),
        (" \u200b Done. ", "Done. "),
        ("Done.\n\u200b\n", "Done."),
    ],
)
def test_edges_are_trimmed(text: str, left: str) -> None:
    assert trim_edges(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        " Done.\n",
        "Qwen ends a turn with <|im_end|>",
        "The token is:\n<|im_end|>",
        "<|im_end|> is how Qwen ends a turn.",
        "`<|im_end|>`",
        "a<|im_end|>b",
        "It costs <s>10</s>",
        "family \U0001f468\u200d\U0001f469 here",
        "<im_end>",
        "\n",
        "",
    ],
)
def test_what_belongs_to_the_answer_stays_the_same_object(text: str) -> None:
    assert trim_edges(text) is text


@given(st.lists(JUNK, min_size=1).map("".join))
def test_edges_alone_say_nothing(text: str) -> None:
    assert is_without_content(text)
    assert not trim_edges(text).strip()


@pytest.mark.parametrize("text", ["\u202e\u2066", "\u3164", "\x00\x1f", "\u2800 \u200e"])
def test_characters_that_show_nothing_say_nothing(text: str) -> None:
    assert is_without_content(text)
    assert trim_edges(text) == ""


@given(st.text() | st.lists(JUNK | st.text(max_size=2)).map("".join))
def test_trimming_takes_from_the_edges_only(text: str) -> None:
    left = trim_edges(text)

    assert left in text
    assert is_without_content(text) == is_without_content(left)
    assert left is text or len(left) < len(text)


@pytest.mark.parametrize("token", [*TRIMMED_TOKENS, "\u200b", " </s>", "<s></s>"])
def test_trimming_is_linear(token: str) -> None:
    assert growth(lambda size: trim_edges("x" + token * size), 200) < LINEAR


@given(st.text() | st.lists(JUNK | st.text(max_size=2)).map("".join))
def test_what_speaks_at_once_says_something(text: str) -> None:
    assert not (starts_with_content(text) and is_without_content(text))
    assert starts_with_content(f"A{text}")
    assert not starts_with_content("")
