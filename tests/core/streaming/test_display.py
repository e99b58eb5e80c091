"""What is shown of a reply: announced once, taken back when it does not count, never doubled."""

from surecall.core.streaming.display import CallAnnounced, Display, Shown
from surecall.core.streaming.holdback import Holdback
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import Reply, ToolCall
from surecall.wire.assembler import CallDelta, TextDelta
from tests.support.displays import withdrawals


def call(text: str = "x < y") -> ToolCall:
    return ToolCall("call_1", "note", {"text": text})


def test_a_fault_takes_back_what_was_shown() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("marked"))
    display.feed(TextDelta("Half an ans"))
    display.close(Fault(ErrorCode.CONNECTION_ERROR, "gone"))

    assert withdrawals(shown) == ["Half an ans"]


def test_a_fault_before_any_text_takes_nothing_back() -> None:
    shown: list[Shown] = []
    Display(shown.append, Holdback("marked")).close(Fault(ErrorCode.CONNECTION_ERROR, "gone"))

    assert shown == []


def test_a_call_is_announced_once_and_not_before_it_has_a_name() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("marked"), frozenset({"note"}))
    for delta in (CallDelta(0, "", 0), CallDelta(0, "no", 0), CallDelta(0, "note", 9)):
        display.feed(delta)
    display.close(Reply("", (call(),)))

    assert shown == [CallAnnounced(0, "note")]
