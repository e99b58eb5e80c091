"""Calls whose marks are damaged: the model is asked, unless the text shows them."""

import pytest

from surecall.values.types import ToolSpec
from surecall.wire.call_styles import TextCalls
from surecall.wire.text_calls import extract_text_calls

NOTE = ToolSpec(
    "write_note",
    "",
    {
        "type": "object",
        "properties": {"title": {"type": "string"}, "body": {"type": "string"}},
        "required": ["title"],
    },
)
PING = ToolSpec("ping", "", {"type": "object"})


@pytest.mark.parametrize("mode", ["marked", "any"])
@pytest.mark.parametrize(
    "text",
    [
        "function=write_note><parameter=title>a</parameter></function>",
        "<write_note><title>a</title></write_note",
        '{"": "write_note", "arguments": {"title": "a"}}',
        '[{"arguments": "write_note", "arguments": {"title": "a"}}]',
        '{"function": {"": "write_note", "title": "a"}}',
        '"write_note", "arguments": {"title": "a"}}',
        '```\n<=write_note>{"title": "a"}</function>\n```',
        "````tool_code\nprint(default_api.write_note(title='a'))\n```",
        'Action\n```json\n[{"tool_name": "write_note", "parameters": {"title": "a"}}]\n```',
        '"«call write_note {"title": "a"}»',
        '«call write_note "title": "a"}»',
        "I will check the list now and then write: write_note(title='a')]",
        "tool_call>ping</tool_call>",
    ],
)
def test_a_damaged_call_is_asked_about(text: str, mode: TextCalls) -> None:
    found = extract_text_calls({"content": text}, [PING, NOTE], mode)

    assert found.claims
    assert not found.requested_calls


@pytest.mark.parametrize(
    "text",
    [
        "Use write_note to write a note.",
        "The note is written (title: a).",
        '{"name": "write_note", "description": "Writes."}',
        '{"notes": ["write_note"]}',
        '{"write_note": 1}',
        '{"a": {"title": "a"}, "b": 1}',
        "> <write_note><title>a</title",
        "`write_note(title='a'`",
        "Run `write_note(title='a'`",
        "'write_note(title=\"a\"]'",
        "See:\n\n```\nwrite_note(title='a']\n```",
        "```python\nwrite_note(title='a']\n```",
        "Text.\n```\na\n```\n> write_note(title='a']",
        "<write_note><title>a</title is how it is written.",
        "«write_note(title='a']»",
    ],
)
def test_a_call_that_is_shown_or_only_named_is_not_asked_about(text: str) -> None:
    found = extract_text_calls({"content": text}, [NOTE], "marked")

    assert not found.claims
