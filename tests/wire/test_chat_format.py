"""Tests of `surecall.wire.chat_format`."""

import asyncio
import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import Run, ToolLoopRunner
from surecall.testing import ScriptedModel, says
from surecall.values.errors import ConfigError, ErrorCode, Fault
from surecall.values.nesting import MAX_DEPTH
from surecall.values.types import (
    JSON,
    Assistant,
    Message,
    Problem,
    Refusal,
    System,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    User,
)
from surecall.wire.chat_format import (
    WireStyle,
    decode,
    encode,
    is_finite,
    name_and_arguments,
    parse_message,
    parse_usage,
    raw_call_id,
    raw_calls,
    render_message,
    render_tool,
    replace_non_finite,
    replace_surrogates,
)
from surecall.wire.content_parts import text_of
from surecall.wire.provider_state import call_extra, message_extra
from tests.support.generated import FINITE_VALUES, JSON_VALUES
from tests.support.spec import proves

# The wire: what is written is the documented form, what is read may be anything at all


PLAIN = WireStyle()
FULL = WireStyle(keep_text_beside_calls=True, echo_fields=("reasoning", "reasoning_content"))

WORDS = st.text(max_size=8)
BROKEN_WORDS = st.text(st.characters(exclude_categories=()), max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def json_values(words: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | NUMBERS | words,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
        max_leaves=12,
    )


ARGUMENTS = st.dictionaries(WORDS, json_values(WORDS), max_size=4)
IDS = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=8)
CALLS = st.builds(
    ToolCall,
    id=IDS,
    name=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True),
    arguments=ARGUMENTS,
    problem=st.none() | st.just(Problem(ErrorCode.ARGUMENT_ERROR, "no")),
    warnings=st.sampled_from([(), ("again",)]),
    repairs=st.sampled_from([(), ("code_fence",)]),
    asked=st.none() | WORDS,
    arguments_bytes=st.integers(0, 9),
    extra=st.dictionaries(st.just("signature") | st.just("extra_content"), WORDS),
)
ASSISTANTS = st.builds(
    Assistant,
    text=WORDS,
    calls=st.lists(CALLS, max_size=3).map(tuple),
    finish_reason=st.none() | st.just("stop"),
    extra=st.dictionaries(st.just("reasoning") | st.just("refusal"), WORDS),
)


@given(
    st.binary() | st.text().map(str.encode) | json_values(WORDS).map(encode).map(lambda x: x[1:])
)
@proves("G8")
def test_decode_raises_nothing_but_a_value_error(data: bytes) -> None:
    try:
        decode(data)
    except Exception as error:  # noqa: BLE001  # that is the question
        assert isinstance(error, ValueError)  # noqa: PT017


@given(json_values(WORDS))
def test_what_is_encoded_is_decoded_to_the_same(value: Any) -> None:
    assert repr(decode(encode(value))) == repr(value)


@given(json_values(BROKEN_WORDS))
def test_lone_surrogates_are_never_sent(value: Any) -> None:
    sent = encode(value)
    assert msgspec.json.encode(decode(sent)) == sent


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'["na\xefve"]', ["na\ufffdve"]),
        (b'["\\ud83d"]', ["\ufffd"]),
        (b'{"\\ud83d":"\\ude00"}', {"\ufffd": "\ufffd"}),
        (b'[NaN,"\\ud83d\\ude00"]', ["NaN", "😀"]),
        (b'{"a":[Infinity,-1e999]}', {"a": ["Infinity", "-Infinity"]}),
        (b'{"arguments":{"a":NaN},"input":[1]}', {"arguments": '{"a": NaN}', "input": [1]}),
        (b'{"args":NaN,"parameters":{"a":NaN}}', {"args": "NaN", "parameters": '{"a": NaN}'}),
        (b'["a\nb"]', ["a\nb"]),
        (b"[1e400]", ["Infinity"]),
        (b"12345678901234567890123", 12345678901234567890123),
    ],
)
def test_decode_forgives_what_servers_get_wrong(data: bytes, value: Any) -> None:
    assert repr(decode(data)) == repr(value)


