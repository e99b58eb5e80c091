"""The shapes seen in the wild come out as expected, and the scorer is honest."""

import re
from typing import Any

import pytest

from surecall import ToolRegistry
from surecall.testing import calls, says
from surecall.values.types import JSON
from tests.support.corpus import KINDS, WILD_NEEDED, judged, load_wild, refuses, score

CASES = load_wild()
DONE = {"body": says("Done.")}
READ = {
    "name": "read_file",
    "description": "Read a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
WANTED: list[Any] = ["read_file", {"path": "a.txt"}]


def case(*replies: JSON, requests: int = 2, **more: Any) -> JSON:
    expected = {"calls": [WANTED], "end": "answer", "answer": "Done.", "requests": requests}
    return {"id": "x", "tools": [READ], "replies": list(replies), "expected": expected, **more}


CALL = {"body": calls("read_file", path="a.txt")}


@pytest.mark.parametrize("name", CASES)
def test_a_case_says_what_it_is_and_what_should_come_of_it(name: str) -> None:
    given = CASES[name]
    expected = given["expected"]
    assert given["id"] == name
    assert WILD_NEEDED <= given.keys() <= WILD_NEEDED | {"refuses"}
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", given["source"])
    assert ToolRegistry(given["tools"]).names
    assert expected["end"] in {"answer", "typed error"}
    assert ("answer" in expected) == (expected["end"] == "answer")
    for rule in given.get("refuses", []):
        assert len(KINDS & rule.keys()) == 1


# What is read otherwise than its case expects, and why.
OTHERWISE = {
    "aisuite-339-python-call-in-a-tool-code-fence": "the fence `tool_code` is how Gemma calls",
    "cline-3992-tool-name-as-tag": "a tag called like a tool is asked about",
    "openclaw-141323-escape-that-json-has-not": "an escape that JSON has not is told",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_shape_from_the_wild_comes_to_what_its_case_expects(name: str) -> None:
    result = score(CASES[name])

    assert result.right == (name not in OTHERWISE), result
    assert not result.silent
    assert not result.illegal


def test_a_clean_exchange_is_right_at_first_try() -> None:
    result = score(case(CALL, DONE))

    assert (result.right, result.first_try, result.wrong, result.silent) == (
        True,
        True,
        False,
        False,
    )
    assert (result.illegal, result.requests) == ((), 2)


def test_a_refused_request_uses_up_no_reply() -> None:
    body = {"error": {"message": "no", "type": "server_error"}}
    refused = {"path": ["model"], "present": True, "status": 500, "body": body}
    result = score(case(CALL, DONE, refuses=[refused]))

    assert (result.right, result.ran, result.requests) == (False, [], 3)
    assert result.end.startswith("RequestFailed")


def test_what_is_needed_is_what_came() -> None:
    signed = calls("read_file", path="a.txt")
    signed["choices"][0]["message"]["tool_calls"][0]["extra_content"] = {"signature": "s"}
    needs = [["messages", -2, "tool_calls", 0, "extra_content"]]
    lacking = {"status": 400, "body": {"error": {"message": "missing"}}}
    result = score(case({"body": signed}, DONE | {"needs": needs, "else": lacking}))

    assert (result.right, result.requests) == (True, 2)


def test_a_call_that_must_not_run_is_wrong_and_one_that_nobody_misses_is_silent() -> None:
    told: list[JSON] = [{"messages": [{"role": "user", "content": "Do it."}]}]
    twice = [("read_file", {"path": "a.txt"})] * 2

    assert judged(case(), twice, "answer", "Done.", told).wrong
    assert judged(case(), [], "answer", "Done.", told).silent
    assert not judged(case(), [], "RequestFailed", "", told).silent


@pytest.mark.parametrize(
    ("rule", "request_body", "is_refused"),
    [
        ({"path": ["messages", "*", "id"], "longer_than": 2}, {"messages": [{"id": "abc"}]}, True),
        ({"path": ["messages", "*", "id"], "absent": True}, {"messages": [{}]}, True),
        ({"path": ["messages", "*", "id"], "absent": True}, {"messages": [{"id": None}]}, False),
        ({"path": ["messages", "*", "id"], "equals": ""}, {"messages": [{"id": ""}]}, True),
        ({"path": ["messages", "*", "id"], "not_json": True}, {"messages": [{"id": "{"}]}, True),
        ({"path": ["messages", "*", "id"], "not_matching": "^a$"}, {"messages": [{}]}, False),
        (
            {"path": ["messages", "*", "id"], "present": True, "beside": ["content"]},
            {"messages": [{"id": "a", "content": ""}]},
            False,
        ),
        ({"repeated_role": ["user"]}, {"messages": [{"role": "user"}] * 2}, True),
        ({"repeated_role": ["user"]}, {"messages": [{"role": "tool"}] * 2}, False),
    ],
)
def test_a_strict_upstream_refuses_what_it_says(
    rule: JSON, request_body: JSON, *, is_refused: bool
) -> None:
    assert refuses(rule, request_body) is is_refused
