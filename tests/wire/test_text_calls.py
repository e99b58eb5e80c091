"""Tests of `surecall.wire.text_calls`."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surecall import (
    ErrorCode,
    RequestFailed,
    RetryPolicy,
    RunResult,
    ToolCallingConfig,
    ToolLoopRunner,
    ToolRegistry,
    presets,
    replay,
    tool,
)
from surecall.settings.presets import raw
from surecall.testing import Item, ScriptedModel, calls, failure, says
from surecall.values.events import TextCallAskedEvent
from surecall.values.types import JSON, ToolSpec
from surecall.wire.dialects import RecoveredText, recover
from surecall.wire.text_calls import ECHO_REMOVED, extract_text_calls, is_nameless_call
from tests.support.spec import proves
from tests.support.timing import LINEAR, growth
from tests.support.tools import add_or_zero

# Calls that came as text are read, judged and run like any others


RAW = raw(strip_thinking=False)
DEFAULT = presets.default_tool_calling()
FALLBACK = presets.content_tag_tool_call_fallback(DEFAULT)


class Weather:
    """One tool, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def get_weather(self, city: str, days: int = 1) -> str:
        """Weather for a city."""
        self.asked.append((city, days))
        return "clear"

    def run(self, config: ToolCallingConfig, *script: Item, **settings: Any) -> RunResult:
        model = ScriptedModel(*script)
        runner = ToolLoopRunner(
            client=model,
            model="m",
            registry=[self.get_weather],
            config=config,
            retry=RetryPolicy(attempts=2, first_wait_s=0.001),
            **settings,
        )
        result = asyncio.run(runner.run("Weather?"))
        assert replay(result.trace).run == result.run
        return result


OBJECT = '{"city": "Paris", "days": 3}'
KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
KIMI += f"<|tool_call_argument_begin|>{OBJECT}<|tool_call_end|><|tool_calls_section_end|>"
QWEN = "<function=get_weather><parameter=city>Paris</parameter>"
QWEN += "<parameter=days>3</parameter></function>"
GLM = "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"
GLM += "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>"
MINIMAX = '<minimax:tool_call><invoke name="get_weather"><parameter name="city">Paris</parameter>'
MINIMAX += '<parameter name="days">3</parameter></invoke></minimax:tool_call>'
MARKED = [
    f'<tool_call>{{"name": "get_weather", "arguments": {OBJECT}}}</tool_call>',
    f"[TOOL_CALLS]get_weather[ARGS]{OBJECT}",
    f'<think>Hm.</think><tool_call>{{"name": "get_weather", "arguments": {OBJECT}}}',
    KIMI,
    QWEN,
    GLM,
    MINIMAX,
]


@pytest.mark.parametrize("text", MARKED)
def test_marked_calls_are_read_by_default_without_knowing_the_model(text: str) -> None:
    weather = Weather()
    result = weather.run(DEFAULT, says(text), says("Clear."))

    assert weather.asked == [("Paris", 3)]
    assert result.assistant_text == "Clear."
    assert any(name.startswith("text_call_") for name in result.repairs)


@pytest.mark.parametrize("text", MARKED)
def test_raw_takes_text_for_text(text: str) -> None:
    weather = Weather()

    assert weather.run(RAW, says(text)).assistant_text == text
    assert weather.asked == []


NAKED = [
    '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}',
    '[get_weather(city="Paris", days=3)]',
]


@pytest.mark.parametrize("text", NAKED)
def test_naked_calls_are_asked_about_and_run_with_the_fallback_preset(text: str) -> None:
    cautious, bold = Weather(), Weather()
    result = cautious.run(DEFAULT, says(text), says("I only showed it."))
    bold.run(FALLBACK, says(text), says("Clear."))

    assert (cautious.asked, bold.asked) == ([], [("Paris", 3)])
    assert result.assistant_text == "I only showed it."


APPARENT = [
    "I look.\n\n<get_weather>\n<city>Paris</city>\n</get_weather>",
    '{"tool_calls": [{"type": "function", "function": {"name": "no_such", "arguments": "{}"}}]}',
    '<|open|>call tool="get_weather"<|sep|>Parisargument<|close|>',
]


@pytest.mark.parametrize("text", APPARENT)
def test_what_ends_a_reply_and_looks_like_a_call_is_asked_about(text: str) -> None:
    weather = Weather()
    result = weather.run(DEFAULT, says(text), calls("get_weather", city="Paris"), says("Clear."))

    asked = [event.rule for event in result.trace if isinstance(event, TextCallAskedEvent)]
    assert (asked, weather.asked) == (["marked"], [("Paris", 1)])


