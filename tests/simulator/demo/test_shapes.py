"""The shapes of the demo are drawn by rule, and each is told in a few words."""

import hashlib
from collections import Counter

import pytest

from surecall.simulator.demo.shapes import (
    EACH,
    TITLES,
    WORDS,
    Shape,
    drawn,
    every_shape,
    family_of,
)
from surecall.simulator.demo.tasks import PAIR, QUOTE
from surecall.simulator.personas.catalogue import PERSONAS

MOST_WORDS = 6
MOST_CHARACTERS = 36


@pytest.fixture(scope="module", name="all_shapes")
def all_shapes_fixture() -> tuple[Shape, ...]:
    return every_shape()


def test_each_family_has_as_many_as_any_other_or_all_that_it_has(
    all_shapes: tuple[Shape, ...],
) -> None:
    shown, known = (Counter(shape.family for shape in each) for each in (drawn(), all_shapes))

    assert shown.keys() == TITLES.keys()
    assert {family: min(EACH, known[family]) for family in known} == shown


def test_those_are_drawn_whose_names_have_the_lowest_hashes(all_shapes: tuple[Shape, ...]) -> None:
    for family in TITLES:
        members = [shape.id for shape in all_shapes if shape.family == family]
        by_hash = sorted(members, key=lambda name: hashlib.sha256(name.encode()).digest())
        assert {shape.id for shape in drawn() if shape.family == family} == {*by_hash[:EACH]}


def test_the_control_comes_first_and_the_rest_in_the_order_of_the_catalogue(
    all_shapes: tuple[Shape, ...],
) -> None:
    order = [shape.id for shape in all_shapes]
    shown = [shape.id for shape in drawn()]

    assert shown[0] == "clean"
    assert shown == sorted(shown, key=order.index)


def test_what_is_shown_is_told_in_a_few_words() -> None:
    assert WORDS.keys() == {shape.id for shape in drawn()}
    for words in WORDS.values():
        assert 0 < len(words.split()) <= MOST_WORDS, words
        assert len(words) <= MOST_CHARACTERS, words
        assert words.isascii(), words


def test_what_is_not_shown_is_told_by_its_summary(all_shapes: tuple[Shape, ...]) -> None:
    words = {shape.id: shape.words for shape in all_shapes}

    assert words["arguments_fenced"] == "A code fence around the JSON"
    assert words["quotes-diff"] == "as added lines of a diff"


def test_nothing_is_drawn_that_no_loop_could_end_well_or_that_only_waits(
    all_shapes: tuple[Shape, ...],
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
    all_shapes: tuple[Shape, ...],
) -> None:
    for shape in all_shapes:
        assert shape.streamed == (shape.persona.kind == "stream")


def test_a_shape_has_the_task_in_which_it_shows(all_shapes: tuple[Shape, ...]) -> None:
    tasks = {shape.id: shape.task for shape in all_shapes}

    assert tasks["numbers_as_text"].calls[0][0] == "book_room"
    assert tasks["texts_as_numbers"].calls[0][0] == "save_note"
    assert tasks["arguments_blank"].calls[0][0] == "list_known"
    assert tasks["id_repeated"] is tasks["stream-index-shared"] is PAIR
    assert tasks["quotes-fence"] is QUOTE
