"""Blocks of the Messages API: texts stay as they are, and media become parts."""

from typing import Any

import pytest

from surecall.proxy.faces.face import Refused, content_of
from surecall.proxy.faces.messages_content import (
    blocks_of,
    marked,
    parts_of,
    result_parts,
    unmarked,
)
from surecall.values.types import JSON
from tests.support.messages_face import text

MARK = {"type": "ephemeral"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}
PNG = {"type": "base64", "media_type": "image/png", "data": "iVBO"}


def document(source: Any, **fields: Any) -> JSON:
    return {"type": "document", "source": source} | fields


def file_part(name: str) -> JSON:
    file = {"filename": name, "file_data": "data:application/pdf;base64,JVBE"}
    return {"type": "file", "file": file}


def image_part(url: str) -> JSON:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (text(" a\n"), [text(" a\n")]),
        (text("", cache_control=MARK), []),
        (text("a", citations=None), [text("a")]),
        (text("a", cache_control=MARK), [text("a", cache_control=MARK)]),
        ({"type": "image", "source": PNG}, [image_part("data:image/png;base64,iVBO")]),
        (
            {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
            [image_part("https://x/a.png")],
        ),
        (document({"type": "text", "data": "a\n"}), [text("a\n")]),
        (document({"type": "text", "data": "a"}, title="T", context="C"), [text("T\nC\na")]),
        (document({"type": "text", "data": "a"}, title=None, context=7), [text("a")]),
        (document(PDF), [file_part("document.pdf")]),
        (document(PDF, title="a.pdf"), [file_part("a.pdf")]),
        (document(PDF, title="a.pdf", context="C"), [text("C"), file_part("a.pdf")]),
        (
            document({"type": "content", "content": [text("a")]}, title="T", context="C"),
            [text("T\nC"), text("a")],
        ),
        (document({"type": "base64", "data": "JVBE"}), [file_part("document.pdf")]),
        (document({"type": "content", "content": "a"}), [text("a")]),
        (
            document({"type": "content", "content": [text("a"), {"type": "image", "source": PNG}]}),
            [text("a"), image_part("data:image/png;base64,iVBO")],
        ),
        (
            {"type": "search_result", "title": "T", "source": "https://x", "content": [text("a")]},
            [text("T\nhttps://x\na")],
        ),
        (
            {"type": "search_result", "content": [document(PDF), text("a")]},
            [text("a"), file_part("document.pdf")],
        ),
    ],
)
def test_a_block_becomes_parts(block: JSON, parts: list[JSON]) -> None:
    assert parts_of(block, "here") == parts


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "image", "source": {"type": "base64"}},
        {"type": "image", "source": "https://x/a.png"},
        document({"type": "file", "file_id": "f"}),
        document({"type": "url", "url": "https://x/a.pdf"}),
        document({"type": "content", "content": [{"type": "video"}]}),
        {"type": "search_result"},
        {"type": "container_upload", "file_id": "f"},
        {"type": "text", "text": None},
    ],
)
def test_what_no_part_can_hold_is_refused(block: JSON) -> None:
    with pytest.raises(Refused, match=r"^here: ") as refused:
        parts_of(block, "here")

    assert refused.value.param == "here"


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (text("a"), [text("a")]),
        ({"type": "tool_reference", "tool_name": "add"}, [text("The tool add is available.")]),
        ({"type": "browser_state", "tabs": []}, [text('{"type":"browser_state","tabs":[]}')]),
    ],
)
def test_nothing_that_a_tool_returned_is_refused_for_its_type(
    block: JSON, parts: list[JSON]
) -> None:
    assert result_parts(block, "here") == parts


@pytest.mark.parametrize("content", [None, 7, {}, [7], [{}], [{"type": 7}]])
def test_content_that_is_no_text_and_no_blocks_is_refused(content: Any) -> None:
    with pytest.raises(Refused, match=r"^here"):
        blocks_of(content, "here")


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([], ""),
        ([text("a")], "a"),
        ([text("a"), text("b")], [text("a"), text("b")]),
        ([text("a", cache_control=MARK)], [text("a", cache_control=MARK)]),
        ([image_part("u")], [image_part("u")]),
    ],
)
def test_one_text_is_written_as_a_text_and_more_as_parts(parts: list[JSON], content: Any) -> None:
    assert content_of(parts) == content


def test_a_mark_is_on_the_last_part_of_its_block() -> None:
    block = {"type": "document", "cache_control": MARK}

    assert marked([text("a"), text("b")], block) == [text("a"), text("b", cache_control=MARK)]
    assert marked([], block) == []


def test_marks_are_taken_from_blocks_and_not_from_the_inputs_of_calls() -> None:
    given = {"cache_control": "mine"}
    use = {"type": "tool_use", "id": "1", "name": "add", "input": given}
    nested = {"type": "tool_result", "content": [text("a", cache_control=MARK)]}

    assert unmarked([use | {"cache_control": MARK}]) == [use]
    assert unmarked({"content": [nested]}) == {
        "content": [{"type": "tool_result", "content": [text("a")]}]
    }
