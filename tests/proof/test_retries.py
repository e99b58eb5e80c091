"""The proof about retries fails as soon as one is missing, too many, too early or too late."""

import random
from typing import Any

import pytest

from proof import retries
from proof.retries import Script
from proof.retry_tables import rows
from surecall.runtime.requests import PromptRunner
from surecall.settings.connection import RetryPolicy
from surecall.values.errors import Fault
from surecall.wire import response
from tests.support.clock import virtual_time


def test_a_few_rows_and_scripts_are_dealt_with_as_they_should_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retries, "rows", lambda: rows()[:30:5])
    outcome = retries.attempt(10, 1)
    assert outcome.holds, outcome.failures
    assert "6 rows" in outcome.figures


def test_a_seed_makes_the_same_scripts() -> None:
    drawn = [retries.scripted(random.Random(7)) for _ in range(2)]  # noqa: S311  # no secrets
    assert drawn[0] == drawn[1]


def test_the_oracle_stops_at_the_attempts_at_the_deadline_and_at_two_minutes() -> None:
    assert Script((None, None), 3, 600.0).expected == ([0.5, 1.0], True)
    assert Script((None, None), 2, 600.0).expected == ([0.5], False)
    assert Script((7.0, None), 3, 7.0).expected == ([], False)
    assert Script((120.25,), 3, 600.0).expected == ([], False)


def _too_patient(policy: RetryPolicy, fault: Fault, attempt: int, jitter: float) -> float | None:
    wait = REAL(policy, fault, attempt, jitter)
    return None if wait is None else wait * 2


REAL = RetryPolicy.wait


@pytest.mark.parametrize(
    ("owner", "name", "defect"),
    [
        (RetryPolicy, "wait", _too_patient),
        (RetryPolicy, "wait", lambda *_: None),
        (response, "_until", lambda *_: None),
    ],
)
def test_a_defect_of_the_policy_or_of_the_reader_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, defect: Any
) -> None:
    monkeypatch.setattr(owner, name, defect)
    with virtual_time() as clock:
        problems = [p for row in rows() for p in retries.row_problems(clock, row)]
    assert any(problem.startswith("retry-after: Fri, 29 Sep 2023") for problem in problems)


def test_a_run_that_waits_beyond_its_deadline_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RetryPolicy, "wait", _too_patient)
    with virtual_time() as clock:
        problem = retries.run_problem(clock, Script((0.25,), 3, 2.0))
    assert problem.startswith("Script(afters=(0.25,), attempts=3, deadline=2.0): ([0.5], True)")


def test_a_socket_that_stays_open_breaks_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([3, 5])
    monkeypatch.setattr(retries, "_sockets", lambda: next(counts))
    monkeypatch.setattr(PromptRunner, "ask", _nothing)
    assert retries.socket_problem() == "2 sockets are open after the requests"


async def _nothing(*_anything: object) -> None:
    return None
