"""Tests of `surecall.core.reply_parsing`."""

import asyncio
import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import presets
from surecall.core.outcome import RunResult
from surecall.core.reply_parsing import is_canonical, may_contain_calls, parse_reply, resolve_call
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.config import ToolCallingConfig
from surecall.settings.endpoint_profile import BLANK_ARGUMENTS
from surecall.settings.presets import raw
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.testing import Item, ScriptedModel, calls, says
from surecall.tools.registry import ToolDefinition, ToolRegistry
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, Plan, Reply
from surecall.wire.transforms import BODY, RESPONSE
from tests.support import corpus
from tests.support.spec import proves

# Calls as models make them: told apart, read, judged, and written back in the one legal form


ORDER = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"qty": {"type": "integer"}}},
        }
    },
    "required": ["items"],
}


class Talk(NamedTuple):
    """What a run came to: the arguments the tools ran with, the last request, the result."""

    ran: list[JSON]
    messages: list[JSON]
    result: RunResult

    @property
    def answers(self) -> list[JSON]:
        return [json.loads(item["content"]) for item in self.messages if item["role"] == "tool"]

    @property
    def codes(self) -> list[str]:
        return [error["code"] for answer in self.answers for error in answer["errors"]]

    @property
    def ids(self) -> list[str]:
        return [item["tool_call_id"] for item in self.messages if item["role"] == "tool"]


def talk(*script: Item, config: ToolCallingConfig | None = None) -> Talk:
    ran: list[JSON] = []

    def echo(**arguments: Any) -> JSON:
        ran.append(arguments)
        return arguments

    registry = ToolRegistry(
        [
            ToolDefinition("echo", handler=echo),
            ToolDefinition("order", parameters=ORDER, handler=echo),
        ]
    )
    model = ScriptedModel(*script, says("done"))
    runner = ToolLoopRunner(
        client=model, model="m", registry=registry, config=config or presets.raw()
    )
    result = asyncio.run(runner.run("go"))
    return Talk(ran, model.requests[-1]["messages"], result)


def call(arguments: Any = "{}", name: str = "echo", **extra: Any) -> JSON:
    return {"type": "function", "function": {"name": name, "arguments": arguments}} | extra


def reply(*raw_calls: Any, **extra: Any) -> JSON:
    return says(None, tool_calls=list(raw_calls), **extra)


# Which calls there are, and their ids


@proves("C13")
def test_two_calls_with_one_id_are_told_apart_and_results_carry_the_new_ids() -> None:
    heard = talk(reply(call('{"n": 1}', id="dup"), call('{"n": 2}', id="dup")))

    assert heard.ids == ["dup", "dup__2"]
    assert [made["id"] for made in heard.messages[1]["tool_calls"]] == ["dup", "dup__2"]
    assert [answer["data"] for answer in heard.answers] == [{"n": 1}, {"n": 2}]


@proves("C14")
@pytest.mark.parametrize(
    ("given", "minted"),
    [
        ([{}, {}], ["tc_1", "tc_2"]),
        ([{"id": None}, {"id": " "}], ["tc_1", "tc_2"]),
        ([{"id": "a"}, {}], ["a", "tc_2"]),
        ([{"id": "tc_2"}, {}], ["tc_2", "tc_3"]),
        ([{"id": 7}, {"id": {}}], ["7", "tc_2"]),
    ],
)
def test_missing_ids_are_minted_by_position(given: list[JSON], minted: list[str]) -> None:
    assert talk(reply(*(call(**extra) for extra in given))).ids == minted


@proves("C15")
def test_three_equal_ids_become_three() -> None:
    assert talk(reply(*[call(id="x")] * 3)).ids == ["x", "x__2", "x__3"]


@proves("I12")
def test_ids_are_unique_across_turns() -> None:
    same = reply(call('{"n": 1}'), call('{"n": 2}', id="x"))
    heard = talk(same, reply(call('{"n": 3}'), call('{"n": 4}', id="x")))

    assert heard.ids == ["tc_1", "x", "tc_3", "x__2"]


