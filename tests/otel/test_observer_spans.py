"""Tests of `surecall.otel.observer`."""

import asyncio
import json

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider, StatusCode, get_current_span

from surecall import (
    AskFirst,
    Decision,
    Fallback,
    OpenAICompatible,
    RetryPolicy,
    Run,
    RunFailed,
    ToolError,
    ToolLoopRunner,
)
from surecall.otel import OpenTelemetry
from surecall.otel.observer import RunSpans, SpanSettings
from surecall.settings.presets import raw
from surecall.testing import (
    ScriptedModel,
    ScriptedProvider,
    calls,
    calls_many,
    failure,
    hangs,
    says,
    streams,
)
from surecall.values.events import FinalEvent, RunFailedEvent, RunPausedEvent, RunStartEvent
from tests.support.telemetry import (
    SCRIPT,
    TREE,
    Kept,
    context_of,
    every_event,
    left_in,
    noted,
    runner_of,
    told,
)
from tests.support.timing import never, until_soon
from tests.support.tools import add

# What the spans of a run say about trouble: attempts, refusals, timeouts, failures


def test_all_attempts_at_a_request_are_one_span(kept: Kept) -> None:
    retry = RetryPolicy(first_wait_s=0.0, attempts=3)
    runner = runner_of(kept, failure(503), failure(429), says("hi"), retry=retry)
    asyncio.run(runner.run("hello"))

    assert kept.drawn == ["invoke_agent", "  chat m"]
    assert noted(kept["chat m"]) == [
        (
            "surecall.request.failed",
            {
                "error.type": "UPSTREAM_5XX",
                "http.response.status_code": 503,
                "surecall.attempt": 1,
            },
        ),
        ("surecall.request.retried", {"surecall.wait_s": 0.0}),
        (
            "surecall.request.failed",
            {"error.type": "RATE_LIMIT", "http.response.status_code": 429, "surecall.attempt": 2},
        ),
        ("surecall.request.retried", {"surecall.wait_s": 0.0}),
    ]
    assert kept["chat m"].status.status_code is StatusCode.UNSET


def test_each_event_is_told_even_if_what_belongs_before_it_is_missing(kept: Kept) -> None:
    start, *others = every_event("x")
    assert isinstance(start, RunStartEvent)
    for event in others:
        spans = RunSpans(SpanSettings(kept.tracer, "", lambda _: {}, None), start, live=False)
        over = spans.record_event(event)
        spans.close("")

        assert over is isinstance(event, FinalEvent | RunFailedEvent | RunPausedEvent)
    assert kept.names.count("invoke_agent") == len(others)


def test_a_refused_request_fails_its_span_and_that_of_the_run(kept: Kept) -> None:
    with pytest.raises(RunFailed):
        asyncio.run(runner_of(kept, failure(401)).run("hello"))

    chat, agent = kept.spans
    assert told(chat)["error.type"] == told(agent)["error.type"] == "AUTH"
    assert told(chat)["http.response.status_code"] == 401
    assert chat.status.status_code is agent.status.status_code is StatusCode.ERROR
    assert chat.status.description is agent.status.description is None


def test_each_model_of_a_chain_has_its_own_spans_and_the_change_is_told(kept: Kept) -> None:
    link = Fallback("b", client=ScriptedModel(says("hi")), options={"temperature": 0.5})
    asyncio.run(runner_of(kept, failure(401), model=["a", link]).run("hello"))

    assert kept.drawn == ["invoke_agent", "  chat a", "  chat b"]
    assert told(kept["chat b"])["gen_ai.request.model"] == "b"
    assert told(kept["chat b"])["gen_ai.request.temperature"] == 0.5
    assert told(kept["invoke_agent"])["gen_ai.request.model"] == "a"
    assert kept["invoke_agent"].status.status_code is StatusCode.UNSET
    change = {
        "surecall.before": "a",
        "gen_ai.request.model": "b",
        "error.type": "AUTH",
        "surecall.rests": False,
    }
    assert noted(kept["invoke_agent"]) == [("surecall.model_changed", change)]


def test_a_request_without_tools_after_a_refusal_is_a_span_of_its_own(kept: Kept) -> None:
    refusal = failure(404, {"error": {"message": "No endpoints found that support tool use."}})
    config = raw(fallback_retry_count=1)
    runner = runner_of(kept, refusal, says("hi"), tools=[add], config=config)
    result = asyncio.run(runner.run("hello"))

    assert result.assistant_text == "hi"
    assert kept.drawn == ["invoke_agent", "  chat m", "  chat m"]
    assert [told(span).get("error.type") for span in kept.spans] == [
        "NO_TOOL_USE_ENDPOINT",
        None,
        None,
    ]
    assert [name for name, _ in noted(kept["invoke_agent"])] == ["surecall.request.retried"]


