"""Tests of `surecall.runtime.retrying_requests`."""

import asyncio
import copy
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from surecall import (
    Capabilities,
    ConfigError,
    ErrorCode,
    Plan,
    PromptRunner,
    RetryPolicy,
    RunFailed,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    presets,
    tool,
)
from surecall.core.outcome import RequestFailed
from surecall.parsing.budget import MAX_CALLS, MAX_TEXT
from surecall.runtime.retrying_requests import LARGE_BYTES, decode_body
from surecall.settings.presets import RAW, raw
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.errors import Fault
from surecall.values.events import LlmRequestEndEvent, TextCallAskedEvent
from surecall.values.types import JSON, Assistant, HttpResponse, System, ToolSpec, User
from surecall.wire.chat_format import RESERVED_OPTIONS, decode
from tests.support.spec import proves

# What leaves for the endpoint and what is made of its text, seen in the bodies of requests


SIGNATURE = {"extra_content": {"google": {"thought_signature": "real"}}}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def runner(
    model: ScriptedModel, config: ToolCallingConfig = RAW, **settings: Any
) -> ToolLoopRunner:
    retry = RetryPolicy(attempts=1)
    registry = ToolRegistry([add])
    return ToolLoopRunner(
        client=model, model="m", registry=registry, config=config, retry=retry, **settings
    )


def ask(model: ScriptedModel, config: ToolCallingConfig = RAW, **settings: Any) -> RunResult:
    return asyncio.run(runner(model, config, **settings).run("1 + 2?"))


def with_message(reply: JSON, **fields: Any) -> JSON:
    """Put fields into the assistant's message of a scripted reply."""
    choice = reply["choices"][0]
    return reply | {"choices": [choice | {"message": choice["message"] | fields}]}


def with_call(reply: JSON, **fields: Any) -> JSON:
    """Put fields into the only call of a scripted reply."""
    call = reply["choices"][0]["message"]["tool_calls"][0]
    return with_message(reply, tool_calls=[call | fields])


@proves("C79")
def test_request_overrides_reach_the_body() -> None:
    overrides = {"temperature": 0.2, "transforms": [], "provider": {"only": ["a"]}}
    model = ScriptedModel(says("3"))

    ask(model, raw(request_overrides=overrides))

    assert {key: model.requests[0][key] for key in overrides} == overrides


@proves("C79")
@pytest.mark.parametrize("key", sorted(RESERVED_OPTIONS))
def test_a_reserved_key_in_the_overrides_is_refused_when_the_config_is_built(key: str) -> None:
    with pytest.raises(ConfigError, match=f"request_overrides cannot set {key}: "):
        raw(request_overrides={"temperature": 0, key: "x"})


@proves("C80")
def test_option_defaults_reach_the_body_and_the_overrides_win_in_depth() -> None:
    defaults: JSON = {"top_p": 0.9, "seed": 1, "provider": {"only": ["a"], "sort": "price"}}
    config = raw(request_overrides={"seed": 2, "provider": {"only": ["b"]}})
    model = ScriptedModel(calls("add", a=1, b=2), says("3"))
    before = copy.deepcopy(defaults)

    ask(model, config, llm_options_defaults=defaults)

    for body in model.requests:
        assert (body["top_p"], body["seed"]) == (0.9, 2)
        assert body["provider"] == {"only": ["b"], "sort": "price"}
    assert defaults == before


@proves("C81")
@pytest.mark.parametrize("key", sorted(RESERVED_OPTIONS))
def test_a_reserved_key_in_the_defaults_is_refused_when_the_runner_is_built(key: str) -> None:
    assert "stream" in RESERVED_OPTIONS
    with pytest.raises(ConfigError, match=f"llm_options_defaults cannot set {key}: "):
        runner(ScriptedModel(), llm_options_defaults={key: True})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"logit_bias": object()}, "llm_options_defaults cannot be written as JSON: "),
        ({"parallel_tool_calls": "false"}, "must be true or false, not 'false'"),
        ([("top_p", 1)], "llm_options_defaults must be a mapping, not list"),
    ],
)
def test_options_that_no_request_can_carry_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        runner(ScriptedModel(), llm_options_defaults=options)


