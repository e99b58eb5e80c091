"""Tests of `surecall.core.guided.protocol`."""

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from surecall import ConfigError, Contract, ToolLoopRunner, replay
from surecall.core.guided.protocol import CHECKED, fit_check_prompt, limit_texts
from surecall.core.protocols import decode_message, plan_encoder
from surecall.settings.config import ToolUseMode
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, says, streams
from surecall.values.events import LlmRequestEndEvent
from surecall.values.types import JSON, Assistant, Plan, System, ToolResult, ToolSpec, User
from surecall.wire.assembler import TextDelta
from surecall.wire.provider_state import GUIDED_REASONING
from tests.support.prompted_runs import LONGEST, SPECS, TALK, add, planned, spoken
from tests.support.scripted_runs import runner_of, shown, watched

# Before its first guided step a small model says whether the closest tool fits


ADDS = "add: Add two numbers."
LIKE: JSON = {"asked for": "a sum", "closest tool": ADDS, "gives exactly that": "yes"}
UNLIKE: JSON = {"asked for": "a joke", "closest tool": ADDS, "gives exactly that": "no"}
CALL: JSON = {"tool": "add", "arguments": {"a": 1, "b": 2}}
CONFIG = raw(call_protocol="guided", guided_fit_check=True)


def steps(*messages: Any, **changes: Any) -> list[JSON]:
    plan = plan_encoder("guided", LONGEST, checks_fit=True)(planned(*messages, **changes))
    assert plan.response_format is not None
    schema = plan.response_format["json_schema"]["schema"]
    return list(schema.get("anyOf", [schema]))


def heard(value: JSON | str) -> JSON:
    text = value if isinstance(value, str) else json.dumps(value)
    return decode_message("guided", {"role": "assistant", "content": text}, planned(User("hi")))


def named(message: JSON) -> list[Any]:
    calls = message.get("tool_calls", [])
    return [(each["function"]["name"], each["function"]["arguments"]) for each in calls]


def test_a_call_may_only_follow_a_match_and_an_answer_only_the_lack_of_one() -> None:
    *calls, answer = steps(User("hi"))

    assert len(calls) == len(SPECS)
    for step in calls:
        assert list(step["properties"]) == [*CHECKED, "tool", "arguments"]
        assert step["required"] == [*CHECKED, "tool", "arguments"]
        assert step["properties"]["gives exactly that"] == {"const": "yes"}
    assert list(answer["properties"]) == [*CHECKED, "answer"]
    assert answer["properties"]["gives exactly that"] == {"const": "no"}


def test_what_a_tool_gives_is_told_by_its_description_and_not_by_the_model() -> None:
    long = ToolSpec("long", "Say it  all.\nThen say more. " + "x" * 999, {})
    endless = ToolSpec("endless", "x" * 999, {})
    step, *_ = steps(User("hi"), tools=(add.spec, long, endless, add.spec))

    told = step["properties"]["closest tool"]["enum"]
    assert told[:2] == ["add: Add two numbers.", "long: Say it all."]
    assert [len(each) for each in told[2:]] == [120]


def test_where_several_calls_may_be_made_they_follow_one_check() -> None:
    several, answer = steps(User("hi"), options={"parallel_tool_calls": True})

    assert list(several["properties"]) == [*CHECKED, "for each of", "calls"]
    assert several["required"] == [*CHECKED, "for each of", "calls"]
    assert list(answer["properties"]) == [*CHECKED, "answer"]


@pytest.mark.parametrize(
    "changes", [{"may_answer": False}, {"tool_choice": "required"}, {"tool_choice": "none"}]
)
def test_where_there_is_no_choice_nothing_is_checked(changes: JSON) -> None:
    assert all(
        "gives exactly that" not in step["properties"] for step in steps(User("hi"), **changes)
    )


def test_once_there_are_results_nothing_is_checked() -> None:
    done = ToolResult("1", "add", ok=True, content="3")

    assert all("gives exactly that" not in step["properties"] for step in steps(User("hi"), done))
    assert all(
        "gives exactly that" in step["properties"] for step in steps(User("hi"), done, User("and?"))
    )


