"""Tests of `surecall.wire.dialects.recovery`."""

import json
from typing import Any

import pytest

from surecall.parsing.budget import MAX_CALLS, MAX_TEXT
from surecall.values.types import JSON, ToolCall, ToolSpec
from surecall.wire.dialects import (
    WEAK_ROWS,
    WRITERS,
    RecoveredCall,
    RecoveredText,
    extract_reasoning,
    recover,
)
from surecall.wire.dialects.spelling import LEAD
from tests.support.project_files import CORPUS

# Calls written as text, in every dialect: what is taken, what is left, and why


DIALECTS = CORPUS / "dialects"
SHAPES = json.loads((DIALECTS / "shapes.json").read_text("utf-8"))
DETAILS = json.loads((DIALECTS / "details.json").read_text("utf-8"))
ROWS = json.loads((DIALECTS / "rows.json").read_text("utf-8"))
TOOLS = [ToolSpec(tool["name"], "", tool["parameters"]) for tool in SHAPES["tools"]]
CALL = '<tool_call>{"name": "shell", "arguments": {"line": "ls"}}</tool_call>'
SHELL = ("shell", {"line": "ls"})


def read(text: str, *, weak: bool = False) -> list[tuple[str, Any]]:
    """Return the names and arguments of the calls in a text."""
    return [(call.name, call.arguments) for call in recover(text, TOOLS, weak=weak).calls]


def only(found: RecoveredText) -> RecoveredCall:
    (call,) = found.calls
    return call


def tool(parameters: JSON) -> list[ToolSpec]:
    return [ToolSpec("t", "", {"type": "object", "properties": parameters})]


@pytest.mark.parametrize("case", SHAPES["cases"], ids=lambda case: case["shape"])
def test_a_shape_seen_in_the_wild_is_read_as_it_was_meant(case: JSON) -> None:
    found = recover(case["text"], TOOLS, weak=True)

    assert [{"name": call.name, "arguments": call.arguments} for call in found.calls] == case[
        "calls"
    ]
    assert found.text.strip() == case["rest"].strip()
    assert not any(call.truncated for call in found.calls)


@pytest.mark.parametrize("case", ROWS, ids=lambda case: f"{case['row']}: {case['kind']}")
def test_every_dialect_is_recognised_by_its_marks_alone(case: JSON) -> None:
    found = recover(case["text"], TOOLS, weak=case["weak"])

    assert [{"name": call.name, "arguments": call.arguments} for call in found.calls] == case[
        "calls"
    ]
    assert {call.dialect for call in found.calls} <= {case["row"]}
    assert all(call.truncated is case["truncated"] for call in found.calls)
    lines = (
        [line.strip() for line in found.text.split("\n")] if "|" in case["rest"] else [found.text]
    )
    assert "|".join(line for line in lines if line) == case["rest"]


def test_every_dialect_has_a_writer_and_all_five_cases() -> None:
    kinds = {"plain", "two calls", "text around", "truncated", "closer inside"}

    assert {(case["row"], case["kind"]) for case in ROWS} == {
        (row, kind) for row in WRITERS for kind in kinds
    }


@pytest.mark.parametrize("row", sorted(WEAK_ROWS))
def test_calls_without_a_mark_are_read_only_on_request(row: str) -> None:
    text = WRITERS[row]([ToolCall("", "shell", {"line": "ls"})], "")

    assert (read(text), read(text, weak=True)) == ([], [SHELL])


def test_the_rest_of_the_text_keeps_its_order_and_spacing() -> None:
    found = recover(f"One.\n\n  Two.\n{CALL}\n\nThree.\n", TOOLS)

    assert found.text == "One.\n\n  Two.\n\n\nThree."


def test_a_call_tells_where_it_stood() -> None:
    text = f"Well. {CALL}"
    call = only(recover(text, TOOLS))

    assert text[call.start : call.end] == '{"name": "shell", "arguments": {"line": "ls"}}'
    assert (call.dialect, call.grammar, call.in_reasoning) == ("A1", "A", False)


