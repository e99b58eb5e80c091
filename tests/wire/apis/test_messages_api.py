"""Tests of `surecall.wire.apis.messages_api`."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.types import JSON
from surecall.wire.apis.adapter import ApiAdapter, ErrorReply, InvalidRequest, encode_state
from surecall.wire.apis.messages_api import MessagesApi
from tests.support.messages_api import (
    FACE,
    HEAD,
    TOOL,
    asked,
    assembled,
    call,
    chat,
    completion,
    heard,
    read_events,
    request,
    said,
    text,
    use,
)

# The Messages face as a whole: what it reads, that it is a face, and how it counts tokens


IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": 9_000 * "A"},
}


def count(**fields: Any) -> int:
    found = FACE.count_tokens(request(max_tokens=None, **fields))
    assert found.keys() == {"input_tokens"}
    tokens = found["input_tokens"]
    assert isinstance(tokens, int)
    return tokens


def test_it_is_a_face() -> None:
    face: ApiAdapter = MessagesApi()

    assert face.name == "messages"


def test_what_the_client_sent_is_kept_beside_what_the_upstream_is_asked() -> None:
    data = request(top_k=5, stream=True)

    found = FACE.parse(data)

    assert found.client_body == msgspec.json.decode(data)
    assert found.stream
    assert not found.client_bytes
    assert not asked().stream


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7"])
def test_a_body_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        FACE.parse(data)


def nested(depth: int) -> bytes:
    """Write a request that holds documents in documents, so many deep."""
    inner = '{"type":"document","source":{"type":"content","content":['
    content = depth * inner + '{"type":"text","text":"a"}' + depth * "]}}"
    return f'{{"model":"m","messages":[{{"role":"user","content":[{content}]}}]}}'.encode()


def test_documents_are_read_in_documents() -> None:
    assert FACE.parse(nested(9)).body["messages"] == [{"role": "user", "content": "a"}]


@pytest.mark.parametrize("depth", [300, 50_000])
def test_a_body_that_is_nested_too_deeply_is_refused(depth: int) -> None:
    with pytest.raises(InvalidRequest):
        FACE.parse(nested(depth))


def test_the_count_grows_with_texts_tools_and_images() -> None:
    plain = count()

    assert 0 < plain < 50
    assert plain < count(system="Be kind to everyone.") < count(system=9 * "Be kind. ")
    assert plain < count(tools=[TOOL])
    assert 1_600 < count(messages=[heard(text("a"), IMAGE)]) < 2_000


def test_the_count_survives_state_that_is_garbage() -> None:
    block = {"type": "redacted_thinking", "data": encode_state({"message": {"content": ["a", 7]}})}

    assert count(messages=[heard(text("a")), said(block, text("a"))]) > 0


# Events of the Messages API: their order, and that they say what the plain answer says


HI = {"role": "user", "content": "Hi."}
DETAILS = [{"type": "reasoning.encrypted", "data": "e"}]


def streamed(body: JSON, *steps: tuple[str, str]) -> bytes:
    """Write a stream: `("", text)` is text, `(field, text)` a thought."""
    events = FACE.event_writer(asked(stream=True))
    written = events.begin(HEAD)
    for field, piece in steps:
        written += events.write_reasoning(piece, field) if field else events.write_text(piece)
    return written + events.finish(body)


def kinds(data: bytes) -> list[str]:
    """Name what is in a stream, in its order."""
    found = []
    for event in read_events(data):
        inner = event.get("content_block") or event.get("delta") or {}
        found.append(inner.get("type") or event["type"])
    return found


def came_back(message: JSON) -> JSON:
    """Return the chat message that an answer is in the next request; none if it said nothing."""
    _, *answers = chat(HI, {"role": "assistant", "content": message["content"]})
    return answers[0] if answers else {}


def thinking(thought: str, **state: Any) -> JSON:
    return {"type": "thinking", "thinking": thought, "signature": encode_state(state)}


def hidden(**state: Any) -> JSON:
    return {"type": "redacted_thinking", "data": encode_state(state)}


def test_a_text_is_one_block_between_the_start_and_the_end() -> None:
    data = streamed(completion("Hello."), ("", "Hel"), ("", ""), ("", "lo"))

    assert read_events(data)[1:] == [
        {"type": "content_block_start", "index": 0, "content_block": text("")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "."}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {
                "input_tokens": 7,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 3,
                "output_tokens": 4,
            },
        },
        {"type": "message_stop"},
    ]


def test_the_start_is_an_empty_message() -> None:
    (start,) = read_events(FACE.event_writer(asked()).begin(HEAD))

    message = start["message"]
    assert (message["content"], message["stop_reason"]) == ([], None)
    assert set(message["usage"].values()) == {0}


def test_a_call_is_a_block_whose_input_comes_whole() -> None:
    data = streamed(completion("a", call("c1"), call("c2", '{ "b": 2 }')), ("", "a"))

    assert kinds(data) == [
        *("message_start", "text", "text_delta", "content_block_stop"),
        *("tool_use", "input_json_delta", "content_block_stop"),
        *("tool_use", "input_json_delta", "content_block_stop"),
        *("message_delta", "message_stop"),
    ]
    assert assembled(data)["content"] == [text("a"), use("c1", a=1), use("c2", b=2)]


@pytest.mark.parametrize(
    ("body", "steps", "blocks"),
    [
        (completion(None), [], [text("")]),
        (completion("\n"), [("", "\n")], [text("\n")]),
        (completion("\n\n", call("c1")), [("", "\n\n")], [use("c1", a=1)]),
        (completion("\n\na"), [("", "\n"), ("", "\na")], [text("\n\na")]),
        (completion("a\n"), [("", "a"), ("", "\n")], [text("a\n")]),
        (
            completion("a", reasoning="So."),
            [("reasoning", "S"), ("reasoning", ""), ("reasoning", "o."), ("", "a")],
            [thinking("So.", message={"reasoning": "So."}), text("a")],
        ),
        (
            completion("a", reasoning="So."),
            [("reasoning", "S")],
            [thinking("So.", message={"reasoning": "So."}), text("a")],
        ),
        (
            completion("a", reasoning="So."),
            [],
            [thinking("So.", message={"reasoning": "So."}), text("a")],
        ),
        (
            completion(None, call("c1", sig="s"), reasoning="So."),
            [("reasoning", "So.")],
            [
                thinking("So.", message={"reasoning": "So."}, calls={"c1": {"sig": "s"}}),
                use("c1", a=1),
            ],
        ),
        (
            completion("a", call("c1", sig="s")),
            [],
            [hidden(calls={"c1": {"sig": "s"}}), text("a"), use("c1", a=1)],
        ),
        (
            completion("a", call("c1", sig="s")),
            [("", "a")],
            [text("a"), hidden(calls={"c1": {"sig": "s"}}), use("c1", a=1)],
        ),
        (
            completion("a", call("c1"), reasoning="So.", reasoning_details=DETAILS),
            [("reasoning", "So."), ("", "a")],
            [
                thinking("So.", message={"reasoning": "So."}),
                text("a"),
                hidden(message={"reasoning": "So.", "reasoning_details": DETAILS}),
                use("c1", a=1),
            ],
        ),
        (
            completion("a", call("c1"), reasoning="So."),
            [("", "a")],
            [text("a"), thinking("So.", message={"reasoning": "So."}), use("c1", a=1)],
        ),
        (
            completion("ab", reasoning="So. Hm."),
            [("reasoning", "So."), ("", "a"), ("reasoning", " Hm."), ("", "b")],
            [
                thinking("So.", message={"reasoning": "So."}),
                text("a"),
                thinking(" Hm.", message={"reasoning": "So. Hm."}),
                text("b"),
            ],
        ),
        (
            completion("a", reasoning="So."),
            [("", "a"), ("reasoning", "So.")],
            [text("a"), thinking("So.", message={"reasoning": "So."})],
        ),
        (
            completion(None, call("c1"), reasoning="Other."),
            [("reasoning", "So.")],
            [thinking("So.", message={"reasoning": "Other."}), use("c1", a=1)],
        ),
    ],
)
def test_blocks_come_in_the_order_of_what_happened(
    body: JSON, steps: list[tuple[str, str]], blocks: list[JSON]
) -> None:
    assert assembled(streamed(body, *steps))["content"] == blocks


def test_no_block_without_text_follows_an_answer_that_was_sent() -> None:
    body = completion("a", reasoning="So.", reasoning_details=DETAILS)

    assert kinds(streamed(body, ("reasoning", "So."), ("", "a")))[-4:] == [
        *("text_delta", "content_block_stop", "message_delta", "message_stop"),
    ]


def test_a_failure_ends_the_stream_and_claims_nothing() -> None:
    events = FACE.event_writer(asked(stream=True))
    written = events.begin(HEAD) + events.write_text("a")

    assert read_events(events.fail(ErrorReply(529, "Busy.", "busy"))) == [
        {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}
    ]
    assert b"message_stop" not in written


# Properties

PIECES = st.lists(st.text(max_size=3), max_size=3)
EXTRAS = st.dictionaries(st.just("reasoning_details"), st.just(DETAILS))
SIGNATURES: list[JSON] = [
    {},
    {"sig": "s"},
    {"extra_content": {"google": {"thought_signature": "t"}}},
]
CALLS = st.lists(st.sampled_from(SIGNATURES), max_size=2).map(
    lambda extras: [call(f"c{at}", **extra) for at, extra in enumerate(extras)]
)


@given(PIECES, PIECES, st.text(max_size=3), CALLS, EXTRAS)
def test_a_stream_brings_the_same_message_back_as_a_plain_answer(
    thoughts: list[str], texts: list[str], rest: str, calls: list[JSON], extra: JSON
) -> None:
    thought = {"reasoning_content": "".join(thoughts)} if any(thoughts) else {}
    extra = extra if calls else {}
    body = completion("".join(texts) + rest, *calls, **thought, **extra)
    steps = [("reasoning_content", each) for each in thoughts] + [("", each) for each in texts]

    message = assembled(streamed(body, *steps))
    plain = FACE.render(asked(), body)

    assert came_back(message) == came_back(plain)
    assert message | {"content": None} == plain | {"content": None}
    if not extra and not any(len(each) > 3 for each in calls):
        assert message["content"] == plain["content"]


@given(
    st.lists(st.tuples(st.sampled_from(["", "reasoning"]), st.text(max_size=3)), max_size=6),
    st.text(max_size=3),
    st.booleans(),
)
def test_in_whatever_order_thoughts_and_texts_come_both_are_whole(
    steps: list[tuple[str, str]],
    rest: str,
    is_calling: bool,  # noqa: FBT001
) -> None:
    thought = "".join(piece for field, piece in steps if field)
    said = "".join(piece for field, piece in steps if not field) + rest
    body = completion(said, *([call("c1")] if is_calling else []), reasoning=thought or None)

    blocks = assembled(streamed(body, *steps))["content"]

    assert "".join(block.get("thinking", "") for block in blocks) == thought
    written = "".join(block.get("text", "") for block in blocks)
    assert written == said or not said.strip()
    assert came_back({"content": blocks}).get("reasoning", "") == thought


# Answers of the Messages API: their blocks, why they ended, what they took, and errors


def rendered(body: JSON, **fields: Any) -> JSON:
    return FACE.render(asked(**fields), body)


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
                {
                    "type": "redacted_thinking",
                    "data": encode_state({"message": {"refusal": "No."}}),
                },
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
                {
                    "type": "redacted_thinking",
                    "data": encode_state({"calls": {"c1": {"sig": "s"}}}),
                },
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
    failure = ErrorReply(status, "It broke.", "broken")

    assert FACE.render_error(failure) == {
        "type": "error",
        "error": {"type": kind, "message": "It broke."},
    }


@pytest.mark.parametrize(
    ("failure", "begins"),
    [
        (ErrorReply(400, "Too much.", "context_length_exceeded"), "prompt is too long: Too much."),
        (ErrorReply(400, "the maximum context length is 9", "400"), "prompt is too long: the max"),
        (ErrorReply(500, "the maximum context length is 9", "500"), "the maximum"),
        (ErrorReply(400, "Bad schema.", "invalid"), "Bad schema."),
    ],
)
def test_a_prompt_that_is_too_long_is_told_in_the_words_that_clients_look_for(
    failure: ErrorReply, begins: str
) -> None:
    assert FACE.render_error(failure)["error"]["message"].startswith(begins)


def test_the_head_of_a_completion_is_that_of_its_answer() -> None:
    (start,) = FACE.event_writer(asked()).begin(HEAD).split(b"\n\n")[:1]

    assert rendered(completion("a"))["id"].encode() in start


def test_options_that_only_this_api_has_are_forwarded_to_an_upstream_that_has_it() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    data = request(thinking=thinking, top_k=5)

    assert "thinking" not in MessagesApi().parse(data).body
    found = MessagesApi(forwards_options=True).parse(data).body
    assert (found["thinking"], found["top_k"]) == (thinking, 5)
    assert "service_tier" not in found
