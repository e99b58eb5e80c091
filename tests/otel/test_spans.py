"""What the spans of a run say about trouble: attempts, refusals, timeouts, failures."""

import asyncio

import pytest
from opentelemetry.trace import StatusCode

from surecall import (
    AskFirst,
    Decision,
    Fallback,
    RetryPolicy,
    Run,
    RunFailed,
    ToolLoopRunner,
)
from surecall.otel.spans import Manner, RunSpans
from surecall.settings.presets import raw
from surecall.testing import (
    ScriptedModel,
    calls,
    failure,
    hangs,
    says,
    streams,
)
from surecall.values.events import FinalEvent, RunFailedEvent, RunPausedEvent, RunStartEvent
from tests.support.events import every_event
from tests.support.patience import never
from tests.support.spans import SCRIPT, TREE, Kept, left_in, noted, runner_of, told
from tests.support.tools import add


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
        spans = RunSpans(Manner(kept.tracer, "", lambda _: {}, None), start, live=False)
        over = spans.hear(event)
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
