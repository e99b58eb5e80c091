"""What a scripted model reads in a conversation: clues for arguments, and orders.

Arguments are made from a JSON Schema and from what the user wrote. A value is taken from the text
where it can be: `name=value` first, then quoted words, numbers and names. What the text does not
tell gets the simplest value that the schema allows.

Orders are what the application's instructions ask for:

    "Leave out X", "omit X", "never pass X"     parameters that must not be given
    "a text of at least N characters"           a value of that length comes first
    "at once"                                   several calls in the first reply, where allowed
    "fails on purpose, … path is /P"            that patch goes to a path that is refused
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from surecall.values.types import JSON
from surecall.wire.content_parts import text_of

_EDGES = ".,;:!?()[]{}<>\"'`"
_QUOTES = "\"'`"
_MAX_DEPTH = 8
_SHORT = 200
_OMITTING = ("leave out", "omit", "never pass", "do not pass")
_PURPOSE = "on purpose"
_AT_ONCE = "at once"
_MOST = 100_000
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


class Clues:
    """What a text offers for arguments. Loose values are used up; named ones are not.

    `known` values go before those of the text; `omitted` ones are not told at all.
    """

    def __init__(
        self,
        text: str,
        known: Mapping[str, Any] | None = None,
        hints: str = "",
        omitted: Collection[str] = (),
    ) -> None:
        words = text.split()
        # An error may tell how to do it better, but only by `name=value`: the rest is prose.
        pairs = (word.partition("=") for word in [*words, *hints.split()] if "=" in word)
        self._named: dict[str, Any] = {
            key.strip(_EDGES): value.strip(_EDGES) for key, _, value in pairs if value.strip(_EDGES)
        }
        self._named |= known or {}
        self._named = {key: value for key, value in self._named.items() if key not in omitted}
        plain = [word.strip(_EDGES) for word in words if "=" not in word]
        self._words = frozenset(plain)
        self._numbers = [word for word in plain if word.removeprefix("-").isdecimal()]
        self._names = _quoted(text) + [word for word in plain[1:] if word[:1].isupper()]

    def named(self, key: str) -> Any:
        """Return what the text says about a parameter, None when it says nothing."""
        return self._named.get(key)

    def number(self) -> int | None:
        """Take the next number of the text."""
        return int(self._numbers.pop(0)) if self._numbers else None

    def name(self) -> str | None:
        """Take the next quoted text or proper name."""
        return self._names.pop(0) if self._names else None

    def mentions(self, word: Any) -> bool:
        """Whether the text contains this exact word."""
        return isinstance(word, str) and word in self._words


def _quoted(text: str) -> list[str]:
    found: list[str] = []
    for quote in _QUOTES[::2]:
        parts = text.split(quote)
        found += [part for part in parts[1:-1:2] if part.strip()]
    return found


def arguments_for(schema: Any, clues: Clues) -> JSON:
    """Return an object that fits a tool's parameters."""
    root = schema if isinstance(schema, dict) else {}
    return _object(root, clues, root, 0)


def value_for(schema: Any, clues: Clues) -> Any:
    """Return a value that fits a schema of any kind."""
    root = schema if isinstance(schema, dict) else {}
    return _value(root, "value", clues, root, 0)


def _object(schema: JSON, clues: Clues, root: JSON, depth: int) -> JSON:
    properties = schema.get("properties")
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    filled: JSON = {}
    for key, inner in (properties if isinstance(properties, dict) else {}).items():
        if key in wanted or clues.named(key) is not None:
            filled[key] = _value(inner, key, clues, root, depth + 1)
    return filled


def _value(schema: Any, key: str, clues: Clues, root: JSON, depth: int) -> Any:
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if isinstance(options := schema.get("enum"), list) and options:
        return _among(options, key, clues)
    match _kind(schema):
        case "object" if depth < _MAX_DEPTH:
            return _object(schema, clues, root, depth)
        case "array" if depth < _MAX_DEPTH:
            return _items(schema, key, clues, root, depth)
        case kind:
            return _scalar(schema, kind, key, clues)


