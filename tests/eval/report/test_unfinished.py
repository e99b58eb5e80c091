"""Whether all that was planned is recorded, in the same words everywhere."""

from pathlib import Path

import pytest

from surecall.eval.report.files import results_in, write_reports
from surecall.eval.report.page.files import report_in
from surecall.eval.report.unfinished import WHY, partial, unfinished
from surecall.eval.storage.store import Invocation, open_or_resume
from surecall.eval.storage.trial import Cell, Trial
from tests.eval.report.page.test_files import invocation
from tests.support.eval_results import SAME
from tests.support.trials import CELL, series

OTHER = Cell("other")


def notices(base: Path, kept: list[Trial], **settings: object) -> tuple[str, str]:
    with open_or_resume(base, SAME, invocation(CELL, OTHER, **settings)) as store:
        for each in kept:
            store.add(each)
        write_reports(base, results_in(store), store.meta)
        page = " ".join(report_in(store).notices)
    (said,) = [
        line.removeprefix("**Note.** ")
        for line in (base / "report.md").read_text("utf-8").splitlines()
        if line.startswith("**Note.** ")
    ] or [""]
    return page, said


@pytest.mark.parametrize(
    ("trials", "settings", "said"),
    [
        ([], {}, "Partial: 6 of 6 planned runs are not recorded."),
        ([*series(".x"), *series("...", cell=OTHER)], {}, "Partial: 1 of 6 planned"),
        ([*series("..i"), *series("...", cell=OTHER)], {}, ""),
        ([*series("."), *series("sss", cell=OTHER)], {}, "Partial: 2 of 3 planned"),
        (series("." * 10), {"trials": "auto"}, "Partial: 10 of 20 planned"),
        ([], {"shard": [1, 4]}, ""),
        ([], {"trials": "some"}, ""),
    ],
)
def test_page_and_markdown_say_the_same_of_what_is_missing(
    tmp_path: Path, trials: list[Trial], settings: dict[str, object], said: str
) -> None:
    page, markdown = notices(tmp_path, trials, **settings)

    assert page == markdown
    assert page.startswith(said)
    assert page.endswith(WHY) if said else not page


def test_a_run_that_is_complete_or_cannot_be_understood_is_not_called_partial() -> None:
    unreadable = Invocation(command=(), code="", config={"sheet": {"columns": 1}})

    assert partial(0, 7) == ""
    assert unfinished([Invocation(command=(), code="", config={})], {}, {}) == ""
    assert unfinished([unreadable], {}, {}) == ""


def test_every_matrix_of_a_run_counts_and_of_each_the_last_command() -> None:
    more, less = invocation(CELL, trials=3), invocation(CELL, trials=1)
    other = invocation(OTHER, trials=2)
    place, there = (CELL, "happy_path"), (OTHER, "happy_path")

    assert unfinished([more, other], {place: 1, there: 2}, {}).startswith("Partial: 2 of 5 ")
    assert unfinished([more, less, other], {place: 1, there: 2}, {}) == ""
