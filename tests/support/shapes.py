"""Types that the schema tests describe, bind and check."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic

from surecall.tools.schema import describe_function
from surecall.values.types import JSON


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
