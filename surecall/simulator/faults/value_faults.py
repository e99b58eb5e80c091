"""Faults of argument values: valid JSON that does not match the tool's schema."""

import html
from collections.abc import Callable
from typing import Any

from surecall.simulator.faults.shape_fault import (
    Sample,
    decode_arguments,
    encode_json,
    on_function,
    on_values,
    shape_fault,
    with_arguments,
)
from surecall.values.types import JSON, object_or_empty


def _change_values(values: JSON, change: Any) -> JSON:
    """Change each value; return the same object (`is`) if none changed."""
    changed = {key: change(value) for key, value in values.items()}
    return values if all(changed[key] is values[key] for key in values) else changed


@shape_fault(on_values, "arguments", "D37", repairs=("number_from_text",))
def numbers_as_text(values: JSON, _sample: Sample) -> JSON:
    """Numbers are strings."""
    return _change_values(
        values, lambda value: encode_json(value) if type(value) in {int, float} else value
    )


@shape_fault(on_values, "arguments", "D27", "D37", repairs=("boolean_from_text",))
def booleans_as_text(values: JSON, sample: Sample) -> JSON:
    """Booleans are strings."""
    words = sample.pick([{True: "true", False: "false"}, {True: "True", False: "False"}])
    return _change_values(values, lambda value: words[value] if isinstance(value, bool) else value)


@shape_fault(on_values, "arguments", "D37", repairs=("integer_from_float",))
def integers_as_floats(values: JSON, _sample: Sample) -> JSON:
    """Integers are written as floats, such as 3.0."""
    return _change_values(
        values,
        lambda value: float(value) if type(value) is int and abs(value) < 2**53 else value,
    )


@shape_fault(on_values, "arguments", "D21", "D22", "D37", repairs=("container_from_text",))
def containers_as_text(values: JSON, _sample: Sample) -> JSON:
    """Lists and objects are JSON strings."""
    return _change_values(
        values, lambda value: encode_json(value) if isinstance(value, dict | list) else value
    )


@shape_fault(on_function, "arguments", "google-workspace-mcp-918", repairs=("keys_renamed",))
def keys_in_camel_case(function: JSON, sample: Sample) -> JSON:
    """The keys are in camel case: `calendarId` or `CalendarId` for `calendar_id`."""
    return _rename_required_keys(function, sample, _camel_case)


@shape_fault(on_function, "arguments", "vllm-54971", repairs=("keys_renamed",))
def keys_with_tags(function: JSON, sample: Sample) -> JSON:
    """The keys end with a chat template marker."""
    tag = sample.pick(["</arg_key>", "</parameter>", "<|im_end|>"])
    return _rename_required_keys(function, sample, lambda key: key + tag)


