"""A thought before each guided call: it is asked for, kept, and never sent again."""

import json
from typing import Any

import msgspec
import pytest

from surecall import ConfigError, ToolLoopRunner, replay
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, says, streams
from surecall.values.events import LlmRequestEndEvent
from surecall.values.types import JSON, Plan, ToolResult, ToolSpec, User
from surecall.wire.opaque_state import GUIDED_THOUGHT
from surecall.wire.protocols import hear, speaker
from tests.support.protocols import LONGEST, SPECS, add, planned

CALL: JSON = {"thought": "One and two.", "tool": "add", "arguments": {"a": 1, "b": 2}}


def heard(text: str) -> JSON:
    return hear("guided", {"role": "assistant", "content": text}, planned(User("hi")))


def called(message: JSON) -> Any:
    function = message["tool_calls"][0]["function"]
    return function["name"], function["arguments"]


def steps_of(plan: Plan) -> list[JSON]:
    assert plan.response_format is not None
    schema = plan.response_format["json_schema"]["schema"]
    return list(schema.get("anyOf", [schema]))


def test_the_thought_comes_before_every_step_once_there_are_results() -> None:
    speak = speaker("guided", LONGEST, 200)
    asked = User("hi")
    *calls, answer = steps_of(speak(planned(asked)))
    assert [list(step["properties"]) for step in calls] == [["tool", "arguments"]] * len(SPECS)
    assert list(answer["properties"]) == ["answer"]

    plan = speak(planned(asked, ToolResult("1", "add", ok=True, content="3")))
    *calls, answer = steps_of(plan)
    for step in calls:
        assert list(step["properties"]) == ["thought", "tool", "arguments"]
        assert step["required"] == ["thought", "tool", "arguments"]
        assert step["properties"]["thought"] == {"type": "string", "maxLength": 200}
    assert list(answer["properties"]) == ["thought", "answer"], "to think is not to call"
    assert 'begin with "thought"' in str(plan.messages[0])


def test_where_only_an_answer_can_come_there_is_no_thought() -> None:
    done = ToolResult("1", "add", ok=True, content="3")
    plan = msgspec.structs.replace(planned(User("hi"), done), tools=(), tool_choice="none")
    (answer,) = steps_of(speaker("guided", LONGEST, 200)(plan))
    assert list(answer["properties"]) == ["answer"]


@pytest.mark.parametrize("word", ["answer", "cannot"])
def test_a_thought_before_an_answer_is_heard_apart_from_it(word: str) -> None:
    message = heard(json.dumps({"thought": "It is three.", word: "3"}))
    assert (message["content"], message[GUIDED_THOUGHT]) == ("3", "It is three.")


def test_what_was_written_about_a_value_is_no_argument() -> None:
    written = {"about a": "the first one, 1", "a": 1, "b": 2, "about c": "kept"}
    message = heard(json.dumps({"tool": "add", "arguments": written}))
    assert called(message) == ("add", {"a": 1, "b": 2, "about c": "kept"})


def test_a_parameter_of_the_applications_may_be_called_like_that() -> None:
    properties = {name: {"type": "string"} for name in ("a", "about a")}
    spec = ToolSpec("note", "Note.", {"type": "object", "properties": properties})
    written = {"about a": "mine", "a": "b"}
    reply = {"content": json.dumps({"tool": "note", "arguments": written})}
    plan = planned(User("hi"), tools=(spec,), known_tools=(spec,))
    assert called(hear("guided", reply, plan)) == ("note", written)


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
    config = raw(call_protocol="guided", guided_thought=100)
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
        raw(guided_thought=-1)
    with pytest.raises(ConfigError, match="choice_temperature cannot be negative"):
        raw(choice_temperature=-0.1)
    assert len(SPECS) == 2
