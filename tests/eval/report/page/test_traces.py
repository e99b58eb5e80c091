"""Traces in blocks: what goes in comes out."""

import base64
import json
import zlib

import msgspec

from surecall.eval.report.page.html import render_page
from surecall.eval.report.page.traces import Block, Source, blocks, file_name, script
from surecall.eval.storage.trial import Trial
from tests.eval.report.page.test_html import Page, report
from tests.support.eval_results import EVENTS, lines
from tests.support.trials import rich_trials, trial


def test_traces_come_back_as_they_went_in() -> None:
    trials = rich_trials()
    packed = [(each, zlib_of(lines(*EVENTS))) for each in trials]
    made = list(blocks(packed, most_bytes=9_000))
    source = Source("inline", tuple(b.start for b in made), tuple(b.text for b in made))
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
    (block,) = blocks(packed)
    found = [json.loads(line)["type"] for line in unpacked(block.text).splitlines()]

    assert found == ["trial", "trial", "damaged", "trial", "final"]
    assert list(blocks([])) == []
    assert [each.start for each in blocks(packed, most_bytes=1)] == [0, 1, 2]


def test_a_file_of_traces_is_a_call_with_base64_in_quotes() -> None:
    assert script(Block(17, "eJw+/A==")) == 'surecallBlock(17,"eJw+/A==");\n'
    assert file_name(17) == "traces_17.js"
