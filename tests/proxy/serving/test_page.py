"""The page of the last requests."""

from surecall.proxy.serving.page import render_page
from surecall.proxy.serving.record import Record, Records


def test_an_empty_page_says_what_to_do() -> None:
    page = render_page(Records(), "http://127.0.0.1:1/v1")
    assert "Point an agent at this port" in (page.text or "")
    assert page.headers["Cache-Control"] == "no-store"


def test_what_comes_from_outside_is_escaped() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    records = Records()
    records.add(
        Record(
            number=1,
            at=0.0,
            face="chat",
            model=hostile,
            streamed=True,
            status=502,
            outcome=hostile,
            elapsed_ms=3,
            turns=3,
            fired=(hostile,),
            refused=(hostile,),
            tools=(hostile,),
            message=hostile,
        )
    )
    text = render_page(records, hostile).text or ""
    assert "<img" not in text
    assert "asked again 2" in text
