"""How often a call recurs: in a row, and in circles."""

import pytest

from surecall.core.repetition import Recurrence, before_newest, recurrence
from surecall.core.state import Run
from surecall.settings.contract import Contract, Need
from surecall.values.types import ToolCall
from tests.support.transcripts import begun, called, said


def after(letters: str, run: Run | None = None) -> Run:
    run = begun() if run is None else run
    for letter in letters:
        run = said(run, "Hm.") if letter == "-" else called(run, "get", a=letter)
    return run


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("", "A", (1, 1, 1)),
        ("A", "A", (2, 2, 1)),
        ("AB", "A", (1, 1, 1)),
        ("ABA", "B", (2, 4, 2)),
        ("ABAB", "A", (3, 5, 2)),
        ("ABABA", "B", (3, 6, 2)),
        ("ABCAB", "C", (2, 6, 3)),
        ("ABCABC", "A", (3, 7, 3)),
        ("XABCAB", "C", (2, 6, 3)),
        ("AABAA", "B", (2, 6, 3)),
        ("ABCAX", "C", (1, 1, 1)),
        ("AB-AB", "A", (1, 1, 1)),
        ("A-", "A", (1, 1, 1)),
    ],
)
def test_a_call_recurs_in_a_row_or_in_a_circle(
    before: str, now: str, expected: tuple[int, int, int]
) -> None:
    call = ToolCall("new", "get", {"a": now})
    assert recurrence(after(before), call) == Recurrence(*expected)


def test_what_the_contract_says_may_be_repeated_is_no_repetition() -> None:
    contract = Contract(all_of=[Need("get", {"a": "A"}, repeat=True)], then_finalise=False)
    run = after("AAA", begun(contract=contract))

    assert recurrence(run, ToolCall("new", "get", {"a": "A"})) == Recurrence()
    assert recurrence(after("ABAB", run), ToolCall("n", "get", {"a": "B"})) == Recurrence(2, 2)


def test_before_the_newest_turn_there_may_have_been_none() -> None:
    run = begun()
    assert before_newest(run).messages == run.messages[: run.start]
    assert before_newest(after("AB")).turn == 1
