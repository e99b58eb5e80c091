"""The axis: where a rate, its interval and the bar are drawn."""

import pytest

from surecall.cli.axis import NARROW, WIDE, Axis, axis_for


def test_the_head_names_the_ends_and_the_bar_and_is_as_wide_as_the_axis() -> None:
    assert Axis(0.9).head == "40%          bar 90% 100%"
    assert Axis(0.9, size=NARROW).head == "40%  bar 90% 100%"
    assert Axis(0.5, 0.0).head == "0%    bar 50%        100%"
    assert Axis(0.4).head == "40% bar 40%          100%"


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
    assert Axis(0.9).drawn(rate, bounds) == drawn
    assert len(drawn) == WIDE


def test_the_axis_begins_at_zero_where_an_interval_or_the_bar_is_lower() -> None:
    assert axis_for(0.9, 0.5) == Axis(0.9, 0.4)
    assert axis_for(0.9, 0.2, NARROW) == Axis(0.9, 0.0, NARROW)
    assert axis_for(0.3, 0.5) == Axis(0.3, 0.0)
