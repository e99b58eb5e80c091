"""Tests of `surecall.cli.tables`."""

from collections import Counter

import pytest

from surecall.cli.console import to_ascii
from surecall.cli.tables import NARROW, CellTable, TextAxis, axis_for
from surecall.cli.tables import WIDE as AXIS_WIDE
from surecall.eval.storage.trial import CONTROL, Cell
from tests.support.commands import assert_aligned, assert_fits
from tests.support.reports import PREMATURE_TRIALS, RAW_CELL
from tests.support.trials import CELL, series, trial

# The table of cells while they run: its remarks, and what a narrow one lacks


WIDE = 200


def test_it_remarks_what_is_skipped_and_left_also_in_plain_signs() -> None:
    off, on = Cell("off"), Cell("on")
    table = CellTable((off, on), 0.9, [*series("s", cell=off), *series(".", cell=on)])
    _, first, second = table.lines(WIDE, left=Counter({on: 2}))

    assert first.endswith("skipped: tools are off")
    assert second.endswith("  2 left")
    assert to_ascii(first + second).isascii()


def test_where_there_is_little_room_only_whole_remarks_are_made() -> None:
    table = CellTable([], 0.9, [*series("..x"), *series("i", CONTROL)])
    lines = [table.lines(width, left=Counter({CELL: 5}))[1] for width in (80, 100, 160)]

    assert lines[0].endswith("  5 left")
    assert lines[1].endswith("  5 left; ✗ happy_path 2/3")
    assert lines[2].endswith("; 1 infra without tools (ASSERTION_FAILED), not scored")


def test_it_remarks_on_early_answers() -> None:
    lines = CellTable([CELL, RAW_CELL], 0.9, PREMATURE_TRIALS).lines(WIDE)

    assert lines[1].endswith("✗ happy_path 2/3; 5 premature answers; skipped: tools are off")
    assert lines[2].endswith("✗ other 0/1; 1 premature answer")
    assert "early" not in "".join(CellTable([CELL], 0.9, [trial()]).lines(WIDE))


def test_it_remarks_on_claims_without_calls() -> None:
    lines = CellTable([CELL], 0.9, [trial(unsupported_claims=2)]).lines(WIDE)
    assert lines[1].endswith("2 unsupported claims")


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


# The axis: where a rate, its interval and the bar are drawn


def test_the_head_names_the_ends_and_the_bar_and_is_as_wide_as_the_axis() -> None:
    assert TextAxis(0.9).head == "40%          bar 90% 100%"
    assert TextAxis(0.9, size=NARROW).head == "40%  bar 90% 100%"
    assert TextAxis(0.5, 0.0).head == "0%    bar 50%        100%"
    assert TextAxis(0.4).head == "40% bar 40%          100%"


@pytest.mark.parametrize(
    ("rate", "bounds", "drawn"),
    [
        (None, (0.0, 1.0), "····················┼····"),
        (0.95, (0.86, 0.98), "··················──┼─●──"[:23] + "─·"),
        (0.5, (0.38, 0.62), "────●─────··········┼····"),
        (1.0, (0.94, 1.0), "····················┼·──●"),
        (0.9, (0.9, 0.9), "····················●····"),
    ],
)
def test_the_interval_is_a_line_the_rate_a_dot_and_the_bar_a_cross(
    rate: float | None, bounds: tuple[float, float], drawn: str
) -> None:
    assert TextAxis(0.9).draw(rate, bounds) == drawn
    assert len(drawn) == AXIS_WIDE


def test_the_axis_begins_at_zero_where_an_interval_or_the_bar_is_lower() -> None:
    assert axis_for(0.9, 0.5) == TextAxis(0.9, 0.4)
    assert axis_for(0.9, 0.2, NARROW) == TextAxis(0.9, 0.0, NARROW)
    assert axis_for(0.3, 0.5) == TextAxis(0.3, 0.0)
