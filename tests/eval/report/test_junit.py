"""JUnit: failures and errors are told apart, and any text survives."""

from xml.etree import ElementTree as ET

from surecall.eval.report.common import Column, Sheet, results_of
from surecall.eval.report.junit import junit
from surecall.eval.storage.trial import Cell
from tests.support.eval_results import HOSTILE, trial


def test_junit_tells_failures_from_errors_and_survives_any_text() -> None:
    cell = Cell(HOSTILE)
    made = [
        trial(cell, HOSTILE, 1, elapsed_ms=1500),
        trial(cell, HOSTILE, 2, "failed", error=HOSTILE, hint=HOSTILE),
        trial(cell, HOSTILE, 3, "infra"),
        trial(cell, HOSTILE, 4, "skipped", error="tools are off"),
    ]
    results = results_of(Sheet((Column(cell, simulated=True),)), made)
    root = ET.fromstring(junit(results).encode())  # noqa: S314 - our own text

    (suite,) = root
    counts = {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.500"}
    assert {key: suite.attrib[key] for key in counts} == root.attrib == counts
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [
        [],
        ["failure"],
        ["error"],
        ["skipped"],
    ]
    failure, error = cases[1][0], cases[2][0]
    assert "<script>\n[a](b)]]>" in str(failure.get("message"))
    assert (error.get("type"), error.get("message")) == ("TIMEOUT", "TIMEOUT")
    assert suite.find("properties/property[@name='simulated']") is not None
