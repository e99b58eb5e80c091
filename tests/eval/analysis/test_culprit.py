"""Where a run was decided that no expectation decided about."""

import asyncio
from typing import Any

import pytest

from surecall import RunFailed, RunResult, ToolLoopRunner, tool
from surecall.eval.analysis.category import Verdict, of_failure
from surecall.eval.analysis.culprit import Place, place_of
from surecall.settings.config import ToolUseMode
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, failure, says
from surecall.values.errors import ToolError
from surecall.values.types import JSON

ENFORCED: JSON = {"tool_use_mode": ToolUseMode.ENFORCED, "final_ladder": ()}


@tool
def pull(rope: int) -> str:
    """Pull a rope."""
    if rope > 1:
        raise ToolError(f"Rope {rope} is stuck.")
    return "pulled"


@tool
def push(door: int) -> str:
    """Push a door."""
    return f"pushed {door}"


def ended(*script: Any, **settings: Any) -> tuple[RunResult, RunFailed | None]:
    runner = ToolLoopRunner(
        client=ScriptedModel(*script),
        model="m",
        registry=[pull, push],
        config=raw().replace(**(ENFORCED | settings)),
    )
    try:
        return asyncio.run(runner.run("Work.")), None
    except RunFailed as failed:
        return failed.result, failed


def place(*script: Any, **settings: Any) -> tuple[str, Place]:
    result, failed = ended(*script, **settings)
    assert failed is not None
    verdict = of_failure(failed)
    return verdict.category, place_of(verdict, result, failed.details)


PUSH = calls("push", "a", door=1)
STUCK = calls("pull", "b", rope=2)


def test_an_early_answer_is_where_the_run_ended() -> None:
    assert place(says("Done.")) == ("NO_TOOL_CALLS", Place(0))


def test_a_failure_that_was_not_repaired_is_the_call_that_failed_last() -> None:
    fatal = {"tool_failure_policy": "fatal"}
    repaired = (calls("pull", "c", rope=1), calls("pull", "d", rope=2))
    found = place(PUSH, STUCK, *repaired, calls("push", "e", door=2), says("Done."), **fatal)
    assert found == ("TOOL_ERROR", Place(3, "d"))


def test_a_circle_is_its_last_call() -> None:
    script = [calls("push", f"p{at}", door=1) for at in range(9)]
    code, found = place(*script)
    assert code == "LOOP_DETECTED"
    assert found.turn is not None
    assert found.call_id == f"p{found.turn}"


def test_a_limit_is_the_last_turn_and_a_refused_request_the_one_without_a_reply() -> None:
    assert place(PUSH, calls("push", "b", door=2), max_turns=2) == ("MAX_TURNS_EXCEEDED", Place(1))
    refused = failure(400, "no")
    assert place(PUSH, refused) == ("BAD_REQUEST", Place(1))


def test_a_run_that_never_asked_has_no_such_place() -> None:
    runner = ToolLoopRunner(client=ScriptedModel(), model="m", config=raw().replace(**ENFORCED))
    with pytest.raises(RunFailed) as raised:
        asyncio.run(runner.run("Work."))
    assert place_of(of_failure(raised.value), raised.value.result, {}) == Place()


@pytest.mark.parametrize("category", ["", "ASSERTION_FAILED", "EXCEPTION", "NO_TOOL_CALLS"])
def test_what_expectations_decide_is_not_placed_here(category: str) -> None:
    result, _ = ended(PUSH, says("Done."))
    assert place_of(Verdict("failed", category), result) == Place()


@pytest.mark.parametrize("category", ["EMPTY_ASSISTANT_TEXT", "TRUNCATED"])
def test_an_answer_that_is_none_is_the_last_turn(category: str) -> None:
    result, _ = ended(PUSH, says("Done."))
    assert place_of(Verdict("failed", category), result) == Place(1)
