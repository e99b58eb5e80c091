"""Damage that is read as another result, or ends in a traceback, is found out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proof import damage
from proof.damage import FullDisk, cut_failures, flip_failures, full_disks, recorded, two_writers
from surecall.eval.storage.store import Store, open_or_resume
from surecall.runtime import trace
from surecall.runtime.trace import parse_trace
from surecall.values.trace import Trace
from tests.support.damaged_stores import spliced
from tests.support.eval_results import SAME


def test_cuts_and_flips_of_a_trace_hold(tmp_path: Path) -> None:
    sound = recorded(tmp_path / "run")
    assert list(cut_failures(sound, 97)) == []
    counts, failures = flip_failures(sound, 60, 1)
    assert failures == []
    assert counts["refused"] > 0


def test_a_reader_that_makes_events_of_a_torn_line_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = recorded(tmp_path / "run")

    def inventive(data: bytes) -> Trace:
        whole = parse_trace(sound)
        return whole if len(data) == len(sound) else Trace((*parse_trace(data), whole[-1]))

    monkeypatch.setattr(damage, "parse_trace", inventive)
    told = list(cut_failures(sound, 97))
    assert any("ReplayDiverged" in line for line in told)
    assert any(line.endswith("other events") for line in told)


def test_an_untyped_error_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = recorded(tmp_path / "run")

    def broken(data: bytes) -> Trace:
        if data != sound:
            raise KeyError("calls")
        return parse_trace(data)

    monkeypatch.setattr(damage, "parse_trace", broken)
    _, failures = flip_failures(sound, 60, 1)
    assert failures[0].startswith("bit ")
    assert failures[0].endswith("of a trace: KeyError: 'calls'")


def test_a_reader_that_does_not_look_at_checksums_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = recorded(tmp_path / "run")
    monkeypatch.setattr(trace, "_is_damaged", lambda _line: False)
    _, failures = flip_failures(sound, 400, 1)
    assert any(told.endswith("read as other events") for told in failures)


def test_a_full_disk_at_any_write_repeats_nothing(tmp_path: Path) -> None:
    failures, writes = full_disks(tmp_path / "run")
    assert failures == []
    assert writes > 20


def test_a_journal_that_is_none_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FullDisk, "is_journal", False)
    failures, _ = full_disks(tmp_path / "run")
    assert any("took effect 2 times" in line for line in failures)


def test_two_writers_of_one_run_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert two_writers(tmp_path / "base") == []
    with open_or_resume(tmp_path / "other", SAME) as store:

        @contextmanager
        def careless(*_: object) -> Iterator[Store]:
            yield store

        monkeypatch.setattr(damage, "open_or_resume", careless)
        assert two_writers(tmp_path / "base") == ["two writers have one run"]


def test_pieces_of_a_store_that_moved_are_noticed(tmp_path: Path) -> None:
    tally = spliced(tmp_path / "base", 40)
    assert tally.wrong == []
    assert (tally.cases, tally.same + tally.refused) == (40, 40)
    assert tally.refused > 0
