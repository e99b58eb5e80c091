"""A schema compiled: what is wrong with a value, in words for the model and by place.

`Validation` is called with a value and returns a line for each thing that is wrong. `disproofs`
says the same by place: which keywords refuse the value that stands there.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from surecall.parsing.disproved_values import Disproofs, Place
from surecall.values.errors import ConfigError
from surecall.values.types import JSON

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_MAX_MESSAGES = 8
_MAX_MESSAGE_CHARS = 200
_MAX_ALTERNATIVE_CHARS = 80
# The validator builds all its errors first, each with a copy of the offending value: 100 000
# errors take more than a second. A value of this weight is told its first error only.
_LARGE_VALUE = 5_000
_CHARS_PER_NODE = 64
# It also explains why no alternative fits. Where these refer to themselves, each level of the
# value makes that several times as much work.
_MOST_LOOKS: Final = 5_000
_MOST_PER_PART: Final = 8
_MOST_PLACES: Final = 50_000
_NOT_EXPLAINED: Final = "the value does not fit, and is too large or too deep to say where"
_MAPS: Final = frozenset({"patternProperties", "dependentSchemas"})
_ON_THE_VALUE: Final = frozenset(
    {"allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
_ON_PARTS: Final = frozenset(
    {"additionalProperties", "contains", "items", "patternProperties", "prefixItems"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)


class Validation(msgspec.Struct, frozen=True):
    """What a schema says of a value. Neither of the two ever raises."""

    errors_in: "Callable[[JSON], list[ValidationError]]"

    def __call__(self, value: JSON) -> tuple[str, ...]:
        """Return what is wrong with a value, in a line each."""
        try:
            return _messages(self.errors_in(value))
        except _Unexplained:
            return (line([], _NOT_EXPLAINED),)
        except Exception as problem:  # noqa: BLE001  lone surrogates, foreign types, deep nesting
            return (line([], f"the value cannot be checked ({problem})"),)

    def disproofs(self, value: JSON) -> Disproofs:
        """Return which keywords refuse what stands at which place; empty if all is right."""
        try:
            return _refused(self.errors_in(value))
        except Exception:  # noqa: BLE001  what cannot be checked is not right
            return {(): frozenset({"unchecked"})}


def compile_schema(schema: JSON) -> Validation:
    """Compile a schema once into a function from a value to what is wrong with it."""
    # Imported late: loading the extension takes some 20 ms of the budget for `import surecall`.
    import jsonschema_rs  # noqa: PLC0415

    try:
        validator = jsonschema_rs.validator_for(
            dict(schema),
            offline=True,
            # The engine that takes linear time; it refuses look-around and back-references.
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except Exception as problem:
        raise ConfigError(f"Invalid schema: {_schema_problem(problem)}") from problem

    # Other references are inlined before.
    is_recursive = "$ref" in str(schema)

    def errors_in(value: JSON) -> "list[ValidationError]":
        if is_recursive:
            if validator.is_valid(value):
                return []
            _Looks(schema).check(value)
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as first:
            return [first] if _is_large(value) else list(validator.iter_errors(value))
        return []

    return Validation(errors_in)


class _Unexplained(Exception):
    """A value does not fit, and to say why would take too long."""


class _Looks:
    """How often a recursive schema looks at the parts of a value to explain why it does not fit."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._known: dict[tuple[int, int], int] = {}

    def check(self, value: JSON) -> None:
        """Raise if they grow with the depth of the value, and not with its size."""
        looks = self._count(self._root, value)
        if looks > _MOST_LOOKS and looks > _MOST_PER_PART * len(self._known):
            raise _Unexplained

    def _count(self, schema: Any, value: Any) -> int:
        place = (id(schema), id(value))
        if place not in self._known:
            if len(self._known) == _MOST_PLACES:
                raise _Unexplained
            self._known[place] = 1
            looks = sum(self._count(*below) for below in self._below(schema, value))
            self._known[place] = 1 + looks
        return self._known[place]

    def _below(self, schema: Any, value: Any) -> Iterator[tuple[Any, Any]]:
        if not isinstance(schema, dict):
            return
        inside = value if isinstance(value, dict) else dict(enumerate(_items(value)))
        for keyword, below in schema.items():
            schemas = below if isinstance(below, list) else [below]
            if keyword in _MAPS:
                schemas = list(below.values())
            if keyword == "$ref":
                name = str(below).rpartition("/")[2]
                yield self._root.get("$defs", {}).get(name, self._root), value
            elif keyword in _ON_THE_VALUE:
                yield from ((each, value) for each in schemas)
            elif keyword in _ON_PARTS:
                yield from ((each, part) for each in schemas for part in inside.values())
            elif keyword == "properties":
                yield from ((below[name], inside[name]) for name in below if name in inside)


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _refused(errors: "Sequence[ValidationError]") -> dict[Place, frozenset[str]]:
    found: dict[Place, frozenset[str]] = {}
    for error in errors:
        for place, keywords in _refused_by(error).items():
            found[place] = found.get(place, frozenset()) | keywords
    return found


def _refused_by(error: "ValidationError") -> dict[Place, frozenset[str]]:
    """List the places of one error. In a union these are the ones that no alternative allows.

    An alternative of another type is not meant, as null is not by an object.
    """
    here: Place = tuple(error.instance_path)
    branches = getattr(error.kind, "context", ())
    refused = [_refused(branch) for branch in branches]
    meant = [found for found in refused if "type" not in found.get(here, ())] or refused
    shared = set(meant[0]).intersection(*meant) if meant else set()
    if not shared:
        return {here: frozenset({error.kind.name})}
    return {place: frozenset().union(*(found[place] for found in meant)) for place in shared}


def _messages(errors: "list[ValidationError]") -> tuple[str, ...]:
    lines = [line(one.instance_path, _sentence(one)) for one in errors[:_MAX_MESSAGES]]
    rest = len(errors) - len(lines)
    return (*lines, f"and {rest} more") if rest else tuple(lines)


def _sentence(error: "ValidationError") -> str:
    """Say what is wrong; where no alternative fits, say why each does not."""
    branches = getattr(error.kind, "context", ())
    if not branches or not all(branches):
        return error.message
    reasons = [clipped(branch[0].message, _MAX_ALTERNATIVE_CHARS) for branch in branches]
    return ", or ".join(dict.fromkeys(reasons))


def _schema_problem(problem: Exception) -> str:
    path = getattr(problem, "instance_path", [])
    text = getattr(problem, "message", str(problem))
    advice = "; look-around and back-references are refused" if text.endswith('"regex"') else ""
    return line(path, text) + advice


def line(path: Sequence[str | int], text: str) -> str:
    """Say what is wrong at one place."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return clipped(f"{place.removeprefix('.') or '(root)'}: {text}")


def clipped(text: str, limit: int = _MAX_MESSAGE_CHARS) -> str:
    """Cut the middle out of a long text, and make it one line that can be encoded."""
    one = " ".join(text.encode("utf-8", "backslashreplace").decode().splitlines())
    half = (limit - 3) // 2
    return one if len(one) <= limit else f"{one[:half]} … {one[-half:]}"


def _is_large(value: Any) -> bool:
    weight, waiting = 0, [value]
    while waiting and weight <= _LARGE_VALUE:
        item = waiting.pop()
        weight += 1
        if isinstance(item, str):
            weight += len(item) // _CHARS_PER_NODE
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return weight > _LARGE_VALUE
