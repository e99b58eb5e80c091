"""The first program of a user, and the first mistakes, through the public door alone."""

from typing import Any

import pytest

from surecall import ConfigError, Context, Decision, ToolLoopRunner, presets
from surecall.simulator import Simulator
from surecall.testing import ScriptedProvider, calls, says


def get_weather(city: str, days: int) -> str:
    """Weather for a city."""
    return f"{city}: clear for {days} days"


# A bare runner takes the first reply of the second and third for the answer.
@pytest.mark.parametrize("persona", ["sim/clean", "sim/dialect-a1", "sim/legacy_function_call"])
def test_the_shortest_program_gets_its_answer_from_a_model_that_misbehaves(persona: str) -> None:
    with Simulator(seed=1) as simulator:
        runner = ToolLoopRunner(client=simulator.url, model=persona, tools=get_weather)
        result = runner.run_sync("What is the weather in Paris for 3 days?")
        runner.close()

    assert "Paris: clear for 3 days" in result.assistant_text


def test_the_bare_one_must_be_asked_for_and_does_not_heal() -> None:
    with Simulator(seed=1) as simulator:
        runner = ToolLoopRunner(
            client=simulator.url,
            model="sim/dialect-a1",
            tools=get_weather,
            config=presets.raw(),
        )
        result = runner.run_sync("What is the weather in Paris for 3 days?")
        runner.close()

    assert "clear" not in result.assistant_text
    assert result.run.results == ()


class Clerks:
    """Only clerks may cancel, and none of them what is old."""

    def visible(self, tool: Any, context: Any) -> bool:
        return bool(tool.name != "cancel_order" or context.get("role") == "clerk")

    async def authorize(self, call: Any, context: Any) -> Decision:
        assert context["role"] == "clerk"
        return Decision("deny" if call.arguments["order"] < 1000 else "allow", "It is old.")


def test_who_asks_decides_what_may_be_called_and_the_tool_knows_for_whom() -> None:
    cancelled: list[tuple[int, str]] = []

    def cancel_order(order: int, context: Context) -> str:
        """Cancel an order."""
        cancelled.append((order, context["user"]))
        return "cancelled"

    script = calls("cancel_order", order=1017), calls("cancel_order", order=17), says("ok")
    with ScriptedProvider(*script, says("No.")) as provider:
        runner = ToolLoopRunner(
            client=provider.url, model="m", tools=[cancel_order], tool_policy=Clerks()
        )
        done = runner.run_sync("Cancel them.", context={"user": "kim", "role": "clerk"})
        runner.run_sync("Cancel them.", context={"user": "eve"})
        runner.close()

    assert cancelled == [(1017, "kim")]
    assert done.run.results[1].error_codes == ("TOOL_POLICY_DENIED",)
    assert "kim" not in str(provider.requests) + repr(done.trace.events)
    assert [bool(request.get("tools")) for request in provider.requests] == [True] * 3 + [False]


@pytest.mark.parametrize(
    "mistake",
    [
        {"client": None},
        {"client": "127.0.0.1:8000"},
        {"model": ""},
        {"tools": "get_weather"},
        {"tools": [get_weather], "registry": [get_weather]},
        {"tool_policy": object()},
        {"config": {"max_turn": 3}},
        {"system": 5},
        {"executor": "run"},
    ],
    ids="-and-".join,
)
def test_a_mistake_is_told_before_anything_is_sent(mistake: dict[str, Any]) -> None:
    given: dict[str, Any] = {"client": "http://127.0.0.1:9", "model": "m"} | mistake
    with pytest.raises(ConfigError):
        ToolLoopRunner(**given)
