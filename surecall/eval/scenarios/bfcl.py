"""The single-turn cases of the Berkeley leaderboard (BFCL) as recorded requests.

    case + accepted answers ─► {"id": …, "messages": […], "tools": […], "expect": {…}}

Their schemas are almost JSON Schema. What is not is mapped as they map it for OpenAI's API, and
counted: `dict` is an object, `float` a number, `tuple` an array, `any` a string, a dot in a name an
underscore, and `optional` is left out, which says nothing that `required` does not. Texts stay as
they are.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from surecall.eval.scenarios.accepted_calls import ABSENT
from surecall.values.errors import ConfigError
from surecall.values.nesting import TooDeep, encode_json
from surecall.values.types import JSON

PACK: Final = "bfcl"
# What is expected where no calls are listed: whether there is any call.
WITHOUT_ANSWERS: Final[Mapping[str, bool]] = {
    "irrelevance": False,
    "live_irrelevance": False,
    "live_relevance": True,
}
SETS: Final = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
)
LEFT_OUT: Final[Mapping[str, str]] = {
    "simple_java, simple_javascript": "their values are source code in another language",
    "multi_turn_miss_func": "a tool is added in the middle of the conversation",
    "memory, web_search": "they need a store, or a search engine",
    "format_sensitivity": "the same cases in other words",
}
DOTTED: Final = "name with dots: underscores"
OPTIONAL: Final = "`optional` in a schema: left out"
_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
_PLAIN_TYPES: Final = frozenset({"array", "boolean", "integer", "number", "object", "string"})


# One name, and the accepted values of each argument.
OneCall: TypeAlias = Annotated[
    dict[str, dict[str, list[Any]]], msgspec.Meta(min_length=1, max_length=1)
]


class Function(msgspec.Struct, frozen=True):
    """A function that a case offers."""

    name: str
    parameters: JSON
    description: str = ""


class SingleTurn(msgspec.Struct, frozen=True):
    """A case: its conversation, as a list of one turn, and the functions on offer."""

    id: str
    question: tuple[list[JSON]]
    function: list[Function] = []


class Answer(msgspec.Struct, frozen=True):
    """The calls that a case wants, each a name with the accepted values of each argument."""

    id: str
    ground_truth: list[OneCall]


class Mapped:
    """What had to be mapped: how often, and in how many cases, or classes with tools."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.cases: Counter[str] = Counter()

    def add(self, found: Counter[str]) -> None:
        """Count what was mapped in one case or class."""
        self.times += found
        self.cases += Counter(found.keys())


def recorded_requests(
    name: str, cases: Sequence[SingleTurn], answers: Sequence[Answer], mapped: Mapped
) -> Iterator[JSON]:
    """Return the cases of a set as recorded requests, and count what is mapped."""
    wanted = {answer.id: answer.ground_truth for answer in answers}
    for case in cases:
        found: Counter[str] = Counter()
        if name in WITHOUT_ANSWERS:
            expected: JSON = {"tool_call": WITHOUT_ANSWERS[name]}
        elif case.id in wanted:
            expected = {"calls": [_wanted(one) for one in wanted[case.id]]}
        else:
            raise ConfigError(f"{case.id}: there is no accepted answer to it")
        yield {
            "id": f"{PACK}_{case.id}",
            "tags": [PACK, f"{PACK}_{name}"],
            "messages": case.question[0],
            "tools": [tool_of(each, found, case.id) for each in case.function],
            "parallel_tool_calls": True,
            "expect": expected | {"fits_schema": False},
        }
        mapped.add(found)


def out_of_reach(request: JSON) -> bool:
    """Whether no call at all can be accepted, because the answer does not fit the function."""
    tools = {each["function"]["name"]: each["function"]["parameters"] for each in request["tools"]}
    return any(
        _cannot_fit(one["arguments"], tools.get(one["name"], {}))
        for one in request["expect"].get("calls", ())
    )


def _cannot_fit(wanted: dict[str, list[Any]], schema: JSON) -> bool:
    properties = schema.get("properties", {})
    unknown = any(key not in properties and ABSENT not in wanted[key] for key in wanted)
    return unknown or any(
        not _has_value(wanted.get(key, []), properties.get(key, {}))
        for key in schema.get("required", ())
    )


def _has_value(accepted: list[Any], schema: JSON) -> bool:
    """Whether there is a value to give: where only an absent one is accepted, an empty one."""
    empty = ABSENT in accepted and schema.get("type") in {"string", "array"}
    return empty or any(each != ABSENT for each in accepted)


def _wanted(one: OneCall) -> JSON:
    name, arguments = next(iter(one.items()))
    return {"name": _undotted(name), "arguments": arguments}


def tool_of(function: Function, found: Counter[str], place: str) -> JSON:
    """Return a function as a tool of OpenAI's API; count what was mapped."""
    name = _undotted(function.name)
    if name != function.name:
        found[DOTTED] += 1
    try:
        encode_json(function.parameters, msgspec.json.encode)
        parameters = _schema(function.parameters, found)
    except (ConfigError, TooDeep) as error:
        raise ConfigError(f"{place}: {function.name}: {error}") from None
    about = {"name": name, "description": function.description, "parameters": parameters}
    return {"type": "function", "function": about}


def _undotted(name: str) -> str:
    return name.replace(".", "_")


def _schema(schema: Any, found: Counter[str]) -> JSON:
    """Return a schema as JSON Schema; count what was none."""
    if not isinstance(schema, dict):
        raise ConfigError("a schema that is no object")
    mapped = {key: value for key, value in schema.items() if key != "optional"}
    if mapped.keys() != schema.keys():
        found[OPTIONAL] += 1
    if "type" in schema:
        mapped["type"] = _type(schema["type"], found)
    if "items" in schema:
        mapped["items"] = _schema(schema["items"], found)
    if isinstance(properties := schema.get("properties"), dict):
        mapped["properties"] = {key: _schema(each, found) for key, each in properties.items()}
    return mapped


def _type(name: Any, found: Counter[str]) -> str:
    if not isinstance(name, str) or name not in _PLAIN_TYPES | _TYPES.keys():
        raise ConfigError(f"the type {name!r:.80} is not known")
    if name in _PLAIN_TYPES:
        return name
    found[f"type `{name}`: `{_TYPES[name]}`"] += 1
    return _TYPES[name]
