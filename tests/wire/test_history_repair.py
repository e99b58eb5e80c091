"""Tests of `surecall.wire.history_repair`."""

from typing import TypeGuard

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
from surecall.wire.history_repair import (
    CallIds,
    labeled_message,
    missing_result,
    repair_history,
    used_call_ids,
)
from tests.support.spec import proves
from tests.support.timing import LINEAR, growth

# History: whatever a caller hands over, what is sent answers each call exactly once


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
    history = repair_history(messages)
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
    history = repair_history(messages)
    assert repair_history(history) == history


@given(HISTORIES)
def test_only_calls_and_results_are_touched(messages: list[Message]) -> None:
    def others(history: list[Message]) -> list[Message]:
        return [
            msgspec.structs.replace(item, calls=()) if isinstance(item, Assistant) else item
            for item in history
            if not isinstance(item, ToolResult) and not is_label(item)
        ]

    assert others(list(repair_history(messages))) == others(messages)


@given(HISTORIES)
def test_no_result_is_invented_while_one_is_recorded(messages: list[Message]) -> None:
    contents = [item.content for item in messages if isinstance(item, ToolResult)]
    for item in repair_history(messages):
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
    history = repair_history(marked)
    kept = [item.content for item in history if isinstance(item, ToolResult | User)]
    for place, item in enumerate(marked):
        if isinstance(item, ToolResult):
            assert sum(str(content).endswith(item.content) for content in kept) == 1, place


def test_results_in_another_order_find_their_calls() -> None:
    history = repair_history([said("a", "b"), result("b", "B"), result("a", "A")])
    assert history == (said("a", "b"), result("a", "A"), result("b", "B"))


def test_calls_with_one_id_are_answered_in_the_order_of_the_results() -> None:
    history = repair_history([said("a", "a"), result("a", "1"), result("a", "2"), User("go on")])
    expected = (said("a", "a__2"), result("a", "1"), result("a__2", "2"), User("go on"))
    assert history == expected


def test_an_id_that_comes_back_in_a_later_turn_is_renamed_with_its_result() -> None:
    turn: list[Message] = [said("a"), result("a", "x")]
    assert repair_history([*turn, *turn])[2:] == (said("a__2"), result("a__2", "x"))


def test_blank_ids_are_minted_on_both_sides() -> None:
    history = repair_history([said("", "x"), result("x", "X"), result("", "?")])
    assert history == (said("tc_1", "x"), result("tc_1", "?"), result("x", "X"))


def labels(history: tuple[Message, ...]) -> list[str]:
    return [str(item.content) for item in history if isinstance(item, User) and is_label(item)]


def test_orphans_and_other_results_of_an_answered_call_are_labeled_where_they_stood() -> None:
    turn: list[Message] = [said("a"), result("a", "1"), result("a", "2"), User("x")]
    history = repair_history([result("b", "0"), *turn, result("a", "3")])
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
    (label,) = repair_history([ToolResult("", "", ok=True, content="x")])
    assert label == User(
        "This tool result matches no open call:\nx", nudge=True, rung=UNMATCHED_RESULT
    )


def test_a_result_that_comes_twice_is_kept_once() -> None:
    turn: list[Message] = [said("a"), result("a", "1")]
    stray = result("b", "2")
    assert repair_history([*turn, result("a", "1"), stray, stray, User("x"), result("a", "1")]) == (
        *turn,
        labeled_message(stray),
        User("x"),
    )


def test_results_without_ids_are_not_taken_for_duplicates() -> None:
    assert len(labels(repair_history([nameless("1"), nameless("1")]))) == 2


def nameless(content: str, call_id: str = "") -> ToolResult:
    return ToolResult(call_id, "", ok=True, content=content)


def test_a_result_without_a_name_gets_its_calls() -> None:
    nameless = ToolResult("a", "", ok=True, content="{}")
    assert repair_history([said("a"), nameless]) == (said("a"), result("a"))


def test_a_call_that_nobody_answered_is_answered_without_claiming_anything() -> None:
    _, answer, _ = repair_history([said("a"), User("well?")])
    assert isinstance(answer, ToolResult)
    assert (answer.call_id, answer.ok, answer.executed) == ("a", False, False)
    assert answer.error_codes == (ErrorCode.CALL_OUTCOME_UNKNOWN,)
    assert "may or may not have run" in answer.envelope["errors"][0]["message"]


def test_a_name_that_is_no_text_can_be_answered() -> None:
    assert missing_result(ToolCall("a", "\ud800")).envelope["tool_name"] == "\ufffd"


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
    ids = CallIds(taken)
    assert [ids.claim(call_id) for call_id in wanted] == claimed


def test_the_ids_of_a_conversation_are_taken() -> None:
    ids = used_call_ids([said("a"), result("b"), User("c"), Assistant("d"), said("tc_1")])
    assert [ids.claim(wanted) for wanted in ("a", "b", "")] == ["a__2", "b", "tc_5"]


# Which result answers which call: by id, by name, by order, or not at all


def result_matching_result(call_id: str, content: str) -> ToolResult:
    return ToolResult(call_id, "look", ok=True, content=content)


def result_matching_labels(history: tuple[Message, ...]) -> list[User]:
    return [item for item in history if isinstance(item, User) and item.rung == UNMATCHED_RESULT]


def of(name: str, content: str) -> ToolResult:
    return ToolResult("", name, ok=True, content=content)


def calling(**names: str) -> Assistant:
    return Assistant("", tuple(ToolCall(call_id, name) for call_id, name in names.items()))


LOOK, LATER = said("a"), User("well?")
ADDS_AND_LOOKS = calling(a="add", b="look")


