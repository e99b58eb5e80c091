"""Text that could be meant in two ways, or for somebody else: nothing of it runs."""

import pytest

from surecall.parsing.budget import MAX_CALLS
from surecall.values.types import ToolCall
from surecall.wire.dialects import WRITERS, recover
from tests.wire.dialects.test_engine import CALL, SHELL, TOOLS, read, tool


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "<tool_call>shell(line='ls', 'x')</tool_call>", id="no name after one with a name"
        ),
        pytest.param(
            '<tool_call>{"name": "shell", "arguments": {line: """ls"""}}</tool_call>',
            id="three quotes where Python is not written",
        ),
        pytest.param(
            r"<|tool_call_start|>[shell(line='a\n\q')]<|tool_call_end|>",
            id="a backslash that escapes nothing beside one that does",
        ),
        pytest.param(
            "<|tool_call_start|>[shell(line='ls', # or not\n)]<|tool_call_end|>",
            id="a comment after a text",
        ),
        pytest.param('[TOOL_CALLS]--[ARGS]{"name": "shell", "line": "ls"}', id="a name of marks"),
        pytest.param("[TOOL_CALLS]shell so", id="words in the place of arguments"),
        pytest.param("[TOOL_CALLS]shell, or so", id="a name that a sentence goes on after"),
        pytest.param("[TOOL_CALLS]shell; then more", id="a name before a semicolon"),
        pytest.param("[TOOL_CALLS]shell, shell", id="names in a row"),
        pytest.param(
            '<tool_call>{"name": "shell", "arguments": {"line": "ls"}, "line": "rm"}</tool_call>',
            id="arguments in two places",
        ),
        pytest.param('to=self I could say shell({"line": "ls"}).', id="meant for itself"),
        pytest.param("to=user Say shell(line='ls').", id="meant for the user"),
        pytest.param("to=user<|message|>Hello", id="a message to the user"),
    ],
)
def test_what_is_not_clearly_a_call_is_none(text: str) -> None:
    assert read(text, weak=True) == []


@pytest.mark.parametrize("text", ["[TOOL_CALLS]shell", "[TOOL_CALLS]shell\n[note]"])
def test_a_name_alone_is_a_call_where_the_text_or_another_mark_ends_it(text: str) -> None:
    assert [call.name for call in recover(text, TOOLS, weak=False).calls] == ["shell"]


def test_an_answer_that_is_marked_after_its_beginning_is_text() -> None:
    found = recover("So: <|START_RESPONSE|>it is done<|END_RESPONSE|>", TOOLS, weak=False)

    assert found.calls == ()
    assert "it is done" in found.text


def test_fences_after_words_show_calls() -> None:
    fence = '```tool_call\n{"name": "shell", "arguments": {"line": "ls"}}\n```'

    assert read(f"For example:\n{fence}\n{fence}") == []


def test_a_dialogue_after_a_call_quotes_its_calls() -> None:
    assert read(f"{CALL}\n\nUser: and now?\n\nAssistant: {CALL}") == [SHELL]


def test_a_key_that_is_cut_off_is_no_argument() -> None:
    (call,) = recover("<tool_call>shell\n<arg_key>li", TOOLS, weak=False).calls

    assert (call.name, call.arguments, call.truncated) == ("shell", {}, True)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(CALL.removesuffix("</tool_call>"), id="not closed"),
        pytest.param(CALL.replace("}}", "}"), id="a brace is missing"),
    ],
)
def test_a_call_that_is_broken_off_before_another_may_have_ended_too_early(first: str) -> None:
    other = "<|tool_call_start|>[shell(line='ls')]<|tool_call_end|>"
    found = recover(f"{first}\n{other}", TOOLS, weak=False)

    assert [(call.name, call.arguments) for call in found.calls] == [SHELL, SHELL]
    assert found.spare


def test_more_calls_than_anybody_means_stay_text() -> None:
    found = recover(CALL * (MAX_CALLS + 3), TOOLS, weak=False)

    assert len(found.calls) == MAX_CALLS + 1
    assert found.text.count("<tool_call>") == 2


NESTED = {
    "filters": {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}},
            "most": {"type": "integer"},
        },
    }
}


@pytest.mark.parametrize("row", sorted(WRITERS))
def test_values_inside_values_are_written_so_that_they_are_read(row: str) -> None:
    meant = {"filters": {"tags": ["a", "b"], "most": 3}}
    text = WRITERS[row]([ToolCall("call_1", "t", meant)], "")

    (call,) = recover(text, tool(NESTED), weak=True).calls
    assert (call.name, call.arguments) == ("t", meant)


def test_of_a_long_row_of_openers_eight_belong_to_the_call_and_the_others_are_text() -> None:
    call = '{"name": "shell", "arguments": {"line": "ls"}}</tool_call>'
    found = recover("<tool_call>" * 10 + call, TOOLS)

    assert [one.name for one in found.calls] == ["shell"]
    assert found.text == "<tool_call>" * 2
