"""Runs that stop for a person: which calls wait, who may decide what, and how they go on."""

import asyncio
from typing import Any

import pytest

from surecall import (
    AskFirst,
    ConfigError,
    Decision,
    Run,
    ToolLoopRunner,
    replay,
    tool,
)
from surecall.testing import (
    ScriptedModel,
    calls,
    calls_many,
    says,
)


class Till:
    """Three tools, and what they did."""

    def __init__(self) -> None:
        self.did: list[str] = []

    @property
    def tools(self) -> list[Any]:
        @tool(destructive=True)
        def pay(euros: int) -> str:
            """Pay."""
            self.did.append(f"pay {euros}")
            return "paid"

        @tool(read_only=True)
        def look() -> str:
            """Look."""
            self.did.append("look")
            return "seen"

        @tool
        def note(text: str) -> str:
            """Write a note."""
            self.did.append(f"note {text}")
            return "noted"

        return [pay, look, note]

    def runner(self, *script: Any, policy: Any = None, **config: Any) -> ToolLoopRunner:
        return ToolLoopRunner(
            client=ScriptedModel(*script),
            model="m",
            tools=self.tools,
            config=config,
            tool_policy=policy or AskFirst(),
        )


MISFIT = r"the new arguments of pay \(call_1\) do not fit: "
ALL_THREE = calls_many(calls("look"), calls("pay", euros=5), calls("note", text="a"))


@pytest.mark.parametrize(
    ("about", "waiting", "did"),
    [
        ("destructive", ["pay"], ["look"]),
        ("writes", ["pay", "note"], ["look"]),
        ("everything", ["look", "pay", "note"], []),
    ],
)
def test_hints_say_which_calls_wait(about: Any, waiting: list[str], did: list[str]) -> None:
    till = Till()
    runner = till.runner(ALL_THREE, says("Done."), policy=AskFirst(about))
    result = runner.run_sync("Go.")

    assert [call.name for call in result.waiting] == waiting
    assert all(call.reason for call in result.waiting)
    assert till.did == did
    assert result.stop_reason == "waiting"
    assert "waiting for a person: " in str(result.trace).splitlines()[-1]


def test_a_word_that_is_no_hint_is_refused() -> None:
    with pytest.raises(ConfigError, match="'dangerous' is none of 'destructive', 'writes'"):
        AskFirst("dangerous")  # type: ignore[arg-type]


def test_a_run_goes_on_with_what_was_decided() -> None:
    till = Till()
    runner = till.runner(ALL_THREE, says("Done."))
    result = runner.run_sync("Go.")
    result = runner.resume_sync(result.run, decisions={"call_2": Decision.approve()})

    assert till.did == ["look", "pay 5", "note a"]
    assert result.assistant_text == "Done."
    assert result.run.decisions == {}


def test_where_calls_run_at_the_same_time_all_of_the_turn_wait() -> None:
    till = Till()
    script = (ALL_THREE, says("Done."))
    runner = till.runner(*script, request_overrides={"parallel_tool_calls": True})
    result = runner.run_sync("Go.")
    assert till.did == []
    result = runner.resume_sync(result.run, decisions={"call_2": Decision.deny("No.")})

    assert sorted(till.did) == ["look", "note a"]
    assert "This call is not permitted. No." in result.run.results[1].content


def test_without_a_decision_nothing_happens_and_nothing_is_sent() -> None:
    till = Till()
    runner = till.runner(calls("pay", euros=5))
    waiting = runner.run_sync("Go.")
    again = runner.resume_sync(waiting.run)

    assert again.run == waiting.run
    assert till.did == []
    assert replay(again.trace).run == again.run
    assert [type(event).__name__ for event in again.trace] == ["RunStartEvent", "RunPausedEvent"]


@pytest.mark.parametrize(
    ("decisions", "words"),
    [
        ({"call_9": Decision.approve()}, "no call with the id 'call_9' waits"),
        ({"call_1": "yes"}, r"about pay \(call_1\) say Decision.approve\(\)"),
        ({"call_1": Decision.confirm()}, r"say Decision.approve\(\)"),
        ({"call_1": Decision("perhaps")}, r"say Decision.approve\(\)"),  # type: ignore[arg-type]
        (
            {"call_1": Decision.replace({"euros": "5"})},
            MISFIT,
        ),
        (
            {"call_1": Decision.replace({"cents": 5})},
            MISFIT,
        ),
        ({"call_1": Decision.replace({"euros": float("nan")})}, MISFIT),
        ({"call_1": Decision.replace({"euros": object()})}, "this is not JSON"),
        ({"call_1": Decision.replace([5])}, r"say Decision.approve\(\)"),  # type: ignore[arg-type]
        ([Decision.approve()], "decisions must be a mapping"),
    ],
)
def test_a_decision_that_cannot_be_carried_out_is_refused_and_nothing_has_happened(
    decisions: Any, words: str
) -> None:
    till = Till()
    runner = till.runner(calls("pay", euros=5))
    run = runner.run_sync("Go.").run
    with pytest.raises(ConfigError, match=words):
        runner.resume_sync(run, decisions=decisions)
    with pytest.raises(ConfigError, match=words):
        asyncio.run(_watched(runner, run, decisions))

    assert till.did == []


async def _watched(runner: ToolLoopRunner, run: Run, decisions: Any) -> None:
    async for _ in runner.stream_resumed(run, decisions=decisions):
        pass


def test_a_call_that_waits_does_not_run_where_there_is_no_policy_either() -> None:
    till = Till()
    run = till.runner(calls("pay", euros=5)).run_sync("Go.").run
    lax = ToolLoopRunner(client=ScriptedModel(says("Done.")), model="m", tools=till.tools)

    assert lax.resume_sync(run).waiting
    assert till.did == []
    lax.resume_sync(run, decisions={"call_1": Decision.approve()})
    assert till.did == ["pay 5"]