@proves("C16")
def test_a_single_call_object_in_place_of_the_array_is_read_without_any_transform() -> None:
    assert talk(says(None, tool_calls=call('{"n": 1}'))).ran == [{"n": 1}]


@proves("C17")
def test_the_transform_from_object_to_array_gives_the_same_result() -> None:
    transform = "assistant_tool_calls_object_to_array"
    script = says(None, tool_calls=call('{"n": 1}'))
    heard = talk(script, config=raw(response_transforms=(transform,)))

    assert heard.messages == talk(script).messages
    assert heard.result.repairs == (transform,)


@proves("C18")
def test_entries_of_the_call_list_that_are_no_objects_are_dropped() -> None:
    heard = talk(reply(None, "echo", 5, [call()], call('{"n": 1}', id="a")))

    assert heard.ran == [{"n": 1}]
    assert heard.ids == ["a"]


@pytest.mark.parametrize("calls_field", [None, [], "echo", 3, {}, [{}], [{"function": "echo"}]])
def test_no_shape_of_the_call_list_ends_a_run(calls_field: Any) -> None:
    heard = talk(says("fine", tool_calls=calls_field))
    assert heard.result.assistant_text in {"fine", "done"}
    assert heard.ran == []


@proves("C19")
def test_a_legacy_function_call_is_read_under_the_default_preset() -> None:
    legacy = says(None, function_call={"name": "echo", "arguments": {"n": 1}})
    heard = talk(legacy, config=presets.default_tool_calling())

    assert heard.ran == [{"n": 1}]
    assert heard.messages[1]["tool_calls"][0]["function"]["arguments"] == '{"n":1}'


@proves("C20")
def test_a_legacy_function_call_is_ignored_beside_real_tool_calls() -> None:
    both = reply(call('{"n": 1}'), function_call={"name": "echo", "arguments": '{"n": 2}'})
    assert talk(both, config=presets.default_tool_calling()).ran == [{"n": 1}]


# Arguments


@proves("C21")
def test_invalid_json_is_told_to_the_model_and_the_tool_does_not_run() -> None:
    heard = talk(reply(call("{")))

    assert heard.ran == []
    assert heard.codes == [ErrorCode.ARGUMENTS_JSON_PARSE_ERROR]
    assert heard.answers[0]["ok"] is False
    assert heard.messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


@proves("C22")
@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_blank_arguments_mean_an_empty_object_even_without_transforms(blank: str) -> None:
    assert talk(reply(call(blank))).ran == [{}]


@proves("C23")
def test_empty_arguments_under_the_default_preset_run_the_tool() -> None:
    heard = talk(reply(call("")), config=presets.default_tool_calling())

    assert heard.ran == [{}]
    assert BLANK_ARGUMENTS in heard.result.repairs


@proves("C24")
def test_json_in_a_labelled_code_fence_is_read() -> None:
    heard = talk(reply(call('```json\n{"n": 1}\n```')))

    assert heard.ran == [{"n": 1}]
    assert "code_fence" in heard.result.repairs


@proves("C25")
def test_arguments_that_were_encoded_twice_are_read() -> None:
    heard = talk(reply(call(json.dumps('{"n": 1}'))))

    assert heard.ran == [{"n": 1}]
    assert "double_encoded" in heard.result.repairs


@proves("C26")
def test_argument_text_above_the_limit_is_refused() -> None:
    heard = talk(reply(call(json.dumps({"n": "x" * 200_000}))))

    assert heard.ran == []
    assert heard.codes == [ErrorCode.ARGUMENTS_TOO_LARGE]


@proves("C27", "C28")
def test_an_argument_object_above_the_limit_is_refused_and_the_model_is_told_both_sizes() -> None:
    heard = talk(reply(call({"n": "x" * 300})), config=raw(max_tool_args_bytes=200))

    assert heard.ran == []
    assert heard.codes == [ErrorCode.ARGUMENTS_TOO_LARGE]
    assert heard.answers[0]["data"] == {"bytes": 308, "max_bytes": 200}


