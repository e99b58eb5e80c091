"""Runs over faulty transport: each is judged by what was done to it."""

import pytest

from proof.chaos import Held, attempt, doomed_runs, judged
from proof.chaos_server import Sent
from scripts.soak import Trial
from surecall.core.outcome import RunResult
from surecall.core.state import Run
from surecall.settings.presets import raw
from surecall.simulator.personas.intent import DONE
from surecall.values.trace import Trace
from surecall.values.types import Usage


def held(code: str = "", text: str = DONE, repeated: int = 1, *, retryable: bool = False) -> Held:
    run = Run(run_id="1", model="m", config=raw(), messages=())
    result = RunResult(text, "stop", Usage(), Trace(()), run)
    meant = Trial("ws_1", [], result).meant
    return Held(Trial("ws_1", meant * repeated, result, code), 1.0, retryable)


def test_a_run_that_did_its_work_once_is_right() -> None:
    assert judged({"ws_1": held()}, doomed=set()) == []


@pytest.mark.parametrize(
    ("one", "doomed", "kind"),
    [
        (held(repeated=2), set(), "wrong or repeated"),
        (held(text=""), set(), "lost"),
        (held("TIMEOUT", retryable=True), set(), "lost"),
        (held("AUTH"), {"ws_1"}, "not told as passing"),
        (held(), {"ws_1"}, "not told as passing"),
        (RuntimeError("no such thing"), set(), "unclassified"),
    ],
)
def test_whatever_else_happens_to_a_run_is_told(
    one: Held | BaseException, doomed: set[str], kind: str
) -> None:
    (told,) = judged({"ws_1": one}, doomed)
    assert told.startswith(f"{kind}: ws_1")


def test_a_run_that_had_to_fail_may_fail_if_it_says_that_the_fault_passes() -> None:
    assert judged({"ws_1": held("TIMEOUT", retryable=True)}, {"ws_1"}) == []


def test_a_run_is_doomed_if_all_attempts_at_one_request_were_spoilt() -> None:
    spoilt = [Sent("ws_1", 2, number, "reset", "transport", lossy=True) for number in (1, 2, 3)]
    elsewhere = [Sent("ws_2", at, 1, "reset", "transport", lossy=True) for at in (2, 4, 6)]
    assert doomed_runs([*spoilt, *elsewhere]) == {"ws_1"}
    assert doomed_runs(spoilt[1:]) == set()


@pytest.mark.processes
def test_a_few_runs_hold() -> None:
    outcome = attempt(24, 1)
    assert outcome.holds, outcome.failures
    assert "transport faults" in outcome.figures
