"""Before its first guided step a small model says whether the closest tool fits."""

import json
from typing import Any

import pytest

from surecall import Contract, replay
from surecall.settings.config import ToolUseMode
from surecall.settings.presets import raw
from surecall.testing import ScriptedModel, says, streams
from surecall.values.types import JSON, Plan, System, ToolResult, ToolSpec, User
from surecall.wire.assembler import TextDelta
from surecall.wire.opaque_state import GUIDED_THOUGHT
from surecall.wire.protocols import hear, speaker
from surecall.wire.protocols.fit_check import CHECKED, how_to_check
from tests.support.protocols import LONGEST, SPECS, add, planned
from tests.support.watching import runner_of, shown, watched

ADDS = "add: Add two numbers."
LIKE: JSON = {"asked for": "a sum", "closest tool": ADDS, "gives exactly that": "yes"}
UNLIKE: JSON = {"asked for": "a joke", "closest tool": ADDS, "gives exactly that": "no"}
CALL: JSON = {"tool": "add", "arguments": {"a": 1, "b": 2}}
CONFIG = raw(call_protocol="guided", guided_fit_check=True)


def steps(*messages: Any, **changes: Any) -> list[JSON]:
    plan = speaker("guided", LONGEST, checks_fit=True)(planned(*messages, **changes))
    assert plan.response_format is not None
    schema = plan.response_format["json_schema"]["schema"]
    return list(schema.get("anyOf", [schema]))


def heard(value: JSON | str) -> JSON:
    text = value if isinstance(value, str) else json.dumps(value)
    return hear("guided", {"role": "assistant", "content": text}, planned(User("hi")))


def named(message: JSON) -> list[Any]:
    calls = message.get("tool_calls", [])
    return [(each["function"]["name"], each["function"]["arguments"]) for each in calls]


def test_a_call_may_only_follow_a_match_and_an_answer_only_the_lack_of_one() -> None:
    *calls, answer = steps(User("hi"))

    assert len(calls) == len(SPECS)
    for step in calls:
        assert list(step["properties"]) == [*CHECKED, "tool", "arguments"]
        assert step["required"] == [*CHECKED, "tool", "arguments"]
        assert step["properties"]["gives exactly that"] == {"const": "yes"}
    assert list(answer["properties"]) == [*CHECKED, "answer"]
    assert answer["properties"]["gives exactly that"] == {"const": "no"}


def test_what_a_tool_gives_is_told_by_its_description_and_not_by_the_model() -> None:
    long = ToolSpec("long", "Say it  all.\nThen say more. " + "x" * 999, {})
    endless = ToolSpec("endless", "x" * 999, {})
    step, *_ = steps(User("hi"), tools=(add.spec, long, endless, add.spec))

    told = step["properties"]["closest tool"]["enum"]
    assert told[:2] == ["add: Add two numbers.", "long: Say it all."]
    assert [len(each) for each in told[2:]] == [120]


def test_where_several_calls_may_be_made_they_follow_one_check() -> None:
    several, answer = steps(User("hi"), options={"parallel_tool_calls": True})

    assert list(several["properties"]) == [*CHECKED, "for each of", "calls"]
    assert several["required"] == [*CHECKED, "for each of", "calls"]
    assert list(answer["properties"]) == [*CHECKED, "answer"]


@pytest.mark.parametrize(
    "changes", [{"may_answer": False}, {"tool_choice": "required"}, {"tool_choice": "none"}]
)
def test_where_there_is_no_choice_nothing_is_checked(changes: JSON) -> None:
    assert all(
        "gives exactly that" not in step["properties"] for step in steps(User("hi"), **changes)
    )


def test_once_there_are_results_nothing_is_checked() -> None:
    done = ToolResult("1", "add", ok=True, content="3")

    assert all("gives exactly that" not in step["properties"] for step in steps(User("hi"), done))
    assert all(
        "gives exactly that" in step["properties"] for step in steps(User("hi"), done, User("and?"))
    )


