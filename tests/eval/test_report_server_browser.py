"""The live report in a real browser, while trials come in."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from surecall.eval.analysis.summary import summarize
from surecall.eval.report_server import LiveReport
from surecall.eval.storage.store import Invocation, RunStore, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Trial
from tests.support.browser import Browser, Made, address_of, show
from tests.support.trials import SAME

Packed = list[tuple[Trial, bytes | None]]


@pytest.fixture
def packed(made: Made) -> Packed:
    """Return the runs of the simulator, with their traces, to be recorded one by one."""
    with open_for_reading(made.directory) as store:
        return list(store.packed_trials())


@pytest.fixture
def store(tmp_path: Path, packed: Packed) -> Iterator[RunStore]:
    with open_or_resume(tmp_path, SAME, Invocation(command=("surecall", "eval"))) as opened:
        opened.absorb(packed[:10])
        yield opened


@contextmanager
def served(browser: Browser, directory: Path) -> Iterator[LiveReport]:
    """Serve a run. The page is asked how it went, and left, before its server ends."""
    with LiveReport(directory) as live:
        yield live
        assert browser.complaints() == []
        browser.open("about:blank")
        browser.complaints()


@pytest.fixture
def live(blank: Browser, store: RunStore) -> Iterator[LiveReport]:
    with served(blank, store.directory) as live:
        yield live


def has_runs(browser: Browser, count: int) -> None:
    """Wait until the page holds that many runs."""
    shown = "document.getElementById('shown').textContent"
    browser.wait(f"{shown}.endsWith(arguments[0])", f"{count} runs.")


def test_new_runs_appear_with_their_figures(
    blank: Browser, live: LiveReport, store: RunStore, packed: Packed
) -> None:
    blank.open(live.url)
    has_runs(blank, 10)
    store.absorb(packed[10:])
    has_runs(blank, len(packed))
    cells = [each for each in summarize(store.trials()).cells if each.cell.strategy == "production"]

    assert blank.text("#live") == "Live"
    shown = blank.text("#use")
    assert all(f"{each.totals.tool.k}/{each.totals.tool.n}" in shown for each in cells)
    # A section that had no subject before is there now, in its place, and so is its link.
    assert blank.run("return document.querySelector('#use + #gain + #failed') !== null")
    assert "Gains" in blank.text(".bar nav")


def test_what_someone_has_chosen_and_opened_stays(
    blank: Browser, live: LiveReport, store: RunStore, packed: Packed
) -> None:
    missed = [pair for pair in packed if pair[0].category == "NO_TOOL_CALLS"]
    store.absorb(missed)
    blank.open(live.url)
    has_runs(blank, 10 + len(missed))
    blank.run(
        "const select = document.getElementById('filters').elements.code;"
        "const named = (each) => each.text === 'NO_TOOL_CALLS';"
        "select.selectedIndex = [...select.options].findIndex(named);"
        "select.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert blank.text("#shown") == f"{len(missed)} of {10 + len(missed)} runs."
    blank.click("#failed > details > summary")
    # The codes of earlier runs push the chosen one to another place in its table.
    store.absorb(packed)
    has_runs(blank, len(packed))

    assert blank.text("#shown") == f"{len(missed)} of {len(packed)} runs."
    assert set(blank.texts("#list .rows .status")) == {"✗ failed"}
    assert blank.run("return document.querySelector('#failed > details').open")


def test_the_focus_stays_where_it_is(
    blank: Browser, live: LiveReport, store: RunStore, packed: Packed
) -> None:
    blank.open(live.url)
    has_runs(blank, 10)
    blank.run("document.querySelector('#use th a').focus()")
    store.absorb(packed[10:20])
    has_runs(blank, 20)

    assert blank.run("return document.activeElement.matches('#use th a')")


def test_a_run_can_be_read_while_others_come_in(
    blank: Browser, live: LiveReport, store: RunStore, packed: Packed
) -> None:
    trial = packed[5][0]
    blank.open(live.url)
    has_runs(blank, 10)
    show(blank, address_of(trial))
    blank.press("r")
    before = blank.text("#trace")
    blank.run("window.first = document.querySelector('#view pre')")
    store.absorb(packed[::-1])
    has_runs(blank, len(packed))

    assert blank.text("#trace") == before
    assert blank.run("return window.first.isConnected")
    blank.press("n")
    blank.wait("!document.title.includes(arguments[0])", trial.key.scenario)


def test_a_link_to_a_run_that_has_yet_to_come_opens_it_when_it_comes(
    blank: Browser, live: LiveReport, store: RunStore, packed: Packed
) -> None:
    blank.open(live.url + address_of(packed[30][0]))
    assert blank.text("#trace-title") == "No such run"
    store.absorb(packed[30:31])
    blank.wait("document.querySelector('#wire dl') !== null")

    assert packed[30][0].key.scenario in blank.text("#trace-title")


def test_a_reload_shows_the_same_place_as_things_are_now(
    blank: Browser, live: LiveReport, store: RunStore, packed: Packed
) -> None:
    trial = packed[3][0]
    blank.open(live.url)
    show(blank, address_of(trial))
    store.absorb(packed[10:])
    blank.reload()
    blank.wait("document.querySelector('#wire dl') !== null")
    assert trial.key.scenario in blank.text("#trace-title")
    has_runs(blank, len(packed))


def test_the_end_of_an_evaluation_and_its_return_make_no_difference(
    blank: Browser, tmp_path: Path, packed: Packed
) -> None:
    with open_or_resume(tmp_path, SAME) as store:
        store.absorb(packed[:10])
    with served(blank, store.directory) as live:
        blank.open(live.url)
        has_runs(blank, 10)
        with open_or_resume(tmp_path, SAME) as resumed:
            resumed.absorb(packed[10:20])
            has_runs(blank, 20)
        assert resumed.directory == store.directory
        assert blank.text("#live") == "Live"


def test_when_the_server_ends_the_page_says_so_and_keeps_what_it_has(
    window: Browser, store: RunStore
) -> None:
    window.open("about:blank")
    with LiveReport(store.directory) as live:
        window.open(live.url)
        has_runs(window, 10)
        assert window.complaints() == []
    window.wait("document.getElementById('live').textContent.startsWith('Not connected')")
    assert window.text("#shown") == "10 runs."
    window.open("about:blank")
    window.complaints()


def test_a_run_that_cannot_be_read_any_more_is_told(window: Browser, store: RunStore) -> None:
    window.open("about:blank")
    with LiveReport(store.directory) as live:
        window.open(live.url)
        has_runs(window, 10)
        store.close()
        (store.directory / "trials.sqlite").write_bytes(b"damaged, and long enough to be noticed")
        window.wait("document.getElementById('live').textContent.includes('is damaged')")
        assert window.text("#shown") == "10 runs."
        window.open("about:blank")
    window.complaints()


def test_no_request_leaves_the_address_with_the_token(
    blank: Browser, live: LiveReport, packed: Packed
) -> None:
    blank.open(live.url)
    show(blank, address_of(packed[0][0]))
    asked = blank.requests()

    assert any("/trace?" in url for url in asked)
    assert [url for url in asked if not url.startswith((live.url, "data:"))] == []
