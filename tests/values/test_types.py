"""Tests of `surecall.values.types`."""

import copy
import pickle
from pathlib import Path

import msgspec
import pytest

from surecall.runtime.recording import JsonlSink
from surecall.runtime.transport import OpenAICompatible
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import (
    Assistant,
    Message,
    Problem,
    Refusal,
    Secret,
    System,
    ToolCall,
    ToolResult,
    Usage,
    User,
    sha256,
)
from tests.support.spec import proves

# The values everything is made of: secrets that stay secret, sums, and copies


KEY = "sk-canary/47+11=ab/cdEF"


@proves("G5")
def test_a_secret_is_shown_in_no_way(tmp_path: Path) -> None:
    secret = Secret(KEY)
    assert KEY not in f"{secret}{secret!r}{[secret]}{vars(OpenAICompatible('http://h', secret))}"
    with pytest.raises(TypeError, match="cannot be serialized"):
        secret.__reduce__()
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)
    assert (bool(secret), bool(Secret(""))) == (True, False)
    assert repr(JsonlSink(tmp_path, secret)).count("canary") == 0


def test_a_secret_cannot_be_copied_or_pickled_by_accident() -> None:
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be serialized"):
            copied(Secret(KEY))
    assert Secret(KEY).reveal() == KEY


CALL = ToolCall("c1", "add", {"a": [1]})
TOO_MANY = ToolCall(
    "c2", "add", problem=Problem(ErrorCode.TOOL_CALL_NOT_EXECUTED, "One call per turn.")
)
BROKEN = ToolCall("c3", "add", problem=Problem(ErrorCode.ARGUMENT_ERROR, "a is missing."))


@pytest.mark.parametrize(
    "message",
    [
        System("Be brief."),
        User("hi"),
        User([{"type": "text", "text": "hi"}], nudge=True, rung="remind"),
        Assistant("", (CALL, TOO_MANY), (BROKEN,), "tool_calls", {"reasoning": "so"}),
        ToolResult("c1", "add", ok=True, content='{"ok":true}', error_codes=("X",)),
        Refusal(Fault(ErrorCode.AUTH, "no", 401)),
    ],
)
def test_a_message_is_written_with_its_role_and_read_back_as_it_was(message: Message) -> None:
    written = msgspec.json.encode(message)

    assert msgspec.json.decode(written)["role"] in {
        "system",
        "user",
        "assistant",
        "tool",
        "refusal",
    }
    assert msgspec.json.decode(written, type=Message) == message


def test_a_private_call_has_arguments_of_its_own_all_the_way_down() -> None:
    mine = CALL.with_copied_arguments()
    assert mine == CALL
    mine.arguments["a"].append(2)

    assert CALL.arguments == {"a": [1]}


def test_a_call_is_ignored_when_it_was_one_too_many_and_not_for_other_problems() -> None:
    assert [call.is_ignored for call in (CALL, TOO_MANY, BROKEN)] == [False, True, False]


def test_ignored_are_the_calls_beyond_the_limit_and_those_that_were_dropped() -> None:
    assert Assistant("", (CALL, TOO_MANY, BROKEN), (CALL,)).ignored_calls == (TOO_MANY, CALL)


@pytest.mark.parametrize(
    ("message", "asks"),
    [
        (User("a"), False),
        (User("a", nudge=True), True),
        (User("a", nudge=True, rung="remind"), False),
    ],
)
def test_the_loop_asks_when_it_nudges_without_a_step_of_the_ladder(
    message: User, *, asks: bool
) -> None:
    assert message.is_final_request is asks


def test_usage_adds_up_field_by_field() -> None:
    one, other = Usage(1, 2, 3, 4, 5, 0.5), Usage(10, 20, 30, 40, 50, 0.25)

    assert one + other == Usage(11, 22, 33, 44, 55, 0.75)
    assert one + Usage() == one


@pytest.mark.parametrize(
    ("one", "other", "cost"),
    [(None, None, None), (None, 0.5, 0.5), (0.5, None, 0.5), (0.0, None, 0.0)],
)
def test_a_cost_is_known_when_either_side_knows_one(
    one: float | None, other: float | None, cost: float | None
) -> None:
    assert (Usage(cost=one) + Usage(cost=other)).cost == cost


def test_a_result_decodes_its_envelope() -> None:
    assert ToolResult("c1", "add", ok=True, content='{"data":3}').envelope == {"data": 3}


# Digests are those that everybody else computes


# From FIPS 180-2, appendix B.1.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_digest_is_that_of_the_standard() -> None:
    assert sha256(b"abc").hex() == ABC
