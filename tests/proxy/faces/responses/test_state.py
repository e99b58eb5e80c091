"""Opaque state goes through a client and back as it came; garbage is passed over."""

import base64
from typing import Any

import pytest

from surecall.proxy.faces.responses.state import PREFIX, State, pack, state_of, unpack
from tests.support.responses import call


def test_a_state_is_read_as_it_was_written() -> None:
    state = State("7", opens=True, message={"reasoning": "é", "x": [1, None]}, calls={"c": {}})

    assert unpack(pack(state)) == state


def test_the_state_of_a_message_is_what_is_not_documented() -> None:
    message = {
        "role": "assistant",
        "content": "a",
        "refusal": None,
        "reasoning_details": [{"a": 1}],
    }
    signed = call(extra_content={"google": {"thought_signature": "s"}})

    state = state_of("7", message, [signed, call("c2")])

    assert state.message == {"reasoning_details": [{"a": 1}]}
    assert state.calls == {"c1": {"extra_content": {"google": {"thought_signature": "s"}}}}


def test_what_is_told_otherwise_is_no_state() -> None:
    message = {"refusal": "No.", "annotations": [], "audio": {"id": "a"}}

    assert state_of("7", message, []) == State("7")


def encoded(text: bytes) -> str:
    return PREFIX + base64.b64encode(text).decode()


@pytest.mark.parametrize(
    "text",
    [
        *(None, 1, "", "gAAAAAB", PREFIX + "!", PREFIX + "é", PREFIX + "AAA"),
        *(
            encoded(b"{"),
            encoded(b"[]"),
            encoded(b'{"message": []}'),
            encoded(b'{"calls": {"a": 1}}'),
        ),
        encoded(b'{"message": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_what_is_not_ours_is_passed_over(text: Any) -> None:
    assert unpack(text) is None
