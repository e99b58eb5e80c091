"""Tests of `surecall.parsing.argument_candidates`."""

from typing import Any

import pytest

from surecall.parsing.argument_candidates import (
    TargetTool,
    encode_containers,
    find_misplaced_content,
    sole_candidate,
    split_call_name,
    unescape_arguments,
    with_declared_keys,
)
from surecall.parsing.coercion import coercer
from surecall.tools.validation import compile_schema
from surecall.values.types import JSON
from tests.support.timing import LINEAR, growth

# Readings of whole arguments: which are taken, and which only raise a doubt


READ: JSON = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
NONE: JSON = {"type": "object", "properties": {}, "additionalProperties": False}
OPTIONAL: JSON = READ | {"required": []}
LISTS: JSON = NONE | {"properties": {"tags": {"type": "array"}}}
A = '{"path":"a"}'


def expected(schema: JSON) -> TargetTool:
    fit, disproofs = coercer(schema), compile_schema(schema).rejections
    return TargetTool("read".__eq__, tuple(schema["properties"]), fit, disproofs)


@pytest.mark.parametrize(
    ("schema", "raw", "value", "steps"),
    [
        (READ, f"{A}<|im_end|>", {"path": "a"}, ("control_tokens",)),
        (READ, f"```json\n{A}</s>\n```", {"path": "a"}, ("code_fence", "control_tokens")),
        (READ, f"{A}}}", {"path": "a"}, ("closers_too_many",)),
        (READ, f"{{{A}{A}"[1:] + "]", {"path": "a"}, ("repeated_object", "closers_too_many")),
        (READ, "{'path': 'a'}}", {"path": "a"}, ("python_literals", "closers_too_many")),
        (READ, f"[{A}]", {"path": "a"}, ("sole_item",)),
        (READ, f"[{A}, ]", {"path": "a"}, ("sole_item",)),
        (READ, [{"path": "a"}], {"path": "a"}, ("sole_item",)),
        (READ, f"{{}}{A}", {"path": "a"}, ("empty_object_beside",)),
        (READ, f"{A}{{ }}{{}}", {"path": "a"}, ("empty_object_beside",)),
        (NONE, "[]", {}, ("no_arguments",)),
        (NONE, [], {}, ("no_arguments",)),
        (NONE, '""', {}, ("double_encoded", "no_arguments")),
        (NONE, "undefined", {}, ("no_arguments",)),
        (NONE, "{}}", {}, ("closers_too_many",)),
        (OPTIONAL, "[]", {}, ("no_arguments",)),
        (LISTS, '""', {}, ("double_encoded", "no_arguments")),
        (READ, f'[{{"name":"read","arguments":{A}}}]', {"path": "a"}, None),
        (READ, '{"path=a":""}', {"path": "a"}, ("value_in_key",)),
    ],
)
def test_what_has_one_meaning_is_read(schema: JSON, raw: Any, value: JSON, steps: Any) -> None:
    found = sole_candidate(raw, None, expected(schema))

    assert found is not None
    assert found.value == value
    assert found.steps == (steps or ("sole_item", "call_in_arguments"))


@pytest.mark.parametrize(
    ("schema", "raw"),
    [
        (READ, f"{A} and then"),
        (READ, f'{A}{{"path":"b"}}'),
        (READ, f'{A}}}{{"path":"b"}}'),
        (READ, f"[{A}, {A}]"),
        (READ, f"[[{A}]]"),
        (READ, [{"path": "a"}, {"path": "b"}]),
        (READ, [1]),
        (READ, object()),
        (READ, "[]"),
        (READ, "[1]"),
        (READ, '"'),
        (READ, '"text"'),
        (READ, '{"path":"a'),
        (OPTIONAL, f"{{}}{A}"),
        (OPTIONAL, '""'),
        (LISTS, "[]"),
        (LISTS | {"required": ["tags"]}, "[]"),
    ],
)
def test_what_may_mean_two_things_is_not_read(schema: JSON, raw: Any) -> None:
    assert sole_candidate(raw, None, expected(schema)) is None


@pytest.mark.parametrize(
    "straight",
    [
        {"name": "read", "arguments": {"path": "a"}},
        {"tool": "read", "input": A, "id": "1"},
        {"type": "function", "function": {"name": "read", "parameters": {"path": "a"}}},
    ],
)
def test_a_call_of_the_tool_itself_is_taken_for_its_arguments(straight: JSON) -> None:
    found = sole_candidate("", straight, expected(READ))

    assert found is not None
    assert (found.value, found.steps) == ({"path": "a"}, ("call_in_arguments",))


@pytest.mark.parametrize(
    "straight",
    [
        {"name": "write", "arguments": {"path": "a"}},
        {"name": ["read"], "arguments": {"path": "a"}},
        {"name": "read", "arguments": {"path": "a"}, "mode": "r"},
        {"name": "read", "arguments": {"path": "a"}, "input": {"path": "b"}},
        {"name": "read", "arguments": "path: a"},
        {"name": "read"},
        {"function": {"name": "read", "arguments": {"path": "a"}}, "mode": "r"},
    ],
)
def test_anything_else_is_no_call_of_it(straight: JSON) -> None:
    assert sole_candidate("", straight, expected(READ)) is None


@pytest.mark.parametrize(
    ("raw", "straight", "is_read"),
    [
        ('{"path": 0}', {"path": 0}, True),
        ('{"path": -0}', {"path": 0}, False),
        ('{"path" : -0 }', {"path": 0}, False),
        ('{"path": -7}', {"path": -7}, True),
        ({"path": 0}, {"path": 0}, True),
    ],
)
def test_a_number_is_made_a_text_only_in_the_spelling_that_it_had(
    raw: Any, straight: JSON, *, is_read: bool
) -> None:
    assert (sole_candidate(raw, straight, expected(READ)) is not None) is is_read