def test_the_check_is_shown_by_examples_with_both_ends() -> None:
    opening = speaker("guided", LONGEST, checks_fit=True)(planned(User("hi"))).messages[0]
    assert isinstance(opening, System)
    assert how_to_check() in opening.text
    silent = speaker("guided", LONGEST)(planned(User("hi"))).messages[0]
    assert isinstance(silent, System)
    assert "closest tool" not in silent.text


@pytest.mark.parametrize("each", ["", "for each of"])
def test_an_example_goes_on_with_the_step_that_it_is_for(each: str) -> None:
    lines = [line.partition(" -> ")[2] for line in how_to_check(each).splitlines()[1:]]
    examples = [json.loads(line.replace(", ...", "").replace("...", '""')) for line in lines]
    steps = {
        (example["gives exactly that"], tuple(example)[len(CHECKED) :]) for example in examples
    }
    assert steps == {("yes", (each,) if each else ()), ("no", ("answer",))}
    assert all(tuple(example)[: len(CHECKED)] == CHECKED for example in examples)


def test_a_check_is_heard_apart_from_the_call_and_kept() -> None:
    message = heard(LIKE | CALL)

    assert named(message) == [("add", {"a": 1, "b": 2})]
    told = f"asked for: a sum; closest tool: {ADDS}; gives exactly that: yes"
    assert message[GUIDED_THOUGHT] == told


def test_an_answer_after_a_check_is_the_answer() -> None:
    message = heard(UNLIKE | {"answer": "I know none."})

    assert (message["content"], named(message)) == ("I know none.", [])


@pytest.mark.parametrize("call", [CALL, {"calls": [CALL]}])
def test_a_call_that_the_model_itself_says_does_not_fit_is_not_run(call: JSON) -> None:
    ((name, arguments),) = named(heard(UNLIKE | call))

    assert (name, arguments) == ("add", [CALL])


@pytest.mark.parametrize("value", [LIKE, LIKE | {"more": 1}])
def test_a_check_without_a_step_stays_as_it_is(value: JSON) -> None:
    assert heard(value) == {"role": "assistant", "content": json.dumps(value)}


@pytest.mark.parametrize("at", range(1, len(json.dumps(UNLIKE | {"answer": "None."})) - 2))
def test_a_check_that_was_cut_off_is_nothing_but_the_answer_so_far(at: int) -> None:
    text = json.dumps(UNLIKE | {"answer": "None."})
    message = heard(text[:at])

    assert "None.".startswith(message["content"])
    assert not named(message)


def test_of_a_streamed_reply_only_the_answer_is_shown_and_early() -> None:
    text = json.dumps(UNLIKE | {"answer": "I have no tool that knows any jokes."})
    events = watched(ScriptedModel(streams(says(text), 7)), config=CONFIG)

    assert shown(events) == "I have no tool that knows any jokes."
    assert sum(isinstance(event, TextDelta) for event in events) > 1


def test_a_call_after_a_match_runs_and_the_check_is_not_sent_again() -> None:
    model = ScriptedModel(says(json.dumps(LIKE | CALL)), says('{"answer": "3"}'))
    result = runner_of(model, config=CONFIG).run_sync("1 + 2?")

    assert result.assistant_text == "3"
    assert "a sum" not in json.dumps(model.requests[1])
    assert replay(result.trace).run == result.run


@pytest.mark.parametrize(
    "demand", [{"contract": Contract(all_of=["add"])}, {"tool_use_mode": ToolUseMode.ENFORCED}]
)
def test_where_a_call_is_demanded_nothing_is_said_about_a_check(demand: JSON) -> None:
    model = ScriptedModel(says(json.dumps(CALL)), says('{"answer": "3"}'))
    result = runner_of(model, config=CONFIG.replace(**demand)).run_sync("1 + 2?")

    assert result.assistant_text == "3"
    assert not any("closest tool" in json.dumps(request) for request in model.requests)


def test_a_plan_without_tools_has_no_check() -> None:
    plan: Plan = speaker("guided", LONGEST, checks_fit=True)(planned(User("hi"), known_tools=()))
    assert plan.response_format is None
