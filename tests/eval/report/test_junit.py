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
    root = ET.fromstring("".join(junit(results)).encode())  # noqa: S314 - our own text

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


def test_the_lines_are_indented_as_a_whole_document_is() -> None:
    cells = (Cell("a"), Cell("b"))
    made = [
        trial(cell, "one", at, "failed" if at == 2 else "passed") for cell in cells for at in (1, 2)
    ]
    results = results_of(Sheet((Column(cells[0], simulated=True), Column(cells[1]))), made)
    text = "".join(junit(results))

    root = ET.fromstring(text)  # noqa: S314 - our own text
    ET.indent(root)
    assert text == ET.tostring(root, encoding="unicode") + "\n"


def test_a_run_without_trials_is_a_document_without_suites() -> None:
    root = ET.fromstring("".join(junit(results_of(Sheet(), []))))  # noqa: S314 - our own text

    assert (root.tag, list(root), root.get("tests")) == ("testsuites", [], "0")
