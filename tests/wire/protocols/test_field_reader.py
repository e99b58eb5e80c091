"""The first field of a JSON object that is still being written."""

import itertools
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.wire.messages import scrub
from surecall.wire.protocols.field_reader import FieldReader, Without
from tests.support.steps import LINEAR, growth
from tests.support.strategies import JSON_VALUES

MEBIBYTE = 1 << 20
# Half characters are text, too: a model can write any escape.
TEXTS = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=20)
OBJECTS = st.builds(
    lambda text, rest: {"answer": text} | rest,
    TEXTS,
    st.dictionaries(TEXTS, JSON_VALUES, max_size=2),
)


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:stop] for start, stop in itertools.pairwise(places)]


def read(text: str, cuts: list[int], name: str = "answer") -> tuple[str, FieldReader]:
    reader = FieldReader(name)
    return "".join([reader.feed(piece) for piece in pieces(text, cuts)]), reader


CUTS = st.lists(st.integers(0, 10**6), max_size=30)
SPELLED = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    OBJECTS,
    st.booleans(),
    st.sampled_from([None, 2]),
)


@given(SPELLED, CUTS)
def test_any_object_in_any_pieces_gives_the_text_that_json_reads(
    text: str, cuts: list[int]
) -> None:
    found, reader = read(text, cuts)

    assert scrub(found) == scrub(json.loads(text)["answer"])
    assert reader.ended
    assert not reader.is_waiting


@given(st.text() | SPELLED.map(lambda text: text[:-7]), CUTS)
def test_no_text_makes_it_raise_and_pieces_make_no_difference(text: str, cuts: list[int]) -> None:
    whole, one = read(text, [])
    found, other = read(text, cuts)

    assert found == whole
    assert (one.ended, one.is_waiting) == (other.ended, other.is_waiting)


@given(SPELLED, st.integers(0, 60))
def test_what_was_given_is_never_taken_back(text: str, cut: int) -> None:
    whole, _ = read(text, [])
    beginning, _ = read(text[:cut], [])

    assert whole.startswith(beginning)


@pytest.mark.parametrize(
    "text",
    ['{"other": 1, "answer": "no"}', '["answer"]', "Hello", '{"answer": 3}', '{"answers": "'],
)
def test_what_does_not_begin_with_the_field_gives_nothing(text: str) -> None:
    found, reader = read(text, [])

    assert (found, reader.ended, reader.is_waiting) == ("", False, False)


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"ans', '{ "answer"', '{"answer" : ', '{"answer":"']
)
def test_a_beginning_waits_for_more(text: str) -> None:
    found, reader = read(text, [])

    assert (found, reader.ended, reader.is_waiting) == ("", False, True)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"a\nb\tc\\d\"e\/f", 'a\nb\tc\\d"e/f'),
        (r"\b\f\r", "\b\f\r"),
        (r"\u00e9", "é"),
        (r"\ud83d\ude00", "😀"),
        (r"\ud83d", ""),
        (r"\ud83d!", ""),
        (r"\ud83d and more", "\ufffd and more"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\ude00", "\ufffd"),
        (r"\uzzzz!", "\ufffd!"),
        (r"\u12", ""),
        (r"\q", "q"),
        ("\\", ""),
        ("a\nb", "a\nb"),
    ],
)
def test_escapes_are_read_when_they_are_complete(written: str, text: str) -> None:
    found, reader = read(f'{{"answer": "{written}', list(range(99)))

    assert found == text
    assert reader.is_waiting


def test_nothing_after_the_end_counts() -> None:
    reader = FieldReader("answer")

    assert [reader.feed('{"answer": "a"'), reader.feed(', "answer": "b"}')] == ["a", ""]


HOSTILE: dict[str, Callable[[int], str]] = {
    "escapes": lambda n: '{"answer": "' + r"\u0041" * (n // 6),
    "quotes": lambda n: '{"answer": "' + r"\"" * (n // 2),
    "halves": lambda n: '{"answer": "' + r"\ud83d" * (n // 6),
    "backslashes": lambda n: '{"answer": "' + "\\" * n,
    "blanks": lambda n: "{" + " " * n + '"answer": "a"',
    "only blanks": lambda n: " " * n,
    "plain": lambda n: '{"answer": "' + "x" * n + '"' + "}" * n,
}


@pytest.mark.slow
@pytest.mark.parametrize("size", [64, MEBIBYTE * 4])
@pytest.mark.parametrize("kind", HOSTILE)
def test_anything_is_read_in_steps_in_proportion_to_it(kind: str, size: int) -> None:
    def read(length: int) -> None:
        text = HOSTILE[kind](length)
        reader = FieldReader("answer")
        for at in range(0, len(text), size):
            reader.feed(text[at : at + size])

    assert growth(read, 20_000) < LINEAR
    read(MEBIBYTE)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"thought": "It is \\"so\\".", "answer": "Yes, \\u00e9."}', "Yes, é."),
        ('{ "thought" : "" ,\n "answer" : "Yes" }', "Yes"),
        ('{"answer": "Yes"}', "Yes"),
        ('{"answer": "Yes", "thought": "No"}', "Yes"),
        ('{"thought": "Yes", "tool": "get"}', ""),
        ('{"thought": "Yes", "thought": "No", "answer": "?"}', ""),
        ('{"thought": "Yes"}', ""),
        ('{"thought": "Ye', ""),
        ('{"thoughts": "Yes", "answer": "No"}', ""),
        ("Yes", ""),
    ],
)
def test_a_field_may_come_after_another(text: str, shown: str, step: int) -> None:
    reader = Without("thought", FieldReader("answer"))
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    assert "".join(map(reader.feed, pieces)) == shown
