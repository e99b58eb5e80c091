"""A row of the quirk tables without a scenario, a source or a test is found out."""

import pytest

from proof import quirks
from proof.quirks import attempt, check_dialect, conversation_failures, judged, table_failures
from surecall.simulator.faults import SHAPE_FAULTS
from surecall.simulator.personas.catalogue import PERSONAS
from surecall.values.types import JSON
from surecall.wire.dialects import WRITERS
from tests.proof.test_chaos import held
from tests.support import corpus

KNOWN: JSON = {"replies": [], "conversations": ["D63"]}
TEXTS = [{"row": row} for row in WRITERS for _ in range(quirks.KINDS)]


def test_every_row_of_ours_has_what_it_needs() -> None:
    assert table_failures(corpus.load().values(), KNOWN, TEXTS) == []


def test_a_source_or_a_dialect_without_a_case_is_told() -> None:
    cases = [case for case in corpus.load().values() if case["source"] != "D51"]
    known = KNOWN | {"replies": ["D51"]}
    told = table_failures(cases, known, TEXTS[1:])
    assert told[:2] == ["D51 has no case", "parallel_wrapper: no case of D51"]
    assert told[2].startswith("dialect ")


def test_a_fault_without_a_persona_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PERSONAS, "sim/arguments_object")
    assert "arguments_object" in SHAPE_FAULTS
    told = table_failures(corpus.load().values(), KNOWN, TEXTS)
    assert told == ["sim/arguments_object is no persona"]


@pytest.mark.parametrize("tests", [[], ["laws/test_corpus.py::no_such_test"], ["nowhere.py::x"]])
def test_a_quirk_of_a_whole_run_that_no_test_proves_is_told(tests: list[str]) -> None:
    (told,) = conversation_failures([{"source": "D63", "tests": tests}], KNOWN)
    assert told.startswith("D63: there is no ")
    assert conversation_failures([], KNOWN) == ["D63 is not told"]


def test_a_text_that_is_read_otherwise_is_told() -> None:
    case = {"row": "A1", "kind": "plain", "weak": False, "text": "Hello.", "calls": [{"name": "x"}]}
    with pytest.raises(AssertionError, match="A1, plain: read"):
        check_dialect(case, [])


def test_a_persona_that_does_not_end_as_it_says_is_told() -> None:
    cured = PERSONAS["sim/arguments_object"]
    assert judged(cured, held()) == []
    assert judged(cured, held("TIMEOUT")) == [
        "sim/arguments_object is cured, but the run ended with TIMEOUT"
    ]
    assert len(judged(cured, held(repeated=2))) == 1


def test_all_rows_hold() -> None:
    outcome = attempt(1, 1)
    assert outcome.holds, outcome.failures
