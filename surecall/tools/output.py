"""The type of a final answer: what the model is told of it, and how its text becomes a value.

    type ─── typed_output ─► schema, and what makes a value of the type
    schema ─ AnswerReader ─► text ─► JSON ─► fitted without loss ─► validated

Everything that the schema says is checked here, so that it can be checked again from a recording.
What only the type knows, such as the validators of a pydantic model, is the application's code.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from surecall.parsing.answers import Value, read_value
from surecall.parsing.arguments import whole
from surecall.parsing.coercion import Coerced, Shapes, coercer
from surecall.tools.schema import inlined, provided_schema, written
from surecall.tools.signatures import reader
from surecall.tools.validation import clipped, compile_schema
from surecall.values.errors import ConfigError
from surecall.values.types import JSON, AnswerForm

_MOST_PROBLEMS: Final = 3
_MOST_CHARS: Final = 400


class TypedOutput(msgspec.Struct, frozen=True):
    """A type as the form of an answer, and what makes a value of it of checked JSON."""

    form: AnswerForm
    read: Callable[[Any], Any]


def typed_output(kind: Any, *, binds: bool = False) -> TypedOutput:
    """Describe a type: a class, a type hint, a JSON Schema, or an object that has a schema.

    `binds` says that the endpoint binds a reply to a schema. What it binds is an object.
    """
    schema, read = _described(kind)
    compile_schema(schema)  # so that a schema that is none is the caller's error
    return TypedOutput(AnswerForm(schema, binds and schema.get("type") == "object"), read)


def _described(kind: Any) -> tuple[JSON, Callable[[Any], Any]]:
    if isinstance(kind, Mapping):
        return inlined(_bare_schema(dict(kind))), _as_it_is
    if not isinstance(kind, type) and _is_value(kind):
        raise ConfigError(f"The output is an object of {type(kind).__name__}: pass the class.")
    if (provided := provided_schema(kind)) is not None:
        reads_itself = hasattr(kind, "model_validate")
        return inlined(provided), reader(kind) if reads_itself else _as_it_is
    return inlined(written(kind, f"The output {clipped(repr(kind))}")), reader(kind)


def _bare_schema(given: JSON) -> JSON:
    """Return the schema inside of what `response_format` takes, in either of its forms."""
    match given:
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case {"name": str(), "schema": dict(schema)}:
            return schema
        case _:
            return given


def _is_value(kind: Any) -> bool:
    """Whether a value is given in place of its class: an answer cannot be made of it."""
    return (
        is_dataclass(kind)
        or isinstance(kind, msgspec.Struct)
        or hasattr(type(kind), "model_validate")
    )


def _as_it_is(value: Any) -> Any:
    return value


class AnswerReader:
    """Reads answers that are to fit one schema."""

    def __init__(self, schema: JSON) -> None:
        self._validate = compile_schema(schema)
        self._coerce: Callable[[Any], Coerced] = coercer(schema)
        shape = Shapes(schema).of([schema])
        self._wants_text = shape is not None and shape.kinds == {"string"}

    def read(self, text: str, *, coerce: bool) -> Value:
        """Read a text into a value that fits, or into the reason why it has none."""
        found = self._fitted(read_value(text), coerce=coerce)
        if not found.problem or not self._wants_text or text.lstrip()[:1] in {"{", '"'}:
            return found
        # Where only a text can be meant, it may come without quotation marks.
        fired: dict[str, None] = {}
        bare = whole(text, fired)
        as_it_is = self._checked(bare, tuple(fired))
        return self._checked(bare.strip(), tuple(fired)) if as_it_is.problem else as_it_is

    def _fitted(self, found: Value, *, coerce: bool) -> Value:
        if found.problem:
            return found
        fitted = self._coerce(found.value) if coerce else Coerced(found.value)
        return self._checked(fitted.value, (*found.repairs, *fitted.steps))

    def _checked(self, value: Any, repairs: tuple[str, ...]) -> Value:
        if problems := self._validate(value):
            return Value(problem=clipped("; ".join(problems[:_MOST_PROBLEMS]), _MOST_CHARS))
        return Value(value, repairs=repairs)


def answer_reader(schema: JSON) -> AnswerReader:
    """Return the reader of a schema; a schema that comes again has the same one."""
    return _known(msgspec.json.encode(schema))


@lru_cache(maxsize=64)
def _known(schema: bytes) -> AnswerReader:
    return AnswerReader(msgspec.json.decode(schema))
