"""Simulated models answer in the form that is asked for, with what they were told."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from surecall import OpenAICompatible, ToolLoopRunner, presets
from surecall.settings.capabilities import Capabilities
from surecall.simulator import Simulator
from surecall.simulator.personas.asked_forms import answer_form, known_to, steps_in, takes_several
from surecall.values.types import JSON
from surecall.wire.protocols.in_words import IN_FORM


@dataclass
class Forecast:
    """The weather of some days."""

    city: str
    days: int
    sky: str


class Tree(msgspec.Struct):
    """A thing that refers to itself."""

    city: str
    inner: list["Tree"] = []


def get_weather(city: str, days: int) -> JSON:
    """Weather for a city."""
    return {"city": city, "days": days, "sky": "clear"}


@pytest.mark.parametrize("protocol", ["native", "guided", "prompted"])
def test_an_answer_has_the_form_and_says_what_the_tools_returned(protocol: str) -> None:
    with Simulator() as simulator:
        runner = ToolLoopRunner(
            client=OpenAICompatible(simulator.url),
            model="sim/clean",
            tools=[get_weather],
            output=Forecast,
            config=presets.default_tool_calling().replace(call_protocol=protocol),
        )
        result = runner.run_sync("Weather in Paris for 3 days?")
        runner.close()

    assert result.output == Forecast("Paris", 3, "clear")
    assert result.run.turn == 2


@pytest.mark.parametrize("output", [Forecast, Tree, list[int]])
def test_without_tools_it_is_bound_or_asked_for(output: Any) -> None:
    with Simulator() as simulator:
        runner = ToolLoopRunner(
            client=OpenAICompatible(simulator.url),
            model="sim/clean",
            output=output,
            capabilities=Capabilities(json_schema=True),
        )
        result = runner.run_sync("Weather in Paris for 3 days?")
        runner.close()

    assert result.output is not None
    assert result.run.turn == 1


def test_a_form_that_is_not_told_whole_is_none() -> None:
    asked = {"role": "system", "content": f"G{IN_FORM[1:]} {{"}

    assert answer_form([asked]) is None
    assert answer_form([{"role": "user", "content": IN_FORM + " {}"}]) is None
    assert answer_form([asked, {"role": "system", "content": IN_FORM + " {}"}]) == {}


def test_what_tools_returned_is_known_by_name() -> None:
    messages = [
        {"role": "tool", "content": '{"ok": true, "data": {"sky": "clear"}}'},
        {"role": "tool", "content": "no JSON"},
    ]

    assert known_to({"messages": messages}).named("sky") == "clear"


CALL: JSON = {"properties": {"tool": {"const": "add"}, "arguments": {"$ref": "#/$defs/add"}}}
ANSWER: JSON = {"properties": {"answer": {"$ref": "#/$defs/answer"}}}
DEFINED: JSON = {"$defs": {"add": {"title": "sum"}, "answer": {"type": "integer"}}}


@pytest.mark.parametrize(
    "branches",
    [
        [CALL, ANSWER],
        [{"properties": {"calls": {"items": CALL}}}, ANSWER],
        [{"properties": {"calls": {"items": {"anyOf": [CALL]}}}}, ANSWER],
    ],
)
def test_the_steps_of_a_guided_schema_have_what_they_refer_to(branches: list[JSON]) -> None:
    steps = steps_in({"anyOf": branches} | DEFINED)

    assert steps is not None
    call, answer = steps
    assert (call["tool"], call["arguments"]["title"]) == ({"const": "add"}, "sum")
    assert answer["answer"]["type"] == "integer"
    assert takes_several({"anyOf": branches}) == ("calls" in branches[0]["properties"])


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"anyOf": {"type": "string"}},
        {"anyOf": [CALL, {"properties": {"other": {}}}]},
        {"properties": {"calls": {"items": {"type": "string"}}}},
        {"properties": {"calls": {"items": {"anyOf": [CALL, 3]}}}},
    ],
)
def test_a_schema_of_another_form_has_no_steps(schema: JSON) -> None:
    assert steps_in(schema) is None
