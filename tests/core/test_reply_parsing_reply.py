"""A reply as a whole: its edges and its end, what it may cost to read, and who kept it from us."""

import json
from typing import Any, Final

import pytest

from surecall import presets
from surecall.core.reply_parsing import (
    CHOICES_JOINED,
    EDGES_TRIMMED,
    TAG_CALLS,
    parse_reply,
    resolve_call,
    text_calls_mode,
)
from surecall.parsing.budget import MAX_CALLS, MAX_VALUES
from surecall.settings.config import ToolCallingConfig
from surecall.settings.presets import raw
from surecall.tools.registry import ToolRegistry
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import JSON, Plan, Reply, User
from tests.support.replies import completion_body

SCHEMA: Final[JSON] = {"properties": {"place": {"type": "string"}}, "required": ["place"]}
TOOLS: Final = ToolRegistry(
    [{"name": "look", "parameters": SCHEMA}, {"name": "leave", "parameters": SCHEMA}]
)
SPECS: Final = tuple(definition.spec for definition in TOOLS.definitions)
RAW: Final = presets.raw()
DEFAULT: Final = presets.default_tool_calling()
IN_TEXT: Final = '<tool_call>{"name": "look", "arguments": {"place": "A"}}</tool_call>'
WEAK: Final = '{"name": "look", "arguments": {"place": "A"}}'


def heard(body: Any, config: ToolCallingConfig = RAW, asked: str = "go", **options: Any) -> Any:
    """Return the reply, or the fault that it is."""
    plan = Plan("m", (User(asked),), SPECS, options=options, known_tools=SPECS)
    return parse_reply(body, plan, config, TOOLS)


def said(text: str | None, config: ToolCallingConfig = RAW, reason: str = "stop") -> Any:
    return heard(completion_body({"content": text}, reason), config)


def call(arguments: Any = '{"place": "A"}', name: str = "look", **extra: Any) -> JSON:
    return {"type": "function", "function": {"name": name, "arguments": arguments}} | extra


def called(*raw_calls: JSON, reason: str = "tool_calls") -> Any:
    return heard(completion_body({"content": None, "tool_calls": list(raw_calls)}, reason))


def arguments_of(reply: Any) -> list[JSON]:
    """Return the arguments of the calls that may run."""
    assert isinstance(reply, Reply), reply
    return [call.arguments for call in reply.calls if call.problem is None]


# What is told beside the words


def test_a_reply_tells_who_made_it_and_what_stands_beside_its_words() -> None:
    body = completion_body({"content": "Hi.", "mood": "fine"}) | {"provider": "p", "usage": {}}
    reply = heard(body)

    assert (reply.text, reply.model, reply.provider, reply.response_id) == ("Hi.", "m", "p", "r")
    assert (reply.extra, reply.finish_reason, reply.fired) == ({"mood": "fine"}, "stop", ())
    assert reply.usage is not None


def test_what_is_no_text_names_nobody() -> None:
    reply = heard(completion_body({"content": "Hi."}) | {"model": 5, "provider": {}, "id": None})
    assert (reply.model, reply.provider, reply.response_id) == (None, None, None)


def test_a_call_whose_id_had_to_change_remembers_the_one_it_came_with() -> None:
    reply = called(call(id="a"), call(id="a"), call())

    assert [one.first_id for one in reply.calls] == [None, "a", None]
    assert not any(one.from_text for one in reply.calls)


# Edges


def test_an_end_token_stays_where_edges_are_not_trimmed() -> None:
    assert said("Done.<|im_end|>").text == "Done.<|im_end|>"


def test_an_edge_that_was_hidden_by_a_call_is_trimmed_and_told() -> None:
    config = raw(response_transforms=(EDGES_TRIMMED,), text_calls="marked")
    reply = said(f"Done.<|im_end|>\n{IN_TEXT}", config)

    assert (reply.text, arguments_of(reply)) == ("Done.", [{"place": "A"}])
    assert reply.fired.count(EDGES_TRIMMED) == 1
    assert reply.calls[0].from_text


def test_how_a_call_was_found_in_text_is_told() -> None:
    assert said(IN_TEXT, RAW.replace(text_calls="marked")).fired == ("text_call_A1",)


def test_edges_that_were_trimmed_twice_are_told_once() -> None:
    config = raw(response_transforms=(EDGES_TRIMMED,), text_calls="marked")
    reply = said(f"\u200bDone.<|im_end|>\n{IN_TEXT}", config)

    assert reply.text == "Done."
    assert reply.fired.count(EDGES_TRIMMED) == 1


def test_nothing_is_told_of_edges_that_were_clean() -> None:
    reply = said("Done.", raw(response_transforms=(EDGES_TRIMMED,)))
    assert (reply.text, reply.fired) == ("Done.", ())


# Choices


@pytest.mark.parametrize(("options", "joined"), [({}, True), ({"n": 1}, True), ({"n": 2}, False)])
def test_choices_are_joined_unless_several_were_asked_for(options: JSON, *, joined: bool) -> None:
    words = completion_body({"content": "Looking."})["choices"]
    calls = completion_body({"content": None, "tool_calls": [call()]})["choices"]
    reply = heard({"choices": [*words, *calls]}, DEFAULT, **options)

    assert reply.text == "Looking."
    assert bool(reply.calls) is joined
    assert (CHOICES_JOINED in reply.fired) is joined


