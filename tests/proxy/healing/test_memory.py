"""What a client does not send back is remembered, for its own conversation alone."""

from surecall.proxy.healing.memory import (
    Aside,
    Conversation,
    Memory,
    Remembered,
    remembered,
    restored,
)
from surecall.values.errors import ErrorCode
from surecall.values.types import Assistant, Problem, ToolCall, ToolResult
from tests.support.proxy import call, known, said

THOUGHT = Remembered({"reasoning_content": "Hm.", "details": [{"sig": "é"}]})
ONE = ToolCall("c1", "get_weather")


def test_a_turn_is_found_by_its_calls_and_its_conversation() -> None:
    memory = Memory()
    known(memory=memory).keep([ONE], THOUGHT)

    assert known(memory=memory).find(said(call("c1"))) == THOUGHT
    assert known(memory=memory).find(said(call("c2"))) is None
    assert known(memory=memory).find(said(text="no calls")) is None
    assert known(memory=memory, whose="you").find(said(call("c1"))) is None
    assert known(memory=Memory()).find(said(call("c1"))) is None


def test_another_beginning_is_another_conversation() -> None:
    memory = Memory()
    known(memory=memory).keep([ONE], THOUGHT)
    other = Conversation(memory, "me", [{"role": "user", "content": "Something else"}])
    nobody = Conversation(memory, "me", [7, {"role": "system", "content": "x"}])
    assert other.find(said(call("c1"))) is None
    assert nobody.find(said(call("c1"))) is None


def test_nothing_is_kept_of_a_turn_that_has_nothing() -> None:
    memory = Memory()
    known(memory=memory).keep([ONE], Remembered())
    assert len(memory) == 0


def test_ten_thousand_turns_are_kept_and_the_oldest_make_room() -> None:
    memory = Memory(most_turns=10_000)
    mine = known(memory=memory)
    for number in range(10_001):
        mine.keep([ToolCall(f"c{number}", "f")], Remembered({"reasoning": f"thought {number}"}))

    assert len(memory) == 10_000
    assert mine.find(said(call("c0"))) is None
    for number in range(1, 10_001):
        assert mine.find(said(call(f"c{number}"))) == Remembered({"reasoning": f"thought {number}"})


def test_what_was_used_stays_longer_and_bytes_are_bounded() -> None:
    memory = Memory(most_turns=2)
    mine = known(memory=memory)
    for name in ("a", "b"):
        mine.keep([ToolCall(name, "f")], THOUGHT)
    assert mine.find(said(call("a")))
    mine.keep([ToolCall("c", "f")], THOUGHT)
    assert mine.find(said(call("a")))
    assert mine.find(said(call("b"))) is None

    small = Memory(most_bytes=100)
    known(memory=small).keep([ONE], Remembered({"reasoning": "x" * 200}))
    assert len(small) == 0
    known(memory=small).keep([ONE], THOUGHT)
    known(memory=small).keep([ONE], THOUGHT)
    assert len(small) == 1


def test_what_the_client_left_out_is_put_back_and_what_it_sent_stays() -> None:
    stripped = said(call("c1"))
    whole = restored(stripped, THOUGHT)
    assert whole == stripped | THOUGHT.fields
    assert (
        restored(stripped | {"reasoning_content": "mine"}, THOUGHT)["reasoning_content"] == "mine"
    )
    assert restored(whole, THOUGHT) is whole


def test_signatures_of_calls_and_of_parts_are_put_back() -> None:
    signed = {"c1": {"signature": "s", "function": {"seal": 1}}}
    parts = [{"type": "thinking", "thinking": "Hm.", "signature": "t"}]
    turn = Remembered({"content": parts}, signed)
    whole = restored(said(call("c1"), call("c2"), text="Hi"), turn)

    first, second = whole["tool_calls"]
    assert (first["signature"], first["function"]["seal"]) == ("s", 1)
    assert second == call("c2")
    assert whole["content"] == [*parts, {"type": "text", "text": "Hi"}]
    assert restored(whole, turn) is whole
    odd = said({"id": "c1", "function": None})
    assert restored(odd, turn)["tool_calls"][0]["signature"] == "s"


def test_calls_that_could_not_run_are_put_back_in_their_place() -> None:
    problem = Problem(ErrorCode.TOOL_NOT_ALLOWED, "no")
    turn = Assistant(
        "", (ToolCall("bad", "x", problem=problem), ToolCall("c1", "f", extra={"s": 1}))
    )
    refusal = ToolResult("bad", "x", ok=False, content="no")
    kept = remembered(turn, [(0, call("bad", "x"), refusal)])

    assert kept.calls == {"c1": {"s": 1}}
    assert kept.aside == (
        Aside(0, call("bad", "x"), {"role": "tool", "tool_call_id": "bad", "content": "no"}),
    )
    whole = restored(said(call("c1")), kept)
    assert [each["id"] for each in whole["tool_calls"]] == ["bad", "c1"]
