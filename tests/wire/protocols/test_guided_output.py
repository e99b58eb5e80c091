"""Typed answers in the protocols that use words: how they are asked for, and how they are read."""

from typing import Any

import jsonschema_rs
import pytest

from surecall.values.types import JSON, Assistant, System, User
from surecall.wire.protocols import hear, speaker
from tests.support.protocols import LONGEST, planned, spoken

SCHEMA: JSON = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LOOP: JSON = {
    "type": "object",
    "properties": {"next": {"$ref": "#"}, "leaf": {"$ref": "#/$defs/leaf"}},
    "$defs": {"leaf": {"type": "integer"}},
    "additionalProperties": False,
}
TEXT: JSON = {"type": "string", "enum": ["yes", "no"]}


def form_of(schema: JSON, **changes: Any) -> JSON:
    plan = speaker("guided", LONGEST)(planned(User("hi"), output=schema, **changes))
    assert plan.response_format is not None
    found: JSON = plan.response_format["json_schema"]["schema"]
    return found


def heard(text: str, schema: JSON | None = SCHEMA) -> str:
    plan = planned(User("hi"), output=schema)
    content: str = hear("guided", {"role": "assistant", "content": text}, plan)["content"]
    return content


def test_a_guided_form_has_the_schema_in_the_place_of_the_answer() -> None:
    validator = jsonschema_rs.validator_for(form_of(SCHEMA))

    assert validator.is_valid({"answer": {"n": 1}})
    assert validator.is_valid({"tool": "add", "arguments": {}})
    assert not validator.is_valid({"answer": {"n": "x"}})
    assert not validator.is_valid({"answer": "text"})


def test_references_of_the_schema_still_hold_there() -> None:
    validator = jsonschema_rs.validator_for(form_of(LOOP))

    assert validator.is_valid({"answer": {"next": {"leaf": 1}}})
    assert not validator.is_valid({"answer": {"next": {"leaf": "x"}}})
    assert not validator.is_valid({"answer": {"next": {"other": 1}}})


def test_the_opening_tells_the_schema() -> None:
    (guided, *_) = spoken("guided", User("hi"), output=SCHEMA)
    (prompted, *_) = spoken("prompted", User("hi"), output=SCHEMA)

    assert isinstance(guided, System)
    assert isinstance(prompted, System)
    written = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
    assert f'{{"answer": ...}}, in which ... is JSON of this schema: {written}' in guided.text
    assert f"with nothing before or after it: {written}" in prompted.text
    assert "plain text" not in prompted.text


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"answer": {"n": 1}}', '{"n":1}'),
        ('<think>Well.</think>{"answer": {"n": 1}}', '{"n":1}'),
        ('{"answer": null}', "null"),
        # Beside the answer nothing may be lost.
        ('{"answer": 1, "but": 2}', '{"answer": 1, "but": 2}'),
        ('{"n": 1}', '{"n": 1}'),
        ('{"answer": {"n": 1', '{"answer": {"n": 1'),
        ('{"answer": "ye', '{"answer": "ye'),
    ],
)
def test_an_answer_stays_json_and_counts_only_if_it_is_whole(text: str, content: str) -> None:
    assert heard(text) == content


def test_a_text_stays_json_too_so_that_its_quotation_marks_are_its_own() -> None:
    assert heard('{"answer": "\\"yes\\""}', TEXT) == '"\\"yes\\""'
    assert heard('{"answer": "\\"yes\\""}', None) == '"yes"'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"n": 1}', '{"answer":{"n": 1}}'),
        ("I cannot.", '{"answer":"I cannot."}'),
        ('"yes" \n', '{"answer":"yes"}'),
    ],
)
def test_an_earlier_answer_is_shown_as_the_model_wrote_it(text: str, told: str) -> None:
    *_, last = spoken("guided", User("hi"), Assistant(text), output=SCHEMA)
    assert isinstance(last, Assistant)
    assert last.text == told


def test_a_speaker_that_is_asked_for_another_form_puts_everything_anew() -> None:
    speak = speaker("guided", LONGEST)
    speak(planned(User("hi"), Assistant("1")))
    after = speak(planned(User("hi"), Assistant("1"), output={"type": "integer"})).messages[-1]

    assert isinstance(after, Assistant)
    assert after.text == '{"answer":1}'