@pytest.mark.parametrize("unit", ["}", "{}", "[", "<|a|>", '"', A, f"{A},", "\\n", "`"])
def test_arguments_of_any_length_take_linear_time(unit: str) -> None:
    known = expected(READ)

    def read(size: int) -> object:
        return sole_candidate(A + unit * (size // len(unit)), None, known)

    assert growth(read, 2_000) < LINEAR


# Rewritings of arguments that only some models need: what they change, and what stays


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("a &amp;&amp; b", "a && b"),
        ("&lt;b&gt;&quot;&#39;&#x27;&NBSP;", "<b>\"''\xa0"),
        ("&amp;lt;", "&lt;"),
        ("AT&T; & co &unknown; &;", "AT&T; & co &unknown; &;"),
        ("&" * 9, "&" * 9),
    ],
)
def test_entities_are_decoded_once_and_only_the_known_ones(text: str, decoded: str) -> None:
    steps: list[str] = []
    value = {"a": [text, 1], "b": {"c": text}}

    healed = unescape_arguments(value, steps)

    assert healed == {"a": [decoded, 1], "b": {"c": decoded}}
    assert (steps == [], healed is value) == (text == decoded, text == decoded)


def test_containers_become_text_only_where_nothing_else_is_declared() -> None:
    kinds: list[Any] = ["string", ["string", "null"], ["string", "object"], "object", None]
    schema = {"properties": {str(at): {"type": kind} for at, kind in enumerate(kinds)}}
    steps: list[str] = []

    healed = encode_containers({str(at): {"x": 1} for at in range(6)} | {"7": 1}, schema, steps)

    texts = [key for key, value in healed.items() if value == '{"x":1}']
    assert (texts, steps) == (["0", "1"], ["text_from_container"])
    assert encode_containers({"0": "x"}, schema, steps) == {"0": "x"}
    assert encode_containers({"0": {}}, {}, steps) == {"0": {}}


# Keys are renamed only to the one declared key that they can stand for


@pytest.mark.parametrize(
    ("given", "declared", "expected"),
    [
        ({"calendarId": 1}, ["calendar_id"], {"calendar_id": 1}),
        ({"Calendar-ID": 1, "a": 2}, ["a", "calendar_id"], {"calendar_id": 1, "a": 2}),
        ({"path</arg_key>": 1}, ["path"], {"path": 1}),
        ({"pathName": 1, "other": 2}, ["path_name"], {"path_name": 1, "other": 2}),
    ],
)
def test_a_key_with_the_words_of_one_declared_key_is_that_key(
    given: JSON, declared: list[str], expected: JSON
) -> None:
    assert with_declared_keys(given, declared) == expected


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        ({"calendar_id": 1}, ["calendar_id"]),  # nothing to rename
        ({"file_path": 1}, ["path"]),  # it only resembles
        ({"calendarId": 1, "calendar_id": 2}, ["calendar_id"]),  # it is given already
        ({"calendarId": 1, "CalendarID": 2}, ["calendar_id"]),  # two claim it
        ({"userId": 1}, ["user_id", "userid"]),  # it can be both
        ({"K" * 200: 1}, ["k" * 200]),  # too long to be looked at
        ({"naïveKey": 1}, ["naïve_key"]),  # only ASCII is folded
        ({}, ["a"]),
    ],
)
def test_any_other_key_stays_as_it_is(given: JSON, declared: list[str]) -> None:
    assert with_declared_keys(given, declared) is None


# Arguments that are something else


@pytest.mark.parametrize(
    ("value", "properties"),
    [
        ({"error": "Failed to parse"}, ["table"]),
        ({"error": {"message": "no"}, "code": 1}, ["table"]),
        ({"command=ls": ""}, ["command"]),
        ({"text": 'a</text>\n<parameter name="tags">{"a": 1}'}, ["text", "tags"]),
        ({"text": "a</parameter>\n<parameter=tags>\nb"}, ["text", "tags"]),
        ({"text": "a</arg_value><arg_key>tags</arg_key>b"}, ["text", "tags"]),
        ({"text": "</text> x</text><tags>b"}, ["text", "tags"]),
    ],
)
def test_what_is_no_argument_is_named(value: JSON, properties: list[str]) -> None:
    assert find_misplaced_content(value, properties)


@pytest.mark.parametrize(
    ("value", "properties"),
    [
        ({"error": "x"}, []),
        ({"error": "x"}, ["error"]),
        ({"error": "x", "table": "t"}, ["table"]),
        ({"a=b": "c"}, ["a"]),
        ({"=b": ""}, ["a"]),
        ({"text": "a</text> b"}, ["text", "tags"]),
        ({"text": "a</text><b>"}, ["text", "tags"]),
        ({"text": 'a</text><parameter name="tags"'}, ["text", "tags"]),
        ({"text": "a</text>\n<tags>b", "tags": []}, ["text", "tags"]),
    ],
)
def test_what_may_be_an_argument_is_not(value: JSON, properties: list[str]) -> None:
    assert not find_misplaced_content(value, properties)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ('run command="ls"', "{}", ("run", {"command": "ls"})),
        ('run a="x" b="y"', {}, ("run", {"a": "x", "b": "y"})),
        ('run command="ls', "{}", None),
        ('run a="x" a="y"', "{}", None),
        ('run 1="x"', "{}", None),
        ('run command="ls"', '{"a": 1}', None),
        ("run ", "{}", None),
    ],
)
def test_arguments_in_a_name_are_taken_out_of_it(
    name: str, arguments: Any, expected: tuple[str, JSON] | None
) -> None:
    assert split_call_name(name, arguments) == (expected or (name, arguments))
