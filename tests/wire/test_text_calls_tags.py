"""Calls written as text: what is one, what is not, and how long it may take to tell."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import (
    RetryPolicy,
    RunResult,
    ToolLoopRunner,
    ToolRegistry,
    presets,
    tool,
)
from surecall.testing import ScriptedModel, says
from surecall.values.types import JSON
from surecall.wire.dialects import Recovered, recover
from surecall.wire.text_calls import with_text_calls
from tests.support.spec import proves
from tests.support.steps import LINEAR, growth
from tests.support.tools import add_or_zero as add

OPEN, CLOSE = "<tool_call>", "</tool_call>"
CALL = f'{OPEN}{{"name": "add", "arguments": {{"a": 1, "b": 2}}}}{CLOSE}'
SECOND = f'{OPEN}{{"name": "add", "arguments": {{"a": 3, "b": 4}}}}{CLOSE}'
CONFIG = presets.content_tag_tool_call_fallback(presets.default_tool_calling())
PIECES = (
    OPEN,
    CLOSE,
    "`",
    "``",
    "```",
    "\\",
    " ",
    "\n",
    "{",
    "}",
    '"',
    '{"name":"add"}',
    "add",
    CALL,
)


@tool
def note(text: str) -> str:
    """Write a text down."""
    return text


def ask(model: ScriptedModel) -> RunResult:
    runner = ToolLoopRunner(
        client=model,
        model="m",
        registry=ToolRegistry([add, note]),
        config=CONFIG.replace(request_overrides={}),
        retry=RetryPolicy(attempts=1),
    )
    return asyncio.run(runner.run("1 + 2?"))


def reading(text: str) -> Recovered:
    return recover(text, [add.spec, note.spec], weak=True)


def read(text: str) -> list[tuple[str, object]]:
    """Return the names and arguments of the calls in a text."""
    return [(call.name, call.arguments) for call in reading(text).calls]


@proves("C92")
def test_a_tag_in_text_runs_the_tool_and_the_text_goes_back_empty() -> None:
    model = ScriptedModel(says(f"Let me see. {CALL}"), says("3"))

    result = ask(model)

    turn = model.requests[1]["messages"][1]
    assert (result.run.results[0].envelope["data"], turn["content"]) == ({"value": 3}, "")
    assert turn["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1,"b":2}'}
    assert result.run.said[0].text == "Let me see."
    assert result.fired == ("text_call_A1",)


@proves("C92")
def test_tags_beside_real_calls_are_text() -> None:
    message: JSON = {"content": CALL, "tool_calls": [{"id": "real"}]}

    assert with_text_calls(message, [add.spec], "any").message is message


@proves("C93")
@pytest.mark.parametrize(
    "text",
    [
        f"Write this:\n```\n{CALL}\n```\nand it runs.",
        f"```xml\n{CALL}\n````",
        f"````\n```\n{CALL}\n```\n````",
        f"It is `{CALL}`.",
        f"It is ``a ` {CALL}``.",
        f"`a` and `{CALL}`",
    ],
)
def test_a_tag_in_code_is_text_and_comes_back_unchanged(text: str) -> None:
    result = ask(ScriptedModel(says(text)))

    assert (result.assistant_text, result.run.results) == (text, ())


@proves("C93")
@pytest.mark.parametrize(
    "text",
    [
        f"`a` {CALL} `b`",
        f"It`s {CALL}",
        f"```\nx\n```\n{CALL}",
        f"``` {CALL} `` `",
        f"{CALL} `{SECOND}`",
    ],
)
def test_a_tag_beside_code_is_a_call(text: str) -> None:
    assert read(text) == [("add", {"a": 1, "b": 2})]


@proves("C94")
def test_an_escaped_tag_is_text_shown_as_an_entity() -> None:
    result = ask(ScriptedModel(says(f"Write \\{CALL}.")))

    assert result.assistant_text == f"Write &lt;{CALL[1:]}."
    assert result.run.results == ()


@proves("C94")
def test_an_escaped_tag_does_not_harm_its_neighbours() -> None:
    found = reading(f"{CALL}a \\{OPEN} b{SECOND}")

    assert (found.text, len(found.calls)) == ("a &lt;tool_call> b", 2)


@proves("C95")
def test_two_tags_are_two_calls_with_ids_of_their_own() -> None:
    model = ScriptedModel(says(f"{CALL}\n{SECOND}"), says("3 and 7"))

    result = ask(model)

    assert [answer.envelope["data"]["value"] for answer in result.run.results] == [3, 7]
    assert len({answer.call_id for answer in result.run.results}) == 2


@proves("C95")
@pytest.mark.parametrize(
    "broken",
    [
        f"{OPEN}{{nonsense}}{CLOSE}",
        f'{OPEN}{{"arguments": {{}}}}{CLOSE}',
        f'{OPEN}{{"name": " "}}{CLOSE}',
        f'{OPEN}{{"name": "add"',
        f'{OPEN}{{"name": "add"}} and more{CLOSE}',
        f"{OPEN}add {{nonsense}}{CLOSE}",
        f"{OPEN}{CLOSE}",
        f"{OPEN}two words{CLOSE}",
        pytest.param(f'{OPEN}{{"a": {"[" * 100_000}', id="deep"),
        pytest.param(f'{OPEN}add {{"a": {"[" * 100_000}', id="deep-after-a-name"),
    ],
)
def test_a_broken_tag_does_not_harm_its_neighbours_and_stays_text(broken: str) -> None:
    found = reading(f"{CALL}{broken}\n{SECOND}")

    assert (found.text, len(found.calls)) == (broken, 2)


@proves("C96")
@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ('add {"a": 1}', ("add", {"a": 1})),
        ('\n add\n{"a": 1}\n', ("add", {"a": 1})),
        ("add", ("add", {})),
        (" functions.add ", ("add", {})),
        ('{"name": "add"}', ("add", {})),
        ('{"name": "add", "args": {"a": 1}}', ("add", {"a": 1})),
        ('{"name": "add", "parameters": {"a": 1}}', ("add", {"a": 1})),
        ('{"name": "add", "arguments": "{\\"a\\": 1}"}', ("add", {"a": 1})),
        ('{"function": {"name": "add", "arguments": {"a": 1}}}', ("add", {"a": 1})),
        ('{"name": "add", "function": "x", "arguments": null}', ("add", {})),
    ],
)
def test_a_tag_may_hold_json_or_a_name_with_or_without_json(
    payload: str, expected: tuple[str, object]
) -> None:
    assert read(f"{OPEN}{payload}{CLOSE}") == [expected]


@proves("I20")
@pytest.mark.parametrize(
    "text", ["`x`", "```python\nprint()\n```", "a ` b", f"say {OPEN} and {CLOSE}", "tab\tline\n"]
)
def test_a_payload_may_hold_backticks_tags_and_anything(text: str) -> None:
    payload = json.dumps({"name": "note", "arguments": {"text": text}})
    model = ScriptedModel(says(f"{OPEN}{payload}{CLOSE} {OPEN}note {payload}{CLOSE}"), says("ok"))

    result = ask(model)

    assert result.run.results[0].envelope["data"] == {"value": text}
    assert len(result.run.said[0].calls) == 2


@proves("I20")
def test_raw_line_breaks_in_a_payload_are_read() -> None:
    assert read(f'{OPEN}{{"name": "note", "args": {{"text": "a\nb"}}}}') == [
        ("note", {"text": "a\nb"})
    ]


@proves("I20")
@pytest.mark.parametrize("payload", ['{"name": "add"}', "add", "add {}", '{"name": "add"}\n'])
def test_an_unclosed_last_tag_is_read(payload: str) -> None:
    assert reading(f"Well: {OPEN}{payload}").text == "Well:"
    assert read(f"{SECOND}{OPEN}{payload}")[1:] == [("add", {})]


@proves("G8")
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=25).map("".join))
def test_any_text_is_read_and_only_calls_are_taken_out_of_it(text: str) -> None:
    found = recover(text, [add.spec, note.spec])

    assert all(call.name.strip() for call in found.calls)
    if not found.calls and CLOSE not in text:
        assert found.text.replace("&lt;", "\\<") == text.replace("&lt;", "\\<")
    if OPEN not in text and CLOSE not in text:
        assert (found.text, found.calls) == (text, ())


@given(st.text(PIECES[2] + "ab{}\"' \n", max_size=30))
def test_any_text_survives_as_an_argument(text: str) -> None:
    payload = json.dumps({"name": "note", "arguments": {"text": text}})

    assert read(f"{OPEN}{payload}{CLOSE}{CALL}")[0] == ("note", {"text": text})
    assert len(read(f"{OPEN}{payload}{CLOSE}{CALL}")) == 2


def growth_of(unit: str, end: str = CALL) -> float:
    return growth(lambda size: reading(unit * (size // len(unit)) + end), 20_000)


@proves("G8")
@pytest.mark.slow
@pytest.mark.parametrize("end", ["", CALL], ids=["bare", "with-a-call"])
@pytest.mark.parametrize("unit", [OPEN, "`", f'{OPEN}{{"a":"'])
def test_twice_the_same_is_read_in_twice_the_steps(unit: str, end: str) -> None:
    assert growth_of(unit, end) < LINEAR
    reading(unit * (1_000_000 // len(unit)) + end)


@pytest.mark.parametrize(
    "unit",
    [
        f'{OPEN}{{"a":[',
        f"{OPEN}a {{",
        f"{OPEN} ",
        f"\\{OPEN}",
        f"`{OPEN}",
        "`a` ",
        "`a``b```c",
        CALL,
    ],
)
def test_reading_takes_steps_in_proportion_to_the_text(unit: str) -> None:
    assert growth_of(unit) < LINEAR


def test_ever_shorter_runs_of_backticks_take_no_longer() -> None:
    def read_runs(count: int) -> None:
        text = "a".join("`" * width for width in range(count, 0, -1)) + CALL
        assert len(reading(text).calls) == 1

    # Twice as many runs are four times the text.
    assert growth(read_runs, 350) < 2 * LINEAR
