"""Which calls of the corpus of dialects are asked about instead of run, each with its rule."""

import json

from surecall import presets
from surecall.core.doubtful_calls import settled
from surecall.values.types import JSON, Plan, ToolSpec
from surecall.wire.dialects import WRITERS
from surecall.wire.text_calls import with_text_calls
from tests.support.paths import CORPUS

DIALECTS = CORPUS / "dialects"
SHAPES = json.loads((DIALECTS / "shapes.json").read_text("utf-8"))
ROWS = json.loads((DIALECTS / "rows.json").read_text("utf-8"))
DETAILS = json.loads((DIALECTS / "details.json").read_text("utf-8"))
TOOLS = tuple(ToolSpec(tool["name"], "", tool["parameters"]) for tool in SHAPES["tools"])
CONFIG = presets.default_tool_calling()

CALL = '<tool_call>{"name": "shell", "arguments": {"line": "ls"}}</tool_call>'
TAGGED = '<invoke name="shell"><parameter name="line">ls</parameter></invoke>'
ASKED = {
    # Words follow the call, or what may be more of it.
    "last_words": [
        f"{CALL.removesuffix('</tool_call>').replace('l>{', 'l>[{')}, {{oops}}]",
        "<|tool_call_start|>[shell(line='ls'), shell(line=)]",
        "<|tool_call_start|>[shell(line='ls'), nobody(line='ls')]",
        '<|python_tag|>{"name": "shell", "parameters": {"line": "ls"}} ] x',
        f"`a`` b`` `{CALL}`",
        f"` {CALL}\n`",
        f"` a `` b ` {CALL} ``` c",
        f"`` a ` {CALL}\n`` ` ``",
        f"``` {CALL} `` `",
        f"{CALL}\nDSML is what it speaks.",
        f"{CALL} DSML",
    ],
    # Another call beside it is broken.
    "whole": [
        f'{TAGGED}<invoke name="shell">so</invoke>',
        f"<tool_call>{{nonsense}}</tool_call>\n{CALL}",
        f'<tool_call>{{"name": "shell"\n{CALL}',
    ],
}


def rule_of(case: JSON) -> str:
    """Return the rule that keeps a reply, which is all of a conversation, from running."""
    reading = with_text_calls({"content": case["text"]}, TOOLS, "any" if case["weak"] else "marked")
    claims = settled(reading, Plan("m", (), TOOLS), CONFIG).claims
    return claims[0].rule if claims else ""


def test_of_the_shapes_seen_in_the_wild_one_is_asked_about() -> None:
    asked = {case["shape"]: rule_of(case | {"weak": True}) for case in SHAPES["cases"]}

    assert {shape: names for shape, names in asked.items() if names} == {
        "naked object, then prose": "last_words"
    }


def test_of_the_rows_those_with_words_after_the_calls_are_asked_about() -> None:
    asked = {(case["row"], case["kind"]): rule_of(case) for case in ROWS if case["calls"]}

    assert {case: names for case, names in asked.items() if names} == {
        (row, "text around"): "last_words" for row in WRITERS
    }


def test_of_the_details_these_are_asked_about() -> None:
    asked = {case["text"]: rule_of({"weak": False} | case) for case in DETAILS if case["calls"]}

    assert {text: rule for text, rule in asked.items() if rule} == {
        text: rule for rule, texts in ASKED.items() for text in texts
    }
