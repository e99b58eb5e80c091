"""Which result answers which call: by id, by name, by order, or not at all."""

from typing import TypeGuard

import pytest

from surecall.values.types import (
    UNMATCHED_RESULT,
    Assistant,
    Message,
    ToolCall,
    ToolResult,
    User,
)
from surecall.wire.history import legal_history
from tests.support.steps import LINEAR, growth


def result(call_id: str, content: str) -> ToolResult:
    return ToolResult(call_id, "look", ok=True, content=content)


def nameless(content: str, call_id: str = "") -> ToolResult:
    return ToolResult(call_id, "", ok=True, content=content)


def said(*ids: str) -> Assistant:
    return Assistant("", tuple(ToolCall(call_id, "look") for call_id in ids))


def labels(history: tuple[Message, ...]) -> list[User]:
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
        pytest.param([LOOK, LATER, result("a", "1")], {"a": "1"}, id="late-by-id"),
        pytest.param([LOOK, Assistant("hm"), result("a", "1")], {"a": "1"}, id="after-a-text"),
        pytest.param(
            [LOOK, said("b"), result("b", "2"), result("a", "1")],
            {"a": "1", "b": "2"},
            id="a-turn-later-by-id",
        ),
        pytest.param(
            [LOOK, said("b"), result("b", "2"), nameless("1")],
            {"a": "1", "b": "2"},
            id="a-turn-later",
        ),
        pytest.param([LOOK, LATER, said("b"), nameless("2")], {"b": "2"}, id="the-nearest-turn"),
        pytest.param(
            [LOOK, LATER, said("b"), nameless("1"), nameless("2")],
            {"a": "1", "b": "2"},
            id="as-many-as-open-calls-of-all-turns",
        ),
        pytest.param([result("a", "1"), LOOK], {"a": "1"}, id="before-its-call"),
        pytest.param(
            [LOOK, nameless("1", "x"), LATER, result("a", "2")], {"a": "2"}, id="ids-come-first"
        ),
        pytest.param(
            [said("a", "b"), nameless("1"), nameless("2")],
            {"a": "1", "b": "2"},
            id="as-many-as-open-calls",
        ),
        pytest.param(
            [said("a", "b"), result("b", "2"), nameless("1", "x")],
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
            [LOOK, result("a", "1"), said("b"), nameless("2", "a")],
            {"a": "1", "b": "2"},
            id="the-id-of-an-earlier-turn",
        ),
    ],
)
def test_a_result_finds_its_call(messages: list[Message], answers: dict[str, str]) -> None:
    history = legal_history(messages)
    found = {item.call_id: item.content for item in history if is_recorded(item)}
    assert found == answers
    results = sum(isinstance(item, ToolResult) for item in messages)
    assert len(labels(history)) == results - len(answers)


def is_recorded(item: Message) -> TypeGuard[ToolResult]:
    return isinstance(item, ToolResult) and not item.error_codes


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([nameless("1")], id="no-call"),
        pytest.param([said("a", "b"), nameless("1")], id="one-result-for-two-calls"),
        pytest.param([LOOK, of("add", "1")], id="another-tool"),
        pytest.param([ADDS_AND_LOOKS, of("look", "1"), of("look", "2")], id="the-same-tool-twice"),
        pytest.param([result("a", "1"), LOOK, said("a")], id="before-two-calls-of-its-id"),
    ],
)
def test_what_could_belong_to_several_calls_or_to_none_is_labeled(messages: list[Message]) -> None:
    history = legal_history(messages)
    assert not any(map(is_recorded, history))
    assert len(labels(history)) == sum(isinstance(item, ToolResult) for item in messages)


def test_another_result_of_an_answered_call_is_not_given_to_its_neighbor() -> None:
    history = legal_history([said("a", "b"), result("a", "1"), result("a", "2")])
    assert [item.content for item in history if is_recorded(item)] == ["1"]
    assert len(labels(history)) == 1
    later = legal_history([said("a", "b"), result("b", "2"), said("c"), result("c", "3"), *history])
    assert len(labels(later)) == 1


def test_a_late_result_of_an_answered_call_is_not_given_to_an_open_one() -> None:
    history = legal_history(
        [LOOK, result("a", "1"), said("b"), LATER, said("c"), result("c", "3"), result("a", "2")]
    )
    assert [item.content for item in history if is_recorded(item)] == ["1", "3"]
    assert len(labels(history)) == 1


def test_matching_takes_steps_in_proportion_to_the_history() -> None:
    turn: list[Message] = [said("", ""), nameless("1"), nameless("2"), nameless("3")]

    assert growth(lambda size: legal_history(turn * size), 100) < LINEAR
