"""The proof about histories fails as soon as a call runs twice or is not answered just once."""

import pytest

from proof import histories
from surecall.core.state import Run
from surecall.runtime import answering
from surecall.values.types import ToolCall
from surecall.wire import messages
from surecall.wire.history import Ids
from tests.support.clock import virtual_time


def test_a_few_machines_hold_and_are_counted() -> None:
    outcome = histories.attempt(12, 7)
    assert outcome.holds, outcome.failures
    assert outcome.cases > 12
    assert "requests of 12 conversations" in outcome.figures


def test_a_machine_is_made_of_seed_and_number_alone() -> None:
    with virtual_time():
        one, other = (histories.machine(3, 5) for _ in range(2))
    assert (one.requests, one.executions) == (other.requests, other.executions)
    assert one.requests > 0


def _found(count: int = 40) -> str:
    return "\n".join(histories.attempt(count, 1).failures)


def test_a_run_that_forgets_what_had_begun_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgets(_run: Run, call: ToolCall, **_: object) -> ToolCall:
        return call

    monkeypatch.setattr(answering, "unless_begun", forgets)
    assert "ran twice" in _found()
    assert "histories.replay(1, " in _found()


def test_a_record_that_is_not_looked_at_breaks_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "known_answer", lambda *_: None)
    assert "ran twice" in _found()


def test_ids_that_are_taken_as_they_come_break_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ids, "claim", lambda _ids, wanted: wanted or "x")
    assert "an id that is blank or used before" in _found()


def test_ids_that_a_provider_refuses_break_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "short_id", lambda call_id: call_id)
    assert "an id that Mistral refuses" in _found()
