"""A browser for tests of the report, and the page of a small run to open in it."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

import msgspec
import pytest
from selenium import webdriver
from selenium.common.exceptions import SessionNotCreatedException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from surecall import cli
from surecall.eval.analysis.summary import Summary, summarize
from surecall.eval.report.page.page_files import write_report_at
from surecall.eval.storage.run_directories import find_run
from surecall.eval.storage.store import open_for_reading
from surecall.eval.storage.trial import Trial
from tests.support.hostile_texts import CANARY
from tests.support.timing import PATIENCE_S, until

# A real browser for tests of the report: the Chrome or Chromium of this machine, without a window.
# It is driven over loopback. Without one the tests are skipped; where SURECALL_TEST_BROWSER is set,
# they fail. Before a page runs its first line, a watch is set: whatever an attack would do, and
# whatever the page's own policy stops, is kept in `window.caught`.


BROWSERS: Final = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
DRIVERS: Final = ("chromedriver", "chromium.chromedriver")
DEMANDED: Final = "SURECALL_TEST_BROWSER"
NONE_FOUND: Final = "no Chrome or Chromium with its chromedriver on the PATH"
MISFIT: Final = "the browser does not start with the chromedriver on the PATH"
_CURE: Final = "`make browser` installs both"
# Networking flags: without them chromium looks for updates, which no test may do.
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A test goes from run to run faster than a person could.
    "--disable-ipc-flooding-protection",
    "--window-size=1280,900",
)
_LOGS: Final = {"browser": "ALL", "performance": "ALL"}
_WATCH: Final = f"""
    window.caught = [];
    for (const name of ["alert", "confirm", "prompt", "print"])
        window[name] = () => window.caught.push(name);
    Object.defineProperty(window, "{CANARY}", {{ set: () => window.caught.push("{CANARY}") }});
    addEventListener("securitypolicyviolation",
        (event) => window.caught.push(`${{event.violatedDirective}} ${{event.blockedURI}}`));
"""


_IS_LOADED = """
    const here = location.href.split("#")[0];
    return document.readyState === "complete" && (here === arguments[0] || here.startsWith("http"));
