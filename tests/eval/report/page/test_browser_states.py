"""Reports of runs that are not whole, in a real browser: each says what it knows."""

from pathlib import Path

from surecall.eval.report.page.files import write_report_at
from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.snapshot import report_of_snapshot
from surecall.eval.storage.run_directories import DATABASE
from surecall.eval.storage.store import Store, open_for_reading, open_or_resume
from tests.support.browser import Browser
from tests.support.eval_results import SAME
from tests.support.trials import rich_trials
from tests.support.viewed import Made, address_of, show


def empty_run(base: Path) -> Store:
    return open_or_resume(base, SAME)


def test_a_run_without_trials_says_that_there_are_none(blank: Browser, tmp_path: Path) -> None:
    with empty_run(tmp_path) as store:
        blank.open(write_report_at(store.directory))

    assert "No run is recorded yet." in blank.text(".sentence")
    assert blank.text("#shown") == "0 runs."
    blank.press("n/")


def test_a_single_run_is_a_report_too(blank: Browser, made: Made, tmp_path: Path) -> None:
    trial = made.trials[0]
    with open_for_reading(made.directory) as recorded, empty_run(tmp_path) as store:
        store.add(trial, recorded.trace(trial.key))
    blank.open(write_report_at(store.directory))
    show(blank, address_of(trial))

    assert blank.texts("#turns li")


def test_a_run_without_its_traces_still_lists_every_kind_of_end(
    blank: Browser, tmp_path: Path
) -> None:
    trials = rich_trials()
    with empty_run(tmp_path) as store:
        store.absorb((trial, None) for trial in trials)
    blank.open(write_report_at(store.directory))

    assert blank.text("#shown") == f"{len(trials)} runs."
    for status in ("passed", "failed", "infra", "skipped"):
        show(blank, address_of(next(trial for trial in trials if trial.status == status)))
        assert blank.text("#trace-why")
        assert "No conversation is on record." in blank.text("#talk")


def test_a_damaged_run_says_what_is_wrong(blank: Browser, tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"not a database, but long enough to look like one")
    blank.open(write_report_at(tmp_path))

    assert "is damaged" in blank.text("#top")


def test_the_snapshot_is_a_report_without_runs(blank: Browser, tmp_path: Path) -> None:
    page = tmp_path / "snapshot.html"
    page.write_text(render_page(report_of_snapshot()), "utf-8")
    blank.open(page)

    assert "Use" in blank.text(".sentence")
    assert len(blank.texts("#map .cell")) == 29
    assert len(blank.texts("#use tbody tr:not(.group)")) == 17
    blank.press("n")
    assert blank.run("return location.hash") == ""
