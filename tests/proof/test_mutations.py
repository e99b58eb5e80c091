"""Random changes depend on the dice alone, leave the original alone, and end in JSON."""

import json
import random
from typing import Any

from proof.mutations import changed_bytes, changed_text, changed_value, slots_of

VALUE: Any = {"a": [1, {"b": "text"}], "c": None}


def _dice(number: int) -> random.Random:
    return random.Random(number)  # noqa: S311  # cases, no secrets


def test_every_place_of_a_value_is_found() -> None:
    places = [(type(container).__name__, place) for container, place in slots_of(VALUE)]
    assert sorted(map(str, places)) == sorted(
        map(str, [("dict", "a"), ("dict", "c"), ("list", 0), ("list", 1), ("dict", "b")])
    )


def test_a_changed_value_is_another_json_value_and_the_original_stays() -> None:
    before = json.dumps(VALUE)
    changed = [json.dumps(changed_value(_dice(number), VALUE, 4)) for number in range(300)]
    assert json.dumps(VALUE) == before
    assert len(set(changed)) > 250
    assert changed[7] == json.dumps(changed_value(_dice(7), VALUE, 4))


def test_bytes_and_texts_are_changed_too() -> None:
    data = [changed_bytes(_dice(number), b'{"a": 1}', [b"[DONE]"]) for number in range(200)]
    texts = [changed_text(_dice(number), "some words") for number in range(200)]
    assert len(set(data)) > 100
    assert len(set(texts)) > 50
