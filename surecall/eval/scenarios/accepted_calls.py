"""Compares calls with accepted ones, by the rule of the Berkeley leaderboard (BFCL).

    {"name": "area", "arguments": {"base": [10], "unit": ["cm", "centimetres", ""]}}

A wanted call lists the accepted values of each argument; an empty string among them means that the
argument is optional. There must be exactly as many calls as wanted, in any order: each wanted call
is matched with the first unmatched call that fits. Strings are compared without case, spaces, and
the characters `,./-_*^`, numbers by value, and an integer may replace a number. The rule ignores
enums and bounds, so an accepted call may violate the schema of its tool.

The rule follows BFCL exactly, including its limits: values nested deeper than the values of an
object, or than the objects of a list, are compared unchanged.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from surecall.eval.scenarios.expectations import format_call, format_value, make_miss, shorten
from surecall.eval.storage.trial import Miss
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, ToolCall

COUNT_CHECK: Final = "there are exactly as many calls as are wanted"
MADE_CHECK: Final = "every wanted call is made"
ABSENT: Final = ""
_TYPE_BY_NAME: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_IGNORED_CHARS: Final = str.maketrans(dict.fromkeys(" ,./-_*^") | {"'": '"'})
UNREADABLE_CODES: Final = frozenset(
    {
        ErrorCode.ARGUMENTS_JSON_PARSE_ERROR,
        ErrorCode.ARGUMENTS_TOO_LARGE,
        ErrorCode.ARGUMENTS_TRUNCATED,
    }
)


class WantedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wanted call: the tool, and the accepted values of each argument."""

    name: str
    arguments: dict[str, list[Any]] = {}


def call_misses(
    wanted: Sequence[WantedCall],
    calls: Sequence[tuple[int, ToolCall]],
    schemas: Mapping[str, JSON],
    last_turn: int | None,
) -> Iterator[Miss]:
    """Compare the calls of a run, each with its turn, with the wanted ones, and yield the misses.

    `schemas` are the tools' parameter schemas by name; `last_turn` is the turn that ended the run.
    """
    if len(calls) != len(wanted):
        expected = f"{len(wanted)}: {'; '.join(map(format_wanted_call, wanted))}"
        came = "; ".join(format_call(call.name, call.arguments) for _, call in calls)
        got = f"{len(calls)}: {came}" if came else "no call"
        yield make_miss(COUNT_CHECK, expected, got, last_turn)
        return
    left = list(calls)
    for one in wanted:
        reasons = [call_mismatch(one, schemas.get(one.name, {}), call) for _, call in left]
        if "" in reasons:
            del left[reasons.index("")]
        else:
            turn, call = left[0]
            words = format_call(call.name, call.arguments)
            got = shorten(f"{reasons[0]}: {words}")
            yield Miss(MADE_CHECK, shorten(format_wanted_call(one)), got, turn, call.id)


def call_mismatch(wanted: WantedCall, schema: JSON, call: ToolCall) -> str:
    """Return why a call is not the wanted one; blank if it is."""
    if call.name != wanted.name:
        return f"not {wanted.name}"
    if call.problem is not None and call.problem.code in UNREADABLE_CODES:
        return "its arguments cannot be read"
    return _missing_argument(schema.get("required", ()), call.arguments) or _wrong_argument(
        wanted, schema.get("properties", {}), call.arguments
    )


def _missing_argument(required: Iterable[str], arguments: JSON) -> str:
    """Return which required argument is missing; blank if none is."""
    return next((f"{name} is missing" for name in required if name not in arguments), "")


def _wrong_argument(wanted: WantedCall, properties: JSON, arguments: JSON) -> str:
    """Return which argument is wrong; blank if none is."""
    for name, value in arguments.items():
        if name not in properties or name not in wanted.arguments:
            return f"{name} is not expected"
        if not is_accepted(wanted.arguments[name], properties[name], value):
            return f"{name} is {format_value(value)}"
    needed = (name for name, accepted in wanted.arguments.items() if ABSENT not in accepted)
    return _missing_argument(needed, arguments)


def is_accepted(accepted: list[Any], schema: Any, value: Any) -> bool:
    """Whether an argument is one of its accepted values, given its schema."""
    kind = _schema_type(schema)
    if kind is float and type(value) is int:
        value = _float_if_possible(value)
    likely = _first_type(accepted)
    if type(value) is not kind:
        return type(value) is likely and value in accepted
    inner = _schema_type(schema["items"]) if kind is list and "items" in schema else None
    if isinstance(value, list) and inner is not None and not _items_fit(accepted, inner, value):
        return False
    # An accepted value of another type, such as the name of a variable, must match exactly.
    if likely not in {None, kind}:
        return value in accepted
    return _is_accepted_value(accepted, inner, value)


def _is_accepted_value(accepted: list[Any], item_type: type | None, value: Any) -> bool:
    """Whether a value equals an accepted one; `item_type` is that of a list's items."""
    match value:
        case dict():
            return any(_object_fits(each, value) for each in accepted)
        case list() if item_type is dict:
            return any(_objects_fit(each, value) for each in accepted)
        case list():
            lists = [each for each in accepted if isinstance(each, list | str)]
            return _normalize_items(value) in map(_normalize_items, lists)
        case str():
            return _normalize(value) in [
                _normalize(each) for each in accepted if isinstance(each, str)
            ]
        case _:
            return value in accepted


def _items_fit(accepted: list[Any], item_type: type, value: list[Any]) -> bool:
    """Whether the items have the type of the schema or of an accepted list."""
    return any(
        not isinstance(each, list)
        or all(type(item) in {item_type, _first_type(each)} for item in value)
        for each in accepted
    )


def _object_fits(accepted: Any, value: JSON) -> bool:
    """Whether an object has accepted values and lacks only optional keys."""
    if not isinstance(accepted, dict):
        return False
    known = all(
        key in accepted and _normalize(item) in map(_normalize, _as_list(accepted[key]))
        for key, item in value.items()
    )
    return known and all(key in value or ABSENT in _as_list(accepted[key]) for key in accepted)


def _as_list(accepted: Any) -> list[Any]:
    """Return the accepted values of a key as a list."""
    return accepted if isinstance(accepted, list) else [accepted]


def _objects_fit(accepted: Any, value: list[Any]) -> bool:
    """Whether the objects of a list are the accepted ones, in order."""
    if not isinstance(accepted, list | str) or len(accepted) != len(value):
        return False
    return all(
        isinstance(item, dict) and _object_fits(each, item)
        for each, item in zip(accepted, value, strict=True)
    )


def _normalize(value: Any) -> Any:
    """Return a string in lower case without ignored characters; other values unchanged."""
    return value.translate(_IGNORED_CHARS).lower() if isinstance(value, str) else value


def _normalize_items(values: list[Any] | str) -> list[Any]:
    return [_normalize(each) for each in values]


def _schema_type(schema: Any) -> type:
    """Return the type that a schema requires; `str` if it names none."""
    name = schema.get("type") if isinstance(schema, dict) else None
    return _TYPE_BY_NAME.get(name, str) if isinstance(name, str) else str


def _first_type(accepted: list[Any]) -> type | None:
    """Return the type of the first accepted value that is not `ABSENT`."""
    return next((type(each) for each in accepted if each != ABSENT), None)


def _float_if_possible(value: int) -> float | int:
    try:
        return float(value)
    except OverflowError:  # larger than any accepted number
        return value


def format_wanted_call(wanted: WantedCall) -> str:
    """Format a wanted call with the first accepted value of each argument."""
    return format_call(
        wanted.name, {name: next(iter(each), ABSENT) for name, each in wanted.arguments.items()}
    )
