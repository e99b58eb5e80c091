"""The stock of random cases holds something of every kind."""

from proof.fuzz_stock import Stock, as_lines
from surecall.runtime.trace import parse_trace


def test_there_are_bodies_streams_texts_schemas_arguments_and_traces() -> None:
    stock = Stock()
    kinds = (stock.bodies, stock.streams, stock.texts, stock.schemas, stock.arguments)
    assert all(len(kind) > 50 for kind in kinds)
    for raw, events in zip(stock.raw_traces, stock.traces, strict=True):
        assert parse_trace(as_lines(events)).digest == parse_trace(raw).digest


def test_what_is_no_list_is_written_as_one_line() -> None:
    assert as_lines({"a": 1}) == b'{"a": 1}'
