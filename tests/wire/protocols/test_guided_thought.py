"""A thought before each guided call: it is asked for, kept, and never sent again."""

import json
from typing import Any

import pytest

from surecall import ConfigError, ToolCallingConfig, ToolLoopRunner, replay
from surecall.testing import ScriptedModel, says, streams
from surecall.values.events import LlmRequestEndEvent
from surecall.values.types import JSON, User
from surecall.wire.opaque_state import GUIDED_THOUGHT
from surecall.wire.protocols import hear, speaker
from tests.support.protocols import LONGEST, SPECS, add, planned

CALL: JSON = {"thought": "One and two.", "tool": "add", "arguments": {"a": 1, "b": 2}}


def heard(text: str) -> JSON:
    return hear("guided", {"role": "assistant", "content": text}, planned(User("hi")))


def called(message: JSON) -> Any:
    function = message["tool_calls"][0]["function"]
    return function["name"], function["arguments"]


def test_the_thought_comes_before_the_call_and_only_there() -> None:
    plan = speaker("guided", LONGEST, 200)(planned(User("hi")))
    assert plan.response_format is not None
    *steps, answer = plan.response_format["json_schema"]["schema"]["anyOf"]

    for step in steps:
        assert list(step["properties"]) == ["thought", "tool", "arguments"]
        assert step["required"] == ["thought", "tool", "arguments"]
        assert step["properties"]["thought"] == {"type": "string", "maxLength": 200}
    assert list(answer["properties"]) == ["answer"]
    assert '{"thought": "why, in one sentence", "tool": "name"' in str(plan.messages[0])


def test_without_the_setting_nothing_is_said_about_it() -> None:
    plan = speaker("guided", LONGEST)(planned(User("hi")))
    assert "thought" not in str(plan)


def test_the_thought_is_heard_apart_from_the_call() -> None:
    message = heard(json.dumps(CALL))
    assert called(message) == ("add", {"a": 1, "b": 2})
    assert message[GUIDED_THOUGHT] == "One and two."
    assert called(heard('{"thought": "?", "tool": "add"}')) == ("add", None)


@pytest.mark.parametrize("cut", range(1, len(json.dumps(CALL))))
def test_a_reply_that_was_cut_off_never_runs_and_is_no_answer(cut: int) -> None:
    message = heard(json.dumps(CALL)[:cut])
    if "tool_calls" in message:
        assert not isinstance(called(message)[1], dict)
    else:
        assert message["content"] == ""


@pytest.mark.parametrize("streamed", [False, True])
def test_it_is_in_the_trace_and_is_not_sent_again(*, streamed: bool) -> None:
    script = [says(json.dumps(CALL)), says('{"answer": "3"}')]
    model = ScriptedModel(*(streams(item) if streamed else item for item in script))
    config = ToolCallingConfig(call_protocol="guided", guided_thought=100)
    runner = ToolLoopRunner(client=model, model="m", tools=[add], config=config)
    if streamed:
        with runner.stream_sync("1 + 2?") as stream:
            shown = "".join(str(getattr(item, "text", "")) for item in stream)
        assert "One and two" not in shown
        result = stream.result
    else:
        result = runner.run_sync("1 + 2?")

    assert result.assistant_text == "3"
    replies = [event.reply for event in result.trace if isinstance(event, LlmRequestEndEvent)]
    assert replies[0].extra[GUIDED_THOUGHT] == "One and two."
    assert "One and two" not in json.dumps(model.requests[1])
    assert replay(result.trace).run == result.run


def test_a_thought_has_a_length() -> None:
    with pytest.raises(ConfigError, match="guided_thought cannot be negative"):
        ToolCallingConfig(guided_thought=-1)
    assert len(SPECS) == 2
