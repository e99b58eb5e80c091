"""The site that `make site` has built, in a browser: read on a phone, and searched from a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.support.browser import Browser, missing, started
from tests.support.paths import ROOT

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


def _too_wide(browser: Browser, path: Path) -> list[tuple[str, int]]:
    width = browser.run("return document.documentElement.scrollWidth")
    return [(path.name, width)] if width > PHONE else []
