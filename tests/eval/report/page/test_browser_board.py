"""The first screen in a real browser: what to use, on one axis, on every screen."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from surecall.eval.report.page.data import Context, report_of
from surecall.eval.report.page.html import render_page
from surecall.eval.storage.trial import Cell, Trial
from tests.support.browser import Browser
from tests.support.trials import series
from tests.support.viewed import Made

HEIGHT = 900
SCREENS = [(width, scheme) for width in (1280, 768, 390) for scheme in ("light", "dark")]
GROUPS = ["✓ Use", "✗ Avoid", "? Undecided"]
# For each drawing: where it begins, how wide it is, where its dot and its bar are.
DRAWN = """
    const middle = (box) => box.left + box.width / 2;
    return [...document.querySelectorAll(`${arguments[0]} tbody tr:not(.group)`)].map((row) => {
      const plot = row.querySelector(".plot");
      const box = plot.getBoundingClientRect();
      const dot = plot.querySelector(".dot");
      return {
        left: box.left,
        width: box.width,
        dot: middle(dot.getBoundingClientRect()),
        rate: row.querySelector(".rate").textContent,
      };
    });
"""
AXIS = """
    const scale = document.querySelector(`${arguments[0]} thead .scale`);
    const box = scale.getBoundingClientRect();
    const middle = (box) => box.left + box.width / 2;
    const texts = [...scale.querySelectorAll("text")]
      .map((text) => [text.textContent, middle(text.getBoundingClientRect())]);
    return { left: box.left, width: box.width, texts: Object.fromEntries(texts) };
