"""Content parts become those of a chat message, with every text as it came."""

from typing import Any

import pytest

from surecall.proxy.faces.face import Refused
from surecall.proxy.faces.responses.content import chat_content, said_text

URL = "data:image/png;base64,AA=="
TEXT = {"type": "text", "text": "a"}


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ("a", "a"),
        ([], ""),
        ([{"type": "input_text", "text": "a"}], "a"),
        (["a"], "a"),
        (
            [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
            [TEXT, {"type": "text", "text": "b"}],
        ),
        (
            [{"type": "input_text", "text": "a", "cache_control": {"type": "ephemeral"}}],
            [TEXT | {"cache_control": {"type": "ephemeral"}}],
        ),
        (
            [{"type": "input_text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}],
            "a",
        ),
        (
            [{"type": "input_image", "image_url": URL, "detail": "low"}],
            [{"type": "image_url", "image_url": {"url": URL, "detail": "low"}}],
        ),
        (
            [{"type": "input_image", "image_url": {"url": URL}, "detail": "original"}],
            [{"type": "image_url", "image_url": {"url": URL}}],
        ),
        (
            [{"type": "input_file", "filename": "a.pdf", "file_data": URL, "file_url": None}],
            [{"type": "file", "file": {"filename": "a.pdf", "file_data": URL}}],
        ),
        (
            [{"type": "input_audio", "input_audio": {"data": "A", "format": "wav"}}],
            [{"type": "input_audio", "input_audio": {"data": "A", "format": "wav"}}],
        ),
    ],
)
def test_parts_are_those_of_a_chat_message(given: Any, content: Any) -> None:
    assert chat_content(given, "input[0]") == content


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "a text or a list"),
        ([1], "without a known type"),
        ([{"type": "input_video"}], "'input_video'"),
        ([{"type": "input_image", "file_id": "f"}], "image_url"),
        ([{"type": "input_file", "file_url": "http://x"}], "file_data"),
    ],
)
def test_a_part_that_has_no_place_is_refused(given: Any, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        chat_content(given, "input[0]")
    assert (refused.value.param, refused.value.status) == ("input[0]", 400)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("a", "a"),
        ([{"type": "output_text", "text": "a", "annotations": []}, "b"], "ab"),
        ([{"type": "refusal", "refusal": "No."}], "No."),
    ],
)
def test_what_the_assistant_said_is_one_text(given: Any, text: str) -> None:
    assert said_text(given, "input[0]") == text


@pytest.mark.parametrize("given", [None, [{"type": "input_image"}]])
def test_what_the_assistant_cannot_have_said_is_refused(given: Any) -> None:
    with pytest.raises(Refused):
        said_text(given, "input[0]")