def test_the_check_is_shown_by_examples_with_both_ends() -> None:
    opening = plan_encoder("guided", LONGEST, checks_fit=True)(planned(User("hi"))).messages[0]
    assert isinstance(opening, System)
    assert fit_check_prompt() in opening.text
    silent = plan_encoder("guided", LONGEST)(planned(User("hi"))).messages[0]
    assert isinstance(silent, System)
    assert "closest tool" not in silent.text


@pytest.mark.parametrize("each", ["", "for each of"])
def test_an_example_goes_on_with_the_step_that_it_is_for(each: str) -> None:
    lines = [line.partition(" -> ")[2] for line in fit_check_prompt(each).splitlines()[1:]]
    examples = [json.loads(line.replace(", ...", "").replace("...", '""')) for line in lines]
    steps = {
        (example["gives exactly that"], tuple(example)[len(CHECKED) :]) for example in examples
    }
    assert steps == {("yes", (each,) if each else ()), ("no", ("answer",))}
    assert all(tuple(example)[: len(CHECKED)] == CHECKED for example in examples)


def test_a_check_is_heard_apart_from_the_call_and_kept() -> None:
    message = heard(LIKE | CALL)

    assert named(message) == [("add", {"a": 1, "b": 2})]
    told = f"asked for: a sum; closest tool: {ADDS}; gives exactly that: yes"
    assert message[GUIDED_REASONING] == told


def test_an_answer_after_a_check_is_the_answer() -> None:
    message = heard(UNLIKE | {"answer": "I know none."})

    assert (message["content"], named(message)) == ("I know none.", [])


@pytest.mark.parametrize("call", [CALL, {"calls": [CALL]}])
def test_a_call_that_the_model_itself_says_does_not_fit_is_not_run(call: JSON) -> None:
    ((name, arguments),) = named(heard(UNLIKE | call))

    assert (name, arguments) == ("add", [CALL])


@pytest.mark.parametrize("value", [LIKE, LIKE | {"more": 1}])
def test_a_check_without_a_step_stays_as_it_is(value: JSON) -> None:
    assert heard(value) == {"role": "assistant", "content": json.dumps(value)}


@pytest.mark.parametrize("at", range(1, len(json.dumps(UNLIKE | {"answer": "None."})) - 2))
def test_a_check_that_was_cut_off_is_nothing_but_the_answer_so_far(at: int) -> None:
    text = json.dumps(UNLIKE | {"answer": "None."})
    message = heard(text[:at])

    assert "None.".startswith(message["content"])
    assert not named(message)


def test_of_a_streamed_reply_only_the_answer_is_shown_and_early() -> None:
    text = json.dumps(UNLIKE | {"answer": "I have no tool that knows any jokes."})
    events = watched(ScriptedModel(streams(says(text), 7)), config=CONFIG)

    assert shown(events) == "I have no tool that knows any jokes."
    assert sum(isinstance(event, TextDelta) for event in events) > 1


def test_a_call_after_a_match_runs_and_the_check_is_not_sent_again() -> None:
    model = ScriptedModel(says(json.dumps(LIKE | CALL)), says('{"answer": "3"}'))
    result = runner_of(model, config=CONFIG).run_sync("1 + 2?")

    assert result.assistant_text == "3"
    assert "a sum" not in json.dumps(model.requests[1])
    assert replay(result.trace).run == result.run


@pytest.mark.parametrize(
    "demand", [{"contract": Contract(all_of=["add"])}, {"tool_use_mode": ToolUseMode.ENFORCED}]
)
def test_where_a_call_is_demanded_nothing_is_said_about_a_check(demand: JSON) -> None:
    model = ScriptedModel(says(json.dumps(CALL)), says('{"answer": "3"}'))
    result = runner_of(model, config=CONFIG.replace(**demand)).run_sync("1 + 2?")

    assert result.assistant_text == "3"
    assert not any("closest tool" in json.dumps(request) for request in model.requests)