@pytest.mark.parametrize(
    ("text", "call_id"),
    [
        ('<tool_call id="c7">{"name": "shell", "arguments": {}}</tool_call>', "c7"),
        ("<|tool_call_begin|>functions.shell:3<|tool_call_argument_begin|>{}", "functions.shell:3"),
        ("[TOOL_CALLS]shell[CALL_ID]abc123def[ARGS]{}", "abc123def"),
        ('[TOOL_CALLS][{"name": "shell", "arguments": {}, "id": "x1y2z3w4v"}]', "x1y2z3w4v"),
        ("<|tool_call:begin|>ID9<|tool_call:name|>shell<|tool_call:args|>{}", "ID9"),
        ('<invoke name="shell" id="i1"></invoke>', "i1"),
        ("<function=shell></function>", None),
    ],
)
def test_an_id_is_kept_letter_for_letter(text: str, call_id: str | None) -> None:
    assert only(recover(text, TOOLS)).id == call_id


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<think>Hm.</think>{CALL}", ([SHELL], "", "Hm.")),
        (f"<think>Perhaps {CALL}</think>No.", ([], "No.", f"Perhaps {CALL}")),
        (f"<think>I will.\n{CALL}", ([SHELL], "", "I will.")),
        ("<think>I wonder", ([], "", "I wonder")),
        (f"Perhaps {CALL}\n</think>\nNo.", ([], "No.", f"Perhaps {CALL}")),
        (f"a\n</think>\n{CALL}", ([SHELL], "", "a")),
        (f"Not \\{CALL}\n</think>\nNo.", ([], "No.", f"Not \\{CALL}")),
        ("<scratch_pad>Hm.</scratch_pad>Yes.", ([], "Yes.", "Hm.")),
        ("<think>`</think>` ends it.</think>Yes.", ([], "Yes.", "`</think>` ends it.")),
        ("Say </think> aloud.", ([], "Say </think> aloud.", "")),
        (f"[THINK]x[/THINK]{CALL}", ([SHELL], "", "x")),
        ("a\n<think>b</think>\nc", ([], "a\n\nc", "b")),
        ("a\n<think>b", ([], "a\n<think>b", "")),
        ("<think>a<think>b</think>c", ([], "c", "a<think>b")),
        (f"<think>a\n{CALL}\n{CALL}</think>", ([SHELL, SHELL], "", "a")),
        (f"<think>{CALL} or not</think>", ([], "", f"{CALL} or not")),
        (
            "<think>so <function=shell><parameter=line>ls</think>Yes.",
            ([], "Yes.", "so <function=shell><parameter=line>ls"),
        ),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", None),
    ],
)
def test_calls_in_finished_reasoning_are_drafts(
    text: str, expected: tuple[list[Any], str, str] | None
) -> None:
    found = recover(text, TOOLS)

    if expected is not None:
        assert (read(text), found.text, found.reasoning) == expected


def test_a_call_from_reasoning_says_so() -> None:
    assert only(recover(f"<think>a\n{CALL}</think>", TOOLS)).in_reasoning
    assert not only(recover(f"<think>a\n{CALL}", TOOLS)).in_reasoning


def test_reasoning_can_be_kept_in_the_text() -> None:
    text = f"<think>a</think>\nb\n{CALL}"

    assert recover(text, TOOLS, keep_reasoning=True).text == "<think>a</think>\nb"


def test_frames_around_an_answer_are_taken_off() -> None:
    assert recover("<|START_RESPONSE|>Yes.<|END_RESPONSE|>", TOOLS).text == "Yes."
    assert recover("`</tool_call>", TOOLS).text == "`"
    assert recover("```\n[/TOOL_CALLS]", TOOLS).text == "```\n[/TOOL_CALLS]"


@pytest.mark.parametrize("case", DETAILS, ids=range(len(DETAILS)))
def test_a_detail_is_read_as_it_was_meant(case: JSON) -> None:
    found = read(case["text"], weak=case.get("weak", False))

    assert [list(call) for call in found] == case["calls"]


