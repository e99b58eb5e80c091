"""Two rewritings of arguments that are right for some models only, and never on by themselves.

    html_entities        `a &amp;&amp; b` is what a model wrote for `a && b`
    text_from_container  an object, where the schema wants its JSON text

Both would spoil arguments of other models, so a preset of their own switches each on.
"""

from typing import Any

import msgspec

from surecall.values.types import JSON

# The characters that must be escaped in HTML, in the spellings that escapers use.
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": "\xa0"}
_ENTITIES |= {"#34": '"', "#38": "&", "#39": "'", "#60": "<", "#62": ">"}
_ENTITIES |= {"#x22": '"', "#x26": "&", "#x27": "'", "#x2f": "/", "#x3c": "<", "#x3e": ">"}
_LONGEST = max(map(len, _ENTITIES))


def without_entities(value: JSON, steps: list[str]) -> JSON:
    """Decode the entities in every text, once; the very same value if there are none."""
    decoded: JSON = _decoded(value)
    if decoded == value:
        return value
    steps.append("html_entities")
    return decoded


def with_texts(value: JSON, schema: JSON, steps: list[str]) -> JSON:
    """Write the containers among the properties as JSON where a string is declared."""
    properties = schema.get("properties", {})
    written = {
        name: msgspec.json.encode(item).decode()
        for name, item in value.items()
        if isinstance(item, dict | list) and _wants_text(properties.get(name))
    }
    if not written:
        return value
    steps.append("text_from_container")
    return value | written


def _wants_text(schema: Any) -> bool:
    kinds = schema.get("type") if isinstance(schema, dict) else None
    given = kinds if isinstance(kinds, list) else [kinds]
    return "string" in given and not {"array", "object"}.intersection(map(str, given))


def _decoded(value: Any) -> Any:
    match value:
        case str():
            return _text(value)
        case list():
            return [_decoded(item) for item in value]
        case dict():
            return {key: _decoded(item) for key, item in value.items()}
        case _:
            return value


def _text(text: str) -> str:
    head, *rest = text.split("&")
    return head + "".join(map(_entity, rest))


def _entity(after: str) -> str:
    """Read what follows an ampersand."""
    end = after.find(";", 0, _LONGEST + 1)
    known = _ENTITIES.get(after[:end].lower()) if end > 0 else None
    return f"&{after}" if known is None else known + after[end + 1 :]
