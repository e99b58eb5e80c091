"""Laws of values that a model forgot to escape: a call is read exactly as meant, or does not run.

Every dialect writes its calls with values that hold quotes, brackets, line breaks, the marks of
dialects, code and commands, as they are. `tests/support/naive_values.py` lists the few values that
are left out, because the text then properly says something else.
"""

import pytest

from surecall.values.types import ToolCall
from surecall.wire.dialects import WEAK_ROWS, WRITERS
from tests.support.law_cases import Broken, check, dice, many
from tests.support.naive_values import NAME, PLACES, TOOLS, Naive, cases, put, written_naively
from tests.support.reading import PRESETS, body_of, reply_to, runnable

CASES = 210


def run_of(case: Naive) -> list[ToolCall]:
    """List what would run of a case, where weak marks are read only if the dialect needs it."""
    config = PRESETS["weak" if case.row in WEAK_ROWS else "marked"]
    return runnable(reply_to(body_of({"content": case.text}), config, TOOLS))


@pytest.mark.slow
@pytest.mark.parametrize("row", WRITERS)
def test_a_value_without_escapes_is_read_exactly_or_the_call_does_not_run(row: str) -> None:
    broken = []
    made = cases(row, many(CASES))
    for case in made:
        ran = [(call.name, call.arguments) for call in run_of(case)]
        if ran not in ([], [(NAME, case.meant)]):
            broken.append(Broken(case.place, f"{row} / {case.place}\n{case.text}", f"ran {ran}"))

    check(broken, len(made))


@pytest.mark.parametrize("row", WRITERS)
def test_a_value_that_needs_no_escapes_is_read_in_every_place(row: str) -> None:
    for place, arguments in PLACES.items():
        case = written_naively(row, place, "ls -l, then wait", dice(row))
        assert case is not None

        ran = [(call.name, call.arguments) for call in run_of(case)]

        assert ran == [(NAME, put(arguments, "ls -l, then wait"))], case.text
