"""A small run of the simulator and the page that is made of it, for tests in a browser."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from surecall import cli
from surecall.eval.analysis.summary import Summary, summarise
from surecall.eval.report.page.files import write_report_at
from surecall.eval.storage.run_directories import find_run
from surecall.eval.storage.store import open_for_reading
from surecall.eval.storage.trial import Trial
from tests.support.browser import Browser

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
    return Made(directory, write_report_at(directory), trials, summarise(trials))


def evaluated(base: Path, *arguments: str) -> Path:
    """Run an evaluation with the simulator, whatever is set here; return its directory."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("SURECALL_", "OPENROUTER_"))]:
            patch.delenv(name)
        patch.chdir(base)
        cli.main(["eval", "-q", *arguments, "-o", str(base)])
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
