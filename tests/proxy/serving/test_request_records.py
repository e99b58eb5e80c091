"""What happened to a request, in one line."""

from typing import Any

from surecall.proxy.serving.proxy_exchange import ExchangeResult
from surecall.proxy.serving.request_records import MAX_RECORDS, Record, RequestLog, outcome_fields
from surecall.wire.apis.adapter import ErrorReply
from tests.support.proxy import call, completion, said


def record(number: int = 1, **fields: Any) -> Record:
    given: dict[str, Any] = {
        "outcome": "text",
        "status": 200,
        "model": "m",
        "streamed": False,
    } | fields
    return Record(number=number, at=0.0, api="chat", elapsed_ms=7, **given)


def test_a_clean_request_is_a_short_line() -> None:
    assert record(attempts=1, turns=1).line == "#1 chat m -> text  7 ms"
    assert record().details == []


def test_a_line_tells_what_the_answer_claims_without_a_call() -> None:
    claimed = record(attempts=1, turns=1, claims=("I sent it", "I paid it"))
    assert claimed.line == "#1 chat m -> text  no call supports: I sent it  7 ms"
    assert claimed.details == ["claims    I sent it; I paid it"]


def test_a_line_tells_what_was_healed_and_how_often_was_asked() -> None:
    healed = record(
        streamed=True,
        outcome="calls",
        tools=("a", "b"),
        repairs=("x", "y", "x"),
        error_codes=("CODE",),
        turns=3,
        attempts=4,
        received="raw",
        sent="read",
    )
    assert healed.line == (
        "#1 chat stream m -> calls a, b  repaired: x, y  re-prompted 2 times  4 requests  7 ms"
    )
    assert healed.details == ["received  raw", "repaired  x, y", "rejected  CODE", "sent      read"]
    assert "re-prompted 1 time " in record(turns=2, attempts=2).line


def test_a_line_is_safe_for_a_terminal() -> None:
    hostile = "\x1b]0;owned\x07\r\n\u202e"
    shown = record(model=hostile, message=hostile, received=hostile)
    for line in (shown.line, *shown.details):
        assert line.isprintable()


def test_the_newest_are_kept() -> None:
    told: list[Record] = []
    records = RequestLog(told.append)
    for _ in range(MAX_RECORDS + 5):
        records.add(record(records.next_number()))

    assert [each.number for each in records][:2] == [MAX_RECORDS + 5, MAX_RECORDS + 4]
    assert len(list(records)) == MAX_RECORDS
    assert len(told) == records.count == MAX_RECORDS + 5
    silent = RequestLog()
    silent.add(record())
    assert len(list(silent)) == 1


def test_an_outcome_is_calls_text_or_a_failure() -> None:
    calls = outcome_fields(
        ExchangeResult("r", completion(said(call("c1", note="x" * 999)), "tool_calls"))
    )
    assert (calls["outcome"], calls["tools"]) == ("calls", ("get_weather",))
    assert calls["sent"].endswith("…")
    assert outcome_fields(ExchangeResult("r", completion(said(text="Hi."))))["outcome"] == "text"
    failed = outcome_fields(ExchangeResult("r", None, ErrorReply(502, "no" * 999, "GONE")))
    assert (failed["status"], failed["outcome"], len(failed["message"])) == (502, "GONE", 300)