def test_a_plan_without_tools_has_no_check() -> None:
    plan: Plan = plan_encoder("guided", LONGEST, checks_fit=True)(
        planned(User("hi"), known_tools=())
    )
    assert plan.response_format is None


# A thought before each guided call: it is asked for, kept, and never sent again


GUIDED_THOUGHT_CALL: JSON = {
    "thought": "One and two.",
    "tool": "add",
    "arguments": {"a": 1, "b": 2},
}


def guided_thought_heard(text: str) -> JSON:
    return decode_message("guided", {"role": "assistant", "content": text}, planned(User("hi")))


def called(message: JSON) -> Any:
    function = message["tool_calls"][0]["function"]
    return function["name"], function["arguments"]


def steps_of(plan: Plan) -> list[JSON]:
    assert plan.response_format is not None
    schema = plan.response_format["json_schema"]["schema"]
    return list(schema.get("anyOf", [schema]))


def test_the_thought_comes_before_every_step_once_there_are_results() -> None:
    speak = plan_encoder("guided", LONGEST, 200)
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
    (answer,) = steps_of(plan_encoder("guided", LONGEST, 200)(plan))
    assert list(answer["properties"]) == ["answer"]


@pytest.mark.parametrize("word", ["answer", "cannot"])
def test_a_thought_before_an_answer_is_heard_apart_from_it(word: str) -> None:
    message = guided_thought_heard(json.dumps({"thought": "It is three.", word: "3"}))
    assert (message["content"], message[GUIDED_REASONING]) == ("3", "It is three.")


def test_what_was_written_about_a_value_is_no_argument() -> None:
    written = {"about a": "the first one, 1", "a": 1, "b": 2, "about c": "kept"}
    message = guided_thought_heard(json.dumps({"tool": "add", "arguments": written}))
    assert called(message) == ("add", {"a": 1, "b": 2, "about c": "kept"})


def test_a_parameter_of_the_applications_may_be_called_like_that() -> None:
    properties = {name: {"type": "string"} for name in ("a", "about a")}
    spec = ToolSpec("note", "Note.", {"type": "object", "properties": properties})
    written = {"about a": "mine", "a": "b"}
    reply = {"content": json.dumps({"tool": "note", "arguments": written})}
    plan = planned(User("hi"), tools=(spec,), known_tools=(spec,))
    assert called(decode_message("guided", reply, plan)) == ("note", written)


def test_without_the_setting_nothing_is_said_about_it() -> None:
    plan = plan_encoder("guided", LONGEST)(planned(User("hi")))
    assert "thought" not in str(plan)


def test_the_thought_is_heard_apart_from_the_call() -> None:
    message = guided_thought_heard(json.dumps(GUIDED_THOUGHT_CALL))
    assert called(message) == ("add", {"a": 1, "b": 2})
    assert message[GUIDED_REASONING] == "One and two."
    assert called(guided_thought_heard('{"thought": "?", "tool": "add"}')) == ("add", None)


@pytest.mark.parametrize("cut", range(1, len(json.dumps(GUIDED_THOUGHT_CALL))))
def test_a_reply_that_was_cut_off_never_runs_and_is_no_answer(cut: int) -> None:
    message = guided_thought_heard(json.dumps(GUIDED_THOUGHT_CALL)[:cut])
    if "tool_calls" in message:
        assert not isinstance(called(message)[1], dict)
    else:
        assert message["content"] == ""


@pytest.mark.parametrize("streamed", [False, True])
def test_it_is_in_the_trace_and_is_not_sent_again(*, streamed: bool) -> None:
    script = [says(json.dumps(GUIDED_THOUGHT_CALL)), says('{"answer": "3"}')]
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
    assert replies[0].extra[GUIDED_REASONING] == "One and two."
    assert "One and two" not in json.dumps(model.requests[1])
    assert replay(result.trace).run == result.run


def test_a_thought_has_a_length() -> None:
    with pytest.raises(ConfigError, match="guided_thought cannot be negative"):
        raw(guided_thought=-1)
    with pytest.raises(ConfigError, match="choice_temperature cannot be negative"):
        raw(choice_temperature=-0.1)
    assert len(SPECS) == 2


