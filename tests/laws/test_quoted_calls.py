"""Laws of calls that are shown and not made: whatever the dialect and the way, nothing runs."""

import pytest

from surecall.values.types import ToolCall
from surecall.wire.dialects import WRITERS
from tests.support.law_cases import Broken, check, dice, many
from tests.support.quoted_calls import ARGUMENTS, QUOTED, TOOLS, Case, case_of, history
from tests.support.quoting import WAYS
from tests.support.reading import PRESETS, body_of, reply_to, runnable, streamed_body

CASES_OF_A_PAIR = 3


def run_of(case: Case) -> list[ToolCall]:
    """List what would run of a reply that shows a call."""
    body = body_of(case.message)
    body = streamed_body(body) if case.streamed else body
    return runnable(reply_to(body, PRESETS[case.preset], TOOLS, history(case)))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_is_only_shown_does_not_run(way: str) -> None:
    rng = dice("quoted", way)
    cases = [case_of(rng, way, row) for row in WRITERS for _ in range(many(CASES_OF_A_PAIR))]
    broken = [
        Broken(case.row, f"{case.kind}\n{case.message}", f"ran {[call.name for call in ran]}")
        for case in cases
        if (ran := run_of(case))
    ]

    check(broken, len(cases))


@pytest.mark.parametrize("row", WRITERS)
def test_the_same_call_runs_where_the_model_makes_it(row: str) -> None:
    for streamed in (False, True):
        case = Case("nothing else", row, "nowhere", "none", "weak", streamed)

        assert [(call.name, call.arguments) for call in run_of(case)] == [(QUOTED, ARGUMENTS)]
