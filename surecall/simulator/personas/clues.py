"""Parse what a scripted model needs from a conversation: argument values and instructions.

Arguments are built from a JSON Schema and the user's text. Values come from the text if possible:
first `name=value`, then quoted text, numbers, and names. Otherwise they are the simplest values
that the schema allows.

These system instructions are recognized:

    "Leave out X", "omit X", "never pass X"     omit these parameters
    "a text of at least N characters"           send a value of that length first
    "at once"                                   make several calls in the first reply, if allowed
    "fails on purpose, … path is /P"            send a patch to that path, which is rejected
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from surecall.values.types import JSON, object_or_empty
from surecall.wire.content_parts import text_of

_EDGES = ".,;:!?()[]{}<>\"'`"
_QUOTES = "\"'`"
_MAX_DEPTH = 8
_MAX_TEXT_CHARS = 200
_OMIT_PHRASES = ("leave out", "omit", "never pass", "do not pass")
_ON_PURPOSE = "on purpose"
_AT_ONCE = "at once"
_MAX_LENGTH = 100_000
_BOOLEAN_WORDS = {"true": True, "yes": True, "false": False, "no": False}


class Clues:
    """Argument values in a text. Unnamed values are consumed when taken; named ones are not.

    `known` values take precedence over the text; `omitted` parameters have no value.
    """

    def __init__(
        self,
        text: str,
        known: Mapping[str, Any] | None = None,
        hints: str = "",
        omitted: Collection[str] = (),
    ) -> None:
        words = text.split()
        # Error messages contribute only `name=value` pairs.
        pairs = (word.partition("=") for word in [*words, *hints.split()] if "=" in word)
        self._named: dict[str, Any] = {
            key.strip(_EDGES): value.strip(_EDGES) for key, _, value in pairs if value.strip(_EDGES)
        }
        self._named |= known or {}
        self._named = {key: value for key, value in self._named.items() if key not in omitted}
        plain = [word.strip(_EDGES) for word in words if "=" not in word]
        self._words = frozenset(plain)
        self._numbers = [word for word in plain if word.removeprefix("-").isdecimal()]
        self._names = _quoted_texts(text) + [word for word in plain[1:] if word[:1].isupper()]

    def named_value(self, key: str) -> Any:
        """Return the value that the text gives a parameter, or None."""
        return self._named.get(key)

    def take_number(self) -> int | None:
        """Consume and return the next number of the text."""
        return int(self._numbers.pop(0)) if self._numbers else None

    def take_name(self) -> str | None:
        """Consume and return the next quoted text or proper name."""
        return self._names.pop(0) if self._names else None

    def mentions(self, word: Any) -> bool:
        """Return whether the text contains this exact word."""
        return isinstance(word, str) and word in self._words


def _quoted_texts(text: str) -> list[str]:
    found: list[str] = []
    for quote in _QUOTES[::2]:
        parts = text.split(quote)
        found += [part for part in parts[1:-1:2] if part.strip()]
    return found


def arguments_for(schema: Any, clues: Clues) -> JSON:
    """Return arguments that match a tool's parameters."""
    root = object_or_empty(schema)
    return _build_object(root, clues, root, 0)


def value_for(schema: Any, clues: Clues) -> Any:
    """Return a value that matches a schema."""
    root = object_or_empty(schema)
    return _build_value(root, "value", clues, root, 0)


def _build_object(schema: JSON, clues: Clues, root: JSON, depth: int) -> JSON:
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    filled: JSON = {}
    for key, inner in object_or_empty(schema.get("properties")).items():
        if key in wanted or clues.named_value(key) is not None:
            filled[key] = _build_value(inner, key, clues, root, depth + 1)
    return filled


def _build_value(schema: Any, key: str, clues: Clues, root: JSON, depth: int) -> Any:
    """Return a value that matches the schema of a property or item, named `key` in the text."""
    schema = _resolve_schema(schema, root)
    if "const" in schema:
        return schema["const"]
    if isinstance(options := schema.get("enum"), list) and options:
        return _choose_option(options, key, clues)
    match _schema_type(schema):
        case "object" if depth < _MAX_DEPTH:
            return _build_object(schema, clues, root, depth)
        case "array" if depth < _MAX_DEPTH:
            return _build_items(schema, key, clues, root, depth)
        case kind:
            return _build_scalar(schema, kind, key, clues)