@pytest.mark.parametrize(
    ("messages", "answers"),
    [
        pytest.param([LOOK, nameless("1")], {"a": "1"}, id="one-open-call"),
        pytest.param([LOOK, nameless("1", "x")], {"a": "1"}, id="an-unknown-id"),
        pytest.param([LOOK, LATER, nameless("1")], {"a": "1"}, id="late"),
        pytest.param([LOOK, LATER, result_matching_result("a", "1")], {"a": "1"}, id="late-by-id"),
        pytest.param(
            [LOOK, Assistant("hm"), result_matching_result("a", "1")], {"a": "1"}, id="after-a-text"
        ),
        pytest.param(
            [LOOK, said("b"), result_matching_result("b", "2"), result_matching_result("a", "1")],
            {"a": "1", "b": "2"},
            id="a-turn-later-by-id",
        ),
        pytest.param(
            [LOOK, said("b"), result_matching_result("b", "2"), nameless("1")],
            {"a": "1", "b": "2"},
            id="a-turn-later",
        ),
        pytest.param([LOOK, LATER, said("b"), nameless("2")], {"b": "2"}, id="the-nearest-turn"),
        pytest.param(
            [LOOK, LATER, said("b"), nameless("1"), nameless("2")],
            {"a": "1", "b": "2"},
            id="as-many-as-open-calls-of-all-turns",
        ),
        pytest.param([result_matching_result("a", "1"), LOOK], {"a": "1"}, id="before-its-call"),
        pytest.param(
            [LOOK, nameless("1", "x"), LATER, result_matching_result("a", "2")],
            {"a": "2"},
            id="ids-come-first",
        ),
        pytest.param(
            [said("a", "b"), nameless("1"), nameless("2")],
            {"a": "1", "b": "2"},
            id="as-many-as-open-calls",
        ),
        pytest.param(
            [said("a", "b"), result_matching_result("b", "2"), nameless("1", "x")],
            {"a": "1", "b": "2"},
            id="what-the-ids-leave",
        ),
        pytest.param(
            [ADDS_AND_LOOKS, of("look", "2"), of("add", "1")], {"a": "1", "b": "2"}, id="by-name"
        ),
        pytest.param([ADDS_AND_LOOKS, of("look", "2")], {"b": "2"}, id="by-name-alone"),
        pytest.param(
            [ADDS_AND_LOOKS, of("look", "2"), nameless("1")],
            {"a": "1", "b": "2"},
            id="by-name-then-by-order",
        ),
        pytest.param(
            [said("a", "b"), of("look", "1"), of("look", "2")],
            {"a": "1", "b": "2"},
            id="by-name-in-order",
        ),
        pytest.param([calling(a=""), of("look", "1")], {"a": "1"}, id="a-call-without-a-name"),
        pytest.param([LOOK, nameless("1"), nameless("2")], {"a": "1"}, id="the-first-of-two"),
        pytest.param(
            [LOOK, of("add", "1"), nameless("2")], {"a": "2"}, id="the-first-that-may-be-it"
        ),
        pytest.param(
            [LOOK, result_matching_result("a", "1"), said("b"), nameless("2", "a")],
            {"a": "1", "b": "2"},
            id="the-id-of-an-earlier-turn",
        ),
    ],
)
def test_a_result_finds_its_call(messages: list[Message], answers: dict[str, str]) -> None:
    history = repair_history(messages)
    found = {item.call_id: item.content for item in history if is_recorded(item)}
    assert found == answers
    results = sum(isinstance(item, ToolResult) for item in messages)
    assert len(result_matching_labels(history)) == results - len(answers)


def is_recorded(item: Message) -> TypeGuard[ToolResult]:
    return isinstance(item, ToolResult) and not item.error_codes


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([nameless("1")], id="no-call"),
        pytest.param([said("a", "b"), nameless("1")], id="one-result-for-two-calls"),
        pytest.param([LOOK, of("add", "1")], id="another-tool"),
        pytest.param([ADDS_AND_LOOKS, of("look", "1"), of("look", "2")], id="the-same-tool-twice"),
        pytest.param(
            [result_matching_result("a", "1"), LOOK, said("a")], id="before-two-calls-of-its-id"
        ),
    ],
)
def test_what_could_belong_to_several_calls_or_to_none_is_labeled(messages: list[Message]) -> None:
    history = repair_history(messages)
    assert not any(map(is_recorded, history))
    assert len(result_matching_labels(history)) == sum(
        isinstance(item, ToolResult) for item in messages
    )


def test_another_result_of_an_answered_call_is_not_given_to_its_neighbor() -> None:
    history = repair_history(
        [said("a", "b"), result_matching_result("a", "1"), result_matching_result("a", "2")]
    )
    assert [item.content for item in history if is_recorded(item)] == ["1"]
    assert len(result_matching_labels(history)) == 1
    later = repair_history(
        [
            said("a", "b"),
            result_matching_result("b", "2"),
            said("c"),
            result_matching_result("c", "3"),
            *history,
        ]
    )
    assert len(result_matching_labels(later)) == 1


def test_a_late_result_of_an_answered_call_is_not_given_to_an_open_one() -> None:
    history = repair_history(
        [
            LOOK,
            result_matching_result("a", "1"),
            said("b"),
            LATER,
            said("c"),
            result_matching_result("c", "3"),
            result_matching_result("a", "2"),
        ]
    )
    assert [item.content for item in history if is_recorded(item)] == ["1", "3"]
    assert len(result_matching_labels(history)) == 1


def test_matching_takes_steps_in_proportion_to_the_history() -> None:
    turn: list[Message] = [said("", ""), nameless("1"), nameless("2"), nameless("3")]

    assert growth(lambda size: repair_history(turn * size), 100) < LINEAR
