"""Tests of `surecall.proxy.repair.request_history`."""

import pytest

from surecall.proxy.repair.request_history import (
    ConversationMemory,
    HistoryEntry,
    RejectedCall,
    RememberedTurn,
    TurnMemory,
    restore_turn,
    turn_to_remember,
)
from surecall.values.errors import ErrorCode
from surecall.values.types import (
    JSON,
    UNMATCHED_RESULT,
    Assistant,
    Problem,
    ToolCall,
    ToolResult,
    User,
)
from tests.support.proxy import call, history, known, result, said

# The history of a request: legal, whole, and otherwise as the client wrote it


def sent(entries: tuple[HistoryEntry, ...]) -> list[str]:
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

    assert [entry.position for entry in entries] == list(range(7))
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
    assert [entry.position for entry in entries] == [0, 1, None, 2]
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
    assert [entry.position for entry in entries] == [0, None, None]
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
    assert [entry.position for entry in entries] == [0, 1, 2, None, None]


def test_what_was_left_out_is_put_back_with_the_refusals_beside_it() -> None:
    mine = known(memory=TurnMemory())
    answer = result("bad", "refused")
    turn = RememberedTurn({"reasoning": "Hm."}, {}, (RejectedCall(1, call("bad", "nope"), answer),))
    mine.store([ToolCall("c1", "get_weather")], turn)

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
    assert entries[-2].position == 3


# What a client does not send back is remembered, for its own conversation alone


THOUGHT = RememberedTurn({"reasoning_content": "Hm.", "details": [{"sig": "é"}]})
ONE = ToolCall("c1", "get_weather")


def test_a_turn_is_found_by_its_calls_and_its_conversation() -> None:
    memory = TurnMemory()
    known(memory=memory).store([ONE], THOUGHT)

    assert known(memory=memory).find(said(call("c1"))) == THOUGHT
    assert known(memory=memory).find(said(call("c2"))) is None
    assert known(memory=memory).find(said(text="no calls")) is None
    assert known(memory=memory, whose="you").find(said(call("c1"))) is None
    assert known(memory=TurnMemory()).find(said(call("c1"))) is None


def test_another_beginning_is_another_conversation() -> None:
    memory = TurnMemory()
    known(memory=memory).store([ONE], THOUGHT)
    other = ConversationMemory(memory, "me", [{"role": "user", "content": "Something else"}])
    nobody = ConversationMemory(memory, "me", [7, {"role": "system", "content": "x"}])
    assert other.find(said(call("c1"))) is None
    assert nobody.find(said(call("c1"))) is None


def test_nothing_is_kept_of_a_turn_that_has_nothing() -> None:
    memory = TurnMemory()
    known(memory=memory).store([ONE], RememberedTurn())
    assert len(memory) == 0


def test_ten_thousand_turns_are_kept_and_the_oldest_make_room() -> None:
    memory = TurnMemory(max_turns=10_000)
    mine = known(memory=memory)
    for number in range(10_001):
        mine.store(
            [ToolCall(f"c{number}", "f")], RememberedTurn({"reasoning": f"thought {number}"})
        )

    assert len(memory) == 10_000
    assert mine.find(said(call("c0"))) is None
    for number in range(1, 10_001):
        assert mine.find(said(call(f"c{number}"))) == RememberedTurn(
            {"reasoning": f"thought {number}"}
        )


def test_what_was_used_stays_longer_and_bytes_are_bounded() -> None:
    memory = TurnMemory(max_turns=2)
    mine = known(memory=memory)
    for name in ("a", "b"):
        mine.store([ToolCall(name, "f")], THOUGHT)
    assert mine.find(said(call("a")))
    mine.store([ToolCall("c", "f")], THOUGHT)
    assert mine.find(said(call("a")))
    assert mine.find(said(call("b"))) is None

    small = TurnMemory(max_bytes=100)
    known(memory=small).store([ONE], RememberedTurn({"reasoning": "x" * 200}))
    assert len(small) == 0
    known(memory=small).store([ONE], THOUGHT)
    known(memory=small).store([ONE], THOUGHT)
    assert len(small) == 1


def test_what_the_client_left_out_is_put_back_and_what_it_sent_stays() -> None:
    stripped = said(call("c1"))
    whole = restore_turn(stripped, THOUGHT)
    assert whole == stripped | THOUGHT.fields
    assert (
        restore_turn(stripped | {"reasoning_content": "mine"}, THOUGHT)["reasoning_content"]
        == "mine"
    )
    assert restore_turn(whole, THOUGHT) is whole


def test_signatures_of_calls_and_of_parts_are_put_back() -> None:
    signed = {"c1": {"signature": "s", "function": {"seal": 1}}}
    parts = [{"type": "thinking", "thinking": "Hm.", "signature": "t"}]
    turn = RememberedTurn({"content": parts}, signed)
    whole = restore_turn(said(call("c1"), call("c2"), text="Hi"), turn)

    first, second = whole["tool_calls"]
    assert (first["signature"], first["function"]["seal"]) == ("s", 1)
    assert second == call("c2")
    assert whole["content"] == [*parts, {"type": "text", "text": "Hi"}]
    assert restore_turn(whole, turn) is whole
    odd = said({"id": "c1", "function": None})
    assert restore_turn(odd, turn)["tool_calls"][0]["signature"] == "s"


def test_calls_that_could_not_run_are_put_back_in_their_place() -> None:
    problem = Problem(ErrorCode.TOOL_NOT_ALLOWED, "no")
    turn = Assistant(
        "", (ToolCall("bad", "x", problem=problem), ToolCall("c1", "f", extra={"s": 1}))
    )
    refusal = ToolResult("bad", "x", ok=False, content="no")
    kept = turn_to_remember(turn, [(0, call("bad", "x"), refusal)])

    assert kept.calls == {"c1": {"s": 1}}
    assert kept.rejected == (
        RejectedCall(0, call("bad", "x"), {"role": "tool", "tool_call_id": "bad", "content": "no"}),
    )
    whole = restore_turn(said(call("c1")), kept)
    assert [each["id"] for each in whole["tool_calls"]] == ["bad", "c1"]
