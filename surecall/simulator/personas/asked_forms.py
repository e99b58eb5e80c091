"""Forms that a reply must have: the schema of an answer, and what a guided reply may be."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from surecall.simulator.personas.clues import Clues
from surecall.values.nesting import decode_prefix
from surecall.values.types import JSON
from surecall.wire.content_parts import text_of
from surecall.wire.protocols.in_words import IN_FORM

_DECODER = json.JSONDecoder()


def answer_form(messages: Sequence[JSON]) -> JSON | None:
    """Return the schema of the final answer, if the instructions ask for one."""
    for message in messages:
        text = text_of(message.get("content")) if message.get("role") == "system" else ""
        # The sentence may begin with these words, or end with them.
        _, found, rest = text.partition(IN_FORM[1:])
        match read_json(rest.lstrip(), 0) if found else None:
            case (dict(schema), int()):
                return schema
            case _:
                continue
    return None


def known_to(request: JSON) -> Clues:
    """Return what an answer can be made of: what the user said last, and what tools returned."""
    messages = request["messages"]
    asked = [text_of(item.get("content")) for item in messages if item.get("role") == "user"]
    known: JSON = {}
    for item in messages:
        text = text_of(item.get("content")) if item.get("role") == "tool" else ""
        match read_json(text, 0):
            case ({"data": dict(data)}, int()):
                known |= data
            case _:
                continue
    return Clues(asked[-1] if asked else "", known)


def read_json(text: str, at: int) -> tuple[Any, int] | None:
    """Read a JSON value in the middle of a text; return it and where it ends."""
    try:
        return decode_prefix(_DECODER, text, at)
    except ValueError:
        return None


# What a guided reply may be.


def steps_in(schema: JSON) -> list[JSON] | None:
    """Return what a guided schema allows, by its properties; None if it is of another form."""
    found = [step for branch in _branches(schema) for step in _steps_of(branch)]
    if None in found:
        return None
    defined = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return [step | _inside(step, defined) for step in found if step is not None]


def _steps_of(branch: Any) -> Iterator[JSON | None]:
    """Yield the steps of one branch: of a list of calls, each of them."""
    match branch:
        case {"properties": {"calls": {"items": dict(items)}} as several}:
            before = {key: several[key] for key in several if key != "calls"}
            for each in _branches(items):
                yield from (step and before | step for step in _steps_of(each))
        case {"properties": {"tool": {"const": str()}} as step}:
            yield step
        case {"properties": ({"answer": _} | {"cannot": {"enum": [str(), *_]}}) as step}:
            yield step
        case _:
            yield None


def _branches(schema: JSON) -> list[Any]:
    branches = schema.get("anyOf", [schema])
    return branches if isinstance(branches, list) else [branches]


def takes_several(schema: JSON) -> bool:
    """Whether a guided reply may have several calls."""
    return any(
        isinstance(branch, dict) and "calls" in branch.get("properties", ())
        for branch in _branches(schema)
    )


def _inside(step: JSON, defined: JSON) -> JSON:
    """Return the schemas in a step, with everything that they refer to."""
    inside = {"arguments": _resolved(step.get("arguments"), defined)}
    answer = step.get("answer")
    if isinstance(answer, dict) and "$ref" in answer:
        inside["answer"] = _resolved(answer, defined)
    return inside


def _resolved(arguments: Any, defined: JSON) -> JSON:
    """Return a tool's parameters with everything that they refer to."""
    match arguments:
        case {"$ref": str(pointer)}:
            name = pointer.removeprefix("#/$defs/")
            return dict(defined.get("$defs", {}).get(name, {})) | defined
        case dict():
            return arguments
        case _:
            return {}
