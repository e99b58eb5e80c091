"""The readings that are tried when the straight one fails.

For any schema and any arguments that fit it: bent in one of the known ways, or in two of them, a
call has exactly these arguments again, or the model is told. Other arguments never run. And what
is right as it came is never touched.
"""

import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from surecall import ToolDefinition, ToolRegistry, presets
from surecall.core.reply_parsing import resolve_call
from surecall.values.types import JSON, ToolCall
from tests.support.generated import OBJECTS, SCHEMAS, fitting, objects, places

CONFIG = presets.default_tool_calling()
NAME = "some_tool"
# Lists in which a bent value of one entry may be another entry.
LISTS = [
    ["<", "<=", ">", ">=", "&gt;", "&lt;"],
    ["a", "“a”", '"a"', "a ", "b c", "b%20c"],
    ["none", "all", "Null", "7", "07"],
    ["x<|im_end|>", "x", "y</s>", "it's"],
]
CHOICES = st.sampled_from(LISTS).flatmap(
    lambda options: st.lists(st.sampled_from(options), min_size=1, max_size=4, unique=True)
)
CLOSED: st.SearchStrategy[JSON] = CHOICES.map(lambda given: {"type": "string", "enum": given})
PLAIN: st.SearchStrategy[JSON] = CLOSED | st.sampled_from(
    [
        *({"type": name} for name in ("boolean", "integer", "number", "string")),
        {"type": ["integer", "null"]},
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
    ]
)
TOOLS = objects(st.recursive(PLAIN, places, max_leaves=4))
TEXTS = st.sampled_from(["", "x", "7", "-0", "0", "12", "1e3", "1.0", "None", "a & b", "“q”"])


def values_of(schema: JSON) -> st.SearchStrategy[Any]:
    """Return values that fit, with texts that something is tempted to change."""
    return fitting(schema).flatmap(lambda value: st.just(value) | _with_texts(value, schema))


def _with_texts(value: JSON, schema: JSON) -> st.SearchStrategy[JSON]:
    plain = [name for name in value if schema["properties"][name] == {"type": "string"}]
    return st.fixed_dictionaries(dict.fromkeys(plain, TEXTS)).map(lambda new: value | new)


CASES = TOOLS.flatmap(lambda schema: st.tuples(st.just(schema), values_of(schema)))


# The ways to bend: of the text, and of the values


def each_text(change: Callable[[str], Any]) -> Callable[[JSON, JSON], JSON]:
    def bend(value: JSON, _schema: JSON) -> JSON:
        return {key: change(item) if isinstance(item, str) else item for key, item in value.items()}

    return bend


def as_number(text: str) -> Any:
    return int(text) if text.removeprefix("-").isdigit() and str(int(text)) == text else text


def absent_as(word: str) -> Callable[[JSON, JSON], JSON]:
    """Write a word for what is missing. Where null is allowed, the word would mean that."""

    def bend(value: JSON, schema: JSON) -> JSON:
        never_null = [name for name, one in schema["properties"].items() if "null" not in str(one)]
        return value | {name: word for name in never_null if name not in value}

    return bend


def null_as_word(value: JSON, _schema: JSON) -> JSON:
    return {key: "None" if item is None else item for key, item in value.items()}