@pytest.mark.parametrize("data", [b"", b"{", b"<html>", b"data: {}", b"1" * 5000, b"{} {}"])
def test_what_is_not_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 100_000])
@pytest.mark.parametrize("core", [b"1", b'"\xff"'])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_json_that_nests_too_deeply_is_a_value_error(
    opening: bytes, core: bytes, depth: int
) -> None:
    closing = b"]" if opening == b"[" else b"}"
    with pytest.raises(ValueError, match="too deeply"):
        decode(opening * depth + core + closing * depth)


def test_what_can_be_decoded_can_be_encoded_again() -> None:
    deepest = b"[" * MAX_DEPTH + b'"\\ud800"' + b"]" * MAX_DEPTH
    assert encode(decode(deepest)) == deepest.replace(b"\\ud800", "\ufffd".encode())
    wide = b"[" + b"[],{}," * MAX_DEPTH + deepest[1:].replace(b"\\ud800", b"x")
    assert encode(decode(wide)) == wide


@pytest.mark.parametrize(
    ("message", "rendered"),
    [
        (System("be kind"), {"role": "system", "content": "be kind"}),
        (User("hi", nudge=True), {"role": "user", "content": "hi"}),
        (User([{"type": "text"}]), {"role": "user", "content": [{"type": "text"}]}),
        (Assistant("hi", extra={"x": 1}), {"role": "assistant", "content": "hi"}),
        (Assistant(" \n", dropped=(ToolCall("a", "b"),)), None),
        (
            ToolResult("c1", "add", ok=True, content="{}", elapsed_ms=5),
            {"role": "tool", "tool_call_id": "c1", "content": "{}"},
        ),
        (Refusal(Fault(ErrorCode.AUTH, "no")), None),
    ],
)
def test_a_message_is_written_in_the_documented_form(message: Message, rendered: Any) -> None:
    assert render_message(message, PLAIN) == rendered


def test_text_beside_calls_and_foreign_fields_are_sent_only_where_they_are_wanted() -> None:
    call = ToolCall("c1", "bad name!", {"a": 1}, extra={"signature": "s", "id": "other"})
    said = Assistant("let me see", (call,), extra={"reasoning": "hm", "refusal": "x"})
    function = {"name": "bad_name_", "arguments": '{"a":1}'}
    wire = {"id": "c1", "type": "function", "function": function}
    bare = render_message(said, WireStyle(echo_call_fields=False))
    assert bare == {"role": "assistant", "content": "", "tool_calls": [wire]}
    full = render_message(said, FULL)
    assert full == {
        "role": "assistant",
        "content": "let me see",
        "tool_calls": [wire | {"signature": "s"}],
        "reasoning": "hm",
    }


def test_a_tool_is_written_as_a_function() -> None:
    spec = ToolSpec("add", "Adds.", {"type": "object"}, repeatable=True)
    function = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
    assert render_tool(spec) == {"type": "function", "function": function}


def survivor(message: Assistant, style: WireStyle) -> Assistant:
    """Return what comes back of a turn; only what never leaves the machine is lost.

    Lost: how calls were judged and repaired, dropped calls, the finish reason, fields that are
    not echoed, and, unless the style keeps it, the text beside calls.
    """
    calls = tuple(
        ToolCall(call.id, call.name, call.arguments, extra=call.extra) for call in message.calls
    )
    echoed = {key: message.extra[key] for key in style.echo_fields or () if key in message.extra}
    text = message.text if style.keep_text_beside_calls or not calls else ""
    return Assistant(text, calls, extra=echoed)


@given(ASSISTANTS, st.sampled_from([PLAIN, FULL]))
def test_an_assistant_turn_survives_being_written_and_read(
    said: Assistant, style: WireStyle
) -> None:
    rendered = render_message(said, style)
    if rendered is None:
        assert not said.calls
        assert not said.text.strip()
    else:
        assert repr(parse_message(decode(encode(rendered)))) == repr(survivor(said, style))


@given(st.builds(System, WORDS) | st.builds(User, WORDS | st.lists(ARGUMENTS, max_size=2)))
def test_what_was_said_to_a_model_survives_being_written_and_read(message: Message) -> None:
    assert parse_message(render_message(message, PLAIN)) == message


