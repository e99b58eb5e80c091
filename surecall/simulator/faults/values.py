"""Faults of argument values: valid JSON that does not fit the tool's schema."""

import html
from typing import Any

from surecall.simulator.faults.shape_fault import Sample, decoded, on_values, shape_fault, written
from surecall.values.types import JSON


def _each(values: JSON, change: Any) -> JSON:
    """Change each value; the same object (`is`) if none was changed."""
    changed = {key: change(value) for key, value in values.items()}
    return values if all(changed[key] is values[key] for key in values) else changed


@shape_fault("arguments", "D37", cures=("number_from_text",))
@on_values
def numbers_as_text(values: JSON, _sample: Sample) -> JSON:
    """Numbers in quotes where the schema declares a number."""
    return _each(values, lambda value: written(value) if _is_number(value) else value)


@shape_fault("arguments", "D27", "D37", cures=("boolean_from_text",))
@on_values
def booleans_as_text(values: JSON, sample: Sample) -> JSON:
    """True and false in quotes where the schema declares a boolean."""
    words = sample.pick([{True: "true", False: "false"}, {True: "True", False: "False"}])
    return _each(values, lambda value: words[value] if isinstance(value, bool) else value)


@shape_fault("arguments", "D37", cures=("integer_from_float",))
@on_values
def integers_as_floats(values: JSON, _sample: Sample) -> JSON:
    """3.0 where the schema declares an integer."""
    return _each(
        values,
        lambda value: float(value) if type(value) is int and abs(value) < 2**53 else value,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@shape_fault("arguments", "D21", "D22", "D37", cures=("container_from_text",))
@on_values
def containers_as_text(values: JSON, _sample: Sample) -> JSON:
    """Lists and objects as JSON text where the schema declares them."""
    return _each(values, lambda value: written(value) if isinstance(value, dict | list) else value)


@shape_fault("arguments", "D32", cures=("unwrapped",))
@on_values
def arguments_wrapped(values: JSON, sample: Sample) -> JSON:
    """The arguments under a key that only says what they are, as an object or as JSON text."""
    key = sample.pick(["arguments", "parameters", "input"])
    return _wrapped(values, key, sample, text=sample.seed % 2 == 0)


@shape_fault("arguments", "D33", cures=("unwrapped",))
@on_values
def arguments_under_properties(values: JSON, sample: Sample) -> JSON:
    """The arguments under `properties`, as in the schema."""
    return _wrapped(values, "properties", sample, text=False)


def _wrapped(values: JSON, key: str, sample: Sample, *, text: bool) -> JSON:
    # A tool that takes any key may mean this one; then it would be no fault.
    schema = sample.schema
    open_ended = schema.get("additionalProperties") is not False and not schema.get("required")
    if not values or key in _properties(schema) or (schema and open_ended):
        return values
    return {key: written(values) if text else values}


@shape_fault("arguments", "D34", cures=("null_optional_dropped",))
@on_values
def optionals_null(values: JSON, sample: Sample) -> JSON:
    """Null for optional properties that may be left out, but not be null."""
    absent = {name: None for name, schema in _optional(values, sample) if schema["type"] != "null"}
    return values | absent if absent else values


@shape_fault("arguments", "D35", cures=("empty_optional_dropped",))
@on_values
def optionals_empty(values: JSON, sample: Sample) -> JSON:
    """Empty text for optional properties whose schema refuses it."""
    absent = {
        name: ""
        for name, schema in _optional(values, sample)
        if schema["type"] != "string" or "" not in _listed(schema, "enum", [""])
    }
    return values | absent if absent else values


def _optional(values: JSON, sample: Sample) -> list[tuple[str, JSON]]:
    """List the properties of one plain type that may be left out, and are."""
    required = _listed(sample.schema, "required", [])
    return [
        (name, schema)
        for name, schema in _properties(sample.schema).items()
        if name not in values
        and name not in required
        and isinstance(schema, dict)
        and isinstance(schema.get("type"), str)
    ]


def _properties(schema: JSON) -> JSON:
    # The schema comes with a request, and may be anything.
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _listed(schema: JSON, key: str, default: list[str]) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else default


@shape_fault(
    "arguments", "D36", outcome="opt_in:stringify_containers", cures=("text_from_container",)
)
@on_values
def texts_as_containers(values: JSON, _sample: Sample) -> JSON:
    """An object where the schema declares its JSON text."""
    return _each(values, _unpacked)


def _unpacked(value: object) -> object:
    inner = decoded(value) if isinstance(value, str) else None
    # Only a text that is written in the one canonical way can be restored to the letter.
    return value if inner is None or written(inner) != value else inner


@shape_fault(
    "arguments", "D38", "D39", outcome="opt_in:decode_html_entities", cures=("html_entities",)
)
@on_values
def html_entities(values: JSON, _sample: Sample) -> JSON:
    """Texts with `&`, `<`, `>` and quotes escaped as in HTML."""
    return _each(values, _escaped)


def _escaped(value: Any) -> Any:
    if isinstance(value, list):
        inner = [_escaped(item) for item in value]
        return value if inner == value else inner
    escaped = html.escape(value) if isinstance(value, str) else value
    return value if escaped == value else escaped
