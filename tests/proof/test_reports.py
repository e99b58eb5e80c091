"""A text that becomes a tag, an address, a file or a command for a terminal is found out."""

from pathlib import Path

import pytest

from proof import reports
from proof.reports import Page, attempt, page_of, page_problems, strays, texts, tried, unprintable
from surecall.cli import explain
from tests.support.hostile import PAYLOADS


@pytest.mark.parametrize(
    ("markup", "told"),
    [
        ("<img src=x onerror=alert(1)>", ["<img> leads to 'x'", "<img> has onerror"]),
        ("<a href=https://evil.example>x</a>", ["<a> leads to 'https://evil.example'"]),
        ("<p style='color:red'>", ["<p> has style"]),
        ("<a href='#runs'>x</a><link href='data:,'>", []),
    ],
)
def test_handlers_styles_and_addresses_are_told(markup: str, told: list[str]) -> None:
    assert Page(markup).problems == told


def test_a_page_with_a_script_of_somebody_else_is_told(tmp_path: Path) -> None:
    usual = [Page(page_of(["harmless"])).shape]
    (tmp_path / "junit.xml").write_text("<x>")
    (tmp_path / "report.html").write_text(page_of(["harmless"]) + "<script>alert(1)</script>")
    told = list(page_problems(tmp_path, usual))
    assert told[0].startswith("the page has other tags: [('script', ())]")
    assert told[1].startswith("junit.xml cannot be read")


def test_files_beside_the_output_are_told() -> None:
    assert strays({"runs"}, {"runs", "out", "out/report.html", "runs/x-wal", "passwd"}) == [
        "passwd"
    ]


def test_characters_that_move_a_terminal_are_told() -> None:
    assert unprintable("Zoë\n") == set()
    assert unprintable("\x1b[2J\u202e\x9b\r") == {"\x1b", "\u202e", "\x9b", "\r"}


def test_a_command_that_prints_what_it_was_given_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "say", print)
    usual = [Page(page_of(["harmless"])).shape]
    told = list(tried("\x1b[2J", reports.recorded_events(), usual))
    assert any("prints ['" in line for line in told)


def test_every_text_is_tried_before_pairs_of_them() -> None:
    assert texts(len(PAYLOADS) + 9, 1)[: len(PAYLOADS)] == [*PAYLOADS]
    assert texts(len(PAYLOADS) + 9, 1) == texts(len(PAYLOADS) + 9, 1)
    assert set(texts(5, 1)) <= set(PAYLOADS)


def test_a_few_texts_hold() -> None:
    outcome = attempt(6, 3)
    assert outcome.holds, outcome.failures
