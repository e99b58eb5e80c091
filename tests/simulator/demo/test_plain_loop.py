"""The plain loop is a fair one: it does its work, asks again, and tells the model of mistakes."""

import pytest

from surecall.simulator.demo import plain_loop as module
from surecall.simulator.demo.plain_loop import MOST_TURNS, plain_loop
from surecall.simulator.demo.tasks import BOOK, PAIR, Desk, NeverEnded, Refused, Task
from surecall.simulator.server import Simulator
from surecall.testing import ScriptedProvider, calls, failure, says
from surecall.values.types import JSON

BOOKING = calls("book_room", guest="Kim", nights=3)
BUSY = failure(503, {"error": {"message": "overloaded"}})


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAIT_S", 0.0)


def held(url: str, task: Task = BOOK, *, model: str = "m", streamed: bool = False) -> str:
    desk = Desk()
    answer = plain_loop(url, model, task, desk.tools(task), streamed=streamed)
    assert sorted(desk.made, key=str) == sorted(task.calls, key=str)
    return answer


@pytest.mark.parametrize("task", [BOOK, PAIR])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", ["clean", "gzip"])
def test_a_clean_reply_is_read(task: Task, model: str, *, streamed: bool) -> None:
    with Simulator() as simulator:
        assert task.told in held(simulator.url, task, model=model, streamed=streamed)
        assert not simulator.violations


def test_a_busy_endpoint_is_asked_again() -> None:
    with ScriptedProvider(BUSY, BUSY, BOOKING, BUSY, says("booked")) as provider:
        assert held(provider.url) == "booked"


def test_an_endpoint_that_stays_busy_is_given_up() -> None:
    with ScriptedProvider(BUSY, BUSY, BUSY) as provider, pytest.raises(Refused, match="overloaded"):
        held(provider.url)


def test_a_refused_request_is_not_sent_again() -> None:
    refusal = failure(400, {"error": {"message": "bad name"}})
    with ScriptedProvider(refusal) as provider, pytest.raises(Refused, match="bad name"):
        held(provider.url)
    assert len(provider.requests) == 1


def test_a_connection_that_breaks_is_tried_again_and_then_given_up() -> None:
    with Simulator() as simulator:
        assert "booked" in held(simulator.url, model="reset")
    with pytest.raises(OSError, match="refused"):
        held(simulator.url)


def bent(name: str, arguments: str) -> JSON:
    reply = calls(name)
    reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
    return reply


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


def test_a_model_that_goes_on_for_ever_is_stopped() -> None:
    desk = Desk()
    with (
        ScriptedProvider(BOOKING, repeat=True) as provider,
        pytest.raises(NeverEnded, match=str(MOST_TURNS)),
    ):
        plain_loop(provider.url, "m", BOOK, desk.tools(BOOK), streamed=False)
    assert len(desk.made) == MOST_TURNS


def test_an_answer_without_content_is_blank() -> None:
    silent = says("")
    silent["choices"][0]["message"]["content"] = None
    with ScriptedProvider(BOOKING, silent) as provider:
        assert held(provider.url) == ""