VALUES: dict[str, Callable[[JSON, JSON], JSON]] = {
    "entities": each_text(html.escape),
    "percents": each_text(lambda text: quote(text, safe="")),
    "smart quotes": each_text(lambda text: f"“{text}”"),
    "quotes": each_text(lambda text: f'"{text}"'),
    "quote tokens": each_text(lambda text: f'<|"|>{text}<|"|>'),
    "end tokens": each_text(lambda text: f"{text}<|im_end|>"),
    "blanks": each_text(lambda text: f" {text}\n"),
    "numbers": each_text(as_number),
    "None": absent_as("None"),
    "null": absent_as("null"),
    "null as None": null_as_word,
    "a call": lambda value, _: {"name": NAME, "arguments": value},
    "a call as text": lambda value, _: {"tool": NAME, "input": json.dumps(value)},
    "a whole call": lambda value, _: {
        "type": "function",
        "function": {"name": NAME, "args": value},
    },
}
SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "end token": lambda text: f"{text}<|im_end|>",
    "closing tag": lambda text: f"{text}\n</tool_call></s>",
    "invisible": lambda text: f"\u200b{text}\ufeff",
    "opener": lambda text: f"[ARGS]{text}",
    "closer": lambda text: f"{text}}}",
    "two closers": lambda text: f"{text}}}]<|call|>",
    "list of one": lambda text: f"[{text}]",
    "list, encoded": lambda text: json.dumps(f"[{text}]"),
    "empty in front": lambda text: "{}" + text,
    "empty behind": lambda text: text + "\n{ }",
    "nothing, as a list": lambda text: "[]" if text == "{}" else text,
    "nothing, as a text": lambda text: '""' if text == "{}" else text,
    "nothing, as a word": lambda text: '"None"' if text == "{}" else text,
}
PAIRS = st.tuples(st.sampled_from(["", *VALUES]), st.sampled_from([*SPELLINGS]))


def judged(schema: JSON, raw: object, **changes: Any) -> ToolCall:
    registry = ToolRegistry([ToolDefinition(NAME, parameters=schema)])
    return resolve_call(NAME, raw, CONFIG.replace(**changes), registry)


def bent(schema: JSON, value: JSON, pair: tuple[str, str]) -> str:
    by_value, by_text = pair
    changed = VALUES[by_value](value, schema) if by_value else value
    return SPELLINGS[by_text](json.dumps(changed))


@settings(max_examples=600)
@given(CASES, PAIRS)
def test_bent_arguments_are_read_exactly_or_not_run(
    case: tuple[JSON, JSON], pair: tuple[str, str]
) -> None:
    schema, value = case
    by_value, _ = pair
    tool = ToolDefinition(NAME, parameters=schema)
    # What fits as it came is not bent, whatever was done to it.
    assume(not by_value or tool.validate(VALUES[by_value](value, schema)))

    call = judged(schema, bent(schema, value, pair))

    if call.problem is None:
        assert json.dumps(call.arguments, sort_keys=True) == json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("by_text", SPELLINGS)
def test_every_spelling_of_a_plain_call_is_read(by_text: str) -> None:
    tool = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    none: JSON = {"type": "object", "properties": {}}

    for schema, value in ((none, {}),) if "nothing" in by_text else ((tool, {"a": 1}),):
        call = judged(schema, bent(schema, value, ("", by_text)))
        assert (call.problem, call.arguments) == (None, value)


@pytest.mark.parametrize("by_value", VALUES)
def test_every_bent_value_of_a_closed_list_is_read(by_value: str) -> None:
    schema: JSON = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "enum": ["it's < 7", "12"]},
            "b": {"type": "integer"},
            "c": {"type": ["integer", "null"]},
        },
        "required": ["a", "c"],
        "additionalProperties": False,
    }
    for text in ["12"] if by_value == "numbers" else ["it's < 7"]:
        value = {"a": text, "c": None}
        call = judged(schema, bent(schema, value, (by_value, "end token")))
        assert (call.problem, call.arguments) == (None, value)
        assert "control_tokens" in call.repairs


@settings(max_examples=300)
@given(SCHEMAS, OBJECTS | st.text(max_size=20) | st.lists(OBJECTS, max_size=2))
def test_what_is_right_as_it_came_is_never_touched_and_what_runs_is_allowed(
    schema: JSON, raw: Any
) -> None:
    try:
        tool = ToolDefinition(NAME, parameters={**schema, "type": "object"})
        tool.validate({})
    except Exception:  # noqa: BLE001  a schema that no tool can have
        return
    registry = ToolRegistry([tool])
    text = raw if isinstance(raw, str) else json.dumps(raw)
    straight = resolve_call(NAME, text, CONFIG.replace(coerce_arguments=False), registry)
    call = resolve_call(NAME, text, CONFIG, registry)

    if call.problem is None:
        assert tool.validate(call.arguments) == ()
    if straight.problem is None:
        assert call.problem is None
        assert call.arguments == straight.arguments
