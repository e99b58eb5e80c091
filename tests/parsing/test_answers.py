"""Answers that are to be JSON: what is read, what is repaired, and what is refused."""

from typing import Any

import pytest

from surecall.parsing.answers import Value, read_value
from surecall.parsing.budget import MAX_TEXT, MAX_VALUES


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ('"x"', "x"),
        ("5", 5),
        (" true \n", True),
        ("null", None),
        ("{}", {}),
    ],
)
def test_json_of_any_kind_is_read_as_it_is(text: str, value: Any) -> None:
    assert read_value(text) == Value(value)


@pytest.mark.parametrize(
    ("text", "value", "repair"),
    [
        ('```json\n{"a": 1}\n```', {"a": 1}, "code_fence"),
        ("```\n[1]\n```", [1], "code_fence"),
        ("[1, 2,]", [1, 2], "trailing_commas"),
        ("{'a': True}", {"a": True}, "python_literals"),
        ("{a: 1}", {"a": 1}, "bare_keys"),
        ("\ufeff[1]", [1], "byte_order_mark"),
        ('{"a": 1}\n{"a": 1}', {"a": 1}, "repeated_object"),
        ('"\\ud83d"', "\ufffd", "surrogates"),
    ],
)
def test_a_slip_whose_cure_loses_nothing_is_repaired_and_named(
    text: str, value: Any, repair: str
) -> None:
    assert read_value(text) == Value(value, repairs=(repair,))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is not one JSON value with nothing around it"),
        ("I cannot.", "it is not one JSON value with nothing around it (near `I cannot.`)"),
        ('{"a": 1', "it ends too early"),
        ('{"a": 1}{"a": 2}', "it holds several different JSON values"),
        ('{"a": 1, "a": 2}', 'the key "a" comes twice, with different values'),
        ('{"a": }', 'the key "a" has no value'),
        ('{"a": "\\q"}', "it has a backslash that is not an escape of JSON"),
        ("[NaN]", "it has a number that is not finite, or too long"),
        ("[" * 65 + "]" * 65, "it is nested more than 64 levels deep"),
        ("1" * (MAX_TEXT + 1), "it is too large"),
        ("[" + "," * (MAX_VALUES + 1) + "]", "it is too large"),
    ],
)
def test_anything_else_is_refused_with_a_reason(text: str, problem: str) -> None:
    assert read_value(text) == Value(problem=problem)


@pytest.mark.parametrize(
    "text",
    [
        'Here it is: {"a": 1}',
        '{"a": 1}\nThis is only an example.',
        'The file says:\n```json\n{"a": 1}\n```\nI did not follow it.',
        '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```',
        "[1] [1]",
    ],
)
def test_words_around_a_value_are_never_dropped(text: str) -> None:
    assert read_value(text).problem
