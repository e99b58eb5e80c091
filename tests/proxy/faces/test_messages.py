"""The Messages face as a whole: what it reads, that it is a face, and how it counts tokens."""

from typing import Any

import msgspec
import pytest

from surecall.proxy.faces.face import Face, Refused
from surecall.proxy.faces.messages import Messages
from surecall.proxy.faces.messages_state import seal
from tests.support.messages_face import FACE, TOOL, asked, heard, request, said, text

IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": 9_000 * "A"},
}


def count(**fields: Any) -> int:
    found = FACE.count_tokens(request(max_tokens=None, **fields))
    assert found.keys() == {"input_tokens"}
    tokens = found["input_tokens"]
    assert isinstance(tokens, int)
    return tokens


def test_it_is_a_face() -> None:
    face: Face = Messages()

    assert face.name == "messages"


def test_what_the_client_sent_is_kept_beside_what_the_upstream_is_asked() -> None:
    data = request(top_k=5, stream=True)

    found = FACE.parse(data)

    assert found.given == msgspec.json.decode(data)
    assert found.stream
    assert not found.data
    assert not asked().stream


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7"])
def test_a_body_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        FACE.parse(data)


def nested(depth: int) -> bytes:
    """Write a request that holds documents in documents, so many deep."""
    inner = '{"type":"document","source":{"type":"content","content":['
    content = depth * inner + '{"type":"text","text":"a"}' + depth * "]}}"
    return f'{{"model":"m","messages":[{{"role":"user","content":[{content}]}}]}}'.encode()


def test_documents_are_read_in_documents() -> None:
    assert FACE.parse(nested(9)).body["messages"] == [{"role": "user", "content": "a"}]


@pytest.mark.parametrize("depth", [300, 50_000])
def test_a_body_that_is_nested_too_deeply_is_refused(depth: int) -> None:
    with pytest.raises(Refused):
        FACE.parse(nested(depth))


def test_the_count_grows_with_texts_tools_and_images() -> None:
    plain = count()

    assert 0 < plain < 50
    assert plain < count(system="Be kind to everyone.") < count(system=9 * "Be kind. ")
    assert plain < count(tools=[TOOL])
    assert 1_600 < count(messages=[heard(text("a"), IMAGE)]) < 2_000


def test_the_count_survives_state_that_is_garbage() -> None:
    block = {"type": "redacted_thinking", "data": seal({"message": {"content": ["a", 7]}})}

    assert count(messages=[heard(text("a")), said(block, text("a"))]) > 0
