"""Tests of `surecall.otel.observer`."""

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from surecall import (
    ConfigError,
    Secret,
    ToolLoopRunner,
    load_trace,
    save_trace,
)
from surecall.otel import SCHEMA_URL, OpenTelemetry, observer
from surecall.otel.observer import client_secrets
from surecall.testing import (
    ScriptedModel,
    calls,
    says,
    streams,
)
from surecall.values.version import __version__
from tests.support.telemetry import SCRIPT, TREE, Kept, left_in, runner_of, told
from tests.support.timing import never, until_soon
from tests.support.tools import add

# One observer for all runs: what it tells of each, and what it keeps of none


def test_a_clean_run_is_an_agent_with_its_requests_and_calls(kept: Kept) -> None:
    runner = runner_of(kept, *SCRIPT, tools=[add], options={"agent": "adder"})
    result = asyncio.run(runner.run("1 + 2?"))

    assert kept.drawn == ["invoke_agent adder", *TREE[1:]]
    agent, tool = kept["invoke_agent adder"], kept["execute_tool add"]
    assert told(agent) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.agent.name": "adder",
        "gen_ai.request.model": "m",
        "surecall.run.id": result.run.run_id,
        "surecall.stop_reason": "final",
    }
    assert told(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_1",
        "surecall.tool.executed": True,
    }
    assert told(kept.spans[0]) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai_compatible",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "scripted",
        "gen_ai.response.id": "chatcmpl-scripted",
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "gen_ai.usage.input_tokens": 1,
        "gen_ai.usage.output_tokens": 1,
    }
    kinds = {span.name.split()[0]: span.kind for span in kept.spans}
    assert kinds == {
        "invoke_agent": SpanKind.INTERNAL,
        "chat": SpanKind.CLIENT,
        "execute_tool": SpanKind.INTERNAL,
    }
    assert {span.status.status_code for span in kept.spans} == {StatusCode.UNSET}


def test_the_tokens_of_a_run_are_those_of_its_requests_and_counted_once(kept: Kept) -> None:
    result = asyncio.run(runner_of(kept, *SCRIPT, tools=[add]).run("1 + 2?"))

    counted = [told(span).get("gen_ai.usage.input_tokens", 0) for span in kept.spans]
    assert sum(counted) == result.usage.prompt_tokens == 2


def test_spans_begin_and_end_with_their_events_however_late_those_come(
    kept: Kept, tmp_path: Path
) -> None:
    runner = ToolLoopRunner(client=ScriptedModel(*SCRIPT), model="m", tools=[add])
    save_trace(asyncio.run(runner.run("1 + 2?")).trace, tmp_path / "trace")
    trace = load_trace(tmp_path / "trace")
    tell = OpenTelemetry(kept.provider)

    for event in trace:
        tell(event)

    assert kept.drawn == TREE
    agent, chat = kept["invoke_agent"], kept.spans[0]
    began, asked, heard = (round(trace[at].at * 1e9) for at in (0, 1, 2))
    assert (agent.start_time, agent.end_time) == (began, round(trace[-1].at * 1e9))
    assert (chat.start_time, chat.end_time) == (asked, heard)


def test_the_scope_tells_the_version_and_the_schema(kept: Kept) -> None:
    asyncio.run(runner_of(kept, says("hi")).run("hello"))

    scope = kept.spans[0].instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.version, scope.schema_url) == ("surecall", __version__, SCHEMA_URL)
    assert SCHEMA_URL in {schema.value for schema in Schemas}


def test_all_attributes_of_the_conventions_are_in_them(kept: Kept) -> None:
    options = {"temperature": 0, "stop": ["x"], "seed": 7, "n": 2, "top_k": 5, "max_tokens": 9}
    runner = runner_of(
        kept,
        *SCRIPT,
        tools=[add],
        llm_options_defaults=options,
        options={"content": True, "agent": "a"},
    )
    asyncio.run(runner.run("1 + 2?"))

    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI")}
    used = {name for span in kept.spans for name in told(span)}
    assert {name for name in used if name.startswith("gen_ai.")} <= known
    assert {"gen_ai.request.temperature", "gen_ai.request.choice.count"} <= used


class Broken(SpanProcessor):
    """Raises when a span ends."""

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError(span.name)


def test_an_sdk_that_raises_does_not_break_the_run_and_nothing_stays(kept: Kept) -> None:
    kept.provider.add_span_processor(Broken())
    runner = runner_of(kept, *SCRIPT, tools=[add])

    async def run() -> Any:
        with kept.tracer.start_span("page"):
            before = get_current_span()
            result = await runner.run("1 + 2?")
            assert get_current_span() is before
            return result

    with pytest.raises(RuntimeError, match="page"):
        asyncio.run(run())
    assert left_in(runner) == []


