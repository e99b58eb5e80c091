"""Without a browser the tests of the report are skipped, unless it is demanded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.browser import BROWSERS, DEMANDED, DRIVERS, NONE_FOUND, installed, missing
from tests.support.project_files import ROOT

PAGES = ROOT / "tests" / "eval" / "report" / "page"
TESTS = (str(PAGES / "test_browser_trials.py"), str(PAGES / "test_browser_board.py"))


def provide(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n", "utf-8")
        (folder / name).chmod(0o755)


@pytest.mark.parametrize("browser", BROWSERS)
@pytest.mark.parametrize("driver", DRIVERS)
def test_any_browser_of_the_kind_will_do(
    browser: str, driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed() is None
    provide(tmp_path, browser)
    assert installed() is None
    provide(tmp_path, driver)
    assert installed() == (str(tmp_path / browser), str(tmp_path / driver))


def test_a_driver_alone_is_no_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    provide(tmp_path, *DRIVERS)
    assert installed() is None


def test_the_script_that_installs_a_browser_knows_the_same_names() -> None:
    script = (ROOT / "scripts" / "install_browser.sh").read_text("utf-8")

    assert f"have {' '.join(BROWSERS)} &&" in script
    assert f"have {' '.join(DRIVERS)};" in script


def test_what_is_missing_is_skipped_unless_it_is_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEMANDED, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no driver"):
        missing("no driver")
    monkeypatch.setenv(DEMANDED, "1")
    with pytest.raises(pytest.fail.Exception, match="no driver"):
        missing("no driver")


@pytest.mark.processes
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_run_without_a_browser_ends_with_one_line_about_it(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    ran = without_a_browser(tmp_path, *workers)
    (told,) = [line for line in ran.stdout.splitlines() if line.startswith("SKIPPED")]

    assert ran.returncode == 0, ran.stdout
    assert NONE_FOUND in told
    assert "`make browser`" in told


@pytest.mark.processes
def test_a_run_that_demands_a_browser_fails_without_one(tmp_path: Path) -> None:
    ran = without_a_browser(tmp_path, **{DEMANDED: "1"})

    assert ran.returncode == 1
    assert NONE_FOUND in ran.stdout


def without_a_browser(
    folder: Path, *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if name != DEMANDED}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *TESTS],
        cwd=ROOT,
        env=known | {"PATH": str(folder)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