# The schema that binds a guided reply: only what is allowed now can be written


def form(**changes: Any) -> JSON:
    bound = plan_encoder("guided", LONGEST)(planned(User("hi"), **changes)).response_format
    assert bound is not None
    assert (bound["type"], bound["json_schema"]["name"]) == ("json_schema", "next_step")
    schema: JSON = bound["json_schema"]["schema"]
    return schema


def guided_steps(**changes: Any) -> list[str]:
    """Name what may be written: tools by name, and the answer."""
    schema = form(**changes)
    return [
        step["properties"]["tool"]["const"] if "tool" in step["properties"] else "(answer)"
        for step in schema.get("anyOf", [schema])
    ]


def test_guided_calls_results_and_answers_are_told_in_the_form_that_is_asked_for() -> None:
    _, *rest = spoken("guided", *TALK, Assistant("It is 3."))

    assert rest == [
        User("1 + 2?"),
        Assistant('{"tool":"add","arguments":{"a":1,"b":2}}'),
        User('Result of add: {"ok":true,"data":3}'),
        Assistant('{"answer":"It is 3."}'),
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["add", "wipe", "(answer)"]),
        ({"may_answer": False}, ["add", "wipe"]),
        ({"tool_choice": "required"}, ["add", "wipe"]),
        ({"tool_choice": {"function": {"name": "add"}}, "may_answer": False}, ["add"]),
        ({"tool_choice": {"type": "other"}}, ["add", "wipe", "(answer)"]),
        ({"tool_choice": "none"}, ["(answer)"]),
        ({"tool_choice": "none", "may_answer": False}, ["(answer)"]),
        ({"tools": (), "tool_choice": None}, ["(answer)"]),
        ({"tools": SPECS[1:]}, ["wipe", "(answer)"]),
    ],
)
def test_only_what_is_allowed_now_can_be_written(changes: JSON, expected: list[str]) -> None:
    assert guided_steps(**changes) == expected


def test_a_small_limit_bounds_the_form() -> None:
    plan = plan_encoder("guided", 100)(planned(User("hi"), tools=SPECS[1:], may_answer=False))

    assert plan.response_format is not None
    arguments = plan.response_format["json_schema"]["schema"]["properties"]["arguments"]
    assert arguments["properties"]["path"]["maxLength"] == 100


def test_a_tool_s_parameters_keep_their_own_references() -> None:
    node: JSON = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    tree = ToolSpec("tree", "", node | {"$defs": {"node": node | {"title": "#/$defs/node"}}})
    schema = form(tools=(tree, add.spec))

    assert schema["$defs"]["tree"]["properties"]["next"] == {"$ref": "#/$defs/tree/$defs/node"}
    assert schema["$defs"]["tree"]["$defs"]["node"]["title"] == "#/$defs/node"
    assert schema["anyOf"][0]["properties"]["arguments"] == {"$ref": "#/$defs/tree"}


def test_references_beside_a_reference_move_as_well() -> None:
    inner: JSON = {"$ref": "#/$defs/a", "items": [{"$ref": "#/$defs/b"}]}
    spec = ToolSpec("t", "", {"properties": {"x": inner, "$ref": {"type": "string"}}})
    moved = form(tools=(spec,))["$defs"]["t"]["properties"]

    assert moved["x"] == {"$ref": "#/$defs/t/$defs/a", "items": [{"$ref": "#/$defs/t/$defs/b"}]}
    assert moved["$ref"] == {"type": "string"}


def test_data_that_looks_like_a_reference_does_not_move() -> None:
    data: JSON = {"$ref": "#/$defs/a"}
    spec = ToolSpec("t", "", {"properties": {"x": data, "y": {"const": data, "enum": [data]}}})

    moved = form(tools=(spec,), known_tools=(spec,))["$defs"]["t"]["properties"]

    assert moved["x"] == {"$ref": "#/$defs/t/$defs/a"}
    assert moved["y"] == {"const": data, "enum": [data]}


