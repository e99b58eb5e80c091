"""Before the final answer, what was written and what was asked for are repeated, in short."""

import json
from typing import Any

import pytest

from surecall import Contract, ToolLoopRunner, replay, tool
from surecall.core.offer import MOST_ASKED, MOST_OF_A_WRITE, MOST_WRITES
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel
from surecall.values.events import LlmRequestStartEvent
from tests.laws.test_early_answers import body

CONTRACT = Contract(all_of=["book"])


@tool
def book(room: int, note: str = "") -> str:
    """Book a room."""
    return f"room {room} is yours {note}"


@tool(read_only=True)
def look(room: int) -> str:
    """Look at a room."""
    return f"room {room} is free"


def ran(protocol: Any, *decisions: Any, text: str = "Book room 7.", **settings: Any) -> list[str]:
    """Return the last words of each request."""
    model = ScriptedModel(*(body(protocol, one) for one in (*decisions, "Done.")))
    given: Any = {"contract": CONTRACT, "closing_reminder": True} | settings
    config = raw(call_protocol=protocol, **given)
    result = ToolLoopRunner(client=model, model="m", tools=[book, look], config=config).run_sync(
        text
    )
    assert replay(result.trace).run == result.run
    said = [event.reminder for event in result.trace if isinstance(event, LlmRequestStartEvent)]
    last = [json.dumps(request["messages"][-1]) for request in model.requests]
    for words, sent in zip(said, last, strict=True):
        assert json.dumps(words)[1:-1] in sent
    return said


@pytest.mark.parametrize("protocol", ["guided", "prompted"])
def test_the_writes_and_the_request_are_repeated_before_the_answer(protocol: str) -> None:
    first, second, last = ran(protocol, ("look", {"room": 7}), ("book", {"room": 7}))

    assert (first, second) == ("", "")
    assert last == (
        'This was done:\n- book {"room":7}: "room 7 is yours "\n'
        'The request was: "Book room 7."\nWrite the answer. Tell what the request asks to be told; '
        "if it says which words to answer with, use exactly these."
    )


def test_it_is_bounded() -> None:
    rooms = [("book", {"room": number, "note": "x" * 500}) for number in range(9)]
    contract = Contract(in_order=["book"] * 9)
    *_, last = ran("guided", *rooms, text="y" * 2000, contract=contract)

    assert last.count("- book") == MOST_WRITES
    assert len(last) < MOST_WRITES * 2 * (MOST_OF_A_WRITE + 20) + MOST_ASKED + 100


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        ("native", {}),
        ("guided", {"closing_reminder": False}),
        ("guided", {"contract": None}),
        ("guided", {"contract": Contract(all_of=["book"], then_finalise=False)}),
        ("guided", {"contract": Contract(all_of=["look"])}),
    ],
)
def test_where_it_is_not_wanted_or_nothing_was_written_nothing_is_said(
    protocol: str, settings: Any
) -> None:
    calls = [("look", {"room": 7})] if "look" in str(settings) else [("book", {"room": 7})]
    assert ran(protocol, *calls, **settings)[-1] == ""