@proves("C82")
@pytest.mark.parametrize(
    "choice", ["auto", "none", "required", {"type": "function", "function": {"name": "add"}}]
)
def test_the_tool_choice_is_sent_as_configured(choice: str | JSON) -> None:
    model = ScriptedModel(says("3"))

    ask(model, raw(tool_choice=choice))

    assert model.requests[0]["tool_choice"] == choice
    assert [item["function"]["name"] for item in model.requests[0]["tools"]] == ["add"]


@proves("C83")
def test_tools_together_with_a_response_format_are_refused() -> None:
    model = ScriptedModel()
    plan = Plan(
        "m", (User("hi"),), (ToolSpec("add", "", {}),), "auto", response_format={"type": "text"}
    )

    with pytest.raises(ConfigError, match="tools and response_format"):
        asyncio.run(PromptRunner(model).ask(plan))
    assert model.requests == []


@proves("C83")
def test_tools_for_a_model_without_tools_are_refused() -> None:
    model = ScriptedModel()

    with pytest.raises(ConfigError, match="m does not support tools"):
        ask(model, capabilities=Capabilities(tools=False))
    assert model.requests == []


@proves("C83")
def test_either_of_tools_and_response_format_alone_is_sent() -> None:
    model = ScriptedModel(says("{}"))
    form: JSON = {"type": "json_object"}

    asyncio.run(PromptRunner(model).ask(Plan("m", (User("hi"),), response_format=form)))

    assert model.requests[0]["response_format"] == form
    assert "tools" not in model.requests[0]


@proves("C84")
def test_under_the_default_preset_calls_come_one_at_a_time() -> None:
    model = ScriptedModel(says("3"))

    ask(model, presets.default_tool_calling())

    assert model.requests[0]["parallel_tool_calls"] is False


@proves("C84")
def test_who_wants_parallel_calls_keeps_them_under_the_default_preset() -> None:
    wanted = raw(request_overrides={"parallel_tool_calls": True})
    model = ScriptedModel(says("3"))

    ask(model, presets.default_tool_calling(wanted))

    assert model.requests[0]["parallel_tool_calls"] is True


@proves("C85")
def test_an_option_that_the_endpoint_does_not_take_is_planned_but_not_sent() -> None:
    two = calls_many(calls("add", a=1, b=2), calls("add", a=3, b=4))
    model = ScriptedModel(two, says("3"))

    result = ask(model, presets.resolve(provider="gemini"))

    assert all("parallel_tool_calls" not in body for body in model.requests)
    assert result.run.options["parallel_tool_calls"] is False
    # It never heard of the wish for one call, so it is not told to repeat the other.
    assert [answer.executed for answer in result.run.results] == [True, True]


@proves("C86")
@pytest.mark.parametrize(
    ("item", "name"),
    [(42, "int"), (None, "NoneType"), (["hi"], "list"), ({"role": "narrator"}, "'narrator'")],
)
def test_a_history_item_of_an_unknown_form_is_refused_by_name(item: Any, name: str) -> None:
    model = ScriptedModel()

    with pytest.raises(ConfigError, match=name):
        asyncio.run(runner(model).run("hi", history=[item]))
    assert model.requests == []


@proves("C86")
def test_history_is_taken_as_text_as_mappings_and_as_messages() -> None:
    model = ScriptedModel(says("3"))
    history = ["a", {"role": "assistant", "content": "b"}, User("c"), Assistant("d"), System("e")]

    asyncio.run(runner(model).run("f", history=history))

    sent = [(item["role"], item["content"]) for item in model.requests[0]["messages"]]
    assert "".join(text for _, text in sent) == "abcdef"
    assert [role[0] for role, _ in sent] == ["u", "a", "u", "a", "s", "u"]


@proves("C87")
@pytest.mark.parametrize(
    "text", ["  Hello\n\n", "<b>3</b> &amp; {{x}}", "```\n3\n```", "<tool_call>"]
)
def test_the_text_of_a_reply_is_kept_as_it_came(text: str) -> None:
    result = ask(ScriptedModel(says(text)), presets.resolve(provider="openrouter"))

    assert result.assistant_text == text


@proves("I10")
@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}],
        [{"type": "output_text", "text": "Hello"}, {"type": "image_url", "image_url": {}}],
        ["Hel", {"text": "lo"}, None, 7],
        {"type": "text", "text": "Hello"},
    ],
)
def test_content_in_parts_becomes_plain_text(content: Any) -> None:
    model = ScriptedModel(says(content), says("bye"))
    first = ask(model)

    asyncio.run(runner(model).run("again", history=first.history))

    assert first.assistant_text == "Hello"
    assert model.requests[1]["messages"][1] == {"role": "assistant", "content": "Hello"}


