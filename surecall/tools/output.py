"""Typed final answers: the schema for the model, and the conversion of its text to a value.

    type ─── typed_output ─► schema, and the conversion to the type
    schema ─ AnswerParser ─► text ─► JSON ─► lossless coercion ─► validation

The schema is checked here, so that the check can be repeated from a recording. Checks beyond the
schema, such as pydantic validators, are the application's code.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from surecall.parsing.arguments import ParsedValue, parse_json_value, repair_surrogates
from surecall.parsing.budget import WorkBudget
from surecall.parsing.coercion import Coercer, Coercion, SchemaShapes, coercer
from surecall.tools.schema import hint_schema, inline_references, provided_schema
from surecall.tools.signatures import type_decoder
from surecall.tools.validation import clip_middle, compile_schema
from surecall.values.errors import ConfigError
from surecall.values.types import JSON, AnswerFormat

_MAX_PROBLEMS: Final = 3
_MAX_PROBLEM_CHARS: Final = 400


class TypedOutput(msgspec.Struct, frozen=True):
    """The answer format of a type, and the conversion of validated JSON to the type."""

    answer_format: AnswerFormat
    parse: Callable[[Any], Any]


def typed_output(kind: Any, *, binds: bool = False) -> TypedOutput:
    """Describe an output type: a class, a type hint, a JSON Schema, or a schema provider.

    `binds` says that the endpoint enforces object schemas.
    """
    schema, read = _schema_and_decoder(kind)
    compile_schema(schema)  # raises ConfigError if it is invalid
    return TypedOutput(AnswerFormat(schema, binds and schema.get("type") == "object"), read)


def _schema_and_decoder(kind: Any) -> tuple[JSON, Callable[[Any], Any]]:
    """Return the JSON Schema of an output type, and the conversion to the type."""
    if isinstance(kind, Mapping):
        return inline_references(_unwrap_schema(dict(kind))), _identity
    if not isinstance(kind, type) and _is_instance(kind):
        raise ConfigError(f"the output is an instance of {type(kind).__name__}: pass the class")
    if (provided := provided_schema(kind)) is not None:
        reads_itself = hasattr(kind, "model_validate")
        return inline_references(provided), type_decoder(kind) if reads_itself else _identity
    return inline_references(
        hint_schema(kind, f"the output {clip_middle(repr(kind))}")
    ), type_decoder(kind)


def _unwrap_schema(mapping: JSON) -> JSON:
    """Return the schema inside a `response_format` value, in either form."""
    match mapping:
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case {"name": str(), "schema": dict(schema)}:
            return schema
        case _:
            return mapping


def _is_instance(kind: Any) -> bool:
    """Whether an instance is given instead of its class."""
    return (
        is_dataclass(kind)
        or isinstance(kind, msgspec.Struct)
        or hasattr(type(kind), "model_validate")
    )


def _identity(value: Any) -> Any:
    return value


class AnswerParser:
    """Parses answers that must match one schema."""

    def __init__(self, schema: JSON) -> None:
        self._validate = compile_schema(schema)
        self._coerce: Coercer = coercer(schema)
        shape = SchemaShapes(schema).shape_for([schema])
        self._expects_string = shape is not None and shape.kinds == {"string"}

    @property
    def weight(self) -> int:
        """The work of validating each part of an answer."""
        return self._validate.weight

    def parse(self, text: str, *, coerce: bool) -> ParsedValue:
        """Parse a text; return the value or the problem."""
        budget = WorkBudget()
        found = self._coerce_and_check(parse_json_value(text), budget, coerce=coerce)
        if not found.problem or not self._expects_string or text.lstrip()[:1] in {"{", '"'}:
            return found
        # A string may lack its quotation marks where the schema only allows strings.
        repairs: dict[str, None] = {}
        bare = repair_surrogates(text, repairs)
        result = self._check(bare, tuple(repairs), budget)
        return self._check(bare.strip(), tuple(repairs), budget) if result.problem else result

    def _coerce_and_check(
        self, parsed: ParsedValue, budget: WorkBudget, *, coerce: bool
    ) -> ParsedValue:
        """Coerce and validate a parsed value."""
        if parsed.problem:
            return parsed
        fitted = self._coerce(parsed.value, budget) if coerce else Coercion(parsed.value)
        return self._check(fitted.value, (*parsed.repairs, *fitted.steps), budget)

    def _check(self, value: Any, repairs: tuple[str, ...], budget: WorkBudget) -> ParsedValue:
        """Return the value if it fits the schema, or the problem."""
        if problems := self._validate(value, budget):
            return ParsedValue(
                problem=clip_middle("; ".join(problems[:_MAX_PROBLEMS]), _MAX_PROBLEM_CHARS)
            )
        return ParsedValue(value, repairs=repairs)


def answer_parser(schema: JSON) -> AnswerParser:
    """Return the parser of a schema; parsers are cached."""
    return _cached_parser(msgspec.json.encode(schema))


@lru_cache(maxsize=64)
def _cached_parser(schema: bytes) -> AnswerParser:
    return AnswerParser(msgspec.json.decode(schema))
