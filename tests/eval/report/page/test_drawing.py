"""Drawings: one axis for all rates, and curves that stay inside their frame."""

import pytest

from surecall.eval.analysis.figures import figure
from surecall.eval.analysis.stats import Rate
from surecall.eval.report.page.data import Curve
from surecall.eval.report.page.drawing import HEIGHT, WIDTH, Axis, axis_for, curves


def places(path: str) -> list[tuple[float, float]]:
    pairs = (point.split(",") for point in path.split())
    return [(float(x), float(y)) for x, y in pairs]


def test_a_curve_runs_from_the_lower_left_to_the_upper_right_and_stays_inside() -> None:
    plot = curves([Curve("a", 3, tuple(range(10, 20_110, 200))[:101])])
    path = places(plot.lines[0].path)

    assert path[0] == (0.0, HEIGHT)
    assert path[-1] == (WIDTH, 0.0)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in path)
    assert [ms for _, ms in plot.ticks] == [10, 100, 1000, 10_000]


def test_times_that_hardly_differ_are_drawn_in_the_middle() -> None:
    plot = curves([Curve("a", 1, (0,) * 101), Curve("b", 1, (1,) * 101)])

    assert places(plot.lines[0].path)[0] == (WIDTH / 2, HEIGHT)
    assert [ms for _, ms in plot.ticks] == [1, 2]
    assert curves([]).lines == ()


@pytest.mark.parametrize(
    ("rates", "start"),
    [
        ([], 0),
        ([Rate(0, 0)], 0),
        ([Rate(40, 40)], 5),
        ([Rate(40, 40), Rate(0, 0), Rate(29, 50)], 4),
        ([Rate(40, 40), Rate(0, 40)], 0),
        ([Rate(13, 50)], 0),
        ([Rate(20, 50)], 2),
    ],
)
def test_the_axis_begins_where_the_lowest_interval_does(rates: list[Rate], start: int) -> None:
    assert axis_for([figure([rate]) for rate in rates]) == Axis(start)


def test_a_rate_has_its_place_on_the_axis() -> None:
    axis = Axis(5)

    assert [axis.at(rate) for rate in (0.5, 0.75, 1.0, 0.2)] == [
        "0.00%",
        "50.00%",
        "100.00%",
        "0.00%",
    ]
    assert axis.between(0.9, 1.0) == "20.00%"
    assert axis.ticks == (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert Axis(2).ticks == (0.2, 0.4, 0.6, 0.8, 1.0)
