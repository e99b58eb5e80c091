"""The user's words in parts: what is passed on, and what is refused before anything is sent."""

from typing import Any

import pytest

from surecall import ConfigError, ToolLoopRunner
from surecall.runtime.user_parts import check_parts
from surecall.testing import ScriptedModel, says

TEXT = {"type": "text", "text": "What is this?"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
ODD = [
    ("What is this?", "must be a mapping such as"),
    (b"PNG", "not bytes"),
    (7, "not int"),
    ({}, "does not say its type"),
    ({"type": ""}, "does not say its type"),
    ({"type": 3}, "does not say its type"),
    ({"type": "text"}, "has no text"),
    ({"type": "text", "text": ["a"]}, "has no text"),
    ({"type": "image_url"}, "has no address of an image"),
    ({"type": "image_url", "image_url": "https://x/cat.png"}, "has no address of an image"),
    ({"type": "image_url", "image_url": {"url": b"PNG"}}, "has no address of an image"),
    ({"type": "image_url", "image_url": {"url": "cat.png"}}, "the address 'cat.png': write https"),
    ({"type": "image_url", "image_url": {"url": 1_000_000 * "A"}}, "with the address 'AAA"),
]


@pytest.mark.parametrize(
    "parts", [[TEXT], [TEXT, IMAGE], [IMAGE], [SOUND], [{"type": "text", "text": ""}], []]
)
def test_parts_that_endpoints_take_are_passed_on(parts: list[Any]) -> None:
    check_parts(parts)


@pytest.mark.parametrize(("part", "told"), ODD)
def test_a_part_that_no_endpoint_takes_is_refused_in_one_sentence(part: Any, told: str) -> None:
    model = ScriptedModel(says("A cat."))
    with pytest.raises(ConfigError) as refused:
        ToolLoopRunner(client=model, model="m").run_sync([TEXT, part])

    sentence = str(refused.value)
    assert sentence.startswith("part 2 of the user's words ")
    assert told in sentence
    assert len(sentence) < 250
    assert model.requests == []
