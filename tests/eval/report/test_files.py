"""The reports: equal to a recomputation, in the order of the plan, and safe against any text."""

from pathlib import Path

import msgspec
import pytest

from surecall.eval.report.common import (
    SHEET,
)
from surecall.eval.report.files import results_in, write_reports, write_trials
from surecall.eval.storage.run_directories import StoreError
from surecall.eval.storage.store import Invocation, Store, open_for_reading, open_or_resume
from surecall.eval.storage.trial import Cell
from tests.support.eval_results import (
    CELLS,
    EVENTS,
    HOSTILE,
    lines,
    many,
    sheet,
    trial,
)
from tests.support.spec import proves


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    about = Invocation(config={SHEET: msgspec.to_builtins(sheet(*CELLS))})
    with open_or_resume(tmp_path / "base", {}, about) as opened:
        opened.add(trial(Cell(HOSTILE.replace("\ud800", ""))), lines(*EVENTS))
        for one in many():
            opened.add(one)
    return opened


@proves("C136")
def test_reports_can_be_made_again_from_the_store_alone(filled: Store) -> None:
    with open_for_reading(filled.directory) as store:
        written = write_reports(filled.directory, results_in(store), store.meta, filed=True)
        first = {path.name: path.read_bytes() for path in written}
        for path in written:
            path.unlink()
        write_reports(filled.directory, results_in(store), store.meta, filed=True)
        count = write_trials(filled.directory, results_in(store), store.trials(), store.trace)

    assert {path.name: path.read_bytes() for path in written} == first
    assert sorted(first) == [
        "junit.xml",
        "report.md",
        "summary.json",
        "summary_by_scenario.json",
        "summary_by_scenario_and_strategy.json",
    ]
    head = msgspec.json.decode(first["summary.json"])
    files = [
        msgspec.json.decode(path.read_bytes()) for path in (filled.directory / "trials").iterdir()
    ]
    assert count == len(files) == len(many()) + 1
    listed = [one for item in head["models"] for one in item["run_results"]]
    for one in listed:
        kept = msgspec.json.decode((filled.directory / one["report_path"]).read_bytes())
        same = ("model", "model_base", "scenario", "trial", "ok", "elapsed_ms", "error_category")
        assert {key: kept[key] for key in same} == {key: one[key] for key in same}
    assert sum(one["ok"] for one in files) == sum(item["ok"] for item in head["models"])
    assert sum(one["trace"] is not None for one in files) == 1
    assert sorted(path.name for path in filled.directory.parent.iterdir()) == [
        filled.directory.name
    ]


def test_a_directory_that_cannot_be_written_is_one_sentence(filled: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with open_for_reading(filled.directory) as store:
        results, meta = results_in(store), store.meta
    with pytest.raises(StoreError, match="cannot use "):
        write_reports(tmp_path / "file", results, meta)
    with pytest.raises(StoreError, match="cannot use "):
        write_trials(tmp_path / "file", results, (), lambda _: None)
