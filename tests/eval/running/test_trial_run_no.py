"""A run that fails with a no has passed where a no is the right answer, and only there."""

import asyncio
from typing import Any

import pytest

from surecall import RunResult, ToolRegistry
from surecall.core.outcome import failure
from surecall.core.state import Fail
from surecall.eval.running.trial_run import Case, Setup, run_trial
from surecall.eval.scenarios.scenario import Ask, Scenario
from surecall.eval.storage.trial import Cell, Key, Miss, Score
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, says
from surecall.values.errors import ErrorCode
from surecall.values.types import JSON


class GivesUp:
    """A world whose run fails with a no."""

    def __init__(self, score: Score) -> None:
        self.registry = ToolRegistry()
        self.executor: Any = None
        self.draft: JSON = {}
        self._score = score

    async def converse(self, ask: Ask) -> RunResult:
        """Fail after the answer."""
        raise failure(Fail(ErrorCode.TOOL_ERROR, "it cannot be done"), await ask("Burn it."))

    def judge(self, result: RunResult) -> Score:  # noqa: ARG002  # it is known beforehand
        """Return what is known beforehand."""
        return self._score


@pytest.mark.parametrize(
    ("score", "ended"),
    [
        (Score(declined=True), ("passed", "", "right")),
        (Score(), ("failed", "TOOL_ERROR", "open")),
        (Score(declined=False, misses=(Miss("no reason"),)), ("failed", "TOOL_ERROR", "open")),
        (Score(declined=True, misses=(Miss("it is burnt"),)), ("failed", "TOOL_ERROR", "open")),
    ],
)
def test_a_failure_that_is_the_right_no_has_passed(score: Score, ended: tuple[str, ...]) -> None:
    one = Scenario(id="burns", summary="", begin=lambda _: GivesUp(score), uses_tools=False)
    setup = Setup(model="m", config=raw(), extra_attempts=0)
    model = ScriptedModel(says("It is too wet."))
    trial, _ = asyncio.run(run_trial(Key(Cell("m"), one.id, 1), Case(one, setup), model))

    assert (trial.status, trial.category, trial.truth) == ended
