"""Runs from outside: a scripted model, real tools, and what is sent, returned and traced."""

import asyncio
import copy
import json
import logging
from typing import Any

import pytest

from surecall import presets
from surecall.core.outcome import LimitExceeded, RequestFailed, RunFailed, RunResult
from surecall.runtime.runner import ToolLoopRunner
from surecall.settings.config import ToolCallingConfig
from surecall.settings.connection import RetryPolicy
from surecall.settings.presets import raw
from surecall.testing import RecordingObserver, ScriptedModel, calls, calls_many, failure, says
from surecall.tools.registry import ToolDefinition, ToolRegistry
from surecall.values.errors import ConfigError, ErrorCode, ProviderError
from surecall.values.events import (
    LlmRequestEndEvent,
    ObserverErrorEvent,
    RunStartEvent,
    ToolCallEndEvent,
)
from surecall.values.types import JSON, Assistant, System, ToolResult, Usage, User
from tests.support.spec import proves

ONCE = RetryPolicy(attempts=1)
ENDLESS = [calls("add", f"c{number}", a=number, b=1) for number in range(20)]


class Shop:
    """Two tools and a hidden one, and what they were called with."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, JSON]] = []
        hidden = ToolDefinition("hidden", handler=self.add, exposed_to_model=False)
        self.registry = ToolRegistry([self.add, self.look, hidden])

    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        self.ran.append(("add", {"a": a, "b": b}))
        return a + b

    def look(self, what: str = "shop") -> JSON:
        """Look at something."""
        self.ran.append(("look", {"what": what}))
        return {"seen": what}

    def runner(self, model: ScriptedModel, **settings: Any) -> ToolLoopRunner:
        given: dict[str, Any] = {
            "registry": self.registry,
            "retry": ONCE,
            "config": presets.raw(),
        } | settings
        return ToolLoopRunner(client=model, model="m", **given)

    def run(self, model: ScriptedModel, text: Any = "1 + 2?", **settings: Any) -> RunResult:
        return asyncio.run(self.runner(model).run(text, **settings))


def roles(request: JSON) -> list[str]:
    return [message["role"] for message in request["messages"]]


def assert_legal(messages: list[JSON]) -> None:
    """Every call is answered once, right after its turn; ids are unique; arguments are JSON."""
    seen: list[str] = []
    due: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            due.remove(message["tool_call_id"])
            continue
        assert due == []
        due = [call["id"] for call in message.get("tool_calls", ())]
        seen += due
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert due == []
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("text", ["3", "  3\n"])
def test_a_run_without_tools_is_one_request(text: str) -> None:
    model = ScriptedModel(says(text))
    result = asyncio.run(ToolLoopRunner(client=model, model="m").run("1 + 2?"))
    assert (result.assistant_text, result.stop_reason) == (text, "final")
    assert model.requests == [
        {"model": "m", "messages": [{"role": "user", "content": "1 + 2?"}]},
    ]


@proves("C1")
def test_two_calls_then_text_runs_both_tools_in_order() -> None:
    shop = Shop()
    model = ScriptedModel(calls_many(calls("look"), calls("add", a=1, b=2)), says("3"))
    result = shop.run(model)
    assert result.assistant_text == "3"
    assert shop.ran == [("look", {"what": "shop"}), ("add", {"a": 1, "b": 2})]
    assert [call.name for call in result.trace.turns[0].tool_calls] == ["look", "add"]
    assert len(model.requests) == len(result.trace.turns) == 2


@proves("C2")
def test_the_first_request_offers_the_exposed_tools_and_leaves_the_choice() -> None:
    model = ScriptedModel(says("3"))
    Shop().run(model)
    (request,) = model.requests
    assert request["model"] == "m"
    assert request["tool_choice"] == "auto"
    assert [tool["function"]["name"] for tool in request["tools"]] == ["add", "look"]
    assert request["tools"][0]["function"]["description"] == "Add two numbers."


@proves("C3")
def test_the_second_request_tells_what_was_asked_called_and_answered() -> None:
    model = ScriptedModel(calls_many(calls("add", "x", a=1, b=2), calls("look", "y")), says("3"))
    Shop().run(model)
    user, assistant, *answers = model.requests[1]["messages"]
    assert user == {"role": "user", "content": "1 + 2?"}
    assert [call["id"] for call in assistant["tool_calls"]] == ["x", "y"]
    assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {"a": 1, "b": 2}
    assert [(item["role"], item["tool_call_id"]) for item in answers] == [
        ("tool", "x"),
        ("tool", "y"),
    ]
    assert json.loads(answers[0]["content"])["data"] == {"value": 3}


@proves("C4")
def test_text_beside_calls_stays_with_us_and_in_the_trace() -> None:
    chatty = calls("add", a=1, b=2)
    chatty["choices"][0]["message"]["content"] = "Let me see. " + "x" * 300
    model = ScriptedModel(chatty, says("3"))
    result = Shop().run(model)
    assert model.requests[1]["messages"][1]["content"] == ""
    turn = result.trace.turns[0]
    assert turn.assistant_content_stripped
    assert turn.assistant_content_sample == ("Let me see. " + "x" * 300)[:200]
    assert not result.trace.turns[1].assistant_content_stripped


@proves("C5")
def test_the_system_text_comes_first_to_the_letter() -> None:
    text = "  You are terse.\n\n<rules> "
    model = ScriptedModel(calls("look"), says("3"))
    asyncio.run(Shop().runner(model, system=text).run("hi"))
    for request in model.requests:
        assert request["messages"][0] == {"role": "system", "content": text}
        assert roles(request).count("system") == 1


@proves("C6")
def test_every_observer_sees_every_event_of_the_run() -> None:
    of_runner, of_run = RecordingObserver(), RecordingObserver()
    runner = Shop().runner(ScriptedModel(calls("look"), says("3")), observers=[of_runner])
    result = asyncio.run(runner.run("hi", on_event=of_run))
    assert of_runner.events == of_run.events == list(result.trace)
    assert of_run.types == [
        "RunStartEvent",
        *("LlmRequestStartEvent", "LlmRequestEndEvent", "ToolCallStartEvent", "ToolCallEndEvent"),
        *("LlmRequestStartEvent", "LlmRequestEndEvent", "FinalEvent"),
    ]
    (ended,) = [event for event in result.trace if isinstance(event, ToolCallEndEvent)]
    assert ended.ok
    assert isinstance(ended.elapsed_ms, int)
    assert ended.output_bytes == len(ended.result.content)
    assert [event.turn for event in result.trace] == [0, 0, 0, 0, 0, 1, 1, 1]


@proves("C7")
def test_an_observer_that_raises_does_not_affect_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: object) -> None:
        raise RuntimeError(type(event).__name__)

    good = RecordingObserver()
    runner = Shop().runner(ScriptedModel(calls("look"), says("3")), observers=[broken, good])
    with caplog.at_level(logging.WARNING, "surecall"):
        result = asyncio.run(runner.run("hi"))
    assert result.assistant_text == "3"
    assert good.types.count("ObserverErrorEvent") == 1
    (erred,) = [event for event in result.trace if isinstance(event, ObserverErrorEvent)]
    assert "RunStartEvent" in erred.message
    assert "broken" in caplog.text


@proves("C8")
def test_token_counts_are_in_the_turn_and_in_the_sum() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    result = Shop().run(ScriptedModel(calls("look"), says("3", usage=usage)))
    assert result.trace.turns[1].usage == Usage(10, 5, 15)
    assert result.usage == Usage(11, 6, 17)


@proves("C9")
def test_blanks_around_a_tool_name_do_not_count() -> None:
    shop = Shop()
    result = shop.run(ScriptedModel(calls(" look\n"), says("3")))
    assert shop.ran == [("look", {"what": "shop"})]
    assert result.trace.turns[0].tool_calls[0].name == "look"


@proves("C10")
@pytest.mark.parametrize("blank", ["", " \n", []])
def test_a_blank_user_text_adds_no_message(blank: Any) -> None:
    model = ScriptedModel(says("3"))
    Shop().run(model, blank, history=[{"role": "user", "content": "earlier"}])
    assert model.requests[0]["messages"] == [{"role": "user", "content": "earlier"}]


def test_a_run_about_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing to answer"):
        Shop().run(ScriptedModel(), "")


def test_a_user_may_send_parts() -> None:
    model = ScriptedModel(says("a cat"))
    parts = [{"type": "text", "text": "what is it?"}]
    Shop().run(model, parts)
    assert model.requests[0]["messages"][0]["content"] == parts


@proves("C11", "I2")
def test_a_model_that_never_stops_calling_is_stopped_and_nothing_is_lost() -> None:
    shop = Shop()
    model = ScriptedModel(*ENDLESS)
    with pytest.raises(LimitExceeded) as stopped:
        shop.run(model, max_turns=3)
    assert stopped.value.code is ErrorCode.MAX_TURNS_EXCEEDED
    assert len(model.requests) == len(shop.ran) == 3
    result = stopped.value.result
    assert result.stop_reason == "MAX_TURNS_EXCEEDED"
    assert len(result.trace.turns) == 3
    assert [type(message) for message in result.history[-2:]] == [Assistant, ToolResult]
    assert result.usage.total_tokens == 6


def test_the_default_is_twelve_turns() -> None:
    model = ScriptedModel(*ENDLESS)
    with pytest.raises(LimitExceeded):
        Shop().run(model)
    assert len(model.requests) == 12


@proves("C12")
def test_the_callers_history_is_not_modified() -> None:
    history: list[Any] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "look"}}]},
    ]
    before = copy.deepcopy(history)
    Shop().run(ScriptedModel(calls("look"), says("3")), history=history)
    assert history == before


@proves("I3")
def test_a_server_error_in_turn_three_carries_the_first_two_turns() -> None:
    model = ScriptedModel(calls("look"), calls("add", a=1, b=2), failure(500))
    with pytest.raises(RequestFailed) as failed:
        Shop().run(model)
    assert isinstance(failed.value, RunFailed)
    assert isinstance(failed.value, ProviderError)
    assert (failed.value.code, failed.value.status) == (ErrorCode.UPSTREAM_5XX, 500)
    assert failed.value.details == {}
    assert "HTTP 500" in str(failed.value)
    answered = [turn for turn in failed.value.result.trace.turns if turn.response]
    assert [turn.tool_results[0].name for turn in answered] == ["look", "add"]
    assert failed.value.result.usage.total_tokens == 4


def test_a_run_that_failed_on_the_wire_can_be_resumed() -> None:
    shop = Shop()
    runner = shop.runner(ScriptedModel(calls("look"), failure(500), says("3")))
    with pytest.raises(RequestFailed) as failed:
        asyncio.run(runner.run("hi"))
    seen = RecordingObserver()
    result = asyncio.run(runner.resume(failed.value.result.run, on_event=seen))
    assert result.assistant_text == "3"
    assert len(shop.ran) == 1
    assert result.run.run_id == failed.value.result.run.run_id
    assert seen.events == list(result.trace)


def test_resuming_a_finished_run_asks_nothing() -> None:
    runner = Shop().runner(ScriptedModel(says("3")))
    result = asyncio.run(runner.run("hi"))
    assert asyncio.run(runner.resume(result.run)).assistant_text == "3"


def test_a_reply_cut_off_by_the_token_limit_says_so() -> None:
    result = Shop().run(ScriptedModel(says("and so", finish_reason="length")))
    assert (result.assistant_text, result.stop_reason) == ("and so", "length")


def test_the_history_of_a_run_continues_in_the_next() -> None:
    shop = Shop()
    first = shop.run(ScriptedModel(calls("look", "c1"), says("seen")), "look")
    model = ScriptedModel(calls("look", "c1"), says("again"))
    second = shop.run(model, "once more", history=first.history)
    assert roles(model.requests[1]) == [
        *("user", "assistant", "tool", "assistant"),
        *("user", "assistant", "tool"),
    ]
    assert_legal(model.requests[1]["messages"])
    assert second.run.turn_count == 2
    assert second.run.own_messages[0] == User("once more")


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "seen"}
HI = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("history", "sent"),
    [
        pytest.param([HI, ASKED, TOLD], ["user", "assistant", "tool"], id="whole"),
        pytest.param([HI, ASKED], ["user", "assistant", "tool"], id="unanswered"),
        pytest.param([HI, TOLD], ["user"], id="orphan"),
        pytest.param([HI, ASKED, TOLD, TOLD], ["user", "assistant", "tool"], id="twice"),
        pytest.param(
            [HI, ASKED, TOLD, ASKED, TOLD],
            ["user", *["assistant", "tool"] * 2],
            id="same-id-again",
        ),
        pytest.param(
            [ASKED | {"tool_calls": [CALL, CALL]}, TOLD],
            ["assistant", "tool", "tool"],
            id="same-id-in-one-turn",
        ),
        pytest.param(
            [ASKED, HI, TOLD], ["assistant", "tool", "user"], id="result-after-the-next-message"
        ),
        pytest.param(["hi", {"content": "there"}], ["user", "user"], id="plain-text"),
    ],
)
def test_any_foreign_history_is_sent_in_legal_form(history: list[Any], sent: list[str]) -> None:
    model = ScriptedModel(calls("look", "c1"), says("3"))
    Shop().run(model, "go on", history=history)
    assert roles(model.requests[0]) == [*sent, "user"]
    for request in model.requests:
        assert_legal(request["messages"])


def test_what_was_answered_before_keeps_its_answer() -> None:
    history = [ASKED | {"tool_calls": [CALL | {"id": "c0"}, CALL]}, TOLD]
    model = ScriptedModel(says("3"))
    Shop().run(model, "go on", history=history)
    _, missing, told, _ = model.requests[0]["messages"]
    assert json.loads(missing["content"])["errors"][0]["code"] == "CALL_OUTCOME_UNKNOWN"
    assert told == {"role": "tool", "tool_call_id": "c1", "content": "seen"}


def test_a_result_says_what_was_repaired() -> None:
    single = calls("look")
    single["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "```json\n{}\n```"
    config = raw()
    runner = Shop().runner(ScriptedModel(single, says("3")), config=config)
    result = asyncio.run(runner.run("hi"))
    heard = [event.reply.fired for event in result.trace if isinstance(event, LlmRequestEndEvent)]
    assert result.repairs == heard[0]
    assert len(result.repairs) == 1


def test_a_trace_begins_with_all_that_is_needed_to_begin_again() -> None:
    runner = Shop().runner(ScriptedModel(says("3")), system="be brief")
    result = asyncio.run(runner.run("hi", history=[HI]))
    started = result.trace[0]
    assert isinstance(started, RunStartEvent)
    assert (started.model, started.system) == ("m", System("be brief"))
    assert (started.messages, started.start) == ((User("hi"), User("hi")), 1)
    assert [spec.name for spec in started.tools] == ["add", "look"]
    assert ToolCallingConfig.from_mapping(started.config) == raw()


def test_two_runners_run_at_once() -> None:
    async def main() -> list[RunResult]:
        barrier = asyncio.Barrier(2)

        async def meet() -> str:
            """Wait for the other run."""
            await barrier.wait()
            return "met"

        models = [ScriptedModel(calls("meet"), says(name)) for name in "ab"]
        box = ToolRegistry([meet])
        runners = [ToolLoopRunner(client=model, model="m", registry=box) for model in models]
        return await asyncio.gather(*(runner.run("hi") for runner in runners))

    results = asyncio.run(main())
    assert [(item.assistant_text, item.run.results[0].ok) for item in results] == [
        ("a", True),
        ("b", True),
    ]