@pytest.mark.usefixtures("virtual")
def test_a_tool_that_takes_too_long_fails_its_span_and_not_the_run(kept: Kept) -> None:
    async def ponder() -> str:
        """Think about it."""
        await never()
        return ""

    config = raw(tool_timeout_s=1)
    runner = runner_of(kept, calls("ponder"), says("too hard"), tools=[ponder], config=config)
    asyncio.run(runner.run("why?"))

    span = kept["execute_tool ponder"]
    assert told(span)["error.type"] == "TOOL_TIMEOUT"
    assert told(span)["surecall.tool.executed"] is True
    assert span.status.status_code is StatusCode.ERROR
    assert kept["invoke_agent"].status.status_code is StatusCode.UNSET


@pytest.mark.usefixtures("virtual")
def test_a_request_that_outlives_the_run_ends_with_it(kept: Kept) -> None:
    config = raw(run_deadline_s=1)
    with pytest.raises(RunFailed):
        asyncio.run(runner_of(kept, hangs(60), config=config).run("hello"))

    assert [told(span)["error.type"] for span in kept.spans] == ["DEADLINE_EXCEEDED"] * 2


def test_a_run_that_fails_says_with_which_code(kept: Kept) -> None:
    config = raw(max_turns=1)
    with pytest.raises(RunFailed):
        asyncio.run(runner_of(kept, SCRIPT[0], tools=[add], config=config).run("1 + 2?"))

    assert told(kept["invoke_agent"])["error.type"] == "MAX_TURNS_EXCEEDED"
    assert kept["invoke_agent"].status.status_code is StatusCode.ERROR


def test_what_the_loop_does_about_a_reply_is_noted_on_the_run(kept: Kept) -> None:
    asyncio.run(runner_of(kept, says(""), says("hi")).run("hello"))

    assert noted(kept["invoke_agent"]) == [
        ("surecall.fix_empty_final", {"surecall.disable_tools": True})
    ]


def test_a_streamed_run_is_told_alike(kept: Kept) -> None:
    runner = runner_of(kept, *map(streams, SCRIPT), tools=[add])
    with kept.tracer.start_as_current_span("page"):
        assert list(runner.stream_sync("1 + 2?"))
    runner.close()

    assert kept.drawn == ["page", *(f"  {line}" for line in TREE)]
    chats = [told(span) for span in kept.spans if span.name == "chat m"]
    assert [chat["gen_ai.request.stream"] for chat in chats] == [True, True]
    assert [chat["gen_ai.usage.output_tokens"] for chat in chats] == [1, 1]
    assert left_in(runner) == []


# Runs that stop for a person


def paused(kept: Kept) -> tuple[ToolLoopRunner, Run]:
    runner = runner_of(kept, *SCRIPT, tools=[add], tool_policy=AskFirst("everything"))
    run = asyncio.run(runner.run("1 + 2?")).run
    return runner, run


def test_a_run_that_waits_for_a_person_ends_its_span_without_an_error(kept: Kept) -> None:
    runner, run = paused(kept)

    assert kept.drawn == TREE[:2]
    agent = kept["invoke_agent"]
    assert told(agent)["surecall.stop_reason"] == "waiting"
    assert told(agent)["surecall.waiting"] == len(run.waiting) == 1
    assert agent.status.status_code is StatusCode.UNSET
    assert left_in(runner) == []


def test_a_run_that_goes_on_is_a_second_span_of_the_same_run(kept: Kept) -> None:
    runner, run = paused(kept)
    changed = Decision.replace({"a": 1, "b": 3})
    with kept.tracer.start_as_current_span("page"):
        runner.resume_sync(run, decisions={call.id: changed for call in run.waiting})
    runner.close()

    rest = ["  invoke_agent", "    execute_tool add", "    chat m"]
    assert kept.drawn == [*TREE[:2], "page", *rest]
    agents = [told(span) for span in kept.spans if span.name == "invoke_agent"]
    assert {agent["surecall.run.id"] for agent in agents} == {run.run_id}
    assert [agent["surecall.stop_reason"] for agent in agents] == ["waiting", "final"]
    assert left_in(runner) == []


# Which span is below which: callers, runs, calls, and what tools record


@pytest.mark.parametrize("way", ["run", "run_sync", "stream", "stream_sync"])
def test_a_run_is_below_the_span_of_its_caller_and_a_tools_own_below_its_call(
    kept: Kept, way: str
) -> None:
    def look_up() -> str:
        """Look something up."""
        with kept.tracer.start_as_current_span("database"):
            return "found"

    async def in_loop() -> None:
        if way == "run":
            await runner.run("go")
        else:
            assert [event async for event in runner.stream("go")]

    runner = runner_of(kept, calls("look_up"), says("found"), tools=[look_up])
    with kept.tracer.start_as_current_span("page") as page:
        if way == "run_sync":
            runner.run_sync("go")
        elif way == "stream_sync":
            list(runner.stream_sync("go"))
        else:
            asyncio.run(in_loop())
        assert get_current_span() is page
    runner.close()

    assert kept.drawn == [
        "page",
        "  invoke_agent",
        "    chat m",
        "    execute_tool look_up",
        "      database",
        "    chat m",
    ]


