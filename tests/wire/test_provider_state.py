"""Opaque state is kept as it came, wherever a provider put it."""

from surecall.values.types import Assistant, ToolCall
from surecall.wire.chat_format import WireStyle, render_message
from surecall.wire.provider_state import call_extra, fields_to_echo, message_extra

SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
HERE = WireStyle(echo_fields=None, origin="m@here")


def test_everything_beside_the_documented_keys_of_a_message_is_kept() -> None:
    said = {"role": "assistant", "content": "a", "refusal": None, "thinking_blocks": [SIGNED]}

    assert message_extra(said, said) == {"thinking_blocks": [SIGNED]}


def test_signed_parts_of_the_content_are_kept_as_they_came() -> None:
    said = {"content": [SIGNED, {"type": "text", "text": "a"}]}
    healed = {"content": "a", "reasoning_content": "Hm."}

    assert message_extra(healed, said) == {
        "reasoning_content": "Hm.",
        "content": [SIGNED, {"type": "text", "text": "a"}],
    }


def test_everything_beside_the_documented_keys_of_a_call_and_its_function_is_kept() -> None:
    function = {"name": "f", "arguments": "{}", "signature": "t", "strict": None}
    call = {"id": "1", "type": "function", "function": function, "extra_content": {"a": 1}}

    assert call_extra(call) == {"extra_content": {"a": 1}, "function": {"signature": "t"}}
    assert call_extra({"function": "f"}) == {}


def test_all_fields_go_back_or_only_some_and_never_those_withheld() -> None:
    extra = {"reasoning": "r", "annotations": [], "x": 1}

    assert fields_to_echo(extra, None, ("annotations",)) == {"reasoning": "r", "x": 1}
    assert fields_to_echo(extra, ("x", "annotations"), ("annotations",)) == {"x": 1}
    assert fields_to_echo(extra, (), ()) == {}


def test_a_thought_goes_back_once_as_it_came() -> None:
    extra = {"content": [SIGNED], "reasoning_content": "Hm."}

    assert fields_to_echo(extra, None, ()) == {}
    assert fields_to_echo(extra | {"reasoning_content": "Other."}, None, ()) == {
        "reasoning_content": "Other."
    }


def turn(origin: str = "m@here") -> Assistant:
    call = ToolCall("c1", "f", extra={"signature": "s", "function": {"mark": 1}})
    return Assistant("", (call,), extra={"content": [SIGNED], "opaque": "o"}, origin=origin)


def test_state_goes_back_to_where_it_came_from() -> None:
    function = {"name": "f", "arguments": "{}"}

    assert render_message(turn(), HERE) == {
        "role": "assistant",
        "content": [SIGNED],
        "tool_calls": [
            {"signature": "s", "function": {"mark": 1} | function, "id": "c1", "type": "function"}
        ],
        "opaque": "o",
    }


def test_no_other_model_or_endpoint_sees_it() -> None:
    function = {"name": "f", "arguments": "{}"}
    bare = {"id": "c1", "type": "function", "function": function}
    for origin in ("other@here", "m@there"):
        rendered = render_message(turn(origin), HERE)
        assert rendered == {"role": "assistant", "content": "", "tool_calls": [bare]}


def test_of_a_callers_history_nobody_knows_where_it_came_from_so_it_goes_as_it_is() -> None:
    assert render_message(turn(""), HERE) == render_message(turn(), HERE)


def test_what_is_withheld_is_withheld_everywhere() -> None:
    names = ("opaque", "signature", "mark", "thinking")
    style = WireStyle(echo_fields=None, withheld_fields=names, origin="m@here")
    rendered = render_message(turn(), style)
    bare = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}

    assert rendered == {"role": "assistant", "content": "", "tool_calls": [bare]}