@proves("C29")
@pytest.mark.parametrize("arguments", ['{"n":"xxxx"}', {"n": "xxxx"}])
@pytest.mark.parametrize(("limit", "runs"), [(12, True), (11, False)])
def test_arguments_exactly_at_the_limit_are_accepted(
    arguments: Any, limit: int, *, runs: bool
) -> None:
    heard = talk(reply(call(arguments)), config=raw(max_tool_args_bytes=limit))
    assert bool(heard.ran) is runs


@proves("C30")
@pytest.mark.parametrize("arguments", ["[]", "[1]", "5", "1.5", "true", '"text"', [], 5, True])
def test_anything_but_an_object_is_a_parse_error(arguments: Any) -> None:
    heard = talk(reply(call(arguments)))

    assert heard.ran == []
    assert heard.codes == [ErrorCode.ARGUMENTS_JSON_PARSE_ERROR]


@proves("C30")
@pytest.mark.parametrize("arguments", ["null", " null ", None])
def test_null_means_an_empty_object(arguments: Any) -> None:
    assert talk(reply(call(arguments))).ran == [{}]


@proves("C31")
@pytest.mark.parametrize(("limit", "runs"), [(14, True), (13, False)])
def test_sizes_are_bytes_and_not_characters(limit: int, *, runs: bool) -> None:
    text = '{"n":"ééé"}'
    assert (len(text), len(text.encode())) == (11, 14)
    for arguments in (text, json.loads(text)):
        heard = talk(reply(call(arguments)), config=raw(max_tool_args_bytes=limit))
        assert bool(heard.ran) is runs


@proves("C32")
def test_a_missing_arguments_key_means_an_empty_object() -> None:
    assert talk(reply({"function": {"name": "echo"}})).ran == [{}]


@proves("I7")
@pytest.mark.parametrize("arguments", ['{"n": "cut', '{"n": 1}', "", None])
def test_a_call_of_a_reply_that_was_cut_off_does_not_run_and_the_model_is_told_why(
    arguments: Any,
) -> None:
    heard = talk(reply(call(arguments), finish_reason="length"))

    assert heard.ran == []
    assert heard.codes == [ErrorCode.ARGUMENTS_TRUNCATED]
    assert "cut off" in heard.answers[0]["errors"][0]["message"]
    response = heard.result.trace.turns[0].response
    assert response is not None
    assert response.reply.finish_reason == "length"


def test_a_call_of_a_reply_that_a_filter_stopped_does_not_run_either() -> None:
    heard = talk(reply(call('{"n": 1}'), finish_reason="content_filter"))

    assert heard.ran == []
    assert heard.codes == [ErrorCode.ARGUMENTS_TRUNCATED]


@proves("I17")
def test_arguments_against_the_schema_name_the_place_and_the_tool_does_not_run() -> None:
    heard = talk(reply(call('{"items": [{"qty": "two"}]}', "order"), call("{}", "order")))
    first, second = (answer["errors"][0] for answer in heard.answers)

    assert heard.ran == []
    assert heard.codes == [ErrorCode.ARGUMENT_ERROR] * 2
    assert "items[0].qty" in first["message"]
    assert "items" in second["message"]


def test_validation_can_be_left_to_the_tools() -> None:
    config = raw(validate_arguments=False)
    assert talk(reply(call('{"items": 5}', "order")), config=config).ran == [{"items": 5}]


# Names


def unknown(name: str, count: int) -> str:
    """Return what a model is told that asks for an unknown tool, with `count` tools on offer."""
    registry = ToolRegistry(ToolDefinition(f"tool_{number}") for number in range(count))
    body = reply(call(name=name))
    heard = parse_reply(body, Plan("m", ()), raw(), registry)
    assert isinstance(heard, Reply)
    problem = heard.calls[0].problem
    assert problem is not None
    assert problem.code is ErrorCode.TOOL_NOT_ALLOWED
    return problem.message


def test_a_short_list_of_tools_is_told_whole() -> None:
    assert unknown("fly", 12).endswith("tool_9, tool_10, tool_11.")
    assert "Did you mean" not in unknown("fly", 12)


def test_of_a_long_list_the_nearest_are_told() -> None:
    assert "Did you mean 'tool_7'?" in unknown("tol_7", 13)
    assert "tool_1," not in unknown("tol_7", 13)


