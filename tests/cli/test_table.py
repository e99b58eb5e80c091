"""The table of cells while they run: its remarks, and what a narrow one lacks."""

from collections import Counter

import pytest

from surecall.cli.screen import plain
from surecall.cli.table import CellTable
from surecall.eval.storage.trial import CONTROL, Cell
from tests.eval.report.test_early_answers import RAW, TRIALS
from tests.support.terminals import assert_aligned, assert_fits
from tests.support.trials import CELL, series, trial

WIDE = 200


def test_it_remarks_what_is_skipped_and_left_also_in_plain_signs() -> None:
    off, on = Cell("off"), Cell("on")
    table = CellTable((off, on), 0.9, [*series("s", cell=off), *series(".", cell=on)])
    _, first, second = table.lines(WIDE, left=Counter({on: 2}))

    assert first.endswith("tools are off: skipped")
    assert second.endswith("  2 left")
    assert plain(first + second).isascii()


def test_where_there_is_little_room_only_whole_remarks_are_made() -> None:
    table = CellTable([], 0.9, [*series("..x"), *series("i", CONTROL)])
    lines = [table.lines(width, left=Counter({CELL: 5}))[1] for width in (80, 100, 160)]

    assert lines[0].endswith("  5 left")
    assert lines[1].endswith("  5 left; ✗ happy_path 2/3")
    assert lines[2].endswith("; 1 infra without tools (ASSERTION_FAILED), not scored")


def test_it_remarks_on_early_answers() -> None:
    lines = CellTable([CELL, RAW], 0.9, TRIALS).lines(WIDE)

    assert lines[1].endswith("✗ happy_path 2/3; 5 early answers; tools are off: skipped")
    assert lines[2].endswith("✗ other 0/1; 1 early answer")
    assert "early" not in "".join(CellTable([CELL], 0.9, [trial()]).lines(WIDE))


def test_runs_without_tools_are_remarked_and_in_no_column() -> None:
    chats = [trial("passed", number, "mine", tools=False) for number in (1, 2)]
    line = CellTable([], 0.9, [*series("x"), *chats]).lines(WIDE)[1]

    assert "0/1   0%" in line
    assert line.endswith("without tools 2/2")


def test_it_remarks_on_what_was_spoiled() -> None:
    spoiled = CellTable([], 0.9, [*series(".i"), *series("ii", CONTROL)])
    control = CellTable([], 0.9, [*series("."), *series("i", CONTROL)])

    assert spoiled.lines(WIDE)[1].endswith(
        "1 infra and 2 without tools (ASSERTION_FAILED), not scored"
    )
    assert control.lines(WIDE)[1].endswith("1 infra without tools (ASSERTION_FAILED), not scored")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize(
    "model", ["m", "a-maker/a-model-with-a-very-long-name-that-goes-on-and-on"]
)
def test_each_cell_has_one_line_that_fits(width: int, model: str) -> None:
    cells = [Cell(model, "a_profile_with_a_long_name", each) for each in ("raw", "guided_contract")]
    table = CellTable(cells, 0.9, [each for cell in cells for each in series("..xi", cell=cell)])
    lines = table.lines(width, left=Counter(cells), simulated=True)

    assert len(lines) == 3
    assert lines[0].startswith("simulated m")
    assert_fits("\n".join(lines), width)
    assert_aligned("\n".join(lines))
    assert len(CellTable([], 0.9).lines(width)) == 1