@pytest.mark.parametrize("depth", ["[" * 5000, "[" * 100, f"{LEAD}<a>" * 100])
def test_depth_that_nobody_needs_is_refused(depth: str) -> None:
    openers = (
        '<tool_call>{"name": "shell", "arguments": {"line": ',
        "<tool_call>{'name': 'shell', 'arguments': {'line': ",
        f'{LEAD}<invoke name="shell">',
    )
    assert [read(opener + depth + "</tool_call>") for opener in openers] == [[], [], []]


@pytest.mark.parametrize(
    ("schema", "raw", "value"),
    [
        ({"type": "string"}, " 12 ", " 12 "),
        ({"type": "integer"}, " 12 ", 12),
        ({"type": "integer"}, "5.0", 5),
        ({"type": "integer"}, "+5", 5),
        ({"type": "integer"}, "5.5", "5.5"),
        ({"type": "number"}, "5", 5),
        ({"type": "number"}, "-0.5", -0.5),
        ({"type": "number"}, "inf", "inf"),
        ({"type": "number"}, "1_0", "1_0"),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "1", True),
        ({"type": ["boolean", "integer"]}, "1", 1),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": "object"}, "{'a': 1}", {"a": 1}),
        ({"type": "object"}, "[1]", "[1]"),
        ({"type": "object"}, "{oops}", "{oops}"),
        ({"type": "object"}, "{} {}", "{} {}"),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": True}, "true", True),
        ({"$ref": "#/$defs/count"}, "7", 7),
        ({"$ref": "#/$defs/loop"}, "7", "7"),
        ({"$ref": "#/$defs/none"}, "7", "7"),
        ({"$ref": "elsewhere"}, "7", "7"),
        ({"$ref": "#/$defs/deep"}, "7", "7"),
        ({}, "7", "7"),
        ("nonsense", "7", "7"),
        (None, "7", 7),
        (None, "seven", "seven"),
    ],
)
def test_raw_text_gets_the_type_that_is_declared(schema: Any, raw: str, value: Any) -> None:
    parameters: JSON = {"type": "object", "properties": {} if schema is None else {"x": schema}}
    parameters["$defs"] = {
        "count": {"type": "integer"},
        "loop": {"$ref": "#/$defs/loop"},
        "deep": {"anyOf": [{"$ref": "#/$defs/deep"}]},
    }
    text = f'<invoke name="t"><parameter name="x">{raw}</parameter></invoke>'

    assert only(recover(text, [ToolSpec("t", "", parameters)])).arguments == {"x": value}


def test_an_escaped_tag_is_shown_as_an_entity() -> None:
    assert recover(f"Write \\{CALL}", TOOLS).text == f"Write &lt;{CALL[1:]}"


def test_what_looked_like_a_call_and_was_none_is_explained() -> None:
    passed = recover("Write <tool_call> and <function=...> so.", TOOLS).passed_over

    assert [(one.start, one.snippet[:10]) for one in passed] == [
        (6, "<tool_call"),
        (22, "<function="),
    ]
    assert all(one.reason for one in passed)


def test_after_too_many_broken_calls_the_rest_stays_text() -> None:
    broken = "<tool_call>{" * 2000
    found = recover(broken + CALL, TOOLS)

    assert (found.calls, found.text) == ((), broken + CALL)
    assert found.passed_over[-1].reason


@pytest.mark.parametrize(("name", "rule"), [("shell", "whole"), ("other", "")])
def test_a_text_that_is_too_long_is_not_searched_and_says_so(name: str, rule: str) -> None:
    text = "x" * MAX_TEXT + f"<tool_call>{name}"
    found = recover(text, TOOLS)

    assert (found.calls, found.text) == ((), text)
    assert [(one.rule, "not searched" in one.reason) for one in found.passed_over] == [(rule, True)]
    assert extract_reasoning(text).text == text


def test_a_long_text_without_a_mark_is_plain_text() -> None:
    text = "x" * (MAX_TEXT + 1)

    assert recover(text, TOOLS) == RecoveredText(text, text)


