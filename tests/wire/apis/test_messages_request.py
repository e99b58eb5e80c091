"""Tests of `surecall.wire.apis.messages_request`."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.values.types import JSON
from surecall.wire.apis.adapter import InvalidRequest, encode_state
from surecall.wire.apis.messages_api import MessagesApi
from surecall.wire.content_parts import text_of
from tests.support.generated import FINITE_VALUES
from tests.support.messages_api import (
    FACE,
    TOOL,
    asked,
    call,
    chat,
    heard,
    request,
    result,
    said,
    text,
    use,
)

# Requests of the Messages API: what goes on, what is left out, what is refused


PARAMETERS = {"type": "object"}
ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS},
}
MARK = {"type": "ephemeral", "ttl": "1h"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
ASKED_FORMAT = {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA}}
PLAIN = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}
LONG_USER = '{"device_id":"' + 64 * "f" + '","session_id":"1"}'


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ({}, {}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"stop_sequences": ["END"]}, {"stop": ["END"]}),
        ({"stop_sequences": []}, {}),
        ({"metadata": {"user_id": "u-1"}}, {"user": "u-1"}),
        ({"metadata": {"user_id": ""}}, {}),
        ({"metadata": {}}, {}),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": False}, {}),
        ({"output_config": {"format": FORMAT}}, {"response_format": ASKED_FORMAT}),
        ({"output_format": FORMAT}, {"response_format": ASKED_FORMAT}),
        ({"output_config": {"effort": "high"}}, {}),
        ({"tools": [TOOL]}, {"tools": [ADD]}),
        ({"tools": [TOOL | {"type": "custom"}]}, {"tools": [ADD]}),
        ({"tools": [TOOL | {"strict": True, "defer_loading": True}]}, {"tools": [ADD]}),
        ({"tools": [TOOL | {"cache_control": MARK}]}, {"tools": [ADD]}),
        ({"tools": [SEARCH, TOOL]}, {"tools": [ADD]}),
        ({"tools": [SEARCH]}, {}),
        ({"tools": []}, {}),
    ],
)
def test_a_field_goes_on_as_a_chat_completion_has_it(given: JSON, becomes: JSON) -> None:
    assert asked(**given).body == PLAIN | becomes


def test_a_tool_without_a_description_has_none() -> None:
    (tool,) = asked(tools=[{"name": "now", "input_schema": PARAMETERS}]).body["tools"]

    assert tool == {"type": "function", "function": {"name": "now", "parameters": PARAMETERS}}


@pytest.mark.parametrize(
    "field",
    [
        {"top_k": 5},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        {"service_tier": "auto"},
        {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
        {"betas": ["x"]},
        {"speed": "fast"},
        {"cache_control": MARK},
        {"mcp_servers": []},
        {"container": None},
        {"anything": 1},
    ],
)
def test_what_only_anthropic_understands_is_left_out(field: JSON) -> None:
    assert asked(**field).body == PLAIN


def test_a_user_id_that_openai_would_find_too_long_is_made_short_and_stays_the_same() -> None:
    users = {asked(metadata={"user_id": LONG_USER}).body["user"] for _ in range(2)}

    assert len(users) == 1
    (user,) = users
    assert user.startswith("user_")
    assert len(user) <= 64


@pytest.mark.parametrize(
    ("choice", "becomes"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "add"},
            {"tool_choice": {"type": "function", "function": {"name": "add"}}},
        ),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
        ({"type": "auto", "disable_parallel_tool_use": False}, {"tool_choice": "auto"}),
    ],
)
def test_a_choice_of_tools_goes_on(choice: JSON, becomes: JSON) -> None:
    assert asked(tools=[TOOL], tool_choice=choice).body == PLAIN | {"tools": [ADD]} | becomes


@pytest.mark.parametrize("kind", ["auto", "none"])
def test_a_choice_without_tools_is_left_out(kind: str) -> None:
    choice = {"type": kind, "disable_parallel_tool_use": True}

    assert asked(tool_choice=choice).body == PLAIN


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"model": 7}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "Hi."}, "messages"),
        ({"mcp_servers": [{"type": "url", "url": "https://x"}]}, "mcp_servers"),
        ({"container": "c-1"}, "container"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"name": "add"}]}, "tools.0"),
        ({"tools": [TOOL, 7]}, "tools.1"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "sub"}}, "tool_choice"),
        ({"tools": [SEARCH], "tool_choice": {"type": "tool", "name": "web_search"}}, "tool_choice"),
        ({"tools": [SEARCH], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "some"}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice"),
    ],
)
def test_what_no_chat_completion_could_answer_is_refused(given: JSON, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        asked(**given)

    assert (refused.value.status, refused.value.param) == (400, param)
    assert refused.value.message.startswith(param)


def test_marks_of_a_cache_are_kept_on_demand() -> None:
    marked = {"type": "text", "text": "Hi.", "cache_control": MARK}
    fields: dict[str, Any] = {
        "system": [marked],
        "tools": [TOOL | {"cache_control": MARK}],
        "messages": [
            {"role": "user", "content": [marked]},
            {"role": "assistant", "content": [marked, {"type": "text", "text": "Ho."}]},
        ],
        "cache_control": MARK,
    }

    body = MessagesApi(keeps_cache_control=True).parse(request(**fields)).body

    assert [message["content"][0] for message in body["messages"]] == 3 * [marked]
    assert body["messages"][2]["content"][1:] == [{"type": "text", "text": "Ho."}]
    assert body["tools"] == [ADD | {"cache_control": MARK}]
    assert body["cache_control"] == MARK


# Histories of the Messages API: legal for a chat endpoint, and every text as it was


MESSAGES_HISTORY_MARK = {"type": "ephemeral"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "https://x/a.png"}}
HI = {"role": "user", "content": "Hi."}
NOTE = {"role": "system", "content": "Be brief."}


def tool(call_id: str, content: Any) -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def calling(*calls: JSON, content: Any = None, **extra: Any) -> JSON:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)} | extra


def seals(**state: Any) -> JSON:
    return {"type": "redacted_thinking", "data": encode_state(state)}


ASKS = said(use("c1", a=1))
CALLS = calling(call("c1"))


@pytest.mark.parametrize(
    ("messages", "becomes"),
    [
        ([HI], [HI]),
        ([{"role": "user", "content": ""}], [{"role": "user", "content": ""}]),
        ([heard(text("a"))], [{"role": "user", "content": "a"}]),
        ([heard(text("a"), text("b"))], [heard(text("a"), text("b"))]),
        ([heard(text("a"), IMAGE)], [heard(text("a"), IMAGE_PART)]),
        ([HI, heard()], [HI]),
        (
            [HI, {"role": "assistant", "content": "Ho."}],
            [HI, {"role": "assistant", "content": "Ho."}],
        ),
        ([HI, said(text("a"), text("b"))], [HI, {"role": "assistant", "content": "ab"}]),
        ([HI, said(), HI], [HI, HI]),
        ([HI, said({"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}), HI], [HI, HI]),
        ([HI, said({"type": "thinking", "thinking": "Hm."}), HI], [HI, HI]),
        (
            [HI, said({"type": "server_tool_use", "id": "s"}, text("a"))],
            [HI, {"role": "assistant", "content": "a"}],
        ),
        ([HI, NOTE], [HI, NOTE]),
        ([HI, {"role": "system", "content": []}], [HI]),
        ([HI, ASKS, heard(result("c1"))], [HI, CALLS, tool("c1", "3")]),
        (
            [HI, said(text("a"), use("c1", a=1)), heard(result("c1"))],
            [HI, calling(call("c1"), content="a"), tool("c1", "3")],
        ),
        (
            [HI, ASKS, heard(text("b"), result("c1"), text("c"))],
            [HI, CALLS, tool("c1", "3"), heard(text("b"), text("c"))],
        ),
        (
            [HI, ASKS, NOTE, HI, heard(result("c1"))],
            [HI, CALLS, tool("c1", "3"), NOTE, HI],
        ),
        (
            [HI, ASKS, said(text("b"), use("c2", a=1)), heard(result("c2"), result("c1"))],
            [HI, calling(call("c1"), call("c2"), content="b"), tool("c2", "3"), tool("c1", "3")],
        ),
        (
            [HI, said(text("a"), use("c1", a=1)), said(text("b")), heard(result("c1"))],
            [HI, calling(call("c1"), content=[text("a"), text("b")]), tool("c1", "3")],
        ),
        ([HI, ASKS, said(text("b"))], [HI, calling(call("c1"), content="b")]),
        ([HI, ASKS, said()], [HI, CALLS]),
        ([said(), HI], [HI]),
    ],
)
def test_a_history_becomes_chat_messages(messages: list[JSON], becomes: list[JSON]) -> None:
    assert chat(*messages) == becomes


@pytest.mark.parametrize(
    ("system", "becomes"),
    [
        ("Be kind.", "Be kind."),
        ([text("Be kind.", cache_control=MESSAGES_HISTORY_MARK)], "Be kind."),
        ([text("a"), text("b")], [text("a"), text("b")]),
    ],
)
def test_the_system_prompt_comes_first(system: Any, becomes: Any) -> None:
    assert chat(HI, system=system) == [{"role": "system", "content": becomes}, HI]


@pytest.mark.parametrize("system", [None, "", []])
def test_a_system_prompt_that_says_nothing_is_left_out(system: Any) -> None:
    assert chat(HI, system=system) == [HI]


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (result("c1", "3\n"), "3\n"),
        (result("c1", None), ""),
        ({"type": "tool_result", "tool_use_id": "c1"}, ""),
        (result("c1", []), ""),
        (result("c1", [text("a"), text("b", cache_control=MESSAGES_HISTORY_MARK)]), "a\nb"),
        (result("c1", "no file", is_error=True), "The tool call failed:\nno file"),
        (result("c1", None, is_error=True), "The tool call failed:"),
        (result("c1", "3", is_error=False), "3"),
        (result("c1", "3", cache_control=MESSAGES_HISTORY_MARK), "3"),
    ],
)
def test_a_result_becomes_the_text_of_a_tool_message(block: JSON, content: str) -> None:
    assert chat(HI, ASKS, heard(block))[2:] == [tool("c1", content)]


def test_images_of_results_are_shown_after_all_results_and_say_whose_they_are() -> None:
    asks = said(use("c1", a=1), use("c2", a=1))
    results = heard(result("c1", [IMAGE]), text("So?"), result("c2", [text("b"), IMAGE]))

    *_, first, second, shown = chat(HI, asks, results)

    assert first == tool("c1", "The result is in the next message.")
    assert second == tool("c2", "b")
    assert shown == heard(
        text("From the result of the call c1:"),
        IMAGE_PART,
        text("From the result of the call c2:"),
        IMAGE_PART,
        text("So?"),
    )


def test_an_image_of_a_result_that_comes_twice_is_shown_once() -> None:
    once = heard(result("c1", [IMAGE]))
    shown = heard(text("From the result of the call c1:"), IMAGE_PART)

    assert chat(HI, ASKS, once, HI, once).count(shown) == 1
    assert chat(once, ASKS, once).count(shown) == 1
    assert chat(HI, ASKS, once, ASKS, once).count(shown) == 2


@pytest.mark.parametrize(("given", "sent"), [(None, ""), (7, "7"), ([], "")])
def test_ids_that_are_no_texts_are_left_to_the_history(given: Any, sent: str) -> None:
    asks, shows = said(use(given, a=1)), heard(result(given, [IMAGE]))

    _, calls, answer, shown = chat(HI, asks, shows)

    assert calls == calling(call(sent))
    assert answer["tool_call_id"] == sent
    assert shown["content"][0]["text"] == f"From the result of the call {sent}".rstrip() + ":"


def test_a_result_without_an_id_is_read() -> None:
    bare = {"type": "tool_result", "content": "3"}

    assert chat(HI, ASKS, heard(bare)) == [HI, CALLS, tool("", "3")]


def test_results_and_unknown_blocks_in_an_assistant_message_follow_it() -> None:
    found = {"type": "web_search_tool_result", "content": []}
    odd = said(use("c1", a=1), result("c1", [text("3"), IMAGE]), found, IMAGE)

    *_, calls, answer, shown = chat(HI, odd)

    assert (calls, answer) == (CALLS, tool("c1", "3"))
    assert shown == heard(
        text("From the result of the call c1:"),
        IMAGE_PART,
        text('Block of type "web_search_tool_result" in the assistant\'s message:'),
        text('{"type":"web_search_tool_result","content":[]}'),
        text('Block of type "image" in the assistant\'s message:'),
        IMAGE_PART,
    )


def test_messages_that_say_nothing_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="no message has content"):
        chat(heard())


def test_marks_of_results_are_kept_on_demand() -> None:
    face = MessagesApi(keeps_cache_control=True)
    inner = result("c1", [text("a", cache_control=MESSAGES_HISTORY_MARK), text("b")])
    outer = result("c2", "c", cache_control=MESSAGES_HISTORY_MARK)
    messages = [HI, said(use("c1", a=1), use("c2", a=1)), heard(inner, outer)]

    *_, first, second = face.parse(request(messages=messages)).body["messages"]

    assert first["content"] == [text("a", cache_control=MESSAGES_HISTORY_MARK), text("b")]
    assert second["content"] == [text("c", cache_control=MESSAGES_HISTORY_MARK)]


def test_state_comes_back_into_its_message_and_the_last_seal_counts() -> None:
    early = {
        "type": "thinking",
        "thinking": "So.",
        "signature": encode_state({"message": {"old": 1}}),
    }
    late = seals(message={"reasoning": "So."}, calls={"c1": {"signature": "s"}})
    foreign = {"type": "redacted_thinking", "data": "EqQB"}

    assert chat(HI, said(early, text("a"), late, foreign, use("c1", a=1)))[1] == calling(
        call("c1", signature="s"), content="a", reasoning="So."
    )


def test_an_answer_that_only_brings_state_back_is_kept() -> None:
    assert chat(HI, said(seals(message={"x": 1})))[1:] == [
        {"role": "assistant", "content": "", "x": 1}
    ]


@pytest.mark.parametrize(
    "messages",
    [
        [7],
        [{"role": "tool", "content": "a"}],
        [{"role": "user"}],
        [heard(7)],
        [heard({"type": "video"})],
        [heard(result("c1", 7))],
        [HI, said({"type": "tool_use", "id": "c1", "name": "add"})],
        [HI, said({"type": "tool_use", "id": "1", "name": "add", "input": "{}"})],
    ],
)
def test_a_message_that_cannot_be_read_is_refused_by_its_place(messages: list[Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"^messages\.[01]"):
        chat(*messages)


# Properties

WORDS = st.text(max_size=6)
TEXTS = WORDS.map(text)
IDS = st.sampled_from(["c1", "c2", "c3"])
JUNK = st.fixed_dictionaries(
    {"type": st.sampled_from(["thinking", "redacted_thinking", "text", "tool_use", "x"])},
    optional={"signature": FINITE_VALUES, "data": FINITE_VALUES, "text": FINITE_VALUES},
)
BLOCKS = (
    TEXTS
    | JUNK
    | st.just(IMAGE)
    | st.builds(lambda call_id, given: use(call_id, **given), IDS, st.dictionaries(WORDS, WORDS))
    | st.builds(result, IDS, WORDS | st.lists(TEXTS | st.just(IMAGE), max_size=2))
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": WORDS | st.lists(BLOCKS, max_size=4) | FINITE_VALUES,
    }
)


@given(st.lists(MESSAGES, max_size=5), st.booleans())
def test_no_history_raises_anything_but_a_refusal(messages: list[JSON], keeps: bool) -> None:  # noqa: FBT001
    with contextlib.suppress(InvalidRequest):
        body = MessagesApi(keeps_cache_control=keeps).parse(request(messages=messages)).body
        assert msgspec.json.decode(msgspec.json.encode(body)) == body


@st.composite
def rounds(draw: st.DrawFn) -> list[JSON]:
    """Draw a turn of an assistant and what follows, legal for Anthropic: results may be split."""
    calls = draw(st.lists(IDS, unique=True, max_size=3))
    spoken = draw(st.lists(TEXTS, max_size=2))
    results = [result(call_id, draw(WORDS)) for call_id in draw(st.permutations(calls))]
    cut = draw(st.integers(0, len(results)))
    asks = said(*spoken, *(use(call_id, a=1) for call_id in calls))
    note = draw(st.sampled_from([[], [NOTE]]))
    first = heard(*results[:cut], *draw(st.lists(TEXTS, max_size=2)))
    second = heard(*results[cut:], *draw(st.lists(TEXTS, max_size=2)))
    return [asks, first, second, *note]


def texts_of(messages: list[JSON]) -> list[str]:
    found = []
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else []:
            found += [block[key] for key in ("text", "content") if key in block]
    return found


@given(st.lists(rounds(), max_size=4))
def test_every_call_of_a_legal_history_is_answered_once_and_every_text_is_kept(
    turns: list[list[JSON]],
) -> None:
    messages = [HI, *(message for turn in turns for message in turn)]

    written = FACE.parse(request(messages=messages)).body["messages"]

    unanswered: list[str] = []
    for message in written:
        if message["role"] == "tool":
            unanswered.remove(message["tool_call_id"])
        else:
            assert unanswered == []
        unanswered += [each["id"] for each in message.get("tool_calls", ())]
    assert unanswered == []
    contents = [text_of(message["content"]) for message in written]
    assert all(any(each in content for content in [*contents, ""]) for each in texts_of(messages))
