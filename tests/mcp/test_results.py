"""What a server answers, as a value or as a failure."""

import base64
from typing import Any

import pytest

from surecall.mcp.results import value_of
from surecall.values.errors import ToolError
from surecall.values.types import JSON

DATA = base64.b64encode(bytes(range(100))).decode()
TEXT = {"type": "text", "text": "one"}
IMAGE = {"type": "image", "data": DATA, "mimeType": "image/png"}


def result(*content: JSON, **fields: Any) -> JSON:
    return {"content": list(content), "isError": False, **fields}


def test_structured_content_is_preferred_to_the_text_that_says_the_same() -> None:
    assert value_of(result(TEXT, structuredContent={"n": 1})) == {"n": 1}
    assert value_of(result(TEXT, structuredContent=[1])) == [1]


def test_texts_are_joined_and_nothing_is_none() -> None:
    assert value_of(result(TEXT, TEXT)) == "one\none"
    assert value_of(result()) is None
    assert value_of({}) is None


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (IMAGE, "[image, image/png, 100 bytes, not shown]"),
        ({"type": "audio", "data": DATA}, "[audio, unknown kind, 100 bytes, not shown]"),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": DATA}},
            "[file file:///a, unknown kind, 100 bytes, not shown]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "text": "words"}},
            "[file:///a]\nwords",
        ),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            "[link to a: file:///a]",
        ),
        ({"type": "hologram", "data": DATA}, "[hologram, not shown]"),
        ({"data": DATA}, "[something, not shown]"),
    ],
)
def test_what_is_no_text_is_described(block: JSON, words: str) -> None:
    assert value_of(result(block)) == words


def test_a_label_cannot_be_long_nor_of_several_lines() -> None:
    link = {"type": "resource_link", "uri": "u" * 10_000, "name": "a\nb"}

    words = value_of(result(link))

    assert words.startswith("[link to a b: uuu")
    assert len(words) < 450


def test_an_image_beside_structured_content_is_described_beside_it() -> None:
    assert value_of(result(TEXT, IMAGE, structuredContent={"n": 1})) == {
        "value": {"n": 1},
        "beside": ["[image, image/png, 100 bytes, not shown]"],
    }


def test_a_field_called_ok_makes_no_envelope() -> None:
    assert value_of(result(structuredContent={"ok": 1})) == {"value": {"ok": 1}}


def test_an_error_is_told_in_the_words_of_the_server_cut_to_length() -> None:
    with pytest.raises(ToolError, match=r"^one$") as raised:
        value_of(result(TEXT, isError=True))
    assert raised.value.code == "TOOL_FAILED"
    with pytest.raises(ToolError, match=r"^x{498} …$"):
        value_of(result({"type": "text", "text": "x" * 10_000}, isError=True))
    with pytest.raises(ToolError, match="does not say why"):
        value_of(result(isError=True, structuredContent={"n": 1}))
