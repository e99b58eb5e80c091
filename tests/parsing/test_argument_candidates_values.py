"""Values that the schema disproves: what each can only stand for, and where that is not clear."""

from typing import Any

import pytest

from surecall.parsing.argument_candidates import repair_values
from surecall.parsing.coercion import Coercion, coercer
from surecall.tools.validation import compile_schema
from surecall.values.types import JSON

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
WORD = {"type": "string", "pattern": "^[a-z é≤]+$"}


def choice(*options: str) -> JSON:
    return {"type": "string", "enum": [*options]}


def read(schema: Any, value: Any, *, required: bool = True) -> Coercion | None:
    whole = {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []}
    return repair_values({"x": value}, compile_schema(whole).rejections, coercer(whole))


@pytest.mark.parametrize(
    ("schema", "value", "expected", "step"),
    [
        (TEXT, 7, "7", "text_from_number"),
        (TEXT, -12345678901234567890, "-12345678901234567890", "text_from_number"),
        (choice("7", "8"), 7, "7", "text_from_number"),
        ({"type": "array", "items": TEXT}, ["a", 1, 2], ["a", "1", "2"], "text_from_number"),
        ({"type": ["object", "null"]}, "None", None, "null_from_word"),
        ({"type": ["object", "null"]}, "“nil”", None, "null_from_word"),
        (choice(">=", "<"), "&gt;=", ">=", "entities_decoded"),
        (choice("&gt;"), "&amp;gt;", "&gt;", "entities_decoded"),
        (choice("a"), "&quot;a&quot;", "a", "entities_decoded"),
        (choice("a&b"), "“a&amp;b”", "a&b", "entities_decoded"),
        (WORD, "caf&eacute;&#32;&#x2264;", "café ≤", "entities_decoded"),
        (WORD, "a%20b", "a b", "percents_decoded"),
        (choice("red"), "“red”", "red", "text_bared"),
        (choice("red"), "'red'", "red", "text_bared"),
        (choice("red"), '<|"|>red<|"|>', "red", "text_bared"),
        (choice("red"), " red\n", "red", "text_bared"),
        (INTEGER, "5<|im_end|>", 5, "text_bared"),
        ({"type": "array"}, "`` [1] ``", [1], "text_bared"),
        ({"anyOf": [choice("red"), {"type": "null"}]}, "“red”", "red", "text_bared"),
    ],
)
def test_a_disproved_value_becomes_the_only_one_that_is_allowed(
    schema: JSON, value: Any, expected: Any, step: str
) -> None:
    found = read(schema, value)

    assert found is not None
    assert found.value == {"x": expected}
    assert found.steps[0] == step


@pytest.mark.parametrize("word", ["null", "None", "NULL", "undefined"])
def test_a_word_for_null_leaves_an_optional_value_out(word: str) -> None:
    found = read(INTEGER, word, required=False)

    assert found == Coercion({}, ("null_from_word", "null_optional_dropped"))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (TEXT, 1.0),
        (TEXT, 1e3),
        (TEXT, True),
        (TEXT, [1]),
        (INTEGER, "None"),
        (INTEGER, "five"),
        (choice("none", "all"), "None"),
        (choice("red"), "Red"),
        (choice("red"), "“blue”"),
        (choice("a", "“a”"), "““a””"),
        (choice("x", "x</s>"), '<|"|>x</s><|"|>'),
        (choice("x", "x</s>"), "[ARGS]x</s>"),
        (choice("x", "[ARGS]x"), "[ARGS]x</s>"),
        (choice("&lt;", "<"), "&amp;lt;%"),
        (choice("a"), "&#;a"),
        (choice("a"), "&#12ab;"),
        (choice("a"), "&unheard;"),
        (choice("a"), "%ff"),
        (choice("a"), "%"),
        (choice("b"), f"{'“' * 9}b{'”' * 9}"),
        ({"type": "string", "maxLength": 3}, "&lt;a"),
        ({"not": TEXT}, "None"),
    ],
)
def test_what_is_not_clear_stays_for_the_model_to_say(schema: JSON, value: Any) -> None:
    assert read(schema, value) is None


def test_two_allowed_words_of_another_case_are_a_doubt() -> None:
    assert read(choice("none", "all"), "None", required=False) is None
    assert read(choice("some", "all"), "None", required=False) is not None


def test_many_guesses_are_too_many() -> None:
    assert read(choice("a"), " “&lt;%3C<|x|>null<|y|>%3E&gt;” ") is None


def test_places_are_mended_together_and_the_value_itself_is_left_alone() -> None:
    inner = {"type": "object", "properties": {"op": choice("<"), "at": INTEGER}}
    whole = {"type": "object", "properties": {"f": {"type": "array", "items": inner}, "n": TEXT}}
    value = {"f": [{"op": "&lt;", "at": "None"}, {"op": "<", "at": 1}], "n": 3}

    found = repair_values(value, compile_schema(whole).rejections, coercer(whole))

    assert found is not None
    assert found.value == {"f": [{"op": "<"}, {"op": "<", "at": 1}], "n": "3"}
    assert value == {"f": [{"op": "&lt;", "at": "None"}, {"op": "<", "at": 1}], "n": 3}


def test_a_union_keeps_what_one_alternative_allows() -> None:
    def side(kind: JSON) -> JSON:
        return {"type": "object", "properties": {"op": choice("<"), "n": kind}, "required": ["n"]}

    found = read({"anyOf": [side(TEXT), side(INTEGER)]}, {"op": "&lt;", "n": 5})

    assert found is not None
    assert found.value == {"x": {"op": "<", "n": 5}}


def test_one_value_that_cannot_be_mended_spoils_all() -> None:
    whole = {"type": "object", "properties": {"a": choice("<"), "b": INTEGER}, "required": ["c"]}

    assert repair_values({"a": "&lt;"}, compile_schema(whole).rejections, coercer(whole)) is None
