"""Almost-JSON rewritten as JSON: spelling changes, structure and values do not."""

import ast
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.parsing.json_repair import ParseError, repair_json, syntax_error
from surecall.parsing.lenient_lexer import MAX_DEPTH
from tests.support.timing import LINEAR, growth

# What Python and JSON can both spell; whole numbers, because `1e16` is written in two ways.
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text("ab'\"\\\n\té😀", max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab'"), inner, max_size=3),
    max_leaves=9,
)
OBJECTS = st.dictionaries(st.text("ab' "), PLAIN, max_size=3)


def rewritten(text: str) -> tuple[tuple[str, ...], list[str]]:
    fired: dict[str, None] = {}
    return repair_json(text, fired), list(fired)


def reason(text: str) -> str:
    with pytest.raises(ParseError) as refused:
        repair_json(text, {})
    return str(refused.value)


@given(OBJECTS)
def test_json_is_rewritten_as_itself_and_nothing_fires(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)

    (written,), fired = rewritten(text)

    assert (json.loads(written), fired) == (value, [])


@given(OBJECTS)
def test_what_python_prints_becomes_json_of_the_same_value(value: dict[str, Any]) -> None:
    (written,), _ = rewritten(repr(value))

    assert json.loads(written) == ast.literal_eval(repr(value)) == value


def test_every_rewriting_is_named_once_and_in_the_order_of_its_place() -> None:
    (written,), fired = rewritten("{'a': [True, 'x\ny',], \\n 'b': None,}")

    assert json.loads(written.replace("\n", "\\n")) == {"a": [True, "x\ny"], "b": None}
    assert fired == [
        "python_literals",
        "control_characters",
        "trailing_commas",
        "escaped_whitespace",
    ]


def test_a_document_is_kept_once_and_another_one_beside_it() -> None:
    assert rewritten('{"a":1} { "a" : 1 }') == (('{"a":1}',), ["repeated_object"])
    assert rewritten('{"a":1}{"a":2}') == (('{"a":1}', '{"a":2}'), ["repeated_object"])


def test_a_string_may_come_first_because_an_object_may_be_inside_it() -> None:
    assert rewritten('"{}"') == (('"{}"',), [])
    assert reason('{} "{}"') == "unreadable"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "unreadable"),
        ("{'a': 1", "cut_off"),
        ("{'a': 'x", "cut_off"),
        ('{"a": ]', "unreadable"),
        ('{"a" 1 2}', "unreadable"),
        ('{"a": maybe }', "unreadable"),
        ('{"a": ,}', "missing_value"),
        ('{"a": "\\q"}', "bad_escape"),
    ],
)
def test_what_has_no_single_meaning_is_refused_with_a_reason(text: str, why: str) -> None:
    assert reason(text) == why


def test_brackets_may_be_as_deep_as_the_limit_and_no_deeper() -> None:
    lists = MAX_DEPTH - 1

    assert rewritten('{"a":' + "[" * lists + "]" * lists + "}")[1] == []
    assert reason('{"a":' + "[" * (lists + 1)) == "too_deep"


def test_a_refusal_says_what_is_wrong_what_to_do_and_which_key_it_is_about() -> None:
    with pytest.raises(ParseError) as refused:
        repair_json('{"colour": }', {})

    assert refused.value.message.startswith('The key "colour" has no value. Send the arguments')
    assert refused.value.data == {"reason": "missing_value", "key": "colour"}


def test_a_refusal_quotes_the_place_and_not_the_whole_text() -> None:
    text = "a" * 500 + "HERE" + "b" * 500

    assert "HERE" in syntax_error(text, 500).message
    assert len(syntax_error(text, 500).message) < 200


@pytest.mark.parametrize("unit", ["'a',", '"\\"",', "[],", "\\n"])
def test_reading_takes_steps_in_proportion_to_the_text(unit: str) -> None:
    def read(size: int) -> None:
        repair_json("{'a': [" + unit * (size // len(unit)) + "]}", {})

    assert growth(read, 20_000) < LINEAR
