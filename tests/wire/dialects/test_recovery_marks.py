# ruff: noqa: RUF001 (the wide bars are what models write)
"""Marks that are missing, exchanged, or misplaced: parsed where one reading is possible."""

from typing import Any

import pytest

from surecall.values.types import ToolSpec
from surecall.wire.dialects import recover


def read(text: str, *, weak: bool = False) -> list[tuple[str, Any]]:
    """Return the names and arguments of the calls in a text."""
    return [(call.name, call.arguments) for call in recover(text, NOTES, weak=weak).calls]


NOTES = [
    ToolSpec(
        "save_file",
        "",
        {
            "type": "object",
            "properties": {"file": {"type": "string"}, "body": {"type": "string"}},
            "required": ["file"],
        },
    ),
    ToolSpec("ping", "", {"type": "object", "properties": {}}),
]
SAVED = ("save_file", {"file": "a"})
ZERO_WIDTH = "\u200b"


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("<tool_call>save_filefile</arg_key><arg_value>a</arg_value></tool_call>", SAVED),
        ("<tool_call>save_file<arg_key>file<arg_value>a</arg_value></tool_call>", SAVED),
        ("<tool_call>save_file<arg_key>file</arg_key>a</arg_value></tool_call>", SAVED),
        ('<function="save_file"><parameter="file">a</parameter></function>', SAVED),
        ('<function=save_file>{"file": "a"}"</function>', SAVED),
        ('<invoke name="save_file" file="a" id="1"/>', SAVED),
        ("<function=save_file><parameter=file>a</file></function>", SAVED),
        (
            '<invoke name="save_file"><parameter name="file">a</｜DSML｜parameter></invoke>',
            SAVED,
        ),
        ('<tool_call>{"name": "ns:save_file", "arguments": {"file": "a"}}</tool_call>', SAVED),
        ('<|tool_call>call:save_file{file:<|"|>a}<tool_call|>', SAVED),
        (
            f"<function=save_file><parameter=file>a<{ZERO_WIDTH}/parameter></{ZERO_WIDTH}function>",
            SAVED,
        ),
        (
            f'<invoke name="save_file"><parameter name="file">a</para{ZERO_WIDTH}meter></invoke>',
            SAVED,
        ),
        ("<think>Now.\n<tool_call>\n</think>\nping</tool_call>", ("ping", {})),
        ('Thought: now.\nAction: save_file\nAction Input: {"file": "a"}', SAVED),
        (
            '<tool_call>save_file\n{"file": "a"}\n<tool_call>save_file\n{"file": "a"}</tool_call>',
            SAVED,
        ),
    ],
)
def test_a_mark_that_can_mean_only_one_thing_needs_no_question(text: str, call: Any) -> None:
    found = recover(text, NOTES).calls

    assert [(one.name, one.arguments) for one in found] == [call]
    assert not any(one.truncated for one in found)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>other<arg_key>file</arg_key></tool_call>",
        "<tool_call>otherfile</arg_key><arg_value>a</arg_value></tool_call>",
        "<tool_call>save_file<arg_key>other<arg_value>a</arg_value></tool_call>",
        '<function="save_file><parameter=file>a</parameter></function>',
        '<invoke name="save_file" other="a"/>',
        '<invoke name="save_file" file/>',
        "<function=save_file><parameter=file>x <file a</file></function>",
        '<tool_call>{"name": "save_file", "arguments": {"file": "a" "body": "b"}}</tool_call>',
        '<tool_call>{"name": "save_file", "arguments": {"file": "a"", "body": "b"}}</tool_call>',
        '<tool_call>{"name": "save_file", "arguments": {"file": "a", "body" "b"}}</tool_call>',
        "<function=save_file><parameter=file>>a</parameter></function>",
        "<function=save_file><parameter=file>a</parameter></parameter></function>",
        "<function=save_file><parameter=file>a</par</parameter></function>",
        "<function=save_file><parameter=file><tool_call>a</parameter></function>",
        "<function=save_file><parameter=file>a</parameter><param=body>b</parameter></function>",
        "<function=save_file><parameter=file>a\n<parameter=body>b</parameter></function>",
        '<tool_call><invoke name="save_file"><file>>a</file></invoke></tool_call>',
        "Action: save_file\nAction Input: a",
        "See Action: save_file\nAction Input: {}",
        "<|start|>assistant<|channel|>commentary save_file<|message|>{}<|call|>",
        "<think>So\n<tool_call>ping</tool_call></think>Let me see.",
        f"<tool_call>save_file{ZERO_WIDTH} <{ZERO_WIDTH}/x",
    ],
)
def test_a_mark_that_can_mean_more_than_one_thing_makes_no_call(text: str) -> None:
    found = recover(text, NOTES)

    assert not [one for one in found.calls if not one.truncated]
    assert found.calls or found.passed_over


def test_a_value_with_a_key_of_its_call_is_whole_if_that_key_has_its_own_value() -> None:
    text = (
        "<function=save_file><parameter=body>x</parameter> file=1</parameter>"
        "<parameter=file>a</parameter></function>"
    )

    found = recover(text, NOTES).calls

    assert [one.arguments for one in found] == [{"body": "x</parameter> file=1", "file": "a"}]


def test_the_same_call_twice_without_closing_marks_is_two_calls() -> None:
    text = '<function_call> {"name": "ping", "arguments": {}}\n' * 2

    assert len(recover(text, NOTES).calls) == 2


def test_a_function_in_an_element_may_have_tagged_parameters() -> None:
    text = (
        "<function>\n<name>save_file</name>\n"
        '<parameter name="file" string="true">a</｜｜DSML｜｜parameter>\n'
        "</｜｜DSML｜｜invoke>"
    )

    found = recover(text, NOTES, weak=True).calls

    assert [(one.name, one.arguments) for one in found] == [SAVED]


def test_a_key_without_its_opening_mark_ends_the_value_before_it() -> None:
    pairs = "<arg_key>body</arg_key><arg_value>b</arg_value>file</arg_key><arg_value>a</arg_value>"

    found = recover(f"<tool_call>save_file{pairs}</tool_call>", NOTES).calls

    assert [one.arguments for one in found] == [{"body": "b", "file": "a"}]


@pytest.mark.parametrize(
    "text",
    [
        '<invoke name="save_file><parameter name="file">a</parameter></invoke>',
        '<tool_call><invoke name="save_file"><file><b>a</c></file></invoke></tool_call>',
    ],
)
def test_a_tag_with_an_open_quotation_mark_or_another_closer_is_no_tag(text: str) -> None:
    assert not recover(text, NOTES).calls


def test_an_inner_element_that_is_closed_twice_makes_no_call() -> None:
    tool = ToolSpec(
        "f",
        "",
        {
            "type": "object",
            "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
        },
    )

    assert recover("<f><a><b>1</b></a></f>", [tool], weak=True).calls
    assert not recover("<f><a><b>1</b></b></a></f>", [tool], weak=True).calls
