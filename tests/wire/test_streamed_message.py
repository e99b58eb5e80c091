"""A streamed message: calls that are parts of its content, and messages that repeat its deltas."""

from surecall.parsing.budget import StreamBudget
from surecall.values.types import JSON
from surecall.wire.streamed_message import StreamedMessage, TextDelta

PART: JSON = {"type": "tool_use", "id": "c1", "name": "get", "input": {"city": "Oslo"}}
CALL: JSON = {
    "type": "tool_call",
    "id": "c1",
    "function": {"name": "get", "arguments": {"city": "Oslo"}},
}


def streamed(*deltas: JSON, whole: JSON | None = None) -> StreamedMessage:
    message = StreamedMessage(("get",), None, StreamBudget())
    for delta in deltas:
        message.add(delta)
    if whole is not None:
        message.add(whole, is_whole=True)
    return message


def test_a_call_that_is_a_part_stays_one_beside_the_text() -> None:
    message = streamed({"content": "One "}, {"content": "moment."}, {"content": [PART]})

    assert message.render()["content"] == [{"type": "text", "text": "One moment."}, CALL]
    assert message.call_count == 1


def test_a_part_comes_in_pieces_and_is_open_until_its_arguments_end() -> None:
    opening = PART | {"input": "", "index": 0}
    pieces = [{"content": [opening]}, {"content": [{"type": "tool_use", "index": 0, "input": "{"}]}]

    assert streamed(*pieces).is_open
    whole = streamed(*pieces, {"content": [{"type": "tool_use", "index": 0, "input": "}"}]})
    assert not whole.is_open
    assert whole.render()["content"][0]["function"] == {"name": "get", "arguments": "{}"}


def test_a_message_that_repeats_a_part_does_not_double_it() -> None:
    message = streamed({"content": [PART]}, whole={"content": [PART]})

    assert message.render()["content"] == [CALL]


def test_what_a_delta_adds_is_told() -> None:
    assert StreamedMessage((), None, StreamBudget()).add({"content": "a"}) == [TextDelta("a")]


def test_a_whole_message_mends_a_call_that_did_not_come_through() -> None:
    begun = {"index": 0, "id": "c1", "function": {"name": "get", "arguments": '{"city": '}}
    meant = {"name": "get", "arguments": '{"city": "Oslo"}'}
    message = streamed(
        {"tool_calls": [begun]}, whole={"tool_calls": [{"id": "c1", "function": meant}]}
    )

    assert not message.is_open
    assert [call["function"] for call in message.render()["tool_calls"]] == [meant]
