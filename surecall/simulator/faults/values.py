"""Faults of argument values: valid JSON that does not fit the tool's schema."""

import html
from collections.abc import Callable
from typing import Any

from surecall.simulator.faults.shape_fault import (
    Sample,
    decoded,
    on_function,
    on_values,
    shape_fault,
    written,
)
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


@shape_fault("arguments", "google-workspace-mcp-918", cures=("keys_renamed",))
@on_function
def keys_in_camel_case(function: JSON, sample: Sample) -> JSON:
    """`calendarId` or `CalendarId` for `calendar_id`."""
    return _under_other_keys(function, sample, _camel)


@shape_fault("arguments", "vllm-54971", cures=("keys_renamed",))
@on_function
def keys_with_tags(function: JSON, sample: Sample) -> JSON:
    """A mark of the chat template that a parser left in the keys."""
    tag = sample.pick(["</arg_key>", "</parameter>", "<|im_end|>"])
    return _under_other_keys(function, sample, lambda key: key + tag)


def _camel(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(map(str.title, others)) if others else first.title()


def _under_other_keys(function: JSON, sample: Sample, rename: Callable[[str], str]) -> JSON:
    """Rename keys that the schema demands: under other names it refuses the arguments."""
    values = decoded(function.get("arguments"))
    schema = sample.about(function.get("name")).schema
    needed = set(schema.get("required", ()))
    if not isinstance(values, dict) or not any(
        rename(key) != key for key in needed & values.keys()
    ):
        return function
    declared = schema.get("properties", {})
    renamed = {rename(key) if key in declared else key: item for key, item in values.items()}
    is_text = isinstance(function["arguments"], str)
    return function | {"arguments": written(renamed) if is_text else renamed}


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


@shape_fault("arguments", "ollama-11805", cures=("call_in_arguments",))
@on_function
def arguments_of_a_call(function: JSON, sample: Sample) -> JSON:
    """The whole call once more, in the place of its arguments."""
    name, text = function.get("name"), function.get("arguments")
    schema, values = sample.about(name).schema, decoded(text)
    if values is None or schema.get("additionalProperties") is not False:
        return function
    call = sample.pick([{"name": name, "arguments": values}, {"tool": name, "input": values}])
    if call.keys() <= _properties(schema).keys():
        return function
    return function | {"arguments": written(call) if isinstance(text, str) else call}


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


_ABSENT = ("drama-llama-115", "sglang-36835", "vllm-47643")


@shape_fault("arguments", *_ABSENT, cures=("null_from_word",))
@on_values
def optionals_null_words(values: JSON, sample: Sample) -> JSON:
    """The word for null, as text, for optional properties whose schema refuses that text."""
    word = sample.pick(["None", "null", "nil"])
    absent = {
        name: word
        for name, schema in _optional(values, sample)
        if schema["type"] != "string" or "enum" in schema
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


@shape_fault("arguments", "mxcp-217", "smg-1743", cures=("text_from_number",))
@on_values
def texts_as_numbers(values: JSON, sample: Sample) -> JSON:
    """A whole number where the schema declares a text."""
    plain = {
        name: int(value)
        for name, value in values.items()
        if _is_plain_text(_properties(sample.schema).get(name)) and _is_integer(value)
    }
    return values | plain if plain else values


def _is_plain_text(schema: object) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string"


def _is_integer(value: object) -> bool:
    """Whether a text is an integer in its only spelling."""
    digits = value.removeprefix("-") if isinstance(value, str) else ""
    canonical = digits == "0" or digits[:1] in set("123456789")
    return canonical and digits.isascii() and digits.isdigit() and value != "-0"


@shape_fault("arguments", "deepagents-2954", cures=("entities_decoded",))
@on_values
def choices_escaped(values: JSON, sample: Sample) -> JSON:
    """A value of a closed list, escaped as in HTML."""
    return _choices(values, sample, html.escape)


@shape_fault("arguments", "litert-2172", cures=("text_bared",))
@on_values
def choices_quoted(values: JSON, sample: Sample) -> JSON:
    """A value of a closed list, in quotation marks or quote tokens of the template."""
    form = sample.pick(['<|"|>{}<|"|>', "“{}”", '"{}"', "{}<|im_end|>"])
    return _choices(values, sample, form.format)


def _choices(values: JSON, sample: Sample, change: Callable[[str], str]) -> JSON:
    """Change each value of a closed list of texts, if the result is not in the list."""
    changed = {
        name: change(value)
        for name, value in values.items()
        if isinstance(value, str) and change(value) not in _closed(sample, name, [change(value)])
    }
    return values | changed if changed else values


def _closed(sample: Sample, name: str, default: list[str]) -> list[Any]:
    schema = _properties(sample.schema).get(name)
    return _listed(schema, "enum", default) if isinstance(schema, dict) else default


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
def html_entities(values: JSON, sample: Sample) -> JSON:
    """Texts with `&`, `<`, `>` and quotes escaped as in HTML."""
    # The schema itself disproves an escaped value of a closed list: that is another fault.
    free = {name: value for name, value in values.items() if not _closed(sample, name, [])}
    escaped = _each(free, _escaped)
    return values if escaped is free else values | escaped


def _escaped(value: Any) -> Any:
    if isinstance(value, list):
        inner = [_escaped(item) for item in value]
        return value if inner == value else inner
    escaped = html.escape(value) if isinstance(value, str) else value
    return value if escaped == value else escaped
