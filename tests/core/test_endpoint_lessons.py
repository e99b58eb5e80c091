"""What an endpoint refuses is learned once: the request goes out again without it."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from surecall import (
    Fault,
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
from surecall.core.endpoint_lessons import applied, lesson_of
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, ScriptedProvider, calls, failure, says
from surecall.values.errors import ErrorCode
from surecall.values.events import LlmRequestRetryEvent
from surecall.values.types import JSON, Assistant, Plan, ToolCall, ToolSpec, User
from tests.support.spec import proves


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


@dataclass
class Place:
    city: str


CONFIG = presets.default_tool_calling(raw(tool_choice="required"))
NO_PARALLEL = failure(400, {"error": {"message": "Unknown parameter: 'parallel_tool_calls'."}})
NO_REQUIRED = failure(400, {"error": {"message": "tool_choice 'required' is unavailable here"}})


def ran(*script: Item, runs: int = 1) -> tuple[list[RunResult], ScriptedModel]:
    model = ScriptedModel(*script)
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=ToolRegistry([ping]),
        config=CONFIG,
        retry=RetryPolicy(attempts=1),
    )
    return [asyncio.run(runner.run("Go.")) for _ in range(runs)], model


def test_a_refused_parallel_flag_is_left_out_at_once_and_from_then_on() -> None:
    (first, second), model = ran(NO_PARALLEL, says("1"), says("2"), runs=2)

    assert (first.assistant_text, second.assistant_text) == ("1", "2")
    assert ["parallel_tool_calls" in request for request in model.requests] == [True, False, False]
    assert [event.dropped for event in first.trace if isinstance(event, LlmRequestRetryEvent)] == [
        "parallel_tool_calls"
    ]


def test_a_refused_demand_for_a_call_becomes_a_wish() -> None:
    _, model = ran(NO_REQUIRED, calls("ping"), says("ok"))

    assert [request["tool_choice"] for request in model.requests] == ["required", "auto", "auto"]


def test_both_lessons_can_be_learned_in_one_turn_without_using_up_attempts() -> None:
    (result,), model = ran(NO_PARALLEL, NO_REQUIRED, says("ok"))

    assert result.assistant_text == "ok"
    assert len(model.requests) == 3


def test_one_call_a_turn_stays_the_rule_although_the_flag_is_no_longer_sent() -> None:
    two = calls("ping")
    two["choices"][0]["message"]["tool_calls"] *= 2
    (result,), _ = ran(NO_PARALLEL, two, says("ok"))

    assert result.trace.turns[0].ignored_tool_calls_count == 1


def test_a_run_that_learned_something_replays() -> None:
    (result,), _ = ran(NO_PARALLEL, calls("ping"), NO_REQUIRED, says("ok"))

    assert replay(result.trace).run == result.run


def test_a_second_refusal_of_the_same_kind_is_raised() -> None:
    with pytest.raises(ProviderError) as error:
        ran(NO_PARALLEL, NO_PARALLEL)
    assert error.value.status == 400


def test_runners_of_one_client_share_what_it_learned() -> None:
    with ScriptedProvider(NO_PARALLEL, says("1"), says("2")) as provider:
        client = OpenAICompatible(provider.url)
        for _ in range(2):
            runner = ToolLoopRunner(
                client=client, model="m", registry=ToolRegistry([ping]), config=CONFIG
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
    results, requests = asked(*script, runs=2, tools=[ping], config=GUIDED)
    refused, *taken = (request["response_format"] for request in requests)

    assert [result.assistant_text for result in results] == ["Done."] * 2
    assert [len(result.trace.turns) for result in results] == [2, 2]
    assert refused["type"] == "json_schema"
    assert taken[0] == {"type": "json_object", "schema": refused["json_schema"]["schema"]}
    assert {form["type"] for form in taken} == {"json_object"}
    assert len(taken) == 4


def test_a_form_that_is_refused_in_both_ways_is_asked_for_in_words() -> None:
    _, requests = asked(NO_SCHEMA, NO_FORM, CALLED, ANSWERED, tools=[ping], config=GUIDED)

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
    assert lesson_of(Fault(ErrorCode.BAD_REQUEST, message, status), PLAN) == lesson


def test_tools_that_the_conversation_needs_are_sent_again() -> None:
    called = (User("Go."), Assistant("", (ToolCall("1", "t"),)))
    plan = Plan("m", called, known_tools=PLAN.tools)

    assert lesson_of(Fault(ErrorCode.BAD_REQUEST, "`tools` must be set", 400), plan) == "tools"
    assert applied(plan, ["tools"]).tools == PLAN.tools


def test_nothing_is_learned_about_what_was_not_sent() -> None:
    fault = Fault(ErrorCode.BAD_REQUEST, "tool_choice and parallel_tool_calls", 400)

    assert lesson_of(fault, Plan("m", ())) is None
    assert lesson_of(fault, Plan("m", (), PLAN.tools, "auto")) is None


def test_a_lesson_changes_only_the_plans_it_is_about() -> None:
    plain = Plan("m", (), PLAN.tools, "auto")

    assert applied(plain, ("tool_choice", "parallel_tool_calls")) is plain
    assert applied(PLAN, ("tool_choice",)).tool_choice == "auto"
    assert applied(PLAN, ("parallel_tool_calls",)).options == {}


@proves("C85")
def test_what_the_capabilities_deny_is_planned_but_not_sent() -> None:
    model = ScriptedModel(calls("ping"), says("ok"))
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=ToolRegistry([ping]),
        config=CONFIG,
        capabilities=capabilities_for("gemini"),
    )
    result = asyncio.run(runner.run("Go."))

    assert all("parallel_tool_calls" not in request for request in model.requests)
    assert result.run.options == {"parallel_tool_calls": False}
    assert replay(result.trace).run == result.run
