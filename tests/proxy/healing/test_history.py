"""The history of a request: legal, whole, and otherwise as the client wrote it."""

import pytest

from surecall.proxy.healing.history import Entry
from surecall.proxy.healing.memory import Aside, Memory, Remembered
from surecall.values.types import (
    JSON,
    UNMATCHED_RESULT,
    Assistant,
    ToolCall,
    ToolResult,
    User,
)
from tests.support.proxy import call, history, known, result, said


def sent(entries: tuple[Entry, ...]) -> list[str]:
    return [str(entry.fields.get("tool_call_id") or entry.fields["role"]) for entry in entries]


def test_a_legal_history_stays_as_it_is() -> None:
    messages = (
        {"role": "developer", "content": "Be brief."},
        said(call("c1", city="Oslo"), reasoning="Hm."),
        result("c1") | {"name": "get_weather"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]},
        {"role": "function", "name": "old", "content": "1"},
        said(text=""),
    )
    entries = history(*messages)

    assert [entry.place for entry in entries] == list(range(7))
    assert all(entry.fields is given for entry, given in zip(entries[1:], messages, strict=True))
    assert entries[5].value == User("1")


def test_what_is_no_name_of_a_role_or_tool_stays_as_it_is() -> None:
    messages = ({"role": ["user"], "content": "1"}, {"role": "tool", "name": {}, "content": "2"})
    entries = history(*messages, renamed={"a b": "a_b"})

    assert entries[1].fields == messages[0]
    assert entries[1].value == User("1")


def test_a_missing_result_is_filled_in() -> None:
    entries = history(said(call("c1")), {"role": "user", "content": "Go on."})

    assert sent(entries) == ["user", "assistant", "c1", "user"]
    assert [entry.place for entry in entries] == [0, 1, None, 2]
    assert "No result was recorded" in entries[2].fields["content"]


@pytest.mark.parametrize("given", [{}, {"tool_call_id": None}, {"tool_call_id": "c9"}])
def test_the_only_result_answers_the_only_open_call(given: JSON) -> None:
    entries = history(said(call("c1")), {"role": "tool", "content": "12"} | given)

    assert entries[2].fields == result("c1", "12")
    assert len(entries) == 3


def test_ids_that_are_no_texts_are_texts_on_both_sides() -> None:
    number = said(call("c1") | {"id": 7}, call(" c2 "), "odd")  # type: ignore[arg-type]
    entries = history(number, result("7") | {"tool_call_id": 7}, result(" c2 "))

    assert sent(entries) == ["user", "assistant", "7", "c2"]
    first, second, odd = entries[1].fields["tool_calls"]
    assert (first["id"], second["id"], odd) == ("7", "c2", "odd")


def test_a_call_outside_of_a_list_is_put_into_one() -> None:
    entries = history(said() | {"tool_calls": call("c1")}, result("c1"))

    assert entries[1].fields["tool_calls"] == [call("c1")]


def test_a_result_of_no_call_is_a_labeled_message_with_its_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    label = 'This tool result matches no open call (id "c1", tool "look"):'
    given = result("c1") | {"name": "look"}
    entries = history(given, given | {"content": parts, "cache_control": {}})

    assert [entry.fields for entry in entries[1:]] == [
        {"role": "user", "content": f"{label}\n12 degrees"},
        {
            "role": "user",
            "content": [{"type": "text", "text": label}, *parts],
            "cache_control": {},
        },
    ]
    assert [entry.place for entry in entries] == [0, None, None]
    assert [entry.value for entry in entries[1:]] == [
        User(entry.fields["content"], nudge=True, rung=UNMATCHED_RESULT) for entry in entries[1:]
    ]


def test_results_that_differ_in_their_images_alone_are_two() -> None:
    images = [
        {"content": [{"type": "image_url", "image_url": {"url": url}}]} for url in ("a:", "b:")
    ]
    first, second = (result("c1") | image for image in images)

    assert sent(history(said(call("c1")), first, second, first)) == [
        *("user", "assistant", "c1", "user"),
    ]


def test_ids_that_were_used_twice_are_told_apart() -> None:
    turn = (said(call("c1"), note=1), result("c1"))
    entries = history(*turn, *turn)

    assert sent(entries) == ["user", "assistant", "c1", "assistant", "c1__2"]
    assert entries[3].fields["tool_calls"][0]["id"] == "c1__2"
    assert entries[3].fields["note"] == 1
    assert [entry.place for entry in entries] == [0, 1, 2, None, None]


def test_what_was_left_out_is_put_back_with_the_refusals_beside_it() -> None:
    mine = known(memory=Memory())
    answer = result("bad", "refused")
    turn = Remembered({"reasoning": "Hm."}, {}, (Aside(1, call("bad", "nope"), answer),))
    mine.keep([ToolCall("c1", "get_weather")], turn)

    entries = history(said(call("c1")), result("c1"), of=mine)
    assert sent(entries) == ["user", "assistant", "c1", "bad"]
    assert entries[1].fields["reasoning"] == "Hm."
    more = history(said(call("c1")), result("c1"), {"role": "user", "content": "?"}, of=mine)
    assert sent(more) == ["user", "assistant", "c1", "bad", "user"]


def test_an_id_says_that_its_call_came_as_text() -> None:
    entries = history(said(call("text_tc_1"), call("c2")), result("text_tc_1"), result("c2"))

    turn = entries[1].value
    assert isinstance(turn, Assistant)
    assert [each.from_text for each in turn.calls] == [True, False]
    assert isinstance(entries[2].value, ToolResult)


def test_names_are_written_as_the_upstream_knows_them() -> None:
    turn = said(call("c1", "a.b"), {"id": "c2", "function": 7}, call("c3", "other"))
    answer = result("c1") | {"name": "a.b"}
    entries = history(turn, answer, said(call("c4", "other")), result("c4"), renamed={"a.b": "a_b"})

    assert entries[1].fields["tool_calls"][0]["function"]["name"] == "a_b"
    assert entries[1].fields["tool_calls"][2] == call("c3", "other")
    assert entries[2].fields["name"] == "a_b"
    assert entries[-2].place == 3
