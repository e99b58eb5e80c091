"""A sealed turn is whole, or the place of the broken seal is named."""

from typing import Any

import pytest

from surecall.simulator.seals import broken_seals, is_signature, sealed, signature
from surecall.testing import calls
from surecall.values.types import JSON


def turn() -> JSON:
    message: JSON = calls("ping")["choices"][0]["message"]
    return sealed(message, "abc")


def test_a_turn_that_comes_back_as_it_was_is_whole() -> None:
    assert broken_seals(turn()) == []


@pytest.mark.parametrize("value", [None, "", "abc", "abc.def", 7, [], {}])
def test_a_signature_that_was_changed_is_none(value: Any) -> None:
    assert is_signature(signature("abc"))
    assert not is_signature(value)


@pytest.mark.parametrize("place", ["encrypted_content", "content", "thinking_blocks"])
@pytest.mark.parametrize("value", [None, "", [], ["a"], [{"signature": signature("abc")}]])
def test_a_place_of_the_message_is_named_where_the_seal_is_lost(place: str, value: Any) -> None:
    assert broken_seals(turn() | {place: value}) == [place]


@pytest.mark.parametrize("place", ["seal", "function"])
def test_a_place_of_a_call_is_named_where_the_seal_is_lost(place: str) -> None:
    message = turn()
    values: tuple[Any, ...] = (None, {}, "a")
    for value in values:
        message["tool_calls"][0][place] = value
        assert broken_seals(message) == [f"tool_calls[0].{place}"]
