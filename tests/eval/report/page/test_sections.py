"""The sections of the page: what they say, and that one without data is left out."""

from surecall.eval.report.page.data import ReportContext, build_report
from surecall.eval.report.page.html import render_page
from surecall.eval.report.run_results import Sheet, SheetColumn
from surecall.eval.storage.trial import CONTROL, Cell
from tests.support.reports import Page, report, sections
from tests.support.trials import series, trial


def test_without_a_run_there_is_no_section_about_reliability() -> None:
    planned = ReportContext(sheet=Sheet((SheetColumn(Cell("maker/model")),)))
    pages = [Page(render_page(build_report([], context))) for context in (ReportContext(), planned)]
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


def test_what_came_in_more_ways_than_are_shown_is_counted() -> None:
    def said(ways: int) -> str:
        misses = [{"check": "c", "expected": "e", "got": f"g{at}"} for at in range(ways)]
        trials = [trial("failed", at, score={"misses": [one]}) for at, one in enumerate(misses, 1)]
        return Page(render_page(report(trials))).words

    assert "and 17 more" in said(20)
    assert "and 1 more" in said(4)
    assert " more " not in said(3).split("Why runs failed")[1].split("Counts by code")[0]


def test_the_legend_names_only_what_the_rows_have_in_common() -> None:
    cells = [Cell("maker/model", strategy=name) for name in ("raw", "production")]
    runs = [each for cell in cells for each in series("." * 9, cell=cell)]
    page = Page(render_page(report(runs)))
    doubtful = Page(render_page(report([*runs, *series("...xx", CONTROL, cells[1])])))

    assert "threshold 90%" in page.words
    assert "passed under" not in page.words
    assert "△" not in page.words
    assert doubtful.words.count("△") == 2
