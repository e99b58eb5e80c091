"""The table of cells: its remarks, also without special characters."""

from collections import Counter

from surecall.cli.table import CellTable, plain
from surecall.eval.storage.trial import Cell
from tests.eval.report.test_early_answers import RAW, TRIALS
from tests.support.trials import CELL, series, trial


def test_the_board_remarks_what_is_skipped_and_left_also_in_plain_signs() -> None:
    off, on = Cell("off"), Cell("on")
    table = CellTable((off, on), 0.9, [*series("s", cell=off), *series(".", cell=on)])
    _, first, second = table.lines(left=Counter({on: 2}))

    assert first.endswith("tools are off: skipped")
    assert second.endswith("… 2 left")
    assert plain(second).endswith("... 2 left")
    assert plain(first + second).isascii()


def test_the_board_remarks_on_them() -> None:
    lines = CellTable([CELL, RAW], 0.9, TRIALS).lines()

    assert lines[1].endswith("✗ happy_path 2/3; 5 early answers; tools are off: skipped")
    assert lines[2].endswith("✗ other 0/1; 1 early answer")
    assert "early" not in "".join(CellTable([CELL], 0.9, [trial()]).lines())
