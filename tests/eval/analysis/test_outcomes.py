"""How trials ended, as ranges of their numbers: counted as if one by one."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from surecall.eval.analysis.outcomes import Outcomes, paired
from surecall.eval.storage.trial import Cell, Key, Status
from tests.support.trials import trial

STATUSES: tuple[Status, ...] = ("passed", "failed", "infra", "skipped")
ENDS = st.dictionaries(st.integers(1, 12), st.sampled_from(STATUSES))
CELL = Cell("m")


def outcomes(ends: dict[int, Status], cell: Cell = CELL) -> Outcomes:
    return Outcomes(trial(status, number, cell=cell) for number, status in ends.items())


@given(ENDS, ENDS)
def test_trials_are_paired_by_their_number(
    first: dict[int, Status], second: dict[int, Status]
) -> None:
    name = trial().key.scenario
    wanted = Counter((first.get(at), second.get(at)) for at in first.keys() | second.keys())
    sides = [outcomes(each).of(CELL).get(name, {}) for each in (first, second)]

    assert +paired(*sides) == wanted


@given(ENDS, ENDS)
def test_what_another_lacks_is_counted_by_cell_and_scenario(
    first: dict[int, Status], second: dict[int, Status]
) -> None:
    name = trial().key.scenario
    lacking = len(first.keys() - second.keys())

    assert outcomes(first).lacking_in(outcomes(second)) == Counter({(CELL, name): lacking})
    assert outcomes(first, Cell("o")).lacking_in(outcomes(second)).total() == len(first)


def test_only_scenarios_with_tools_count() -> None:
    found = Outcomes([trial(), trial(number=2, scenario="mine", tools=False)])

    assert found.cells == (trial().key.cell,)
    assert list(found.of(trial().key.cell)) == [trial().key.scenario]
    found.add(Key(Cell("other"), "x", 1), "passed")
    assert len(found.cells) == 2
