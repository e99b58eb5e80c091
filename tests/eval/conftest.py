"""The browser and the page in it, as fixtures. Each process of the tests starts one browser."""

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser, Made, make_run, started


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    with started() as browser:
        yield browser


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture
def blank(window: Browser) -> Iterator[Browser]:
    """Empty the window; whatever a test opens in it, nothing may go wrong inside."""
    window.open("about:blank")
    window.complaints()
    yield window
    assert window.complaints() == []


@pytest.fixture
def browser(blank: Browser, made: Made) -> Browser:
    """Open the page of the simulated run anew."""
    blank.open(made.page)
    return blank
