"""What a killed writer of a store has lost is told; whole evaluations are compared."""

from pathlib import Path

import pytest

from proof import kills
from scripts import kill_eval
from scripts.kill_test import Tally


def test_a_store_that_lost_or_repeated_something_is_told() -> None:
    clean = Tally(kills=9, completed=9)
    assert kills.store_failures([clean]) == []
    (told,) = kills.store_failures([clean, Tally(kills=9, lost=1)])
    assert '"lost":1' in told


@pytest.mark.parametrize(
    ("lost", "summary", "told"),
    [
        (0, "same", []),
        (2, "same", ["an evaluation: lost 2, changed 0, same summary: True"]),
        (0, "other", ["an evaluation: lost 0, changed 0, same summary: False"]),
    ],
)
def test_an_evaluation_that_was_killed_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int, summary: str, told: list[str]
) -> None:
    comes_to = {"disturbed": summary, "left_alone": "same"}
    monkeypatch.setattr(kill_eval, "killed", lambda *_: (lost, 0))
    monkeypatch.setattr(kill_eval, "finished", lambda _: None)
    monkeypatch.setattr(kill_eval, "summaries", lambda folder: comes_to[folder.name])
    assert kills.kill_evaluations(tmp_path, 3, 1) == told
