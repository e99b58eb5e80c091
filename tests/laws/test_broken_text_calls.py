"""A call that was written as text and cannot be read is asked about: it is no answer."""

import pytest

from surecall import ToolLoopRunner, presets
from surecall.settings.config import ToolCallingConfig
from surecall.testing import ScriptedModel, calls, says
from surecall.values.types import ToolCall
from surecall.wire.dialects import WRITERS

CITY = "PARIS"
# What keeps a reader from reading: a value without quotation marks, or with two more of them.
DAMAGES = {"unquoted": (f'"{CITY}"', "PAR}IS"), "quoted_inside": (CITY, 'PA"R"IS')}
READERS = {
    "marked": presets.default_tool_calling(),
    "any": presets.content_tag_tool_call_fallback(presets.default_tool_calling()),
}


def get_weather(city: str) -> str:
    """Weather for a city."""
    return f"clear in {city}"


def damaged() -> list[tuple[str, str, str]]:
    """Write one call in each dialect, damaged in each way that shows in it."""
    call = ToolCall(id="c1", name="get_weather", arguments={"city": CITY})
    texts = [
        (row, way, write([call], "").replace(*change))
        for row, write in WRITERS.items()
        for way, change in DAMAGES.items()
    ]
    return [each for each in texts if CITY not in each[2]]


CASES = damaged()


def test_there_are_many_of_them() -> None:
    assert len(CASES) > 70


@pytest.mark.slow
@pytest.mark.parametrize("config", READERS.values(), ids=READERS)
@pytest.mark.parametrize(("row", "way", "text"), CASES, ids=lambda part: str(part)[:12])
def test_a_broken_call_is_never_taken_for_the_answer(
    row: str, way: str, text: str, config: ToolCallingConfig
) -> None:
    model = ScriptedModel(says(text), calls("get_weather", city=CITY), says("Clear."))
    runner = ToolLoopRunner(client=model, model="m", tools=[get_weather], config=config)
    result = runner.run_sync("Weather in Paris?")

    # Where a value may hold anything, the text is a call like any other, and runs.
    assert result.assistant_text == "Clear.", (row, way)


@pytest.mark.parametrize(
    "answer",
    [
        '{"tool": "get_weather", "state": "fine"}',
        "[get_weather](docs/tools.md) reads the weather, see [there]",
        "> get_weather takes a city.",
        "[1, 2, 3]",
        "{not JSON, and it names no tool}",
    ],
)
def test_an_answer_that_only_looks_so_is_not_asked_about(answer: str) -> None:
    model = ScriptedModel(says(answer))
    result = ToolLoopRunner(client=model, model="m", tools=[get_weather]).run_sync("Tell me.")

    assert result.assistant_text == answer
