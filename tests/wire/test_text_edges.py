"""The edges of an answer: what is trimmed, what stays, and what may still be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.wire.text_edges import (
    END_TOKENS,
    INVISIBLE,
    TRIMMED,
    says_nothing,
    speaks_at_once,
    trimmed,
)
from tests.support.steps import LINEAR, growth

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
    assert trimmed(text) == left


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
    assert trimmed(text) is text


@given(st.lists(JUNK, min_size=1).map("".join))
def test_edges_alone_say_nothing(text: str) -> None:
    assert says_nothing(text)
    assert not trimmed(text).strip()


@pytest.mark.parametrize("text", ["\u202e\u2066", "\u3164", "\x00\x1f", "\u2800 \u200e"])
def test_characters_that_show_nothing_say_nothing(text: str) -> None:
    assert says_nothing(text)
    assert trimmed(text) == ""


@given(st.text() | st.lists(JUNK | st.text(max_size=2)).map("".join))
def test_trimming_takes_from_the_edges_only(text: str) -> None:
    left = trimmed(text)

    assert left in text
    assert says_nothing(text) == says_nothing(left)
    assert left is text or len(left) < len(text)


@pytest.mark.parametrize("token", [*TRIMMED, "\u200b", " </s>", "<s></s>"])
def test_trimming_is_linear(token: str) -> None:
    assert growth(lambda size: trimmed("x" + token * size), 200) < LINEAR


@given(st.text() | st.lists(JUNK | st.text(max_size=2)).map("".join))
def test_what_speaks_at_once_says_something(text: str) -> None:
    assert not (speaks_at_once(text) and says_nothing(text))
    assert speaks_at_once(f"A{text}")
    assert not speaks_at_once("")