AT_ONCE: JSON = {"parallel_tool_calls": True}


def test_where_several_calls_are_asked_for_a_reply_has_a_list_of_them() -> None:
    listed, answer = form(options=AT_ONCE)["anyOf"]
    calls = listed["properties"]["calls"]

    assert (calls["type"], calls["minItems"]) == ("array", 1)
    names = [each["properties"]["tool"]["const"] for each in calls["items"]["anyOf"]]
    assert names == ["add", "wipe"]
    assert (listed["required"], list(answer["properties"])) == (
        ["for each of", "calls"],
        ["answer"],
    )


@pytest.mark.parametrize("asked", [False, None])
def test_one_call_is_no_list_unless_several_were_asked_for(*, asked: bool | None) -> None:
    assert form(options={"parallel_tool_calls": asked}) == form()


def test_what_may_be_written_in_a_list_is_what_is_allowed_now() -> None:
    only = form(options=AT_ONCE, tools=SPECS[1:], may_answer=False)

    assert only["properties"]["calls"]["items"]["properties"]["tool"] == {"const": "wipe"}
    assert "calls" not in form(options=AT_ONCE, tool_choice="none")["properties"]


def test_several_calls_are_told_in_the_form_that_is_asked_for() -> None:
    plan = planned(*TALK, options=AT_ONCE)
    opening, _, calls, _ = plan_encoder("guided", LONGEST)(plan).messages

    assert isinstance(opening, System)
    assert '"calls": [{"tool": "name", "arguments": {...}}, ...]}' in opening.text
    assert calls == Assistant('{"calls":[{"tool":"add","arguments":{"a":1,"b":2}}]}')


# Typed answers in the protocols that use words: how they are asked for, and how they are read


SCHEMA: JSON = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LOOP: JSON = {
    "type": "object",
    "properties": {"next": {"$ref": "#"}, "leaf": {"$ref": "#/$defs/leaf"}},
    "$defs": {"leaf": {"type": "integer"}},
    "additionalProperties": False,
}
TEXT: JSON = {"type": "string", "enum": ["yes", "no"]}


def form_of(schema: JSON, **changes: Any) -> JSON:
    plan = plan_encoder("guided", LONGEST)(planned(User("hi"), output=schema, **changes))
    assert plan.response_format is not None
    found: JSON = plan.response_format["json_schema"]["schema"]
    return found


def guided_output_heard(text: str, schema: JSON | None = SCHEMA) -> str:
    plan = planned(User("hi"), output=schema)
    content: str = decode_message("guided", {"role": "assistant", "content": text}, plan)["content"]
    return content


def test_a_guided_form_has_the_schema_in_the_place_of_the_answer() -> None:
    validator = jsonschema_rs.validator_for(form_of(SCHEMA))

    assert validator.is_valid({"answer": {"n": 1}})
    assert validator.is_valid({"tool": "add", "arguments": {}})
    assert not validator.is_valid({"answer": {"n": "x"}})
    assert not validator.is_valid({"answer": "text"})


def test_references_of_the_schema_still_hold_there() -> None:
    validator = jsonschema_rs.validator_for(form_of(LOOP))

    assert validator.is_valid({"answer": {"next": {"leaf": 1}}})
    assert not validator.is_valid({"answer": {"next": {"leaf": "x"}}})
    assert not validator.is_valid({"answer": {"next": {"other": 1}}})


def test_the_opening_tells_the_schema() -> None:
    (guided, *_) = spoken("guided", User("hi"), output=SCHEMA)
    (prompted, *_) = spoken("prompted", User("hi"), output=SCHEMA)

    assert isinstance(guided, System)
    assert isinstance(prompted, System)
    written = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
    assert f'{{"answer": ...}}, in which ... is JSON of this schema: {written}' in guided.text
    assert f"with nothing before or after it: {written}" in prompted.text
    assert "plain text" not in prompted.text


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"answer": {"n": 1}}', '{"n":1}'),
        ('<think>Well.</think>{"answer": {"n": 1}}', '{"n":1}'),
        ('{"answer": null}', "null"),
        # Beside the answer nothing may be lost.
        ('{"answer": 1, "but": 2}', '{"answer": 1, "but": 2}'),
        ('{"n": 1}', '{"n": 1}'),
        ('{"answer": {"n": 1', '{"answer": {"n": 1'),
        ('{"answer": "ye', '{"answer": "ye'),
    ],
)
def test_an_answer_stays_json_and_counts_only_if_it_is_whole(text: str, content: str) -> None:
    assert guided_output_heard(text) == content


