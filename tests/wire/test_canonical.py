"""Canonical answers: no transform changes one, so none has to look at it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall.simulator.faults import SHAPE_FAULTS
from surecall.values.types import JSON
from surecall.wire.canonical import is_canonical
from surecall.wire.transforms import BODY, RESPONSE
from tests.support import corpus

CALL: JSON = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
}
CASES = corpus.load()
# Of each part some that are as they should be, and all that a transform is there for.
CONTENTS: st.SearchStrategy[Any] = st.sampled_from(
    (None, "", " ", "Clear.", "</s>", "\u200b", 7, [], [{"type": "text", "text": "Clear."}], {})
)
NAMES = st.sampled_from(
    ("get_weather", "", " ", None, "multi_tool_use.parallel", "read<arg_key>path</arg_key>")
)
ARGUMENTS = st.sampled_from(('{"city": "Rome"}', "", "{}", None, {"city": "Rome"}, [1]))
FUNCTIONS = st.fixed_dictionaries({}, optional={"name": NAMES, "arguments": ARGUMENTS})
CALLS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(("call_1", "", None)),
        "function": FUNCTIONS | st.none(),
        "name": NAMES,
        "arguments": ARGUMENTS,
    },
)
LISTS = st.lists(CALLS | st.none() | st.just("call"), max_size=2)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": CONTENTS,
        "tool_calls": LISTS | CALLS | st.sampled_from((None, "", "[]", '[{"name": "f"}]', "no", 0)),
        "function_call": CALLS | st.none(),
        "reasoning_content": st.sampled_from(("I think.", None)),
    },
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "message": MESSAGES | st.none() | st.just("Clear."),
        "delta": MESSAGES | st.none(),
        "finish_reason": st.sampled_from(("stop", "tool_calls", "length", "error", None)),
    },
)
ERRORS = st.sampled_from((None, "", {}, "no", {"failed_generation": "<function=f>"}))
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(CHOICES | st.none(), max_size=2) | st.none() | CHOICES,
        "error": ERRORS,
        "data": st.fixed_dictionaries({"choices": st.lists(CHOICES, max_size=1)}),
    },
)


def answer(**message: Any) -> JSON:
    return {"choices": [{"message": {"role": "assistant"} | message, "finish_reason": "stop"}]}


def assert_left_alone(body: Any) -> None:
    fired: list[str] = []
    message = body["choices"][0]["message"]
    assert BODY.apply(BODY.names, body, fired) is body
    assert RESPONSE.apply(RESPONSE.names, message, fired) is message
    assert fired == []


@given(BODIES)
def test_what_is_canonical_is_left_alone_by_every_transform(body: JSON) -> None:
    if is_canonical(body):
        assert_left_alone(body)


@pytest.mark.parametrize("name", CASES)
def test_what_is_canonical_in_the_wild_is_left_alone_too(name: str) -> None:
    body = CASES[name]["body"]
    if is_canonical(body):
        assert_left_alone(body)


def test_a_transform_has_something_to_do_for_some_faults_at_least() -> None:
    bent = [case["body"] for case in CASES.values() if not is_canonical(case["body"])]
    assert len(bent) > len(SHAPE_FAULTS) / 10


@pytest.mark.parametrize(
    "body",
    [
        answer(content="Clear."),
        answer(content="Clear.", tool_calls=None, refusal=None),
        answer(content="Clear.", tool_calls=[], annotations=[]),
        answer(content=None, tool_calls=[CALL]),
        answer(content="", tool_calls=[CALL, CALL | {"id": ""}], reasoning="I think."),
        answer(content="I look.", tool_calls=[CALL]) | {"error": None, "usage": {}},
    ],
)
def test_what_good_servers_send_is_canonical(body: JSON) -> None:
    assert is_canonical(body)
    assert_left_alone(body)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        answer(content="Clear.") | {"error": "no"},
        {"choices": None},
        {"choices": ["Clear."]},
        {"choices": [{"message": None}]},
        {"choices": [*answer(content="Clear.")["choices"], {"message": {}}]},
        answer(),
        answer(content=""),
        answer(content="</s>"),
        answer(content=" Clear."),
        answer(content=["Clear."]),
        answer(content="Clear.", function_call=None),
        answer(content="Clear.", tool_calls={}),
        answer(tool_calls=CALL),
        answer(tool_calls=["call"]),
        answer(tool_calls=[{"name": "get_weather", "arguments": "{}"}]),
        answer(tool_calls=[{"function": {"name": "get_weather", "arguments": {}}}]),
        answer(tool_calls=[{"function": {"name": " ", "arguments": "{}"}}]),
        answer(tool_calls=[{"function": {"name": None, "arguments": "{}"}}]),
        answer(tool_calls=[{"function": {"name": "f<arg_key>x", "arguments": ""}}]),
        answer(tool_calls=[{"function": {"name": "multi_tool_use.parallel", "arguments": "{}"}}]),
    ],
)
def test_anything_else_is_looked_at(body: Any) -> None:
    assert not is_canonical(body)
