"""The face: no request breaks it, no text is changed, events add up, state comes back."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from surecall.values.types import JSON
from surecall.wire.apis.adapter import InvalidRequest
from surecall.wire.apis.responses_request import chat_messages
from tests.support.responses_api import (
    ADD,
    CRATE,
    FACE,
    PATCH,
    ask,
    assembled,
    call,
    completion,
    heard,
    spoken,
)

WORDS = st.text('aé{}"\\\n <😀', min_size=1, max_size=8)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
IDS = st.sampled_from(["c1", "c2", "c3"])
NAMES = st.sampled_from(["add", "apply_patch", "other"])
ROLES = st.sampled_from(["user", "system", "developer", "assistant"])


def parts(*kinds: str) -> st.SearchStrategy[Any]:
    part = st.fixed_dictionaries({"type": st.sampled_from(kinds), "text": WORDS})
    return WORDS | st.lists(part, min_size=1, max_size=3)


MESSAGE = st.fixed_dictionaries(
    {"role": ROLES, "content": parts("input_text", "output_text")},
    optional={"type": st.just("message"), "id": WORDS},
)
CALL = st.fixed_dictionaries(
    {"type": st.just("function_call"), "call_id": IDS, "name": NAMES, "arguments": WORDS},
    optional={"namespace": st.sampled_from(["mcp__crate", None])},
)
CUSTOM = st.fixed_dictionaries(
    {"type": st.just("custom_tool_call"), "call_id": IDS, "name": NAMES, "input": WORDS}
)
OUTPUT = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["function_call_output", "custom_tool_call_output"]),
        "call_id": IDS,
        "output": parts("input_text"),
    }
)
NOTE = st.fixed_dictionaries({"type": st.sampled_from(["web_search_call", "reasoning"])})
GOOD = st.lists(MESSAGE | CALL | CUSTOM | OUTPUT | NOTE, max_size=8)
KEYS = st.sampled_from(
    [
        *("type", "role", "content", "call_id", "name", "arguments", "input", "output", "id"),
        *("encrypted_content", "tools", "text"),
    ]
)
FIELDS = st.sampled_from(
    ["tools", "tool_choice", "text", "reasoning", "instructions", "include", "stream"]
)
KINDS = st.sampled_from(
    [
        *("message", "function_call", "function_call_output", "custom_tool_call", "reasoning"),
        *("item_reference", "compaction", "shell_call_output", "additional_tools", "new_call"),
    ]
)
ODD = st.dictionaries(KEYS, ANY | KINDS | ROLES, max_size=5)


def texts(value: Any) -> list[str]:
    """List the texts that a client wrote: in contents, outputs, inputs and arguments."""
    if isinstance(value, list):
        return [text for part in value for text in texts(part.get("text"))]
    return [value] if isinstance(value, str) else []


def written(item: JSON) -> list[str]:
    return [
        text for key in ("content", "output", "arguments", "input") for text in texts(item.get(key))
    ]


def sent(message: JSON) -> list[str]:
    found = texts(message["content"])
    for made in message.get("tool_calls", ()):
        arguments = made["function"]["arguments"]
        found.append(arguments)
        with suppress(ValueError, TypeError, KeyError):
            found.append(json.loads(arguments)["input"])
    return found


@given(GOOD)
def test_every_text_of_the_client_goes_through_unchanged(items: list[JSON]) -> None:
    with suppress(InvalidRequest):
        found = [text for message in ask(*items).body["messages"] for text in sent(message)]
        for text in (text for item in items for text in written(item)):
            assert any(text in each for each in found)


@given(GOOD)
def test_plausible_items_are_never_refused(items: list[JSON]) -> None:
    asked = ask({"role": "user", "content": "Hi"}, *items)

    assert asked.body["messages"][0] == {"role": "user", "content": "Hi"}


@given(
    st.lists(ODD | ANY, max_size=4),
    st.dictionaries(
        FIELDS,
        ANY | st.lists(ODD, max_size=2) | ODD,
        max_size=3,
    ),
)
def test_no_request_does_worse_than_being_refused(items: list[Any], fields: JSON) -> None:
    with suppress(InvalidRequest):
        asked = ask(*items, **fields)
        FACE.render(asked, completion("Hm.", call()))


CALLS = st.lists(
    st.tuples(NAMES | st.just("mcp__crate__add"), st.just('{"input": "*"}') | WORDS, ANY),
    max_size=3,
).map(
    lambda calls: [
        call(f"c{n}", name, text, **({} if more is None else {"extra_content": more}))
        for n, (name, text, more) in enumerate(calls)
    ]
)
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "reasoning_content": WORDS,
        "reasoning": WORDS,
        "reasoning_details": st.lists(ANY, max_size=2),
        "refusal": WORDS,
        "unknown": ANY.filter(lambda value: value is not None),
    },
)


@st.composite
def answers(draw: st.DrawFn) -> JSON:
    text = draw(st.just("") | WORDS)
    return completion(text, *draw(CALLS), **draw(EXTRAS))


def split(text: str, cut: int) -> list[str]:
    return [text[:cut], text[cut : cut * 2]]


@given(answers(), st.integers(0, 5), st.integers(0, 5))
def test_events_add_up_to_the_plain_answer(body: JSON, thought: int, text: int) -> None:
    asked = ask(tools=[ADD, PATCH, CRATE])
    message = body["choices"][0]["message"]
    field = "reasoning_content" if "reasoning_content" in message else "reasoning"
    thoughts = [(piece, field) for piece in split(message.get(field, ""), thought)]
    # Words come after the whole thought, or not before the end.
    is_thought = "".join(piece for piece, _ in thoughts) == message.get(field, "")
    words = split(message["content"], text) if is_thought else []
    events = heard(spoken(FACE.event_writer(asked), *thoughts, *words, body=body))
    output = events[-1]["response"]["output"]

    assert events[-1]["response"] == FACE.render(asked, body)
    for item, whole in zip(assembled(events), output, strict=True):
        assert item.pop("done") == whole
        assert _shown(item) == _shown(whole)


def _shown(item: JSON) -> JSON:
    hidden = ("encrypted_content", "status")
    return {key: value for key, value in item.items() if key not in hidden}


@given(answers(), st.permutations(["text", "text", "thought", "thought"]), st.integers(0, 5))
def test_the_message_comes_back_however_it_was_streamed(
    body: JSON, order: list[str], cut: int
) -> None:
    asked = ask(tools=[ADD, PATCH, CRATE])
    message = body["choices"][0]["message"]
    pieces = {
        "text": iter(split(message["content"], cut)),
        "thought": iter(split(message.get("reasoning", ""), cut)),
    }
    steps = [
        next(pieces[kind]) if kind == "text" else (next(pieces[kind]), "reasoning")
        for kind in order
    ]
    events = heard(spoken(FACE.event_writer(asked), *steps, body=body))

    for output in (events[-1]["response"]["output"], FACE.render(asked, body)["output"]):
        assert_comes_back(message, output)


def assert_comes_back(message: JSON, output: list[JSON]) -> None:
    said = message["content"] + message.get("refusal", "")
    blank = message["content"].isspace() and "tool_calls" in message and "refusal" not in message
    found = chat_messages(output)
    if not said and "tool_calls" not in message:
        assert found == []
        return
    expected = {key: value for key, value in message.items() if key != "refusal"}
    # What is blank is nothing; beside calls, nothing is null.
    expected["content"] = None if blank or not said else said
    assert [_read(each) for each in found] == [_read(expected)]


def _read(message: JSON) -> JSON:
    """Read the arguments of custom calls, whose spelling is not kept."""
    read = json.loads(json.dumps(message))
    for made in read.get("tool_calls", ()):
        with suppress(ValueError):
            arguments = json.loads(made["function"]["arguments"])
            if made["function"]["name"] == "apply_patch" and isinstance(arguments, dict):
                made["function"]["arguments"] = arguments.get("input")
    return dict(read)