@given(call_id=IDS, data=ARGUMENTS, ok=st.booleans())
def test_a_result_survives_but_for_its_name_and_how_it_came_about(
    call_id: str, data: JSON, *, ok: bool
) -> None:
    content = encode({"ok": ok, "data": data}).decode()
    result = ToolResult(call_id, "add", ok, content, replaced=True, elapsed_ms=3, detail="x")
    read = parse_message(render_message(result, PLAIN))
    assert read == ToolResult(call_id, "", ok, content, executed=True)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (User("hi"), User("hi")),
        ("hi", User("hi")),
        ({"content": "hi"}, User("hi")),
        ({"role": None, "content": None}, User("")),
        ({"role": "developer", "content": [{"type": "text", "text": "a"}, "b"]}, System("ab")),
        (
            {"role": "tool", "tool_call_id": 7, "content": "no"},
            ToolResult("7", "", ok=True, content="no", executed=True),
        ),
        (
            {"role": "tool", "tool_call_id": " x\ud800", "name": "f", "content": '{"ok":false}'},
            ToolResult("x\ufffd", "f", ok=False, content='{"ok":false}', executed=True),
        ),
        (
            {"role": "assistant", "tool_calls": {"id": " c ", "function": {"name": " f "}}},
            Assistant("", (ToolCall("c", "f"),)),
        ),
        (
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": "{oops"}}],
            },
            Assistant("", (ToolCall("", "f"),)),
        ),
    ],
)
def test_a_foreign_history_is_read(item: Any, message: Message) -> None:
    assert parse_message(item) == message


def test_a_result_that_nests_too_deeply_to_be_judged_counts_as_one() -> None:
    item = {"role": "tool", "tool_call_id": "c", "content": "[" * 100_000}
    assert parse_message(item).ok is True  # type: ignore[union-attr]  # a tool message


@pytest.mark.parametrize(
    ("item", "named"), [({"role": "narrator"}, "narrator"), (5, "int"), (None, "NoneType")]
)
@proves("C86")
def test_a_history_item_of_an_unknown_form_is_refused_by_name(item: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parse_message(item)


@pytest.mark.parametrize("value", [object(), 10j])
def test_a_message_with_a_value_that_json_cannot_hold_is_refused(value: Any) -> None:
    message = Assistant("", (ToolCall("c1", "add", {"a": value}),))

    with pytest.raises(ConfigError, match="cannot be encoded as JSON"):
        parse_message(message)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("as is ", "as is "),
        (None, ""),
        (5, ""),
        (["a", {"type": "text", "text": "b"}, {"type": "output_text", "text": "c"}], "abc"),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}, 7, None], "x"),
        ([{"text": "a"}, {"content": "b"}, {"text": 5}], "ab"),
        ({"type": "text", "text": "lone"}, "lone"),
        ({"type": "text", "text": None}, ""),
    ],
)
@proves("C113", "I10")
def test_content_in_parts_is_joined(content: Any, text: str) -> None:
    assert text_of(content) == text


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (None, None),
        ([], None),
        ({}, Usage()),
        ({"prompt_tokens": 2, "completion_tokens": 3}, Usage(2, 3, 5)),
        ({"prompt_tokens": 2, "total_tokens": 9, "cost": 1}, Usage(2, 0, 9, cost=1.0)),
        ({"prompt_tokens": "2", "completion_tokens": True, "cost": "1"}, Usage()),
        ({"cost": 10**400}, Usage()),
        ({"cost": float("nan")}, Usage()),
        ({"cost": True}, Usage()),
        (
            {
                "prompt_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 4},
            },
            Usage(2, 0, 2, 1, 4),
        ),
        ({"prompt_tokens_details": 5}, Usage()),
    ],
)
@proves("C113")
def test_token_counts_and_cost_are_read(usage: Any, read: Usage | None) -> None:
    assert parse_usage(usage) == read


@given(
    json_values(BROKEN_WORDS),
    st.dictionaries(st.sampled_from(["id", "function", "name"]), json_values(BROKEN_WORDS)),
)
@proves("G8")
def test_no_reader_of_a_message_raises(value: Any, call: JSON) -> None:
    text_of(value)
    parse_usage(value)
    raw_call_id(call)
    name_and_arguments(call)
    call_extra(call)
    message = {"role": "assistant", "content": value, "tool_calls": [value, call], "x": value}
    assert all(isinstance(found, dict) for found in raw_calls({"tool_calls": value}))
    assert isinstance(message_extra(message, message), dict)
    assert isinstance(parse_message(message), Assistant)


