"""What arguments can mean that cannot be read as they are, or that the tool's schema refuses.

Each reading has a name. None is tried unless the straight one failed, and one is taken only if it
is the only one that the schema allows; `sure` is false for those that merely raise a doubt.

    control_tokens       {…}<|im_end|>      tokens of the chat template, characters without width
    closers_too_many     {…}}               a whole object, and after it only closing brackets
    empty_object_beside  {}{…}              where the empty object itself is refused
    sole_item            [{…}]              a list of exactly one object
    no_arguments         [], "", "[]"       for a tool that needs none, and has no place for these
    doubled_braces       {{…}}              no object begins with a brace
    call_in_arguments    {"name": "f", "arguments": {…}}, as the arguments of f
    keys_renamed         {"calendarId": …}  where `calendar_id` is declared and missing

What a single value can mean is in `disproved_values`.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from surecall.parsing.almost_json import Unusable, beginning
from surecall.parsing.argument_keys import with_own_keys
from surecall.parsing.arguments import bare, decoded, read_arguments, tidy
from surecall.parsing.coercion import Coerced
from surecall.parsing.control_tokens import is_noise, without_control_tokens
from surecall.parsing.disproved_values import Disproofs, mended
from surecall.values.types import JSON

_MAX_LAYERS = 4
_BRACKETS = frozenset("}]")
_NO_WORDS = frozenset({"null", "None", "undefined"})
_NAME_KEYS = frozenset({"name", "tool_name", "tool", "function"})
_ARGUMENT_KEYS = frozenset({"arguments", "parameters", "args", "input", "tool_input"})
_BESIDE_KEYS = frozenset({"id", "call_id", "tool_call_id", "type", "index"})
# Only these pieces of compact JSON hold an integer whose digits do not tell how it was written.
_NEGATIVE_ZEROS = (":-0,", ":-0}", "[-0,", "[-0]", ",-0,", ",-0]")


class Reading(msgspec.Struct, frozen=True):
    """One meaning, and how it was come by."""

    value: JSON
    steps: tuple[str, ...] = ()
    sure: bool = True


class Expected(msgspec.Struct, frozen=True):
    """What is known of the tool: its names, its properties, and what its schema says."""

    is_own_name: Callable[[str], bool]
    properties: Iterable[str]
    fit: Callable[[JSON], Coerced]
    disproofs: Callable[[JSON], Disproofs]


def only_reading(raw: object, straight: JSON | None, expected: Expected) -> Coerced | None:
    """Return the only meaning of `raw` that the tool allows, if there is exactly one.

    `straight` is what was read of it, if it could be read.
    """
    found: dict[str, tuple[Coerced, bool]] = {}
    first = _of_raw(raw, expected) if straight is None else [Reading(straight)]
    for reading in (every for one in first for every in _with_inner(one, expected)):
        allowed = _allowed(reading, expected)
        if allowed is not None:
            key = json.dumps(allowed.value, sort_keys=True)
            if reading.sure or key not in found:
                found[key] = (allowed, reading.sure)
    if len(found) != 1:
        return None
    ((only, sure),) = found.values()
    return only if sure and not _lost_its_spelling(raw, only) else None


def _allowed(reading: Reading, expected: Expected) -> Coerced | None:
    """Return a reading as the schema allows it, its disproved values mended."""
    fitted = expected.fit(reading.value)
    steps = (*reading.steps, *fitted.steps)
    if expected.disproofs(fitted.value):
        better = mended(fitted.value, expected.disproofs, expected.fit)
        if better is None:
            return None
        fitted, steps = better, (*steps, *better.steps)
    return Coerced(fitted.value, tuple(dict.fromkeys(steps)))


def _lost_its_spelling(raw: object, found: Coerced) -> bool:
    """Whether a text was made of an integer that may have been `-0`."""
    if "text_from_number" not in found.steps or not isinstance(raw, str):
        return False
    compact = "".join(raw.split())
    return any(piece in compact for piece in _NEGATIVE_ZEROS)


# Arguments as a whole


def _of_raw(raw: object, expected: Expected) -> list[Reading]:
    fired: dict[str, None] = {}
    try:
        if isinstance(raw, str):
            return _of_text(raw, expected, fired)
        match tidy(raw, fired):
            case [dict(item)]:
                return [Reading(item, (*fired, "sole_item"))]
            case []:
                return _of_nothing([], expected, ("no_arguments",))
            case _:
                return []
    except Unusable:
        return []


def _of_text(raw: str, expected: Expected, fired: dict[str, None]) -> list[Reading]:
    text = _peeled(raw, fired)
    if text in {"", "[]"} or text in _NO_WORDS:
        value = [] if text == "[]" else text
        return _of_nothing(value, expected, (*fired, "no_arguments"))
    documents, rest = beginning(text, fired)
    if not is_noise(rest, _BRACKETS):
        return []
    if rest:
        fired["closers_too_many"] = None
    filled = [document for document in documents if document != "{}"]
    if len(filled) > 1:
        return []
    if len(filled) == len(documents) or not filled:
        return _decoded(documents[0], fired)
    del fired["repeated_object"]
    fired["empty_object_beside"] = None
    return [Reading({}, sure=False), *_decoded(filled[0], fired)]


def _decoded(document: str, fired: dict[str, None]) -> list[Reading]:
    value = decoded(document, fired)
    return [Reading(value, tuple(fired))] if isinstance(value, dict) else []


def _of_nothing(value: Any, expected: Expected, steps: tuple[str, ...]) -> list[Reading]:
    """Read what says nothing as no arguments, unless it can be the value of a property."""
    doubts = [Reading({name: value}, sure=False) for name in expected.properties]
    return [Reading({}, steps), *doubts]


def _peeled(text: str, fired: dict[str, None]) -> str:
    """Take off what is around the JSON, layer by layer."""
    for _ in range(_MAX_LAYERS):
        text = _without_layer(text, fired)
    return text


def _without_layer(text: str, fired: dict[str, None]) -> str:
    inside = without_control_tokens(text)
    if inside != text.strip():
        fired["control_tokens"] = None
    inside = bare(inside, fired)
    if inside.startswith('"'):
        return _unquoted(inside, fired)
    if inside.startswith("{") and inside.endswith("}"):
        item = inside[1:-1].strip().removesuffix(",")
        if item.startswith("{"):
            fired["doubled_braces"] = None
            return item
    if inside.startswith("[") and inside.endswith("]"):
        item = inside[1:-1].strip().removesuffix(",")
        if item.startswith("{"):
            fired["sole_item"] = None
            return item
    return inside


def _unquoted(text: str, fired: dict[str, None]) -> str:
    try:
        inner: str = json.loads(text)
    except ValueError:
        return text
    fired["double_encoded"] = None
    return inner


# A call in the place of its arguments


def _with_inner(reading: Reading, expected: Expected) -> Iterator[Reading]:
    """Yield a reading, the call inside it, and both under the tool's own keys."""
    found = [reading]
    inner = _inner(reading.value, expected.is_own_name)
    if inner is not None:
        found.append(Reading(inner, (*reading.steps, "call_in_arguments"), reading.sure))
    for one in found:
        yield one
        renamed = with_own_keys(one.value, expected.properties)
        if renamed is not None:
            yield Reading(renamed, (*one.steps, "keys_renamed"), one.sure)


def _inner(value: JSON, is_own_name: Callable[[str], bool]) -> JSON | None:
    function = value.get("function")
    if isinstance(function, dict) and value.keys() <= {"function", *_BESIDE_KEYS}:
        value = function
    named, given = _NAME_KEYS & value.keys(), _ARGUMENT_KEYS & value.keys()
    if len(named) != 1 or len(given) != 1 or not value.keys() <= named | given | _BESIDE_KEYS:
        return None
    (name,), (inner,) = (value[key] for key in named), (value[key] for key in given)
    if not isinstance(name, str) or not is_own_name(name):
        return None
    inner = read_arguments(inner, sys.maxsize).value if isinstance(inner, str) else inner
    return inner if isinstance(inner, dict) else None