"""


class Browser:
    """One window. `complaints` says what went wrong in it since the last question."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver
        self._opened: list[str] = []

    def open(self, address: str | Path) -> None:
        """Load a page and wait for it."""
        where = address.as_uri() if isinstance(address, Path) else address
        self._opened.append(where.partition("#")[0].rpartition("/")[0] + "/")
        self._driver.get(where)
        # On a busy machine the driver may return while the page before it is still shown.
        page = where.partition("#")[0]
        until(lambda: self.run(_IS_LOADED, page))

    def reload(self) -> None:
        self._driver.refresh()

    def back(self) -> None:
        self._driver.back()

    @property
    def address(self) -> str:
        return self._driver.current_url

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script that returns something."""
        return self._driver.execute_script(script, *arguments)

    def run_async(self, script: str, *arguments: Any) -> Any:
        """Run the body of an async function and wait for what it returns."""
        wrapped = (
            "const done = arguments[arguments.length - 1];"
            f"(async (...given) => {{ {script} }})(...[...arguments].slice(0, -1))"
            ".then(done, (error) => done(`failed: ${error}`));"
        )
        return self._driver.execute_async_script(wrapped, *arguments)

    def wait(self, condition: str, *arguments: Any) -> Any:
        """Wait until an expression is true and the page has drawn, and return its value."""
        waiting = WebDriverWait(self._driver, PATIENCE_S, poll_frequency=0.02)
        value = waiting.until(lambda _: self.run(f"return {condition}", *arguments), condition)
        self._wait_for_drawing()
        return value

    def _wait_for_drawing(self) -> None:
        # An address changes before the page shows it; the list draws its rows a frame later.
        self.run_async("for (const _ of 'ab') await new Promise(requestAnimationFrame);")

    def click(self, selector: str) -> None:
        """Click the first element that matches, as a person would: it must be in sight."""
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self._wait_for_drawing()
        self._driver.find_element(By.CSS_SELECTOR, selector).click()

    def press(self, keys: str) -> None:
        """Press keys, wherever the focus is."""
        ActionChains(self._driver).send_keys(keys).perform()

    def text(self, selector: str) -> str:
        """Return what can be read in the first element that matches."""
        return self._driver.find_element(By.CSS_SELECTOR, selector).text

    def texts(self, selector: str) -> list[str]:
        """Return the text of each element that matches, whether it is in sight or not."""
        found: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((each) => each.textContent.trim())",
            selector,
        )
        return found

    def devtools(self, command: str, **parameters: Any) -> Any:
        """Send a command of the DevTools protocol."""
        return self._driver.execute_cdp_cmd(command, parameters)

    def prefer(self, scheme: str) -> None:
        """Be a system in light or dark mode."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.devtools("Emulation.setEmulatedMedia", features=features)

    def resize(self, width: int, height: int = 900) -> None:
        """Be a screen of this size."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last question."""
        logged = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        return [
            event["params"]["request"]["url"]
            for event in logged
            if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Return what the console says, what was caught, and requests that left the pages."""
        own = (*self._opened, "data:", "about:", "blob:")
        self._opened = self._opened[-1:]
        away = [f"asked for {url}" for url in self.requests() if not url.startswith(own)]
        console = [f"{entry['level']}: {entry['message']}" for entry in self._log("browser")]
        caught = [f"caught {what}" for what in self.run("return window.caught ?? []")]
        return [*away, *console, *caught]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._driver.get_log(kind)  # type: ignore[no-untyped-call]
        return entries


def installed() -> tuple[str, str] | None:
    """Return the browser and its driver that are on the PATH, None unless both are."""
    browser, driver = (
        next(filter(None, map(shutil.which, names)), None) for names in (BROWSERS, DRIVERS)
    )
    return None if browser is None or driver is None else (browser, driver)


def missing(reason: str, cure: str = _CURE) -> NoReturn:
    """Skip what needs a browser; where one is demanded, fail: what tests would say is unknown."""
    if os.environ.get(DEMANDED):
        pytest.fail(reason)
    pytest.skip(f"tests in a browser did not run: {reason}; {cure}")


@contextmanager
def started() -> Iterator[Browser]:
    """Start a browser."""
    found = installed()
    if found is None:
        missing(NONE_FOUND)
    options = webdriver.ChromeOptions()
    options.binary_location, service = found
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", _LOGS)
    try:
        driver = webdriver.Chrome(options=options, service=Service(service))
    except SessionNotCreatedException:
        missing(MISFIT)
    try:
        driver.set_script_timeout(PATIENCE_S)
        browser = Browser(driver)
        browser.devtools("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        yield browser
    finally:
        driver.quit()


# A small run of the simulator and the page that is made of it, for tests in a browser


MODELS = "sim/clean,sim/lazy,sim/like-kimi,sim/like-glm-flash"


class Made(msgspec.Struct, frozen=True):
    """A run, its page, and what should stand in it."""

    directory: Path
    page: Path
    trials: list[Trial]
    summary: Summary

    def failed(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.status == "failed"]

    def events(self, trial: Trial, kind: str) -> list[dict[str, Any]]:
        with open_for_reading(self.directory) as store:
            lines = (store.trace(trial.key) or b"").splitlines()
        return [event for event in map(json.loads, lines) if event["type"] == kind]


def make_run(base: Path) -> Made:
    """Run a small matrix and write its page."""
    directory = evaluated(base, "-m", MODELS, "--strategy", "raw,production", "-n", "2")
    with open_for_reading(directory) as store:
        trials = list(store.trials())
    return Made(directory, write_report_at(directory), trials, summarize(trials))


def evaluated(base: Path, *arguments: str) -> Path:
    """Run an evaluation with the simulator, whatever is set here; return its directory."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("SURECALL_", "OPENROUTER_"))]:
            patch.delenv(name)
        patch.chdir(base)
        cli.main(["eval", "-q", *arguments, "--runs", str(base)])
        return find_run(base, "latest")


def address_of(trial: Trial, turn: int | None = None) -> str:
    """Return the deep link to a trial, or to one of its turns."""
    cell = trial.key.cell
    names = (cell.model, cell.profile, cell.strategy, trial.key.scenario, str(trial.key.trial))
    # What a browser's own encoding leaves as it is.
    parts = ",".join(quote(name, safe="!'()*~") for name in names)
    return f"#run/{parts}" + ("" if turn is None else f"/{turn}")


def show(browser: Browser, address: str) -> None:
    """Go to a run within the open page, and wait until it is shown."""
    browser.run("location.hash = arguments[0]", address)
    browser.wait("document.querySelector('#wire dl, #wire .hint') !== null")