def test_arguments_that_are_announced_and_never_come_are_cut_off() -> None:
    (call,) = recover("[TOOL_CALLS]shell[ARGS]", ()).calls

    assert call.truncated


GUILLEMETS = '«call shell {"line": "ls"}»'


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (GUILLEMETS, ""),
        (f"Oui.\n  {GUILLEMETS}  \nOk.", "Oui. Ok."),
        ('«call shell {\n  "line": "ls"\n}\n»\n', ""),
        ('«call shell {"line": "ls",} »', ""),
    ],
)
def test_a_mark_that_prose_has_too_is_read_where_it_has_its_lines_to_itself(
    text: str, rest: str
) -> None:
    found = recover(text, TOOLS, weak=True)

    assert [(call.name, call.arguments, call.truncated) for call in found.calls] == [
        (*SHELL, False)
    ]
    assert " ".join(found.text.split()) == rest
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"Say {GUILLEMETS}", "it is not at the start of a line"),
        (f"{GUILLEMETS} is the form.", "its closing mark does not end the line"),
        (f"{GUILLEMETS}.", "its closing mark does not end the line"),
        (f"{GUILLEMETS[:-1]}\nand so on", "its closing mark does not end the line"),
        ("«call shell»", "neither arguments nor a closing tag follow the name"),
        ("«call shell", "its closing mark does not end the line"),
        ('shell?\n«call {"name": "nobody", "arguments": {}}»', "no tool is named 'nobody'"),
    ],
)
def test_elsewhere_such_a_mark_stays_text_and_is_explained(text: str, reason: str) -> None:
    found = recover(text, TOOLS, weak=True)

    assert (found.calls, found.text) == ((), text)
    assert reason in [passed.reason for passed in found.passed_over]


@pytest.mark.parametrize(
    "text", ['«call shell {"line": "ls"}', '«call shell {"line": "l', "«call shell {"]
)
def test_such_a_mark_that_the_text_ends_in_is_cut_off_and_does_not_run(text: str) -> None:
    assert only(recover(text, TOOLS, weak=True)).truncated


@pytest.mark.parametrize(
    "follows", ["", " ", "\n", ")", "[1, 2]", "[]", '{"line": "ls"}', '"ls"', "1", ", 2)", ".x"]
)
def test_a_printed_name_without_brackets_is_no_call(follows: str) -> None:
    text = f"```tool_code\nprint(default_api.shell{follows}"
    assert [call for call in recover(text, TOOLS).calls if not call.truncated] == []


# Text that could be meant in two ways, or for somebody else: nothing of it runs


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "<tool_call>shell(line='ls', 'x')</tool_call>", id="no name after one with a name"
        ),
        pytest.param(
            '<tool_call>{"name": "shell", "arguments": {line: """ls"""}}</tool_call>',
            id="three quotes where Python is not written",
        ),
        pytest.param(
            r"<|tool_call_start|>[shell(line='a\n\q')]<|tool_call_end|>",
            id="a backslash that escapes nothing beside one that does",
        ),
        pytest.param(
            "<|tool_call_start|>[shell(line='ls', # or not\n)]<|tool_call_end|>",
            id="a comment after a text",
        ),
        pytest.param('[TOOL_CALLS]--[ARGS]{"name": "shell", "line": "ls"}', id="a name of marks"),
        pytest.param("[TOOL_CALLS]shell so", id="words in the place of arguments"),
        pytest.param("[TOOL_CALLS]shell, or so", id="a name that a sentence goes on after"),
        pytest.param("[TOOL_CALLS]shell; then more", id="a name before a semicolon"),
        pytest.param("[TOOL_CALLS]shell, shell", id="names in a row"),
        pytest.param(
            '<tool_call>{"name": "shell", "arguments": {"line": "ls"}, "line": "rm"}</tool_call>',
            id="arguments in two places",
        ),
        pytest.param('to=self I could say shell({"line": "ls"}).', id="meant for itself"),
        pytest.param("to=user Say shell(line='ls').", id="meant for the user"),
        pytest.param("to=user<|message|>Hello", id="a message to the user"),
    ],
)
def test_what_is_not_clearly_a_call_is_none(text: str) -> None:
    assert read(text, weak=True) == []


