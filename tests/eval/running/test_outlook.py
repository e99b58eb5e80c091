"""When an endpoint is given up: by kind, by number, and by what else was heard."""

import pytest

from surecall.eval.running.outlook import HOPELESS_AFTER, Outlook
from surecall.eval.storage.trial import Cell, Key, Status, Trial


def ended(category: str, model: str = "a", status: Status = "infra") -> Trial:
    status = status if category else "passed"
    return Trial(
        key=Key(Cell(model), "x", 1), status=status, category=category, error="as recorded"
    )


def outlook(*trials: Trial, models: int = 3) -> Outlook:
    found = Outlook(models)
    for trial in trials:
        found.add(trial, "")
    return found


@pytest.mark.parametrize(
    ("trials", "models", "hopeless"),
    [
        ([], 1, False),
        ([ended("AUTH")], 1, True),
        ([ended("AUTH")] * 9, 2, False),
        ([ended("AUTH"), ended("AUTH", "b")], 17, True),
        ([ended(""), ended("AUTH"), ended("AUTH", "b")], 17, False),
        ([ended("TIMEOUT")] * HOPELESS_AFTER, 1, False),
        ([ended("NOT_FOUND")] * HOPELESS_AFTER, 1, True),
        ([ended("BAD_REQUEST")] * HOPELESS_AFTER, 1, True),
        ([ended("BAD_REQUEST", status="failed")] * HOPELESS_AFTER, 1, False),
        ([ended(""), *[ended("CONNECTION_ERROR")] * HOPELESS_AFTER], 1, True),
        ([*[ended("CONNECTION_ERROR")] * 9, ended(""), ended("CONNECTION_ERROR")], 1, False),
    ],
)
def test_it_is_hopeless_after_enough_of_the_same(
    trials: list[Trial], models: int, *, hopeless: bool
) -> None:
    assert outlook(*trials, models=models).hopeless is hopeless


def test_it_is_silent_while_nothing_else_was_heard() -> None:
    assert not outlook().silent
    assert outlook(ended("NOT_FOUND")).silent
    assert not outlook(ended("NOT_FOUND"), ended("")).silent
    assert not outlook(ended(""), ended("NOT_FOUND")).silent


def test_it_says_what_the_endpoint_said_or_else_what_is_recorded() -> None:
    found = Outlook(1)
    found.add(ended("AUTH"), "no such key. Check the API key.")

    assert found.category == "AUTH"
    assert found.error == "no such key. Check the API key."
    assert outlook(ended("AUTH")).error == "as recorded"
