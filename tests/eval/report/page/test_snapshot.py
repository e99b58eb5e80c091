"""The page of the figures on record."""

from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.snapshot import report_of_snapshot
from tests.eval.report.page.test_html import Page


def test_the_figures_on_record_are_a_small_page() -> None:
    found = report_of_snapshot()
    text = render_page(found)
    words = Page(text).words

    assert "1002/1160 runs with tools passed: 86.4%" in words
    assert "10 of 29 cells" in words
    assert (len(found.cells), len(found.advice)) == (29, 17)
    assert sum(row.count for row in found.failures) == 158
    assert len(text) < 150_000