def test_a_text_stays_json_too_so_that_its_quotation_marks_are_its_own() -> None:
    assert guided_output_heard('{"answer": "\\"yes\\""}', TEXT) == '"\\"yes\\""'
    assert guided_output_heard('{"answer": "\\"yes\\""}', None) == '"yes"'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"n": 1}', '{"answer":{"n": 1}}'),
        ("I cannot.", '{"answer":"I cannot."}'),
        ('"yes" \n', '{"answer":"yes"}'),
    ],
)
def test_an_earlier_answer_is_shown_as_the_model_wrote_it(text: str, told: str) -> None:
    *_, last = spoken("guided", User("hi"), Assistant(text), output=SCHEMA)
    assert isinstance(last, Assistant)
    assert last.text == told


def test_a_speaker_that_is_asked_for_another_form_puts_everything_anew() -> None:
    speak = plan_encoder("guided", LONGEST)
    speak(planned(User("hi"), Assistant("1")))
    after = speak(planned(User("hi"), Assistant("1"), output={"type": "integer"})).messages[-1]

    assert isinstance(after, Assistant)
    assert after.text == '{"answer":1}'


# Texts of a schema are bounded: wherever they are, and only where nothing else bounds them


BOUNDED_SCHEMA_TEXT: JSON = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "short", "long"),
    [
        (BOUNDED_SCHEMA_TEXT, "abcde", "abcdef"),
        (BOUNDED_SCHEMA_TEXT | {"minLength": 7}, "abcdefg", "abcdefgh"),
        ({"description": "anything"}, "abcde", "abcdef"),
        ({"properties": {"a": BOUNDED_SCHEMA_TEXT, "b": True}}, {"a": "abc"}, {"a": "abcdef"}),
        ({"type": "array", "items": BOUNDED_SCHEMA_TEXT}, ["abc"], ["abcdef"]),
        (
            {"type": "object", "additionalProperties": BOUNDED_SCHEMA_TEXT},
            {"a": "abc"},
            {"a": "abcdef"},
        ),
        ({"anyOf": [BOUNDED_SCHEMA_TEXT, {"type": "null"}, False]}, None, "abcdef"),
        ({"$ref": "#/$defs/d", "$defs": {"d": BOUNDED_SCHEMA_TEXT}}, "abc", "abcdef"),
    ],
)
def test_texts_are_bounded_wherever_they_stand(schema: JSON, short: Any, long: Any) -> None:
    before = jsonschema_rs.validator_for(schema)
    after = jsonschema_rs.validator_for(limit_texts(schema, 5))

    assert before.is_valid(short)
    assert before.is_valid(long)
    assert after.is_valid(short)
    assert not after.is_valid(long)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 9},
        {"enum": ["abcdefghi"]},
        {"type": "string", "const": "abcdefghi"},
        {"type": "string", "pattern": "^a"},
        {"type": "string", "format": "date"},
        {"type": "integer"},
        {"type": "object", "properties": {"a": {"type": "boolean"}}},
    ],
)
def test_what_says_more_about_itself_is_left_alone(schema: JSON) -> None:
    assert limit_texts(schema, 5) == schema


@pytest.mark.parametrize("value", [3, 2.5, True, None, [1], {"a": 1}, "abc"])
def test_what_may_be_anything_may_still_be_anything_short(value: Any) -> None:
    assert jsonschema_rs.validator_for(limit_texts({"description": "anything"}, 5)).is_valid(value)
