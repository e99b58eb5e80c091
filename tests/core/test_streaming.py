"""Tests of `surecall.core.streaming`."""

import itertools
import json
import random
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import ToolRegistry, presets
from surecall.core.reply_parsing import parse_reply
from surecall.core.streaming import (
    CallAnnounced,
    DisplayDelta,
    EdgeFilter,
    MarkFilter,
    ReplyDisplay,
    ResponseReader,
    TextWithdrawn,
    first_opener,
)
from surecall.tools.registry import ToolDefinition
from surecall.values.errors import ErrorCode, Fault, ProviderError
from surecall.values.types import JSON, Plan, Reply, ToolCall
from surecall.wire.assembler import Assembler, CallDelta, Delta, ReasoningDelta, TextDelta
from surecall.wire.call_styles import TextCalls
from surecall.wire.dialects import WEAK_ROWS, WRITERS
from surecall.wire.text_edges import END_TOKENS, INVISIBLE, trim_edges
from tests.support.project_files import CORPUS
from tests.support.replies import RECORDED, recorded
from tests.support.telemetry import screen, withdrawals

# What a stream shows: never a call, never reasoning as the answer, and always all of the text


# ruff: noqa: RUF001 (the wide bars are what models write)


DIALECTS = CORPUS / "dialects"
NOTE: JSON = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = ToolRegistry([ToolDefinition("note", "Write.", parameters=NOTE)])
PROSE: list[Any] = json.loads((DIALECTS / "prose.json").read_text("utf-8"))
SHAPES: list[Any] = json.loads((DIALECTS / "shapes.json").read_text("utf-8"))


def displayed(
    text: str, size: int, mode: TextCalls, tools: ToolRegistry = TOOLS
) -> list[DisplayDelta]:
    """Show a text that comes in pieces, and close it with the reply that it is."""
    shown: list[DisplayDelta] = []
    names = [definition.name for definition in tools.definitions]
    display = ReplyDisplay(shown.append, MarkFilter(mode, names))
    for at in range(0, len(text), size):
        display.feed(TextDelta(text[at : at + size]))
    display.close(reply_of(text, mode, tools))
    return shown


def reply_of(text: str, mode: TextCalls, tools: ToolRegistry = TOOLS) -> Reply:
    config = presets.default_tool_calling().replace(text_calls=mode)
    plan = Plan("m", (), tuple(definition.spec for definition in tools.definitions))
    body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    reply = parse_reply(body, plan, config, tools)
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
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("marked"))
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
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("marked"))
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
        assert MarkFilter("marked").feed(piece * 5000)


def test_a_mark_after_a_tick_that_no_other_follows_is_held_back() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("marked"))
    display.feed(TextDelta("So `<tool_call>\n{"))

    assert screen(shown) == "So `"


@pytest.mark.parametrize("strip_thinking", [True, False])
def test_with_text_calls_off_only_thoughts_are_held_back(*, strip_thinking: bool) -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("off", strip_thinking=strip_thinking))
    display.feed(TextDelta("<think>so</think>Well <tool_call>"))

    assert screen(shown) == ("" if strip_thinking else "<think>so</think>") + "Well <tool_call>"


def test_thoughts_that_stay_in_the_text_are_shown_with_it() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("marked", strip_thinking=False))
    display.feed(TextDelta("<think>so</think>Well"))
    display.close(Reply("<think>so</think>Well"))

    assert screen(shown) == "<think>so</think>Well"


def test_thoughts_are_shown_as_such_until_they_end() -> None:
    shown = displayed("<think>so\nit goes</think> Yes <b>.", 1, "marked")

    assert screen(shown) == "Yes <b>."
    thoughts = "".join(event.text for event in shown if isinstance(event, ReasoningDelta))
    assert thoughts == "so\nit goes"


def test_a_line_that_may_be_a_call_without_a_mark_waits() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("any", ["note"]))
    display.feed(TextDelta('Well.\n{"name": "note", '))

    assert screen(shown) == "Well."


@pytest.mark.parametrize(
    "line", ["notes are fine.", "note that", "[link](here)", "`x` is", "<b>bold", "1. one"]
)
def test_a_line_that_cannot_be_a_call_does_not_wait(line: str) -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("any", ["note"]))
    display.feed(TextDelta(f"Well.\n{line} and so on"))

    assert screen(shown) == f"Well.\n{line} and so on"


