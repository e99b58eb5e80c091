"""Events come in the order that clients insist on, and add up to the answer."""

from typing import Any

import pytest

from surecall.proxy.faces.face import Failure
from surecall.proxy.faces.responses.events import ResponseEvents
from surecall.proxy.faces.responses.input_items import chat_messages
from surecall.values.types import JSON
from tests.support.responses import (
    FACE,
    HEAD,
    PATCH,
    ask,
    assembled,
    call,
    completion,
    heard,
    spoken,
)

R = "reasoning_content"
START = ["response.created", "response.in_progress"]
ADDED, DONE = "response.output_item.added", "response.output_item.done"
TEXT = [
    ADDED,
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    DONE,
]
THOUGHT = [
    ADDED,
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
    DONE,
]
CALL = [
    ADDED,
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    DONE,
]
CUSTOM = [
    ADDED,
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    DONE,
]
REFUSAL = [
    ADDED,
    "response.content_part.added",
    "response.refusal.delta",
    "response.refusal.done",
    "response.content_part.done",
    DONE,
]
BLANK = [name for name in TEXT if not name.endswith("delta")]
STATE = [ADDED, DONE]
END = ["response.completed"]


def stream(*steps: Any, body: JSON) -> list[JSON]:
    return heard(spoken(FACE.events(ask(tools=[PATCH])), *steps, body=body))


@pytest.mark.parametrize(
    ("steps", "body", "kinds"),
    [
        (["Hm."], completion("Hm."), TEXT),
        ([], completion("Hm."), TEXT),
        ([" ", "\n"], completion(" \nHm."), TEXT),
        ([""], completion(""), BLANK),
        ([" "], completion(" ", call()), CALL),
        ([], completion(None, call(), call("c2")), CALL * 2),
        ([], completion(None, call("c1", "apply_patch", '{"input": "*"}')), CUSTOM),
        (["Hm."], completion("Hm.", call()), TEXT + CALL),
        ([("r", R), "Hm."], completion("Hm.", reasoning_content="r"), THOUGHT + TEXT),
        ([("r", R)], completion("Hm.", reasoning_content="r"), THOUGHT + TEXT),
        ([("r", "thinking")], completion("Hm.", reasoning_content="r"), THOUGHT + TEXT),
        ([], completion("Hm.", reasoning_content="r"), THOUGHT + TEXT),
        (["\n", ("r", R), "Hm."], completion("\nHm.", reasoning_content="r"), THOUGHT + TEXT),
        ([("", R), ("r", R)], completion(None, call(), reasoning_content="r"), THOUGHT + CALL),
        (
            [("r", R), ("r", "reasoning"), "Hm."],
            completion("Hm.", reasoning_content="r", reasoning="r"),
            THOUGHT + TEXT + STATE,
        ),
        (["Hm.", ""], completion("Hm.", x=1), TEXT + STATE),
        ([], completion(None, refusal="No."), REFUSAL),
    ],
)
def test_events_come_in_order_and_add_up_to_the_plain_answer(
    steps: list[Any], body: JSON, kinds: list[str]
) -> None:
    events = stream(*steps, body=body)

    assert [event["type"] for event in events] == START + kinds + END
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"] == FACE.render(ask(tools=[PATCH]), body)
    assert [event["item"] for event in events if event["type"] == DONE] == (
        events[-1]["response"]["output"]
    )


def test_an_item_is_begun_empty_and_done_whole() -> None:
    events = stream("Hm", body=completion("Hm."))
    begun, part, first, rest, *_, done, end = events[2:]

    assert begun["item"] == {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "content": [],
        "status": "in_progress",
    }
    assert part == {
        "type": "response.content_part.added",
        "sequence_number": 3,
        "item_id": "msg_7",
        "output_index": 0,
        "content_index": 0,
        "part": {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    }
    assert (first["delta"], rest["delta"], rest["logprobs"]) == ("Hm", ".", [])
    assert done["item"] == end["response"]["output"][0]


def test_the_start_says_that_the_answer_is_in_progress() -> None:
    created, progress, *_ = stream(body=completion("Hm."))

    assert created["response"] == progress["response"]
    assert (created["response"]["id"], created["response"]["status"]) == ("resp_7", "in_progress")
    assert created["response"]["usage"] is None


def test_the_answer_keeps_the_id_that_it_began_with() -> None:
    *_, end = stream("Hm.", body=completion("Hm.") | {"id": "chatcmpl-8", "model": "n"})

    assert (end["response"]["id"], end["response"]["model"]) == ("resp_7", "m")
    assert end["response"]["output"][0]["id"] == "msg_7"


def test_an_answer_that_was_cut_is_incomplete() -> None:
    *_, end = stream("Hm", body=completion("Hm", finish="length"))

    assert end["type"] == "response.incomplete"
    assert end["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize(
    ("steps", "thought"),
    [
        (["Hm.", ("late", R)], "late"),
        ([("r", R), "Hm.", ("late", R)], "rlate"),
        (["Hm."], "late"),
        ([("other", R), "Hm."], "late"),
        ([("other", R)], "late"),
    ],
)
def test_a_thought_that_was_not_sent_in_time_comes_back_whole(
    steps: list[Any], thought: str
) -> None:
    body = completion("Hm.", call(), reasoning_content=thought)
    events = stream(*steps, body=body)
    output = events[-1]["response"]["output"]

    assert chat_messages(output) == [body["choices"][0]["message"]]
    assert [item.pop("done") for item in assembled(events)] == output


def test_a_late_thought_is_shown_at_the_end() -> None:
    *_, end = stream(
        ("r", R), "Hm.", ("late", R), body=completion("Hm.", reasoning_content="rlate")
    )

    shown = [item.get("summary") for item in end["response"]["output"]]
    assert shown == [
        [{"type": "summary_text", "text": "r"}],
        None,
        [{"type": "summary_text", "text": "late"}],
    ]


def test_a_thought_that_is_gone_at_the_end_does_not_come_back() -> None:
    *_, end = stream(("r", R), "Hm.", body=completion("Hm."))

    assert chat_messages(end["response"]["output"]) == [{"role": "assistant", "content": "Hm."}]


@pytest.mark.parametrize(
    ("steps", "whole"),
    [([], 0), ([("r", R)], 0), (["Hm"], 0), ([("r", R), "Hm"], 1)],
)
def test_a_failure_ends_the_stream_and_claims_nothing(steps: list[Any], whole: int) -> None:
    events = ResponseEvents(ask())
    data = events.begin(HEAD)
    for step in steps:
        data += events.text(step) if isinstance(step, str) else events.thought(*step)
    *before, end = heard(data + events.fail(Failure(502, "gone", "UPSTREAM_5XX")))

    assert end["type"] == "response.failed"
    assert (end["response"]["id"], end["response"]["status"]) == ("resp_7", "failed")
    assert end["response"]["error"]["message"] == "gone"
    assert len(end["response"]["output"]) == whole
    assert [event["type"] for event in before].count(DONE) == whole


def test_a_stream_has_no_mark_at_its_end() -> None:
    data = spoken(FACE.events(ask()), body=completion("Hm."))

    assert b"[DONE]" not in data
    assert data.endswith(b"}\n\n")
