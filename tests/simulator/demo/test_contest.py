"""Side by side: what a plain loop makes of bent replies, and what surecall makes of them."""

import sys

import pytest

from surecall.simulator.demo.contest import OWN, PLAIN, SDK, Row, contest
from surecall.simulator.demo.shapes import drawn, every_shape

# What a loop cannot do right that reads `choices[0].message.tool_calls` and trusts it.
OUT_OF_REACH = {
    "wrapped_in_data": "crashed",
    "error_in_body": "crashed",
    "id_missing": "crashed",
    "name_prefixed": "HTTP 400",
    "arguments_wrapped": "ran nothing",
    "answer_blank": "no answer",
    "dialect-a9": "ran nothing",
    "stream-legacy-deltas": "ran nothing",
}


@pytest.fixture(scope="module", name="rows")
def rows_fixture() -> list[Row]:
    return contest(drawn())


def test_surecall_is_right_after_every_reply(rows: list[Row]) -> None:
    misses = {row.shape.id: row.outcomes[OWN].judgement for row in rows}

    assert {name: each for name, each in misses.items() if each.verdict != "right"} == {}


def test_the_plain_loops_fail_where_they_must(rows: list[Row]) -> None:
    for loop in (PLAIN, SDK):
        ways = {row.shape.id: row.outcomes[loop].judgement.how for row in rows}
        assert {name: ways[name] for name in OUT_OF_REACH} == OUT_OF_REACH


def test_everybody_is_right_without_a_fault_after_a_busy_endpoint_and_with_quotations(
    rows: list[Row],
) -> None:
    easy = [row for row in rows if row.shape.family in {"control", "transport", "quotes"}]

    assert len(easy) == 9
    for row in easy:
        assert all(outcome.is_right for outcome in row.outcomes.values()), row.shape.id


def test_only_our_own_loop_leaves_a_trace(rows: list[Row]) -> None:
    for row in rows:
        assert [name for name, each in row.outcomes.items() if each.trace is not None] == [OWN]


def test_without_the_client_of_openai_there_are_two_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    (row,) = contest(drawn()[:1])

    assert list(row.outcomes) == [PLAIN, OWN]


@pytest.mark.slow
def test_surecall_is_right_after_every_reply_that_could_have_been_drawn() -> None:
    rows = contest(every_shape())

    assert len(rows) > 250
    assert [row.shape.id for row in rows if not row.outcomes[OWN].is_right] == []