def test_a_long_doubt_is_not_looked_into_again_and_again() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("any", ["note"]))
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


# Listening: an answer is read the same way however it is cut, and whatever it claims to be


HELLO = b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n'
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def heard(pieces: list[bytes], **given: Any) -> tuple[Any, list[Delta]]:
    listener = ResponseReader(Assembler(**given))
    deltas = [delta for piece in pieces for delta in listener.feed(piece)] + listener.close()
    return listener.finish(), joined(deltas)


def joined(deltas: list[Delta]) -> list[Delta]:
    """Join texts that follow each other; where they are cut is the network's business."""
    together: list[Delta] = []
    for delta in deltas:
        last = together[-1] if together else None
        if isinstance(delta, TextDelta) and isinstance(last, TextDelta):
            together[-1] = TextDelta(last.text + delta.text)
        else:
            together.append(delta)
    return together


def split(data: bytes, *places: int) -> list[bytes]:
    return [data[start:end] for start, end in itertools.pairwise((0, *places, len(data)))]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_every_single_cut_and_single_bytes_and_random_parts_give_one_answer(name: str) -> None:
    stream, expected = recorded(name)
    given = expected.get("given", {})
    whole = heard([stream], **given)
    generator = random.Random(name)  # noqa: S311  # no secret

    assert heard([bytes([byte]) for byte in stream], **given) == whole
    for place in range(1, len(stream)):
        assert heard(split(stream, place), **given) == whole
    for _ in range(20):
        places = sorted(generator.sample(range(1, len(stream)), min(7, len(stream) - 1)))
        assert heard(split(stream, *places), **given) == whole


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": []}',
        b'\xef\xbb\xbf \r\n{"choices": []}',
        b"[1]",
        b"<html>no</html>",
        b"Service unavailable",
        b"",
        b" \n ",
    ],
)
def test_a_body_that_is_no_stream_is_handed_back_as_it_came(body: bytes) -> None:
    assert heard([body]) == (body, [])
    assert heard([bytes([byte]) for byte in body]) == (body, [])


@pytest.mark.parametrize("lead", [b"", b"\n", b"\xef\xbb\xbf", b": hello\n\n", b"retry: 5\n"])
def test_a_stream_is_known_by_how_it_begins(lead: bytes) -> None:
    body, deltas = heard([lead + HELLO + STOP])

    assert body["choices"][0]["message"]["content"] == "Hi"
    assert deltas == [TextDelta("Hi")]


def test_the_body_of_an_error_is_never_read_as_a_stream() -> None:
    listener = ResponseReader(Assembler(), is_plain=True)

    assert listener.feed(HELLO) == []
    assert listener.finish() == HELLO


def test_what_follows_the_end_mark_changes_nothing() -> None:
    listener = ResponseReader(Assembler())
    listener.feed(HELLO + STOP)

    assert listener.is_complete
    assert listener.feed(HELLO) == []
    body: Any = listener.finish()
    assert body["choices"][0]["message"]["content"] == "Hi"


def test_a_last_block_without_its_blank_line_counts() -> None:
    body, _ = heard([HELLO + STOP.rstrip()])

    assert body["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("begin", [b"{", b"data: "])
def test_neither_a_stream_nor_a_body_outgrows_the_limit(begin: bytes) -> None:
    listener = ResponseReader(Assembler(), max_bytes=1000)

    with pytest.raises(ProviderError) as refusal:
        deque(map(listener.feed, (begin, *[b"x" * 50] * 200)), maxlen=0)
    assert refusal.value.fault.code is ErrorCode.RESPONSE_TOO_LARGE


def test_a_fault_in_a_stream_is_the_outcome() -> None:
    fault, _ = heard([HELLO, b'event: error\ndata: {"error":{"message":"busy","code":503}}\n\n'])

    assert isinstance(fault, Fault)
    assert fault.retryable


def test_the_size_of_an_answer_is_that_of_what_it_says() -> None:
    stream, plain = ResponseReader(Assembler()), ResponseReader(Assembler())
    stream.feed(b": a comment\n\n" + HELLO + STOP + HELLO)
    plain.feed(b"{}")

    assert stream.size == len(HELLO) + len(STOP) - 3 * len("data: \n\n")
    assert plain.size == 2


# What is shown of a reply: announced once, taken back when it does not count, never doubled


def test_a_fault_takes_back_what_was_shown() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("marked"))
    display.feed(TextDelta("Half an ans"))
    display.close(Fault(ErrorCode.CONNECTION_ERROR, "gone"))

    assert withdrawals(shown) == ["Half an ans"]


def test_a_fault_before_any_text_takes_nothing_back() -> None:
    shown: list[DisplayDelta] = []
    ReplyDisplay(shown.append, MarkFilter("marked")).close(
        Fault(ErrorCode.CONNECTION_ERROR, "gone")
    )

    assert shown == []


def test_a_call_is_announced_once_and_not_before_it_has_a_name() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("marked"), frozenset({"note"}))
    for delta in (CallDelta(0, "", 0), CallDelta(0, "no", 0), CallDelta(0, "note", 9)):
        display.feed(delta)
    display.close(Reply("", (call(),)))

    assert shown == [CallAnnounced(0, "note")]


