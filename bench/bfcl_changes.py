"""Golden calls of BFCL's cases, and what can be done to them at random."""

import copy
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from surecall.eval.scenarios.accepted_calls import ABSENT, WantedCall
from surecall.values.types import JSON

Calls = list[tuple[str, JSON]]


class Judged(msgspec.Struct):
    """One case of theirs, with what both judges need of it."""

    id: str
    category: str
    functions: list[JSON]
    answer: list[JSON]
    wanted: list[WantedCall]
    schemas: dict[str, JSON]


def golden(wanted: Sequence[WantedCall], schemas: Mapping[str, JSON]) -> Calls:
    """Make the calls of the first accepted values."""
    return [(one.name, _arguments(one.arguments, schemas[one.name])) for one in wanted]


def _arguments(wanted: dict[str, list[Any]], schema: JSON) -> JSON:
    """Leave out what may be, and is unknown or has no value; what is required has an empty one."""
    found: JSON = {}
    for name, accepted in wanted.items():
        about = schema["properties"].get(name, {})
        values = [each for each in accepted if each != ABSENT]
        if values and (about or ABSENT not in accepted):
            found[name] = _golden(values[0])
        elif not values and name in schema.get("required", ()):
            found[name] = [] if about.get("type") == "array" else ABSENT
    return found


def _golden(value: Any) -> Any:
    """Make one value; an object lists the accepted values of its keys, but only one level deep."""
    match value:
        case dict():
            given = {key: [item for item in each if item != ABSENT] for key, each in value.items()}
            return {key: items[0] for key, items in given.items() if items}
        case list():
            return [_golden(each) for each in value]
        case _:
            return value


# Changes. Each returns calls that differ from those it was given, or None if it does not apply.


def _drop_call(made: Calls, _: Judged, dice: random.Random) -> Calls:
    del made[dice.randrange(len(made))]
    return made


def _repeat_call(made: Calls, _: Judged, dice: random.Random) -> Calls:
    return [*made, copy.deepcopy(dice.choice(made))]


def _shuffle(made: Calls, _: Judged, dice: random.Random) -> Calls | None:
    dice.shuffle(made)
    return made if len(made) > 1 else None


def _repeat_in_place(made: Calls, _: Judged, dice: random.Random) -> Calls | None:
    """Make one call twice and leave another out."""
    if len(made) == 1:
        return None
    first, second = dice.sample(range(len(made)), 2)
    made[first] = copy.deepcopy(made[second])
    return made


def _other_tool(made: Calls, case: Judged, dice: random.Random) -> Calls:
    at = dice.randrange(len(made))
    others = [name for name in case.schemas if name != made[at][0]] or [made[at][0] + "s"]
    made[at] = (dice.choice(others), made[at][1])
    return made


def _drop_argument(made: Calls, _: Judged, dice: random.Random) -> Calls | None:
    arguments = dice.choice(made)[1]
    if not arguments:
        return None
    del arguments[dice.choice([*arguments])]
    return made


def _add_argument(made: Calls, case: Judged, dice: random.Random) -> Calls:
    name, arguments = dice.choice(made)
    known = [key for key in case.schemas[name]["properties"] if key not in arguments]
    arguments[dice.choice([*known, "extra"])] = dice.choice(["x", 1, True, 1.5, [], {}, None, ""])
    return made


def _other_accepted(made: Calls, case: Judged, dice: random.Random) -> Calls | None:
    """Take another of the accepted values of an argument, as it is written there."""
    at = dice.randrange(len(made))
    choices = {key: each for key, each in case.wanted[at].arguments.items() if len(each) > 1}
    if not choices:
        return None
    key = dice.choice([*choices])
    made[at][1][key] = copy.deepcopy(dice.choice(choices[key]))
    return made


def _change_value(made: Calls, _: Judged, dice: random.Random) -> Calls | None:
    arguments = dice.choice(made)[1]
    if not arguments:
        return None
    key = dice.choice([*arguments])
    arguments[key] = changed(arguments[key], dice)
    return made


def _other_type(made: Calls, _: Judged, dice: random.Random) -> Calls | None:
    arguments = dice.choice(made)[1]
    if not arguments:
        return None
    key = dice.choice([*arguments])
    value = arguments[key]
    others: list[Any] = [str(value), [value], {"value": value}, None, True, 0, 1, 0.5, "", [], {}]
    arguments[key] = dice.choice(others)
    return made


def changed(value: Any, dice: random.Random) -> Any:
    """Return another value, or the same one spelt otherwise."""
    match value:
        case bool():
            return dice.choice([not value, int(value), str(value)])
        case int():
            return dice.choice([value + 1, -value, float(value), value + 0.5, str(value)])
        case float():
            return dice.choice([value + 1, -value, int(value), value * 1.0001, str(value)])
        case str():
            marked = value.replace(" ", dice.choice(["", "-", "_", ", ", "  ", "\t"]))
            quoted = value.replace("'", '"')
            return dice.choice(
                [value.upper(), value.title(), marked, quoted, f"{value}.", f"{value}!", value[1:]]
            )
        case list() if value:
            return _changed_list(copy.deepcopy(value), dice)
        case dict() if value:
            return _changed_object(copy.deepcopy(value), dice)
        case _:
            return dice.choice([[""], {"extra": 1}, None])


def _changed_list(value: list[Any], dice: random.Random) -> list[Any]:
    at = dice.randrange(len(value))
    match dice.randrange(4):
        case 0:
            del value[at]
        case 1:
            value.append(copy.deepcopy(value[at]))
        case 2:
            dice.shuffle(value)
        case _:
            value[at] = changed(value[at], dice)
    return value


def _changed_object(value: JSON, dice: random.Random) -> JSON:
    key = dice.choice([*value])
    match dice.randrange(3):
        case 0:
            del value[key]
        case 1:
            value["extra"] = 1
        case _:
            value[key] = changed(value[key], dice)
    return value


CHANGES = (
    _drop_call,
    _repeat_call,
    _shuffle,
    _repeat_in_place,
    _other_tool,
    _drop_argument,
    _add_argument,
    _other_accepted,
    _change_value,
    _change_value,
    _change_value,
    _other_type,
)


def changed_calls(
    cases: Sequence[Judged], number: int, seed: int
) -> Iterable[tuple[str, Judged, Calls]]:
    """Return so many changed calls, each with the name of what was done to them."""
    dice = random.Random(seed)  # noqa: S311  # no secret
    left = number
    while left:
        case, change = dice.choice(cases), dice.choice(CHANGES)
        made = change(copy.deepcopy(golden(case.wanted, case.schemas)), case, dice)
        if made is not None:
            left -= 1
            yield change.__name__.strip("_"), case, made
