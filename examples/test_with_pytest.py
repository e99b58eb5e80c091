"""Tests of an agent with pytest: no key, no network. Run them with `pytest examples`.

The fixtures come with surecall. A test that fails shows the traces of its runs.
"""

from collections.abc import Callable
from pathlib import Path

from surecall import RunResult, ToolLoopRunner, save_trace
from surecall.simulator import Simulator
from surecall.testing import ScriptedModel, calls, says

QUESTION = "What is the weather in Paris for 3 days?"


def get_weather(city: str, days: int) -> str:
    """Weather for a city."""
    return f"{city}: clear for {days} days"


def test_the_tool_gets_numbers(scripted_model: type[ScriptedModel]) -> None:
    model = scripted_model(calls("get_weather", city="Paris", days="3"), says("Clear."))
    result = ToolLoopRunner(client=model, model="any", tools=[get_weather]).run_sync(QUESTION)
    assert result.run.results[0].envelope["data"] == {"value": "Paris: clear for 3 days"}


def test_a_model_that_bends_its_arguments(simulator: Simulator) -> None:
    runner = ToolLoopRunner(client=simulator.url, model="sim/bends-arguments", tools=[get_weather])
    assert "Paris: clear for 3 days" in runner.run_sync(QUESTION).text
    runner.close()


def test_a_recorded_run_is_still_read_the_same(
    scripted_model: type[ScriptedModel], replayed: Callable[..., RunResult], tmp_path: Path
) -> None:
    runner = ToolLoopRunner(client=scripted_model(says("Hello.")), model="any")
    save_trace(runner.run_sync("Hi").trace, tmp_path / "hello.jsonl")
    assert replayed(tmp_path / "hello.jsonl").text == "Hello."
