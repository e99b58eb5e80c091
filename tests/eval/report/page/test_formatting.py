"""Tests of `surecall.eval.report.page.formatting`."""

import pytest

from surecall.eval.analysis import classification
from surecall.eval.analysis.stats import Rate
from surecall.eval.analysis.summary import Timing, pooled_figure
from surecall.eval.report.page import formatting
from surecall.eval.report.page.formatting import HEIGHT, WIDTH, RateAxis, axis_for, plot_curves
from surecall.eval.storage.trial import Cell, Key
from surecall.values.errors import ErrorCode

# Drawings: one axis for all rates, and curves that stay inside their frame


def places(path: str) -> list[tuple[float, float]]:
    pairs = (point.split(",") for point in path.split())
    return [(float(x), float(y)) for x, y in pairs]


def test_a_curve_runs_from_the_lower_left_to_the_upper_right_and_stays_inside() -> None:
    plot = plot_curves({"a": Timing(3, points=tuple(range(10, 20_110, 200))[:101])})
    path = places(plot.lines[0].path)

    assert path[0] == (0.0, HEIGHT)
    assert path[-1] == (WIDTH, 0.0)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in path)
    assert [ms for _, ms in plot.ticks] == [10, 100, 1000, 10_000]


def test_times_that_hardly_differ_are_drawn_in_the_middle() -> None:
    plot = plot_curves({"a": Timing(1, points=(0,) * 101), "b": Timing(1, points=(1,) * 101)})

    assert places(plot.lines[0].path)[0] == (WIDTH / 2, HEIGHT)
    assert [ms for _, ms in plot.ticks] == [1, 2]
    assert plot_curves({}).lines == ()


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
    assert axis_for([pooled_figure([rate]) for rate in rates]) == RateAxis(start)


def test_a_rate_has_its_place_on_the_axis() -> None:
    axis = RateAxis(5)

    assert [axis.at(rate) for rate in (0.5, 0.75, 1.0, 0.2)] == [
        "0.00%",
        "50.00%",
        "100.00%",
        "0.00%",
    ]
    assert axis.between(0.9, 1.0) == "20.00%"
    assert axis.ticks == (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert RateAxis(2).ticks == (0.2, 0.4, 0.6, 0.8, 1.0)


# How a report writes figures: nothing is rounded to more than it is


@pytest.mark.parametrize(
    ("rate", "digits", "text"),
    [
        (None, 1, "–"),  # noqa: RUF001 - what is shown
        (0.0, 1, "0.0%"),
        (0.864, 1, "86.4%"),
        (0.9999, 1, "99.9%"),
        (0.999, 0, "99%"),
        (0.0001, 1, "0.1%"),
        (1.0, 0, "100%"),
    ],
)
def test_only_all_is_a_hundred_percent_and_only_nothing_is_none(
    rate: float | None, digits: int, text: str
) -> None:
    assert formatting.percent(rate, digits) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "–"), (None, "–"), (999, "999 ms"), (9_149, "9.1 s"), (125_100, "125 s")],  # noqa: RUF001
)
def test_times_have_the_digits_that_tell_something(ms: int | None, text: str) -> None:
    assert formatting.seconds(ms) == text


@pytest.mark.parametrize(
    ("dollars", "text"),
    [(None, "–"), (0.0, "$0.00"), (0.00042, "$0.00042"), (1.5, "$1.50")],  # noqa: RUF001
)
def test_small_amounts_keep_their_digits(dollars: float | None, text: str) -> None:
    assert formatting.money(dollars) == text


def test_intervals_differences_and_counts() -> None:
    found = pooled_figure([])

    assert formatting.bounds(found, 0) == "0–100"  # noqa: RUF001 - what is shown
    assert formatting.points(-0.025) == "−2.5"  # noqa: RUF001 - what is shown
    assert formatting.points(0.175) == "+17.5"
    assert formatting.count(1_450) == "1,450"
    assert formatting.count(None) == "–"  # noqa: RUF001 - what is shown
    assert (formatting.count_noun(1, "model"), formatting.count_noun(17, "model")) == (
        "1 model",
        "17 models",
    )


def test_an_address_names_runs_as_the_browser_would_write_it() -> None:
    key = Key(Cell("a/b c", "default", "raw"), "ü,(1)", 3)

    assert (
        formatting.runs_link({"model": "a&b=c", "text": "ü"}) == "#runs?model=a%26b%3Dc&text=%C3%BC"
    )
    assert formatting.run_link(key) == "#run/a%2Fb%20c,default,raw,%C3%BC%2C(1),3"
    assert formatting.runs_link({"model": "\ud800"}) == "#runs?model=%EF%BF%BD"


def test_unseen_characters_are_spelled_out_and_lines_stay_lines() -> None:
    assert formatting.visible("a\x1b[31m\u202eb\nc\td\ud800") == "a\\x1b[31m\\u202eb\nc\td\\ud800"


def test_a_name_may_break_at_its_joints_and_is_escaped() -> None:
    assert formatting.wrappable("qwen/<b>_x:free") == "qwen/<wbr>&lt;b&gt;_<wbr>x:<wbr>free"


def test_every_code_that_a_trial_can_end_with_is_explained_in_a_sentence() -> None:
    own = [getattr(classification, name) for name in ("ASSERTION_FAILED", "TRUNCATED", "EXCEPTION")]

    assert {*ErrorCode, *own} <= classification.MEANINGS.keys()
    assert all(
        meaning.endswith(".") and "`" not in meaning for meaning in classification.MEANINGS.values()
    )
