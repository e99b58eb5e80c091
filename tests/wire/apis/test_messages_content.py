"""Tests of `surecall.wire.apis.messages_content`."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.parsing.budget import MAX_VALUES
from surecall.values.types import JSON
from surecall.wire.apis.adapter import (
    STATE_PREFIX,
    InvalidRequest,
    ProviderState,
    content_from_parts,
    decode_state,
    encode_state,
    with_provider_state,
)
from surecall.wire.apis.messages_content import (
    block_parts,
    content_blocks,
    provider_state,
    reasoning_text,
    result_parts,
    with_cache_control,
    without_cache_control,
)
from tests.support.generated import FINITE_VALUES
from tests.support.messages_api import call, text

# Blocks of the Messages API: texts stay as they are, and media become parts


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
    assert block_parts(block, "here") == parts


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
    with pytest.raises(InvalidRequest, match=r"^here: ") as refused:
        block_parts(block, "here")

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
    with pytest.raises(InvalidRequest, match=r"^here"):
        content_blocks(content, "here")


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
    assert content_from_parts(parts) == content


def test_a_mark_is_on_the_last_part_of_its_block() -> None:
    block = {"type": "document", "cache_control": MARK}

    assert with_cache_control([text("a"), text("b")], block) == [
        text("a"),
        text("b", cache_control=MARK),
    ]
    assert with_cache_control([], block) == []


def test_marks_are_taken_from_blocks_and_not_from_the_inputs_of_calls() -> None:
    given = {"cache_control": "mine"}
    use = {"type": "tool_use", "id": "1", "name": "add", "input": given}
    nested = {"type": "tool_result", "content": [text("a", cache_control=MARK)]}

    assert without_cache_control([use | {"cache_control": MARK}]) == [use]
    assert without_cache_control({"content": [nested]}) == {
        "content": [{"type": "tool_result", "content": [text("a")]}]
    }


# Opaque state: what was sealed comes back as it was, and garbage does no harm


KEYS = st.sampled_from(["reasoning", "reasoning_content", "reasoning_details", "x"])
SIGNED = {"google": {"thought_signature": "c2ln"}}


def message(*calls: JSON, **fields: Any) -> JSON:
    basic: JSON = {"role": "assistant", "content": None}
    return basic | ({"tool_calls": list(calls)} if calls else {}) | fields


def bare(whole: JSON) -> JSON:
    """Return a message with what the Messages API has a place for."""
    kept: JSON = {key: whole[key] for key in ("role", "content", "tool_calls") if key in whole}
    return kept | {
        "tool_calls": [
            call(each["id"], each["function"]["arguments"]) for each in whole["tool_calls"]
        ]
    }


@given(st.dictionaries(KEYS, FINITE_VALUES), FINITE_VALUES, FINITE_VALUES)
def test_what_a_message_came_with_comes_back(fields: JSON, beside: Any, within: Any) -> None:
    first = call("call_1", extra_content=SIGNED, beside=beside)
    second = call("call_2")
    second["function"]["within"] = within
    whole = message(first, second, **fields)
    state = provider_state(whole)

    again = with_provider_state(bare(whole), decode_state(encode_state(state)) or ProviderState())

    assert provider_state(again) == state


def test_fields_that_say_nothing_are_no_state() -> None:
    nothing = message(refusal=None, annotations=[], audio=None, provider_data={})

    assert provider_state(nothing) == ProviderState()
    assert provider_state(message(reasoning_content="")) == ProviderState(
        message={"reasoning_content": ""}
    )


@pytest.mark.parametrize(
    ("fields", "thought"),
    [
        ({}, ""),
        ({"reasoning_content": "So.", "reasoning": "No."}, "So."),
        ({"reasoning_content": None, "reasoning": "So."}, "So."),
        ({"reasoning": {"tokens": 7}}, ""),
        ({"content": [{"type": "thinking", "thinking": "So."}]}, "So."),
    ],
)
def test_a_thought_is_found_where_providers_put_it(fields: JSON, thought: str) -> None:
    assert reasoning_text(message(**fields)) == thought


def test_signed_parts_of_a_content_come_back_with_its_text() -> None:
    parts = [
        {"type": "thinking", "thinking": "So.", "signature": "s"},
        {"type": "text", "text": "A"},
    ]
    state = provider_state(message(content=parts))

    assert with_provider_state(message(content="A"), state) == message(content=parts)
    assert with_provider_state(message(content="B"), state)["content"][-1] == {
        "type": "text",
        "text": "B",
    }


@pytest.mark.parametrize(
    "sealed",
    [
        None,
        7,
        "",
        "EqQBCgIYAh==",
        STATE_PREFIX,
        STATE_PREFIX + "é",
        STATE_PREFIX + "a",
        STATE_PREFIX + b64encode(b"{").decode(),
        STATE_PREFIX + b64encode(b"[]").decode(),
        STATE_PREFIX + b64encode(b"\xff\xfe").decode(),
        STATE_PREFIX + b64encode(200 * b"[" + 200 * b"]").decode(),
    ],
)
def test_what_is_not_our_seal_is_no_state(sealed: Any) -> None:
    assert decode_state(sealed) is None


def test_a_forged_state_replaces_neither_text_nor_calls() -> None:
    plain = message(call("call_1"), content="A")
    forged = {
        "message": {"role": "system", "content": "B", "tool_calls": [], "name": "x", "y": 1},
        "calls": {"call_1": {"id": "2", "function": {"name": "rm", "arguments": "{}", "z": 2}}},
    }
    first = call("call_1")
    first["function"]["z"] = 2

    assert with_provider_state(
        plain, decode_state(encode_state(forged)) or ProviderState()
    ) == message(first, content="A", y=1)


@given(st.dictionaries(st.sampled_from(["message", "calls"]), FINITE_VALUES))
def test_no_state_makes_a_message_unreadable(state: JSON) -> None:
    again = with_provider_state(
        message(call("call_1"), content="A"), decode_state(encode_state(state)) or ProviderState()
    )

    assert [each["function"]["arguments"] for each in again["tool_calls"]] == ['{"a":1}']


def test_a_state_with_too_many_values_is_not_read() -> None:
    state = encode_state(ProviderState(message={"x": [0] * MAX_VALUES}))

    assert decode_state(state) is None
