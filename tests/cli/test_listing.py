"""How commands print: aligned for people, one line of JSON for programs."""

import json

import pytest

from surecall.cli.listing import (
    count,
    json_line,
    rate_text,
    rate_words,
    say_columns,
    say_document,
    visible,
)
from tests.support.commands import HOSTILE


def test_columns_are_as_wide_as_their_longest_text(capsys: pytest.CaptureFixture[str]) -> None:
    say_columns(("name", "note"), [("a", "x y"), ("longer", "")])

    assert capsys.readouterr().out == "name    note\na       x y\nlonger\n"


def test_a_document_is_one_line_that_a_program_reads_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_document({"text": HOSTILE})
    out = capsys.readouterr().out

    assert out.count("\n") == 1
    assert json.loads(out) == {"schema_version": 1, "text": HOSTILE}
    assert json_line({"text": HOSTILE}).isprintable()


def test_what_is_not_printable_is_escaped_as_the_format_does_it() -> None:
    shown = visible(f"a{HOSTILE}\nb", lambda char: f"<{ord(char):x}>")

    assert all(line.isprintable() for line in shown.split("\n"))
    assert "<1b>" in shown
    assert shown.endswith("\nb")


@pytest.mark.parametrize(
    ("k", "n", "text"),
    [
        (40, 40, "  40/40 100%"),
        (299, 300, "299/300  99%"),
        (1, 300, "  1/300   1%"),
        (0, 7, "    0/7   0%"),
        (0, 0, "    0/0"),
    ],
)
def test_only_all_is_a_hundred_percent_in_a_column(k: int, n: int, text: str) -> None:
    assert rate_text(k, n) == text


def test_a_rate_has_its_counts_and_interval_and_nothing_tried_has_none() -> None:
    assert rate_words(39, 40, (0.871, 0.9956)) == "39/40 97.5% [87.1, 99.6]"
    assert rate_words(0, 0, (0.0, 1.0)) == ""


@pytest.mark.parametrize(("number", "words"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_a_number_of_things_is_singular_only_for_one(number: int, words: str) -> None:
    assert count(number, "run") == words
