"""Canary keys: whatever repeats them, in whatever encoding, they are in nothing left behind."""

from pathlib import Path

import pytest

from surecall.runtime.redaction import Redactor
from tests.support.canaries import ENCODINGS, PLACES, Hit, canary, encodings_in, flown

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("place", ["dotenv", "metadata_raw"])  # all of them: claim D15
def test_a_canary_is_in_no_file_print_log_or_traceback(place: str, tmp_path: Path) -> None:
    assert flown(place, tmp_path) == []
    assert (tmp_path / "merged" / "latest").exists()
    assert len(list(tmp_path.rglob("report.html"))) == 4  # two runs, their merge, a copy


@pytest.mark.parametrize("place", ["query", "tool_output", "exception"])
def test_the_search_finds_what_is_not_taken_out(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Redactor, "may_match", lambda *_: False)
    monkeypatch.setattr(Redactor, "redact_text", lambda _, text: text)
    hits = flown(place, tmp_path)

    assert {hit.encoding for hit in hits} == ENCODINGS.keys()
    found = {hit.artefact.rpartition("/")[2] for hit in hits}
    assert {"trials.sqlite", "report.html"} <= found
    assert {Path(hit.artefact).suffix for hit in hits} >= {".jsonl", ".trace"}


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_part_of_a_canary_is_a_hit(name: str) -> None:
    key = canary("query")
    spelt = ENCODINGS[name](key)

    assert name in encodings_in(f"<{spelt}>".encode(), key)
    assert name in encodings_in(f"<{spelt[2:20]}>".encode(), key)
    assert encodings_in(b"nothing of the kind", key) == []


def test_each_place_has_a_canary_of_its_own() -> None:
    assert len({canary(place) for place in PLACES}) == len(PLACES) == len(ENCODINGS) == 8
    assert Hit("query", "hex", "log") == Hit("query", "hex", "log")
