"""Answers of a form that was asked for in words: the schema, and what there is to fill it with."""

import json
from collections.abc import Sequence
from typing import Any

from surecall.simulator.personas.clues import Clues
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
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
