"""Answers of the Messages API: their blocks, why they ended, what they took, and errors."""

from typing import Any

import pytest

from surecall.proxy.faces.face import Failure
from surecall.proxy.faces.messages_state import seal
from surecall.values.types import JSON
from tests.support.messages_face import FACE, HEAD, asked, call, completion, text, use


def rendered(body: JSON, **fields: Any) -> JSON:
    return FACE.render(asked(**fields), body)


def thinking(thought: str, **state: Any) -> JSON:
    return {"type": "thinking", "thinking": thought, "signature": seal(state)}


def test_an_answer_has_every_field_of_a_message() -> None:
    message = rendered(completion("Ho."))

    assert message.pop("id").startswith("msg_")
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [{"type": "text", "text": "Ho."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 7,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3,
            "output_tokens": 4,
        },
    }


def test_the_id_is_made_of_the_completions_id() -> None:
    ids = [rendered(completion("Ho.") | {"id": each})["id"] for each in ("a", "a", "b", "msg_c")]

    assert ids[0] == ids[1] != ids[2]
    assert ids[3] == "msg_c"


def test_the_model_is_the_one_that_was_asked_where_the_answer_names_none() -> None:
    assert rendered(completion("Ho.") | {"model": None})["model"] == "m"


@pytest.mark.parametrize(
    ("body", "blocks"),
    [
        (completion("Ho."), [text("Ho.")]),
        (completion([text("Ho"), text(".")]), [text("Ho.")]),
        (completion(None), [text("")]),
        (completion("\n"), [text("\n")]),
        (
            completion(None, refusal="No."),
            [
                {"type": "redacted_thinking", "data": seal({"message": {"refusal": "No."}})},
                text("No."),
            ],
        ),
        (completion(None, call("c1")), [use("c1", a=1)]),
        (completion("\n\n", call("c1")), [use("c1", a=1)]),
        (completion("a", call("c1"), call("c2")), [text("a"), use("c1", a=1), use("c2", a=1)]),
        (completion(None, call("c1", "")), [use("c1")]),
        (completion(None, call("c1", "[]")), [use("c1")]),
        (completion(None, call("c1", "{")), [use("c1")]),
        (
            completion("a", reasoning="So."),
            [thinking("So.", message={"reasoning": "So."}), text("a")],
        ),
        (
            completion(None, reasoning_content="So."),
            [thinking("So.", message={"reasoning_content": "So."})],
        ),
        (
            completion("a", call("c1", sig="s")),
            [
                {"type": "redacted_thinking", "data": seal({"calls": {"c1": {"sig": "s"}}})},
                text("a"),
                use("c1", a=1),
            ],
        ),
    ],
)
def test_a_completion_becomes_blocks(body: JSON, blocks: list[JSON]) -> None:
    assert rendered(body)["content"] == blocks


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (completion("a"), "end_turn"),
        (completion("a", finish="length"), "max_tokens"),
        (completion("a", finish="content_filter"), "refusal"),
        (completion("a", finish="tool_calls"), "end_turn"),
        (completion(None, call("c1"), finish="tool_calls"), "tool_use"),
        (completion(None, call("c1"), finish="stop"), "tool_use"),
        (completion(None, call("c1"), finish="length"), "max_tokens"),
    ],
)
def test_an_answer_says_why_it_ended(body: JSON, reason: str) -> None:
    assert rendered(body)["stop_reason"] == reason


@pytest.mark.parametrize(
    ("matched", "reason", "sequence"),
    [("END", "stop_sequence", "END"), ("EOS", "end_turn", None), (2, "end_turn", None)],
)
def test_a_stop_sequence_is_told_where_the_upstream_tells_it(
    matched: Any, reason: str, sequence: str | None
) -> None:
    body = completion("a")
    body["choices"][0]["stop_reason"] = matched

    message = rendered(body, stop_sequences=["END"])

    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)
    assert rendered(body)["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, (0, 0, 0)),
        ({"prompt_tokens": 5, "completion_tokens": 2}, (5, 0, 2)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, (0, 5, 0)),
    ],
)
def test_tokens_from_a_cache_are_counted_apart(usage: Any, counts: tuple[int, int, int]) -> None:
    found = rendered(completion("a") | {"usage": usage})["usage"]

    fields = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    assert tuple(found[field] for field in fields) == counts


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_an_error_has_the_type_of_its_status(status: int, kind: str) -> None:
    failure = Failure(status, "It broke.", "broken")

    assert FACE.error(failure) == {
        "type": "error",
        "error": {"type": kind, "message": "It broke."},
    }


@pytest.mark.parametrize(
    ("failure", "begins"),
    [
        (Failure(400, "Too much.", "context_length_exceeded"), "prompt is too long: Too much."),
        (Failure(400, "the maximum context length is 9", "400"), "prompt is too long: the max"),
        (Failure(500, "the maximum context length is 9", "500"), "the maximum"),
        (Failure(400, "Bad schema.", "invalid"), "Bad schema."),
    ],
)
def test_a_prompt_that_is_too_long_is_told_in_the_words_that_clients_look_for(
    failure: Failure, begins: str
) -> None:
    assert FACE.error(failure)["error"]["message"].startswith(begins)


def test_the_head_of_a_completion_is_that_of_its_answer() -> None:
    (start,) = FACE.events(asked()).begin(HEAD).split(b"\n\n")[:1]

    assert rendered(completion("a"))["id"].encode() in start