def test_without_the_extra_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("surecall.otel")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)

    with pytest.raises(ConfigError, match=r"pip install 'surecall\[otel\]'"):
        importlib.import_module("surecall.otel")


@pytest.mark.parametrize("name", ["agent", "provider"])
def test_a_name_is_a_text(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a string, not int"):
        OpenTelemetry(**{name: 1})  # type: ignore[arg-type]


def test_the_keys_of_foreign_clients_are_known_as_well() -> None:
    class Foreign:
        def __init__(self, **kept: object) -> None:
            vars(self).update(kept)

    key = Secret("sk-1")
    assert client_secrets(Foreign()) == client_secrets(Foreign(api_key="")) == ()
    assert client_secrets(Foreign(api_key="sk-1")) == ("sk-1",)
    assert client_secrets(Foreign(secrets=key)) == (key,)
    assert client_secrets(Foreign(secrets=[key, "sk-2"])) == (key, "sk-2")


# Runs that are cancelled, given up or never end: their spans end, and nothing of them stays


def test_a_cancelled_run_ends_its_spans_and_leaves_nothing_behind(kept: Kept) -> None:
    async def wait() -> None:
        """Wait."""
        await never()

    async def cancelled() -> None:
        with kept.tracer.start_as_current_span("page") as page:
            task = asyncio.create_task(runner.run("go"))
            await until_soon(lambda: kept.names == ["chat m"])
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert get_current_span() is page

    runner = runner_of(kept, calls("wait"), tools=[wait])
    asyncio.run(cancelled())

    assert kept.drawn == ["page", "  invoke_agent", "    chat m", "    execute_tool wait"]
    for name in ("invoke_agent", "execute_tool wait"):
        assert told(kept[name])["error.type"] == "CancelledError"
        assert kept[name].status.status_code is StatusCode.ERROR
    assert left_in(runner) == []


def test_a_run_that_is_given_up_in_its_callers_own_task_gives_the_current_span_back(
    kept: Kept,
) -> None:
    async def wait() -> None:
        """Wait until somebody loses patience."""
        callers[0].cancel()
        await never()

    async def impatient() -> None:
        caller = asyncio.current_task()
        assert caller is not None
        callers.append(caller)
        with kept.tracer.start_as_current_span("page") as page:
            with pytest.raises(asyncio.CancelledError):
                await runner.run("go")
            caller.uncancel()
            assert get_current_span() is page

    callers: list[asyncio.Task[Any]] = []
    runner = runner_of(kept, calls("wait"), tools=[wait])
    asyncio.run(impatient())

    assert left_in(runner) == []


def test_a_stream_that_is_left_ends_its_spans(kept: Kept) -> None:
    runner = runner_of(kept, *map(streams, SCRIPT), tools=[add])
    with runner.stream_sync("1 + 2?") as stream:
        next(iter(stream))
    runner.close()

    assert "invoke_agent" in kept.names
    assert left_in(runner) == []


def test_an_error_of_the_program_itself_ends_the_spans(kept: Kept) -> None:
    runner = runner_of(kept)
    with pytest.raises(AssertionError):
        asyncio.run(runner.run("a request beyond the end of the script"))

    assert [told(span)["error.type"] for span in kept.spans] == ["AssertionError"] * 2
    assert left_in(runner) == []


def test_runs_that_are_told_by_hand_and_never_end_are_let_go(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer, "MAX_UNFINISHED_RUNS", 2)
    tell = OpenTelemetry(kept.provider)
    for _ in range(5):
        runner = ToolLoopRunner(client=ScriptedModel(says("hi")), model="m")
        tell(asyncio.run(runner.run("hello")).trace[0])

    assert len(tell._runs) == 2
    assert kept.names == ["invoke_agent"] * 3


def test_a_run_that_begins_again_ends_what_was_told_of_it_before(kept: Kept) -> None:
    runner = ToolLoopRunner(client=ScriptedModel(says("hi")), model="m")
    trace = asyncio.run(runner.run("hello")).trace
    tell = OpenTelemetry(kept.provider)

    for event in (trace[0], trace[1], *trace):
        tell(event)

    assert kept.names == ["chat m", "invoke_agent", "chat m", "invoke_agent"]


def test_events_of_a_run_that_nobody_has_begun_say_nothing(kept: Kept) -> None:
    runner = ToolLoopRunner(client=ScriptedModel(*SCRIPT), model="m", tools=[add])
    tell = OpenTelemetry(kept.provider)
    for event in list(asyncio.run(runner.run("1 + 2?")).trace)[1:]:
        tell(event)

    assert kept.spans == ()
