"""Events of the Messages API: their order, and that they say what the plain answer says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.proxy.faces.face import Failure
from surecall.proxy.faces.messages_state import seal
from surecall.values.types import JSON
from tests.support.messages_face import (
    FACE,
    HEAD,
    asked,
    assembled,
    call,
    chat,
    completion,
    read_events,
    text,
    use,
)

HI = {"role": "user", "content": "Hi."}
DETAILS = [{"type": "reasoning.encrypted", "data": "e"}]


def streamed(body: JSON, *steps: tuple[str, str]) -> bytes:
    """Write a stream: `("", text)` is text, `(field, text)` a thought."""
    events = FACE.events(asked(stream=True))
    written = events.begin(HEAD)
    for field, piece in steps:
        written += events.thought(piece, field) if field else events.text(piece)
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
    return {"type": "thinking", "thinking": thought, "signature": seal(state)}


def hidden(**state: Any) -> JSON:
    return {"type": "redacted_thinking", "data": seal(state)}


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
    (start,) = read_events(FACE.events(asked()).begin(HEAD))

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
    events = FACE.events(asked(stream=True))
    written = events.begin(HEAD) + events.text("a")

    assert read_events(events.fail(Failure(529, "Busy.", "busy"))) == [
        {"type": "error", "error": {"type": "overloaded_error", "message": "Busy."}}
    ]
    assert b"message_stop" not in written


# Laws

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
