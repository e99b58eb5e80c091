"""Cases of BFCL as recorded requests: what is kept, what is mapped, what is refused."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from surecall import ConfigError
from surecall.eval.scenarios.bfcl import (
    DOTTED,
    OPTIONAL,
    Answer,
    Function,
    Mapped,
    SingleTurn,
    out_of_reach,
    recorded_requests,
)
from surecall.values.types import JSON
from tests.support.bfcl import AREA, answer, case
from tests.support.nesting import DEPTHS, nested

WANTED: JSON = {"base": [2.5], "type": ["square", ""]}


def requests(
    name: str, cases: Sequence[JSON], answers: Sequence[JSON] = (), mapped: Mapped | None = None
) -> list[JSON]:
    found = recorded_requests(
        name,
        msgspec.convert(cases, list[SingleTurn]),
        msgspec.convert(answers, list[Answer]),
        mapped or Mapped(),
    )
    return list(found)


def function(parameters: Any) -> JSON:
    return {"name": "f", "parameters": parameters}


def wanting(wanted: JSON, **parameters: Any) -> JSON:
    """Return a request for one function with these parameters."""
    (one,) = requests(
        "parallel",
        [case("x_0", functions=[function({"type": "dict", **parameters})])],
        [{"id": "x_0", "ground_truth": [{"f": wanted}]}],
    )
    return one


def test_a_case_becomes_a_request_with_the_calls_it_accepts() -> None:
    (one,) = requests("parallel", [case("parallel_0")], [answer("parallel_0", WANTED, WANTED)])
    call = {"name": "shapes_area", "arguments": WANTED}
    assert one["id"] == "bfcl_parallel_0"
    assert one["tags"] == ["bfcl", "bfcl_parallel"]
    assert one["parallel_tool_calls"] is True, "the leaderboard asks for all calls at once"
    assert one["messages"] == [{"role": "user", "content": "How large is it?"}]
    assert one["expect"] == {"calls": [call, call], "fits_schema": False}


def test_without_answers_the_set_says_whether_there_should_be_a_call() -> None:
    for name, wanted in (("irrelevance", False), ("live_relevance", True)):
        (one,) = requests(name, [case(f"{name}_0")])
        assert one["expect"] == {"tool_call": wanted, "fits_schema": False}


def test_what_is_no_json_schema_is_mapped_and_counted() -> None:
    mapped = Mapped()
    (one,) = requests("irrelevance", [case("x_0", functions=[AREA, AREA])], mapped=mapped)
    about = one["tools"][0]["function"]
    number = {"type": "number"}
    assert about["name"] == "shapes_area"
    assert about["parameters"] == {
        "type": "object",
        "properties": {
            "base": number,
            "corner": {"type": "array", "items": number},
            "style": {"type": "object", "properties": {"dotted": {"type": "string"}}},
            "type": {"type": "string"},
        },
        "required": ["base"],
    }
    assert mapped.times == {
        DOTTED: 2,
        OPTIONAL: 2,
        "type `dict`: `object`": 4,
        "type `float`: `number`": 4,
        "type `tuple`: `array`": 2,
        "type `any`: `string`": 2,
    }
    assert set(mapped.cases.values()) == {1}


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"type": "matrix"}, "x_0: f: the type 'matrix' is not known"),
        ({"type": ["string"]}, "x_0: f: the type ['string'] is not known"),
        ({"properties": {"a": True}}, "x_0: f: a schema that is no object"),
    ],
)
def test_a_schema_that_cannot_be_mapped_is_told_with_its_case(parameters: JSON, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        requests("irrelevance", [case("x_0", functions=[function(parameters)])])
    assert str(error.value) == told


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_schema_that_is_nested_too_deeply_is_told_with_its_case(depth: int) -> None:
    too_deep = SingleTurn("x_0", ([],), [Function("f", {"items": nested(depth)})])
    with pytest.raises(ConfigError, match="x_0: f: nested too deeply: more than 128 levels"):
        list(recorded_requests("irrelevance", [too_deep], (), Mapped()))


def test_a_case_without_an_answer_is_refused() -> None:
    with pytest.raises(ConfigError, match="multiple_1: there is no accepted answer"):
        requests("multiple", [case("multiple_1")], [answer("multiple_0", WANTED)])


NUMBER: JSON = {"type": "float"}
TEXT: JSON = {"type": "string"}


def test_a_case_that_can_be_met_is_within_reach() -> None:
    both: JSON = {"properties": {"a": NUMBER, "b": TEXT}, "required": ["a", "b"]}
    assert not out_of_reach(wanting({"a": [1], "b": [""]}, **both))
    assert not out_of_reach(wanting({"a": [1], "b": ["x"], "c": [1, ""]}, **both))
    assert not out_of_reach(wanting({}, properties={}))
    (irrelevant,) = requests("irrelevance", [case("irrelevance_0")])
    assert not out_of_reach(irrelevant)


def test_a_case_whose_answer_does_not_fit_its_function_is_out_of_reach() -> None:
    one: JSON = {"properties": {"a": NUMBER}, "required": ["a"]}
    assert out_of_reach(wanting({"a": [1], "b": [1]}, **one))
    assert out_of_reach(wanting({}, **one))
    assert out_of_reach(wanting({"a": [""]}, **one))
