"""The text dialects: what is written can be read, and reading never raises or drags.

What a dialect cannot express is listed in `LIMITS`; everything else must come back as it was.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surecall.core.streaming import first_opener
from surecall.values.types import JSON, ToolCall, ToolSpec
from surecall.wire.dialects import WEAK_ROWS, WRITERS, recover
from surecall.wire.dialects.marks import may_hold_calls
from surecall.wire.dialects.spelling import (
    ANSWER_FRAMES,
    CLOSERS,
    LEAD,
    OPENERS,
    ORPHANS,
    REASONING_TAGS,
)
from tests.support.timing import LINEAR, growth, steps

# ruff: noqa: RUF001 (the wide bars are what models write)


LIMITS = {
    "all": "text that begins or ends with blanks, or that holds marks of its own",
    "C": "a value with its closing tag, then only blanks, then another tag of the call; "
    "or with the call's closing tag, then a line break or a tag, and then a call's opening tag",
    "C12": "a namespace token in a value; an object whose keys are not declared",
    "C13": "a value with its closing tag right before a tag; an object of undeclared keys",
    "B9": "the quote token in a value; a key that is not a word",
    "B10": "the quote token in a value; a key that is not a word",
    "D": "an argument whose name is not a word",
    "ids": "most dialects have none",
}
RAW = frozenset({"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11"})
NESTED = frozenset({"C12", "C13"})
COMPACT = frozenset({"B9", "B10"})
QUOTES = ('<|"|>', "<escape>")
UNTYPED = frozenset(WRITERS) - NESTED - COMPACT
WITH_IDS = frozenset({"A7", "A11", "B4", "B6"})

NOTE = ToolSpec(
    "note",
    "Write a note.",
    {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "title": {"type": ["string", "null"]},
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "flag": {"type": "boolean"},
            "items": {"type": "array", "items": {"type": "string"}},
            "meta": {
                "type": "object",
                "properties": {"k": {"type": "string"}, "n": {"type": "integer"}},
            },
        },
    },
)
PING = ToolSpec("ping-2", "Say nothing.", {"type": "object", "properties": {}})
TOOLS = (NOTE, PING)

PIECES = (
    *(
        "'",
        '"',
        "\\",
        "\n",
        "\r\n",
        "\t",
        "`",
        "```",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ",",
        ":",
        "=",
        ";",
    ),
    *("</tool_call>.", "</parameter>.", "</function>.", "</invoke>.", "</arg_value>.", "</param>."),
    *(
        "<tool_call>.",
        "<think>",
        "</think>",
        "<b>",
        "</b>.",
        "&amp;",
        "&lt;",
        "<|x|>",
        "[TOOL_CALLS].",
    ),
    *(
        "<function=.",
        "<parameter=none>.",
        "é",
        "東京",
        "😀",
        " ",
        "None",
        "0",
        "name",
        "\\n",
        "\x00",
    ),
)
STRINGS = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=8).map("".join)
WORDS = st.from_regex(r"[a-z][a-z_]{0,5}", fullmatch=True)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.sampled_from(
    ["", "Well.", "I'll look.\n\nTwo things:", "So `x < y`, and {a} = [b].", "Größe: 3 µm — 東京"]
)


def values(keys: st.SearchStrategy[str], strings: st.SearchStrategy[str]) -> Any:
    """Any JSON, with keys and strings of a kind."""
    scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | NUMBERS | strings
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    )


def expressible(row: str, text: str) -> bool:
    """Whether a dialect can carry this text as a value, by the list above."""
    if row in COMPACT:
        return not any(quote in text for quote in QUOTES)
    if row == "C12":
        return LEAD not in text
    return row != "C13" or "</" not in text


def calls(row: str) -> st.SearchStrategy[list[ToolCall]]:
    """Make calls of the kind that a dialect can express."""
    strings = STRINGS.filter(lambda text: expressible(row, text))
    free = row not in NESTED
    keys = WORDS.filter(lambda word: len(word) > 1) if row in COMPACT else STRINGS
    meta = st.fixed_dictionaries({}, optional={"k": strings, "n": st.integers()})
    arguments: st.SearchStrategy[JSON] = st.fixed_dictionaries(
        {},
        optional={
            "text": strings,
            "count": st.integers(-(10**15), 10**15),
            "ratio": NUMBERS.filter(lambda number: number != int(number)),
            "flag": st.booleans(),
            "items": st.lists(values(keys, strings) if row in UNTYPED else strings, max_size=3),
            "meta": st.dictionaries(keys, values(keys, strings), max_size=3) if free else meta,
        },
    )
    note = arguments.map(lambda found: ToolCall("", "note", found))
    ping = st.just(ToolCall("", "ping-2", {}))
    several = st.lists(note | ping, min_size=1, max_size=3)
    return several.map(
        lambda found: [
            ToolCall(f"call{index:05}", call.name, call.arguments)
            for index, call in enumerate(found)
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("row", WRITERS)
# The first draw of a text builds tables of all characters, which a busy machine is slow at.
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_a_dialect_writes_is_read_back_without_being_told_the_dialect(
    row: str, data: st.DataObject
) -> None:
    written, text = data.draw(calls(row)), data.draw(TEXTS)

    found = recover(WRITERS[row](written, text), TOOLS, weak=row in WEAK_ROWS)

    read = [(call.name, call.arguments) for call in found.calls]
    assert read == [(call.name, call.arguments) for call in written]
    assert found.text == text
    assert {(call.dialect, call.grammar, call.truncated) for call in found.calls} == {
        (row, row[0], False)
    }
    if row in WITH_IDS:
        assert [call.id for call in found.calls] == [call.id for call in written]


MARKS = (
    *(opener.stem for opener in OPENERS),
    *REASONING_TAGS,
    *REASONING_TAGS.values(),
    *CLOSERS,
    *ANSWER_FRAMES,
    "assistantfinal",
)
FRAGMENTS = (
    *MARKS,
    *('{"name": "note", "arguments": {"text": "x"}}', "note", "ping-2", "(text='x')", "{text:x}"),
    *(
        "<text>",
        "</text>",
        ">",
        "</",
        " name=",
        '"note"',
        "note>",
        "text>",
        "\n",
        " ",
        "`",
        "```",
        "\\",
    ),
    *(
        "»",
        "«call note {}»",
        "{",
        "}",
        "[",
        "]",
        "'",
        '"',
        ",",
        ":",
        "|",
        "DSML",
        "json",
        "functions.note:0",
        "to=note",
    ),
)


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=24).map("".join))
def test_any_text_is_read_without_raising_and_nothing_is_invented(text: str) -> None:
    for weak in (False, True):
        found = recover(text, TOOLS, weak=weak)

        assert all(0 <= call.start < call.end <= len(text) for call in found.calls)
        assert all(call.name in text or call.name in ("note", "ping-2") for call in found.calls)
        if weak and not found.calls:
            assert not recover(text, TOOLS).calls


@given(st.text(st.characters(exclude_characters="<>[]{}`=◁"), max_size=200))
def test_text_without_marks_comes_back_as_it_was(text: str) -> None:
    if "assistantfinal" not in text:
        assert recover(text, TOOLS, weak=True).text == text


@pytest.mark.parametrize(
    "mark",
    [
        *(opener.stem for opener in OPENERS if not opener.weak and opener.kind != "dsml"),
        *REASONING_TAGS,
        *REASONING_TAGS.values(),
        *ANSWER_FRAMES,
        *(
            "[/TOOL_CALLS]",
            "</tool_call",
            "<｜DSML｜",
            "<|DSML|",
            "< | DSML | ",
            "<‖DSML‖",
            "<｜｜DSML",
        ),
        *(mark for mark in CLOSERS if mark.startswith(ORPHANS)),
    ],
)
def test_no_mark_slips_through_the_quick_look(mark: str) -> None:
    assert may_hold_calls(f"Some words {mark} and {{more}}> of_them, N.")


@given(st.sampled_from([o.stem for o in OPENERS if not o.weak and o.kind != "dsml"]), st.data())
def test_an_opener_is_held_back_from_its_first_character_on(stem: str, data: st.DataObject) -> None:
    text = "Some words, "
    length = data.draw(st.integers(1, len(stem)))

    assert first_opener(text + stem[:length]) == len(text)
    assert first_opener(f"{text}{stem} and more") == len(text)


CALL = '<tool_call>{"name": "note", "arguments": {"text": "x"}}</tool_call>'
FAMILIES = (
    *("<tool_call>", "<tool_call>{", '<tool_call>{"a":"', '<tool_call>{"a":[', "<tool_call>note {"),
    *(
        "`<tool_call>",
        "\\<tool_call>",
        "`a``b```c<tool_call>",
        "```\n<tool_call>\n",
        '"<tool_call>',
    ),
    *("<function=note>", "<function=note><parameter=text>", "<function=note><parameter=text>x"),
    *(
        "<parameter=text>",
        '<invoke name="note"><parameter name="text">',
        "</parameter>",
        "</tool_call>",
    ),
    *("<tool_call>note<arg_key>text</arg_key><arg_value>", "note<arg_key>", "[TOOL_CALLS]note"),
    *("[TOOL_CALLS]note{", "<|tool_call_begin|>functions.note:0<|tool_call_argument_begin|>{"),
    *("<|channel|>", "<|channel|>commentary to=note<|message|>", "<|channel|>analysis<|message|>"),
    *("to=functions.note {", "<think>", "\n</think>\n", f"<think>{CALL}</think>", "assistantfinal"),
    *('<｜DSML｜invoke name="note">', '< | DSML | invoke name="note"><x>', "<|DSML|", "DSML"),
    *("<|tool_call>call:note{a:b,", "<|tool_call_start|>[note(a=", "functools[{", "<|python_tag|>"),
    *(
        LEAD,
        f'{LEAD}<invoke name="note">{LEAD}<a>',
        '<|open|>call tool="note"<|sep|>',
        "<note><text>",
    ),
    *(
        "\n{",
        "\n[",
        '\n{"a":',
        "\nnote{",
        '\nnote{"',
        "\nfunctions.note:0{",
        ">>>note\n",
        "\n\n",
        "{",
    ),
    *(
        "<tool_call>{'a':'b','",
        '<tool_call>{"a":1,"a":2,',
        '<tool_call>{"a":NaN,',
        "<tool_call>note([",
    ),
    *("\n«call note {", '\n«call note {"a":1}» x', '\n«call note {"a":1}', "«call note {}»", "«"),
    *("```tool_code\nprint(note(", "Action:\n```json\n", '"', "\\", CALL, f"{CALL} x "),
)


@pytest.mark.slow
@pytest.mark.parametrize("unit", FAMILIES)
def test_twice_the_same_is_read_in_twice_the_steps(unit: str) -> None:
    inside = '<tool_call>{"name": "note", "arguments": {"text": "'

    for before, after in (("", CALL), ("", " and"), (inside, ""), ("```\n", "")):

        def read(size: int, before: str = before, after: str = after) -> None:
            recover(before + unit * (size // len(unit)) + after, TOOLS, weak=True)

        assert growth(read, 5_000) < LINEAR
        read(40_000)


def test_a_plain_answer_costs_next_to_nothing() -> None:
    text = ("A plain answer, with a [link](https://example.org), and x = 1 in `code`.\n" * 40)[
        :2048
    ]
    recover(text, TOOLS)

    assert steps(lambda: recover(text, TOOLS)) < len(text)
