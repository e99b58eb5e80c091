"""Early answers, contracts and protocols under attack: money, circles, memory, screens."""

import asyncio
import threading
from typing import Any

import pytest

from surecall import (
    ConfigError,
    Contract,
    Need,
    RetryPolicy,
    RunFailed,
    ToolLoopRunner,
    presets,
    replay,
)
from surecall.core.protocols import plan_encoder
from surecall.core.reply_parsing import parse_reply
from surecall.core.streaming import TextWithdrawn
from surecall.settings.config import REMIND, REQUIRE
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, calls, failure, says
from surecall.tools.registry import ToolRegistry
from surecall.values.events import FinalEvent
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Plan,
    Reply,
    ToolCall,
    ToolResult,
    ToolSpec,
    User,
)
from tests.support.scripted_runs import QUICK, script, shown, watched
from tests.support.timing import LINEAR, growth, until
from tests.support.tools import add

LADDER = (REMIND, REQUIRE)
MANY = 120


class Till:
    """Pays, but the answer never comes."""

    def __init__(self) -> None:
        self.paid = 0
        self.closed = threading.Event()

    def pay(self, amount: int) -> str:
        """Pay."""
        self.paid += 1
        self.closed.wait()
        return f"paid {amount}"


def runner_of(model: ScriptedModel, *tools: Any, **settings: Any) -> ToolLoopRunner:
    config = raw(final_ladder=LADDER).replace(**settings)
    return ToolLoopRunner(
        client=model, model="m", registry=tools, config=config, retry=RetryPolicy(attempts=1)
    )


@pytest.mark.parametrize("contract", [None, Contract(all_of=["pay"])])
def test_what_timed_out_is_not_paid_a_second_time(contract: Contract | None) -> None:
    till, model = Till(), ScriptedModel(calls("pay", amount=9), says("I could not pay."))
    settings: JSON = {"tool_use_mode": "enforced", "contract": contract, "tool_timeout_s": 0.05}
    with pytest.raises(RunFailed) as failed:
        runner_of(model, till.pay, **settings).run_sync("Pay 9.")

    assert failed.value.code == "GAVE_UP"
    assert failed.value.details["unmet"] == ("TOOL_ERROR" if contract is None else "CONTRACT_UNMET")
    # The thread of the tool may begin later than nobody waits for it any more.
    until(lambda: till.paid)
    till.closed.set()
    assert till.paid == 1
    assert len(model.requests) == 2


def test_a_contract_may_ask_for_the_same_call_several_times() -> None:
    ticks = [calls("add", f"c{number}", a=1, b=1) for number in range(3)]
    model = ScriptedModel(*ticks, says("Done."))
    contract = Contract(in_order=[Need("add", repeat=True)] * 3)
    result = runner_of(model, add, contract=contract, block_repeated_success=True).run_sync("Go.")

    assert [item.ok for item in result.run.results] == [True, True, True]


@pytest.mark.slow
def test_a_long_way_with_a_push_at_every_step_is_walked_to_its_end() -> None:
    def walked(many: int) -> None:
        needs = [Need("add", {"a": number}) for number in range(many)]
        turns: list[Item] = []
        for number in range(many):
            turns += [says("Done."), calls("add", f"c{number}", a=number, b=0)]
        model = ScriptedModel(*turns, says("Done."))
        settings: JSON = {"max_turns": 3 * many, "max_total_tool_calls": 2 * many}
        runner = runner_of(model, add, contract=Contract(in_order=needs), **settings)
        assert asyncio.run(runner.run("Go.")).false_finals == many

    # Each turn looks at the history, so that the steps grow with its square, and with no more.
    assert growth(walked, 15) < 2 * LINEAR
    walked(MANY)


def test_an_answer_that_does_not_count_leaves_the_screen() -> None:
    contracted = presets.default_tool_calling().replace(contract=Contract(all_of=["add"]))
    turns = script(says("Done already."), calls("add", a=1, b=2), says("Three."))
    events = watched(ScriptedModel(*turns), config=contracted)

    assert [item.text for item in events if isinstance(item, TextWithdrawn)] == ["Done already."]
    assert shown(events) == "Three."


