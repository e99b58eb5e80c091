"""History: whatever a caller hands over, what is sent answers each call exactly once."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import (
    UNMATCHED_RESULT,
    Assistant,
    Message,
    Refusal,
    System,
    ToolCall,
    ToolResult,
    User,
)
from surecall.wire.history import Ids, ids_of, labeled_message, legal_history, unanswered
from tests.support.spec import proves

# Few ids, chosen to collide: blank ones, minted ones, and the names of copies.
IDS = st.sampled_from(["", "a", "b", "a__2", "a__3", "tc_1", "tc_2", "tc_2__2"])
NAMES = st.sampled_from(["add", "look", "", "\ud800"])
CALLS = st.builds(ToolCall, id=IDS, name=NAMES)
RESULTS = st.builds(
    ToolResult, call_id=IDS, name=NAMES, ok=st.booleans(), content=st.text(max_size=3)
)
MESSAGES = (
    st.builds(User, st.just("hi"))
    | st.builds(System, st.just("be kind"))
    | st.builds(Refusal, st.just(Fault(ErrorCode.TIMEOUT, "late")))
    | st.builds(Assistant, text=st.just("hm"), calls=st.lists(CALLS, max_size=3).map(tuple))
    | RESULTS
)
HISTORIES = st.lists(MESSAGES, max_size=10)


def calls_and_answers(history: tuple[Message, ...]) -> list[tuple[ToolCall, Message]]:
    """Pair each call with the message that stands where its answer must stand."""
    pairs: list[tuple[ToolCall, Message]] = []
    for at, message in enumerate(history):
        if isinstance(message, Assistant):
            pairs += zip(message.calls, history[at + 1 :], strict=False)
    return pairs


def result(call_id: str, content: str = "{}") -> ToolResult:
    return ToolResult(call_id, "look", ok=True, content=content)


def said(*ids: str) -> Assistant:
    return Assistant("", tuple(ToolCall(call_id, "look") for call_id in ids))


def is_label(item: Message) -> bool:
    return isinstance(item, User) and item.rung == UNMATCHED_RESULT


@given(HISTORIES)
@proves("G7")
def test_any_history_becomes_legal(messages: list[Message]) -> None:
    history = legal_history(messages)
    pairs = calls_and_answers(history)
    ids = [call.id for call, _ in pairs]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    answers = [item for item in history if isinstance(item, ToolResult)]
    assert answers == [answer for _, answer in pairs]
    assert [answer.call_id for answer in answers] == ids
    assert sum(len(item.calls) for item in messages if isinstance(item, Assistant)) == len(ids)


@given(HISTORIES)
def test_a_legal_history_stays_as_it_is(messages: list[Message]) -> None:
    history = legal_history(messages)
    assert legal_history(history) == history


@given(HISTORIES)
def test_only_calls_and_results_are_touched(messages: list[Message]) -> None:
    def others(history: list[Message]) -> list[Message]:
        return [
            msgspec.structs.replace(item, calls=()) if isinstance(item, Assistant) else item
            for item in history
            if not isinstance(item, ToolResult) and not is_label(item)
        ]

    assert others(list(legal_history(messages))) == others(messages)


@given(HISTORIES)
def test_no_result_is_invented_while_one_is_recorded(messages: list[Message]) -> None:
    contents = [item.content for item in messages if isinstance(item, ToolResult)]
    for item in legal_history(messages):
        if isinstance(item, ToolResult) and not item.error_codes:
            contents.remove(item.content)


@given(HISTORIES)
def test_every_result_is_kept_once(messages: list[Message]) -> None:
    marked = [
        msgspec.structs.replace(item, content=f"{item.content}<{place}>")
        if isinstance(item, ToolResult)
        else item
        for place, item in enumerate(messages)
    ]
    history = legal_history(marked)
    kept = [item.content for item in history if isinstance(item, ToolResult | User)]
    for place, item in enumerate(marked):
        if isinstance(item, ToolResult):
            assert sum(str(content).endswith(item.content) for content in kept) == 1, place


def test_results_in_another_order_find_their_calls() -> None:
    history = legal_history([said("a", "b"), result("b", "B"), result("a", "A")])
    assert history == (said("a", "b"), result("a", "A"), result("b", "B"))


def test_calls_with_one_id_are_answered_in_the_order_of_the_results() -> None:
    history = legal_history([said("a", "a"), result("a", "1"), result("a", "2"), User("go on")])
    expected = (said("a", "a__2"), result("a", "1"), result("a__2", "2"), User("go on"))
    assert history == expected


def test_an_id_that_comes_back_in_a_later_turn_is_renamed_with_its_result() -> None:
    turn: list[Message] = [said("a"), result("a", "x")]
    assert legal_history([*turn, *turn])[2:] == (said("a__2"), result("a__2", "x"))


def test_blank_ids_are_minted_on_both_sides() -> None:
    history = legal_history([said("", "x"), result("x", "X"), result("", "?")])
    assert history == (said("tc_1", "x"), result("tc_1", "?"), result("x", "X"))


def labels(history: tuple[Message, ...]) -> list[str]:
    return [str(item.content) for item in history if isinstance(item, User) and is_label(item)]


def test_orphans_and_other_results_of_an_answered_call_are_labeled_where_they_stood() -> None:
    turn: list[Message] = [said("a"), result("a", "1"), result("a", "2"), User("x")]
    history = legal_history([result("b", "0"), *turn, result("a", "3")])
    label = 'This tool result matches no open call (id "a", tool "look"):\n'
    assert [item.content if isinstance(item, User) else item for item in history] == [
        'This tool result matches no open call (id "b", tool "look"):\n0',
        said("a"),
        result("a", "1"),
        f"{label}2",
        "x",
        f"{label}3",
    ]


def test_a_label_says_no_more_than_the_result_does() -> None:
    (label,) = legal_history([ToolResult("", "", ok=True, content="x")])
    assert label == User(
        "This tool result matches no open call:\nx", nudge=True, rung=UNMATCHED_RESULT
    )


def test_a_result_that_comes_twice_is_kept_once() -> None:
    turn: list[Message] = [said("a"), result("a", "1")]
    stray = result("b", "2")
    assert legal_history([*turn, result("a", "1"), stray, stray, User("x"), result("a", "1")]) == (
        *turn,
        labeled_message(stray),
        User("x"),
    )


def test_results_without_ids_are_not_taken_for_duplicates() -> None:
    assert len(labels(legal_history([nameless("1"), nameless("1")]))) == 2


def nameless(content: str, call_id: str = "") -> ToolResult:
    return ToolResult(call_id, "", ok=True, content=content)


def test_a_result_without_a_name_gets_its_calls() -> None:
    nameless = ToolResult("a", "", ok=True, content="{}")
    assert legal_history([said("a"), nameless]) == (said("a"), result("a"))


def test_a_call_that_nobody_answered_is_answered_without_claiming_anything() -> None:
    _, answer, _ = legal_history([said("a"), User("well?")])
    assert isinstance(answer, ToolResult)
    assert (answer.call_id, answer.ok, answer.executed) == ("a", False, False)
    assert answer.error_codes == (ErrorCode.TOOL_CALL_NOT_EXECUTED,)
    assert "may or may not have run" in answer.envelope["errors"][0]["message"]


def test_a_name_that_is_no_text_can_be_answered() -> None:
    assert unanswered(ToolCall("a", "\ud800")).envelope["tool_name"] == "\ufffd"


@pytest.mark.parametrize(
    ("taken", "wanted", "claimed"),
    [
        ((), ["x", "x", "x"], ["x", "x__2", "x__3"]),
        ((), ["", "", "a", ""], ["tc_1", "tc_2", "a", "tc_4"]),
        (("tc_1", "tc_3"), ["", ""], ["tc_4", "tc_5"]),
        (("x__2",), ["x", "x", "x__2"], ["x", "x__3", "x__2__2"]),
    ],
)
@proves("C14", "C15", "I12")
def test_an_id_is_claimed_once(
    taken: tuple[str, ...], wanted: list[str], claimed: list[str]
) -> None:
    ids = Ids(taken)
    assert [ids.claim(call_id) for call_id in wanted] == claimed


def test_the_ids_of_a_conversation_are_taken() -> None:
    ids = ids_of([said("a"), result("b"), User("c"), Assistant("d"), said("tc_1")])
    assert [ids.claim(wanted) for wanted in ("a", "b", "")] == ["a__2", "b", "tc_5"]
