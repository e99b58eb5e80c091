"""Values that no tool should return, and some: each costs its call at most, never the run."""

import asyncio
import math
import types
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Any

import pydantic
import pytest

from surecall import presets
from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.runtime.runner import ToolLoopRunner
from surecall.testing import ScriptedModel, calls, says
from surecall.tools.registry import ToolDefinition, ToolRegistry
from surecall.values.errors import ToolError
from surecall.values.types import JSON, ToolResult


def run(function: Callable[[], Any]) -> RunResult:
    registry = ToolRegistry([ToolDefinition("t", handler=function)])
    client = ScriptedModel(calls("t"), says("done"))
    runner = ToolLoopRunner(client=client, model="m", tools=registry, config=presets.raw())
    return asyncio.run(runner.run("go"))


def answer(function: Callable[[], Any]) -> ToolResult:
    result = run(function)
    assert result.assistant_text == "done"
    return result.run.results[0]


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = None
    for _ in range(depth):
        value = wrap(value)
    return value


def cyclic_list() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def cyclic_mapping() -> Any:
    value: JSON = {}
    value["self"] = value
    return value


@dataclass
class Node:
    child: Any = None
    tags: set[str] = field(default_factory=lambda: {"a"})


def cyclic_node() -> Any:
    node = Node()
    node.child = node
    return node


class BadMapping(Mapping[str, Any]):
    """A mapping that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no keys today")

    def __len__(self) -> int:
        return 1


class BadText:
    def __str__(self) -> str:
        raise RuntimeError("no text today")

    __repr__ = __str__


class BadModel:
    def model_dump(self, **_: Any) -> Any:
        raise RuntimeError("no dump today")


class BadAttributes:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Marked(str):
    """Text with a class of its own, as template engines have it."""

    __slots__ = ()


class Exact(float):
    """A number with a class of its own, as NumPy has it."""


class Size(Enum):
    SMALL = "s"


class Room(pydantic.BaseModel):
    beds: int
    free: date


LARGE = "TOOL_OUTPUT_TOO_LARGE"
DEEP = "TOOL_OUTPUT_TOO_DEEP"
UNREADABLE = "TOOL_OUTPUT_SERIALIZATION_ERROR"


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda: nested(100_000, lambda inner: [inner]), DEEP),
        (lambda: nested(100_000, lambda inner: {"a": inner}), DEEP),
        (lambda: nested(100_000, Node), UNREADABLE),
        (cyclic_list, DEEP),
        (cyclic_mapping, DEEP),
        (cyclic_node, UNREADABLE),
        (lambda: [0] * 10_000_000, LARGE),
        (BadText, UNREADABLE),
        (BadModel, UNREADABLE),
        (BadAttributes, UNREADABLE),
        (lambda: [BadMapping()], UNREADABLE),
        (BadMapping, UNREADABLE),
        (lambda: {"ok": True, "tool_name": BadText()}, UNREADABLE),
        (lambda: {"ok": False, "errors": [BadText()]}, UNREADABLE),
        (lambda: ["x" * 300_000, object()], LARGE),
        (lambda: [BadMapping(), "x" * 300_000], LARGE),
        (lambda: math.nan, UNREADABLE),
        (lambda: [math.inf], UNREADABLE),
        (lambda: Node(-math.inf), UNREADABLE),
        (lambda: {"ok": True, "data": {"a": [{"b": math.nan}]}}, UNREADABLE),
        (lambda: Exact("nan"), UNREADABLE),
        (lambda: ["half \ud800", math.nan], UNREADABLE),
    ],
)
def test_a_hostile_value_costs_its_call_and_not_the_run(
    function: Callable[[], Any], code: str
) -> None:
    result = answer(function)

    assert result.error_codes == (code,)
    assert result.executed
    assert len(result.content) < 1_500


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (b"\xff", {"value": "/w=="}),
        ({3}, {"value": [3]}),
        (frozenset({3}), {"value": [3]}),
        ((1, (2,)), {"value": [1, [2]]}),
        ([None, "null"], {"value": [None, "null"]}),
        (10**30, {"value": 10**30}),
        ({1: "a"}, {"1": "a"}),
        (Node(), {"value": {"child": None, "tags": ["a"]}}),
        (Room(beds=2, free=date(2030, 1, 2)), {"value": {"beds": 2, "free": "2030-01-02"}}),
        (Size.SMALL, {"value": "s"}),
        (Marked("x"), {"value": "x"}),
        (Exact(1.5), {"value": 1.5}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        ([ChainMap({"a": 1})], {"value": [{"a": 1}]}),
        ("half \ud800", {"value": "half \ufffd"}),
        ({"\udc00": ["\ud83d\ude00", Node()]}, {"\ufffd": ["😀", {"child": None, "tags": ["a"]}]}),
    ],
)
def test_what_json_can_express_is_written(value: Any, data: JSON) -> None:
    result = answer(lambda: value)

    assert result.ok
    assert result.envelope["data"] == data


@pytest.mark.parametrize(
    "function",
    [
        lambda: {"ok": False, "tool_name": "\ud800", "errors": [{"code": "\ud800"}]},
        lambda: "\ud800",
    ],
)
def test_a_run_with_half_characters_can_be_written_down(function: Callable[[], Any]) -> None:
    run_ = run(function).run
    assert Run.from_json(run_.to_json()) == run_


@pytest.mark.parametrize("error", [ToolError("\ud800", code="\ud800"), RuntimeError("\ud800")])
def test_a_run_whose_tool_raised_half_characters_can_be_written_down(error: Exception) -> None:
    def function() -> None:
        raise error

    run_ = run(function).run
    assert Run.from_json(run_.to_json()) == run_