def test_an_answer_that_is_objected_to_leaves_the_screen() -> None:
    def in_words(result: Any) -> str | None:
        return None if result.assistant_text == "Three." else "In words, please"

    events = watched(ScriptedModel(*script(says("3"), says("Three."))), accept_final=in_words)

    assert shown(events) == "Three."
    ended = events[-1]
    assert isinstance(ended, FinalEvent)
    assert ended.text == "Three."


def test_an_objection_without_a_full_stop_gets_one() -> None:
    model = ScriptedModel(says("3"), says("Three."))
    runner = ToolLoopRunner(
        client=model,
        model="m",
        config={"final_ladder": ["remind"]},
        accept_final=lambda result: None if result.assistant_text == "Three." else "In words",
    )
    result = runner.run_sync("1 + 2?")

    text = "This answer cannot be accepted: In words. Correct it."
    assert model.requests[1]["messages"][-1]["content"] == text
    assert replay(result.trace).run == result.run


def test_an_endpoint_that_wants_tools_beside_calls_gets_them_and_is_told_not_to_use_them() -> None:
    refused = failure(400, {"error": {"message": "messages with calls must define tools="}})
    model = ScriptedModel(
        calls("add", a=1, b=2), refused, says("3"), calls("add", a=1, b=2), says("3")
    )
    runner = runner_of(model, add, contract=Contract(all_of=["add"]))
    result = runner.run_sync("1 + 2?")
    runner.run_sync("1 + 2?")

    assert "tools" not in model.requests[1]
    assert [model.requests[at]["tool_choice"] for at in (2, 4)] == ["none", "none"]
    assert len(model.requests) == 5
    assert replay(result.trace).run == result.run


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, {"max_tokens": 1024}),
        ({"max_tokens": 7}, {"max_tokens": 7}),
        ({"max_completion_tokens": 7}, {"max_completion_tokens": 7}),
    ],
)
def test_the_limit_of_the_small_model_preset_gives_way_to_any_other(
    options: JSON, sent: JSON
) -> None:
    model = ScriptedModel(says('{"answer": "Hi."}'))
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=[add],
        config=presets.small_model(),
        llm_options_defaults=options,
        retry=QUICK,
    )
    runner.run_sync("Hello.")

    limits = ("max_tokens", "max_completion_tokens")
    assert {key: model.requests[0][key] for key in limits if key in model.requests[0]} == sent


def test_thoughts_inside_of_thoughts_end_in_a_reply_and_soon() -> None:
    spec = ToolSpec("add", "Add.", {"type": "object"})
    plan = Plan("m", (User("hi"),), (spec,), "auto", known_tools=(spec,))
    guided, tools = raw(call_protocol="guided"), ToolRegistry([add])

    def read(depth: int) -> None:
        text = "<think>" * depth + "</think>" * depth + '{"answer": "x"}'
        body = {"choices": [{"message": {"role": "assistant", "content": text}}]}
        assert isinstance(parse_reply(body, plan, guided, tools), Reply)

    assert growth(read, 300) < LINEAR
    read(3_000)


def test_what_was_joined_is_kept_once_and_only_while_it_is_needed() -> None:
    speak = plan_encoder("prompted", 200_000)
    spec = ToolSpec("add", "Add.", {"type": "object"})
    many = tuple(ToolCall(f"c{number}", "add", {}) for number in range(MANY))
    results = tuple(ToolResult(call.id, "add", ok=True, content="x" * 1_000) for call in many)
    messages: tuple[Message, ...] = (User("hi"), Assistant("", many), *results)
    first = speak(Plan("m", messages, (spec,), known_tools=(spec,)))
    again = speak(Plan("m", messages, (spec,), known_tools=(spec,)))

    assert again.messages[-1] is first.messages[-1]
    kept = speak._merge_cache  # type: ignore[attr-defined]  # what it holds on to
    assert [len(row) for row, _ in kept.values()] == [MANY]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_need_that_is_no_json_is_refused(number: float) -> None:
    with pytest.raises(ConfigError, match="contract: all_of"):
        Contract(all_of=[Need("add", {"a": number})])
