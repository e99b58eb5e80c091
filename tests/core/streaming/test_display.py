"""What is shown of a reply: announced once, taken back when it does not count, never doubled."""

from surecall.core.streaming.display import CallAnnounced, Display, Shown, TextWithdrawn
from surecall.core.streaming.holdback import Holdback
from surecall.values.errors import ErrorCode, Fault
from surecall.values.types import Reply, ToolCall
from surecall.wire.assembler import CallDelta, ReasoningDelta, TextDelta
from tests.support.displays import screen, withdrawals


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


def test_a_reply_that_goes_on_from_what_was_shown_shows_only_the_rest() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("off"))
    display.feed(TextDelta("It is "))
    display.close(Reply("It is 3."))

    assert (screen(shown), withdrawals(shown)) == ("It is 3.", [])


def test_a_reply_that_reads_otherwise_takes_the_place_of_what_was_shown() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("off"))
    for text in ("It is ", "four."):
        display.feed(TextDelta(text))
    before = screen(shown)
    display.close(Reply("It is 3."))

    assert shown[-2:] == [TextWithdrawn(before), TextDelta("It is 3.")]


def test_blanks_in_front_are_no_reason_to_take_text_back() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("off"))
    display.feed(TextDelta("\n\nIt is "))
    display.close(Reply("It is 3."))

    assert (screen(shown).lstrip(), withdrawals(shown)) == ("It is 3.", [])


def test_a_reply_without_text_shows_none() -> None:
    shown: list[Shown] = []
    Display(shown.append, Holdback("off")).close(Reply(""))

    assert shown == []


def test_reasoning_is_shown_as_it_comes_and_never_taken_back() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("marked"))
    display.feed(ReasoningDelta("<tool_call> or not"))
    display.close(Fault(ErrorCode.CONNECTION_ERROR, "gone"))

    assert shown == [ReasoningDelta("<tool_call> or not")]


def test_calls_of_other_names_are_announced_when_the_reply_is_complete_in_their_order() -> None:
    shown: list[Shown] = []
    display = Display(shown.append, Holdback("off"), frozenset({"note"}))
    display.feed(CallDelta(1, "note", 0))
    display.feed(CallDelta(0, "not", 0))
    display.close(Reply("", (ToolCall("a", "nothing"), call())))

    assert shown == [CallAnnounced(1, "note"), CallAnnounced(0, "nothing")]