def test_who_asks_for_several_choices_has_the_first_healed_all_the_same() -> None:
    body = {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}
    assert heard(body, DEFAULT, n=2).text == "Hi."


# How it ended


def test_a_filter_that_let_nothing_through_is_told_as_a_fault() -> None:
    reason = "content_filter" + "!" * 200
    fault = said(" ", reason=reason)

    assert isinstance(fault, Fault)
    assert (fault.code, fault.retryable) == (ErrorCode.CONTENT_POLICY, False)
    assert fault.message.endswith(f": {reason[:200]}")
    assert fault.hint


@pytest.mark.parametrize(("text", "reason"), [("Well,", "content_filter"), ("", "stop")])
def test_words_before_a_filter_and_silence_without_one_are_replies(text: str, reason: str) -> None:
    reply = said(text, reason=reason)

    assert isinstance(reply, Reply)
    assert (reply.text, reply.finish_reason) == (text, reason)


def test_a_call_of_a_reply_that_ended_as_malformed_does_not_run_and_is_asked_for_again() -> None:
    (made,) = called(call(), reason="malformed_function_call").calls

    assert made.problem is not None
    assert made.problem.code is ErrorCode.ARGUMENTS_JSON_PARSE_ERROR
    assert "arrived malformed" in made.problem.message


def test_of_a_call_that_was_too_large_before_it_was_cut_off_the_size_is_told() -> None:
    (large,) = called(call(json.dumps({"place": "A" * 200_000})), reason="length").calls
    (unreadable,) = called(call("{"), reason="length").calls

    assert large.problem is not None
    assert large.problem.code is ErrorCode.ARGUMENTS_TOO_LARGE
    assert unreadable.problem is not None
    assert unreadable.problem.code is ErrorCode.ARGUMENTS_TRUNCATED


# What a provider could not read


SALVAGING: Final = raw(
    body_transforms=("failed_generation_to_message",), text_call_rules=("own_words",)
)


def failed(generation: str) -> JSON:
    return {"error": {"message": "failed", "failed_generation": generation}}


def test_what_a_provider_failed_to_read_as_a_call_was_meant_as_one() -> None:
    assert arguments_of(heard(failed(WEAK), SALVAGING, "go")) == [{"place": "A"}]


def test_what_only_quotes_a_call_is_none_even_if_a_provider_tried_to_read_it() -> None:
    config = SALVAGING.replace(text_calls="any")
    reply = heard(completion_body({"content": WEAK}), config, f"go and say {WEAK}")
    fault = heard(failed(WEAK), SALVAGING, f"go and say {WEAK}")

    assert reply.text == WEAK
    assert reply.calls == ()
    assert isinstance(fault, Fault)
    assert fault.code is ErrorCode.MALFORMED_CALL


def test_a_failed_generation_without_a_call_is_made_again() -> None:
    fault = heard(failed("I do not know."), SALVAGING)

    assert isinstance(fault, Fault)
    assert (fault.code, fault.retryable) == (ErrorCode.MALFORMED_CALL, True)


@pytest.mark.parametrize("body", [None, [], "text", {}, {"choices": []}, {"error": {}}])
def test_an_answer_without_a_choice_is_a_fault(body: Any) -> None:
    assert isinstance(heard(body, DEFAULT), Fault)


# Calls in text


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({}, "off"),
        ({"text_calls": "any"}, "any"),
        ({"call_protocol": "guided"}, "marked"),
        ({"call_protocol": "prompted"}, "marked"),
        ({"response_transforms": (TAG_CALLS,)}, "marked"),
        ({"call_protocol": "prompted", "text_calls": "any"}, "any"),
    ],
)
def test_protocols_that_are_made_of_text_read_marked_calls_at_least(
    changes: JSON, mode: str
) -> None:
    assert text_calls_mode(RAW.replace(text_calls="off").replace(**changes)) == mode


GUIDED: Final = raw(call_protocol="guided", text_calls="off")


@pytest.mark.parametrize("text", [WEAK, f"\n {WEAK}", f"[{WEAK}]", f"```json\n{WEAK}\n```"])
def test_a_guided_reply_that_is_all_json_is_a_call_in_whatever_words(text: str) -> None:
    assert arguments_of(said(text, GUIDED)) == [{"place": "A"}]
    assert arguments_of(said(text)) == []


def test_a_guided_reply_that_begins_with_words_is_no_call_by_its_json() -> None:
    assert arguments_of(said(f"For example: {WEAK}", GUIDED)) == []


@pytest.mark.parametrize("quoted", [WEAK, IN_TEXT])
def test_a_guided_answer_holds_no_calls_whatever_it_quotes(quoted: str) -> None:
    reply = said(json.dumps({"answer": quoted}), GUIDED)
    assert (reply.text, reply.calls, reply.claims) == (quoted, (), ())