def test_json_of_too_many_values_is_not_decoded_wherever_it_hides() -> None:
    data = b"[" + b"[]," * 10 + b"0]"

    assert len(decode(data, 22)) == 11
    with pytest.raises(ValueError, match="too many values"):
        decode(data, 21)


@pytest.mark.parametrize(
    ("ours", "kept"),
    [
        (User("cut\ud83d"), User("cut\ufffd")),
        (
            Assistant("", (ToolCall("1", "f", {"a": (1, 2)}),)),
            Assistant("", (ToolCall("1", "f", {"a": [1, 2]}),)),
        ),
    ],
)
def test_a_message_of_ours_is_kept_as_it_is_after_it_was_written(
    ours: Message, kept: Message
) -> None:
    assert parse_message(ours) == kept


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("a", "a"),
        ([], ""),
        (["a", {"type": "text", "text": ""}, {"text": "b"}], "ab"),
        ([{"type": "text", "text": "a"}, {"type": "x", "y": "é"}], 'a{"type":"x","y":"é"}'),
        ({"found": [1]}, '{"found":[1]}'),
        ({"text": "a"}, "a"),
        ({"content": "a"}, "a"),
        ({"text": "a", "more": "b"}, '{"text":"a","more":"b"}'),
        ([[1]], "[1]"),
        (7, "7"),
        (False, "false"),
    ],
)
def test_nothing_in_the_content_of_a_result_is_lost(content: Any, text: str) -> None:
    read = parse_message({"role": "tool", "tool_call_id": "c1", "content": content})

    assert read == ToolResult("c1", "", ok=True, content=text, executed=True)


def test_content_of_other_roles_is_kept_whole_too() -> None:
    assert parse_message({"role": "system", "content": {"a": 1}}) == System('{"a":1}')
    assert parse_message({"role": "user", "content": {"a": 1}}) == User('{"a":1}')


# Numbers that no JSON holds become text, and spoil the arguments that hold them


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "NaN"),
        ([math.inf, (-math.inf,)], ["Infinity", ["-Infinity"]]),
        ({"a": {"b": math.nan}}, {"a": {"b": "NaN"}}),
        ({"arguments": {"b": math.nan}}, {"arguments": '{"b": NaN}'}),
        ({"input": [{"args": {"b": math.nan}}]}, {"input": '[{"args": {"b": NaN}}]'}),
        (
            {"arguments": {"b": 1.5}, "args": math.inf},
            {"arguments": {"b": 1.5}, "args": "Infinity"},
        ),
    ],
)
def test_what_json_cannot_hold_becomes_text(value: Any, text: Any) -> None:
    assert replace_non_finite(value) == text
    assert (is_finite(value), is_finite(text)) == (False, True)


@given(FINITE_VALUES)
def test_json_stays_as_it_is(value: Any) -> None:
    assert is_finite(value)
    assert replace_non_finite(value) == value


@given(JSON_VALUES)
def test_what_comes_out_can_be_written_and_read(value: Any) -> None:
    made = replace_non_finite(value)

    assert json.loads(json.dumps(made, allow_nan=False)) == made


# Lone surrogates, which no strict server accepts, never get past the door


LONE = "a\ud83cb"


def test_text_of_the_caller_with_lone_surrogates_is_sent_and_written_down() -> None:
    model = ScriptedModel(says("ok"))
    runner = ToolLoopRunner(client=model, model="m", system=LONE)
    history = [LONE, {"role": "user", "content": [{"type": "text", "text": LONE}]}]

    result = asyncio.run(runner.run(LONE, history=history))

    texts = [message["content"] for message in model.requests[0]["messages"]]
    assert texts == ["a\ufffdb", "a\ufffdb", [{"type": "text", "text": "a\ufffdb"}], "a\ufffdb"]
    assert Run.from_json(result.run.to_json()) == result.run


def test_a_pair_of_surrogates_is_one_character() -> None:
    model = ScriptedModel(says("ok"))

    asyncio.run(ToolLoopRunner(client=model, model="m").run("\ud83c\udf78"))

    assert model.requests[0]["messages"][0]["content"] == "\U0001f378"


def test_a_member_of_an_enumeration_becomes_a_plain_text() -> None:
    assert [type(each) for each in replace_surrogates((ErrorCode.AUTH,))] == [str]