def _resolved(schema: Any, root: JSON) -> JSON:
    """Follow local references and alternatives to one plain schema."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict):
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            schema = _target(reference, root)
        elif branches := _branches(schema):
            schema = branches[0]
        else:
            return schema
    return {}


def _target(reference: str, root: JSON) -> Any:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _branches(schema: JSON) -> list[Any]:
    for key in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(key)
        if isinstance(branches, list):
            return [branch for branch in branches if branch != {"type": "null"}]
    return []


def _kind(schema: JSON) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), None)
    return kind if isinstance(kind, str) else "string"


def _among(options: list[Any], key: str, clues: Clues) -> Any:
    named = clues.named(key)
    if named in options:
        return named
    return next((option for option in options if clues.mentions(option)), options[0])


def _items(schema: JSON, key: str, clues: Clues, root: JSON, depth: int) -> list[Any]:
    named = clues.named(key)
    if isinstance(named, list):
        return named
    if isinstance(named, str):
        return [_scalar({}, _kind(_resolved(schema.get("items"), root)), key, clues)]
    least = schema.get("minItems", 0)
    # A required list is rarely meant to stay empty.
    count = max(1, least) if isinstance(least, int) else 1
    return [_value(schema.get("items"), key, clues, root, depth + 1) for _ in range(count)]


def _scalar(schema: JSON, kind: str, key: str, clues: Clues) -> Any:
    named = clues.named(key)
    match kind:
        case "integer" | "number":
            return _number(schema, kind, named, clues)
        case "boolean":
            return _TRUTHS.get(str(named).lower(), True)
        case "null":
            return None
        case _:
            return _string(schema, named, key, clues)


def _number(schema: JSON, kind: str, named: Any, clues: Clues) -> float:
    try:
        found: Any = None if named is None else float(named)
    except (TypeError, ValueError):
        found = None
    if found is None:
        found = clues.number()
    if found is None:
        lower = schema.get("minimum", 1)
        found = lower if isinstance(lower, int | float) else 1
    return int(found) if kind == "integer" or found == int(found) else found


def _string(schema: JSON, named: Any, key: str, clues: Clues) -> str:
    found = str(named) if named is not None else clues.name() or key
    longest = schema.get("maxLength", _SHORT)
    shortest = schema.get("minLength", 0)
    found = found[: longest if isinstance(longest, int) else _SHORT]
    return found.ljust(shortest if isinstance(shortest, int) else 0, "x")


class Orders(msgspec.Struct, frozen=True):
    """The instructions, read. `given` says whether there were any."""

    given: bool = False
    omitted: frozenset[str] = frozenset()
    length: int = 0
    at_once: bool = False
    wrong_path: str = ""


def orders_of(messages: Sequence[JSON]) -> Orders:
    """Read the instructions of a conversation."""
    texts = [text_of(item.get("content")) for item in messages if item.get("role") == "system"]
    sentences = [sentence for text in texts for sentence in _sentences(text)]
    return Orders(
        given=bool(sentences),
        omitted=frozenset(word for one in sentences for word in _left_out(one)),
        length=max(map(_length, sentences), default=0),
        at_once=any(_AT_ONCE in sentence.lower() for sentence in sentences),
        wrong_path=next((path for one in sentences for path in _wrong_paths(one)), ""),
    )


def _sentences(text: str) -> list[str]:
    return [part for line in text.splitlines() for part in line.split(". ") if part.strip()]


def bare(sentence: str) -> list[str]:
    """Return the words of a sentence without the marks around them."""
    return [word.strip(_EDGES) for word in sentence.split()]


def _left_out(sentence: str) -> Iterator[str]:
    lowered = sentence.lower()
    if any(phrase in lowered for phrase in _OMITTING):
        yield from bare(sentence)


def _length(sentence: str) -> int:
    """Read `at least N characters`; zero when the sentence does not say so."""
    words = bare(sentence)
    for at, word in enumerate(words[2:-1], start=2):
        asked: list[Any] = [*words[at - 2 : at], words[at + 1]]
        if word.isdecimal() and asked == ["at", "least", "characters"]:
            return min(int(word), _MOST)
    return 0


def _wrong_paths(sentence: str) -> Iterator[str]:
    if _PURPOSE in sentence:
        yield from (word for word in bare(sentence) if word.startswith("/"))
