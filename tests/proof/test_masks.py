"""The proof about masks fails as soon as a denied tool runs, or an allowed one does not."""

import asyncio
import random

import pytest

from proof import masks
from proof.masks import Case
from proof.spellings import SPELLINGS
from surecall.runtime import runner
from surecall.tools.registry import FilteredToolRegistry, ToolRegistry

CASE = Case("task", "read-file", "the deny list")
DICE = random.Random(1)  # noqa: S311  # cases, no secrets


@pytest.mark.parametrize("way", masks.WAYS)
def test_a_pair_of_tools_keeps_to_its_mask(way: str) -> None:
    case = CASE._replace(way=way)
    cases, problems = asyncio.run(masks.case_problems(case, DICE, more=3))
    assert problems == []
    assert cases == 5 * (len(SPELLINGS) + 3 + 1)
    assert asyncio.run(masks.run_problems(case, DICE)) == []


def test_a_mask_that_lets_everything_through_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FilteredToolRegistry, "_lets_through", lambda *_: True)
    _, problems = asyncio.run(masks.case_problems(CASE, DICE, more=0))
    assert "it ran, as it is ('read-file'), by native calls" in problems[0]
    assert any("upper case ('READ-FILE'), by execute" in problem for problem in problems)
    (problem,) = asyncio.run(masks.run_problems(CASE, DICE))
    assert "'read-file'" in problem


def test_a_runner_without_its_mask_breaks_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_masked", lambda registry, _config: registry)
    assert asyncio.run(masks.run_problems(CASE, DICE)) != []


def test_an_allowed_tool_that_does_not_run_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ToolRegistry, "resolve", lambda _registry, _asked: None)
    _, problems = asyncio.run(masks.case_problems(CASE, DICE, more=0))
    assert len(problems) == 5
    assert all("the allowed one did not run" in problem for problem in problems)


def test_the_claim_counts_pairs_ways_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "NAMES", ("ask", "task"))
    outcome = masks.attempt(1, 1)
    assert outcome.holds, outcome.failures
    assert "2 pairs" in outcome.figures
