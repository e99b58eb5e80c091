"""Several calls in one guided reply: all of them are read, or none of them runs."""

import json
from typing import Any

import pytest

from surecall.core.reply_parsing import parse_reply
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, says
from surecall.values.types import JSON, Reply
from tests.support.prompted_runs import REGISTRY, TALK, planned
from tests.support.scripted_runs import runner_of

CONFIG = raw(call_protocol="guided", request_overrides={"parallel_tool_calls": True})
FIRST: JSON = {"tool": "add", "arguments": {"a": 1, "b": 2}}
SECOND: JSON = {"tool": "add", "arguments": {"a": 3, "b": 4}}
BOTH: JSON = {"calls": [FIRST, SECOND]}
COUNTED: JSON = {"for each of": "1 + 2; 3 + 4"} | BOTH


def heard(text: str, **choice: Any) -> Reply:
    reply = parse_reply(says(text, **choice), planned(*TALK), CONFIG, REGISTRY)
    assert isinstance(reply, Reply)
    return reply


@pytest.mark.parametrize("before", [{}, COUNTED, {"thought": "Two sums."}, {"why": "to know"}])
def test_all_calls_of_a_reply_are_read_in_their_order(before: JSON) -> None:
    reply = heard(json.dumps(before | BOTH))

    assert [call.arguments["a"] for call in reply.calls] == [1, 3]
    assert [call.problem for call in reply.calls] == [None, None]
    assert len({call.id for call in reply.calls}) == 2


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"calls": [FIRST, 3]}),
        json.dumps({"calls": [FIRST, {"tool": ""}]}),
        json.dumps({"calls": [FIRST, {"answer": "3"}]}),
        json.dumps({"calls": []}),
        json.dumps({"calls": FIRST}),
        json.dumps({"calls": [FIRST | {"arguments": [1]}]}),
        json.dumps({"calls": [{"tool": "add", "a": 1}]}),
        json.dumps(BOTH) + " and more",
        '{"calls": [{"tool": "add", "arguments": {"a": 1, "a": 2}}]}',
    ],
)
def test_a_list_in_which_something_is_in_doubt_runs_nothing_of_it(text: str) -> None:
    assert all(call.problem is not None for call in heard(text).calls)


@pytest.mark.parametrize("reason", ["stop", "length", None])
@pytest.mark.parametrize("length", range(1, len(json.dumps(BOTH))))
def test_a_list_that_was_cut_off_anywhere_runs_nothing_and_is_no_answer(
    length: int, reason: str | None
) -> None:
    reply = heard(json.dumps(BOTH)[:length], finish_reason=reason)

    assert all(call.problem is not None for call in reply.calls)
    assert reply.text == ""
    assert len(reply.calls) == (length >= len('{"calls": [{"tool": "add"'))


@pytest.mark.parametrize("length", range(1, len(json.dumps(COUNTED))))
def test_what_was_counted_is_no_answer_however_it_is_cut_off(length: int) -> None:
    reply = heard(json.dumps(COUNTED)[:length], finish_reason=None)

    assert all(call.problem is not None for call in reply.calls)
    assert reply.text == ""


def test_what_is_asked_for_at_once_runs_at_once_and_is_told_in_the_same_form() -> None:
    model = ScriptedModel(says(json.dumps(COUNTED)), says('{"answer": "3 and 7"}'))
    result = runner_of(model, config=CONFIG).run_sync("1 + 2 and 3 + 4?")

    assert result.assistant_text == "3 and 7"
    assert len(result.run.results) == 2
    told = model.requests[1]["messages"][2]["content"]
    assert json.loads(told) == BOTH


def test_who_asks_for_one_call_gets_one_however_many_are_written() -> None:
    config = CONFIG.replace(request_overrides={"parallel_tool_calls": False})
    model = ScriptedModel(says(json.dumps(BOTH)), says('{"answer": "3"}'))
    result = runner_of(model, config=config).run_sync("1 + 2?")

    assert [each.executed for each in result.run.results].count(True) == 1