@pytest.mark.parametrize("count", [0, 13])
def test_where_nothing_is_near_the_model_is_asked_to_go_on_without(count: int) -> None:
    assert unknown("fly", count).endswith("Answer without it.")


def test_an_unknown_name_matters_more_than_bad_arguments() -> None:
    heard = talk(reply(call("{", "fly")))
    assert heard.codes == [ErrorCode.TOOL_NOT_ALLOWED]


def test_a_long_name_is_quoted_in_part() -> None:
    assert len(unknown("x" * 100_000, 3)) < 200


def test_the_registered_name_goes_into_the_history_and_the_asked_one_into_the_trace() -> None:
    heard = talk(calls("functions.Echo", n=1))

    assert heard.messages[1]["tool_calls"][0]["function"]["name"] == "echo"
    assert heard.result.run.replies[0].calls[0].asked == "functions.Echo"


def test_entities_are_decoded_before_a_schema_or_a_policy_sees_the_arguments() -> None:
    schema = {"type": "object", "properties": {"c": {"type": "string", "enum": ["a && b"]}}}
    toolbox = ToolRegistry([{"name": "run", "parameters": schema}])
    config = presets.decode_html_entities()

    call = resolve_call("run", '{"c":"a &amp;&amp; b"}', config, toolbox)

    assert (call.arguments, call.problem) == ({"c": "a && b"}, None)
    assert call.repairs == ("html_entities",)


def test_what_cannot_be_read_of_a_call_in_text_is_not_read_another_way() -> None:
    toolbox = ToolRegistry([ToolDefinition("run", parameters={"properties": {"c": {}}})])
    config = presets.default_tool_calling()

    native = resolve_call("run", '{"c":"x"}}', config, toolbox)
    in_text = resolve_call("run", '{"c":"x"}}', config, toolbox, in_text=True)
    large = resolve_call("run", '{"c":"x"}}', config.replace(max_tool_args_bytes=5), toolbox)

    assert (native.problem, native.arguments) == (None, {"c": "x"})
    assert in_text.problem is not None
    assert large.problem is not None


def test_only_text_with_marks_may_hold_a_call() -> None:
    assert may_contain_calls(says("<tool_call>"))
    assert not may_contain_calls(says("Done."))
    assert not may_contain_calls({"choices": []})


# Canonical answers: no transform changes one, so none has to look at it


CALL: JSON = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
}
CASES = corpus.load()
# Of each part some that are as they should be, and all that a transform is there for.
CONTENTS: st.SearchStrategy[Any] = st.sampled_from(
    (None, "", " ", "Clear.", "</s>", "\u200b", 7, [], [{"type": "text", "text": "Clear."}], {})
)
NAMES = st.sampled_from(
    ("get_weather", "", " ", None, "multi_tool_use.parallel", "read<arg_key>path</arg_key>")
)
ARGUMENTS = st.sampled_from(('{"city": "Rome"}', "", "{}", None, {"city": "Rome"}, [1]))
FUNCTIONS = st.fixed_dictionaries({}, optional={"name": NAMES, "arguments": ARGUMENTS})
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(("call_1", "", None)),
        "function": FUNCTIONS | st.none(),
        "name": NAMES,
        "arguments": ARGUMENTS,
    },
)
LISTS = st.lists(CALLS | st.none() | st.just("call"), max_size=2)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": CONTENTS,
        "tool_calls": LISTS | CALLS | st.sampled_from((None, "", "[]", '[{"name": "f"}]', "no", 0)),
        "function_call": CALLS | st.none(),
        "reasoning_content": st.sampled_from(("I think.", None)),
    },
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "message": MESSAGES | st.none() | st.just("Clear."),
        "delta": MESSAGES | st.none(),
        "finish_reason": st.sampled_from(("stop", "tool_calls", "length", "error", None)),
    },
)
ERRORS = st.sampled_from((None, "", {}, "no", {"failed_generation": "<function=f>"}))
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(CHOICES | st.none(), max_size=2) | st.none() | CHOICES,
        "error": ERRORS,
        "data": st.fixed_dictionaries({"choices": st.lists(CHOICES, max_size=1)}),
    },
)