def test_a_reply_that_goes_on_from_what_was_shown_shows_only_the_rest() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("off"))
    display.feed(TextDelta("It is "))
    display.close(Reply("It is 3."))

    assert (screen(shown), withdrawals(shown)) == ("It is 3.", [])


def test_a_reply_that_reads_otherwise_takes_the_place_of_what_was_shown() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("off"))
    for text in ("It is ", "four."):
        display.feed(TextDelta(text))
    before = screen(shown)
    display.close(Reply("It is 3."))

    assert shown[-2:] == [TextWithdrawn(before), TextDelta("It is 3.")]


def test_blanks_in_front_are_no_reason_to_take_text_back() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("off"))
    display.feed(TextDelta("\n\nIt is "))
    display.close(Reply("It is 3."))

    assert (screen(shown).lstrip(), withdrawals(shown)) == ("It is 3.", [])


def test_a_reply_without_text_shows_none() -> None:
    shown: list[DisplayDelta] = []
    ReplyDisplay(shown.append, MarkFilter("off")).close(Reply(""))

    assert shown == []


def test_reasoning_is_shown_as_it_comes_and_never_taken_back() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("marked"))
    display.feed(ReasoningDelta("<tool_call> or not"))
    display.close(Fault(ErrorCode.CONNECTION_ERROR, "gone"))

    assert shown == [ReasoningDelta("<tool_call> or not")]


def test_calls_of_other_names_are_announced_when_the_reply_is_complete_in_their_order() -> None:
    shown: list[DisplayDelta] = []
    display = ReplyDisplay(shown.append, MarkFilter("off"), frozenset({"note"}))
    display.feed(CallDelta(1, "note", 0))
    display.feed(CallDelta(0, "not", 0))
    display.close(Reply("", (ToolCall("a", "nothing"), call())))

    assert shown == [CallAnnounced(1, "note"), CallAnnounced(0, "nothing")]


# What is shown of an answer with edges is the beginning of what is left of it


BITS = st.sampled_from([*END_TOKENS, *INVISIBLE, "<", "<|im", "</s", " ", "\n", ".", "is", "Done"])


def shown(text: str, size: int = 1) -> list[DisplayDelta]:
    """Stream a text in pieces and show it."""
    events: list[DisplayDelta] = []
    display = ReplyDisplay(events.append, EdgeFilter(MarkFilter("off", strip_thinking=False)))
    for at in range(0, len(text), size):
        display.feed(TextDelta(text[at : at + size]))
    display.close(Reply(trim_edges(text)))
    return events


@pytest.mark.parametrize("size", [1, 3, 50])
@given(st.lists(BITS | st.text(max_size=3), max_size=12).map("".join))
def test_nothing_is_withdrawn_and_the_screen_shows_the_final_text(size: int, text: str) -> None:
    events = shown(text, size)

    assert withdrawals(events) == []
    assert screen(events).strip() == trim_edges(text).strip()


def test_text_is_shown_as_soon_as_it_is_no_edge() -> None:
    edges = EdgeFilter(MarkFilter("off", strip_thinking=False))

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
    edges = EdgeFilter(MarkFilter("off"))

    assert edges.feed("<think>Hm, let me think about this.</think>\nDone.") == [
        ReasoningDelta("Hm, let me think about this."),
        TextDelta("Done."),
    ]
