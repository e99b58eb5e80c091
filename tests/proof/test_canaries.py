"""A canary that is heard anywhere is told."""

from pathlib import Path
from typing import NamedTuple

import pytest

from proof import canaries


class Hit(NamedTuple):
    """What a canary that was heard is told by."""

    place: str
    encoding: str
    artefact: str


def test_a_hit_is_told_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    hit = Hit("query", "base64", "report.html")
    monkeypatch.setattr(canaries, "sung", lambda _: (64, [hit]))
    outcome = canaries.attempt(1, 1)
    assert not outcome.holds
    assert outcome.failures == ("query: base64 in report.html",)


def test_silence_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(folder: Path) -> tuple[int, list[Hit]]:
        assert folder.is_dir()
        return 64, []

    monkeypatch.setattr(canaries, "sung", silent)
    outcome = canaries.attempt(2, 1)
    assert outcome.holds
    assert outcome.cases == 128
