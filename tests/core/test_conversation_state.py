"""What is kept of a conversation, as values: who may begin a turn, and what is written."""

import pickle

import pytest

from surecall import ConfigError, ConversationBusy, ConversationTaken, Decision, Run, Stored
from surecall.core.conversation_state import (
    SCHEMA_VERSION,
    ConversationState,
    Hold,
    common_prefix_length,
    decode_state,
    encode_head,
)
from surecall.settings.presets import raw
from surecall.values.types import Assistant, Message, ToolCall, ToolSpec, User
from surecall.wire.chat_format import encode

HELLO, CALLS = User("Hello"), Assistant("", (ToolCall("c1", "pay", {"amount": 5}),))
RUN = Run(
    "r",
    "m",
    raw(),
    (HELLO, CALLS),
    tools=(ToolSpec("pay", "", {}),),
    decisions={"c1": Decision.confirm("It costs.")},
)
HOLD = Hold("somebody", until=100.0)


def written(kept: ConversationState) -> Stored:
    return Stored(kept.version, encode_head(kept), [encode(message) for message in kept.messages])


@pytest.mark.parametrize(
    "kept",
    [
        ConversationState(),
        ConversationState(3, (HELLO,), extras={"title": "Hello"}),
        ConversationState(7).with_released_turn(RUN, is_over=False),
        ConversationState(7).with_released_turn(RUN, is_over=True),
        ConversationState(7, extras={"n": [1, None]}).with_held_turn(RUN, HOLD),
    ],
)
def test_what_is_written_reads_the_same(kept: ConversationState) -> None:
    assert decode_state("k", written(kept)) == kept


def test_an_open_turn_is_the_run_without_what_its_next_runner_has() -> None:
    kept = ConversationState().with_released_turn(RUN, is_over=False)

    assert kept.run is not None
    assert kept.run.messages == RUN.messages
    assert kept.run.tools == ()
    assert [(call.call_id, call.reason) for call in kept.waiting] == [("c1", "It costs.")]


def test_nothing_waits_while_somebody_is_at_work_or_when_the_turn_is_over() -> None:
    assert ConversationState().with_held_turn(RUN, HOLD).waiting == ()
    assert ConversationState().with_released_turn(RUN, is_over=True).waiting == ()


def test_a_hold_keeps_others_away_until_it_has_run_out() -> None:
    kept = ConversationState().with_held_turn(RUN, HOLD)

    with pytest.raises(ConversationBusy, match="in progress"):
        kept.require_free(now=99.0)
    assert kept.require_free(now=100.0) == ConversationState().with_released_turn(
        RUN, is_over=False
    )
    assert ConversationState().require_free(now=0.0) == ConversationState()


def test_words_do_not_leave_a_call_behind_that_waits() -> None:
    with pytest.raises(ConversationBusy, match="need human approval first: pay") as busy:
        ConversationState().with_released_turn(RUN, is_over=False).require_no_waiting_calls()

    assert [call.call_id for call in busy.value.waiting] == ["c1"]
    assert ConversationState(1).require_no_waiting_calls() == ConversationState(1)


def called(**arguments: object) -> Assistant:
    return Assistant("", (ToolCall("1", "pay", arguments),))


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ((), (), 0),
        ((HELLO,), (HELLO,), 1),
        ((HELLO,), (HELLO, CALLS), 1),
        ((HELLO, CALLS), (HELLO,), 1),
        ((HELLO, CALLS), (HELLO, HELLO), 1),
        ((CALLS,), (HELLO,), 0),
        ((called(x=True),), (called(x=True),), 1),
        ((called(x=True),), (called(x=1),), 0),
    ],
)
def test_only_what_differs_is_written_again(
    before: tuple[Message, ...], after: tuple[Message, ...], same: int
) -> None:
    assert common_prefix_length(before, after) == same
    assert common_prefix_length(before, before) == len(before)


def test_what_is_known_to_be_the_same_is_not_compared() -> None:
    assert common_prefix_length((HELLO, CALLS), (CALLS, CALLS), start=1) == 2


def test_what_a_newer_version_wrote_is_left_alone() -> None:
    head = encode_head(ConversationState()).replace(
        b'"schema_version":%d' % SCHEMA_VERSION, b'"schema_version":%d' % (SCHEMA_VERSION + 1)
    )
    with pytest.raises(ConfigError, match="'k' was written by a newer version; update surecall"):
        decode_state("k", Stored(1, head, ()))


@pytest.mark.parametrize("head", [b"", b"{", b"[]", b"\xff", b"{}", b'{"schema_version":"x"}'])
def test_a_head_that_is_none_is_told_in_one_sentence(head: bytes) -> None:
    with pytest.raises(ConfigError, match="'k' cannot be read"):
        decode_state("k", Stored(1, head, ()))


@pytest.mark.parametrize("message", [b"", b"7", b'{"role":"robot"}', b"[" * 100_000, b"\xff"])
def test_a_message_that_is_none_is_told_in_one_sentence(message: bytes) -> None:
    with pytest.raises(ConfigError, match="'k' cannot be read"):
        decode_state("k", Stored(1, encode_head(ConversationState()), (encode(HELLO), message)))


def test_the_errors_travel_between_processes() -> None:
    busy = ConversationBusy(
        "Wait.", ConversationState().with_released_turn(RUN, is_over=False).waiting
    )
    again = pickle.loads(pickle.dumps(busy))  # noqa: S301  # our own bytes

    assert (str(again), again.waiting) == ("Wait.", busy.waiting)
    assert str(pickle.loads(pickle.dumps(ConversationTaken("Gone.")))) == "Gone."  # noqa: S301  # see above