def test_two_runs_at_once_keep_their_spans_apart(kept: Kept) -> None:
    async def both() -> None:
        arrived: list[str] = []

        async def meet(name: str) -> str:
            """Wait for the other one."""
            arrived.append(name)
            await until_soon(lambda: len(arrived) == 2)
            with kept.tracer.start_as_current_span(f"met {name}"):
                return name

        script = [calls("meet", name="Ann"), calls("meet", name="Bob")]
        model = ScriptedModel(*script, says("hi"), says("hi"))
        runner = runner_of(kept, client=model, tools=[meet])

        async def alone(name: str) -> None:
            with kept.tracer.start_as_current_span(name):
                await runner.run("hello")

        await asyncio.gather(alone("one"), alone("two"))
        assert left_in(runner) == []

    asyncio.run(both())

    tree = ["  invoke_agent", "    chat m", "    execute_tool meet", "    chat m"]
    assert [line for line in kept.drawn if "met" not in line] == ["one", *tree, "two", *tree]
    drawn = kept.drawn
    assert [drawn[at - 1] for at, line in enumerate(drawn) if "met" in line] == [tree[2]] * 2


def test_calls_that_run_at_once_are_the_current_span_of_their_own_work(kept: Kept) -> None:
    async def meet(name: str) -> str:
        """Wait for the other one."""
        arrived.append(name)
        await until_soon(lambda: len(arrived) == 2)
        with kept.tracer.start_as_current_span(f"met {name}"):
            return name

    arrived: list[str] = []
    script = calls_many(calls("meet", name="Ann"), calls("meet", name="Bob"))
    config = raw(request_overrides={"parallel_tool_calls": True}, max_concurrent_tools=2)
    runner = runner_of(kept, script, says("hi"), tools=[meet], config=config)
    asyncio.run(runner.run("hello"))

    calls_of = {context_of(span).span_id for span in kept.spans if span.name.startswith("execute")}
    parents = {
        span.parent.span_id for span in kept.spans if span.name.startswith("met") and span.parent
    }
    assert parents == calls_of
    assert len(parents) == 2


def test_what_a_run_does_not_record_what_its_tools_do_is_not_recorded_either() -> None:
    kept = Kept(ALWAYS_OFF)
    seen: list[bool] = []

    def look() -> str:
        """Look at the current span."""
        seen.append(get_current_span().get_span_context().is_valid)
        return "seen"

    runner = runner_of(kept, calls("look"), says("hi"), tools=[look], options={"content": True})
    asyncio.run(runner.run("hello"))

    assert seen == [True]
    assert kept.spans == ()
    assert left_in(runner) == []


def test_without_an_sdk_nothing_is_kept_and_nothing_changes() -> None:
    seen: list[object] = []

    def look() -> str:
        """Look at the current span."""
        seen.append(get_current_span().get_span_context().is_valid)
        return "seen"

    tell = OpenTelemetry(NoOpTracerProvider(), content=True)
    model = ScriptedModel(calls("look"), says("hi"))
    runner = ToolLoopRunner(client=model, model="m", tools=[look], observers=[tell])
    asyncio.run(runner.run("hello"))

    assert seen == [False]
    assert left_in(runner) == []


def test_the_address_tells_the_provider_and_the_server(kept: Kept) -> None:
    with ScriptedProvider(says("hi")) as provider:
        client = OpenAICompatible(provider.url, "sk-secret")
        asyncio.run(runner_of(kept, client=client).run("hello"))
        port = int(provider.url.rpartition(":")[2])

    for span in kept.spans:
        assert told(span)["server.address"] == "127.0.0.1"
        assert told(span)["server.port"] == port
        assert told(span)["gen_ai.provider.name"] == "openai_compatible"
    assert "sk-secret" not in kept.everything()


def test_an_application_may_name_the_provider(kept: Kept) -> None:
    asyncio.run(runner_of(kept, says("hi"), options={"provider": "vllm"}).run("hello"))

    assert {told(span)["gen_ai.provider.name"] for span in kept.spans} == {"vllm"}


def test_a_run_inside_a_tool_is_below_its_call(kept: Kept) -> None:
    inner = runner_of(kept, says("3"), options={"agent": "inner"})

    def ask(question: str) -> str:
        """Ask somebody else."""
        return inner.run_sync(question).assistant_text

    outer = runner_of(
        kept, calls("ask", question="1 + 2?"), says("3"), tools=[ask], options={"agent": "outer"}
    )
    outer.run_sync("1 + 2?")
    outer.close()
    inner.close()

    assert kept.drawn == [
        "invoke_agent outer",
        "  chat m",
        "  execute_tool ask",
        "    invoke_agent inner",
        "      chat m",
        "  chat m",
    ]


# What was said: nowhere, unless it is asked for; keys not even then


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
