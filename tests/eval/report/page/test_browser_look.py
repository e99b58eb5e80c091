"""How the report looks: light, dark, on small screens, on paper; and without eyes or a mouse."""

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser
from tests.support.viewed import Made, address_of, show

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


@pytest.fixture(autouse=True)
def _as_it_was(window: Browser) -> Iterator[None]:
    yield
    window.devtools("Emulation.clearDeviceMetricsOverride")
    window.devtools("Emulation.setEmulatedMedia", media="", features=[])


def brightness(browser: Browser) -> int:
    """Return how bright the page's ground is, from 0 to 765."""
    colour: str = browser.run("return getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour[4:-1].split(","))


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


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_sticks_out_at_the_side(blank: Browser, made: Made, width: int) -> None:
    blank.resize(width)
    blank.open(made.page)
    assert blank.run("return innerWidth") == width
    assert blank.run(WIDE) == []
    show(blank, address_of(made.failed()[0]))
    assert blank.run(WIDE) == []


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


def test_the_task_of_a_run_is_cut_between_lines(blank: Browser, made: Made) -> None:
    blank.open(made.page)
    show(blank, address_of(made.failed()[0]))
    lines = blank.run(
        "const box = document.querySelector('#trace-task .text');"
        "return [box.scrollHeight, box.getBoundingClientRect().height]"
        ".map((height) => height / parseFloat(getComputedStyle(box).lineHeight))"
    )

    assert lines[0] > lines[1] == pytest.approx(5)


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


def test_whatever_can_be_used_has_a_name(browser: Browser, made: Made) -> None:
    used = {"button", "link", "combobox", "searchbox", "textbox", "tab", "tabpanel", "navigation"}
    report = nodes(browser)
    show(browser, address_of(made.failed()[0]))
    trace = nodes(browser)

    assert [node for node in (*report, *trace) if node[0] in used and not node[1].strip()] == []
    assert {role for role, _ in report} >= {"main", "navigation", "heading", "table", "search"}
    assert {role for role, _ in trace} >= {"main", "navigation", "heading", "tab", "tabpanel"}


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


def test_the_list_can_be_walked_with_the_keyboard_alone(browser: Browser, made: Made) -> None:
    browser.run("document.querySelector('#list').focus()")
    sorts = len(browser.texts("#list .head button"))
    browser.press("\ue004" * (sorts + 1))
    assert browser.run("return document.activeElement.closest('#list .rows') !== null")
    browser.press("\ue007")
    browser.wait("document.querySelector('#wire dl') !== null")

    assert browser.run("return document.activeElement.id") == "trace-title"
    assert len(made.trials) > 20
