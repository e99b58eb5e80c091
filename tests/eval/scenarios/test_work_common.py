"""What the tasks have in common: how things are found, and what is said when they are not."""

from typing import Any

import pytest

from surecall.eval.scenarios.work_common import filter_rows, find_row, search_rows
from surecall.eval.storage.trial import SideEffects
from surecall.testing import calls, says
from surecall.values.errors import ToolError
from tests.support.scenario_packs import scripted

ROWS = [{"id": "a", "name": "Lea Brunner"}, {"id": "b", "name": "Leo Brunner"}]


def test_rows_are_found_by_words_in_any_case_and_order() -> None:
    assert filter_rows(ROWS, "name", "brunner LEA") == ROWS[:1]
    assert filter_rows(ROWS, "name", "Brunner") == ROWS
    assert filter_rows(ROWS, "name", "Ada") == []


def test_a_search_takes_any_of_the_words_and_puts_the_best_first() -> None:
    assert search_rows(ROWS, "name", "Leo, Brunner.") == ROWS[::-1]
    assert search_rows(ROWS, "name", "lea") == ROWS[:1]
    with pytest.raises(ToolError, match="Nothing has any of these words"):
        search_rows(ROWS, "name", "Ada")


def test_an_id_that_does_not_exist_is_told() -> None:
    assert find_row(ROWS, "person", "id", "b") == ROWS[1]
    with pytest.raises(ToolError, match="There is no person '12345'"):
        find_row(ROWS, "person", "id", "12345")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("work_assign_ticket", calls("assign_ticket", ticket_id="T-1", person_id="U-31")),
        ("work_find_room", calls("get_person", person_id="12345")),
        ("work_full_course", calls("enrol", course_id="C-6", person="Lena Vogt")),
    ],
)
def test_what_a_tool_cannot_do_it_says(name: str, call: Any) -> None:
    found = scripted(name, call, says("It is not possible."))
    assert found.score.effects == SideEffects()
    assert found.status == "failed"
