"""The schema that binds a guided reply: only what is allowed now can be written."""

from typing import Any

import pytest

from surecall.values.types import (
    JSON,
    Assistant,
    System,
    ToolSpec,
    User,
)
from surecall.wire.protocols import speaker
from tests.support.protocols import LONGEST, SPECS, TALK, add, planned, spoken


def form(**changes: Any) -> JSON:
    bound = speaker("guided", LONGEST)(planned(User("hi"), **changes)).response_format
    assert bound is not None
    assert (bound["type"], bound["json_schema"]["name"]) == ("json_schema", "next_step")
    schema: JSON = bound["json_schema"]["schema"]
    return schema


def steps(**changes: Any) -> list[str]:
    """Name what may be written: tools by name, and the answer."""
    schema = form(**changes)
    return [
        step["properties"]["tool"]["const"] if "tool" in step["properties"] else "(answer)"
        for step in schema.get("anyOf", [schema])
    ]


def test_guided_calls_results_and_answers_are_told_in_the_form_that_is_asked_for() -> None:
    _, *rest = spoken("guided", *TALK, Assistant("It is 3."))

    assert rest == [
        User("1 + 2?"),
        Assistant('{"tool":"add","arguments":{"a":1,"b":2}}'),
        User('Result of add: {"ok":true,"data":3}'),
        Assistant('{"answer":"It is 3."}'),
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["add", "wipe", "(answer)"]),
        ({"may_answer": False}, ["add", "wipe"]),
        ({"tool_choice": "required"}, ["add", "wipe"]),
        ({"tool_choice": {"function": {"name": "add"}}, "may_answer": False}, ["add"]),
        ({"tool_choice": {"type": "other"}}, ["add", "wipe", "(answer)"]),
        ({"tool_choice": "none"}, ["(answer)"]),
        ({"tool_choice": "none", "may_answer": False}, ["(answer)"]),
        ({"tools": (), "tool_choice": None}, ["(answer)"]),
        ({"tools": SPECS[1:]}, ["wipe", "(answer)"]),
    ],
)
def test_only_what_is_allowed_now_can_be_written(changes: JSON, expected: list[str]) -> None:
    assert steps(**changes) == expected


def test_a_small_limit_bounds_the_form() -> None:
    plan = speaker("guided", 100)(planned(User("hi"), tools=SPECS[1:], may_answer=False))

    assert plan.response_format is not None
    arguments = plan.response_format["json_schema"]["schema"]["properties"]["arguments"]
    assert arguments["properties"]["path"]["maxLength"] == 100


def test_a_tool_s_parameters_keep_their_own_references() -> None:
    node: JSON = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    tree = ToolSpec("tree", "", node | {"$defs": {"node": node | {"title": "#/$defs/node"}}})
    schema = form(tools=(tree, add.spec))

    assert schema["$defs"]["tree"]["properties"]["next"] == {"$ref": "#/$defs/tree/$defs/node"}
    assert schema["$defs"]["tree"]["$defs"]["node"]["title"] == "#/$defs/node"
    assert schema["anyOf"][0]["properties"]["arguments"] == {"$ref": "#/$defs/tree"}


def test_references_beside_a_reference_move_as_well() -> None:
    inner: JSON = {"$ref": "#/$defs/a", "items": [{"$ref": "#/$defs/b"}]}
    spec = ToolSpec("t", "", {"properties": {"x": inner, "$ref": {"type": "string"}}})
    moved = form(tools=(spec,))["$defs"]["t"]["properties"]

    assert moved["x"] == {"$ref": "#/$defs/t/$defs/a", "items": [{"$ref": "#/$defs/t/$defs/b"}]}
    assert moved["$ref"] == {"type": "string"}


AT_ONCE: JSON = {"parallel_tool_calls": True}


def test_where_several_calls_are_asked_for_a_reply_has_a_list_of_them() -> None:
    listed, answer = form(options=AT_ONCE)["anyOf"]
    calls = listed["properties"]["calls"]

    assert (calls["type"], calls["minItems"]) == ("array", 1)
    names = [each["properties"]["tool"]["const"] for each in calls["items"]["anyOf"]]
    assert names == ["add", "wipe"]
    assert (listed["required"], list(answer["properties"])) == (
        ["for each of", "calls"],
        ["answer"],
    )


@pytest.mark.parametrize("asked", [False, None])
def test_one_call_is_no_list_unless_several_were_asked_for(*, asked: bool | None) -> None:
    assert form(options={"parallel_tool_calls": asked}) == form()


def test_what_may_be_written_in_a_list_is_what_is_allowed_now() -> None:
    only = form(options=AT_ONCE, tools=SPECS[1:], may_answer=False)

    assert only["properties"]["calls"]["items"]["properties"]["tool"] == {"const": "wipe"}
    assert "calls" not in form(options=AT_ONCE, tool_choice="none")["properties"]


def test_several_calls_are_told_in_the_form_that_is_asked_for() -> None:
    plan = planned(*TALK, options=AT_ONCE)
    opening, _, calls, _ = speaker("guided", LONGEST)(plan).messages

    assert isinstance(opening, System)
    assert '"calls": [{"tool": "name", "arguments": {...}}, ...]}' in opening.text
    assert calls == Assistant('{"calls":[{"tool":"add","arguments":{"a":1,"b":2}}]}')