@proves("I11")
def test_real_reasoning_goes_back_as_it_came() -> None:
    details = [{"type": "reasoning.text", "text": "1 + 2 is 3"}]
    reply = with_message(
        calls("add", a=1, b=2), reasoning_content="1 + 2", reasoning_details=details
    )
    model = ScriptedModel(with_call(reply, **SIGNATURE), says("3"))

    ask(model, presets.gemini_openrouter_compat(presets.deepseek_openrouter_compat()))

    turn = model.requests[1]["messages"][1]
    assert (turn["reasoning_content"], turn["reasoning_details"]) == ("1 + 2", details)
    assert turn["tool_calls"][0]["extra_content"] == SIGNATURE["extra_content"]
    assert "signature" not in turn["tool_calls"][0]


@proves("I11")
def test_a_placeholder_is_sent_only_where_there_is_no_real_value() -> None:
    real = with_call(calls("add", a=1, b=2), signature="real")
    model = ScriptedModel(real, calls("add", a=3, b=4), says("3"))

    ask(model, presets.gemini_openrouter_compat(presets.deepseek_openrouter_compat()))

    turns = [item for item in model.requests[2]["messages"] if item["role"] == "assistant"]
    signatures = [turn["tool_calls"][0]["signature"] for turn in turns]
    assert signatures == ["real", "skip_thought_signature_validator"]
    assert [turn["reasoning_content"] for turn in turns] == ["", ""]


@proves("I13")
def test_transforms_change_neither_the_history_nor_the_raw_body() -> None:
    bent = with_message(calls("add", a=1, b=2), tool_calls=None, function_call={"name": "add"})
    bent["choices"][0]["message"]["function_call"]["arguments"] = {"a": 1, "b": 2}
    model = ScriptedModel(copy.deepcopy(bent), says("3"))
    config = presets.gemini_openrouter_compat(presets.deepseek_openrouter_compat())

    result = ask(model, presets.default_tool_calling(config))

    heard = next(event for event in result.trace if isinstance(event, LlmRequestEndEvent))
    assert heard.body == bent
    assert "signature" in model.requests[1]["messages"][1]["tool_calls"][0]
    assert result.run.replies[0].extra == {}
    assert result.run.replies[0].calls[0].extra == {}


@proves("I13")
def test_neither_the_callers_history_nor_options_nor_tools_are_changed() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": " "}}
    history = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    options: JSON = {"provider": {"only": ["a"]}, "stop": ["x"]}
    strip = raw(
        request_overrides=options, tool_transforms=("openai_tools_strip_function_descriptions",)
    )
    before = copy.deepcopy((history, options, add.spec))

    config = presets.openrouter_routing(presets.gemini_openrouter_compat(strip), route="fallback")
    asyncio.run(runner(ScriptedModel(says("3")), config).run("hi", history=history))

    assert (history, options, add.spec) == before


@proves("I22")
def test_raw_sends_nothing_that_a_preset_would_add() -> None:
    model = ScriptedModel(calls("add", a=1, b=2), says("3"))

    ask(model, presets.resolve(provider="deepseek", model="deepseek/deepseek-v3.2", strategy="raw"))

    assert all(
        body.keys() == {"model", "messages", "tools", "tool_choice"} for body in model.requests
    )
    turn = model.requests[1]["messages"][1]
    assert turn.keys() == {"role", "content", "tool_calls"}
    assert turn["tool_calls"][0].keys() == {"id", "type", "function"}


@proves("I22")
def test_raw_does_not_limit_the_calls_of_a_turn() -> None:
    model = ScriptedModel(calls_many(calls("add", a=1, b=2), calls("add", a=3, b=4)), says("3"))

    result = ask(model, presets.resolve(provider="openai", strategy="raw"))

    assert [answer.executed for answer in result.run.results] == [True, True]


# What an answer may cost: counted before it is parsed, read aside, ended by the deadline


def request_budget_runner(model: ScriptedModel, config: ToolCallingConfig = RAW) -> ToolLoopRunner:
    retry = RetryPolicy(attempts=1)
    return ToolLoopRunner(
        client=model, model="m", registry=ToolRegistry([add]), config=config, retry=retry
    )


