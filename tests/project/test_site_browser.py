"""The site that `make site` has built, in a browser: read on a phone, and searched from a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.support.browser import Browser, missing, started
from tests.support.project_files import ROOT

SITE = ROOT / "site"
PHONE = 390

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not (SITE / "index.html").exists():
        missing("there is no site", "`make site` builds it")
    with started() as browser:
        yield browser


def test_a_word_is_found_by_keyboard_without_any_server(browser: Browser) -> None:
    browser.open(SITE / "index.html")
    browser.press("/")
    browser.press(f"JSONDecodeError{Keys.ENTER}")
    browser.wait("document.querySelector('ul.search li a')")

    assert "My agent breaks" in browser.texts("ul.search li a")
    assert browser.complaints() == []


def test_no_page_is_wider_than_a_phone_or_asks_for_anything_outside(browser: Browser) -> None:
    browser.resize(PHONE)
    wide: list[tuple[str, int]] = []
    for path in sorted(SITE.glob("*.html")):
        browser.open(path)
        wide += _too_wide(browser, path)

    assert wide == []
    assert browser.complaints() == []


def test_results_have_snippets_and_guides_come_before_decisions(browser: Browser) -> None:
    browser.open((SITE / "search.html").as_uri() + "?q=approval")
    browser.wait("document.querySelector('.search-summary')?.innerText.includes('finished')")
    browser.wait("document.querySelectorAll('ul.search li:not(:has(p.context))').length === 0")
    titles = browser.texts("ul.search li > a")
    decision = next(title for title in titles if title.startswith("23."))

    assert titles[0] == "Conversations and human approval"
    assert titles.index("MCP servers") < titles.index(decision)
    assert browser.complaints() == []


def test_every_block_of_code_can_be_copied_and_none_is_cut_off(browser: Browser) -> None:
    browser.resize(PHONE)
    browser.open(SITE / "index.html")
    cut = "return [...document.querySelectorAll('pre')].filter(e => e.scrollWidth > e.clientWidth)"
    without = "return [...document.querySelectorAll('.highlight')].filter(e => !e.lastChild.click)"

    assert browser.run(f"{cut}.length") == 0
    assert browser.run(f"{without}.length") == 0
    assert set(browser.texts("button.copy")) == {"Copy"}


def _too_wide(browser: Browser, path: Path) -> list[tuple[str, int]]:
    width = browser.run("return document.documentElement.scrollWidth")
    return [(path.name, width)] if width > PHONE else []
