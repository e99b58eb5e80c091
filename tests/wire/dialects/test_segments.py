"""Where a call is only shown: whatever other voices a text has, their calls are left alone."""

import pytest

from surecall.values.types import ToolSpec
from surecall.wire.dialects import RecoveredText, recover

TOOLS = [
    ToolSpec("shell", "", {"type": "object", "properties": {"line": {"type": "string"}}}),
    ToolSpec("clock", "", {"type": "object"}),
]
CALL = '<tool_call>{"name": "shell", "arguments": {"line": "ls"}}</tool_call>'
NAKED = '{"name": "shell", "arguments": {"line": "ls"}}'


def read(text: str, *, weak: bool = False) -> RecoveredText:
    return recover(text, TOOLS, weak=weak)


@pytest.mark.parametrize(
    "text",
    [
        f"> {CALL}",
        f"| call | {CALL}",
        f"It says “{CALL}",
        f"The log:\n\n    {CALL}",
        f"The log:\n\t{CALL}",
        f"<!-- {CALL} -->",
        f"<EXAMPLE>\n{CALL}</example >",
        f'<file name="a">\n{CALL}\n</file>',
        f"<examples>{CALL}</examples>",
        f"User: go on\nAssistant: {CALL}",
        f"**Human:** go on\n**AI:** {CALL}",
        f"### User\n\n[user]: go\n### Assistant:\n{CALL}",
        f"<|user|>go<|x|>\n<|assistant|>\n{CALL}",
    ],
)
def test_a_call_in_another_voice_is_left_alone_without_a_question(text: str) -> None:
    for weak in (False, True):
        found = read(text, weak=weak)

        assert (found.calls, found.text) == ((), text)
        assert [left.tool for left in found.passed_over if left.tool] == []


@pytest.mark.parametrize(
    "text",
    [
        f"- {CALL}",
        f"1. {CALL}",
        f"2) run it: {CALL}",
        f'It says "please {CALL}',
        f"Il dit « fais {CALL}",
        f"<!-- {CALL}",
        f"<EXAMPLE>\n{CALL}",
        f"User: hi\nAssistant: hello\n\nSo it went.\n\n{CALL}",
        f"Q: why\nA: so\n\nSo it went.\n\n{CALL}",
        f"I would say:\n```tool_call\n{NAKED}\n```",
    ],
)
def test_where_quoting_is_likely_but_not_sure_it_is_worth_a_question(text: str) -> None:
    found = read(text)

    assert found.calls == ()
    assert [(left.tool, left.rule) for left in found.passed_over] == [("shell", "own_words")]


@pytest.mark.parametrize(
    "text",
    [
        f"<!-- a note -->\n{CALL}",
        f"<example>no</example> So: {CALL}",
        f"    {CALL}",
        f"Two:\n{CALL}\n    {CALL}",
        f'The 5" disk and the 3" one. {CALL}',
        f"Assistant: {CALL}",
        f"12 files. {CALL}",
        f"The user: nobody. {CALL}",
        f"User: alice\nIssue: a fan\n\n{CALL}",
        f"Usage: cp <source> <target>\n\n{CALL}",
        f"I will use `cat <file>` first.\n\n{CALL}",
        f"```html\n<details>\n```\n{CALL}",
        f"<think>I need cat <file> here.</think>\n{CALL}",
        f"```yaml\nuser: bob\nmodel: x\n```\n{CALL}",
        f"Ich schreibe „a.txt“ jetzt. {CALL}",
        f"<tool_call>{NAKED.replace('ls', '<details open>')}</tool_call>\n{CALL}",
    ],
)
def test_a_voice_that_has_ended_or_never_was_hides_nothing(text: str) -> None:
    assert {call.name for call in read(text).calls} == {"shell"}


@pytest.mark.parametrize(
    "text", [f"The log:\n\n    {NAKED}", f"<!--\n{NAKED}", f"User: hi\nAssistant: ok\n{NAKED}"]
)
def test_a_call_without_a_mark_is_shown_in_the_same_ways(text: str) -> None:
    assert (read(text, weak=True).calls, read(f"So.\n{NAKED}", weak=True).calls[0].name) == (
        (),
        "shell",
    )


@pytest.mark.parametrize(
    ("text", "rest", "thought"),
    [
        ("I wonder.</think>Four.", "Four.", "I wonder."),
        ("I wonder\n</think>\n\nFour.", "Four.", "I wonder"),
        ("I wonder</think>", "", "I wonder"),
        ("One ends with\n</think>\nand goes on.", None, ""),
        ("The tag\n</think> ends it.", None, ""),
        ("`<think>` begins it.\n</think>\nEnds it.", None, ""),
        ("> a</think>B.", None, ""),
        ("a.</think>B.</think>C.", "B.</think>C.", "a."),
    ],
)
def test_a_thought_that_began_in_the_prompt_ends_and_a_sentence_about_its_mark_does_not(
    text: str, rest: str | None, thought: str
) -> None:
    found = read(text)

    assert (found.text, found.reasoning) == (text if rest is None else rest, thought)


def test_a_long_text_about_the_mark_is_kept_whole() -> None:
    text = (
        "Thinking models write their thoughts first. " * 80 + "They end with\n</think>\nand so on."
    )

    assert read(text).text == text
