"""What a run sent, for the page: each line adds to the one before, and nothing is lost."""

import json
from typing import Any

import pytest

from surecall.eval.report.page.sent import sent_lines
from surecall.runtime.replay import sent_requests
from surecall.runtime.trace import parse_trace
from tests.eval.report.page.test_browser_early import EARLY, GUIDED, OBJECTED, QUOTED, Told

RUNS = (EARLY, OBJECTED, GUIDED, QUOTED)


def put_together(lines: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    messages: list[Any] = []
    rest: dict[str, Any] = {}
    for line in map(json.loads, lines.splitlines()):
        messages = [*messages[: line.get("kept", 0)], *line.get("messages", [])]
        rest = line.get("rest", rest)
        found.append(rest | {"messages": messages})
    return found


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_lines_of_a_run_give_its_requests(run: Told) -> None:
    lines = sent_lines(run.lines)

    assert put_together(lines) == run.requests
    assert all(line["exact"] for line in map(json.loads, lines.splitlines()))


def test_a_line_repeats_nothing() -> None:
    lines = sent_lines(EARLY.lines)
    bodies = [each.body for each in sent_requests(parse_trace(EARLY.lines))]

    assert lines.count(b"Book Monday.") == 1
    assert len(lines) < sum(map(len, bodies))


def test_of_what_cannot_be_read_nothing_is_told() -> None:
    assert sent_lines(b"no trace") == b""
    assert sent_lines(b"") == b""


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_what_a_damaged_record_calls_exact_was_sent(run: Told) -> None:
    lines = run.lines.splitlines(keepends=True)
    for at, line in enumerate(lines):
        for broken in ([*lines[:at], *lines[at + 1 :]], [*lines[:at], line, *lines[at:]]):
            told = sent_lines(b"".join(broken))
            exact = [json.loads(one)["exact"] for one in told.splitlines()]
            bodies = zip(put_together(told), exact, strict=True)
            assert all(body in run.requests for body, is_exact in bodies if is_exact)