def _camel_case(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(map(str.title, others)) if others else first.title()


def _rename_required_keys(function: JSON, sample: Sample, rename: Callable[[str], str]) -> JSON:
    """Rename the keys if one of them is required, so that the schema rejects the arguments."""
    values = decode_arguments(function.get("arguments"))
    schema = sample.for_tool(function.get("name")).schema
    needed = set(schema.get("required", ()))
    if not isinstance(values, dict) or not any(
        rename(key) != key for key in needed & values.keys()
    ):
        return function
    declared = schema.get("properties", {})
    renamed = {rename(key) if key in declared else key: item for key, item in values.items()}
    return with_arguments(function, renamed)


@shape_fault(on_values, "arguments", "D32", repairs=("unwrapped",))
def arguments_wrapped(values: JSON, sample: Sample) -> JSON:
    """The arguments are wrapped in a generic key, as an object or a JSON string."""
    key = sample.pick(["arguments", "parameters", "input"])
    return _wrap_values(values, key, sample, text=sample.seed % 2 == 0)


@shape_fault(on_values, "arguments", "D33", repairs=("unwrapped",))
def arguments_under_properties(values: JSON, sample: Sample) -> JSON:
    """The arguments are wrapped in `properties`, as in the schema."""
    return _wrap_values(values, "properties", sample, text=False)


def _wrap_values(values: JSON, key: str, sample: Sample, *, text: bool) -> JSON:
    """Put all values under one key, unless the schema accepts that; with `text`, as a string."""
    # A tool that accepts any key accepts this one too, so it would not be a fault.
    schema = sample.schema
    open_ended = schema.get("additionalProperties") is not False and not schema.get("required")
    if not values or key in _properties(schema) or (schema and open_ended):
        return values
    return {key: encode_json(values) if text else values}


@shape_fault(on_function, "arguments", "ollama-11805", repairs=("call_in_arguments",))
def arguments_of_a_call(function: JSON, sample: Sample) -> JSON:
    """The arguments are the whole call."""
    name = function.get("name")
    schema, values = sample.for_tool(name).schema, decode_arguments(function.get("arguments"))
    if values is None or schema.get("additionalProperties") is not False:
        return function
    call = sample.pick([{"name": name, "arguments": values}, {"tool": name, "input": values}])
    if call.keys() <= _properties(schema).keys():
        return function
    return with_arguments(function, call)


@shape_fault(on_values, "arguments", "D34", repairs=("null_optional_dropped",))
def optionals_null(values: JSON, sample: Sample) -> JSON:
    """Omitted optional properties are null, which the schema rejects."""
    absent = {
        name: None for name, schema in _absent_optionals(values, sample) if schema["type"] != "null"
    }
    return values | absent if absent else values


@shape_fault(on_values, "arguments", "D35", repairs=("empty_optional_dropped",))
def optionals_empty(values: JSON, sample: Sample) -> JSON:
    """Each optional property without a value is an empty string, which the schema rejects."""
    absent = {
        name: ""
        for name, schema in _absent_optionals(values, sample)
        if schema["type"] != "string" or "" not in _list_or_default(schema, "enum", [""])
    }
    return values | absent if absent else values


_NULL_WORD_SOURCES = ("drama-llama-115", "sglang-36835", "vllm-47643")


@shape_fault(on_values, "arguments", *_NULL_WORD_SOURCES, repairs=("null_from_word",))
def optionals_null_words(values: JSON, sample: Sample) -> JSON:
    """Omitted optional properties are strings such as "null", which the schema rejects."""
    word = sample.pick(["None", "null", "nil"])
    absent = {
        name: word
        for name, schema in _absent_optionals(values, sample)
        if schema["type"] != "string" or "enum" in schema
    }
    return values | absent if absent else values


def _absent_optionals(values: JSON, sample: Sample) -> list[tuple[str, JSON]]:
    """Return the omitted optional properties that have a single type."""
    required = _list_or_default(sample.schema, "required", [])
    return [
        (name, schema)
        for name, schema in _properties(sample.schema).items()
        if name not in values
        and name not in required
        and isinstance(schema, dict)
        and isinstance(schema.get("type"), str)
    ]


def _properties(schema: JSON) -> JSON:
    # The schema comes from the request and may be malformed.
    return object_or_empty(schema.get("properties"))


def _list_or_default(schema: JSON, key: str, default: list[str]) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else default


@shape_fault(on_values, "arguments", "mxcp-217", "smg-1743", repairs=("text_from_number",))
def texts_as_numbers(values: JSON, sample: Sample) -> JSON:
    """Strings of digits are integers."""
    plain = {
        name: int(value)
        for name, value in values.items()
        if _is_string_schema(_properties(sample.schema).get(name)) and _is_integer(value)
    }
    return values | plain if plain else values


def _is_string_schema(schema: object) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string"


def _is_integer(value: object) -> bool:
    """Return whether a string is an integer in canonical form."""
    digits = value.removeprefix("-") if isinstance(value, str) else ""
    canonical = digits == "0" or digits[:1] in set("123456789")
    return canonical and digits.isascii() and digits.isdigit() and value != "-0"


@shape_fault(on_values, "arguments", "deepagents-2954", repairs=("entities_decoded",))
def choices_escaped(values: JSON, sample: Sample) -> JSON:
    """Enum values are HTML-escaped."""
    return _change_enum_values(values, sample, html.escape)


@shape_fault(on_values, "arguments", "litert-2172", repairs=("text_bared",))
def choices_quoted(values: JSON, sample: Sample) -> JSON:
    """Enum values are in quotation marks or template tokens."""
    form = sample.pick(['<|"|>{}<|"|>', "“{}”", '"{}"', "{}<|im_end|>"])
    return _change_enum_values(values, sample, form.format)


def _change_enum_values(values: JSON, sample: Sample, change: Callable[[str], str]) -> JSON:
    """Change each enum value if the result is not in the enum."""
    changed = {
        name: change(value)
        for name, value in values.items()
        if isinstance(value, str)
        and change(value) not in _enum_values(sample, name, [change(value)])
    }
    return values | changed if changed else values


def _enum_values(sample: Sample, name: str, default: list[str]) -> list[Any]:
    schema = _properties(sample.schema).get(name)
    return _list_or_default(schema, "enum", default) if isinstance(schema, dict) else default


@shape_fault(
    on_values,
    "arguments",
    "D36",
    outcome="opt_in:stringify_containers",
    repairs=("text_from_container",),
)
def texts_as_containers(values: JSON, _sample: Sample) -> JSON:
    """A string argument that holds JSON arrives as an object."""
    return _change_values(values, _decode_canonical)


def _decode_canonical(value: object) -> object:
    """Decode text that re-encoding would restore exactly; return any other value unchanged."""
    inner = decode_arguments(value) if isinstance(value, str) else None
    # Only text in canonical form can be restored exactly.
    return value if inner is None or encode_json(inner) != value else inner


@shape_fault(
    on_values,
    "arguments",
    "D38",
    "D39",
    outcome="opt_in:decode_html_entities",
    repairs=("html_entities",),
)
def html_entities(values: JSON, sample: Sample) -> JSON:
    """Strings are HTML-escaped."""
    # The schema rejects an escaped enum value: that is the fault `choices_escaped`.
    free = {name: value for name, value in values.items() if not _enum_values(sample, name, [])}
    escaped = _change_values(free, _escape_html)
    return values if escaped is free else values | escaped


def _escape_html(value: Any) -> Any:
    if isinstance(value, list):
        inner = [_escape_html(item) for item in value]
        return value if inner == value else inner
    escaped = html.escape(value) if isinstance(value, str) else value
    return value if escaped == value else escaped
