"""The script that writes the cases of a dialect gives what stands in the corpus."""

import json
from pathlib import Path

import pytest

from scripts import dialect_cases
from surecall.wire.dialects import WEAK_ROWS, WRITERS
from surecall.wire.dialects.spelling import OPENERS

KEPT = json.loads(dialect_cases.ROWS.read_text("utf-8"))
CLOSERS = {
    "A1": "</tool_call>",
    "A17": "}",
    "B7": "</function>",
    "B8": ">>>",
    "B11": "</tool_call>",
    "B12": "»",
}


@pytest.mark.parametrize("row", CLOSERS)
def test_the_cases_of_a_row_are_those_of_the_corpus(row: str) -> None:
    assert dialect_cases.cases_of(row, CLOSERS[row]) == [
        case for case in KEPT if case["row"] == row
    ]


def test_cases_are_added_in_the_order_of_the_writers_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps([case for case in KEPT if case["row"] != "B12"]), "utf-8")
    monkeypatch.setattr(dialect_cases, "ROWS", rows)

    assert dialect_cases.main("B12", "»") == 0
    assert json.loads(rows.read_text("utf-8")) == KEPT
    assert dialect_cases.main("B12", "»") == 1
    assert "has cases of B12 already" in capsys.readouterr().err


def test_a_row_without_a_writer_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert dialect_cases.main("Z9", "") == 1
    assert "has no row Z9" in capsys.readouterr().err


def test_a_row_is_weak_if_all_its_openers_are() -> None:
    strong = {opener.row for opener in OPENERS if not opener.weak}
    weak = {opener.row for opener in OPENERS if opener.weak} - strong
    assert weak & WRITERS.keys() <= WEAK_ROWS
