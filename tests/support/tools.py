"""Tools for tests: plain ones, typed ones, and tools of other frameworks."""

import asyncio
import dataclasses
import enum
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic

from surecall import (
    RetryPolicy,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    tool,
)
from surecall.settings.endpoint_profile import FAMILIES
from surecall.testing import Item, ScriptedModel, says
from surecall.tools.schema import describe_function
from surecall.values.types import JSON

# Tools that many tests hand to a runner


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(name="add")
def add_or_zero(a: int = 0, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


# Types that the schema tests describe, bind and check


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


@dataclasses.dataclass
class Place:
    """A place on the map."""

    city: str
    unit: Unit = Unit.C


class Patch(TypedDict):
    path: str


class Point(NamedTuple):
    x: int
    y: int = 0


class Node(msgspec.Struct):
    name: str
    below: "list[Node]" = []


class Guest(pydantic.BaseModel):
    name: str
    age: int = 0

    @pydantic.model_validator(mode="after")
    def check(self) -> "Guest":
        if self.age < 0:
            raise {-1: ValueError("too young"), -2: KeyError("internal")}[self.age]
        return self


class Opaque:
    pass


def hinted(hint: Any) -> Callable[..., Any]:
    def tool(x: Any) -> None: ...

    tool.__annotations__ = {"x": hint}
    return tool


def properties(fn: Callable[..., Any]) -> JSON:
    return describe_function(fn).parameters["properties"]  # type: ignore[no-any-return]


# Runs in which a scripted model calls tools of other frameworks


def run_of(
    tools: Any, *script: Item, context: Mapping[str, Any] | None = None
) -> tuple[RunResult, ScriptedModel]:
    """Let a scripted model make its calls, and return what came of them."""
    model = ScriptedModel(*script, says("done"))
    runner = ToolLoopRunner(client=model, model="m", tools=tools)
    return asyncio.run(runner.run("go", context=context)), model


def data_of(result: RunResult) -> list[JSON]:
    """Return the data of the results, in order."""
    return [item.envelope["data"] for item in result.run.results]


def errors_of(result: RunResult) -> list[tuple[str, str]]:
    """Return the first error of each result that is one: its code and its words."""
    failed = [item.envelope["errors"][0] for item in result.run.results if not item.ok]
    return [(error["code"], error["message"]) for error in failed]


# Tools of the tests of transforms: a transform by its name, and a run with some of them


def ask(model: ScriptedModel, config: ToolCallingConfig, **settings: Any) -> RunResult:
    registry = ToolRegistry([add])
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=registry,
        config=config,
        retry=RetryPolicy(attempts=1),
        **settings,
    )
    return asyncio.run(runner.run("1 + 2?"))


def heal(field: str, name: str, value: JSON) -> JSON:
    return FAMILIES[field][name](value)


def shown(model: ScriptedModel, turn: int = 1) -> JSON:
    """Return the newest tool result as the model was shown it."""
    decoded: JSON = json.loads(model.requests[turn]["messages"][-1]["content"])
    return decoded
