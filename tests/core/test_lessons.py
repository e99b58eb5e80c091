"""Tests of `surecall.core.lessons`."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from surecall import (
    OpenAICompatible,
    ProviderError,
    RetryPolicy,
    RunResult,
    ToolLoopRunner,
    ToolRegistry,
    capabilities_for,
    presets,
    replay,
    tool,
)
from surecall.core.lessons import apply_lessons, lesson_from
from surecall.core.refusals import request_lessons
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, ScriptedProvider, calls, failure, says
from surecall.values.errors import ErrorCode, Fault
from surecall.values.events import LlmRequestRetryEvent
from surecall.values.types import JSON, Assistant, Plan, ToolCall, ToolSpec, User
from tests.support.spec import proves

# What an endpoint refuses is learned once: the request goes out again without it


@tool
async def endpoint_lessons_ping() -> str:
    """Answer."""
    return "pong"


@dataclass
class Place:
    city: str


CONFIG = presets.default_tool_calling(raw(tool_choice="required"))
NO_PARALLEL = failure(400, {"error": {"message": "Unknown parameter: 'parallel_tool_calls'."}})
NO_REQUIRED = failure(400, {"error": {"message": "tool_choice 'required' is unavailable here"}})


def endpoint_lessons_ran(*script: Item, runs: int = 1) -> tuple[list[RunResult], ScriptedModel]:
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=ToolRegistry([endpoint_lessons_ping]),
        config=CONFIG,
        retry=RetryPolicy(attempts=1),
    )
    return [asyncio.run(runner.run("Go.")) for _ in range(runs)], model


def test_a_refused_parallel_flag_is_left_out_at_once_and_from_then_on() -> None:
    (first, second), model = endpoint_lessons_ran(NO_PARALLEL, says("1"), says("2"), runs=2)

    assert (first.assistant_text, second.assistant_text) == ("1", "2")
    assert ["parallel_tool_calls" in request for request in model.requests] == [True, False, False]
    assert [event.dropped for event in first.trace if isinstance(event, LlmRequestRetryEvent)] == [
        "parallel_tool_calls"
    ]


def test_a_refused_demand_for_a_call_becomes_a_wish() -> None:
    _, model = endpoint_lessons_ran(NO_REQUIRED, calls("ping"), says("ok"))

    assert [request["tool_choice"] for request in model.requests] == ["required", "auto", "auto"]


def test_both_lessons_can_be_learned_in_one_turn_without_using_up_attempts() -> None:
    (result,), model = endpoint_lessons_ran(NO_PARALLEL, NO_REQUIRED, says("ok"))

    assert result.assistant_text == "ok"
    assert len(model.requests) == 3


def test_one_call_a_turn_stays_the_rule_although_the_flag_is_no_longer_sent() -> None:
    two = calls("ping")
    two["choices"][0]["message"]["tool_calls"] *= 2
    (result,), _ = endpoint_lessons_ran(NO_PARALLEL, two, says("ok"))

    assert result.trace.turns[0].ignored_tool_calls_count == 1


def test_a_run_that_learned_something_replays() -> None:
    (result,), _ = endpoint_lessons_ran(NO_PARALLEL, calls("ping"), NO_REQUIRED, says("ok"))

    assert replay(result.trace).run == result.run


def test_a_second_refusal_of_the_same_kind_is_raised() -> None:
    with pytest.raises(ProviderError) as error:
        endpoint_lessons_ran(NO_PARALLEL, NO_PARALLEL)
    assert error.value.status == 400


def test_runners_of_one_client_share_what_it_learned() -> None:
    with ScriptedProvider(NO_PARALLEL, says("1"), says("2")) as provider:
        client = OpenAICompatible(provider.url)
        for _ in range(2):
            runner = ToolLoopRunner(
                client=client,
                model="m",
                registry=ToolRegistry([endpoint_lessons_ping]),
                config=CONFIG,
            )
            asyncio.run(runner.run("Go."))

    assert len(provider.requests) == 3


# As the server of llama-cpp-python says it.
NO_SCHEMA = failure(
    500,
    {
        "error": {
            "message": "1 validation error:\n  {'type': 'literal_error', 'loc': ('body', "
            "'response_format', 'type'), 'msg': \"Input should be 'text' or 'json_object'\"}",
            "type": "internal_server_error",
        }
    },
)
NO_FORM = failure(400, {"error": {"message": "response_format is not supported"}})
GUIDED = presets.default_tool_calling().replace(call_protocol="guided")
CALLED, ANSWERED = says('{"tool": "ping", "arguments": {}}'), says('{"answer": "Done."}')


def asked(*script: Item, runs: int = 1, **settings: Any) -> tuple[list[Any], list[JSON]]:
    """Return the results of runs, and the requests, which went over HTTP."""
    with ScriptedProvider(*script) as provider:
        client = OpenAICompatible(provider.url)
        retry = RetryPolicy(attempts=1)
        runner = ToolLoopRunner(client=client, model="m", retry=retry, **settings)
        return [runner.run_sync("Go.") for _ in range(runs)], provider.requests


def kind_of(request: JSON) -> str | None:
    form = request.get("response_format")
    return None if form is None else form["type"]


def test_a_schema_that_is_refused_with_a_failure_is_sent_beside_json_object() -> None:
    script = (NO_SCHEMA, CALLED, ANSWERED, CALLED, ANSWERED)
    results, requests = asked(*script, runs=2, tools=[endpoint_lessons_ping], config=GUIDED)
    refused, *taken = (request["response_format"] for request in requests)

    assert [result.assistant_text for result in results] == ["Done."] * 2
    assert [len(result.trace.turns) for result in results] == [2, 2]
    assert refused["type"] == "json_schema"
    assert taken[0] == {"type": "json_object", "schema": refused["json_schema"]["schema"]}
    assert {form["type"] for form in taken} == {"json_object"}
    assert len(taken) == 4


def test_a_form_that_is_refused_in_both_ways_is_asked_for_in_words() -> None:
    _, requests = asked(
        NO_SCHEMA, NO_FORM, CALLED, ANSWERED, tools=[endpoint_lessons_ping], config=GUIDED
    )

    assert [*map(kind_of, requests)] == ["json_schema", "json_object", None, None]


def test_the_form_of_a_typed_answer_is_told_once_however_often_it_is_refused() -> None:
    script = (NO_SCHEMA, NO_FORM, says('{"city": "Oslo"}'))
    (result,), requests = asked(*script, output=Place, config=GUIDED)

    assert result.output == Place("Oslo")
    assert [*map(kind_of, requests)] == ["json_schema", "json_object", None]
    plain, told, again = (request["messages"] for request in requests)
    assert "city" not in str(plain)
    assert "city" in str(told)
    assert told == again


PLAN = Plan("m", (), (ToolSpec("t", "", {}),), "required", options={"parallel_tool_calls": False})


@pytest.mark.parametrize(
    ("status", "message", "lesson"),
    [
        (400, "parallel_tool_calls is not supported", "parallel_tool_calls"),
        (422, "Tool choice must be auto", "tool_choice"),
        (400, "messages are malformed", None),
        (500, "parallel_tool_calls", None),
        (500, "2 validation errors: parallel_tool_calls is not known", "parallel_tool_calls"),
        (503, "1 validation error: parallel_tool_calls is not known", None),
        (None, "parallel_tool_calls", None),
    ],
)
def test_a_lesson_is_drawn_from_what_the_refusal_names(
    status: int | None, message: str, lesson: str | None
) -> None:
    assert lesson_from(Fault(ErrorCode.BAD_REQUEST, message, status), PLAN) == lesson


def test_tools_that_the_conversation_needs_are_sent_again() -> None:
    called = (User("Go."), Assistant("", (ToolCall("1", "t"),)))
    plan = Plan("m", called, known_tools=PLAN.tools)

    assert lesson_from(Fault(ErrorCode.BAD_REQUEST, "`tools` must be set", 400), plan) == "tools"
    assert apply_lessons(plan, ["tools"]).tools == PLAN.tools


def test_nothing_is_learned_about_what_was_not_sent() -> None:
    fault = Fault(ErrorCode.BAD_REQUEST, "tool_choice and parallel_tool_calls", 400)

    assert lesson_from(fault, Plan("m", ())) is None
    assert lesson_from(fault, Plan("m", (), PLAN.tools, "auto")) is None


def test_a_lesson_changes_only_the_plans_it_is_about() -> None:
    plain = Plan("m", (), PLAN.tools, "auto")

    assert apply_lessons(plain, ("tool_choice", "parallel_tool_calls")) is plain
    assert apply_lessons(PLAN, ("tool_choice",)).tool_choice == "auto"
    assert apply_lessons(PLAN, ("parallel_tool_calls",)).options == {}


@proves("C85")
def test_what_the_capabilities_deny_is_planned_but_not_sent() -> None:
    model = ScriptedModel(calls("ping"), says("ok"))
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=ToolRegistry([endpoint_lessons_ping]),
        config=CONFIG,
        capabilities=capabilities_for("gemini"),
    )
    result = asyncio.run(runner.run("Go."))

    assert all("parallel_tool_calls" not in request for request in model.requests)
    assert result.run.options == {"parallel_tool_calls": False}
    assert replay(result.trace).run == result.run


# What a refusal says about plain words, quotations, and other subjects


REQUEST: JSON = {
    "messages": [{"role": "user", "content": "Go."}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "stop": ["x"],
    "user": "u",
    "seed": 7,
    "max_tokens": "many",
    "top_p": 1,
    "n": 1,
    "presence_penalty": 1,
    "metadata": {},
    "store": True,
}


@pytest.mark.parametrize(
    ("message", "learned"),
    [
        ("The stop reason of the last stream is unknown.", ()),
        ("The user is not enabled.", ()),
        ("Unexpected role 'user' after role 'tool'", ()),
        ("This model does not support user messages.", ()),
        ("This model does not support stop.", ("stop",)),
        ("stop is not supported", ("stop",)),
        ("seed parameter not allowed", ("seed",)),
        ("body.seed: extra inputs; seed.value unknown", ("seed",)),
        ("property 'store' is unsupported, did you mean 'stop'?", ("store",)),
        ("does not support parameters: {'seed': 7}", ("seed",)),
        ("Argument not supported: presencePenalty", ("presence_penalty",)),
        ("invalid_request_error: see 'seed'", ()),
        ("'seed' is here", ()),
        ("max_tokens: at most 10", ()),
        ("unsupported: 'stop' 'user' 'seed' 'top_p' 'n' 'metadata' 'store'", ()),
        ("Unsupported parameter: 'seed' was flagged", ()),
    ],
)
def test_an_option_is_left_out_only_if_a_refusal_is_about_it(
    message: str, learned: tuple[str, ...]
) -> None:
    fault = Fault(ErrorCode.BAD_REQUEST, message, 400)

    assert request_lessons(fault, REQUEST, ()) == learned


def test_a_request_of_another_form_teaches_nothing() -> None:
    fault = Fault(ErrorCode.BAD_REQUEST, "Unsupported parameter: 'seed'", 400)

    assert request_lessons(fault, {"messages": [5], "seed": 7}, ()) == ()


def test_another_api_is_learned_only_by_a_client_that_can_switch() -> None:
    fault = Fault(ErrorCode.BAD_REQUEST, "not accessible via the /chat/completions endpoint", 400)

    assert request_lessons(fault, REQUEST, (), apis=True) == ("api:responses",)
    assert request_lessons(fault, REQUEST, ()) == ()


def test_the_largest_limit_below_the_given_number_is_kept() -> None:
    message = "max_tokens (current value: 4096) must be between 0 and 4000"
    fault = Fault(ErrorCode.BAD_REQUEST, message, 400)

    assert request_lessons(fault, REQUEST | {"max_tokens": 4096}, ()) == (
        "at-most:max_tokens:4000",
    )


@pytest.mark.parametrize(
    ("message", "learned"),
    [
        ("streaming is not supported with tools", "stream"),
        ("tool_stream is not supported", None),
        ("the upstream is not available", None),
        ("Unsupported: stream was flagged", None),
    ],
)
def test_a_stream_is_given_up_only_if_a_refusal_is_about_it(
    message: str, learned: str | None
) -> None:
    plan = Plan("m", (User("Go."),), options={"stream": True})

    assert lesson_from(Fault(ErrorCode.BAD_REQUEST, message, 400), plan) == learned
