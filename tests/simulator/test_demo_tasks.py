"""Tests of `surecall.simulator.demo_tasks`."""

import hashlib
from collections import Counter

import pytest

from surecall.simulator.demo_tasks import (
    BOOK,
    CASE_LABELS,
    CASES_PER_FAMILY,
    FAMILY_TITLES,
    LIST,
    PAIR,
    QUOTE,
    SAVE,
    DemoCase,
    DemoTask,
    EndpointError,
    NoAnswer,
    RecordedCall,
    ToolRecorder,
    all_cases,
    describe_tools,
    draw_cases,
    family_of,
    judge_run,
)
from surecall.simulator.personas.persona_catalog import PERSONAS

# The shapes of the demo are drawn by rule, and each is told in a few words


MOST_WORDS = 6
MOST_CHARACTERS = 36


@pytest.fixture(scope="module", name="all_shapes")
def all_shapes_fixture() -> tuple[DemoCase, ...]:
    return all_cases()


def test_each_family_has_as_many_as_any_other_or_all_that_it_has(
    all_shapes: tuple[DemoCase, ...],
) -> None:
    shown, known = (Counter(shape.family for shape in each) for each in (draw_cases(), all_shapes))

    assert shown.keys() == FAMILY_TITLES.keys()
    assert {family: min(CASES_PER_FAMILY, known[family]) for family in known} == shown


def test_those_are_drawn_whose_names_have_the_lowest_hashes(
    all_shapes: tuple[DemoCase, ...],
) -> None:
    for family in FAMILY_TITLES:
        members = [shape.id for shape in all_shapes if shape.family == family]
        by_hash = sorted(members, key=lambda name: hashlib.sha256(name.encode()).digest())
        assert {shape.id for shape in draw_cases() if shape.family == family} == {
            *by_hash[:CASES_PER_FAMILY]
        }


def test_the_control_comes_first_and_the_rest_in_the_order_of_the_catalogue(
    all_shapes: tuple[DemoCase, ...],
) -> None:
    order = [shape.id for shape in all_shapes]
    shown = [shape.id for shape in draw_cases()]

    assert shown[0] == "clean"
    assert shown == sorted(shown, key=order.index)


def test_what_is_shown_is_told_in_a_few_words() -> None:
    assert CASE_LABELS.keys() == {shape.id for shape in draw_cases()}
    for words in CASE_LABELS.values():
        assert 0 < len(words.split()) <= MOST_WORDS, words
        assert len(words) <= MOST_CHARACTERS, words
        assert words.isascii(), words


def test_what_is_not_shown_is_told_by_its_summary(all_shapes: tuple[DemoCase, ...]) -> None:
    words = {shape.id: shape.label for shape in all_shapes}

    assert words["arguments_fenced"] == "The JSON is inside a code fence"
    assert words["quotes-diff"] == "as added lines of a diff"


def test_nothing_is_drawn_that_no_loop_could_end_well_or_that_only_waits(
    all_shapes: tuple[DemoCase, ...],
) -> None:
    names = {shape.id for shape in all_shapes}

    assert not names & {"http-401", "error_out_of_credit", "html-200", "lazy"}
    assert not names & {"silent", "stream-silent", "stream-drip", "stream-keep-alive"}
    assert not names & {"html_entities", "texts_as_containers", "dialect-a17"}  # on request
    assert "formless" not in names  # it shows in no task
    assert {"arguments_cut_off", "name_unknown", "reply_cut_off"} <= names  # the model mends it


@pytest.mark.parametrize("name", ["clean", "strict-openai", "hasty"])
def test_who_has_no_fault_of_shape_has_no_family(name: str) -> None:
    assert family_of(PERSONAS[f"sim/{name}"]) == ""


def test_streams_are_asked_for_as_streams_and_nothing_else_is(
    all_shapes: tuple[DemoCase, ...],
) -> None:
    for shape in all_shapes:
        assert shape.is_streamed == (shape.persona.kind == "stream")


def test_a_shape_has_the_task_in_which_it_shows(all_shapes: tuple[DemoCase, ...]) -> None:
    tasks = {shape.id: shape.task for shape in all_shapes}

    assert tasks["numbers_as_text"].calls[0][0] == "book_room"
    assert tasks["texts_as_numbers"].calls[0][0] == "save_note"
    assert tasks["arguments_blank"].calls[0][0] == "list_known"
    assert tasks["id_repeated"] is tasks["stream-index-shared"] is PAIR
    assert tasks["quotes-fence"] is QUOTE


# The judgement of a run: by what ran and by what was answered, and by nothing else


BOOKED: RecordedCall = ("book_room", {"guest": "Kim", "nights": 3})
ANSWER = "Done: booked"


@pytest.mark.parametrize("task", [BOOK, SAVE, LIST, QUOTE, PAIR])
def test_the_tools_of_a_task_do_it_when_they_are_called_as_expected(task: DemoTask) -> None:
    desk = ToolRecorder()
    tools = {function.__name__: function for function in desk.tools(task)}
    told = [tools[name](**arguments) for name, arguments in task.calls]

    assert judge_run(task, desk.calls, f"{task.expected_text} {told}").verdict == "right"
    assert {each["function"]["name"] for each in describe_tools(desk.tools(task))} == tools.keys()


def test_a_framework_may_call_by_position_or_by_name() -> None:
    desk = ToolRecorder()
    (book,) = desk.tools(BOOK)

    assert book("Kim", 3) == book("Kim", nights=3) == book(guest="Kim", nights=3)
    assert desk.calls == [("book_room", {"guest": "Kim", "nights": 3})] * 3
    with pytest.raises(TypeError):
        book("Kim", 3, 4)


def test_a_tool_that_nobody_meant_is_counted_too() -> None:
    desk = ToolRecorder()
    list_known, list_owners = desk.tools(QUOTE)
    list_known()
    list_owners()

    assert judge_run(QUOTE, desk.calls, QUOTE.expected_text)[:2] == ("wrong", "wrong tool")


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
        ([BOOKED], EndpointError(400, "no"), "error", "HTTP 400"),
        ([BOOKED], NoAnswer("eight turns"), "error", "never ended"),
        ([BOOKED, BOOKED], KeyError("id"), "wrong", "ran twice"),
    ],
)
def test_a_run_is_judged_by_what_ran_and_what_was_answered(
    made: list[RecordedCall], answer: str | Exception, verdict: str, how: str
) -> None:
    assert judge_run(BOOK, made, answer)[:2] == (verdict, how)


def test_one_of_two_calls_is_half_of_the_work() -> None:
    assert judge_run(PAIR, PAIR.calls[:1], PAIR.expected_text).how == "half ran"


def test_calls_that_were_made_at_once_have_no_order() -> None:
    assert judge_run(PAIR, PAIR.calls[::-1], PAIR.expected_text).verdict == "right"


def test_what_the_endpoint_said_is_part_of_the_reason() -> None:
    assert (
        judge_run(BOOK, [], EndpointError(400, "bad name")).reason
        == "EndpointError: HTTP 400 bad name"
    )
