"""The proof about JSON fails as soon as a reader accepts, refuses or crashes where it must not."""

from typing import Any

import pytest

from proof import json_suite


def test_the_whole_suite_is_read_as_it_should_be() -> None:
    outcome = json_suite.attempt(1, 1)
    assert outcome.holds, outcome.failures
    assert (outcome.cases, outcome.bound) == (318, "every case")


def test_very_long_cases_are_stored_short_and_read_whole() -> None:
    cases = json_suite.suite()
    assert cases["n_structure_100000_opening_arrays"] == b"[" * 100_000


def _refuses_all(_data: bytes) -> Any:
    raise ValueError("no")


def _nothing(*_anything: object) -> None:
    return None


def _broken(*_anything: object) -> None:
    raise RecursionError


@pytest.mark.parametrize(
    ("name", "defect", "told"),
    [
        ("decode", _refuses_all, "y_array_empty"),
        ("decode", _nothing, "n_array_1_true_without_comma: read as None"),
        ("read_arguments", _broken, "arguments raised RecursionError"),
        ("read_body", _nothing, "without a typed fault"),
    ],
)
def test_a_defect_of_a_reader_breaks_the_claim(
    monkeypatch: pytest.MonkeyPatch, name: str, defect: Any, told: str
) -> None:
    monkeypatch.setattr(json_suite, name, defect)
    cases, pins = json_suite.suite(), json_suite.pinned()
    found = [
        f"{case}: {problem}"
        for case, data in cases.items()
        for problem in json_suite.problems_of(case, data, pins)
    ]
    assert any(told in problem for problem in found)
    assert not json_suite.attempt(1, 1).holds