"""


def page_of(trials: list[Trial], folder: Path) -> Path:
    page = folder / "report.html"
    page.write_text(render_page(report_of(trials, Context())), "utf-8")
    return page


def of(model: str, pattern: str, **cell: str) -> list[Trial]:
    return series(pattern, cell=Cell(model, **cell))


TRIALS = [
    *of("maker/good", "." * 60),
    *of("maker/fine", "." * 99 + "x"),
    *of("maker/poor", "." * 20 + "x" * 20),
    *of("maker/open", "." * 37 + "xxx"),
]


@pytest.fixture(name="board")
def board_fixture(blank: Browser, tmp_path: Path) -> Browser:
    blank.open(page_of(TRIALS, tmp_path))
    return blank


@pytest.fixture(autouse=True)
def _as_it_was(window: Browser) -> Any:
    yield
    window.devtools("Emulation.clearDeviceMetricsOverride")
    window.devtools("Emulation.setEmulatedMedia", media="", features=[])


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_the_first_screen_says_what_to_use(board: Browser, width: int, scheme: str) -> None:
    board.prefer(scheme)
    board.resize(width, HEIGHT)
    said = " ".join(board.text("h1.sentence").split())

    assert said == (
        "✓ Use maker/good and maker/fine. ✗ Avoid maker/poor. ? maker/open needs more trials."
    )
    assert board.texts("#use .group .verdict") == GROUPS
    tops = board.run(
        "return ['h1.sentence', ...arguments[0]].map((each) =>"
        " document.querySelector(each).getBoundingClientRect().bottom)",
        [f"#use tbody:nth-of-type({at}) tr:nth-child(2)" for at in (1, 2, 3)],
    )
    assert tops == sorted(tops)
    assert tops[-1] < HEIGHT
    assert board.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_every_rate_is_drawn_on_the_one_axis(board: Browser, width: int) -> None:
    board.resize(width)
    axis = board.run(AXIS, "#use")
    drawn = board.run(DRAWN, "#use")

    assert len(drawn) == 4
    start = min(int(text[:-1]) for text in axis["texts"] if text.endswith("%") and " " not in text)
    for each in drawn:
        assert (each["left"], each["width"]) == pytest.approx((axis["left"], axis["width"]), abs=1)
        share = (float(each["rate"][:-1]) - start) / (100 - start)
        assert each["dot"] == pytest.approx(axis["left"] + share * axis["width"], abs=1.5)
    bar = axis["left"] + (90 - start) / (100 - start) * axis["width"]
    assert axis["texts"]["bar 90%"] == pytest.approx(bar, abs=1.5)


@pytest.mark.parametrize("width", [1280, 390])
def test_what_was_gained_is_drawn_on_the_same_axis_and_told(
    blank: Browser, tmp_path: Path, width: int
) -> None:
    trials = [
        *of("helped", "x" * 30 + "." * 10, strategy="raw"),
        *of("helped", "." * 40),
        *of("same", "." * 40, strategy="raw"),
        *of("same", "." * 40),
    ]
    blank.resize(width)
    blank.open(page_of(trials, tmp_path))
    ends = blank.run(
        "return [...document.querySelectorAll('#gain .plot .shape')].map((each) => {"
        " const box = each.getBoundingClientRect(); return box.left + box.width / 2; })"
    )
    axis = blank.run(AXIS, "#gain")

    assert "production over raw: helps helped (+75 points)." in blank.text(".gained")
    assert "▲ +75.0" in blank.text("#use")
    assert "30 fixed, 0 broken · significant" in blank.text("#gain")
    assert "No conversation ended differently with same." in blank.text("#gain")
    start = min(int(text[:-1]) for text in axis["texts"] if text.endswith("%") and " " not in text)
    places = [axis["left"] + (rate - start) / (100 - start) * axis["width"] for rate in (25, 100)]
    assert ends == pytest.approx(places, abs=1.5)


@pytest.mark.parametrize("width", [1280, 390])
def test_no_mark_of_a_gain_hides_another(blank: Browser, tmp_path: Path, width: int) -> None:
    trials = [
        *of("m", "x" * 30 + "." * 10, strategy="raw"),
        *of("m", "x" * 30 + "." * 10),
        *of("m", "." * 40, strategy="guided"),
    ]
    blank.resize(width)
    blank.open(page_of(trials, tmp_path))
    boxes = blank.run(
        "return [...document.querySelectorAll('#gain .plot .shape')].map((each) => {"
        " const { left, right, top, bottom } = each.getBoundingClientRect();"
        " return { left, right, top, bottom }; })"
    )

    assert len(boxes) == 3
    for one, other in itertools.combinations(boxes, 2):
        assert (
            one["right"] <= other["left"]
            or other["right"] <= one["left"]
            or one["bottom"] <= other["top"]
            or other["bottom"] <= one["top"]
        )


def test_there_is_a_map_only_where_there_are_several_profiles(
    board: Browser, tmp_path: Path
) -> None:
    assert board.run("return document.getElementById('map')") is None
    assert "Profiles" not in board.text(".bar nav")
    two = [*of("m", "." * 9), *of("m", "x" * 9, profile="creative")]
    board.open(page_of(two, tmp_path))

    assert [text.split()[0] for text in board.texts("#map .cell")] == ["default", "creative"]
    assert "Profiles" in board.text(".bar nav")


def test_columns_without_figures_are_left_out_of_the_list(board: Browser) -> None:
    heads = board.run(
        "return [...document.querySelectorAll('#list .head > *')]"
        ".filter((each) => each.checkVisibility()).map((each) => each.textContent)"
    )
    assert heads == ["Status", "Model", "Scenario", "Trial", "Why", "Turns", "Time", "Tokens"]
    columns = (
        "return [...document.querySelectorAll('#use thead th')].map((th) => th.firstChild.data)"
    )
    assert board.run(columns) == ["Model", None, "Passed", "To know"]


def test_every_part_of_a_simulated_report_says_so(browser: Browser, made: Made) -> None:
    parts = browser.run(
        "return [...document.querySelectorAll('main section')].map((each) =>"
        " [each.id, [...each.querySelectorAll('.sim')].some((sim) => sim.checkVisibility())])"
    )
    assert len(made.trials) > 0
    assert [name for name, told in parts if not told] == []
    assert browser.texts("#use .group .sim") == ["simulated"] * len(browser.texts("#use .group"))
