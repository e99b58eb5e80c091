"""What was said: nowhere, unless it is asked for; keys not even then."""

import asyncio
import json

import pytest

from surecall import (
    OpenAICompatible,
    RunFailed,
    ToolError,
)
from surecall.testing import (
    ScriptedProvider,
    calls,
    failure,
    says,
)
from tests.support.spans import SCRIPT, Kept, runner_of, told
from tests.support.tools import add


def spoken(kept: Kept, *, content: bool) -> None:
    """Hold a conversation in which everybody says the same word."""

    def repeat(word: str) -> str:
        """Repeat a word, or complain about it."""
        if word.endswith("!"):
            raise ToolError(f"not {word}")
        if word.endswith("?"):
            raise RuntimeError(word)
        return word

    script = [
        failure(503, {"error": {"message": "you said CANARY"}}),
        calls("CANARY", word="CANARY"),
        calls("repeat", word="CANARY!"),
        calls("repeat", word="CANARY?"),
        calls("repeat", word="CANARY"),
        says(""),
        failure(400, {"error": {"message": "about CANARY"}}),
    ]
    runner = runner_of(
        kept, *script, tools=[repeat], system="Say CANARY.", options={"content": content}
    )
    with pytest.raises(RunFailed):
        asyncio.run(runner.run("CANARY"))


def test_nothing_that_was_said_is_told(kept: Kept) -> None:
    spoken(kept, content=False)

    assert "CANARY" not in kept.everything()
    assert "execute_tool unknown" in kept.names
    assert len(kept.spans) == 11


@pytest.mark.parametrize("content", [False, True])
def test_the_id_that_a_model_wrote_into_its_text_is_part_of_what_was_said(
    kept: Kept, *, content: bool
) -> None:
    call = '<tool_call>{"id":"CANARY","name":"add","arguments":{"a":1,"b":2}}</tool_call>'
    script = (says(call), says("3"))
    asyncio.run(runner_of(kept, *script, tools=[add], options={"content": content}).run("Add."))

    told_id = told(kept["execute_tool add"]).get("gen_ai.tool.call.id")
    assert told_id == ("CANARY" if content else None)


def test_what_was_said_is_told_on_request(kept: Kept) -> None:
    runner = runner_of(kept, *SCRIPT, tools=[add], system="Be brief.", options={"content": True})
    asyncio.run(runner.run("1 + 2?"))

    agent, chat, tool = kept["invoke_agent"], kept.spans[2], kept["execute_tool add"]
    call = {"type": "tool_call", "id": "call_1", "name": "add", "arguments": {"a": 1, "b": 2}}
    envelope = {"ok": True, "tool_name": "add", "data": {"value": 3}, "warnings": [], "errors": []}
    asked = [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "1 + 2?"}]},
    ]
    answered = [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "3"}],
            "finish_reason": "stop",
        }
    ]
    response = {"type": "tool_call_response", "id": "call_1", "response": envelope}
    assert json.loads(told(agent)["gen_ai.input.messages"]) == asked
    assert json.loads(told(agent)["gen_ai.output.messages"]) == answered
    assert json.loads(told(agent)["gen_ai.tool.definitions"])[0]["name"] == "add"
    assert json.loads(told(chat)["gen_ai.input.messages"]) == [
        *asked,
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [response]},
    ]
    assert json.loads(told(chat)["gen_ai.output.messages"]) == answered
    assert json.loads(told(tool)["gen_ai.tool.call.arguments"]) == {"a": 1, "b": 2}
    assert json.loads(told(tool)["gen_ai.tool.call.result"]) == envelope


def test_with_content_errors_are_told_in_words_and_made_up_names_as_they_are(kept: Kept) -> None:
    spoken(kept, content=True)

    assert kept["invoke_agent"].status.description == "about CANARY"
    assert "execute_tool CANARY" in kept.names
    last = json.loads(
        told([span for span in kept.spans if span.name == "chat m"][-1])["gen_ai.input.messages"]
    )
    assert last[-1]["role"] == "user"  # what the loop has said about the empty answer


def test_content_never_tells_the_key(kept: Kept) -> None:
    key = "sk-canary-0123456789abcdef"

    def leak() -> str:
        """Tell too much."""
        return f"the key is {key}"

    with ScriptedProvider(calls("leak"), says("hi")) as provider:
        client = OpenAICompatible(provider.url, key)
        runner = runner_of(kept, client=client, tools=[leak], options={"content": True})
        asyncio.run(runner.run("hello"))

    assert key not in kept.everything()
    assert "the key is" in kept.everything()
