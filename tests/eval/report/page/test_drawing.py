"""Drawings: curves that stay inside their frame."""

from surecall.eval.report.page.data import Curve
from surecall.eval.report.page.drawing import HEIGHT, WIDTH, curves


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
