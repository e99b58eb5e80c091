"""Tests of `surecall.simulator.demo_loops`."""

import sys
from contextlib import ExitStack
from types import ModuleType

import pytest

from surecall.simulator import demo_loops as module
from surecall.simulator.demo_loops import (
    MAX_TURNS,
    PLAIN_LOOP,
    SDK_LOOP,
    SURECALL_LOOP,
    DemoRow,
    compare_loops,
    open_sdk_loop,
    plain_loop,
)
from surecall.simulator.demo_tasks import (
    BOOK,
    PAIR,
    DemoTask,
    EndpointError,
    NoAnswer,
    ToolRecorder,
    all_cases,
    draw_cases,
)
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedProvider, calls, failure, says
from surecall.values.types import JSON

# The plain loop is a fair one: it does its work, asks again, and tells the model of mistakes


BOOKING = calls("book_room", guest="Kim", nights=3)
BUSY = failure(503, {"error": {"message": "overloaded"}})


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAIT_S", 0.0)


def held(url: str, task: DemoTask = BOOK, *, model: str = "m", streamed: bool = False) -> str:
    desk = ToolRecorder()
    answer = plain_loop(url, model, task, desk.tools(task), streamed=streamed)
    assert sorted(desk.calls, key=str) == sorted(task.calls, key=str)
    return answer


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize("task", [BOOK, PAIR])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", ["clean", "gzip"])
def test_a_clean_reply_is_read(task: DemoTask, model: str, *, streamed: bool) -> None:
    with Simulator() as simulator:
        assert task.expected_text in held(simulator.url, task, model=model, streamed=streamed)
        assert not simulator.violations


@pytest.mark.usefixtures("_at_once")
def test_a_busy_endpoint_is_asked_again() -> None:
    with ScriptedProvider(BUSY, BUSY, BOOKING, BUSY, says("booked")) as provider:
        assert held(provider.url) == "booked"


@pytest.mark.usefixtures("_at_once")
def test_an_endpoint_that_stays_busy_is_given_up() -> None:
    with (
        ScriptedProvider(BUSY, BUSY, BUSY) as provider,
        pytest.raises(EndpointError, match="overloaded"),
    ):
        held(provider.url)


@pytest.mark.usefixtures("_at_once")
def test_a_refused_request_is_not_sent_again() -> None:
    refusal = failure(400, {"error": {"message": "bad name"}})
    with ScriptedProvider(refusal) as provider, pytest.raises(EndpointError, match="bad name"):
        held(provider.url)
    assert len(provider.requests) == 1


@pytest.mark.usefixtures("_at_once")
def test_a_connection_that_breaks_is_tried_again_and_then_given_up() -> None:
    with Simulator() as simulator:
        assert "booked" in held(simulator.url, model="reset")
    with pytest.raises(OSError, match="refused"):
        held(simulator.url)


def bent(name: str, arguments: str) -> JSON:
    reply = calls(name)
    reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
    return reply


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("book_room", "{", "JSONDecodeError"),
        ("book_a_room", "{}", "KeyError: 'book_a_room'"),
        ("book_room", "{}", "missing 2 required positional arguments"),
    ],
)
def test_the_model_is_told_of_a_call_that_cannot_run(name: str, arguments: str, told: str) -> None:
    with ScriptedProvider(bent(name, arguments), BOOKING, says("booked")) as provider:
        assert held(provider.url) == "booked"
    last = provider.requests[1]["messages"][-1]
    assert last["role"] == "tool"
    assert last["content"].startswith("Error: ")
    assert told in last["content"]


@pytest.mark.usefixtures("_at_once")
def test_a_model_that_goes_on_for_ever_is_stopped() -> None:
    desk = ToolRecorder()
    with (
        ScriptedProvider(BOOKING, repeat=True) as provider,
        pytest.raises(NoAnswer, match=str(MAX_TURNS)),
    ):
        plain_loop(provider.url, "m", BOOK, desk.tools(BOOK), streamed=False)
    assert len(desk.calls) == MAX_TURNS


@pytest.mark.usefixtures("_at_once")
def test_an_answer_without_content_is_blank() -> None:
    silent = says("")
    silent["choices"][0]["message"]["content"] = None
    with ScriptedProvider(BOOKING, silent) as provider:
        assert held(provider.url) == ""


# Side by side: what a plain loop makes of bent replies, and what surecall makes of them


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
def rows_fixture() -> list[DemoRow]:
    return compare_loops(draw_cases())


def test_surecall_is_right_after_every_reply(rows: list[DemoRow]) -> None:
    misses = {row.case.id: row.outcomes[SURECALL_LOOP].judgment for row in rows}

    assert {name: each for name, each in misses.items() if each.verdict != "right"} == {}


def test_the_plain_loops_fail_where_they_must(rows: list[DemoRow]) -> None:
    for loop in (PLAIN_LOOP, SDK_LOOP):
        ways = {row.case.id: row.outcomes[loop].judgment.how for row in rows}
        assert {name: ways[name] for name in OUT_OF_REACH} == OUT_OF_REACH


def test_everybody_is_right_without_a_fault_after_a_busy_endpoint_and_with_quotations(
    rows: list[DemoRow],
) -> None:
    easy = [row for row in rows if row.case.family in {"control", "transport", "quotes"}]

    assert len(easy) == 9
    for row in easy:
        assert all(outcome.is_right for outcome in row.outcomes.values()), row.case.id


def test_only_our_own_loop_leaves_a_trace(rows: list[DemoRow]) -> None:
    for row in rows:
        assert [name for name, each in row.outcomes.items() if each.trace is not None] == [
            SURECALL_LOOP
        ]


def test_without_the_client_of_openai_there_are_two_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    (row,) = compare_loops(draw_cases()[:1])

    assert list(row.outcomes) == [PLAIN_LOOP, SURECALL_LOOP]


@pytest.mark.slow
def test_surecall_is_right_after_every_reply_that_could_have_been_drawn() -> None:
    rows = compare_loops(all_cases())

    assert len(rows) > 250
    assert [row.case.id for row in rows if not row.outcomes[SURECALL_LOOP].is_right] == []


# OpenAI's own client takes part where it is installed, and is not missed where it is not


@pytest.mark.parametrize("task", [BOOK, PAIR])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_clean_reply_is_read_by_the_sdk_loop(
    task: DemoTask, monkeypatch: pytest.MonkeyPatch, *, streamed: bool
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    desk = ToolRecorder()
    with Simulator() as simulator, ExitStack() as stack:
        loop = open_sdk_loop(simulator.url, stack)
        assert loop is not None
        answer = loop("sim/clean", task, desk.tools(task), streamed=streamed)

    assert task.expected_text in answer
    assert tuple(desk.calls) == task.calls


@pytest.mark.parametrize("found", [None, ModuleType("openai")])
def test_without_the_client_or_with_an_old_one_there_is_no_loop(
    found: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", found)
    with ExitStack() as stack:
        assert open_sdk_loop("http://127.0.0.1:9", stack) is None
