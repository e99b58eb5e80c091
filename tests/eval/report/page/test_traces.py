"""Tests of `surecall.eval.report.page.traces`."""

import base64
import json
import zlib
from typing import Any

import msgspec
import pytest

from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.traces import (
    TraceBlock,
    TraceSource,
    block_file_name,
    block_script,
    sent_lines,
    trace_blocks,
)
from surecall.eval.storage.trial import Trial
from surecall.runtime.recording import parse_trace
from surecall.runtime.replay import sent_requests
from tests.support.reports import (
    GUIDED_RUN,
    OBJECTED_RUN,
    PREMATURE_RUN,
    QUOTED_RUN,
    Page,
    RecordedRun,
    report,
)
from tests.support.trials import EVENTS, lines, rich_trials, trial

# Traces in blocks: what goes in comes out


def test_traces_come_back_as_they_went_in() -> None:
    trials = rich_trials()
    packed = [(each, zlib_of(lines(*EVENTS))) for each in trials]
    made = list(trace_blocks(packed, max_bytes=9_000))
    source = TraceSource("inline", tuple(b.start for b in made), tuple(b.text for b in made))
    page = Page(render_page(report(trials), source))
    found = [text for attributes, text in page.scripts if "block" in (attributes.get("id") or "")]

    assert len(found) == len(made) > 1
    told = b"".join(unpacked(text) for text in found).decode().splitlines()
    heads = [json.loads(line) for line in told if line.startswith('{"type":"trial",')]
    assert [msgspec.convert(head, Trial) for head in heads] == trials
    assert told.count(lines(*EVENTS).decode().splitlines()[1]) == len(trials)


def zlib_of(data: bytes) -> bytes:
    return zlib.compress(data)


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def test_a_block_ends_with_whole_lines_even_where_a_record_is_damaged_or_missing() -> None:
    first = trial("passed")
    packed = [(first, None), (first, b"no zlib"), (first, zlib_of(b'{"type":"final"}'))]
    (block,) = trace_blocks(packed)
    found = [json.loads(line)["type"] for line in unpacked(block.text).splitlines()]

    assert found == ["trial", "trial", "damaged", "trial", "final"]
    assert list(trace_blocks([])) == []
    assert [each.start for each in trace_blocks(packed, max_bytes=1)] == [0, 1, 2]


def test_a_file_of_traces_is_a_call_with_base64_in_quotes() -> None:
    assert block_script(TraceBlock(17, "eJw+/A==")) == 'surecallBlock(17,"eJw+/A==");\n'
    assert block_file_name(17) == "traces_17.js"


# What a run sent, for the page: each line adds to the one before, and nothing is lost


RUNS = (PREMATURE_RUN, OBJECTED_RUN, GUIDED_RUN, QUOTED_RUN)


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
def test_the_lines_of_a_run_give_its_requests(run: RecordedRun) -> None:
    lines = sent_lines(run.lines)

    assert put_together(lines) == run.requests
    assert all(line["exact"] for line in map(json.loads, lines.splitlines()))


def test_a_line_repeats_nothing() -> None:
    lines = sent_lines(PREMATURE_RUN.lines)
    bodies = [each.body for each in sent_requests(parse_trace(PREMATURE_RUN.lines))]

    assert lines.count(b"Book Monday.") == 1
    assert len(lines) < sum(map(len, bodies))


def test_of_what_cannot_be_read_nothing_is_told() -> None:
    assert sent_lines(b"no trace") == b""
    assert sent_lines(b"") == b""


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_what_a_damaged_record_calls_exact_was_sent(run: RecordedRun) -> None:
    lines = run.lines.splitlines(keepends=True)
    for at, line in enumerate(lines):
        for broken in ([*lines[:at], *lines[at + 1 :]], [*lines[:at], line, *lines[at:]]):
            told = sent_lines(b"".join(broken))
            exact = [json.loads(one)["exact"] for one in told.splitlines()]
            bodies = zip(put_together(told), exact, strict=True)
            assert all(body in run.requests for body, is_exact in bodies if is_exact)
