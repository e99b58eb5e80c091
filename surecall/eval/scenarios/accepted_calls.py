"""Whether calls are those that were wanted, by the rule of the Berkeley leaderboard (BFCL).

    {"name": "area", "arguments": {"base": [10], "unit": ["cm", "centimetres", ""]}}

A wanted call lists the accepted values of each argument; an empty text among them says that it may
be left out. There must be exactly as many calls as are wanted, in any order: each wanted one takes
the first call that fits it and that no other has taken. Texts are compared without their case,
blanks and the marks `,./-_*^`, numbers by value, and an integer may stand for a number. The rule
reads no enums and no bounds, so a call may fit here and not fit the schema of its tool.

The rule is theirs to the letter, also where one would write another: what is nested deeper than
the values of an object, or than the objects of a list, is compared as it is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from surecall.eval.scenarios.misses import bounded, call_in_words, missed, shown
from surecall.eval.storage.trial import Miss
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON, ToolCall

COUNT: Final = "there are exactly as many calls as are wanted"
MADE: Final = "every wanted call is made"
ABSENT: Final = ""
_KINDS: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_UNHEARD: Final = str.maketrans(dict.fromkeys(" ,./-_*^") | {"'": '"'})
UNREADABLE: Final = frozenset(
    {
        ErrorCode.ARGUMENTS_JSON_PARSE_ERROR,
        ErrorCode.ARGUMENTS_TOO_LARGE,
        ErrorCode.ARGUMENTS_TRUNCATED,
    }
)


class WantedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that is wanted: the tool, and the accepted values of each argument."""

    name: str
    arguments: dict[str, list[Any]] = {}


def unmet_calls(
    wanted: Sequence[WantedCall],
    made: Sequence[tuple[int, ToolCall]],
    schemas: Mapping[str, JSON],
    ended: int | None,
) -> Iterator[Miss]:
    """Hold the calls of a run, each with its turn, against those that are wanted.

    `schemas` are those of the tools' parameters, by name; `ended` is the turn that ended the run.
    """
    if len(made) != len(wanted):
        expected = f"{len(wanted)}: {'; '.join(map(in_words, wanted))}"
        came = "; ".join(call_in_words(call.name, call.arguments) for _, call in made)
        got = f"{len(made)}: {came}" if came else "no call"
        yield missed(COUNT, expected, got, ended)
        return
    left = list(made)
    for one in wanted:
        reasons = [objection(one, schemas.get(one.name, {}), call) for _, call in left]
        if "" in reasons:
            del left[reasons.index("")]
        else:
            turn, call = left[0]
            words = call_in_words(call.name, call.arguments)
            got = bounded(f"{reasons[0]}: {words}")
            yield Miss(MADE, bounded(in_words(one)), got, turn, call.id)


def objection(wanted: WantedCall, schema: JSON, call: ToolCall) -> str:
    """Say why a call is not the wanted one; blank if it is."""
    if call.name != wanted.name:
        return f"not {wanted.name}"
    if call.problem is not None and call.problem.code in UNREADABLE:
        return "its arguments cannot be read"
    return _missing(schema.get("required", ()), call.arguments) or _unwelcome(
        wanted, schema.get("properties", {}), call.arguments
    )


def _missing(required: Iterable[str], arguments: JSON) -> str:
    return next((f"{name} is missing" for name in required if name not in arguments), "")


def _unwelcome(wanted: WantedCall, properties: JSON, arguments: JSON) -> str:
    """Say which argument is not as it is wanted; blank if all are."""
    for name, value in arguments.items():
        if name not in properties or name not in wanted.arguments:
            return f"{name} is not expected"
        if not accepts(wanted.arguments[name], properties[name], value):
            return f"{name} is {shown(value)}"
    needed = (name for name, accepted in wanted.arguments.items() if ABSENT not in accepted)
    return _missing(needed, arguments)


def accepts(accepted: list[Any], schema: Any, value: Any) -> bool:
    """Whether an argument is one of its accepted values, given its schema."""
    kind = _kind(schema)
    if kind is float and type(value) is int:
        value = _number(value)
    likely = _first_kind(accepted)
    if type(value) is not kind:
        return type(value) is likely and value in accepted
    inner = _kind(schema["items"]) if kind is list and "items" in schema else None
    if isinstance(value, list) and inner is not None and not _items_fit(accepted, inner, value):
        return False
    # An accepted value of another type stands for itself, such as the name of a variable.
    if likely not in {None, kind}:
        return value in accepted
    return _is_among(accepted, inner, value)


def _is_among(accepted: list[Any], inner: type | None, value: Any) -> bool:
    match value:
        case dict():
            return any(_object_fits(each, value) for each in accepted)
        case list() if inner is dict:
            return any(_objects_fit(each, value) for each in accepted)
        case list():
            lists = [each for each in accepted if isinstance(each, list | str)]
            return _plain_items(value) in map(_plain_items, lists)
        case str():
            return _plain(value) in [_plain(each) for each in accepted if isinstance(each, str)]
        case _:
            return value in accepted


def _items_fit(accepted: list[Any], inner: type, value: list[Any]) -> bool:
    """Whether the types of items are those of the schema, or of an accepted list."""
    return any(
        not isinstance(each, list)
        or all(type(item) in {inner, _first_kind(each)} for item in value)
        for each in accepted
    )


def _object_fits(accepted: Any, value: JSON) -> bool:
    """Whether an object has the accepted values, with only those keys left out that may be."""
    if not isinstance(accepted, dict):
        return False
    known = all(
        key in accepted and _plain(item) in map(_plain, _listed(accepted[key]))
        for key, item in value.items()
    )
    return known and all(key in value or ABSENT in _listed(accepted[key]) for key in accepted)


def _listed(accepted: Any) -> list[Any]:
    """Return the accepted values of a key; one that is no list is the only one."""
    return accepted if isinstance(accepted, list) else [accepted]


def _objects_fit(accepted: Any, value: list[Any]) -> bool:
    """Whether the objects of a list are the accepted ones, in their order; no text is no object."""
    if not isinstance(accepted, list | str) or len(accepted) != len(value):
        return False
    return all(
        isinstance(item, dict) and _object_fits(each, item)
        for each, item in zip(accepted, value, strict=True)
    )


def _plain(value: Any) -> Any:
    """Return a text without case, blanks and marks; anything else as it is."""
    return value.translate(_UNHEARD).lower() if isinstance(value, str) else value


def _plain_items(values: list[Any] | str) -> list[Any]:
    return [_plain(each) for each in values]


def _kind(schema: Any) -> type:
    """Return the type that a schema asks for; where it names none, a text."""
    name = schema.get("type") if isinstance(schema, dict) else None
    return _KINDS.get(name, str) if isinstance(name, str) else str


def _first_kind(accepted: list[Any]) -> type | None:
    """Return the type of the first accepted value that is not an absent one."""
    return next((type(each) for each in accepted if each != ABSENT), None)


def _number(value: int) -> float | int:
    try:
        return float(value)
    except OverflowError:  # no number that is accepted can be as large
        return value


def in_words(wanted: WantedCall) -> str:
    """Write a wanted call with the first accepted value of each argument."""
    return call_in_words(
        wanted.name, {name: next(iter(each), ABSENT) for name, each in wanted.arguments.items()}
    )
