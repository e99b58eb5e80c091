"""Which span is below which: callers, runs, calls, and what tools record."""

import asyncio

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider, get_current_span

from surecall import (
    OpenAICompatible,
    ToolLoopRunner,
)
from surecall.otel import OpenTelemetry
from surecall.settings.presets import raw
from surecall.testing import (
    ScriptedModel,
    ScriptedProvider,
    calls,
    calls_many,
    says,
)
from tests.support.patience import until_soon
from tests.support.spans import Kept, context_of, left_in, runner_of, told


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
