"""The board of the report in a browser, and how the page looks."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surecall.eval.report.page.data import ReportContext, build_report
from surecall.eval.report.page.html import render_page
from surecall.eval.storage.trial import Cell, Trial
from tests.support.browser import Browser, Made, address_of, show
from tests.support.trials import series

# The first screen in a real browser: what to use, on one axis, on every screen


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
    page.write_text(render_page(build_report(trials, ReportContext())), "utf-8")
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


@pytest.fixture
def _as_it_was(window: Browser) -> Any:
    yield
    window.devtools("Emulation.clearDeviceMetricsOverride")
    window.devtools("Emulation.setEmulatedMedia", media="", features=[])


@pytest.mark.usefixtures("_as_it_was")
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_the_first_screen_says_what_to_use(board: Browser, width: int, scheme: str) -> None:
    board.prefer(scheme)
    board.resize(width, HEIGHT)
    said = " ".join(board.text("h1.sentence").split())

    setting = "with production (profile default)."
    assert said == (
        f"✓ Use maker/good and maker/fine {setting} ✗ Avoid maker/poor, even {setting} "
        f"? maker/open needs more trials {setting}"
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


@pytest.mark.usefixtures("_as_it_was")
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
    assert axis["texts"]["threshold 90%"] == pytest.approx(bar, abs=1.5)


@pytest.mark.usefixtures("_as_it_was")
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
    assert "No conversations changed for same." in blank.text("#gain")
    start = min(int(text[:-1]) for text in axis["texts"] if text.endswith("%") and " " not in text)
    places = [axis["left"] + (rate - start) / (100 - start) * axis["width"] for rate in (25, 100)]
    assert ends == pytest.approx(places, abs=1.5)


@pytest.mark.usefixtures("_as_it_was")
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


@pytest.mark.usefixtures("_as_it_was")
def test_there_is_a_map_only_where_there_are_several_profiles(
    board: Browser, tmp_path: Path
) -> None:
    assert board.run("return document.getElementById('map')") is None
    assert "Profiles" not in board.text(".bar nav")
    two = [*of("m", "." * 9), *of("m", "x" * 9, profile="creative")]
    board.open(page_of(two, tmp_path))

    assert [text.split()[0] for text in board.texts("#map .cell")] == ["default", "creative"]
    assert "Profiles" in board.text(".bar nav")


@pytest.mark.usefixtures("_as_it_was")
def test_columns_without_figures_are_left_out_of_the_list(board: Browser) -> None:
    heads = board.run(
        "return [...document.querySelectorAll('#list .head > *')]"
        ".filter((each) => each.checkVisibility()).map((each) => each.textContent)"
    )
    assert heads == ["Status", "Model", "Scenario", "Trial", "Why", "Turns", "Time", "Tokens"]
    columns = (
        "return [...document.querySelectorAll('#use thead th')].map((th) => th.firstChild.data)"
    )
    assert board.run(columns) == ["Model", None, "Rate", "95% interval", "Passed", "Notes"]


@pytest.mark.usefixtures("_as_it_was")
def test_a_simulated_report_says_so_once_in_each_view(browser: Browser, made: Made) -> None:
    badges = (
        "return [...document.querySelectorAll('.sim')]"
        ".filter((each) => each.checkVisibility()).map((each) => each.closest('[id]').id)"
    )
    assert browser.run(badges) == ["top"]
    show(browser, address_of(made.failed()[0]))
    assert browser.run(badges) == ["trace"]


def test_all_headings_of_a_table_have_one_weight_and_do_not_overlap(board: Browser) -> None:
    found = board.run(
        "return [...document.querySelectorAll('#use thead th:not(.drawn)')].map((th) => {"
        " const text = document.createRange(); text.selectNodeContents(th);"
        " const box = text.getBoundingClientRect();"
        " return [getComputedStyle(th).fontWeight, box.left, box.right]; })"
    )
    weights = board.run(
        "return [...document.querySelectorAll('#use thead :is(small, text)')]"
        ".map((each) => getComputedStyle(each).fontWeight)"
    )

    assert {weight for weight, *_ in found} | {*weights} == {"600"}
    ends = [end for _, *box in found for end in box]
    assert ends == sorted(ends)


@pytest.mark.usefixtures("_as_it_was")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_shadow_at_an_edge_never_lightens_what_is_below(board: Browser, scheme: str) -> None:
    board.prefer(scheme)
    shade = board.run(
        "const each = document.createElement('i'); document.body.append(each);"
        "each.style.color = 'var(--shade)'; return getComputedStyle(each).color"
    )

    assert shade.startswith("rgba(0, 0, 0, ")


# How the report looks: light, dark, on small screens, on paper; and without eyes or a mouse


# Every text that can be seen, with the contrast to what is behind it (WCAG 2). A canvas turns
# any notation of a colour into numbers.
FAINT = """
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const rgba = (colour) => {
      if (!known.has(colour)) {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        known.set(colour, [r, g, b, a / 255]);
      }
      return known.get(colour);
    };
    const over = (top, below) => {
      const a = top[3];
      return [0, 1, 2].map((at) => top[at] * a + below[at] * (1 - a)).concat(1);
    };
    const behind = (node) => {
      if (!node) return [255, 255, 255, 1];
      const own = rgba(getComputedStyle(node).backgroundColor);
      return own[3] === 1 ? own : over(own, behind(node.parentElement));
    };
    const light = (colour) => {
      const [r, g, b] = colour.map((part) => {
        const share = part / 255;
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const faint = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || !node.checkVisibility()) continue;
      // The dot that stands for nothing may be faint.
      if (node.closest("script, style, option, .unseen, .skip, .nothing, :disabled")) continue;
      const style = getComputedStyle(node);
      const ground = behind(node);
      const text = over(rgba(node.closest("svg") ? style.fill : style.color), ground);
      const [low, high] = [light(text), light(ground)].sort((a, b) => a - b);
      const ratio = (high + 0.05) / (low + 0.05);
      if (ratio < 4.5) faint.add(`${node.tagName}.${node.className} ${ratio.toFixed(2)}`);
    }
    return [...faint];
"""
WIDE = """
    const page = document.documentElement;
    const wide = [...document.querySelectorAll("body *")]
        .filter((each) => each.checkVisibility() && !each.closest(".scroll, pre, #list, .unseen"))
        .filter((each) => each.getBoundingClientRect().right > page.clientWidth + 1)
        .map((each) => `${each.tagName}#${each.id}.${each.className}`);
    return page.scrollWidth > page.clientWidth ? ["the page", ...wide] : wide;
"""


@pytest.fixture
def _look_as_it_was(window: Browser) -> Iterator[None]:
    yield
    window.devtools("Emulation.clearDeviceMetricsOverride")
    window.devtools("Emulation.setEmulatedMedia", media="", features=[])


def brightness(browser: Browser) -> int:
    """Return how bright the page's ground is, from 0 to 765."""
    colour: str = browser.run("return getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour[4:-1].split(","))


@pytest.mark.usefixtures("_look_as_it_was")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_light_and_in_dark(
    blank: Browser, made: Made, scheme: str
) -> None:
    blank.prefer(scheme)
    blank.open(made.page)

    assert (brightness(blank) > 600) == (scheme == "light")
    assert blank.run(FAINT) == []
    show(blank, address_of(made.failed()[0]))
    assert blank.run(FAINT) == []


@pytest.mark.usefixtures("_look_as_it_was")
def test_the_colours_follow_the_system_until_they_are_chosen(browser: Browser) -> None:
    browser.prefer("dark")
    browser.wait("document.documentElement.dataset.theme === 'dark'")
    browser.prefer("light")
    browser.wait("document.documentElement.dataset.theme === 'light'")
    before = brightness(browser)
    browser.click("#theme")
    assert brightness(browser) < 200 < before
    browser.reload()
    assert brightness(browser) < 200
    browser.click("#theme")
    assert brightness(browser) == before
    browser.run("localStorage.clear()")


@pytest.mark.usefixtures("_look_as_it_was")
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_sticks_out_at_the_side(blank: Browser, made: Made, width: int) -> None:
    blank.resize(width)
    blank.open(made.page)
    assert blank.run("return innerWidth") == width
    assert blank.run(WIDE) == []
    show(blank, address_of(made.failed()[0]))
    assert blank.run(WIDE) == []


@pytest.mark.usefixtures("_look_as_it_was")
def test_on_a_phone_whatever_moves_sideways_says_so_at_its_edge(blank: Browser, made: Made) -> None:
    blank.resize(390)
    blank.open(made.page)
    hinted = blank.run(
        "return [...document.querySelectorAll('.scroll')]"
        ".filter((each) => each.scrollWidth > each.clientWidth)"
        ".map((each) => getComputedStyle(each).backgroundAttachment)"
    )

    assert len(hinted) > 2
    assert set(hinted) == {"local, local, scroll, scroll"}


@pytest.mark.usefixtures("_look_as_it_was")
def test_the_task_of_a_run_is_cut_between_lines(blank: Browser, made: Made) -> None:
    blank.open(made.page)
    show(blank, address_of(made.failed()[0]))
    lines = blank.run(
        "const box = document.querySelector('#trace-task .text');"
        "return [box.scrollHeight, box.getBoundingClientRect().height]"
        ".map((height) => height / parseFloat(getComputedStyle(box).lineHeight))"
    )

    assert lines[0] > lines[1] == pytest.approx(5)


@pytest.mark.usefixtures("_look_as_it_was")
def test_on_a_phone_every_column_can_still_be_read(blank: Browser, made: Made) -> None:
    blank.resize(390)
    blank.open(made.page)

    assert "Undecided" in blank.text("#use")
    blank.click("#failed .cause .times a")
    blank.wait("location.hash.startsWith('#runs?cause=')")
    assert blank.run("return document.querySelector('#list .row.failed .why').checkVisibility()")
    blank.click("#list .rows .row a")
    blank.wait("document.querySelector('#wire dl') !== null")
    assert blank.run("return document.getElementById('wire').checkVisibility()")


@pytest.mark.usefixtures("_look_as_it_was")
def test_on_paper_it_is_dark_on_white_and_complete(blank: Browser, made: Made) -> None:
    blank.prefer("dark")
    blank.open(made.page)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    blank.devtools("Emulation.setEmulatedMedia", media="print", features=dark)

    assert brightness(blank) == 765
    assert blank.run(FAINT) == []
    for section in ("top", "use", "gain", "failed", "scenarios", "reliability"):
        assert blank.text(f"#{section}")


def nodes(browser: Browser) -> list[tuple[str, str]]:
    """Return role and name of everything that a screen reader can tell of."""
    browser.devtools("Accessibility.enable")
    found = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    browser.devtools("Accessibility.disable")
    return [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in found
        if not node["ignored"]
    ]


@pytest.mark.usefixtures("_look_as_it_was")
def test_whatever_can_be_used_has_a_name(browser: Browser, made: Made) -> None:
    used = {"button", "link", "combobox", "searchbox", "textbox", "tab", "tabpanel", "navigation"}
    report = nodes(browser)
    show(browser, address_of(made.failed()[0]))
    trace = nodes(browser)

    assert [node for node in (*report, *trace) if node[0] in used and not node[1].strip()] == []
    assert {role for role, _ in report} >= {"main", "navigation", "heading", "table", "search"}
    assert {role for role, _ in trace} >= {"main", "navigation", "heading", "tab", "tabpanel"}


@pytest.mark.usefixtures("_look_as_it_was")
def test_there_is_one_main_part_and_one_first_heading_at_a_time(
    browser: Browser, made: Made
) -> None:
    def found(role: str) -> int:
        return sum(each == role for each, _ in nodes(browser))

    def headings() -> int:
        seen = browser.run(
            "return [...document.querySelectorAll('h1')].filter((h) => h.checkVisibility()).length"
        )
        return int(seen)

    assert (found("main"), headings()) == (1, 1)
    show(browser, address_of(made.failed()[0]))
    assert (found("main"), headings()) == (1, 1)


@pytest.mark.usefixtures("_look_as_it_was")
def test_whatever_has_the_focus_can_be_seen_to_have_it(browser: Browser) -> None:
    for _ in range(12):
        browser.press("\ue004")
        outline = browser.run(
            "const style = getComputedStyle(document.activeElement);"
            "return [document.activeElement.tagName, style.outlineStyle, style.outlineWidth]"
        )
        assert outline[0] != "BODY"
        assert outline[1] != "none"
        assert outline[2] != "0px"


@pytest.mark.usefixtures("_look_as_it_was")
def test_the_list_can_be_walked_with_the_keyboard_alone(browser: Browser, made: Made) -> None:
    browser.run("document.querySelector('#list').focus()")
    sorts = len(browser.texts("#list .head button"))
    browser.press("\ue004" * (sorts + 1))
    assert browser.run("return document.activeElement.closest('#list .rows') !== null")
    browser.press("\ue007")
    browser.wait("document.querySelector('#wire dl') !== null")

    assert browser.run("return document.activeElement.id") == "trace-title"
    assert len(made.trials) > 20