@pytest.mark.parametrize(
    "text",
    [
        "<get_weather><town>Paris</town></get_weather>",  # nothing of it is declared
        '{"tool_calls": []}',
        '{"tool_calls": [{"function": {}}]}',
        '{"tool_calls" [}',
        "Use get_weather(…)",
        "<get_weather><city>Paris</city></get_weather> is how it is written.",
        "The list of <city> elements of get_weather: [Paris]",
    ],
)
def test_what_does_not_look_like_a_call_is_an_answer(text: str) -> None:
    assert Weather().run(DEFAULT, says(text)).assistant_text == text


def test_what_a_tool_said_and_looks_like_a_call_is_an_answer() -> None:
    weather = Weather()
    quoted = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
    history = [{"role": "user", "content": f"Repeat: {quoted}"}]
    model = ScriptedModel(says(quoted))
    runner = ToolLoopRunner(client=model, model="m", registry=[weather.get_weather], config=DEFAULT)

    assert asyncio.run(runner.run(history=history)).assistant_text == quoted
    assert weather.asked == []


def test_a_call_that_was_cut_off_never_runs() -> None:
    weather = Weather()
    cut = '<tool_call>{"name": "get_weather", "arguments": {"city": "Par'
    result = weather.run(DEFAULT, says(cut), says("Sorry."))

    assert weather.asked == []
    assert result.run.results[0].error_codes == (ErrorCode.ARGUMENTS_JSON_PARSE_ERROR,)


def test_thoughts_are_kept_out_of_the_answer() -> None:
    result = Weather().run(DEFAULT, says("<think>Easy.</think>It is clear."))

    assert result.assistant_text == "It is clear."
    assert "thinking_kept_apart" in result.repairs


THOUGHT = "<think>Easy: `</think>` ends it.</think>It is clear."


@pytest.mark.parametrize("text_calls", ["off", "marked", "any"])
def test_thoughts_leave_the_answer_whether_or_not_calls_are_read(text_calls: str) -> None:
    config = DEFAULT.replace(text_calls=text_calls)
    result = Weather().run(config, says(THOUGHT))

    assert result.assistant_text == "It is clear."
    assert result.run.replies[-1].extra["reasoning_content"] == "Easy: `</think>` ends it."


@pytest.mark.parametrize("text_calls", ["off", "marked", "any"])
def test_thoughts_can_be_left_in_the_answer(text_calls: str) -> None:
    config = DEFAULT.replace(text_calls=text_calls, strip_thinking=False)

    assert Weather().run(config, says(THOUGHT)).assistant_text == THOUGHT


def test_thoughts_that_stay_in_the_answer_do_not_hide_the_call() -> None:
    weather = Weather()
    config = DEFAULT.replace(strip_thinking=False)
    result = weather.run(config, says(f"<think>Hm.</think>{QWEN}"), says("Clear."))

    assert weather.asked == [("Paris", 3)]
    assert result.run.replies[0].text == "<think>Hm.</think>"


def test_with_calls_off_a_tagged_call_beside_thoughts_stays_text() -> None:
    weather = Weather()
    result = weather.run(raw(), says(f"<think>Hm.</think>{QWEN}"))

    assert (result.assistant_text, weather.asked) == (QWEN, [])


@pytest.mark.parametrize("text", ["<think>Only thoughts", "No marks.", "Say </tool_call>"])
def test_with_calls_off_nothing_but_thoughts_is_touched(text: str) -> None:
    assert Weather().run(raw(fix_empty_final=False), says(text)).assistant_text == text


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_call_inside_the_reasoning_counts_when_there_is_nothing_else(field: str) -> None:
    weather = Weather()
    weather.run(DEFAULT, says("", **{field: MARKED[0]}), says("Clear."))
    weather.run(DEFAULT, says("It is clear.", **{field: MARKED[0]}))

    assert weather.asked == [("Paris", 3)]


def test_a_call_after_the_end_of_the_thought_counts_where_all_of_it_is_in_the_reasoning() -> None:
    weather = Weather()
    weather.run(DEFAULT, says("", reasoning=f"I look it up.</think>{KIMI}"), says("Clear."))

    assert weather.asked == [("Paris", 3)]


def test_a_blank_reply_with_plain_thoughts_has_no_calls() -> None:
    script = (says(MARKED[0]), says("", reasoning="Let me see."), says("Clear."))

    assert Weather().run(DEFAULT, *script).assistant_text == "Clear."


def test_talk_about_calls_stays_talk() -> None:
    text = "Write `<tool_call>{...}</tool_call>` to call a tool."

    assert Weather().run(FALLBACK, says(text)).assistant_text == text


def groq(generation: str) -> Item:
    error = {"code": "tool_use_failed", "message": "Failed.", "failed_generation": generation}
    return failure(400, {"error": error})


