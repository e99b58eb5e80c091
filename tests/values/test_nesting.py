"""The limits on nesting, which are the same on every Python and at every depth of the stack."""

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.nesting import (
    MAX_DEPTH,
    MAX_WRAPPED_DEPTH,
    TooDeep,
    check_depth,
    decode_json,
    decode_prefix,
    encode_json,
)
from tests.support.costly_inputs import DEPTHS, nested, nested_text

DECODER = json.JSONDecoder()


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_above_the_limit_is_refused_whether_or_not_it_ends(opening: str, depth: int) -> None:
    whole = nested_text(depth, opening)
    for text in (whole, opening * depth, whole + " and more", "\ufeff \n" + whole):
        with pytest.raises(TooDeep, match="more than 128 levels"):
            check_depth(text)
        with pytest.raises(TooDeep):
            check_depth(text.encode())
        with pytest.raises(TooDeep):
            decode_json(text)
    for text in (whole, opening * depth, whole + " and more"):
        with pytest.raises(TooDeep):
            decode_prefix(DECODER, "f(" + text, 2)


def test_json_at_the_limit_is_decoded_and_encoded() -> None:
    text = nested_text(MAX_DEPTH)
    assert encode_json(decode_json(text), msgspec.json.encode) == text.encode()
    assert decode_prefix(DECODER, text + "…") == (decode_json(text), len(text))
    wrapped = nested_text(MAX_WRAPPED_DEPTH)
    assert decode_json(wrapped, list[Any], limit=MAX_WRAPPED_DEPTH) == json.loads(wrapped)
    with pytest.raises(TooDeep, match="more than 256 levels"):
        decode_json(f"[{wrapped}]", limit=MAX_WRAPPED_DEPTH)


@pytest.mark.parametrize(
    "value",
    [["[" * 900], {"{[" * 900: '"\\' * 900 + "["}, [[], {}] * 900, "[" * 900, ["\\", "[" * 900]],
)
def test_brackets_in_texts_and_side_by_side_are_no_levels(value: Any) -> None:
    assert decode_json(encode_json(value, json.dumps)) == value
    assert decode_json(encode_json(value, msgspec.json.encode)) == value


def test_what_is_no_container_has_no_levels() -> None:
    check_depth("<script>" + "{" * 900)
    check_depth(b"<script>" + b"{" * 900)
    check_depth('["' + "[" * 900)  # a text that never ends


def test_malformed_json_is_refused_as_such_where_it_is_not_too_deep() -> None:
    for text in ("[1 2" + "[" * 20, "{", ""):
        with pytest.raises(msgspec.DecodeError):
            decode_json(text)
    # Only what comes before the mistake is JSON.
    with pytest.raises(json.JSONDecodeError):
        decode_prefix(DECODER, "[1 2" + "[" * 900)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_value_above_the_limit_is_not_encoded(depth: int) -> None:
    for value in (nested(depth), {"a": nested(depth)}, (nested(depth),)):
        for encoder in (msgspec.json.encode, lambda each: json.dumps(each).encode()):
            with pytest.raises(TooDeep, match="more than 128 levels"):
                encode_json(value, encoder)


def test_a_value_that_contains_itself_is_not_encoded() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TooDeep):
        encode_json(loop, msgspec.json.encode)


def test_a_value_that_is_shared_at_every_level_is_refused_without_writing_it() -> None:
    shared: Any = {}
    for _ in range(5_000):
        shared = {"error": [shared], "metadata": shared}
    with pytest.raises(TooDeep):
        encode_json(shared, msgspec.json.encode)


@dataclass
class Link:
    inner: "Link | None" = None


class Node(msgspec.Struct):
    inner: "Node | None" = None


@pytest.mark.parametrize("kind", [Link, Node])
@pytest.mark.parametrize("depth", DEPTHS)
def test_objects_are_levels_too(kind: type[Link] | type[Node], depth: int) -> None:
    chain: Any = None
    for _ in range(depth):
        chain = kind(chain)
    with pytest.raises(TooDeep):
        encode_json(chain, msgspec.json.encode)
    while chain:  # or the interpreter frees them recursively
        chain = chain.inner


TEXTS = st.text(st.sampled_from('"\\[{]}aé\n'), max_size=6)
TREES = st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


def levels(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value
    return 1 + max(map(levels, items), default=0) if isinstance(value, dict | list) else 0


@given(TREES, st.integers(0, 5), st.booleans())
def test_levels_are_counted_whatever_the_texts_hold(value: Any, limit: int, ascii_: bool) -> None:  # noqa: FBT001  # generated
    text = json.dumps(value, ensure_ascii=ascii_)
    for check in (
        lambda: check_depth(text, limit),
        lambda: check_depth(text.encode(), limit),
        lambda: encode_json(value, json.dumps, limit=limit),
    ):
        if levels(value) > limit:
            with pytest.raises(TooDeep):
                check()
        else:
            check()