def answer(**message: Any) -> JSON:
    return {"choices": [{"message": {"role": "assistant"} | message, "finish_reason": "stop"}]}


def assert_left_alone(body: Any) -> None:
    fired: list[str] = []
    message = body["choices"][0]["message"]
    assert BODY.apply(BODY.names, body, fired) is body
    assert RESPONSE.apply(RESPONSE.names, message, fired) is message
    assert fired == []


@given(BODIES)
def test_what_is_canonical_is_left_alone_by_every_transform(body: JSON) -> None:
    if is_canonical(body):
        assert_left_alone(body)


@pytest.mark.parametrize("name", CASES)
def test_what_is_canonical_in_the_wild_is_left_alone_too(name: str) -> None:
    body = CASES[name]["body"]
    if is_canonical(body):
        assert_left_alone(body)


def test_a_transform_has_something_to_do_for_some_faults_at_least() -> None:
    bent = [case["body"] for case in CASES.values() if not is_canonical(case["body"])]
    assert len(bent) > len(SHAPE_FAULTS) / 10


@pytest.mark.parametrize(
    "body",
    [
        answer(content="Clear."),
        answer(content="Clear.", tool_calls=None, refusal=None),
        answer(content="Clear.", tool_calls=[], annotations=[]),
        answer(content=None, tool_calls=[CALL]),
        answer(content="", tool_calls=[CALL, CALL | {"id": ""}], reasoning="I think."),
        answer(content="I look.", tool_calls=[CALL]) | {"error": None, "usage": {}},
    ],
)
def test_what_good_servers_send_is_canonical(body: JSON) -> None:
    assert is_canonical(body)
    assert_left_alone(body)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        answer(content="Clear.") | {"error": "no"},
        {"choices": None},
        {"choices": ["Clear."]},
        {"choices": [{"message": None}]},
        {"choices": [*answer(content="Clear.")["choices"], {"message": {}}]},
        answer(),
        answer(content=""),
        answer(content="</s>"),
        answer(content=" Clear."),
        answer(content=["Clear."]),
        answer(content="Clear.", function_call=None),
        answer(content="Clear.", tool_calls={}),
        answer(tool_calls=CALL),
        answer(tool_calls=["call"]),
        answer(tool_calls=[{"name": "get_weather", "arguments": "{}"}]),
        answer(tool_calls=[{"function": {"name": "get_weather", "arguments": {}}}]),
        answer(tool_calls=[{"function": {"name": " ", "arguments": "{}"}}]),
        answer(tool_calls=[{"function": {"name": None, "arguments": "{}"}}]),
        answer(tool_calls=[{"function": {"name": "f<arg_key>x", "arguments": ""}}]),
        answer(tool_calls=[{"function": {"name": "multi_tool_use.parallel", "arguments": "{}"}}]),
    ],
)
def test_anything_else_is_looked_at(body: Any) -> None:
    assert not is_canonical(body)


RUN = ToolDefinition(
    "run_shell",
    "Run a command.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}},
)


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ('run_shell command="ls"', "{}", {"command": "ls"}),
        ("run_shell", '{"command=ls": ""}', None),
        ("run_shell", {"error": "Failed to parse"}, None),
    ],
)
def test_what_arrived_in_the_wrong_place_is_moved_or_refused(
    name: str, arguments: Any, value: JSON | None
) -> None:
    call = resolve_call(name, arguments, presets.resolve(), ToolRegistry([RUN]))

    if value is None:
        assert call.problem is not None
        assert call.problem.code is ErrorCode.ARGUMENT_ERROR
    else:
        assert (call.name, call.arguments, call.problem) == ("run_shell", value, None)


def test_a_value_in_its_key_is_moved_if_nothing_else_is_allowed() -> None:
    strict = {**RUN.spec.parameters, "required": ["command"], "additionalProperties": False}
    tool = ToolDefinition("run_shell", "Run a command.", parameters=strict)

    call = resolve_call("run_shell", '{"command=ls": ""}', presets.resolve(), ToolRegistry([tool]))

    assert (call.arguments, call.problem, call.repairs[-1:]) == (
        {"command": "ls"},
        None,
        ("value_in_key",),
    )
