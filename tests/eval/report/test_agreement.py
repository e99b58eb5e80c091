"""How endpoints compare, in reports: from the store alone."""

from typing import Any

import pytest

from surecall.eval.report.agreement import (
    agreement_document,
    agreements_in,
    count_lines,
    heads,
    notices,
    rows,
    section,
    short_names,
)
from surecall.eval.report.common import Sheet
from surecall.eval.storage.trial import Cell, Trial
from tests.support.trials import trial

GOOD, CHEAP = "m@good", "m@cheap"
ADDRESSES = {GOOD: "http://good", CHEAP: "http://cheap"}
SHEET = Sheet(settings={"endpoints": ADDRESSES, "reference": GOOD, "against": CHEAP})


def replied(name: str, request: int, number: int, *calls: str, **fields: Any) -> Trial:
    about = {
        "requests": [{"turn": 0, "latency_ms": 1, "attempt": 1}],
        "draft": {"calls": [{"name": each, "arguments": {}, "fits": True} for each in calls]},
    }
    status = fields.pop("status", "passed")
    return trial(status, number, f"r{request}", Cell(name, "default", "raw"), **(about | fields))


TRIALS = [
    replied(name, request, number, *(("f",) if name == GOOD else ()))
    for name in (GOOD, CHEAP)
    for request in range(9)
    for number in (1, 2)
]
FAILED = [
    replied(CHEAP, 9, 1, status="infra", category="TIMEOUT"),
    replied(CHEAP, 9, 2, status="failed", category="BAD_REQUEST", requests=[]),
    replied("other@there", 1, 1, "f"),
]


def test_a_run_without_a_reference_compares_nothing() -> None:
    assert agreements_in(Sheet(), TRIALS) == ()
    assert section(()) == ""


def test_the_endpoints_of_a_run_are_compared_by_its_trials() -> None:
    (found,) = agreements_in(SHEET, [*TRIALS, *FAILED])

    assert (found.name, found.reference, found.verdict) == ("cheap", "good", "worse")
    assert heads(found) == ("", "cheap", "good", "difference", "")
    table = rows(found)
    assert table[1] == (
        *("call or not", "0.0% [0.0, 37.1]", "100% [62.9, 100]"),
        *("-100 [-100, -59.1]", "worse"),
    )
    assert table[2] == ("  precision", "unknown", "", "", "")
    assert table[5] == ("calls fit", "unknown", "100% [62.9, 100]", "", "open")
    assert count_lines([found]) == [
        "good: 18 of 18 answered, 18 calls",
        "cheap: 18 of 20 answered, 0 calls, 1 refused, 1 failed (TIMEOUT)",
    ]


def test_it_is_a_section_of_the_report_and_a_document() -> None:
    found = agreements_in(SHEET, TRIALS)
    text = section(found)

    assert text.startswith("## Endpoints, by the same requests\n\ncheap is worse than good")
    assert "| call or not | 0.0%" in text
    assert "- good: 18 of 18 answered" in text
    document = agreement_document(found, ADDRESSES)
    (row,) = document["comparisons"]
    assert document["endpoints"] == ADDRESSES
    assert (row["verdict"], row["verdicts"]["decision"]) == ("worse", "worse")
    assert row["sentence"].startswith("cheap is worse than good")
    assert row["calls"]["value"] == {
        "value": 0.0,
        "low": 0.0,
        "high": pytest.approx(0.37, abs=0.01),
        "n": 9,
    }


def test_a_page_says_it_in_sentences_and_what_else_it_shows() -> None:
    first, second = notices(agreements_in(SHEET, TRIALS))

    assert first.startswith("cheap is worse than good: ")
    assert "each endpoint by itself" in second
    assert notices(()) == []


def test_an_endpoint_goes_by_its_own_name_if_that_is_enough() -> None:
    assert short_names(["a@x", "a@y"]) == {"a@x": "x", "a@y": "y"}
    assert short_names(["a@x", "b@x"]) == {"a@x": "a@x", "b@x": "b@x"}
    assert short_names(["v@1@x", "v@2@y"]) == {"v@1@x": "x", "v@2@y": "y"}
