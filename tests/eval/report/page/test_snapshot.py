"""The page of the figures on record."""

from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.snapshot import snapshot_report
from tests.support.reports import Page


def test_the_figures_on_record_are_a_small_page() -> None:
    found = snapshot_report()
    text = render_page(found)
    words = Page(text).words

    assert "1,160" not in words
    assert "✓ Use" in words
    assert (len(found.cells), len(found.advice)) == (29, 17)
    assert sum(row.count for row in found.failures) == 158
    assert len(text) < 150_000


def test_the_page_counts_timeouts_as_the_original_did_and_says_so() -> None:
    found = snapshot_report()
    page = Page(render_page(found))
    slow = next(view for view in found.cells if view.cell.model.startswith("x-ai/"))

    assert (slow.totals.tool.k, slow.totals.tool.n) == (37, 40)
    assert found.infra_failed
    assert "including timeouts" in page.words
    assert "counts as a failure, including timeouts" in page.words
    assert "Infrastructure errors, not scored" not in page.words
    assert "exclude runs with infrastructure errors" not in page.words


def test_the_page_has_the_remarks_without_which_it_misleads() -> None:
    page = Page(render_page(snapshot_report()))

    assert "HTTP 403 for chat_only" in page.words
    assert 'other than exactly "Done."' in page.words
    assert [
        link for link in page.all("a") if link.get("href") == "comparison.md#what-you-can-compare"
    ]
