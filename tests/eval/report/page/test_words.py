"""How a report writes figures: nothing is rounded to more than it is."""

import pytest

from surecall.eval.analysis import category
from surecall.eval.analysis.figures import figure
from surecall.eval.report.page import words
from surecall.eval.storage.trial import Cell, Key
from surecall.values.errors import ErrorCode


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
    assert words.percent(rate, digits) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "–"), (None, "–"), (999, "999 ms"), (9_149, "9.1 s"), (125_100, "125 s")],  # noqa: RUF001
)
def test_times_have_the_digits_that_tell_something(ms: int | None, text: str) -> None:
    assert words.seconds(ms) == text


@pytest.mark.parametrize(
    ("dollars", "text"),
    [(None, "–"), (0.0, "$0.00"), (0.00042, "$0.00042"), (1.5, "$1.50")],  # noqa: RUF001
)
def test_small_amounts_keep_their_digits(dollars: float | None, text: str) -> None:
    assert words.money(dollars) == text


def test_intervals_differences_and_counts() -> None:
    found = figure([])

    assert words.bounds(found, 0) == "0–100"  # noqa: RUF001 - what is shown
    assert words.points(-0.025) == "−2.5"  # noqa: RUF001 - what is shown
    assert words.points(0.175) == "+17.5"
    assert words.count(1_450) == "1,450"
    assert words.count(None) == "–"  # noqa: RUF001 - what is shown
    assert (words.counted(1, "model"), words.counted(17, "model")) == ("1 model", "17 models")


def test_an_address_names_runs_as_the_browser_would_write_it() -> None:
    key = Key(Cell("a/b c", "default", "raw"), "ü,(1)", 3)

    assert words.address({"model": "a&b=c", "text": "ü"}) == "#runs?model=a%26b%3Dc&text=%C3%BC"
    assert words.run_address(key) == "#run/a%2Fb%20c,default,raw,%C3%BC%2C(1),3"
    assert words.address({"model": "\ud800"}) == "#runs?model=%EF%BF%BD"


def test_unseen_characters_are_spelled_out_and_lines_stay_lines() -> None:
    assert words.shown("a\x1b[31m\u202eb\nc\td\ud800") == "a\\x1b[31m\\u202eb\nc\td\\ud800"


def test_a_name_may_break_at_its_joints_and_is_escaped() -> None:
    assert words.name("qwen/<b>_x:free") == "qwen/<wbr>&lt;b&gt;_<wbr>x:<wbr>free"


def test_every_code_that_a_trial_can_end_with_is_explained_in_a_sentence() -> None:
    own = [getattr(category, name) for name in ("ASSERTION_FAILED", "TRUNCATED", "EXCEPTION")]

    assert {*ErrorCode, *own} <= words.MEANINGS.keys()
    assert all(meaning.endswith(".") and "`" not in meaning for meaning in words.MEANINGS.values())
