"""The judgement of a run: by what ran and by what was answered, and by nothing else."""

import pytest

from surecall.simulator.demo.tasks import (
    BOOK,
    LIST,
    PAIR,
    QUOTE,
    SAVE,
    Desk,
    Made,
    NeverEnded,
    Refused,
    Task,
    described,
    judged,
)

BOOKED: Made = ("book_room", {"guest": "Kim", "nights": 3})
ANSWER = "Done: booked"


@pytest.mark.parametrize("task", [BOOK, SAVE, LIST, QUOTE, PAIR])
def test_the_tools_of_a_task_do_it_when_they_are_called_as_expected(task: Task) -> None:
    desk = Desk()
    tools = {function.__name__: function for function in desk.tools(task)}
    told = [tools[name](**arguments) for name, arguments in task.calls]

    assert judged(task, desk.made, f"{task.told} {told}").verdict == "right"
    assert {each["function"]["name"] for each in described(desk.tools(task))} == tools.keys()


def test_a_tool_that_nobody_meant_is_counted_too() -> None:
    desk = Desk()
    list_known, list_owners = desk.tools(QUOTE)
    list_known()
    list_owners()

    assert judged(QUOTE, desk.made, QUOTE.told)[:2] == ("wrong", "wrong tool")


@pytest.mark.parametrize(
    ("made", "answer", "verdict", "how"),
    [
        ([BOOKED], ANSWER, "right", ""),
        ([BOOKED, BOOKED], ANSWER, "wrong", "ran twice"),
        ([("book_room", {"guest": "Kim", "nights": "3"})], ANSWER, "wrong", "wrong value"),
        ([("book_room", {"guest": "Kim", "nights": 3.0})], ANSWER, "wrong", "wrong value"),
        ([("cancel", {})], ANSWER, "wrong", "wrong tool"),
        ([], ANSWER, "silent", "ran nothing"),
        ([BOOKED], "", "silent", "no answer"),
        ([], KeyError("choices"), "error", "crashed"),
        ([BOOKED], Refused(400, "no"), "error", "HTTP 400"),
        ([BOOKED], NeverEnded("eight turns"), "error", "never ended"),
        ([BOOKED, BOOKED], KeyError("id"), "wrong", "ran twice"),
    ],
)
def test_a_run_is_judged_by_what_ran_and_what_was_answered(
    made: list[Made], answer: str | Exception, verdict: str, how: str
) -> None:
    assert judged(BOOK, made, answer)[:2] == (verdict, how)


def test_one_of_two_calls_is_half_of_the_work() -> None:
    assert judged(PAIR, PAIR.calls[:1], PAIR.told).how == "half ran"


def test_calls_that_were_made_at_once_have_no_order() -> None:
    assert judged(PAIR, PAIR.calls[::-1], PAIR.told).verdict == "right"


def test_what_the_endpoint_said_is_part_of_the_reason() -> None:
    assert judged(BOOK, [], Refused(400, "bad name")).reason == "Refused: HTTP 400 bad name"