@pytest.mark.parametrize("frame", ["{}", "{}<|im_end|>", "\u200b{}", "<|im_end|>{}</s>"])
def test_a_guided_call_is_heard_whatever_is_at_the_edges_of_its_reply(frame: str) -> None:
    text = frame.replace("{}", '{"tool": "look", "arguments": {"place": "A"}}')
    reply = said(text, GUIDED.replace(response_transforms=(EDGES_TRIMMED,)))

    assert arguments_of(reply) == [{"place": "A"}]
    assert (reply.text, EDGES_TRIMMED in reply.fired) == ("", frame != "{}")


# What it may cost to read


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_reply_has_so_many_calls_and_no_more(more: int, *, fits: bool) -> None:
    reply = called(*[call("{}")] * (MAX_CALLS + more))

    assert isinstance(reply, Reply) is fits
    assert fits or reply.code is ErrorCode.RESPONSE_TOO_LARGE


def test_calls_that_come_as_one_text_are_counted_when_they_are_read() -> None:
    calls = json.dumps([{"function": {"name": "look"}}] * (MAX_CALLS + 1))
    fault = heard(completion_body({"tool_calls": calls}), DEFAULT)

    assert isinstance(fault, Fault)
    assert fault.code is ErrorCode.RESPONSE_TOO_LARGE
    assert "calls" in fault.message


@pytest.mark.parametrize(
    ("texts", "fits"),
    [
        (["," * MAX_VALUES], True),
        (["," * MAX_VALUES + " "], True),
        (["," * MAX_VALUES + "["], False),
        (["," * (MAX_VALUES // 2), "{" * (MAX_VALUES // 2)], True),
        (["," * (MAX_VALUES // 2), "{" * (MAX_VALUES // 2 + 1)], False),
        (["x" * (MAX_VALUES * 2)], True),
    ],
)
def test_the_values_of_all_arguments_are_counted_before_they_are_read(
    texts: list[str], *, fits: bool
) -> None:
    reply = called(*map(call, texts))

    assert isinstance(reply, Reply) is fits
    assert fits or (reply.code is ErrorCode.RESPONSE_TOO_LARGE and "values" in reply.message)


def test_so_are_those_of_calls_that_come_as_one_text() -> None:
    fault = heard(completion_body({"tool_calls": "[" * (MAX_VALUES + 1)}), DEFAULT)

    assert isinstance(fault, Fault)
    assert fault.code is ErrorCode.RESPONSE_TOO_LARGE


# What refused arguments can only mean


def test_arguments_wrapped_in_a_call_of_the_tool_itself_are_unwrapped() -> None:
    own = resolve_call("look", WEAK, DEFAULT, TOOLS)
    other = resolve_call("leave", WEAK, DEFAULT, TOOLS)

    assert (own.problem, own.arguments) == (None, {"place": "A"})
    assert other.problem is not None


def test_refused_arguments_are_read_another_way_only_where_they_may_change() -> None:
    made = resolve_call("look", WEAK, DEFAULT.replace(coerce_arguments=False), TOOLS)
    assert made.problem is not None


def test_the_same_wrapping_in_text_is_unwrapped_too_for_it_could_be_read() -> None:
    made = resolve_call("look", WEAK, DEFAULT, TOOLS, in_text=True)
    assert (made.problem, made.arguments) == (None, {"place": "A"})


def test_a_repair_that_was_made_twice_is_told_once() -> None:
    made = resolve_call("look", '{"place": 5}', DEFAULT, TOOLS)

    assert (made.problem, made.arguments) == (None, {"place": "5"})
    assert len(made.repairs) == len(set(made.repairs)) > 0


def test_the_first_64_characters_of_an_unknown_name_are_quoted() -> None:
    made = resolve_call("x" * 65, "{}", RAW, TOOLS)

    assert made.problem is not None
    assert made.problem.message.startswith(f"There is no tool '{'x' * 64}'. ")


def test_the_nearest_name_is_proposed_first() -> None:
    made = resolve_call("lok", "{}", RAW, TOOLS)

    assert made.problem is not None
    assert "Did you mean 'look'? Tools: look, leave." in made.problem.message


def test_objects_become_text_where_the_config_says_so() -> None:
    config = RAW.replace(stringify_containers=True)
    made = resolve_call("look", '{"place": {"x": 1}}', config, TOOLS)

    assert made.problem is None
    assert made.arguments == {"place": '{"x":1}'}
    assert resolve_call("look", '{"place": {"x": 1}}', RAW, TOOLS).problem is not None


@pytest.mark.parametrize("may_fit", [True, False])
def test_values_are_made_to_fit_only_where_the_config_says_so(*, may_fit: bool) -> None:
    schema = {"properties": {"times": {"type": "integer"}}}
    toolbox = ToolRegistry([{"name": "ring", "parameters": schema}])
    made = resolve_call("ring", '{"times": "5"}', RAW.replace(coerce_arguments=may_fit), toolbox)

    assert (made.problem is None) is may_fit
    assert made.arguments == {"times": 5 if may_fit else "5"}
    assert bool(made.repairs) is may_fit
