"""What is shown of an answer with edges is the beginning of what is left of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.core.streaming.display import Display, Shown
from surecall.core.streaming.edges import Edges
from surecall.core.streaming.holdback import Holdback
from surecall.values.types import Reply
from surecall.wire.assembler import ReasoningDelta, TextDelta
from surecall.wire.text_edges import END_TOKENS, INVISIBLE, trimmed
from tests.support.displays import screen, withdrawals

BITS = st.sampled_from([*END_TOKENS, *INVISIBLE, "<", "<|im", "</s", " ", "\n", ".", "is", "Done"])


def shown(text: str, size: int = 1) -> list[Shown]:
    """Stream a text in pieces and show it."""
    events: list[Shown] = []
    display = Display(events.append, Edges(Holdback("off", strip_thinking=False)))
    for at in range(0, len(text), size):
        display.feed(TextDelta(text[at : at + size]))
    display.close(Reply(trimmed(text)))
    return events


@pytest.mark.parametrize("size", [1, 3, 50])
@given(st.lists(BITS | st.text(max_size=3), max_size=12).map("".join))
def test_nothing_is_withdrawn_and_the_screen_shows_the_final_text(size: int, text: str) -> None:
    events = shown(text, size)

    assert withdrawals(events) == []
    assert screen(events).strip() == trimmed(text).strip()


def test_text_is_shown_as_soon_as_it_is_no_edge() -> None:
    edges = Edges(Holdback("off", strip_thinking=False))

    pieces = ("\u200b", "Do", "ne.", "<|im_", "start|>", "<|im_end|>", "\u200b")
    assert [edges.feed(piece) for piece in pieces] == [
        [],
        [TextDelta("Do")],
        [TextDelta("ne.")],
        [],
        [TextDelta("<|im_start|>")],
        [],
        [],
    ]


def test_what_is_long_and_still_in_doubt_waits_for_the_end() -> None:
    long = "Done." + "\u200b" * 5000
    events = shown(f"{long}.", 500)

    assert screen(events) == f"{long}."
    assert events[0] == TextDelta("Done.")


def test_thoughts_pass() -> None:
    edges = Edges(Holdback("off"))

    assert edges.feed("<think>Hm, let me think about this.</think>\nDone.") == [
        ReasoningDelta("Hm, let me think about this."),
        TextDelta("Done."),
    ]