def test_a_failed_generation_is_read_as_what_the_model_wrote() -> None:
    weather = Weather()
    result = weather.run(DEFAULT, groq(NAKED[0]), says("Clear."))

    assert weather.asked == [("Paris", 3)]
    assert result.repairs[0] == "failed_generation_to_message"


def test_a_failed_generation_without_a_call_is_asked_for_again() -> None:
    assert Weather().run(DEFAULT, groq("Well."), says("Clear.")).assistant_text == "Clear."

    with pytest.raises(RequestFailed) as failed:
        Weather().run(DEFAULT, groq("Well."), groq("Well."))
    assert failed.value.code is ErrorCode.MALFORMED_CALL


def test_raw_takes_a_failed_generation_for_an_error() -> None:
    with pytest.raises(RequestFailed) as failed:
        Weather().run(raw(), groq(NAKED[0]), groq(NAKED[0]))
    assert failed.value.code is ErrorCode.MALFORMED_CALL


@pytest.mark.parametrize(
    ("text", "nameless"),
    [
        ('<tool_call>\n{"name": "Find a file", "arguments": {"q": 1}}\n</tool_call>', True),
        ('<tool_call id="1">{"arguments": {"q": 1}}</tool_call><|im_end|>', True),
        ('<tool_call>[{"function": {"name": "A b", "arguments": "{}"}}]', True),
        ('[TOOL_CALLS][{"name": "Find a file", "arguments": {}}]', True),
        ('<|python_tag|>{"name": "Find a file", "parameters": {"q": 1}}', True),
        ("<tool_call>{...}</tool_call>", False),
        ("<tool_call></tool_call>", False),
        ('<tool_call>{"name": "Find a file", "arguments": {"q": 1}}</tool_call> is it', False),
        ('Look: <tool_call>{"name": "Find a file", "arguments": {}}</tool_call>', False),
        ('<tool_call> takes {"name": "x", "arguments": {}}', False),
        ('<tool_call>{"name": "Find a file", "parameters": {"type": "object"}}', False),
        ('<tool_call>{"name": "Find a file"}</tool_call>', False),
        ('<tool_call>[["arguments"], {}]</tool_call>', False),
        ('<tool_call>{"function": "x", "arguments": {}}</tool_call>', True),
        ('{"name": "Find a file", "arguments": {}}', False),
        ("", False),
    ],
)
def test_a_marked_call_with_a_sentence_for_a_name_is_no_answer(
    text: str, *, nameless: bool
) -> None:
    assert is_nameless_call(text) is nameless


WEATHER = ToolSpec("get_weather", "", {"type": "object", "properties": {"city": {}, "days": {}}})


def test_a_call_that_is_said_once_more_in_the_text_is_made_once() -> None:
    native = {"id": "1", "function": {"name": "get_weather", "arguments": OBJECT}}
    reading = extract_text_calls({"content": KIMI, "tool_calls": [native]}, [WEATHER], "marked")

    assert reading.repairs == (ECHO_REMOVED,)
    assert reading.message == {"content": None, "tool_calls": [native]}


def test_a_call_in_the_text_is_not_taken_for_one_whose_arguments_cannot_be_read() -> None:
    native = {"id": "1", "function": {"name": "get_weather", "arguments": '{"city": '}}
    message = {"content": KIMI, "tool_calls": [native]}

    assert extract_text_calls(message, [WEATHER], "marked").repairs == ()


def test_a_text_that_is_nothing_but_a_broken_call_claims_to_be_one() -> None:
    text = '{"name": "get_weather", "arguments": {"city": Paris "days"}}'
    reading = extract_text_calls({"content": text}, [WEATHER], "marked")

    assert [claim.name for claim in reading.claims] == ["get_weather"]
    assert reading.apparent == text


# Calls written as text: what is one, what is not, and how long it may take to tell


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
        registry=ToolRegistry([add_or_zero, note]),
        config=CONFIG.replace(request_overrides={}),
        retry=RetryPolicy(attempts=1),
    )
    return asyncio.run(runner.run("1 + 2?"))


def reading(text: str) -> RecoveredText:
    return recover(text, [add_or_zero.spec, note.spec], weak=True)


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
    assert result.run.replies[0].text == "Let me see."
    assert result.repairs == ("text_call_A1",)


@proves("C92")
def test_tags_beside_real_calls_are_text() -> None:
    message: JSON = {"content": CALL, "tool_calls": [{"id": "real"}]}

    assert extract_text_calls(message, [add_or_zero.spec], "any").message is message


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
    assert len(result.run.replies[0].calls) == 2


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
    found = recover(text, [add_or_zero.spec, note.spec])

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
