"""The sections of the page: what they say, and that one without data is left out."""

from surecall.eval.report.common import Column, Sheet
from surecall.eval.report.page.data import Context, report_of
from surecall.eval.report.page.html import render_page
from surecall.eval.storage.trial import Cell
from tests.eval.report.page.test_html import Page, report, sections
from tests.support.trials import series, trial


def test_without_a_run_there_is_no_section_about_reliability() -> None:
    planned = Context(sheet=Sheet((Column(Cell("maker/model")),)))
    pages = [Page(render_page(report_of([], context))) for context in (Context(), planned)]
    pages.append(Page(render_page(report(series("s")))))

    for page in pages:
        assert "reliability" not in sections(page)
        (link,) = [link for link in page.all("a") if link.get("href") == "#reliability"]
        assert "hidden" in link


def test_where_only_requests_are_known_their_times_are_all_that_is_told() -> None:
    asked = [{"turn": 0, "latency_ms": 7, "attempt": 1}]
    page = Page(render_page(report([trial("infra", category="HTTP_502", requests=asked)])))

    assert "single requests: 1, p50 7 ms" in page.words
    assert "pass^" not in page.words
    assert "Reliability by cell" not in {part.get("aria-label") for part in page.all("div")}
