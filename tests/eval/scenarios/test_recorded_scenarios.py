"""Recorded requests as scenarios: sent once, judged by their schemas and by what is expected."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from surecall import ConfigError, RunFailed, ToolLoopRunner
from surecall.eval.running.trial_run import CellSetup, TrialCase, run_trial
from surecall.eval.scenarios.accepted_calls import COUNT_CHECK, MADE_CHECK
from surecall.eval.scenarios.plugins import load_scenarios
from surecall.eval.scenarios.recorded_scenarios import SCHEMA_CHECK
from surecall.eval.scenarios.scenario import Scenario
from surecall.eval.storage.trial import Cell, Key
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, calls, calls_many, says
from surecall.values.types import JSON
from tests.support.scenario_packs import scripted_trial

SCHEMA: JSON = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [{"type": "function", "function": {"name": "count", "parameters": SCHEMA}}]
ASKED: JSON = {"messages": [{"role": "user", "content": "Count to 3."}], "tools": TOOLS}
ONE, TWO = ({"name": "count", "arguments": {"n": [number]}} for number in (1, 2))


def written(path: Path, *lines: Any) -> str:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts))
    return str(path)


def recorded(tmp_path: Path, **more: Any) -> Scenario:
    (one,) = load_scenarios(written(tmp_path / "log.jsonl", "", ASKED | more))
    return one


def test_a_recorded_request_goes_out_as_it_was(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be brief."}
    user = ASKED["messages"][0]
    one = recorded(
        tmp_path,
        messages=[system, user],
        model="theirs",
        temperature=0.5,
        stream=True,
        tool_choice="required",
        id="counts",
        tags=["log"],
    )
    assert (one.id, one.tags, one.system) == ("counts", ("log",), "Be brief.")
    model = ScriptedModel(calls("count", n=3))
    world = one.begin("ws")
    runner = ToolLoopRunner(
        client=model,
        model="ours",
        registry=world.registry,
        executor=world.executor,
        config=one.effective_config(raw()),
        system=one.system,
        llm_options_defaults=one.options,
    )
    asyncio.run(world.converse(runner.run))
    (sent,) = model.requests
    assert sent["messages"] == [system, user]
    assert (sent["model"], sent["temperature"], sent["tool_choice"]) == ("ours", 0.5, "required")
    assert [item["function"]["name"] for item in sent["tools"]] == ["count"]


SEEN = {'"1 2 3"', "count(n=3)", "no call", "1: count(n=3)", "n is 3: count(n=3)"}


@pytest.mark.parametrize(
    ("expected", "reply", "checks"),
    [
        ({}, calls("count", n=3), ()),
        ({}, says("1 2 3"), ()),
        ({"tool_call": True, "tools": ["count"]}, calls("count", n=3), ()),
        ({"tool_call": True}, says("1 2 3"), ("there is a call of a tool",)),
        ({"tool_call": False}, calls("count", n=3), ("there is no call",)),
        ({"tools": ["count"]}, says("1 2 3"), ("there is a call of count",)),
        ({"calls": []}, says("1 2 3"), ()),
        ({"calls": [{"name": "count", "arguments": {"n": [3, 4]}}]}, calls("count", n=3), ()),
        ({"calls": [ONE]}, says("1 2 3"), (COUNT_CHECK,)),
        ({"calls": []}, calls("count", n=3), (COUNT_CHECK,)),
        ({"calls": [ONE]}, calls("count", n=3), (MADE_CHECK,)),
        ({"text": "3"}, says("1 2 3"), ()),
        ({"text": "4"}, says("1 2 3"), ('the answer contains "4"',)),
    ],
)
def test_a_reply_is_judged_by_what_was_expected(
    tmp_path: Path, expected: JSON, reply: JSON, checks: tuple[str, ...]
) -> None:
    done = scripted_trial(recorded(tmp_path, expect=expected), reply)
    misses = done.score.misses
    assert (done.ok, tuple(miss.check for miss in misses)) == (not checks, checks)
    assert all(miss.expected and miss.turn == 0 for miss in misses)
    assert {miss.got for miss in misses} <= SEEN
    assert len(done.requests) == 1


def test_calls_must_fit_their_schemas_but_may_be_several(tmp_path: Path) -> None:
    one = recorded(tmp_path, parallel_tool_calls=False)
    wrong = scripted_trial(one, calls("count", n="three"))
    assert (wrong.status, wrong.score.facts["schema_valid"]) == ("failed", False)
    (miss,) = wrong.score.misses
    assert (miss.check, miss.turn, miss.call_id) == (SCHEMA_CHECK, 0, "call_1")
    assert miss.got.startswith("count: ARGUMENT_ERROR: ")
    assert (
        scripted_trial(one, calls("guess"))
        .score.misses[0]
        .got.startswith("guess: TOOL_NOT_ALLOWED: ")
    )
    two = calls_many(calls("count", n=1), calls("count", n=2))
    assert scripted_trial(one, two).ok


@pytest.mark.parametrize("several", [True, False])
def test_whether_calls_may_come_at_once_is_what_the_request_says(
    tmp_path: Path, *, several: bool
) -> None:
    one = recorded(tmp_path, parallel_tool_calls=several)
    assert one.config["request_overrides"] == {"parallel_tool_calls": several}
    assert "request_overrides" not in recorded(tmp_path).config
    assert "parallel_tool_calls" not in one.options


def test_wanted_calls_may_come_in_any_order_but_not_without_one_of_them(tmp_path: Path) -> None:
    one = recorded(tmp_path, expect={"calls": [ONE, TWO]})
    first, second = calls("count", n=1), calls("count", n=2)
    assert scripted_trial(one, calls_many(second, first)).ok
    for less in (first, second, calls_many(first, first), calls_many(first, second, second)):
        assert scripted_trial(one, less).status == "failed"


def test_whether_calls_fit_their_schemas_can_be_a_fact_and_no_demand(tmp_path: Path) -> None:
    wanted = {"calls": [{"name": "count", "arguments": {"n": ["three"]}}]}
    strict = recorded(tmp_path, expect=wanted)
    loose = recorded(tmp_path, expect=wanted | {"fits_schema": False})
    reply = calls("count", n="three")
    done = scripted_trial(loose, reply)
    assert (done.ok, done.score.misses, done.score.facts["schema_valid"]) == (True, (), False)
    assert [miss.check for miss in scripted_trial(strict, reply).score.misses] == [SCHEMA_CHECK]
    assert scripted_trial(loose, calls("count", n="four")).status == "failed"


def test_arguments_that_cannot_be_read_are_not_taken_for_none(tmp_path: Path) -> None:
    free = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [{"type": "function", "function": {"name": "count", "parameters": free}}]
    wanted = {"calls": [{"name": "count", "arguments": {"n": [1, ""]}}], "fits_schema": False}
    one = recorded(tmp_path, tools=tools, expect=wanted)
    reply = calls("count")
    assert scripted_trial(one, reply).ok
    reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = "{n:: 1"
    assert (
        scripted_trial(one, reply).score.misses[0].got.startswith("its arguments cannot be read: ")
    )


def test_a_recorded_request_without_tools_is_a_chat_and_a_blank_reply_is_one(
    tmp_path: Path,
) -> None:
    one = recorded(tmp_path, tools=[])
    assert not one.uses_tools
    assert scripted_trial(one, says("1 2 3")).ok
    assert scripted_trial(one, says("")).category == "EMPTY_ASSISTANT_TEXT"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "Input data was truncated"),
        ("[]", "Expected `object`"),
        ('{"tools": []}', "missing required field `messages`"),
        ('{"messages": []}', "messages is empty"),
        (json.dumps(ASKED | {"expect": {"tool": True}}), "unknown field `tool`"),
        (json.dumps(ASKED | {"expect": {"calls": [{"name": "cuont"}]}}), 'did you mean "count"'),
        (json.dumps(ASKED | {"expect": {"calls": [{"tool": "count"}]}}), "unknown field `tool`"),
        (
            json.dumps(
                {"messages": [{}], "expect": {"calls": [{"name": "n"}]}}
                | {"tools": [{"function": {"name": "n", "parameters": {"required": 5}}}]}
            ),
            "tool 'n': invalid schema",
        ),
        (json.dumps(ASKED | {"id": "log_001"}), "two scenarios have the id 'log_001'"),
        (json.dumps(ASKED | {"id": "a/b"}), "invalid scenario id"),
        (json.dumps(ASKED | {"tools": [{"type": "function"}]}), "tool definition"),
        (json.dumps(ASKED | {"response_format": {}}), "response_format"),
    ],
)
def test_a_broken_line_is_told_with_its_number(tmp_path: Path, line: str, told: str) -> None:
    path = written(tmp_path / "log.jsonl", ASKED, line)
    with pytest.raises(ConfigError) as error:
        load_scenarios(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert told in str(error.value)


def test_other_failures_of_a_recorded_request_stay_failures(tmp_path: Path) -> None:
    world = recorded(tmp_path).begin("ws")
    runner = ToolLoopRunner(
        client=ScriptedModel(says(""), says("")),
        model="m",
        registry=world.registry,
        executor=world.executor,
    )
    with pytest.raises(RunFailed, match="EMPTY_FINAL"):
        asyncio.run(world.converse(runner.run))


def test_the_calls_are_kept_with_whether_they_fit(tmp_path: Path) -> None:
    one = recorded(tmp_path)
    two = scripted_trial(one, calls_many(calls("count", n=1), calls("count", n="x")))
    cut = calls("count", n=1)
    cut["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"n": '
    unread = scripted_trial(one, cut)

    assert two.draft["calls"] == [
        {"name": "count", "arguments": {"n": 1}, "fits": True},
        {"name": "count", "arguments": {"n": "x"}, "fits": False},
    ]
    assert unread.draft["calls"] == [
        {"name": "count", "arguments": {}, "unread": True, "fits": False}
    ]
    assert scripted_trial(one, says("1")).draft == {"calls": []}


def test_the_files_of_verifiers_are_read_as_they_are(tmp_path: Path) -> None:
    told = {"role": "_input", "content": "Cite.", "name": "resource"}
    body = ASKED | {"messages": [*ASKED["messages"], told], "model": "theirs", "stream": True}
    result = {"finish_reason": "stop", "tool_calls_valid": None, "status": "success", "hash": "f"}
    lines = [
        body | {"check_type": ["a"], "expected_tool_call": True, "user": "u"},
        {"data_index": 2, "request": body, "response": {"choices": []}, **result},
        {"request": body, "id": "known", "tags": ["log"], "expect": {"calls": [ONE]}},
        {"request": body, "expected_tool_call": False, "expect": {"text": "3"}},
    ]
    plain, answered, known, silent = load_scenarios(written(tmp_path / "log.jsonl", *lines))

    assert plain.options == {"user": "u"}
    assert answered.options == {}
    assert (known.id, known.tags) == ("known", ("log",))
    for one, reply, ok in (
        (plain, says("3"), False),
        (plain, calls("count", n=3), True),
        (answered, says("3"), True),
        (known, calls("count", n=1), True),
        (known, calls("count", n=2), False),
        (silent, says("3"), True),
        (silent, says("4"), False),
        (silent, calls("count", n=1), False),
    ):
        assert scripted_trial(one, reply).ok is ok
    model = ScriptedModel(says("3"))
    setup = CellSetup(model="m", config=raw(), extra_attempts=0)
    asyncio.run(run_trial(Key(Cell("m"), answered.id, 1), TrialCase(answered, setup), model))
    assert [each["role"] for each in model.requests[0]["messages"]] == ["user", "system"]


def test_what_was_answered_then_does_not_make_it_another_request(tmp_path: Path) -> None:
    first, second = (
        load_scenarios(written(tmp_path / "log.jsonl", {"request": ASKED, "response": text}))[0]
        for text in ("a", "b")
    )

    assert first.prompt_hash == second.prompt_hash


@pytest.mark.parametrize(
    "line",
    [
        {"request": "x"},
        {"request": {}},
        {"messages": "x"},
        ASKED | {"expected_tool_call": True, "expect": "x"},
    ],
)
def test_a_line_without_a_request_is_refused_with_its_number(tmp_path: Path, line: JSON) -> None:
    with pytest.raises(ConfigError, match=r"log\.jsonl:1: "):
        load_scenarios(written(tmp_path / "log.jsonl", line))