def _resolve_schema(schema: Any, root: JSON) -> JSON:
    """Follow local references and alternatives to one plain schema."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict):
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            schema = _reference_target(reference, root)
        elif branches := _schema_branches(schema):
            schema = branches[0]
        else:
            return schema
    return {}


def _reference_target(reference: str, root: JSON) -> Any:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _schema_branches(schema: JSON) -> list[Any]:
    """Return the alternatives or parts of a schema, without null."""
    for key in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(key)
        if isinstance(branches, list):
            return [branch for branch in branches if branch != {"type": "null"}]
    return []


def _schema_type(schema: JSON) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), None)
    return kind if isinstance(kind, str) else "string"


def _choose_option(options: list[Any], key: str, clues: Clues) -> Any:
    named = clues.named_value(key)
    if named in options:
        return named
    return next((option for option in options if clues.mentions(option)), options[0])


def _build_items(schema: JSON, key: str, clues: Clues, root: JSON, depth: int) -> list[Any]:
    named = clues.named_value(key)
    if isinstance(named, list):
        return named
    if isinstance(named, str):
        return [
            _build_scalar({}, _schema_type(_resolve_schema(schema.get("items"), root)), key, clues)
        ]
    least = schema.get("minItems", 0)
    # An empty list rarely makes sense, even if the schema allows it.
    count = max(1, least) if isinstance(least, int) else 1
    return [_build_value(schema.get("items"), key, clues, root, depth + 1) for _ in range(count)]


def _build_scalar(schema: JSON, kind: str, key: str, clues: Clues) -> Any:
    named = clues.named_value(key)
    match kind:
        case "integer" | "number":
            return _build_number(schema, kind, named, clues)
        case "boolean":
            return _BOOLEAN_WORDS.get(str(named).lower(), True)
        case "null":
            return None
        case _:
            return _build_string(schema, named, key, clues)


def _build_number(schema: JSON, kind: str, named_value: Any, clues: Clues) -> float:
    try:
        found: Any = None if named_value is None else float(named_value)
    except (TypeError, ValueError):
        found = None
    if found is None:
        found = clues.take_number()
    if found is None:
        lower = schema.get("minimum", 1)
        found = lower if isinstance(lower, int | float) else 1
    return int(found) if kind == "integer" or found == int(found) else found


def _build_string(schema: JSON, named_value: Any, key: str, clues: Clues) -> str:
    found = str(named_value) if named_value is not None else clues.take_name() or key
    longest = schema.get("maxLength", _MAX_TEXT_CHARS)
    shortest = schema.get("minLength", 0)
    found = found[: longest if isinstance(longest, int) else _MAX_TEXT_CHARS]
    return found.ljust(shortest if isinstance(shortest, int) else 0, "x")


class SystemInstructions(msgspec.Struct, frozen=True):
    """Parsed system instructions. `is_given` is false if there were none."""

    is_given: bool = False
    omitted: frozenset[str] = frozenset()
    min_length: int = 0
    at_once: bool = False
    wrong_path: str = ""


def parse_instructions(messages: Sequence[JSON]) -> SystemInstructions:
    """Parse the system instructions of a conversation."""
    texts = [text_of(item.get("content")) for item in messages if item.get("role") == "system"]
    lines = [line for text in texts for line in text.splitlines()]
    sentences = [part for line in lines for part in line.split(". ") if part.strip()]
    omitting = [one for one in sentences if any(words in one.lower() for words in _OMIT_PHRASES)]
    failing = [word for one in sentences if _ON_PURPOSE in one for word in bare_words(one)]
    return SystemInstructions(
        is_given=bool(sentences),
        omitted=frozenset(word for one in omitting for word in bare_words(one)),
        min_length=max(map(_required_length, sentences), default=0),
        at_once=any(_AT_ONCE in sentence.lower() for sentence in sentences),
        wrong_path=next((word for word in failing if word.startswith("/")), ""),
    )


def bare_words(sentence: str) -> list[str]:
    """Return the words of a sentence without surrounding punctuation."""
    return [word.strip(_EDGES) for word in sentence.split()]


def _required_length(sentence: str) -> int:
    """Return N if the sentence says `at least N characters`, otherwise zero."""
    words = bare_words(sentence)
    for at, word in enumerate(words[2:-1], start=2):
        around: list[Any] = [*words[at - 2 : at], words[at + 1]]
        if word.isdecimal() and around == ["at", "least", "characters"]:
            return min(int(word), _MAX_LENGTH)
    return 0
