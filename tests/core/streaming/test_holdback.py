# ruff: noqa: RUF001 (the wide bars are what models write)
"""What a stream shows: never a call, never reasoning as the answer, and always all of the text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import ToolRegistry, presets
from surecall.core.inbound import inbound
from surecall.core.streaming.display import CallAnnounced, Display, Shown
from surecall.core.streaming.holdback import Holdback, first_opener
from surecall.tools.registry import ToolDefinition
from surecall.values.types import JSON, Plan, Reply, ToolCall
from surecall.wire.assembler import ReasoningDelta, TextDelta
from surecall.wire.call_styles import TextCalls
from surecall.wire.dialects import WEAK_ROWS, WRITERS
from tests.support.displays import screen, withdrawals
from tests.support.paths import CORPUS

DIALECTS = CORPUS / "dialects"
NOTE: JSON = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = ToolRegistry([ToolDefinition("note", "Write.", parameters=NOTE)])
PROSE: list[Any] = json.loads((DIALECTS / "prose.json").read_text("utf-8"))
SHAPES: list[Any] = json.loads((DIALECTS / "shapes.json").read_text("utf-8"))


def displayed(text: str, size: int, mode: TextCalls, tools: ToolRegistry = TOOLS) -> list[Shown]:
    """Show a text that comes in pieces, and close it with the reply that it is."""
    shown: list[Shown] = []
    names = [definition.name for definition in tools.definitions]
    display = Display(shown.append, Holdback(mode, names))
    for at in range(0, len(text), size):
        display.feed(TextDelta(text[at : at + size]))
    display.close(reply_of(text, mode, tools))
    return shown


def reply_of(text: str, mode: TextCalls, tools: ToolRegistry = TOOLS) -> Reply:
    config = presets.default_tool_calling().replace(text_calls=mode)
    plan = Plan("m", (), tuple(definition.spec for definition in tools.definitions))
    body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    reply = inbound(body, plan, config, tools)
    assert isinstance(reply, Reply)
    return reply


def call(text: str = "x < y") -> ToolCall:
    return ToolCall("call_1", "note", {"text": text})


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("row", WRITERS)
def test_a_call_in_any_dialect_is_held_back(row: str, size: int) -> None:
    mode: TextCalls = "any" if row in WEAK_ROWS else "marked"
    text = WRITERS[row]((call(),), "I will write it down.\n")
    shown = displayed(text, size, mode)

    assert withdrawals(shown) == []
    assert screen(shown).strip() == reply_of(text, mode).text.strip()
    assert CallAnnounced(0, "note") in shown


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("prose", PROSE, ids=lambda prose: str(prose)[:30])
def test_text_that_only_talks_about_calls_is_shown_in_full(prose: Any, size: int) -> None:
    text = prose if isinstance(prose, str) else prose["text"]
    for mode in ("marked", "any"):
        shown = displayed(text, size, mode)
        assert screen(shown).strip() == reply_of(text, mode).text.strip()
        assert withdrawals(shown) == []


@pytest.mark.parametrize("text", ["a < b and c > d", "[1, 2]", "to be or not to be", "`code` here"])
def test_what_cannot_be_a_mark_any_more_is_let_go_at_once(text: str) -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("marked"))
    for char in f"{text} and more ":
        display.feed(TextDelta(char))

    assert screen(shown) == f"{text} and more"


@given(st.text(alphabet="<>[]{}|/tholinkc_`=\n ab◁▷｜«»", max_size=60), st.integers(1, 7))
def test_nothing_is_lost_or_doubled_whatever_is_said(text: str, size: int) -> None:
    for mode in ("off", "marked", "any"):
        shown = displayed(text, size, mode)
        kept = screen(shown)
        for text_back in withdrawals(shown):
            kept = kept.removeprefix(text_back)
        assert kept.strip() == reply_of(text, mode).text.strip()


def test_a_mark_in_inline_code_is_ruled_out_as_soon_as_the_code_ends() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("marked"))
    for char in "Write `<tool_call>` and `</tool_call>` around it, then ":
        display.feed(TextDelta(char))

    assert screen(shown) == "Write `<tool_call>` and `</tool_call>` around it, then"


def test_a_call_right_after_inline_code_is_held_back_whatever_ticks_it_holds() -> None:
    text = 'Like `ls`<tool_call>{"name": "note", "arguments": {"text": "run `ls`"}}</tool_call>'
    for size in (1, 7, 999):
        shown = displayed(text, size, "marked")
        assert (screen(shown), withdrawals(shown)) == ("Like `ls`", [])


def test_many_marks_in_one_piece_are_no_trouble() -> None:
    for piece in ("`<tool_call>` ", "<think>a</think>", "<b>", "a < b "):
        assert Holdback("marked").feed(piece * 5000)


def test_a_mark_after_a_tick_that_no_other_follows_is_held_back() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("marked"))
    display.feed(TextDelta("So `<tool_call>\n{"))

    assert screen(shown) == "So `"


@pytest.mark.parametrize("strip_thinking", [True, False])
def test_with_text_calls_off_only_thoughts_are_held_back(*, strip_thinking: bool) -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("off", strip_thinking=strip_thinking))
    display.feed(TextDelta("<think>so</think>Well <tool_call>"))

    assert screen(shown) == ("" if strip_thinking else "<think>so</think>") + "Well <tool_call>"


def test_thoughts_that_stay_in_the_text_are_shown_with_it() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("marked", strip_thinking=False))
    display.feed(TextDelta("<think>so</think>Well"))
    display.close(Reply("<think>so</think>Well"))

    assert screen(shown) == "<think>so</think>Well"


def test_thoughts_are_shown_as_such_until_they_end() -> None:
    shown = displayed("<think>so\nit goes</think> Yes <b>.", 1, "marked")

    assert screen(shown) == "Yes <b>."
    thoughts = "".join(event.text for event in shown if isinstance(event, ReasoningDelta))
    assert thoughts == "so\nit goes"


def test_a_line_that_may_be_a_call_without_a_mark_waits() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("any", ["note"]))
    display.feed(TextDelta('Well.\n{"name": "note", '))

    assert screen(shown) == "Well."


@pytest.mark.parametrize(
    "line", ["notes are fine.", "note that", "[link](here)", "`x` is", "<b>bold", "1. one"]
)
def test_a_line_that_cannot_be_a_call_does_not_wait(line: str) -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("any", ["note"]))
    display.feed(TextDelta(f"Well.\n{line} and so on"))

    assert screen(shown) == f"Well.\n{line} and so on"


def test_a_long_doubt_is_not_looked_into_again_and_again() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("any", ["note"]))
    for _ in range(3000):
        display.feed(TextDelta("{aa"))

    assert shown == []
    display.close(Reply("{aa" * 3000))
    assert screen(shown) == "{aa" * 3000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Plain.", -1),
        ("Plain <tool", 6),
        ("Plain <tool_call>", 6),
        ("a <｜DSML｜invoke", 2),
        ("a < | DS", 2),
        ("a < b", -1),
        ("a [TOOL_CALLS]", 2),
        ("<think>", 0),
    ],
)
def test_a_stream_is_held_back_from_the_first_opener_on(text: str, place: int) -> None:
    assert first_opener(text) == place
