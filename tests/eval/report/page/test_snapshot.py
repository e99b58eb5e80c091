"""The page of the figures on record."""

from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.snapshot import report_of_snapshot
from tests.eval.report.page.test_html import Page


def test_the_figures_on_record_are_a_small_page() -> None:
    found = report_of_snapshot()
    text = render_page(found)
    words = Page(text).words

    assert "1,160" not in words
    assert "✓ Use" in words
    assert (len(found.cells), len(found.advice)) == (29, 17)
    assert sum(row.count for row in found.failures) == 158
    assert len(text) < 150_000


def test_the_page_counts_timeouts_as_the_original_did_and_says_so() -> None:
    found = report_of_snapshot()
    page = Page(render_page(found))
    slow = next(view for view in found.cells if view.cell.model.startswith("x-ai/"))

    assert (slow.tool.k, slow.tool.n) == (37, 40)
    assert found.infra is None
    assert "also one that timed out" in page.words
    assert "runs that infrastructure spoiled are failures here" in page.words
    assert "spoiled by infrastructure, not scored" not in page.words
    assert "leave out runs that the infrastructure spoiled" not in page.words


def test_the_page_has_the_remarks_without_which_it_misleads() -> None:
    page = Page(render_page(report_of_snapshot()))

    assert "HTTP 403 to chat_only" in page.words
    assert 'which had to be "Done." to the letter' in page.words
    assert [link for link in page.all("a") if link.get("href") == "comparability.md"]