@pytest.mark.parametrize("text", ["[TOOL_CALLS]shell", "[TOOL_CALLS]shell\n[note]"])
def test_a_name_alone_is_a_call_where_the_text_or_another_mark_ends_it(text: str) -> None:
    assert [call.name for call in recover(text, TOOLS, weak=False).calls] == ["shell"]


def test_an_answer_that_is_marked_after_its_beginning_is_text() -> None:
    found = recover("So: <|START_RESPONSE|>it is done<|END_RESPONSE|>", TOOLS, weak=False)

    assert found.calls == ()
    assert "it is done" in found.text


def test_fences_after_words_show_calls() -> None:
    fence = '```tool_call\n{"name": "shell", "arguments": {"line": "ls"}}\n```'

    assert read(f"For example:\n{fence}\n{fence}") == []


def test_a_dialogue_after_a_call_quotes_its_calls() -> None:
    assert read(f"{CALL}\n\nUser: and now?\n\nAssistant: {CALL}") == [SHELL]


def test_a_key_that_is_cut_off_is_no_argument() -> None:
    (call,) = recover("<tool_call>shell\n<arg_key>li", TOOLS, weak=False).calls

    assert (call.name, call.arguments, call.truncated) == ("shell", {}, True)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(CALL.removesuffix("</tool_call>"), id="not closed"),
        pytest.param(CALL.replace("}}", "}"), id="a brace is missing"),
    ],
)
def test_a_call_that_is_broken_off_before_another_may_have_ended_too_early(first: str) -> None:
    other = "<|tool_call_start|>[shell(line='ls')]<|tool_call_end|>"
    found = recover(f"{first}\n{other}", TOOLS, weak=False)

    assert [(call.name, call.arguments) for call in found.calls] == [SHELL, SHELL]
    assert found.may_end_early


def test_more_calls_than_anybody_means_stay_text() -> None:
    found = recover(CALL * (MAX_CALLS + 3), TOOLS, weak=False)

    assert len(found.calls) == MAX_CALLS + 1
    assert found.text.count("<tool_call>") == 2


NESTED = {
    "filters": {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}},
            "most": {"type": "integer"},
        },
    }
}


@pytest.mark.parametrize("row", sorted(WRITERS))
def test_values_inside_values_are_written_so_that_they_are_read(row: str) -> None:
    meant = {"filters": {"tags": ["a", "b"], "most": 3}}
    text = WRITERS[row]([ToolCall("call_1", "t", meant)], "")

    (call,) = recover(text, tool(NESTED), weak=True).calls
    assert (call.name, call.arguments) == ("t", meant)


def test_of_a_long_row_of_openers_eight_belong_to_the_call_and_the_others_are_text() -> None:
    call = '{"name": "shell", "arguments": {"line": "ls"}}</tool_call>'
    found = recover("<tool_call>" * 10 + call, TOOLS)

    assert [one.name for one in found.calls] == ["shell"]
    assert found.text == "<tool_call>" * 2


# Texts that mention, quote or resemble tool calls, and that a careful reader leaves alone


PROSE = json.loads((DIALECTS / "prose.json").read_text("utf-8"))
PROSE_TOOLS = [
    ToolSpec(tool["name"], "", tool["parameters"])
    for tool in json.loads((DIALECTS / "shapes.json").read_text("utf-8"))["tools"]
]


def test_the_corpus_of_prose_is_large() -> None:
    assert len(PROSE) == len(set(PROSE)) >= 200


@pytest.mark.parametrize("weak", [False, True], ids=["strong", "weak"])
@pytest.mark.parametrize("text", PROSE, ids=range(len(PROSE)))
def test_prose_is_not_taken_for_a_call_and_comes_back_unchanged(text: str, weak: bool) -> None:  # noqa: FBT001
    found = recover(text, PROSE_TOOLS, weak=weak)

    assert (found.calls, found.text) == ((), text)
