"""Converts single-turn cases of the Berkeley Function-Calling Leaderboard to recorded requests.

    case + accepted answers ─► {"id": …, "messages": […], "tools": […], "expect": {…}}

BFCL's schemas are almost JSON Schema. The rest is mapped as BFCL does for OpenAI's API, and
counted: `dict` becomes object, `float` number, `tuple` array, `any` string, a dot in a name an
underscore, and `optional`, which duplicates `required`, is removed. Texts are unchanged.
"""

import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from surecall.eval.scenarios.accepted_calls import ABSENT
from surecall.values.errors import ConfigError
from surecall.values.nesting import TooDeep, decode_json, encode_json
from surecall.values.types import JSON

PACK: Final = "bfcl"
# Sets without accepted calls: whether any call is expected.
WITHOUT_ANSWERS: Final[Mapping[str, bool]] = {
    "irrelevance": False,
    "live_irrelevance": False,
    "live_relevance": True,
}
SET_NAMES: Final = (
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
EXCLUDED_SETS: Final[Mapping[str, str]] = {
    "simple_java, simple_javascript": "values are source code in another language",
    "multi_turn_miss_func": "a tool is added during the conversation",
    "memory, web_search": "need a store or a search engine",
    "format_sensitivity": "the same cases, reworded",
}
DOTTED_NAMES: Final = "name with dots: underscores"
OPTIONAL_FIELDS: Final = "`optional` in a schema: removed"
_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
_PLAIN_TYPES: Final = frozenset({"array", "boolean", "integer", "number", "object", "string"})


# One name, and the accepted values of each argument.
AcceptedCall: TypeAlias = Annotated[
    dict[str, dict[str, list[Any]]], msgspec.Meta(min_length=1, max_length=1)
]


class BfclFunction(msgspec.Struct, frozen=True):
    """A function that a case exposes."""

    name: str
    parameters: JSON
    description: str = ""


class SingleTurnCase(msgspec.Struct, frozen=True):
    """A case: its conversation, a list of one turn, and the exposed functions."""

    id: str
    question: tuple[list[JSON]]
    function: list[BfclFunction] = []


class AcceptedAnswer(msgspec.Struct, frozen=True):
    """The accepted calls of a case."""

    id: str
    ground_truth: list[AcceptedCall]


class MappingCounts:
    """Counts of mappings: how often, and in how many cases or tool classes."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.cases: Counter[str] = Counter()

    def add(self, counts: Counter[str]) -> None:
        """Add the mappings of one case or class."""
        self.times += counts
        self.cases += Counter(counts.keys())


def recorded_requests(
    name: str,
    cases: Sequence[SingleTurnCase],
    answers: Sequence[AcceptedAnswer],
    mapped: MappingCounts,
) -> Iterator[JSON]:
    """Yield the cases of a set as recorded requests, and count mappings."""
    wanted = {answer.id: answer.ground_truth for answer in answers}
    for case in cases:
        found: Counter[str] = Counter()
        if name in WITHOUT_ANSWERS:
            expected: JSON = {"tool_call": WITHOUT_ANSWERS[name]}
        elif case.id in wanted:
            expected = {"calls": [_wanted_call(one) for one in wanted[case.id]]}
        else:
            raise ConfigError(f"{case.id}: the case has no accepted answer")
        yield {
            "id": f"{PACK}_{case.id}",
            "tags": [PACK, f"{PACK}_{name}"],
            "messages": case.question[0],
            "tools": [openai_tool(each, found, case.id) for each in case.function],
            "parallel_tool_calls": True,
            "expect": expected | {"fits_schema": False},
        }
        mapped.add(found)


def is_unanswerable(request: JSON) -> bool:
    """Whether no call can be accepted, because the answer does not fit the function."""
    tools = {each["function"]["name"]: each["function"]["parameters"] for each in request["tools"]}
    return any(
        _cannot_fit(one["arguments"], tools.get(one["name"], {}))
        for one in request["expect"].get("calls", ())
    )


def _cannot_fit(wanted: dict[str, list[Any]], schema: JSON) -> bool:
    """Whether an accepted call has an argument for which the schema accepts no value."""
    properties = schema.get("properties", {})
    unknown = any(key not in properties and ABSENT not in wanted[key] for key in wanted)
    return unknown or any(
        not _has_value(wanted.get(key, []), properties.get(key, {}))
        for key in schema.get("required", ())
    )


def _has_value(accepted: list[Any], schema: JSON) -> bool:
    """Whether a value can be accepted; an empty one if only `ABSENT` is."""
    empty = ABSENT in accepted and schema.get("type") in {"string", "array"}
    return empty or any(each != ABSENT for each in accepted)


def _wanted_call(accepted: AcceptedCall) -> JSON:
    """Return an accepted call in the format of `expect`."""
    name, arguments = next(iter(accepted.items()))
    return {"name": _replace_dots(name), "arguments": arguments}


def openai_tool(function: BfclFunction, counts: Counter[str], label: str) -> JSON:
    """Return a function as a tool of OpenAI's API; count mappings in `counts`."""
    name = _replace_dots(function.name)
    if name != function.name:
        counts[DOTTED_NAMES] += 1
    try:
        encode_json(function.parameters, msgspec.json.encode)
        parameters = _map_schema(function.parameters, counts)
    except (ConfigError, TooDeep) as error:
        raise ConfigError(f"{label}: {function.name}: {error}") from None
    about = {"name": name, "description": function.description, "parameters": parameters}
    return {"type": "function", "function": about}


def _replace_dots(name: str) -> str:
    return name.replace(".", "_")


def _map_schema(schema: Any, counts: Counter[str]) -> JSON:
    """Return a schema as JSON Schema; count mappings in `counts`."""
    if not isinstance(schema, dict):
        raise ConfigError("a schema is not an object")
    mapped = {key: value for key, value in schema.items() if key != "optional"}
    if mapped.keys() != schema.keys():
        counts[OPTIONAL_FIELDS] += 1
    if "type" in schema:
        mapped["type"] = _map_type(schema["type"], counts)
    if "items" in schema:
        mapped["items"] = _map_schema(schema["items"], counts)
    if isinstance(properties := schema.get("properties"), dict):
        mapped["properties"] = {key: _map_schema(each, counts) for key, each in properties.items()}
    return mapped


def _map_type(name: Any, counts: Counter[str]) -> str:
    """Return the name of a type in JSON Schema, and count a mapping."""
    if not isinstance(name, str) or name not in _PLAIN_TYPES | _TYPES.keys():
        raise ConfigError(f"unknown type {name!r:.80}")
    if name in _PLAIN_TYPES:
        return name
    counts[f"type `{name}`: `{_TYPES[name]}`"] += 1
    return _TYPES[name]


# Reads the data of BFCL from the wheel of `bfcl-eval`, an unpacked wheel, or a checkout.
#
# Only the files of the sets are read, and no third-party code is run.

T = TypeVar("T")


def find_data(source: Path) -> Traversable:
    """Return the folder of the sets in a wheel or a directory."""
    folder = find_folder(source, _set_file_name(SET_NAMES[0]), ("bfcl_eval/data", "data", ""))
    if folder is None:
        raise ConfigError(
            f"no {_set_file_name(SET_NAMES[0])} in {source}: pass the wheel of bfcl-eval"
        )
    return folder


def find_folder(source: Path, file: str, places: Sequence[str]) -> Traversable | None:
    """Return the first of some folders in a wheel or a directory that has a file."""
    root: Traversable = source
    if source.suffix == ".whl":
        try:
            root = zipfile.Path(source)
        except (OSError, zipfile.BadZipFile) as error:
            raise ConfigError(f"cannot read {source}: {error}") from None
    folders = (root.joinpath(place) if place else root for place in places)
    return next((each for each in folders if each.joinpath(file).is_file()), None)


def read_set(
    folder: Traversable, name: str, mapped: MappingCounts, max_cases: int | None
) -> list[JSON]:
    """Return a set as recorded requests: all, or at most `max_cases`, sampled evenly."""
    cases = sample_evenly(read_cases(folder, name, SingleTurnCase), max_cases)
    answers = [] if name in WITHOUT_ANSWERS else read_answers(folder, name, AcceptedAnswer)
    return list(recorded_requests(name, cases, answers, mapped))


def read_cases(folder: Traversable, name: str, kind: type[T]) -> list[T]:
    """Read the cases of a set."""
    return list(read_json_lines(folder, _set_file_name(name), kind))


def read_answers(folder: Traversable, name: str, kind: type[T]) -> list[T]:
    """Read the answers of a set."""
    return list(read_json_lines(folder, f"possible_answer/{_set_file_name(name)}", kind))


def sample_evenly(items: Sequence[T], max_items: int | None) -> list[T]:
    """Return all items, or at most `max_items` at equal distances."""
    few = len(items) if max_items is None else min(max_items, len(items))
    return [items[at * len(items) // few] for at in range(few)]


def _set_file_name(name: str) -> str:
    return f"BFCL_v4_{name}.json"


def read_json_lines(folder: Traversable, name: str, kind: type[T]) -> Iterator[T]:
    """Yield the JSON object on each line of a file."""
    for number, line in enumerate(read_file(folder, name).split(b"\n"), start=1):
        if line.strip():
            try:
                yield decode_json(line, kind)
            except ValueError as error:
                raise ConfigError(f"{name}:{number}: {error}") from None


def read_file(folder: Traversable, name: str) -> bytes:
    """Return the content of a file; raise `ConfigError` if it cannot be read."""
    try:
        return folder.joinpath(name).read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"cannot read {name}: {error}") from None