def request_budget_ask(model: ScriptedModel, config: ToolCallingConfig = RAW) -> RunResult:
    return asyncio.run(request_budget_runner(model, config).run("1 + 2?"))


def thread_of_reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note in which threads answers are decoded."""
    threads: list[str] = []

    def noted(data: bytes, most: int) -> Any:
        threads.append(threading.current_thread().name)
        return decode(data, most)

    monkeypatch.setattr("surecall.runtime.retrying_requests.decode", noted)
    return threads


@pytest.mark.parametrize(("size", "aside"), [(1_000, False), (LARGE_BYTES + 1, True)])
def test_a_large_answer_is_read_beside_the_event_loop(
    size: int, *, aside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = thread_of_reading(monkeypatch)
    result = request_budget_ask(ScriptedModel(says("x" * size)))

    assert result.assistant_text == "x" * size
    assert [name != threading.main_thread().name for name in threads] == [aside]


def test_a_large_call_in_text_is_read_like_a_small_one() -> None:
    call = json.dumps({"name": "add", "arguments": {"a": 1, "b": 2}})
    text = f"<tool_call>{call.replace(':', ': ' + ' ' * LARGE_BYTES)}</tool_call>"
    result = request_budget_ask(
        ScriptedModel(says(text), says("3")), presets.default_tool_calling()
    )

    assert result.run.results[0].envelope["data"] == {"value": 3}


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (says("ok") | {"extra": [0] * 200_000}, True),
        (says("ok") | {"extra": [0] * 199_000}, False),
        (says('a, "b", [c], {d} \\' * 60_000), False),
    ],
)
def test_an_answer_with_too_many_values_is_refused_before_it_is_decoded(
    body: JSON, *, refused: bool
) -> None:
    read = decode_body(HttpResponse(200, {}, json.dumps(body).encode()))

    assert (isinstance(read, Fault) and read.code is ErrorCode.RESPONSE_TOO_LARGE) is refused


def body_of(raw_calls: list[JSON]) -> JSON:
    return {"choices": [{"message": {"role": "assistant", "tool_calls": raw_calls}}]}


@pytest.mark.parametrize("wrap", [str, json.dumps])
def test_lists_that_hide_in_the_arguments_of_many_calls_are_refused_unread(
    wrap: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = calls("add", a=1, b=2)
    call = many["choices"][0]["message"]["tool_calls"][0]
    lists = wrap(json.dumps({"a": [[]] * 10_000}))
    one = call | {"function": {"name": "add", "arguments": lists}}
    monkeypatch.setattr("surecall.core.reply_parsing.parse_arguments", pytest.fail)

    with pytest.raises(RequestFailed) as failed:
        request_budget_ask(ScriptedModel(body_of([one] * 11)))

    assert failed.value.code is ErrorCode.RESPONSE_TOO_LARGE


def test_a_call_in_a_text_that_is_too_long_is_asked_about_and_not_run() -> None:
    call = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    text = "x" * MAX_TEXT + "\n" + call
    result = request_budget_ask(
        ScriptedModel(says(text), says("3")), presets.default_tool_calling()
    )

    assert result.run.results == ()
    assert result.assistant_text == "3"
    assert [event.rule for event in result.trace if isinstance(event, TextCallAskedEvent)] == [
        "whole"
    ]


def test_the_deadline_binds_while_an_answer_is_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def endless(*_: object) -> None:
        go_on.wait()

    monkeypatch.setattr("surecall.runtime.retrying_requests.decode", endless)

    async def asked() -> str:
        brief = RAW.replace(run_deadline_s=0.01)
        try:
            await request_budget_runner(ScriptedModel(says("x" * LARGE_BYTES)), brief).run("1 + 2?")
        except RunFailed as error:
            return str(error.code)
        finally:
            go_on.set()
        return ""

    assert asyncio.run(asked()) == ErrorCode.DEADLINE_EXCEEDED


def test_a_reply_with_too_many_calls_is_refused_wherever_they_stand() -> None:
    many = calls_many(*[calls("add", a=1, b=2)] * (MAX_CALLS + 1))
    text = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>\n'
    for body in (many, says(text * (MAX_CALLS + 1))):
        with pytest.raises(RequestFailed) as failed:
            request_budget_ask(ScriptedModel(body), presets.default_tool_calling())
        assert failed.value.code is ErrorCode.RESPONSE_TOO_LARGE
