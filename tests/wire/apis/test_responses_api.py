"""Tests of `surecall.wire.apis.responses_api`."""

from typing import Any

import pytest

from surecall.values.types import JSON
from surecall.wire.apis.adapter import ApiAdapter, ErrorReply, InvalidRequest
from surecall.wire.apis.responses_api import (
    ResponseEventWriter,
    ResponsesApi,
    error_response,
    failed_response,
    response_object,
    with_ending,
)
from surecall.wire.apis.responses_request import chat_messages
from tests.support.responses_api import (
    ADD,
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

# Events come in the order that clients insist on, and add up to the answer


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
    return heard(spoken(FACE.event_writer(ask(tools=[PATCH])), *steps, body=body))


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
    events = ResponseEventWriter(ask())
    data = events.begin(HEAD)
    for step in steps:
        data += events.write_text(step) if isinstance(step, str) else events.write_reasoning(*step)
    *before, end = heard(data + events.fail(ErrorReply(502, "gone", "UPSTREAM_5XX")))

    assert end["type"] == "response.failed"
    assert (end["response"]["id"], end["response"]["status"]) == ("resp_7", "failed")
    assert end["response"]["error"]["message"] == "gone"
    assert len(end["response"]["output"]) == whole
    assert [event["type"] for event in before].count(DONE) == whole


def test_a_stream_has_no_mark_at_its_end() -> None:
    data = spoken(FACE.event_writer(ask()), body=completion("Hm."))

    assert b"[DONE]" not in data
    assert data.endswith(b"}\n\n")


# The answer as a whole: what it repeats, what it cost, why it failed


ANSWER_START = response_object(
    ask(temperature=0, tools=[ADD], metadata=None), HEAD, "in_progress", []
)


def test_an_answer_repeats_its_request() -> None:
    assert (ANSWER_START["id"], ANSWER_START["model"], ANSWER_START["created_at"]) == (
        *("resp_chatcmpl-7", "m", 1_700_000_000),
    )
    assert (ANSWER_START["temperature"], ANSWER_START["top_p"], ANSWER_START["metadata"]) == (
        0,
        None,
        {},
    )
    assert (
        ANSWER_START["tools"],
        ANSWER_START["tool_choice"],
        ANSWER_START["parallel_tool_calls"],
    ) == (*([ADD], "auto", True),)


def test_an_answer_without_a_model_has_that_of_the_request() -> None:
    assert response_object(ask(), {"id": "7"}, "failed", [])["model"] == "m"
    assert response_object(ask(model=None), {"id": "7"}, "failed", [])["model"] == ""


def test_usage_is_counted_in_the_words_of_the_api() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }

    assert with_ending(ANSWER_START, {"usage": usage}, None)["usage"] == {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 9,
    }


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "prompt_tokens_details": 1}])
def test_what_was_not_counted_is_zero(usage: Any) -> None:
    found = with_ending(ANSWER_START, {"usage": usage}, None)["usage"]

    assert (found["input_tokens"], found["output_tokens"], found["total_tokens"]) == (0, 0, 0)
    assert found["input_tokens_details"]["cached_tokens"] == 0


def test_a_total_that_is_missing_is_added_up() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 3}

    assert with_ending(ANSWER_START, {"usage": usage}, None)["usage"]["total_tokens"] == 8


def test_an_answer_says_how_it_ended() -> None:
    whole = with_ending(ANSWER_START, {"service_tier": "flex"}, None)
    cut = with_ending(ANSWER_START, {}, "max_output_tokens")

    assert (whole["status"], whole["incomplete_details"]) == ("completed", None)
    assert whole["service_tier"] == "flex"
    assert (cut["status"], cut["incomplete_details"]) == (
        *("incomplete", {"reason": "max_output_tokens"}),
    )


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (ErrorReply(400, "m", "BAD_REQUEST"), "invalid_prompt"),
        (ErrorReply(400, "m", "CONTEXT_TOO_LONG"), "context_length_exceeded"),
        (ErrorReply(402, "m", "PAYMENT_REQUIRED"), "insufficient_quota"),
        (ErrorReply(408, "m", "TIMEOUT"), "server_error"),
        (ErrorReply(429, "m", "slow_down"), "rate_limit_exceeded"),
        (ErrorReply(502, "m", "UPSTREAM_5XX"), "server_error"),
    ],
)
def test_a_failure_has_a_code_that_clients_act_upon(failure: ErrorReply, code: str) -> None:
    found = failed_response(ANSWER_START, failure)

    assert found["status"] == "failed"
    assert found["error"] == {"code": code, "message": "m", "param": None, "type": failure.code}


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (
            ErrorReply(400, "m", "unsupported", "input[0]"),
            {"type": "invalid_request_error", "param": "input[0]", "code": "unsupported"},
        ),
        (
            ErrorReply(429, "m", "RATE_LIMIT"),
            {"type": "invalid_request_error", "param": None, "code": "rate_limit_exceeded"},
        ),
        (
            ErrorReply(502, "m", "UPSTREAM_5XX"),
            {"type": "server_error", "param": None, "code": "UPSTREAM_5XX"},
        ),
    ],
)
def test_an_error_is_the_whole_answer(failure: ErrorReply, expected: JSON) -> None:
    assert error_response(failure) == {"error": {"message": "m"} | expected}


# The face as a whole: bytes in, an answer out


def test_it_is_a_face() -> None:
    face: ApiAdapter = ResponsesApi()

    assert face.name == "responses"


def test_a_request_is_read() -> None:
    asked = ask(stream=True)

    assert asked.stream
    assert asked.body["messages"] == [{"role": "user", "content": "Hi"}]
    assert asked.client_body == {"model": "m", "input": "Hi", "stream": True}


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"a": NaN, "b": "\\ud800"}'])
def test_what_is_not_a_request_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        FACE.parse(data)


def test_an_answer_is_written() -> None:
    answer = FACE.render(ask(), completion("Hm."))

    assert (answer["id"], answer["status"], answer["object"]) == ("resp_7", "completed", "response")
    assert answer["output"][0]["content"][0]["text"] == "Hm."


def test_an_error_is_written() -> None:
    assert FACE.render_error(ErrorReply(400, "m", "c"))["error"]["code"] == "c"
