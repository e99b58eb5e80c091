"""Harmony messages: calls, thoughts, and words for the user, told apart by their headers."""

import pytest

from surecall.values.types import ToolSpec
from surecall.wire.dialects import recover

TOOLS = [ToolSpec("shell", "", {"type": "object", "properties": {"line": {"type": "string"}}})]
CALL = '<tool_call>{"name": "shell", "arguments": {"line": "ls"}}</tool_call>'
BODY = '{"line": "ls"}'


@pytest.mark.parametrize(
    "text",
    [
        f"<|channel|>commentary to=shell<|constrain|>json<|message|>{BODY}<|call|>",
        f"<|start|>assistant to=functions.shell<|channel|>commentary<|message|>{BODY}<|call|>",
        f"<|channel|>analysis to=functions.shell<|message|>{BODY}<|call|>",
        f" to=functions.shell<|channel|>commentary<|constrain|>json<|message|>{BODY}<|call|>",
        f"to=shell<|channel|>commentary<|message|>{BODY}",
        f"commentary to=shell <|constrain|>json<|message|>{BODY}<|call|>",
        f"commentary to=shell json{BODY}",
        f"assistantcommentary to=functions.shell json{BODY}",
    ],
)
def test_a_message_to_a_tool_is_a_call_wherever_its_header_began(text: str) -> None:
    found = recover(text, TOOLS)

    assert [(call.name, call.arguments) for call in found.calls] == [("shell", {"line": "ls"})]
    assert found.text == ""


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (f"<|channel|>commentary to=user<|message|>{CALL}<|end|>", CALL),
        (
            f"<|start|>assistant<|channel|>final<|message|>It says {CALL}<|return|>",
            f"It says {CALL}",
        ),
        (f"analysisHm.assistantfinalIt says:\nto=functions.shell {BODY}", None),
        (f"<|channel|>commentary to=self<|message|>{CALL}<|end|>", ""),
        (f"<|channel|>commentary to=self<|message|>{BODY}<|call|>", ""),
        (f"> <|channel|>commentary to=shell<|message|>{BODY}<|call|>", None),
    ],
)
def test_what_is_said_to_the_user_or_to_the_model_itself_holds_no_call(
    text: str, rest: str | None
) -> None:
    for weak in (False, True):
        found = recover(text, TOOLS, weak=weak)

        assert found.calls == ()
        assert rest is None or found.text == rest


def test_a_thought_on_its_channel_may_end_in_a_call() -> None:
    found = recover(f"<|channel|>analysis<|message|>I look.\n{CALL}<|end|>", TOOLS)

    assert [call.in_reasoning for call in found.calls] == [True]


@pytest.mark.parametrize("text", ["to=nobody {}", "to be", "commentary to=", "to=shell and more"])
def test_what_only_begins_like_a_header_stays_text(text: str) -> None:
    assert (recover(text, TOOLS).calls, recover(text, TOOLS).text) == ((), text)


def test_a_thought_within_the_analysis_is_part_of_it() -> None:
    found = recover("analysis\n<think>Hm.</think>\nassistantfinalYes.", TOOLS)

    assert (found.text, found.reasoning) == ("Yes.", "<think>Hm.</think>")
