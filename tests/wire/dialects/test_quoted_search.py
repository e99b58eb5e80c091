"""Calls in text that others wrote are found in every dialect, whatever stands around them."""

import json
from typing import Any

import pytest

from surecall.values.types import JSON, ToolCall, ToolSpec
from surecall.wire.dialects import WRITERS, OutOfFuel, quoted_calls
from surecall.wire.dialects.call_values import parse_value
from surecall.wire.dialects.text_source import TextSource, tool_shape

SCHEMA: JSON = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "n": {"type": "integer"}},
}
TOOL = ToolSpec("send_mail", "", SCHEMA)
GIVEN = {"to": "bob", "n": 42}


def found(text: str) -> list[Any]:
    return [given for given, _ in quoted_calls([text], TOOL)]


@pytest.mark.parametrize("row", WRITERS)
@pytest.mark.parametrize("around", ["{}", "It says “{}” to me.", "```\n{}\n```\nDone.", "> {}"])
def test_a_call_is_found_in_every_dialect(row: str, around: str) -> None:
    call = WRITERS[row]((ToolCall("call00001", "send_mail", GIVEN),), "")

    assert any(
        sorted(map(str, _values(given))) == ["42", "bob"] for given in found(around.format(call))
    )


def _values(given: Any) -> list[Any]:
    """Return the values of arguments, with names or in an order."""
    named = given[0] if isinstance(given, list) else given
    return [*named.values()] if isinstance(named, dict) else []


@pytest.mark.parametrize(
    "text",
    [
        f"Action: send_mail\nAction Input: {json.dumps(GIVEN)}",
        "print(default_api.send_mail(to='bob', n=42))",
        f'{{"action": "Send-Mail", "action_input": {json.dumps(GIVEN)}}}',
        f"functions.send_mail:0<|tool_call_argument_begin|>{json.dumps(GIVEN)}",
        f"<|channel|>commentary to=functions.send_mail<|message|>{json.dumps(GIVEN)}",
        f"to=functions.send_mail {json.dumps(GIVEN)}",
        f"send_mail[TOOL_CALLS]{json.dumps(GIVEN)}",
        "<send_mail><to>bob</to><n>42</n></send_mail>",
        'name: send_mail\narguments:\n  to: "bob"\n  n: 42\nEnd: 7',
        "- tool: Send-Mail\n  args:\n    to: bob\n    n: 42",
    ],
)
def test_forms_that_only_documents_have_are_found(text: str) -> None:
    assert any(_values(given) == ["bob", 42] for given in found(text))


@pytest.mark.parametrize(
    "text",
    [
        "Please send_mail to bob, 42 times.",
        "send_mail: bob, 42",
        'send_mail takes {"to": "bob"}',
        "send_mail(to, n)",
        '{"name": "look", "arguments": {"to": "bob"}}',
        "<|start|>assistant<|channel|>analysis<|message|>send_mail, 42",
        "<|channel|>send_mail",
        "[TOOL_CALLS] send_mail to bob",
        "DSML",
        "- tool: send_mail\n- to: bob\n- n: 42",
        "",
    ],
)
def test_words_are_no_call(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "is_marked"),
    [
        ('send_mail("bob", 42)', False),
        ('send_mail {"to": "bob", "n": 42}', False),
        ("send_mail, arguments: {'to': 'bob', 'n': 42}", True),
        ('send_mail<|sep|>{"to": "bob", "n": 42}', True),
        ("name: send_mail\narguments:\n  to: bob\n  n: 42", True),
        (json.dumps({"tool": "send_mail", "arguments": GIVEN}), True),
    ],
)
def test_the_form_of_a_function_call_is_not_only_that_of_a_tool_call(
    text: str,
    is_marked: bool,  # noqa: FBT001
) -> None:
    assert {is_marked} == {form for _, form in quoted_calls([text], TOOL)}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("('7', 5)", ["7", 5]),
        ("('7', -5.5)", ["7", -5.5]),
        ("('7', None, 'x')", ["7", None, "x"]),
        ("('7', [1], {'a': 2})", ["7", [1], {"a": 2}]),
        ("(5, '7')", [5, "7"]),
    ],
)
def test_positional_arguments_of_any_type_are_parsed(text: str, values: list[Any]) -> None:
    assert parse_value(TextSource(text, [TOOL]), 0).arguments == ({}, values)


def test_text_that_takes_too_long_to_read_is_told() -> None:
    with pytest.raises(OutOfFuel):
        found("{" * 20_000)


def test_the_shapes_of_more_tools_than_are_cached_are_still_right() -> None:
    specs = [
        ToolSpec(f"t{number}", "", {"type": "object", "properties": {f"p{number}": {}}})
        for number in range(300)
    ]
    for _ in range(2):
        assert all(spec.name[1:] in str(tool_shape(spec).properties) for spec in specs)
