"""D20 holds at a small size, and would notice a change."""

from typing import Any

import pytest

from proof.clean_exchanges import attempt
from surecall.proxy.serving.visit import answer


def test_a_few_conversations_go_through_unchanged() -> None:
    outcome = attempt(5, 3)
    assert outcome.holds, outcome.failures
    assert outcome.cases == 60


def test_an_answer_that_is_changed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(status: int, body: Any, headers: Any = None) -> Any:
        return answer(status, body | {"id": "another"}, headers)

    monkeypatch.setattr("surecall.proxy.serving.visit.answer", changed)
    assert not attempt(1, 3).holds
