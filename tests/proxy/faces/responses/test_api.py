"""The face as a whole: bytes in, an answer out."""

import pytest

from surecall.proxy.faces.face import Face, Failure, Refused
from surecall.proxy.faces.responses import Responses
from tests.support.responses import FACE, ask, completion


def test_it_is_a_face() -> None:
    face: Face = Responses()

    assert face.name == "responses"


def test_a_request_is_read() -> None:
    asked = ask(stream=True)

    assert asked.stream
    assert asked.body["messages"] == [{"role": "user", "content": "Hi"}]
    assert asked.given == {"model": "m", "input": "Hi", "stream": True}


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"a": NaN, "b": "\\ud800"}'])
def test_what_is_not_a_request_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        FACE.parse(data)


def test_an_answer_is_written() -> None:
    answer = FACE.render(ask(), completion("Hm."))

    assert (answer["id"], answer["status"], answer["object"]) == ("resp_7", "completed", "response")
    assert answer["output"][0]["content"][0]["text"] == "Hm."


def test_an_error_is_written() -> None:
    assert FACE.error(Failure(400, "m", "c"))["error"]["code"] == "c"
