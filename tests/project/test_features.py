"""The table of features: each cell has something that shows it; what it says of surecall holds."""

from importlib import import_module

import pytest

from scripts.features.__main__ import scripts
from scripts.features.table import OURS, SIGNS, TABLE, Cell, evidence, summary, with_features
from tests.support.project_files import ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text("utf-8")
LIBRARIES = [library.name for library in TABLE.libraries]
CELLS = [
    pytest.param(row.script, name, cell, id=f"{row.key}-{name}")
    for row in TABLE.rows
    for name, cell in row.cells.items()
]
# Those that start no other process, and wait for nothing.
PLAYED = ("replay", "typed_answers")


def played_by(script: str) -> list[str]:
    return list(import_module(f"scripts.features.{script}").PROBES) if script else []


def test_every_row_has_a_cell_for_every_library() -> None:
    assert [row.key for row in TABLE.rows if list(row.cells) != LIBRARIES] == []
    assert len({row.key for row in TABLE.rows}) == len(TABLE.rows)


@pytest.mark.parametrize(("script", "library", "cell"), CELLS)
def test_every_cell_has_a_word_and_something_that_shows_it(
    script: str, library: str, cell: Cell
) -> None:
    shown = cell.names or cell.words or cell.link or library in played_by(script)

    assert cell.word in SIGNS
    assert shown or cell.word == "not checked" or (library == OURS and cell.word == "no")
    assert cell.why or cell.word == "not checked"
    assert bool(cell.words) >= (cell.word == "none found")


def test_every_version_is_told_where_others_are_named() -> None:
    assert [each.name for each in TABLE.libraries if not each.versions] == [OURS]
    assert [each.name for each in TABLE.libraries if set(each.alone) - set(each.versions)] == []


def test_every_script_is_there_and_plays_with_libraries_of_the_table() -> None:
    files = {path.stem for path in (ROOT / "scripts" / "features").glob("*.py")}

    assert set(scripts()) <= files
    assert [name for name in scripts() if set(played_by(name)) - set(LIBRARIES)] == []


def test_the_short_table_and_the_evidence_have_every_row() -> None:
    short, whole = summary(), "\n".join(evidence())

    assert [row.title for row in TABLE.rows if f"| {row.title} |" not in short] == []
    assert [row.title for row in TABLE.rows if f"{row.title[1:]}\n" not in whole] == []


def test_the_page_has_the_tables() -> None:
    assert with_features(PAGE) == PAGE


@pytest.mark.parametrize("script", PLAYED)
def test_what_the_table_says_of_surecall_is_what_is_seen(script: str) -> None:
    seen = import_module(f"scripts.features.{script}").PROBES[OURS](OURS)
    said = {row.key: row.cells[OURS].word for row in TABLE.rows if row.script == script}

    assert {key: verdict.word for key, verdict in seen.items()} == said
